//! What became of calls, counted: in all, by algorithm and by name.
//!
//! Counters only grow. Commands run on one thread, so they are plain loads and stores, and atomics
//! only because a crash report may ask for them on another thread.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use lazy_static::lazy_static;
use redis_module::RedisGILGuard;
use rl_core::decision::Part;
use rl_core::grammar::{Named, rule_of};
use rl_core::rule::Algorithm;

use crate::api::MainThread;
use crate::config;

/// A counter that one thread counts up.
struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    fn add(&self, n: u64) {
        self.0.store(self.get() + n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What became of calls, or of limiters in them.
struct Outcomes {
    granted: Counter,
    denied: Counter,
    shadow_denied: Counter,
}

impl Outcomes {
    const fn new() -> Outcomes {
        Outcomes { granted: Counter::new(), denied: Counter::new(), shadow_denied: Counter::new() }
    }

    fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Granted => self.granted.add(1),
            Outcome::Denied => self.denied.add(1),
            Outcome::ShadowDenied => self.shadow_denied.add(1),
            Outcome::Spared => {}
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            granted: self.granted.get(),
            denied: self.denied.get(),
            shadow_denied: self.shadow_denied.get(),
        }
    }
}

/// How often each outcome came about.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Grants.
    pub granted: u64,
    /// Denials.
    pub denied: u64,
    /// Denials that only were counted.
    pub shadow_denied: u64,
}

static CALLS: Outcomes = Outcomes::new();
static BY_ALGORITHM: [Outcomes; Algorithm::ALL.len()] =
    [const { Outcomes::new() }; Algorithm::ALL.len()];
static WAITS: [Counter; 3] = [const { Counter::new() }; 3];
static ERRORS: Counter = Counter::new();
static MISMATCHES: Counter = Counter::new();
static LIMITERS: AtomicI64 = AtomicI64::new(0);

#[derive(Default)]
struct Names {
    known: HashMap<Arc<[u8]>, Arc<Outcomes>>,
    /// The same, since sorting a hundred thousand for each `INFO` would stall the server.
    in_order: BTreeMap<Arc<[u8]>, Arc<Outcomes>>,
    others: Option<Box<Outcomes>>,
}

impl Names {
    fn add(&mut self, name: &[u8], outcome: Outcome, most: usize) {
        let (name, outcomes) = (Arc::<[u8]>::from(name), Arc::new(Outcomes::new()));
        outcomes.count(outcome);
        // Once, rather than by moving all names while there are many.
        self.known.reserve(most.saturating_sub(self.known.len()));
        self.known.insert(name.clone(), outcomes.clone());
        self.in_order.insert(name, outcomes);
    }
}

lazy_static! {
    static ref NAMES: RedisGILGuard<Names> = RedisGILGuard::default();
}

/// What became of one limiter in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It granted.
    Granted,
    /// It denied.
    Denied,
    /// It would have denied, and is only a shadow.
    ShadowDenied,
    /// It had room, and another denied.
    Spared,
}

impl Outcome {
    /// Of a limiter in a call that was granted or not.
    pub fn of(part: &Part<'_>, granted: bool) -> Outcome {
        match (part.lacks_room(), part.ask().shadow) {
            (true, true) => Outcome::ShadowDenied,
            (true, false) => Outcome::Denied,
            (false, _) if granted => Outcome::Granted,
            (false, _) => Outcome::Spared,
        }
    }
}

/// Counts a call that was carried out, by what became of each limiter.
pub fn count(
    main: &MainThread,
    granted: bool,
    rules: &[Named<'_>],
    outcomes: impl Iterator<Item = Outcome>,
) {
    CALLS.count(if granted { Outcome::Granted } else { Outcome::Denied });
    for (key, outcome) in outcomes.enumerate() {
        if outcome == Outcome::ShadowDenied {
            CALLS.count(outcome);
        }
        let Some(Named { ask, name }) = rule_of(rules, key) else { continue };
        BY_ALGORITHM[ask.rule.algorithm() as usize].count(outcome);
        if let Some(name) = name {
            count_name(main, name, outcome);
        }
    }
}

fn count_name(main: &MainThread, name: &[u8], outcome: Outcome) {
    let mut names = NAMES.lock(main);
    let most = config::max_names();
    let room = names.known.len() < most;
    match names.known.get(name) {
        Some(outcomes) => outcomes.count(outcome),
        None if room => names.add(name, outcome, most),
        None => {
            let others = names.others.get_or_insert_with(|| Box::new(Outcomes::new()));
            others.count(outcome);
        }
    }
}

/// Counts a call that was answered by an error.
pub fn count_error() {
    ERRORS.add(1);
}

/// Counts a policy that was ignored, since it is for another kind of limiter.
pub fn count_mismatch() {
    MISMATCHES.add(1);
}

/// Counts a limiter that came into being (1) or was freed (-1), the latter on any thread.
pub fn count_limiter(change: i64) {
    LIMITERS.fetch_add(change, Ordering::Relaxed);
}

/// How a wait ended.
#[derive(Clone, Copy, Debug)]
pub enum WaitEnd {
    /// By a grant.
    Granted,
    /// By a denial at its deadline.
    TimedOut,
    /// By a denial before its deadline, since waiting had become hopeless.
    Denied,
}

/// Counts a wait that ended.
pub fn count_wait(end: WaitEnd) {
    WAITS[end as usize].add(1);
}

/// Waits that ended like this.
pub fn waits(end: WaitEnd) -> u64 {
    WAITS[end as usize].get()
}

/// What became of calls.
pub fn calls() -> Counts {
    CALLS.counts()
}

/// What became of limiters, by algorithm.
pub fn by_algorithm() -> impl Iterator<Item = (Algorithm, Counts)> {
    Algorithm::ALL.iter().copied().zip(BY_ALGORITHM.iter().map(Outcomes::counts))
}

/// Calls that were answered by an error.
pub fn errors() -> u64 {
    ERRORS.get()
}

/// Policies that were ignored.
pub fn mismatches() -> u64 {
    MISMATCHES.get()
}

/// Limiters that there are.
pub fn limiters() -> u64 {
    LIMITERS.load(Ordering::Relaxed).max(0) as u64
}

/// Tells what became of limiters by the name of their rule, in the order of the names.
pub fn for_each_name(main: &MainThread, mut tell: impl FnMut(&[u8], Counts)) {
    NAMES.lock(main).in_order.iter().for_each(|(name, outcomes)| tell(name, outcomes.counts()));
}

/// What became of limiters whose names came when there was no room for more names.
pub fn other_names(main: &MainThread) -> Option<Counts> {
    NAMES.lock(main).others.as_ref().map(|outcomes| outcomes.counts())
}
