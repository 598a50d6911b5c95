//! The grammar of `RL.ACQUIRE` and `CL.THROTTLE`: keys, and one rule in several arguments.

use super::arguments::Arguments;
use super::error::{RequestError, Shown};
use super::keys::check_keys;
use super::request::Request;
use super::rule_args::{Named, RuleArgs};
use super::values::integer;
use super::word::Word;
use crate::rule::{Algorithm, MAX_PERMITS, MAX_WINDOW_MS, Rule, Shape};
use crate::terms::Ask;

/// The three pairs at the end of `RL.ACQUIRE`.
const TAIL: usize = 6;

/// Parses `key [key ...] WINDOW ms LIMIT n ALGO algorithm`, the three pairs in any order. Returns
/// the request and its only rule.
///
/// # Errors
/// The first thing that is wrong.
/// The first thing that is wrong.
pub fn parse_acquire<'a, A: Arguments + ?Sized>(
    args: &'a A,
) -> Result<(Request<'a>, Named<'a>), Box<RequestError>> {
    let keys = args.count().checked_sub(TAIL).filter(|keys| *keys > 0);
    let keys = keys.ok_or(RequestError::ArgumentCount)?;
    let mut rule = RuleArgs::new();
    for at in (keys..args.count()).step_by(2) {
        match Word::parse(args.get(at)) {
            Some(word @ (Word::Window | Word::Limit | Word::Algo)) => {
                rule.set(word, args.get(at + 1))?;
            }
            _ => {
                let (expected, got) = ("WINDOW, LIMIT or ALGO", Shown::new(args.get(at)));
                return Err(RequestError::Syntax { expected, got }.into());
            }
        }
    }
    let named = rule.finish(1)?;
    let algorithm = named.ask.rule.algorithm();
    if algorithm.is_leased() {
        return Err(RequestError::NoLeases(algorithm).into());
    }
    check_keys(args, keys, |key| {
        Some(match Word::parse(key)? {
            word @ (Word::Window | Word::Limit | Word::Algo) => RequestError::WordAsKey {
                word,
                usage: "RL.ACQUIRE takes WINDOW, LIMIT and ALGO once each, after the keys",
            },
            word => RequestError::OptionAsKey(word),
        })
    })?;
    Ok((Request::plain(keys), named))
}

/// Parses `key max_burst count period [quantity]`, the grammar of redis-cell: `count` permits in
/// `period` seconds, in a bucket whose burst is `max_burst + 1`.
///
/// # Errors
/// The first thing that is wrong.
/// The first thing that is wrong.
pub fn parse_throttle<A: Arguments + ?Sized>(
    args: &A,
) -> Result<(Request<'_>, Named<'_>), Box<RequestError>> {
    const SECOND_MS: i64 = 1000;
    const MAX: i64 = MAX_PERMITS as i64;
    if !(4..=5).contains(&args.count()) {
        return Err(RequestError::ArgumentCount.into());
    }
    let number = |at: usize, name: &'static str, low: i64, high: i64| {
        let value = integer(args.get(at)).filter(|value| (low..=high).contains(value));
        let got = || Shown::new(args.get(at));
        value.ok_or_else(|| RequestError::Argument { name, low, high, got: got() })
    };
    let burst = 1 + number(1, "max_burst", 0, MAX - 1)? as u64;
    let limit = number(2, "count", 1, MAX)? as u64;
    let window_ms = SECOND_MS * number(3, "period", 1, MAX_WINDOW_MS / SECOND_MS)?;
    let cost = if args.count() == 5 { number(4, "quantity", 0, MAX)? as u64 } else { 1 };
    let shape = Shape { burst: Some(burst), ..Shape::default() };
    let rule = Rule::new(Algorithm::Bucket, window_ms, limit, shape).map_err(RequestError::Rule)?;
    let ask = Ask { rule, cost, block_ms: 0, shadow: false };
    Ok((Request::plain(1), Named { ask, name: None }))
}
