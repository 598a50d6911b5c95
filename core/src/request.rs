//! The grammar of the commands: bytes in, a checked request out.
//!
//! Nothing here touches a limiter, so a request that does not parse changes nothing.

use std::collections::HashSet;
use std::fmt;

use crate::decision::Ask;
use crate::error::{MAX_KEYS, RequestError, Shown};
use crate::rule::{Algorithm, Rule, RuleError, Shape};

/// The arguments of a command, without its name.
pub trait Arguments {
    /// How many there are.
    fn count(&self) -> usize;
    /// The argument at an index below [`Arguments::count`]; empty beyond.
    fn get(&self, index: usize) -> &[u8];
}

impl Arguments for [&[u8]] {
    fn count(&self) -> usize {
        self.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        <[&[u8]]>::get(self, index).copied().unwrap_or_default()
    }
}

/// The option words of all commands. None of them can be a key: it would be a misplaced option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// `WINDOW ms`
    Window,
    /// `LIMIT n`
    Limit,
    /// `ALGO algorithm`
    Algo,
    /// `BURST n`
    Burst,
    /// `OFFSET ms`
    Offset,
    /// `BLOCK ms`
    Block,
    /// `COST n`
    Cost,
    /// `NAME name`
    Name,
    /// `UPTO n`
    Upto,
    /// `ID id`
    Id,
    /// `RESERVE ms`
    Reserve,
    /// `TIMEOUT ms`
    Timeout,
    /// `FORCE`
    Force,
    /// `WITHKEYS`
    WithKeys,
    /// `FOR ms`
    For,
    /// `SHADOW`
    Shadow,
}

const WORDS: [(Word, &str); 16] = [
    (Word::Window, "WINDOW"),
    (Word::Limit, "LIMIT"),
    (Word::Algo, "ALGO"),
    (Word::Burst, "BURST"),
    (Word::Offset, "OFFSET"),
    (Word::Block, "BLOCK"),
    (Word::Cost, "COST"),
    (Word::Name, "NAME"),
    (Word::Upto, "UPTO"),
    (Word::Id, "ID"),
    (Word::Reserve, "RESERVE"),
    (Word::Timeout, "TIMEOUT"),
    (Word::Force, "FORCE"),
    (Word::WithKeys, "WITHKEYS"),
    (Word::For, "FOR"),
    (Word::Shadow, "SHADOW"),
];

const LONGEST_WORD: usize = 8;

impl Word {
    /// The word that these bytes spell, in any case.
    pub fn parse(bytes: &[u8]) -> Option<Word> {
        // Keys come through here on each call and are mostly longer than any word.
        if bytes.len() > LONGEST_WORD {
            return None;
        }
        let spelled = |(_, text): &&(Word, &str)| text.as_bytes().eq_ignore_ascii_case(bytes);
        WORDS.iter().find(spelled).map(|(word, _)| *word)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = WORDS.iter().find(|(word, _)| word == self).map_or("", |(_, text)| text);
        f.write_str(text)
    }
}

/// A parsed `RL.ACQUIRE`: the first `keys` arguments are its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// How many keys.
    pub keys: usize,
    /// What is asked of each.
    pub ask: Ask,
}

/// The three pairs at the end of `RL.ACQUIRE`.
const TAIL: usize = 6;

/// Parses `key [key ...] WINDOW ms LIMIT n ALGO algorithm`, the three pairs in any order.
///
/// # Errors
/// The first thing that is wrong. Fewer than seven arguments are for the caller to refuse (wrong arity).
pub fn parse_acquire<A: Arguments + ?Sized>(args: &A) -> Result<Acquire, RequestError> {
    const EXPECTED: &str = "WINDOW, LIMIT or ALGO";
    let keys = args.count().saturating_sub(TAIL);
    let (mut window_ms, mut limit, mut algorithm) = (None, None, None);
    for at in (keys..keys + TAIL).step_by(2) {
        let (name, value) = (args.get(at), args.get(at + 1));
        let twice = match Word::parse(name) {
            Some(Word::Window) => window_ms.replace(window(value)?).map(|_| Word::Window),
            Some(Word::Limit) => {
                limit.replace(number(value, RuleError::Limit)?).map(|_| Word::Limit)
            }
            Some(Word::Algo) => algorithm.replace(algo(value)?).map(|_| Word::Algo),
            _ => {
                let got = Shown::new(name);
                return Err(RequestError::Syntax { expected: EXPECTED, got });
            }
        };
        if let Some(word) = twice {
            return Err(RequestError::Twice(word));
        }
    }
    let (Some(window_ms), Some(limit), Some((algorithm, burst))) = (window_ms, limit, algorithm)
    else {
        let got = Shown::new(args.get(keys));
        return Err(RequestError::Syntax { expected: EXPECTED, got });
    };
    let shape = Shape { burst, ..Shape::default() };
    let rule = Rule::new(algorithm, window_ms, limit, shape).map_err(|expected| {
        // Only a limit can still be out of its range: the others were checked as they were read.
        let at = (keys..keys + TAIL).find(|at| Word::parse(args.get(*at)) == Some(Word::Limit));
        let got = Shown::new(at.map_or(&[][..], |at| args.get(at + 1)));
        RequestError::Number { expected, got }
    })?;
    check_keys(args, keys)?;
    Ok(Acquire { keys, ask: Ask { rule, cost: 1, block_ms: 0 } })
}

/// Refuses keys that are option words, named twice, or too many.
fn check_keys<A: Arguments + ?Sized>(args: &A, keys: usize) -> Result<(), RequestError> {
    /// Up to here comparing all pairs is faster than hashing, and allocates nothing.
    const FEW: usize = 8;
    if keys > MAX_KEYS {
        return Err(RequestError::TooManyKeys(keys));
    }
    if let Some(word) = (0..keys).find_map(|i| Word::parse(args.get(i))) {
        return Err(RequestError::OptionAsKey(word));
    }
    let twice = if keys <= FEW {
        (1..keys).find(|i| (0..*i).any(|j| args.get(*i) == args.get(j)))
    } else {
        let mut seen = HashSet::with_capacity(keys);
        (0..keys).find(|i| !seen.insert(args.get(*i)))
    };
    match twice {
        Some(i) => Err(RequestError::KeyTwice(Shown::new(args.get(i)))),
        None => Ok(()),
    }
}

/// An algorithm's word, and the burst that it implies: `leaky` is a bucket with a burst of 1.
fn algo(bytes: &[u8]) -> Result<(Algorithm, Option<u64>), RequestError> {
    const ALGORITHMS: [Algorithm; 4] =
        [Algorithm::Sliding, Algorithm::Bucket, Algorithm::Fixed, Algorithm::Counter];
    let is = |name: &str| bytes.eq_ignore_ascii_case(name.as_bytes());
    if is("leaky") {
        return Ok((Algorithm::Bucket, Some(1)));
    }
    let named = ALGORITHMS.into_iter().find(|algorithm| is(algorithm.name()));
    named
        .map(|algorithm| (algorithm, None))
        .ok_or_else(|| RequestError::UnknownAlgorithm(Shown::new(bytes)))
}

fn window(bytes: &[u8]) -> Result<i64, RequestError> {
    let in_range = duration(bytes).filter(|ms| (1..=crate::rule::MAX_WINDOW_MS).contains(ms));
    in_range
        .ok_or_else(|| RequestError::Number { expected: RuleError::Window, got: Shown::new(bytes) })
}

fn number(bytes: &[u8], expected: RuleError) -> Result<u64, RequestError> {
    let parsed = integer(bytes).and_then(|value| u64::try_from(value).ok());
    parsed.ok_or_else(|| RequestError::Number { expected, got: Shown::new(bytes) })
}

/// A duration: an integer of milliseconds, or one with a unit (`ms`, `s`, `m`, `h`, `d`). In ms.
fn duration(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.iter().position(u8::is_ascii_lowercase).unwrap_or(bytes.len());
    let (value, unit) = bytes.split_at_checked(digits)?;
    let unit_ms = match unit {
        b"" | b"ms" => 1,
        b"s" => 1_000,
        b"m" => 60_000,
        b"h" => 3_600_000,
        b"d" => 86_400_000,
        _ => return None,
    };
    integer(value)?.checked_mul(unit_ms)
}

/// An integer as strictly as Redis reads it: an optional minus, no plus, no spaces, no leading zeros, no
/// overflow.
fn integer(bytes: &[u8]) -> Option<i64> {
    let (digits, sign) = match bytes.split_first()? {
        (b'-', digits) => (digits, -1),
        _ => (bytes, 1),
    };
    match digits {
        [b'0'] if sign == 1 => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    digits.iter().try_fold(0i64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(sign * digit)
    })
}
