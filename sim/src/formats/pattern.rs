//! Lines that consist of fields with fixed text between them: what `log_format` of nginx and
//! `LogFormat` of Apache write.
//!
//! A field ends where the text behind it begins for the first time; if it stands in quotes, at the
//! first quote that is not escaped. Nothing is skipped: a line fits as a whole or is refused.

use crate::address::{Address, forwarded, is_list};
use crate::entry::{Entry, Problem, path, path_of_request, told};
use crate::timestamp::{Form, Times};

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The client's address.
    Ip,
    /// The client's address and its port.
    IpPort,
    /// The addresses of an `X-Forwarded-For`.
    Forwarded,
    /// The user.
    User,
    /// The time.
    Time(Form),
    /// A request line.
    Request,
    /// A path, perhaps with a query.
    Path,
    /// The status of the answer.
    Status,
    /// The name of a server: not an address, or the fields are other ones than it was guessed.
    Host,
    /// A name that identd told, with the same doubt.
    Identity,
    /// The user, with the same doubt.
    GuessedUser,
    /// Something else, at which nobody looks.
    Other,
}

/// A field and the text behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it holds.
    pub kind: Kind,
    /// Whether it stands in quotes.
    pub quoted: bool,
    /// The text behind it; empty for the last one that goes to the end of the line.
    pub end: Box<[u8]>,
    /// How often such a text stands within the field, as the blank in some times.
    pub within: usize,
}

/// See the file's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The text before the first field.
    pub head: Box<[u8]>,
    /// The fields.
    pub fields: Box<[Field]>,
}

const NOT_AN_ADDRESS: &str = "not an IP address";
const A_LIST: &str = "a list of addresses: --log-format and --forwarded tell which one counts";
const OTHER_FIELDS: &str = "the fields are other ones, which --log-format can tell";

/// The fields of a line that matter.
#[derive(Default)]
struct Found<'a> {
    ip: Option<Address<'a>>,
    forwarded: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    time_ms: i64,
    path: Option<&'a [u8]>,
}

impl Pattern {
    /// Reads a line without its end. `place` is that of the client in an `X-Forwarded-For`, if it
    /// was given.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn read<'a>(
        &self,
        line: &'a [u8],
        times: &mut Times,
        place: Option<usize>,
    ) -> Result<Entry<'a>, Problem<'a>> {
        let rest = line.strip_prefix(&*self.head);
        let mut rest = rest.ok_or(Problem::new("it begins otherwise than the format", line))?;
        let mut found = Found::default();
        for field in &self.fields {
            let split = field.split(rest).ok_or(Problem::new(field.kind.missing(), rest));
            let (value, tail) = split?;
            found.take(&field.kind, value, times).map_err(|reason| Problem::new(reason, value))?;
            rest = tail;
        }
        if !rest.is_empty() {
            return Err(Problem::new("more than the format has", rest));
        }
        let ip = found.client(place).map_err(|(reason, at)| Problem::new(reason, at))?;
        Ok(Entry {
            time_ms: found.time_ms,
            cost: 1,
            ip,
            user: found.user.map(Into::into),
            path: found.path.map(Into::into),
            key: None,
        })
    }

    /// Whether a field holds this.
    pub fn has(&self, is_it: impl Fn(&Kind) -> bool) -> bool {
        self.fields.iter().any(|field| is_it(&field.kind))
    }

    /// Whether a field that matters goes to the end of the line, so that one that was cut off looks
    /// whole.
    pub fn is_open(&self) -> bool {
        let last = self.fields.last();
        last.is_some_and(|field| field.end.is_empty() && field.kind != Kind::Other)
    }
}

impl Field {
    /// The field at the beginning, and what follows the text behind it.
    fn split<'a>(&self, rest: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        if self.end.is_empty() {
            return Some((rest, &[]));
        }
        let end = match self.kind {
            _ if self.quoted => closing_quote(rest),
            Kind::Forwarded => end_of_list(rest, &self.end),
            _ => find(rest, &self.end).nth(self.within),
        };
        let (value, tail) = rest.split_at_checked(end?)?;
        Some((value, tail.strip_prefix(&*self.end)?))
    }
}

impl Kind {
    /// What is said when there is no such field.
    fn missing(&self) -> &'static str {
        match self {
            Kind::Ip | Kind::IpPort | Kind::Forwarded => "no address",
            Kind::Time(_) => "no time",
            Kind::Request | Kind::Path => "no request",
            Kind::Status => "no status",
            Kind::User | Kind::GuessedUser => "no user",
            Kind::Host | Kind::Identity | Kind::Other => "a field is missing",
        }
    }
}

impl<'a> Found<'a> {
    /// Takes what a field holds, if it is what it should be.
    fn take(
        &mut self,
        kind: &Kind,
        value: &'a [u8],
        times: &mut Times,
    ) -> Result<(), &'static str> {
        match kind {
            Kind::Ip if is_list(value) => return Err(A_LIST),
            Kind::Ip => self.ip = Some(Address::parse(value).ok_or(NOT_AN_ADDRESS)?),
            Kind::IpPort => {
                let address = Address::with_port(value);
                self.ip = Some(address.ok_or("not an IP address with a port")?);
            }
            Kind::Forwarded => self.forwarded = told(value),
            Kind::User => self.user = told(value),
            Kind::Time(form) => self.time_ms = times.read(form, value)?,
            Kind::Request => self.path = Some(path_of_request(value)),
            Kind::Path => self.path = Some(path(value)),
            Kind::Status if is_status(value) => {}
            Kind::Status => return Err("not a status"),
            Kind::Host | Kind::Identity if is_address(value) => return Err(OTHER_FIELDS),
            Kind::GuessedUser if !is_one_field(value) => return Err(OTHER_FIELDS),
            Kind::GuessedUser => self.user = told(value),
            Kind::Host | Kind::Identity | Kind::Other => {}
        }
        Ok(())
    }

    /// The client's address: the one at `place` of those forwarded, or else the one that stands
    /// alone.
    fn client(
        &self,
        place: Option<usize>,
    ) -> Result<Option<Address<'a>>, (&'static str, &'a [u8])> {
        match (self.forwarded, self.ip, place) {
            (None, ip, _) | (Some(_), ip @ Some(_), None) => Ok(ip),
            (Some(list), _, Some(place)) => match forwarded(list, place) {
                Some(ip) => Ok(Some(ip)),
                None => Err(("no address at that place of the list", list)),
            },
            (Some(list), None, None) if is_list(list) => Err((A_LIST, list)),
            (Some(list), None, None) => {
                Ok(Some(Address::parse_any(list).ok_or((NOT_AN_ADDRESS, list))?))
            }
        }
    }
}

/// Where such text stands.
pub fn find<'a>(bytes: &'a [u8], text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = text.first().copied().unwrap_or_default();
    let stands = move |at: &usize| bytes.get(*at..).is_some_and(|rest| rest.starts_with(text));
    memchr::memchr_iter(first, bytes).filter(stands)
}

/// The first quote that is not escaped by a backslash.
fn closing_quote(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', bytes.get(from..)?)?;
        match bytes.get(at) {
            Some(b'"') => return Some(at),
            _ => from = at + 2,
        }
    }
}

/// Where such text stands first, but for blanks behind the commas of a list.
fn end_of_list(bytes: &[u8], text: &[u8]) -> Option<usize> {
    find(bytes, text).find(|at| at.checked_sub(1).is_none_or(|at| bytes.get(at) != Some(&b',')))
}

/// Three digits, or what is written when there was no answer.
fn is_status(value: &[u8]) -> bool {
    matches!(value, b"-" | b"-1" | b"0")
        || (value.len() == 3 && value.iter().all(u8::is_ascii_digit))
}

/// An address, with a port or in a list or not.
fn is_address(value: &[u8]) -> bool {
    let has_groups = memchr::memchr2(b'.', b':', value).is_some();
    has_groups && Address::parse_any(value.strip_suffix(b",").unwrap_or(value)).is_some()
}

/// Whether this is a user's name, in which blanks may stand, rather than several fields.
fn is_one_field(value: &[u8]) -> bool {
    let is_number = |word: &[u8]| word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let is_other = |word: &[u8]| word == b"-" || is_number(word) || is_address(word);
    match value.contains(&b' ') {
        true => !value.split(|byte| *byte == b' ').any(is_other),
        false => !is_address(value),
    }
}
