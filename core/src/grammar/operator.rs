//! The grammar of `RL.POLICY SET` and `RL.TOP`.

use super::arguments::Arguments;
use super::error::{RequestError, Shown};
use super::rule_args::{RuleArgs, check_name};
use super::word::Word;
use crate::numbers::MAX_PERMITS;
use crate::policy::Policy;
use crate::terms::Ask;

/// A parsed `RL.POLICY SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySet<'a> {
    /// The name of the rules to which it applies.
    pub name: &'a [u8],
    /// The policy.
    pub policy: Policy,
    /// How long it applies, in ms; `None` until it is changed.
    pub for_ms: Option<i64>,
}

/// Parses `name WINDOW ms LIMIT n ALGO algorithm [BURST n] [OFFSET ms] [BLOCK ms] [SHADOW] [FOR
/// ms]`, in any order after the name.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_policy_set<A: Arguments + ?Sized>(
    args: &A,
) -> Result<PolicySet<'_>, Box<RequestError>> {
    let name = check_name(args.get(0))?;
    let mut rule = RuleArgs::new();
    let (mut shadow, mut for_ms) = (false, None);
    let mut at = 1;
    while at < args.count() {
        let word = match Word::parse(args.get(at)) {
            Some(Word::Shadow) => {
                if std::mem::replace(&mut shadow, true) {
                    return Err(RequestError::Twice(Word::Shadow).into());
                }
                at += 1;
                continue;
            }
            Some(word @ (Word::Cost | Word::Name)) => {
                let place = "to the rule of a call, not to a policy";
                return Err(RequestError::Misplaced { word, place }.into());
            }
            Some(word) if word == Word::For || RuleArgs::has(word) => word,
            _ => {
                let expected = "WINDOW, LIMIT, ALGO, BURST, OFFSET, BLOCK, SHADOW or FOR";
                return Err(RequestError::Syntax { expected, got: Shown::new(args.get(at)) }.into());
            }
        };
        if at + 1 >= args.count() {
            return Err(RequestError::NoValue(word).into());
        }
        let value = args.get(at + 1);
        at += 2;
        if word != Word::For {
            rule.set(word, value)?;
        } else if for_ms.replace(word.duration(value, 1)?).is_some() {
            return Err(RequestError::Twice(word).into());
        }
    }
    let Ask { rule, block_ms, .. } = rule.finish(1)?.ask;
    Ok(PolicySet { name, policy: Policy { rule, block_ms, shadow }, for_ms })
}

/// Parses `[COUNT n]`, by default 10.
///
/// # Errors
/// Something else, or a number out of its range.
pub fn parse_top<A: Arguments + ?Sized>(args: &A) -> Result<usize, Box<RequestError>> {
    const DEFAULT: usize = 10;
    if args.count() == 0 {
        return Ok(DEFAULT);
    }
    if Word::parse(args.get(0)) != Some(Word::Count) {
        return Err(RequestError::Syntax { expected: "COUNT", got: Shown::new(args.get(0)) }.into());
    }
    match args.count() {
        1 => Err(RequestError::NoValue(Word::Count).into()),
        2 => Ok(Word::Count.count(args.get(1), 1, MAX_PERMITS)? as usize),
        _ => {
            Err(RequestError::Syntax { expected: "nothing more", got: Shown::new(args.get(2)) }
                .into())
        }
    }
}
