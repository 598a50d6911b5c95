//! Reads a log into requests.

use std::io::{self, Read};
use std::path::Path;

use crate::entry::{Entry, Problem};
use crate::error::Error;
use crate::formats::{Format, Parser, Told};
use crate::lines::{self, Lines};
use crate::log::{Log, Malformed};
use crate::progress::Progress;
use crate::rule::By;

/// What was read.
pub struct Input {
    /// The file, or `stdin`.
    pub name: String,
    /// As what it was read.
    pub format: Format,
    /// The requests, not sorted yet.
    pub log: Log,
    /// The lines that are none.
    pub malformed: Malformed,
    /// Whether times without a zone were read as UTC.
    pub assumed_utc: bool,
}

/// How many lines tell the format.
const SAMPLE: usize = 20;

/// Reads a log (`None` or `-`: stdin) for rules that count by these, and IPv6 clients by networks
/// of this length.
///
/// # Errors
/// A log that cannot be read, is mostly no requests, or has not what the rules count by.
pub fn read(
    path: Option<&Path>,
    told: &Told,
    bys: &[By],
    ipv6_prefix: u8,
    progress: &Progress,
) -> Result<Input, Error> {
    let path = path.filter(|path| path.as_os_str() != "-");
    let name = path.map_or("stdin".into(), |path| path.display().to_string());
    let failed = |error| Error::Read { name: name.clone(), error };
    let mut lines = lines::open(path, progress).map_err(failed)?;
    if let Some(kind) = lines.not_text() {
        return Err(Error::NotText { name, kind });
    }
    if lines.is_empty() {
        return Err(Error::Empty { name });
    }
    let mut parser = Parser::new(told, lines.sample().take(SAMPLE));
    let (format, fields) = (parser.format, parser.fields());
    if let Some(by) = bys.iter().copied().find(|by| !fields.contains(by)) {
        return Err(Error::NotInLog { by, format, fields });
    }
    if told.place.is_some() && !parser.tells_forwarded() {
        return Err(Error::NotForwarded { format });
    }
    let mut log = Log::new(bys.iter().copied());
    log.ipv6_prefix = ipv6_prefix;
    let read = read_lines(&mut lines, &mut parser, bys, &mut log).map_err(failed)?;
    progress.done();
    let Some(malformed) = read else {
        return Err(Error::TooLong { name });
    };
    match (log.len(), malformed.count) {
        (0, 0) => Err(Error::Empty { name }),
        (requests, count) if count > requests as u64 => {
            Err(Error::MostlyMalformed { name, format, requests, malformed })
        }
        _ => Ok(Input { name, format, log, malformed, assumed_utc: parser.assumed_utc() }),
    }
}

/// Reads all lines into the log, and tells those that are none; `None` when there are too many.
fn read_lines(
    lines: &mut Lines<impl Read>,
    parser: &mut Parser,
    bys: &[By],
    log: &mut Log,
) -> io::Result<Option<Malformed>> {
    let mut malformed = Malformed::default();
    while let Some(line) = lines.next_line()? {
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        let read = match (line.problem, line.has_end) {
            (Some(reason), _) => Err(Problem::new(reason, line.bytes)),
            (None, true) => parser.read(line.bytes),
            (None, false) => parser.read_unended(line.bytes),
        };
        let read =
            read.and_then(|entry| match entry.as_ref().and_then(|entry| lacks(entry, bys)) {
                Some(reason) => Err(Problem::new(reason, line.bytes)),
                None => Ok(entry),
            });
        match read {
            Ok(Some(entry)) if !log.push(&entry) => return Ok(None),
            Ok(_) => {}
            Err(problem) => malformed.add(line.number, problem),
        }
    }
    Ok(Some(malformed))
}

/// What a request lacks of what rules count by. Whoever has no name is none of a rule's business.
fn lacks(entry: &Entry<'_>, bys: &[By]) -> Option<&'static str> {
    bys.iter().find_map(|by| match by {
        By::Ip | By::IpPath if entry.ip.is_none() => Some("no address"),
        By::Path | By::IpPath if entry.path.is_none() => Some("no path"),
        _ => None,
    })
}
