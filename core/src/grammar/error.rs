//! The errors of a malformed request: facts in fields, text only in `Display`.
//!
//! A denial is not an error. Each message is one line that says what was expected and what came.
//! Bytes of the user are escaped and cut, since messages end up in replies and logs.

use std::fmt;

use super::algo::{algo_words, write_words};
use super::arguments::MAX_KEYS;
use super::word::Word;
use crate::algorithm::Algorithm;
use crate::numbers::MAX_PERMITS;
use crate::rule::RuleError;

/// The number of bytes of an argument that a message shows.
const SHOWN_BYTES: usize = 64;

/// Bytes of the user in a message: quoted, escaped, and cut at 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown(Vec<u8>);

impl Shown {
    /// Keeps the bytes that the message will show.
    pub fn new(bytes: &[u8]) -> Shown {
        Shown(bytes.iter().copied().take(SHOWN_BYTES).collect())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.escape_ascii())
    }
}

/// Something that an option cannot be combined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// Another option.
    Option(Word),
    /// An algorithm, by this word.
    Algo(&'static str),
    /// An algorithm whose permits are spent.
    Spent,
    /// An algorithm whose permits cannot be taken before they are due.
    Unreservable,
}

impl fmt::Display for Partner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut other_than = |is_of_kind| {
            f.write_str("an ALGO other than ")?;
            write_words(f, algo_words(is_of_kind), " and ")
        };
        match self {
            Partner::Option(word) => word.fmt(f),
            Partner::Algo(word) => write!(f, "ALGO {word}"),
            Partner::Spent => other_than(Algorithm::is_leased),
            Partner::Unreservable => other_than(Algorithm::can_reserve),
        }
    }
}

/// A malformed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Too few arguments, or too many. The server checks the arity itself before it calls a
    /// command.
    ArgumentCount,
    /// Something else stands where one of these words should.
    Syntax {
        /// The words that may stand there.
        expected: &'static str,
        /// What came.
        got: Shown,
    },
    /// A word that only means something in another place.
    Misplaced {
        /// The word.
        word: Word,
        /// Where the word belongs.
        place: &'static str,
    },
    /// The rules do not begin with `WINDOW`.
    NoRule,
    /// `WINDOW` among the keys: the rules were typed as several arguments.
    RulesNotQuoted,
    /// More rules than any call has keys.
    TooManyRules,
    /// A rule that lacks one of its three pairs.
    Incomplete {
        /// The rule's number, from 1.
        rule: usize,
        /// The word that is missing.
        word: Word,
    },
    /// An option given twice.
    Twice(Word),
    /// An option at the end, without its value.
    NoValue(Word),
    /// A value that is no number, or is out of its range.
    Number {
        /// The option.
        word: Word,
        /// The lowest number expected.
        low: i64,
        /// The highest number expected.
        high: i64,
        /// A unit, with a space before it, or nothing.
        unit: &'static str,
        /// What came.
        got: Shown,
    },
    /// An argument without an option word that is no number, or is out of its range.
    Argument {
        /// The argument.
        name: &'static str,
        /// The lowest number expected.
        low: i64,
        /// The highest number expected.
        high: i64,
        /// What came.
        got: Shown,
    },
    /// A text that is too short or too long, or contains characters that it may not.
    Text {
        /// The option.
        word: Word,
        /// The texts that are allowed.
        expected: &'static str,
        /// What came.
        got: Shown,
    },
    /// No algorithm has this name.
    UnknownAlgorithm(Shown),
    /// A number that is out of its range, or that the rule's algorithm does not have.
    Rule(RuleError),
    /// An algorithm of leases in a command that has no name for them.
    NoLeases(Algorithm),
    /// An option of `RL.ACQUIREX` among the keys of `RL.ACQUIRE`.
    OptionAsKey(Word),
    /// An option word where keys are expected.
    WordAsKey {
        /// The word.
        word: Word,
        /// How to write the command.
        usage: &'static str,
    },
    /// Two equal keys.
    KeyTwice(Shown),
    /// More than [`MAX_KEYS`] keys.
    TooManyKeys(usize),
    /// The call has neither one rule nor one for each key.
    RuleCount {
        /// Keys of the call.
        keys: usize,
        /// Rules of the call.
        rules: usize,
    },
    /// Two options that exclude each other.
    Excluded {
        /// The option.
        word: Word,
        /// What it cannot be combined with.
        with: Partner,
    },
    /// An option that the rules require.
    Required {
        /// The option.
        word: Word,
        /// The algorithm that requires it.
        by: Algorithm,
    },
    /// `COST` times `UPTO` above the largest number of permits.
    BatchTooLarge,
}

impl std::error::Error for RequestError {}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::ArgumentCount => f.write_str("wrong number of arguments"),
            RequestError::Syntax { expected, got } => {
                write!(f, "syntax error, expected {expected}, got {got}")
            }
            RequestError::Misplaced { word, place } => {
                write!(f, "syntax error, {word} belongs {place}")
            }
            RequestError::NoRule => {
                f.write_str("syntax error, expected a rule that starts with WINDOW after the keys")
            }
            RequestError::RulesNotQuoted => f.write_str(
                "the rules are one argument, in quotes: 'WINDOW 1s LIMIT 5 ALGO bucket'",
            ),
            RequestError::TooManyRules => write!(f, "at most {MAX_KEYS} rules"),
            RequestError::Incomplete { rule, word } => {
                write!(f, "syntax error, rule {rule} has no {word}")
            }
            RequestError::Twice(word) => write!(f, "syntax error, {word} is given twice"),
            RequestError::NoValue(word) => write!(f, "syntax error, {word} has no value"),
            RequestError::Number { word, low, high, unit, got } => {
                write!(f, "{word} must be {low} to {high}{unit}, got {got}")
            }
            RequestError::Argument { name, low, high, got } => {
                write!(f, "{name} must be {low} to {high}, got {got}")
            }
            RequestError::Text { word, expected, got } => {
                write!(f, "{word} must be {expected}, got {got}")
            }
            RequestError::UnknownAlgorithm(got) => {
                write!(f, "unknown ALGO {got}, expected ")?;
                write_words(f, algo_words(|_| true), " or ")
            }
            RequestError::Rule(error) => error.fmt(f),
            RequestError::NoLeases(algorithm) => write!(
                f,
                "ALGO {} needs an ID, which RL.ACQUIRE does not have: use RL.ACQUIREX",
                algorithm.word()
            ),
            RequestError::OptionAsKey(word) => write!(
                f,
                "'{word}' is an option of RL.ACQUIREX, not a key: RL.ACQUIRE takes only WINDOW, \
                 LIMIT and ALGO"
            ),
            RequestError::WordAsKey { word, usage } => {
                write!(f, "'{word}' is an option, not a key: {usage}")
            }
            RequestError::KeyTwice(key) => write!(
                f,
                "key {key} is named twice, give each limit a key of its own, such as k:1s and k:1h"
            ),
            RequestError::TooManyKeys(keys) => write!(f, "at most {MAX_KEYS} keys, got {keys}"),
            RequestError::RuleCount { keys: 1, rules } => {
                write!(f, "1 key needs 1 rule, got {rules}")
            }
            RequestError::RuleCount { keys, rules } => {
                write!(f, "{keys} keys need 1 or {keys} rules, got {rules}")
            }
            RequestError::Excluded { word, with } => write!(f, "{word} does not go with {with}"),
            RequestError::Required { word, by } => {
                write!(f, "{word} is required with ALGO {}", by.word())
            }
            RequestError::BatchTooLarge => {
                write!(f, "COST times UPTO must be at most {}", MAX_PERMITS)
            }
        }
    }
}
