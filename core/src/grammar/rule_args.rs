//! The grammar of a rule: `WINDOW ms LIMIT n ALGO algorithm` and its options, in any order.

use super::algo::Algo;
use super::error::{Partner, RequestError, Shown};
use super::values::{Words, algo};
use super::word::Word;
use crate::numbers::{MAX_PERMITS, MAX_WINDOW_MS, Own};
use crate::rule::{Rule, Shape};
use crate::terms::Ask;

/// The longest `NAME` of a rule, in bytes.
pub const MAX_NAME: usize = 64;

/// A rule of a call, with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The request to a limiter.
    pub ask: Ask,
    /// `NAME`
    pub name: Option<&'a [u8]>,
}

/// The rule of a key. A call has one rule for all keys, or one for each.
pub fn rule_of<'r, 'a>(rules: &'r [Named<'a>], key: usize) -> Option<&'r Named<'a>> {
    rules.get(key).or(rules.first())
}

/// Whether a byte can be in the name of a rule.
pub(crate) fn is_in_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(byte)
}

/// Checks the name of a rule.
pub(crate) fn check_name(name: &[u8]) -> Result<&[u8], Box<RequestError>> {
    let expected = "1 to 64 letters, digits, '_', '.' or '-' and no option";
    match Word::parse(name) {
        // An option word here means that the value of `NAME` was left out.
        Some(_) => {
            Err(RequestError::Text { word: Word::Name, expected, got: Shown::new(name) }.into())
        }
        None => Word::Name.text(name, MAX_NAME, is_in_name, expected),
    }
}

/// The pairs of a rule, as they are read. A value counts only if its word was given.
pub(crate) struct RuleArgs<'a> {
    given: Words,
    window_ms: i64,
    limit: u64,
    algo: Option<Algo>,
    burst: u64,
    offset_ms: i64,
    block_ms: i64,
    cost: u64,
    name: &'a [u8],
}

impl<'a> RuleArgs<'a> {
    /// No pair given, with the defaults of the optional ones.
    pub fn new() -> RuleArgs<'a> {
        RuleArgs {
            given: Words::default(),
            window_ms: 0,
            limit: 0,
            algo: None,
            burst: 0,
            offset_ms: 0,
            block_ms: 0,
            cost: 1,
            name: &[],
        }
    }

    /// Whether a word belongs to a rule.
    pub fn has(word: Word) -> bool {
        match word {
            Word::Window | Word::Limit | Word::Algo | Word::Burst => true,
            Word::Offset | Word::Block | Word::Cost | Word::Name => true,
            Word::Upto | Word::Id | Word::Xx | Word::Reserve | Word::Timeout | Word::Force => false,
            Word::WithKeys | Word::For | Word::Shadow | Word::Count => false,
        }
    }

    /// Takes a pair whose word belongs to a rule.
    #[inline(always)]
    pub fn set(&mut self, word: Word, value: &'a [u8]) -> Result<(), Box<RequestError>> {
        match word {
            Word::Window => self.window_ms = word.duration(value, 1)?,
            Word::Limit => self.limit = word.count(value, 0, MAX_PERMITS)?,
            Word::Algo => self.algo = Some(algo(value)?),
            Word::Burst => self.burst = word.count(value, 1, MAX_PERMITS)?,
            Word::Offset => self.offset_ms = word.duration(value, -MAX_WINDOW_MS)?,
            Word::Block => self.block_ms = word.duration(value, 1)?,
            Word::Cost => self.cost = word.count(value, 0, MAX_PERMITS)?,
            Word::Name => self.name = check_name(value)?,
            _ => return Err(RequestError::Misplaced { word, place: "behind the rules" }.into()),
        }
        self.given.add(word)
    }

    /// Builds the rule. `number` counts the rules from 1.
    #[inline(always)]
    pub fn finish(self, number: usize) -> Result<Named<'a>, Box<RequestError>> {
        for word in [Word::Window, Word::Limit] {
            if !self.given.has(word) {
                return Err(RequestError::Incomplete { rule: number, word }.into());
            }
        }
        let Some(Algo { algorithm, alias }) = self.algo else {
            return Err(RequestError::Incomplete { rule: number, word: Word::Algo }.into());
        };
        let mut shape = Shape {
            burst: self.given.has(Word::Burst).then_some(self.burst),
            offset_ms: self.given.has(Word::Offset).then_some(self.offset_ms),
        };
        if let Some((alias, own)) = alias {
            let excluded = |word| RequestError::Excluded { word, with: Partner::Algo(alias) };
            match algorithm.own() {
                Own::Burst if shape.burst.is_some() => return Err(excluded(Word::Burst).into()),
                Own::Offset if shape.offset_ms.is_some() => {
                    return Err(excluded(Word::Offset).into());
                }
                Own::Burst => shape.burst = Some(own),
                Own::Offset => shape.offset_ms = Some(own as i64),
                Own::None => {}
            }
        }
        let rule = Rule::new(algorithm, self.window_ms, self.limit, shape);
        let rule = rule.map_err(RequestError::Rule)?;
        let ask = Ask { rule, cost: self.cost, block_ms: self.block_ms, shadow: false };
        Ok(Named { ask, name: self.given.has(Word::Name).then_some(self.name) })
    }
}
