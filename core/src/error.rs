//! What can be wrong with a request: facts in fields, text only in `Display`.
//!
//! A denial is not an error. Each message is one line that says what was expected and what came; bytes of the
//! user are escaped and cut, since they end up in replies and logs.

use std::fmt;

use crate::request::Word;
use crate::rule::RuleError;

/// The most keys in one call.
pub const MAX_KEYS: usize = 1024;

/// How many bytes of an argument a message shows.
const SHOWN_BYTES: usize = 64;

/// Bytes of the user in a message: escaped, and cut at 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown(Vec<u8>);

impl Shown {
    /// Keeps what the message will show.
    pub fn new(bytes: &[u8]) -> Shown {
        Shown(bytes.iter().copied().take(SHOWN_BYTES).collect())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.escape_ascii())
    }
}

/// A malformed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Something else stands where one of these words should.
    Syntax {
        /// The words that may stand there.
        expected: &'static str,
        /// What came.
        got: Shown,
    },
    /// An option given twice.
    Twice(Word),
    /// A number of a rule that is none, or out of its range.
    Number {
        /// The range that was expected.
        expected: RuleError,
        /// What came.
        got: Shown,
    },
    /// No algorithm of this name.
    UnknownAlgorithm(Shown),
    /// An option word where `RL.ACQUIRE` has its keys.
    OptionAsKey(Word),
    /// Two equal keys.
    KeyTwice(Shown),
    /// More than [`MAX_KEYS`] keys.
    TooManyKeys(usize),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Syntax { expected, got } => {
                write!(f, "syntax error, expected {expected}, got {got}")
            }
            RequestError::Twice(word) => write!(f, "syntax error, {word} is given twice"),
            RequestError::Number { expected, got } => write!(f, "{expected}, got {got}"),
            RequestError::UnknownAlgorithm(got) => write!(
                f,
                "unknown ALGO {got}, expected sliding, bucket, leaky, fixed, counter or concurrency"
            ),
            RequestError::OptionAsKey(word @ (Word::Window | Word::Limit | Word::Algo)) => write!(
                f,
                "'{word}' is an option, not a key: RL.ACQUIRE takes WINDOW, LIMIT and ALGO once each, \
                 after the keys"
            ),
            RequestError::OptionAsKey(word) => write!(
                f,
                "'{word}' is an option of RL.ACQUIREX, not a key: RL.ACQUIRE takes only WINDOW, \
                 LIMIT and ALGO"
            ),
            RequestError::KeyTwice(key) => write!(
                f,
                "key {key} is named twice, give each limit a key of its own, such as k:1s and k:1h"
            ),
            RequestError::TooManyKeys(keys) => write!(f, "at most {MAX_KEYS} keys, got {keys}"),
        }
    }
}
