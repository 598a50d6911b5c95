//! What ends a simulation: facts in fields, text only in `Display`.

use std::fmt;
use std::io;

use crate::input::Format;
use crate::log::Malformed;
use crate::rule::By;

/// Why there is no result.
#[derive(Debug)]
pub enum Error {
    /// The log cannot be read.
    Read {
        /// Which log.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// A result cannot be written.
    Write {
        /// Where to.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// The log has no line at all.
    Empty {
        /// Which log.
        name: String,
    },
    /// The log has lines, none of which is a request.
    NoRequests {
        /// Which log.
        name: String,
        /// The format it was read as.
        format: Format,
        /// The lines.
        malformed: Malformed,
    },
    /// More requests than are counted.
    TooLong {
        /// Which log.
        name: String,
    },
    /// A rule counts by something that the log does not have.
    NotInLog {
        /// What the rule counts by.
        by: By,
        /// The format of the log.
        format: Format,
    },
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read { name, error } => write!(f, "cannot read {name}: {error}"),
            Error::Write { name, error } => write!(f, "cannot write {name}: {error}"),
            Error::Empty { name } => write!(f, "{name} is empty: there is nothing to replay"),
            Error::NoRequests { name, format, malformed } => {
                let lines = malformed.count;
                write!(f, "{name} has no request: none of its {lines} lines reads as {format}")?;
                malformed.first.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Error::TooLong { name } => {
                write!(f, "{name} has more than {} requests", u32::MAX)
            }
            Error::NotInLog { by, format } => {
                write!(f, "a log in {format} format has no '{by}', a rule can count by ")?;
                let names: Vec<String> = format.fields().iter().map(By::to_string).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}
