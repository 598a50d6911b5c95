//! Runs the hot path of `core` a number of times, for `scripts/instructions` to count what it
//! executes: parse, decide, apply and encode. Plain calls take the short way, as in the module; a
//! call with a `BLOCK` takes the long one.
//!
//! Time is simulated and nothing is random, so every run executes the same instructions.

use std::error::Error;
use std::hint::black_box;

use rl_core::decision::{Ask, Part, Terms, decide};
use rl_core::effect::Effect;
use rl_core::grammar::Request;
use rl_core::grammar::acquire::parse_acquire;
use rl_core::grammar::remembered::Table;
use rl_core::grammar::rules::{Form, keys_and_rules, parse_rules};
use rl_core::limiter::Limiter;
use rl_core::plain::{self, Asked};
use rl_core::stored::blob::Blob;
use rl_core::stored::effect::encode_effect;

/// Any moment will do.
const START_MS: i64 = 1_700_000_000_000;
/// The most keys of a case.
const KEYS: usize = 3;

/// A name, and the arguments of `RL.ACQUIRE`, or of `RL.ACQUIREX` where the last holds a whole rule.
/// A millisecond passes between calls.
type Case = (&'static str, &'static [&'static [u8]]);

const CASES: &[Case] = &[
    ("bucket-granted", &[b"user:42", b"WINDOW", b"60000", b"LIMIT", b"60000", b"ALGO", b"bucket"]),
    ("bucket-denied", &[b"user:42", b"WINDOW", b"1d", b"LIMIT", b"10", b"ALGO", b"bucket"]),
    // A thousand permits in a second: the log is full, an entry leaves for each that comes.
    ("sliding-granted", &[b"user:42", b"WINDOW", b"1000", b"LIMIT", b"1000", b"ALGO", b"sliding"]),
    ("sliding-denied", &[b"user:42", b"WINDOW", b"1d", b"LIMIT", b"10", b"ALGO", b"sliding"]),
    (
        "three-buckets-granted",
        &[
            b"user:42",
            b"ip:192.0.2.7",
            b"all",
            b"WINDOW",
            b"60000",
            b"LIMIT",
            b"60000",
            b"ALGO",
            b"bucket",
        ],
    ),
    ("repeated-rule-granted", &[b"user:42", b"WINDOW 60000 LIMIT 60000 ALGO bucket"]),
    ("with-block-granted", &[b"user:42", b"WINDOW 60000 LIMIT 60000 ALGO bucket BLOCK 1000"]),
];

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, calls] = args.as_slice() else {
        // Without arguments: the names, for the script.
        CASES.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let case = CASES.iter().find(|(known, _)| known == name).ok_or("no such case")?;
    let granted = run(case.1, calls.parse()?)?;
    println!("{granted}");
    Ok(())
}

/// How many of so many calls were granted.
fn run(args: &[&[u8]], calls: i64) -> Result<u64, Box<dyn Error>> {
    // As many places as in the module.
    let mut remembered = Table::new(256);
    let mut limiters: [Limiter; KEYS] = Default::default();
    let mut blob = Blob::new();
    let mut granted = 0;
    for call in 0..calls {
        let args = black_box(args);
        granted += acquire(args, &mut remembered, &mut limiters, START_MS + call, &mut blob)?;
    }
    Ok(granted)
}

/// One call, as the module makes it. With a replica, so that its effects are encoded.
#[inline(never)]
fn acquire(
    args: &[&[u8]],
    remembered: &mut Table,
    limiters: &mut [Limiter; KEYS],
    now_ms: i64,
    blob: &mut Blob,
) -> Result<u64, Box<dyn Error>> {
    let known;
    let (request, rule) = if args.len() == 2 {
        let (keys, text) = keys_and_rules(args)?;
        known = remembered.recall(text, Form::AcquireX);
        let mut rule = None;
        let mut sink = |read| rule = Some(read);
        let options = match &known {
            Some(known) => known.read(&mut sink),
            None => parse_rules(text, Form::AcquireX, &mut sink)?,
        };
        (Request::new(keys, 1, options)?, rule.ok_or("no rule")?)
    } else {
        parse_acquire(args)?
    };
    let ask = &rule.ask;
    let terms = Terms { now_ms, upto: request.options.upto, ..Terms::default() };
    let limiters = limiters.get_mut(..request.keys).ok_or("too many keys")?;
    Ok(acquire_plain(limiters, ask, &terms, blob)
        .unwrap_or_else(|| acquire_in_full(limiters, ask, &terms, blob)))
}

/// `None` when the call is not plain.
fn acquire_plain(
    limiters: &mut [Limiter],
    ask: &Ask,
    terms: &Terms<'_>,
    blob: &mut Blob,
) -> Option<u64> {
    let mut taken = [None; KEYS];
    let mut told = |key: usize, one| {
        if let Some(to) = taken.get_mut(key) {
            *to = one;
        }
    };
    let (decision, _) = match limiters {
        [limiter] => plain::decide(&mut [Asked { limiter, ask }], terms, &mut told),
        [one, two, three] => {
            let mut asked = [one, two, three].map(|limiter| Asked { limiter, ask });
            plain::decide(&mut asked, terms, &mut told)
        }
        _ => None,
    }?;
    for (limiter, taken) in limiters.iter().zip(taken) {
        if let Some(taken) = taken {
            encode(&plain::effect(limiter, &ask.rule, &taken, terms.now_ms), blob);
        }
    }
    Some(decision.granted)
}

fn acquire_in_full(limiters: &mut [Limiter], ask: &Ask, terms: &Terms<'_>, blob: &mut Blob) -> u64 {
    let mut parts = [(); KEYS].map(|()| Part::new(None, ask));
    let mut effects = [None, None, None];
    let parts = parts.get_mut(..limiters.len()).unwrap_or_default();
    for (part, limiter) in parts.iter_mut().zip(limiters.iter()) {
        *part = Part::new(Some(limiter), ask);
    }
    let granted = decide(parts, terms).granted;
    effects.iter_mut().zip(parts.iter()).for_each(|(effect, part)| *effect = part.effect());
    for (limiter, effect) in limiters.iter_mut().zip(&effects) {
        if let Some(effect) = effect {
            limiter.apply(effect);
            encode(effect, blob);
        }
    }
    granted
}

fn encode(effect: &Effect, blob: &mut Blob) {
    blob.clear();
    encode_effect(effect, blob);
    black_box(blob.bytes());
}
