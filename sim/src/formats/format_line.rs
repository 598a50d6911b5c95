//! A format line of nginx or Apache, as it stands in their configuration.
//!
//!     $remote_addr - $remote_user [$time_local] "$request" $status
//!     %h %l %u %t "%r" %>s
//!
//! Names that are not known here are fields at which nobody looks.

use std::fmt;
use std::str::FromStr;

use crate::formats::pattern::{Field, Kind, Pattern, find};
use crate::timestamp::Form;

/// Why a format line is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatProblem {
    /// It names no field.
    NoField,
    /// No field tells the time.
    NoTime,
    /// The time lacks the date or the time of day.
    HalfATime(String),
    /// Nothing stands between two fields, so nobody knows where the first ends.
    NothingBetween(String, String),
    /// A `%` or a `${` that names nothing.
    NotAName(String),
}

impl std::error::Error for FormatProblem {}

impl fmt::Display for FormatProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatProblem::NoField => f.write_str(
                "a format line names fields as nginx ($remote_addr) or Apache (%h) does",
            ),
            FormatProblem::NoTime => f.write_str(
                "no field tells the time, as $time_local, $time_iso8601, $msec and %t do",
            ),
            FormatProblem::HalfATime(format) => {
                write!(f, "'{format}' does not tell date and time of day")
            }
            FormatProblem::NothingBetween(a, b) => {
                write!(f, "nothing stands between {a} and {b}, so it is open where the first ends")
            }
            FormatProblem::NotAName(at) => write!(f, "no field is named at '{at}'"),
        }
    }
}

/// What a format line consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Text(String),
    Field(String, Role),
}

/// What is known of a field by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Is(Kind),
    /// A path that the server may have rewritten.
    InnerPath,
    /// A query, with or without its question mark.
    Query,
    /// The client's port.
    Port,
    /// A part of a time, in the words of `strftime`.
    TimePart(String),
}

impl FromStr for Pattern {
    type Err = FormatProblem;

    fn from_str(text: &str) -> Result<Pattern, FormatProblem> {
        let text = unquoted(text);
        let mut tokens = match is_nginx(&text) {
            true => nginx(&text, nginx_role)?,
            false => apache(&text)?,
        };
        join_times(&mut tokens)?;
        join_ports_and_queries(&mut tokens);
        choose(&mut tokens);
        pattern(tokens)
    }
}

/// A pattern by a line in the words of nginx, with a few more names.
pub fn built_in(text: &str) -> Pattern {
    let role = |name: &str| match name {
        "vhost" => Role::Is(Kind::Host),
        "identity" => Role::Is(Kind::Identity),
        "user" => Role::Is(Kind::GuessedUser),
        "time_haproxy" => Role::Is(Kind::Time(Form::Local)),
        name => nginx_role(name),
    };
    let tokens = nginx(text, role).map(|mut tokens| {
        join_ports_and_queries(&mut tokens);
        tokens
    });
    tokens.and_then(pattern).expect("a format line that stands in this program")
}

/// The text as the server has it: strings in quotes joined, and escapes resolved.
fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let parts: Vec<&str> = match (inner('\''), inner('"')) {
        (Some(inner), _) => inner.split('\'').step_by(2).collect(),
        // Quotes of the line itself are escaped within others.
        (_, Some(inner)) if inner.contains("\\\"") => vec![inner],
        _ => vec![text],
    };
    let (text, mut unescaped) = (parts.concat(), String::new());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('t') => unescaped.push('\t'),
                // Ends of lines are no part of a line.
                Some('n') => {}
                Some(escaped) => unescaped.push(escaped),
                None => unescaped.push('\\'),
            },
            char => unescaped.push(char),
        }
    }
    unescaped
}

/// Whether a variable of nginx stands in it.
fn is_nginx(text: &str) -> bool {
    let follows =
        |rest: &str| rest.starts_with(|char: char| char.is_ascii_lowercase() || char == '{');
    text.split('$').skip(1).any(follows)
}

fn nginx(text: &str, role: impl Fn(&str) -> Role) -> Result<Vec<Token>, FormatProblem> {
    let mut tokens = Tokens::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        tokens.text(before);
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let (name, tail) = match after.strip_prefix('{') {
            Some(after) => after.split_once('}').unwrap_or_default(),
            None => after.split_at(after.find(|char| !is_part(char)).unwrap_or(after.len())),
        };
        if name.is_empty() || !name.chars().all(is_part) {
            return Err(FormatProblem::NotAName(format!("${}", shown(after))));
        }
        tokens.field(format!("${name}"), role(name));
        rest = tail;
    }
    tokens.text(rest);
    Ok(tokens.0)
}

fn nginx_role(name: &str) -> Role {
    Role::Is(match name {
        "remote_addr" => Kind::Ip,
        "http_x_forwarded_for" | "proxy_add_x_forwarded_for" => Kind::Forwarded,
        "remote_user" => Kind::User,
        "time_local" => Kind::Time(Form::Access),
        "time_iso8601" => Kind::Time(Form::Iso),
        "msec" => Kind::Time(Form::Number),
        "request" => Kind::Request,
        "request_uri" => Kind::Path,
        "status" => Kind::Status,
        "uri" | "document_uri" => return Role::InnerPath,
        "args" | "query_string" | "is_args" => return Role::Query,
        "remote_port" => return Role::Port,
        _ => Kind::Other,
    })
}

fn apache(text: &str) -> Result<Vec<Token>, FormatProblem> {
    let mut tokens = Tokens::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        tokens.text(before);
        // Which answers are logged, and whether the request before or after redirections.
        let directive =
            after.trim_start_matches(|char: char| "!,<>".contains(char) || char.is_ascii_digit());
        let (argument, letter) = match directive.strip_prefix('{') {
            Some(inner) => inner.split_once('}').unwrap_or_default(),
            None => ("", directive),
        };
        let length = if letter.starts_with('^') { 3 } else { 1 };
        let Some((letter, tail)) = letter.split_at_checked(length) else {
            return Err(FormatProblem::NotAName(format!("%{}", shown(after))));
        };
        let name = format!(
            "%{}{letter}",
            if argument.is_empty() { String::new() } else { format!("{{{argument}}}") }
        );
        rest = tail;
        match (letter, argument) {
            ("%", _) => tokens.text("%"),
            ("t", "") => {
                tokens.text("[");
                tokens.field(name, Role::Is(Kind::Time(Form::Access)));
                tokens.text("]");
            }
            _ if letter.chars().all(|char| char.is_ascii_alphabetic() || char == '^') => {
                tokens.field(name, apache_role(letter, argument));
            }
            _ => return Err(FormatProblem::NotAName(format!("%{}", shown(after)))),
        }
    }
    tokens.text(rest);
    Ok(tokens.0)
}

fn apache_role(letter: &str, argument: &str) -> Role {
    Role::Is(match (letter, argument) {
        ("h" | "a", "") => Kind::Ip,
        ("i", header) if header.eq_ignore_ascii_case("X-Forwarded-For") => Kind::Forwarded,
        ("u", _) => Kind::User,
        ("r", _) => Kind::Request,
        ("s", _) => Kind::Status,
        ("U", _) => return Role::InnerPath,
        ("q", _) => return Role::Query,
        ("p", "remote") => return Role::Port,
        ("t", format) => {
            let prefixes = ["begin:", "end:"];
            let format =
                prefixes.iter().find_map(|prefix| format.strip_prefix(prefix)).unwrap_or(format);
            let format = match format {
                "sec" => "%s",
                "msec_frac" => "%3f",
                "usec_frac" => "%6f",
                format => format,
            };
            return Role::TimePart(format.into());
        }
        _ => Kind::Other,
    })
}

#[derive(Default)]
struct Tokens(Vec<Token>);

impl Tokens {
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Token::Text(last)) => last.push_str(text),
            _ => self.0.push(Token::Text(text.into())),
        }
    }

    fn field(&mut self, name: String, role: Role) {
        self.0.push(Token::Field(name, role));
    }
}

fn shown(text: &str) -> String {
    text.chars().take(20).collect()
}

/// Makes one time of parts with nothing but text between them, as Apache writes fractions:
/// `%{%F %T}t.%{msec_frac}t`.
fn join_times(tokens: &mut Vec<Token>) -> Result<(), FormatProblem> {
    let is_part = |token: &Token| matches!(token, Token::Field(_, Role::TimePart(_)));
    while let Some(first) = tokens.iter().position(is_part) {
        let mut last = first;
        loop {
            last += match tokens.get(last + 1..).unwrap_or_default() {
                [next, ..] if is_part(next) => 1,
                [Token::Text(_), next, ..] if is_part(next) => 2,
                _ => break,
            };
        }
        let mut format = String::new();
        for token in tokens.drain(first..=last) {
            match token {
                Token::Text(text) => format.push_str(&text.replace('%', "%%")),
                Token::Field(_, Role::TimePart(part)) => format.push_str(&part),
                Token::Field(..) => {}
            }
        }
        let form = match format.as_str() {
            "%s" | "msec" | "usec" | "%s.%3f" | "%s.%6f" => Some(Form::Number),
            format => Form::strftime(format),
        };
        let Some(form) = form else {
            return Err(FormatProblem::HalfATime(format));
        };
        tokens.insert(first, Token::Field("%t".into(), Role::Is(Kind::Time(form))));
    }
    Ok(())
}

/// Makes one field of an address and its port, and one of a path and its query.
fn join_ports_and_queries(tokens: &mut Vec<Token>) {
    let mut at = 0;
    while at < tokens.len() {
        match &mut tokens[at..] {
            [
                Token::Field(_, Role::Is(kind @ Kind::Ip)),
                Token::Text(colon),
                Token::Field(_, Role::Port),
                ..,
            ] if colon == ":" => {
                *kind = Kind::IpPort;
                tokens.drain(at + 1..at + 3);
            }
            [
                Token::Field(_, Role::Is(Kind::Path) | Role::InnerPath),
                Token::Field(_, Role::Query),
                ..,
            ] => {
                tokens.remove(at + 1);
            }
            _ => at += 1,
        }
    }
}

/// Where several fields tell the same, makes all but one of them fields at which nobody looks: the
/// number wins among times, since it has the fraction, and the request among paths, since it is
/// what the client asked for.
fn choose(tokens: &mut [Token]) {
    let number = Role::Is(Kind::Time(Form::Number));
    let request = [Role::Is(Kind::Request), Role::Is(Kind::Path)];
    let is = |token: &Token, role: &Role| matches!(token, Token::Field(_, of) if of == role);
    let has_number = tokens.iter().any(|token| is(token, &number));
    let has_request = tokens.iter().any(|token| request.iter().any(|role| is(token, role)));
    let (mut ip, mut forwarded, mut user, mut time, mut path) = (0, 0, 0, 0, 0);
    let mut beaten = 1;
    for token in tokens {
        let Token::Field(_, role) = token else {
            continue;
        };
        let seen = match role {
            Role::Is(Kind::Time(form)) if has_number && *form != Form::Number => &mut beaten,
            Role::InnerPath if has_request => &mut beaten,
            Role::Is(Kind::Ip | Kind::IpPort) => &mut ip,
            Role::Is(Kind::Forwarded) => &mut forwarded,
            Role::Is(Kind::User) => &mut user,
            Role::Is(Kind::Time(_)) => &mut time,
            Role::Is(Kind::Request | Kind::Path) | Role::InnerPath => &mut path,
            _ => continue,
        };
        *seen += 1;
        if *seen > 1 {
            *role = Role::Is(Kind::Other);
        }
    }
}

fn pattern(tokens: Vec<Token>) -> Result<Pattern, FormatProblem> {
    let mut head = String::new();
    let mut fields: Vec<(String, Field)> = Vec::new();
    for token in tokens {
        match token {
            Token::Text(text) => match fields.last_mut() {
                None => head = text,
                Some((_, field)) => field.end = text.into_bytes().into(),
            },
            Token::Field(name, role) => {
                let before = fields.last().map_or(head.as_bytes(), |(_, field)| &field.end);
                if let Some((last, _)) = fields.last().filter(|_| before.is_empty()) {
                    return Err(FormatProblem::NothingBetween(last.clone(), name));
                }
                let quoted = before.ends_with(b"\"");
                let kind = match role {
                    Role::Is(kind) => kind,
                    Role::InnerPath => Kind::Path,
                    Role::Query | Role::Port | Role::TimePart(_) => Kind::Other,
                };
                fields.push((name, Field { kind, quoted, end: [].into(), within: 0 }));
            }
        }
    }
    let mut fields: Vec<Field> = fields.into_iter().map(|(_, field)| field).collect();
    for field in &mut fields {
        field.quoted &= field.end.starts_with(b"\"");
        if let Kind::Time(form) = &field.kind {
            field.within = find(form.sample().as_bytes(), &field.end).count();
        }
    }
    let pattern = Pattern { head: head.into_bytes().into(), fields: fields.into() };
    match (pattern.fields.is_empty(), pattern.has(|kind| matches!(kind, Kind::Time(_)))) {
        (true, _) => Err(FormatProblem::NoField),
        (_, false) => Err(FormatProblem::NoTime),
        (_, true) => Ok(pattern),
    }
}
