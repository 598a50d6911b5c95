//! The grammar of the commands: bytes in, a checked request out.
//!
//! Nothing here touches a limiter, so a request that does not parse changes nothing. Rules go to a
//! sink of the caller, so that parsing allocates nothing.

use crate::concurrency::MAX_ID;
use crate::decision::Ask;
use crate::error::{MAX_KEYS, RequestError, Shown};
use crate::policy::Policy;
use crate::rule::{Algorithm, MAX_PERMITS, MAX_WINDOW_MS, Rule, Shape};
pub use crate::rule_args::{Named, rule_of};
use crate::rule_args::{RuleArgs, check_name};
use crate::twice::find_twice;
use crate::word::Words;
pub use crate::word::{Word, integer};

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

/// Which of the commands that ask for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `RL.ACQUIREX`
    AcquireX,
    /// `RL.PEEK`: its answer, without its effect.
    Peek,
}

/// A request for permits. Its keys are the first arguments; its rules are beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// How many keys.
    pub keys: usize,
    /// How many rules: 1, or as many as keys.
    pub rules: usize,
    /// `UPTO`, by default 1.
    pub upto: u64,
    /// `ID`
    pub id: Option<&'a [u8]>,
    /// `RESERVE` in ms, by default 0.
    pub reserve_ms: i64,
    /// `TIMEOUT` in ms, by default 0.
    pub timeout_ms: i64,
    /// `FORCE`
    pub force: bool,
    /// `WITHKEYS`
    pub with_keys: bool,
}

impl<'a> Request<'a> {
    fn new(keys: usize) -> Request<'a> {
        Request {
            keys,
            rules: 1,
            upto: 1,
            id: None,
            reserve_ms: 0,
            timeout_ms: 0,
            force: false,
            with_keys: false,
        }
    }
}

/// The three pairs at the end of `RL.ACQUIRE`.
const TAIL: usize = 6;

/// Parses `key [key ...] WINDOW ms LIMIT n ALGO algorithm`, the three pairs in any order. Its rule is
/// returned, there is only one.
///
/// # Errors
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
    if named.ask.rule.algorithm() == Algorithm::Concurrency {
        return Err(RequestError::NoLeases.into());
    }
    check_keys(args, keys, |word| match word {
        Word::Window | Word::Limit | Word::Algo => RequestError::WordAsKey {
            word,
            usage: "RL.ACQUIRE takes WINDOW, LIMIT and ALGO once each, after the keys",
        },
        _ => RequestError::OptionAsKey(word),
    })?;
    Ok((Request::new(keys), named))
}

/// Parses `key max_burst count period [quantity]`, the grammar of redis-cell: `count` permits in
/// `period` seconds into a bucket that holds `max_burst` and one.
///
/// # Errors
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
    Ok((Request::new(1), Named { ask, name: None }))
}

/// How many keys `RL.ACQUIREX` and `RL.PEEK` have: those before the first `WINDOW`, the first
/// argument being a key whatever it is. `None` without a `WINDOW`.
pub fn keys_before_rules<A: Arguments + ?Sized>(args: &A) -> Option<usize> {
    (1..args.count()).find(|at| is_window(args, *at))
}

fn is_window<A: Arguments + ?Sized>(args: &A, at: usize) -> bool {
    Word::parse(args.get(at)) == Some(Word::Window)
}

/// Parses `key [key ...] rule [rule ...] [option ...]`.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_acquirex<'a, A: Arguments + ?Sized>(
    args: &'a A,
    form: Form,
    rules: &mut impl FnMut(Named<'a>),
) -> Result<Request<'a>, Box<RequestError>> {
    let keys = keys_before_rules(args).ok_or(RequestError::NoRule)?;
    check_keys(args, keys, |word| RequestError::WordAsKey {
        word,
        usage: "the keys come first, then the rules, each of which starts with WINDOW",
    })?;
    let mut request = Request { rules: 0, ..Request::new(keys) };
    let mut seen = Seen::default();
    let (mut at, mut word) = (keys, Some(Word::Window));
    while word == Some(Word::Window) {
        let (named, end) = parse_rule(args, at, request.rules + 1)?;
        request.rules += 1;
        if request.rules > keys {
            let windows = (keys..args.count()).filter(|at| is_window(args, *at));
            return Err(RequestError::RuleCount { keys, rules: windows.count() }.into());
        }
        seen.rule(&named.ask);
        rules(named);
        End { at, word } = end;
    }
    while at < args.count() {
        let option = word.ok_or_else(|| expected_option(form, args.get(at)))?;
        at += request.set_option(form, option, args, at, &mut seen)?;
        word = Word::parse(args.get(at));
    }
    if request.rules != 1 && request.rules != keys {
        return Err(RequestError::RuleCount { keys, rules: request.rules }.into());
    }
    request.check_together(form, &seen)?;
    Ok(request)
}

fn expected_option(form: Form, got: &[u8]) -> RequestError {
    let expected = match form {
        Form::AcquireX => "a rule or UPTO, ID, RESERVE, TIMEOUT, FORCE or WITHKEYS",
        Form::Peek => "a rule or UPTO, ID or WITHKEYS",
    };
    RequestError::Syntax { expected, got: Shown::new(got) }
}

/// What the checks over all rules and options need to know.
#[derive(Default)]
struct Seen {
    concurrency: bool,
    other_than_bucket: bool,
    highest_cost: u64,
    options: Words,
}

impl Seen {
    fn rule(&mut self, ask: &Ask) {
        let algorithm = ask.rule.algorithm();
        self.concurrency |= algorithm == Algorithm::Concurrency;
        self.other_than_bucket |= algorithm != Algorithm::Bucket;
        self.highest_cost = self.highest_cost.max(ask.cost);
    }
}

impl<'a> Request<'a> {
    /// Takes the option at an index. Returns how many arguments it is.
    fn set_option<A: Arguments + ?Sized>(
        &mut self,
        form: Form,
        word: Word,
        args: &'a A,
        at: usize,
        seen: &mut Seen,
    ) -> Result<usize, Box<RequestError>> {
        seen.options.add(word)?;
        let value = || (at + 1 < args.count()).then(|| args.get(at + 1));
        let value = || value().ok_or(RequestError::NoValue(word));
        let peeks = form == Form::Peek;
        match word {
            Word::Reserve | Word::Force | Word::Timeout if peeks => {
                return Err(
                    RequestError::Misplaced { word, place: "to RL.ACQUIREX, not RL.PEEK" }.into()
                );
            }
            Word::Upto => self.upto = word.count(value()?, 1, MAX_PERMITS)?,
            Word::Id => {
                self.id = Some(word.text(value()?, MAX_ID, |_| true, "1 to 255 bytes")?);
            }
            Word::Reserve => self.reserve_ms = word.duration(value()?, 0)?,
            Word::Force => {
                self.force = true;
                return Ok(1);
            }
            Word::WithKeys => {
                self.with_keys = true;
                return Ok(1);
            }
            Word::Timeout => self.timeout_ms = word.duration(value()?, 0)?,
            Word::For | Word::Shadow | Word::Count => {
                return Err(expected_option(form, args.get(at)).into());
            }
            Word::Window
            | Word::Limit
            | Word::Algo
            | Word::Burst
            | Word::Offset
            | Word::Block
            | Word::Cost
            | Word::Name => {
                return Err(RequestError::Misplaced {
                    word,
                    place: "to a rule, before UPTO, ID, RESERVE, TIMEOUT, FORCE and WITHKEYS",
                }
                .into());
            }
        }
        Ok(2)
    }

    /// Checks what only all rules and options together tell.
    fn check_together(&self, form: Form, seen: &Seen) -> Result<(), Box<RequestError>> {
        let excluded = |word, with| Err(RequestError::Excluded { word, with }.into());
        if self.force {
            let words =
                [(Word::Upto, "UPTO"), (Word::Reserve, "RESERVE"), (Word::Timeout, "TIMEOUT")];
            if let Some((_, with)) = words.into_iter().find(|(word, _)| seen.options.has(*word)) {
                return excluded(Word::Force, with);
            }
            if seen.concurrency {
                return excluded(Word::Force, "ALGO concurrency");
            }
        }
        if seen.options.has(Word::Reserve) && seen.options.has(Word::Timeout) {
            return excluded(Word::Reserve, "TIMEOUT");
        }
        if seen.options.has(Word::Reserve) && seen.other_than_bucket {
            return excluded(Word::Reserve, "an ALGO other than bucket and leaky");
        }
        match self.id {
            Some(_) if !seen.concurrency => {
                return excluded(Word::Id, "an ALGO other than concurrency");
            }
            None if seen.concurrency && form == Form::AcquireX => {
                return Err(
                    RequestError::Required { word: Word::Id, by: "ALGO concurrency" }.into()
                );
            }
            _ => {}
        }
        let batch = seen.highest_cost.checked_mul(self.upto).filter(|n| *n <= MAX_PERMITS);
        batch.map(|_| ()).ok_or_else(|| RequestError::BatchTooLarge.into())
    }
}

/// Where a rule ends, and the word there, if it is one.
struct End {
    at: usize,
    word: Option<Word>,
}

/// Parses the rule whose `WINDOW` is at an index.
fn parse_rule<'a, A: Arguments + ?Sized>(
    args: &'a A,
    start: usize,
    number: usize,
) -> Result<(Named<'a>, End), Box<RequestError>> {
    let mut rule = RuleArgs::new();
    let (mut at, mut word) = (start, Some(Word::Window));
    while let Some(pair) = word.filter(|word| RuleArgs::has(*word)) {
        if at + 1 >= args.count() {
            return Err(RequestError::NoValue(pair).into());
        }
        rule.set(pair, args.get(at + 1))?;
        at += 2;
        word = Word::parse(args.get(at));
        if word == Some(Word::Window) {
            break;
        }
    }
    Ok((rule.finish(number)?, End { at, word }))
}

/// A command of the form `key [key ...] WORD value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer<T> {
    /// How many keys.
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
    Ok(Trailer { keys, value: Word::Id.text(value, MAX_ID, |_| true, "1 to 255 bytes")? })
}

/// Parses `key [key ...] FOR ms`.
///
/// # Errors
/// As [`parse_refund`].
pub fn parse_hold<A: Arguments + ?Sized>(args: &A) -> Result<Trailer<i64>, Box<RequestError>> {
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
    check_keys(args, keys, |word| RequestError::WordAsKey { word, usage })?;
    Ok(Trailer { keys, value: args.get(keys + 1) })
}

/// A parsed `RL.POLICY SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySet<'a> {
    /// The name of the rules that it is for.
    pub name: &'a [u8],
    /// The numbers.
    pub policy: Policy,
    /// For how long, in ms; `None` until it is changed.
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

/// Refuses keys that are option words, named twice, or too many.
fn check_keys<A: Arguments + ?Sized>(
    args: &A,
    keys: usize,
    reserved: impl Fn(Word) -> RequestError,
) -> Result<(), Box<RequestError>> {
    if keys > MAX_KEYS {
        return Err(RequestError::TooManyKeys(keys).into());
    }
    if let Some(word) = (0..keys).find_map(|i| Word::parse(args.get(i))) {
        return Err(reserved(word).into());
    }
    if keys > 1
        && let Some(key) = find_twice(args, keys)
    {
        return Err(RequestError::KeyTwice(Shown::new(key)).into());
    }
    Ok(())
}
