//! Runs the hot path of `core` a number of times, for `scripts/instructions` to count what it
//! executes: parse, decide, apply and encode. Plain calls take the short way, as in the module; a
//! call with a `BLOCK` takes the long one.
//!
//! Time is simulated and nothing is random, so every run executes the same instructions.

use std::error::Error;
use std::hint::black_box;

use rl_core::call::acquire;
use rl_core::decision::{Ask, Terms};
use rl_core::effect::Effect;
use rl_core::grammar::Request;
use rl_core::grammar::acquire::parse_acquire;
use rl_core::grammar::remembered::Table;
use rl_core::grammar::rules::{Form, keys_and_rules, parse_rules};
use rl_core::limiter::Limiter;
use rl_core::limiters::{Limiters, Taken};
use rl_core::plain;
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
    for made in 0..calls {
        let args = black_box(args);
        granted += call(args, &mut remembered, &mut limiters, START_MS + made, &mut blob)?;
    }
    Ok(granted)
}

/// One call, as the module makes it. With a replica, so that its effects are encoded.
#[inline(never)]
fn call(
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
    let (decision, _) = acquire(&mut Hot { limiters, ask, now_ms, blob }, &terms, &mut ())?;
    Ok(decision.granted)
}

/// Limiters in an array, whose effects are encoded.
struct Hot<'a> {
    limiters: &'a mut [Limiter],
    ask: &'a Ask,
    now_ms: i64,
    blob: &'a mut Blob,
}

impl Hot<'_> {
    fn encode(&mut self, effect: &Effect) {
        self.blob.clear();
        encode_effect(effect, self.blob);
        black_box(self.blob.bytes());
    }
}

impl Limiters for Hot<'_> {
    fn count(&self) -> usize {
        self.limiters.len()
    }

    fn get(&self, place: usize) -> Option<&Limiter> {
        self.limiters.get(place)
    }

    fn ask(&self, place: usize) -> Option<&Ask> {
        (place < self.limiters.len()).then_some(self.ask)
    }

    fn asked(&mut self, place: usize) -> Option<(&mut Limiter, &Ask)> {
        Some((self.limiters.get_mut(place)?, self.ask))
    }

    fn taken(&mut self, place: usize, taken: Taken) {
        if let Some(limiter) = self.limiters.get(place) {
            self.encode(&plain::effect(limiter, &self.ask.rule, &taken, self.now_ms));
        }
    }

    fn apply(&mut self, place: usize, effect: &Effect) {
        if let Some(limiter) = self.limiters.get_mut(place) {
            limiter.apply(effect);
            self.encode(effect);
        }
    }

    fn may_grow(&self) -> bool {
        true
    }
}
