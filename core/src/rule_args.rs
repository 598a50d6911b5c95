//! The grammar of a rule: `WINDOW ms LIMIT n ALGO algorithm` and its options, in any order.

use crate::decision::Ask;
use crate::error::{RequestError, Shown};
use crate::request::Word;
use crate::rule::{Algorithm, MAX_PERMITS, MAX_WINDOW_MS, Rule, Shape};
use crate::word::algorithm;

/// The longest `NAME` of a rule, in bytes.
pub const MAX_NAME: usize = 64;

/// A rule of a call, with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// What is asked.
    pub ask: Ask,
    /// `NAME`
    pub name: Option<&'a [u8]>,
}

/// Checks the name of a rule.
pub(crate) fn check_name(name: &[u8]) -> Result<&[u8], RequestError> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let expected = "1 to 64 letters, digits, '_', '.' or '-' and no option";
    match Word::parse(name) {
        // Its value was left out.
        Some(_) => Err(RequestError::Text { word: Word::Name, expected, got: Shown::new(name) }),
        None => Word::Name.text(name, MAX_NAME, allowed, expected),
    }
}

/// The pairs of a rule, as they are read.
#[derive(Default)]
pub(crate) struct RuleArgs<'a> {
    window_ms: Option<i64>,
    limit: Option<u64>,
    algorithm: Option<(Algorithm, Option<u64>)>,
    burst: Option<u64>,
    offset_ms: Option<i64>,
    block_ms: Option<i64>,
    cost: Option<u64>,
    name: Option<&'a [u8]>,
}

impl<'a> RuleArgs<'a> {
    /// Whether a word belongs to a rule.
    pub fn has(word: Word) -> bool {
        match word {
            Word::Window | Word::Limit | Word::Algo | Word::Burst => true,
            Word::Offset | Word::Block | Word::Cost | Word::Name => true,
            Word::Upto | Word::Id | Word::Reserve | Word::Timeout | Word::Force => false,
            Word::WithKeys | Word::For | Word::Shadow | Word::Count => false,
        }
    }

    /// Takes a pair whose word belongs to a rule.
    pub fn set(&mut self, word: Word, value: &'a [u8]) -> Result<(), RequestError> {
        let twice = match word {
            Word::Window => self.window_ms.replace(word.duration(value, 1)?).is_some(),
            Word::Limit => self.limit.replace(word.count(value, 0, MAX_PERMITS)?).is_some(),
            Word::Algo => self.algorithm.replace(algorithm(value)?).is_some(),
            Word::Burst => self.burst.replace(word.count(value, 1, MAX_PERMITS)?).is_some(),
            Word::Offset => self.offset_ms.replace(word.duration(value, -MAX_WINDOW_MS)?).is_some(),
            Word::Block => self.block_ms.replace(word.duration(value, 1)?).is_some(),
            Word::Cost => self.cost.replace(word.count(value, 0, MAX_PERMITS)?).is_some(),
            Word::Name => self.name.replace(check_name(value)?).is_some(),
            _ => return Err(RequestError::Misplaced { word, place: "behind the rules" }),
        };
        if twice { Err(RequestError::Twice(word)) } else { Ok(()) }
    }

    /// Builds the rule with that number, counted from 1.
    pub fn finish(self, number: usize) -> Result<Named<'a>, RequestError> {
        let missing = |word| RequestError::Incomplete { rule: number, word };
        let window_ms = self.window_ms.ok_or(missing(Word::Window))?;
        let limit = self.limit.ok_or(missing(Word::Limit))?;
        let (algorithm, implied) = self.algorithm.ok_or(missing(Word::Algo))?;
        if implied.is_some() && self.burst.is_some() {
            return Err(RequestError::Excluded { word: Word::Burst, with: "ALGO leaky" });
        }
        let shape = Shape { burst: self.burst.or(implied), offset_ms: self.offset_ms };
        let rule = Rule::new(algorithm, window_ms, limit, shape).map_err(RequestError::Rule)?;
        let (cost, block_ms) = (self.cost.unwrap_or(1), self.block_ms.unwrap_or(0));
        Ok(Named { ask: Ask { rule, cost, block_ms, shadow: false }, name: self.name })
    }
}
