//! Strings of rules that go through a table of one place, where all of them collide: none answers for another. Each is
//! read as the parser reads it, and a call that is made of it is decided as the oracle decides it.

use rl_core::decision::{Ask, Decision, Part, Terms, Verdict};
use rl_core::grammar::remembered::Table;
use rl_core::grammar::rules::{Form, parse_rules};
use rl_core::grammar::{Named, Options, Request, rule_of};
use rl_core::in_memory::InMemory;
use rl_core::limiter::Limiter;
use rl_core::limiters::Observer;
use rl_core::rule::Algorithm;

use crate::{Random, oracle};

const CALLS: usize = 1_000_000;
const KEYS: usize = 2;
/// Strings in use at a time: each second one is hardly another than the one before it.
const STRINGS: usize = 6;
const START_MS: i64 = 1_700_000_000_000;

/// What a string says, or why it says nothing.
type Read<'a> = Result<(Vec<Named<'a>>, Options<'a>), String>;

fn parse(text: &[u8], form: Form) -> Read<'_> {
    let mut rules = Vec::new();
    let options = parse_rules(text, form, &mut |rule| rules.push(rule));
    options.map(|options| (rules, options)).map_err(|error| error.to_string())
}

/// A string of one rule or of one for each key. The numbers are small, so that a call sees what earlier ones left, and
/// the strings are much alike.
fn random_string(random: &mut Random) -> Vec<u8> {
    let (mut text, mut leases, mut only_buckets) = (String::new(), false, true);
    for _ in 0..random.pick(&[1, 1, KEYS]) {
        let algorithm =
            random.pick(&["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"]);
        leases |= algorithm == "concurrency";
        only_buckets &= ["bucket", "leaky"].contains(&algorithm);
        let (window, limit) = (random.range(5, 30), random.range(1, 5));
        text += &format!("WINDOW {window} LIMIT {limit} ALGO {algorithm} ");
        text += match (algorithm, random.below(3)) {
            ("bucket", 0) => "BURST 7 ",
            ("fixed", 0) => "OFFSET -3 ",
            _ => "",
        };
        text += random
            .pick(&["", "", "", "COST 1 ", "COST 2 ", "COST 0 ", "NAME a ", "NAME b ", "BLOCK 4 "]);
    }
    text += match random.below(20) {
        0..3 => "UPTO 3 ",
        3 if !leases => "FORCE ",
        4 if only_buckets => "RESERVE 6 ",
        5 => "TIMEOUT 0 ",
        _ => "",
    };
    let mut text = text.into_bytes();
    if leases {
        text.extend_from_slice(b"ID ");
        text.extend_from_slice(random.pick(&["x", "y", "zz"]).as_bytes());
    }
    text
}

/// The same string with one byte changed, left out or added: often one that says something else or nothing.
fn altered(random: &mut Random, text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    let at = random.below(text.len() as u64) as usize;
    match random.below(6) {
        0 => text[at] ^= 0x20,
        1 => text.truncate(at),
        2 => text.insert(at, random.pick(b" \t0x")),
        3 => text.push(b' '),
        _ => {
            let digits: Vec<usize> =
                (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
            let at = random.pick(&digits);
            text[at] = random.pick(b"1234");
        }
    }
    text
}

/// Limiters and what the oracle knows of them.
struct World {
    now_ms: i64,
    limiters: Vec<Option<Limiter>>,
    oracle: Vec<oracle::Key>,
}

/// The answers of all limiters.
#[derive(Default)]
struct Verdicts(Vec<Verdict>);

impl Observer for Verdicts {
    fn wants_answers(&self) -> bool {
        true
    }

    fn denied_by(&mut self, _: usize) {}

    fn decided(&mut self, _: &Decision, parts: &[Part<'_>]) {
        self.0 = parts.iter().map(|part| *part.verdict()).collect();
    }
}

impl World {
    /// Makes a call by what was read of a string through the table; the oracle makes it by what the parser read.
    /// Whether it was granted.
    fn call(
        &mut self,
        keys: usize,
        form: Form,
        read: &Read<'_>,
        parsed: &Read<'_>,
    ) -> Option<bool> {
        let (Ok(read), Ok(parsed)) = (read, parsed) else { return None };
        let ((asks, terms), expected) = (self.asked(keys, read)?, self.asked(keys, parsed)?);
        let expected = oracle::call(&self.oracle[..keys], &expected.0, &expected.1);
        let mut limiters = self.limiters.clone();
        let mut call = InMemory::new(&mut limiters, &asks, terms.now_ms);
        let mut verdicts = Verdicts::default();
        let (decision, _) = call.acquire(&terms, &mut verdicts);
        assert_eq!(
            (decision, verdicts.0),
            (expected.decision, expected.verdicts),
            "{asks:?} {terms:?}"
        );
        if form == Form::AcquireX {
            self.limiters = limiters;
            for (key, after) in expected.after.into_iter().enumerate() {
                self.oracle[key] = after;
            }
        }
        Some(decision.granted > 0)
    }

    /// What a call asks of each key. `None` when the rules are none for so many keys.
    fn asked<'a>(
        &self,
        keys: usize,
        read: &(Vec<Named<'_>>, Options<'a>),
    ) -> Option<(Vec<Ask>, Terms<'a>)> {
        let (rules, options) = read;
        let Request { options, .. } = Request::new(keys, rules.len(), *options).ok()?;
        let asks: Vec<Ask> = (0..keys).filter_map(|key| Some(rule_of(rules, key)?.ask)).collect();
        let leases = asks.iter().any(|ask| ask.rule.algorithm() == Algorithm::Concurrency);
        let terms = Terms {
            now_ms: self.now_ms,
            upto: options.upto,
            reserve_ms: options.reserve_ms,
            force: options.force,
            // RL.PEEK need not name one; the oracle would take that for the lease without a name.
            id: options.id.or(Some(b"nobody")).filter(|_| leases),
            ..Terms::default()
        };
        Some((asks, terms))
    }

    fn delete(&mut self, key: usize) {
        self.limiters[key] = None;
        self.oracle[key] = oracle::Key::default();
    }
}

#[test]
fn strings_that_collide_never_answer_for_one_another() {
    let mut random = Random(13);
    let mut table = Table::new(1);
    let mut world = World {
        now_ms: START_MS,
        limiters: vec![None; KEYS],
        oracle: vec![oracle::Key::default(); KEYS],
    };
    let mut strings: Vec<Vec<u8>> = (0..STRINGS).map(|_| random_string(&mut random)).collect();
    let (mut last, mut form) = (0, Form::AcquireX);
    let (mut recalled, mut refused, mut granted, mut denied) = (0, 0, 0, 0);
    for call in 0..CALLS {
        if random.percent(5) {
            let at = random.below(STRINGS as u64) as usize;
            strings[at] = match at % 2 {
                0 => random_string(&mut random),
                _ => altered(&mut random, &strings[at - 1]),
            };
        }
        // Mostly the one before, or it would never be remembered.
        if random.percent(30) {
            last = random.below(STRINGS as u64) as usize;
            form = random.pick(&[Form::AcquireX, Form::AcquireX, Form::Peek]);
        }
        let text = &strings[last];
        let parsed = parse(text, form);
        let known = table.recall(text, form);
        recalled += usize::from(known.is_some());
        let read = known.as_ref().map(|known| {
            let mut rules = Vec::new();
            let options = known.read(&mut |rule| rules.push(rule));
            Ok((rules, options))
        });
        let read = read.unwrap_or_else(|| parse(text, form));
        assert_eq!(read, parsed, "call {call}, {form:?}: {}", text.escape_ascii());
        world.now_ms += random.pick(&[0, 0, 1, 1, 2, 5]);
        if random.percent(2) {
            world.delete(random.below(KEYS as u64) as usize);
        }
        // Mostly one rule, or one for each key.
        let rules = parsed.as_ref().map_or(1, |(rules, _)| rules.len());
        let any = 1 + random.below(KEYS as u64) as usize;
        let keys = if random.percent(95) { rules.clamp(any, KEYS) } else { any };
        match world.call(keys, form, &read, &parsed) {
            Some(true) => granted += 1,
            Some(false) => denied += 1,
            None => refused += 1,
        }
    }
    let counts =
        format!("{recalled} recalled, {refused} refused, {granted} granted, {denied} denied");
    println!("{counts}, {} parsed", table.parsed());
    assert!((CALLS / 4..CALLS * 3 / 4).contains(&recalled), "{counts}");
    assert!([refused, granted, denied].iter().all(|count| *count > CALLS / 20), "{counts}");
}
