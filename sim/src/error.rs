//! What ends a simulation: facts in fields, text only in `Display`.

use std::fmt;
use std::io;

use crate::formats::Format;
use crate::lines::NotText;
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
    /// The log is no text.
    NotText {
        /// Which log.
        name: String,
        /// What it is instead.
        kind: NotText,
    },
    /// Most lines of the log are no requests of its format, so that the others would tell little.
    MostlyMalformed {
        /// Which log.
        name: String,
        /// The format it was read as.
        format: Format,
        /// How many lines are requests.
        requests: usize,
        /// The lines that are none.
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
        /// What rules can count by there.
        fields: Vec<By>,
    },
    /// `--forwarded` for a log that has no `X-Forwarded-For`.
    NotForwarded {
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
            Error::NotText { name, kind: NotText { what, command } } => {
                write!(f, "{name} is {what}, make text of it: {command} FILE | rl-sim ...")
            }
            Error::MostlyMalformed { name, format, requests, malformed } => {
                let lines = malformed.count + *requests as u64;
                match requests {
                    0 => write!(f, "{name} has no request: none of its {lines} lines reads")?,
                    _ => write!(f, "{name}: only {requests} of its {lines} lines read")?,
                }
                write!(f, " as {format}")?;
                malformed.first.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Error::TooLong { name } => {
                write!(f, "{name} has more than {} requests", u32::MAX)
            }
            Error::NotInLog { by, format, fields } => {
                write!(f, "a log in {format} format has no '{by}', a rule can count by ")?;
                let names: Vec<String> = fields.iter().map(By::to_string).collect();
                f.write_str(&names.join(", "))
            }
            Error::NotForwarded { format } => write!(
                f,
                "a log in {format} format has no X-Forwarded-For that is known as such: name it in \
                 --log-format"
            ),
        }
    }
}
