//! The grammar of `RL.REFUND`, `RL.RELEASE`, `RL.BLOCK` and `RL.EXEMPT`: keys, a word and its
//! value.

use super::arguments::Arguments;
use super::error::{RequestError, Shown};
use super::keys::check_keys;
use super::values::check_id;
use super::word::Word;
use crate::numbers::MAX_PERMITS;

/// A command of the form `key [key ...] WORD value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer<T> {
    /// The number of keys.
    pub keys: usize,
    /// The value at the end.
    pub value: T,
}

/// Parses `key [key ...] COST n`.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_refund<A: Arguments + ?Sized>(args: &A) -> Result<Trailer<u64>, Box<RequestError>> {
    let Trailer { keys, value } = parse_trailer(args, Word::Cost, "COST")?;
    Ok(Trailer { keys, value: Word::Cost.count(value, 0, MAX_PERMITS)? })
}

/// Parses `key [key ...] ID id`.
///
/// # Errors
/// As [`parse_refund`].
pub fn parse_release<A: Arguments + ?Sized>(args: &A) -> Result<Trailer<&[u8]>, Box<RequestError>> {
    let Trailer { keys, value } = parse_trailer(args, Word::Id, "ID")?;
    Ok(Trailer { keys, value: check_id(value)? })
}

/// Parses `key [key ...] FOR ms`.
///
/// # Errors
/// As [`parse_refund`].
pub fn parse_lay<A: Arguments + ?Sized>(args: &A) -> Result<Trailer<i64>, Box<RequestError>> {
    let Trailer { keys, value } = parse_trailer(args, Word::For, "FOR")?;
    Ok(Trailer { keys, value: Word::For.duration(value, 0)? })
}

fn parse_trailer<'a, A: Arguments + ?Sized>(
    args: &'a A,
    word: Word,
    expected: &'static str,
) -> Result<Trailer<&'a [u8]>, Box<RequestError>> {
    let keys = args.count().checked_sub(2).filter(|keys| *keys > 0);
    let keys = keys.ok_or(RequestError::ArgumentCount)?;
    if Word::parse(args.get(keys)) != Some(word) {
        return Err(RequestError::Syntax { expected, got: Shown::new(args.get(keys)) }.into());
    }
    let usage = "the keys come first, then one option with its value";
    check_keys(args, keys, |key| {
        (Word::parse(key)? == word).then_some(RequestError::WordAsKey { word, usage })
    })?;
    Ok(Trailer { keys, value: args.get(keys + 1) })
}
