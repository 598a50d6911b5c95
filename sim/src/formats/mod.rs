//! The formats of logs: which there are, which one a log has, and a line of it.

pub mod csv;
pub mod format_line;
pub mod json;
pub mod pattern;
pub mod syslog;
pub mod w3c;

use std::fmt;

use clap::ValueEnum;
use jiff::tz::Offset;

use crate::entry::{Entry, Problem};
use crate::formats::format_line::built_in;
use crate::formats::json::Keys;
use crate::formats::pattern::{Kind, Pattern};
use crate::rule::By;
use crate::timestamp::Times;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Common or combined, as Apache, nginx and Traefik write them
    Combined,
    /// The same behind the name of the server: vhost_combined of Apache
    VhostCombined,
    /// The HTTP log of HAProxy
    Haproxy,
    /// The default access log of Envoy
    Envoy,
    /// The access log of Envoy as Istio sets it up
    Istio,
    /// JSON lines, as Caddy, Traefik, Envoy and applications write them
    Json,
    /// W3C extended, as IIS writes it
    W3c,
    /// time,key or time,key,cost
    Csv,
    /// By a format line.
    #[value(skip)]
    Line,
}

const COMBINED: &str = r#"$remote_addr $identity $user [$time_local] "$request" $status $rest"#;

const VHOST_COMBINED: &str =
    r#"$vhost $remote_addr $identity $user [$time_local] "$request" $status $rest"#;

/// The last field but one are captured headers, each list with a blank behind it.
const HAPROXY: &str = "$remote_addr:$remote_port [$time_haproxy] $frontend $backend $timers \
    $status $bytes $cookie $response_cookie $ends $connections $queues $captured\"$request\"$rest";

const ENVOY: &str = "[$time_iso8601] \"$request\" $status $flags $received $sent $duration \
    $service_time \"$http_x_forwarded_for\" \"$agent\" \"$id\" \"$authority\" \"$upstream\"";

const ISTIO: &str = "[$time_iso8601] \"$request\" $status $flags $details $ends \"$failure\" \
    $received $sent $duration $service_time \"$http_x_forwarded_for\" \"$agent\" \"$id\" \
    \"$authority\" \"$upstream\" $cluster $upstream_local $downstream_local \
    $remote_addr:$remote_port $sni $route";

impl Format {
    /// Those that are tried on a log, in this order.
    const GUESSED: [Format; 8] = [
        Format::Combined,
        Format::VhostCombined,
        Format::Haproxy,
        Format::Envoy,
        Format::Istio,
        Format::Json,
        Format::W3c,
        Format::Csv,
    ];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Combined => "combined",
            Format::VhostCombined => "vhost_combined",
            Format::Haproxy => "HAProxy",
            Format::Envoy => "Envoy",
            Format::Istio => "Istio",
            Format::Json => "JSON",
            Format::W3c => "W3C",
            Format::Csv => "CSV",
            Format::Line => "--log-format",
        })
    }
}

/// What the user told of a log.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Its format.
    pub format: Option<Format>,
    /// Its format line.
    pub line: Option<Pattern>,
    /// Its JSON keys.
    pub keys: Option<Keys>,
    /// The zone of times that tell none.
    pub zone: Option<Offset>,
    /// The client's place from the right of `X-Forwarded-For`.
    pub place: Option<usize>,
}

/// Reads the lines of a log.
#[derive(Clone, Debug)]
pub struct Parser {
    /// Its format.
    pub format: Format,
    reader: Reader,
    times: Times,
    place: Option<usize>,
}

#[derive(Clone, Debug)]
enum Reader {
    Pattern(Pattern),
    Json(Keys),
    W3c(w3c::Reader),
    Csv(csv::Reader),
}

impl Parser {
    /// For a log whose first lines are these, unless its format was told.
    pub fn new<'a>(told: &Told, sample: impl Iterator<Item = &'a [u8]> + Clone) -> Parser {
        if let Some(line) = &told.line {
            return Parser::with(Format::Line, Reader::Pattern(line.clone()), told);
        }
        if let Some(keys) = &told.keys {
            return Parser::with(Format::Json, Reader::Json(keys.clone()), told);
        }
        if let Some(format) = told.format {
            return Parser::of(format, told);
        }
        let reads = |format: &Format| {
            let mut parser = Parser::of(*format, told);
            sample.clone().filter(|line| matches!(parser.read(line), Ok(Some(_)))).count()
        };
        let counts = Format::GUESSED.map(|format| (reads(&format), format));
        let most = counts.iter().map(|(count, _)| *count).max().unwrap_or(0);
        if let Some((_, format)) = counts.iter().find(|(count, _)| *count == most && most > 0) {
            return Parser::of(*format, told);
        }
        // None can read it. What it looks like tells which one may say why.
        let first = sample.clone().next().unwrap_or_default();
        let names_columns =
            |format: &Format| matches!(Parser::of(*format, told).read(first), Ok(None));
        let format = match first {
            [b'{', ..] => Some(Format::Json),
            _ => Format::GUESSED.into_iter().find(names_columns),
        };
        Parser::of(format.unwrap_or(Format::Combined), told)
    }

    fn of(format: Format, told: &Told) -> Parser {
        let reader = match format {
            Format::Combined | Format::Line => Reader::Pattern(built_in(COMBINED)),
            Format::VhostCombined => Reader::Pattern(built_in(VHOST_COMBINED)),
            Format::Haproxy => Reader::Pattern(built_in(HAPROXY)),
            Format::Envoy => Reader::Pattern(built_in(ENVOY)),
            Format::Istio => Reader::Pattern(built_in(ISTIO)),
            Format::Json => Reader::Json(Keys::default()),
            Format::W3c => Reader::W3c(w3c::Reader::default()),
            Format::Csv => Reader::Csv(csv::Reader::default()),
        };
        Parser::with(format, reader, told)
    }

    fn with(format: Format, reader: Reader, told: &Told) -> Parser {
        Parser { format, reader, times: Times::new(told.zone), place: told.place }
    }

    /// Reads a line without its end, and whatever a syslog daemon wrote before it; `None` for a
    /// line that tells of the lines that follow.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn read<'a>(&mut self, line: &'a [u8]) -> Result<Option<Entry<'a>>, Problem<'a>> {
        self.read_bare(line).or_else(|problem| match syslog::message(line) {
            Some(message) => self.read_bare(message),
            None => Err(problem),
        })
    }

    /// Reads the last line of a log when no end of line follows, so that it may have been cut off.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn read_unended<'a>(&mut self, line: &'a [u8]) -> Result<Option<Entry<'a>>, Problem<'a>> {
        let read = self.read(line)?;
        let is_open = match &self.reader {
            Reader::Pattern(pattern) => pattern.is_open(),
            Reader::Json(_) => false,
            Reader::W3c(reader) => reader.is_open(),
            Reader::Csv(_) => true,
        };
        match is_open {
            true => Err(Problem::new("no end of line follows, so it may have been cut off", line)),
            false => Ok(read),
        }
    }

    fn read_bare<'a>(&mut self, line: &'a [u8]) -> Result<Option<Entry<'a>>, Problem<'a>> {
        let times = &mut self.times;
        match &mut self.reader {
            Reader::Pattern(pattern) => pattern.read(line, times, self.place).map(Some),
            Reader::Json(keys) => json::read(keys, line, times, self.place).map(Some),
            Reader::W3c(reader) => reader.read(line),
            Reader::Csv(reader) => reader.read(line, times),
        }
    }

    /// What a rule can count by.
    pub fn fields(&self) -> Vec<By> {
        let [ip, user, path] = match &self.reader {
            Reader::Pattern(pattern) => [
                pattern.has(|kind| matches!(kind, Kind::Ip | Kind::IpPort | Kind::Forwarded)),
                pattern.has(|kind| matches!(kind, Kind::User | Kind::GuessedUser)),
                pattern.has(|kind| matches!(kind, Kind::Request | Kind::Path)),
            ],
            Reader::Json(keys) => [keys.tell_ip(), keys.tell_user(), keys.tell_path()],
            Reader::W3c(_) => [true; 3],
            Reader::Csv(_) => return vec![By::Key, By::Global],
        };
        let fields = [
            (By::Ip, ip),
            (By::User, user),
            (By::Path, path),
            (By::IpPath, ip && path),
            (By::Global, true),
        ];
        fields.into_iter().filter_map(|(by, is_told)| is_told.then_some(by)).collect()
    }

    /// Whether a line can tell an `X-Forwarded-For`.
    pub fn tells_forwarded(&self) -> bool {
        match &self.reader {
            Reader::Pattern(pattern) => pattern.has(|kind| *kind == Kind::Forwarded),
            Reader::Json(keys) => keys.tell_forwarded(),
            Reader::W3c(_) | Reader::Csv(_) => false,
        }
    }

    /// Whether there was a time without a zone, which was read as UTC.
    pub fn assumed_utc(&self) -> bool {
        self.times.assumed_utc
    }
}
