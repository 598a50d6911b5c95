//! Counts the outcomes of calls: in total, by algorithm and by name.
//!
//! Counters only grow. Commands run on one thread, so counting is a plain load and store. The
//! counters are atomics only because a crash report may read them on another thread.

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

/// A counter that only one thread increments.
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

/// Counters of the outcomes of calls, or of the limiters in them.
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

/// How often each outcome occurred.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Grants.
    pub granted: u64,
    /// Denials.
    pub denied: u64,
    /// Denials that were only counted.
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
    /// The same in order, since sorting a hundred thousand names for each `INFO` would stall the
    /// server.
    in_order: BTreeMap<Arc<[u8]>, Arc<Outcomes>>,
    others: Option<Box<Outcomes>>,
}

impl Names {
    fn add(&mut self, name: &[u8], outcome: Outcome, most: usize) {
        let (name, outcomes) = (Arc::<[u8]>::from(name), Arc::new(Outcomes::new()));
        outcomes.count(outcome);
        // Reserves room for all names at once, rather than moving many names later.
        self.known.reserve(most.saturating_sub(self.known.len()));
        self.known.insert(name.clone(), outcomes.clone());
        self.in_order.insert(name, outcomes);
    }
}

lazy_static! {
    static ref NAMES: RedisGILGuard<Names> = RedisGILGuard::default();
}

/// The outcome at one limiter of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It granted.
    Granted,
    /// It denied.
    Denied,
    /// It would have denied, but only watches.
    ShadowDenied,
    /// It had room, but another limiter denied.
    Spared,
}

impl Outcome {
    /// The outcome at a limiter, given whether the call was granted.
    pub fn of(part: &Part<'_>, granted: bool) -> Outcome {
        match (part.lacks_room(), part.ask().shadow) {
            (true, true) => Outcome::ShadowDenied,
            (true, false) => Outcome::Denied,
            (false, _) if granted => Outcome::Granted,
            (false, _) => Outcome::Spared,
        }
    }
}

/// Counts a call that was carried out, by the outcome at each limiter.
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

/// Counts a policy that was ignored because it is for another kind of limiter.
pub fn count_mismatch() {
    MISMATCHES.add(1);
}

/// Counts a limiter that was created (1) or freed (-1). The server may free it on any thread.
pub fn count_limiter(change: i64) {
    LIMITERS.fetch_add(change, Ordering::Relaxed);
}

/// How a wait ended.
#[derive(Clone, Copy, Debug)]
pub enum WaitEnd {
    /// A grant ended it.
    Granted,
    /// Its deadline passed, and it was denied.
    TimedOut,
    /// Waiting became hopeless, and it was denied before its deadline.
    Denied,
}

/// Counts a wait that ended.
pub fn count_wait(end: WaitEnd) {
    WAITS[end as usize].add(1);
}

/// The number of waits that ended this way.
pub fn waits(end: WaitEnd) -> u64 {
    WAITS[end as usize].get()
}

/// The outcomes of calls.
pub fn calls() -> Counts {
    CALLS.counts()
}

/// The outcomes at limiters, by algorithm.
pub fn by_algorithm() -> impl Iterator<Item = (Algorithm, Counts)> {
    Algorithm::ALL.iter().copied().zip(BY_ALGORITHM.iter().map(Outcomes::counts))
}

/// The number of calls that were answered by an error.
pub fn errors() -> u64 {
    ERRORS.get()
}

/// The number of policies that were ignored.
pub fn mismatches() -> u64 {
    MISMATCHES.get()
}

/// The number of limiters that exist.
pub fn limiters() -> u64 {
    LIMITERS.load(Ordering::Relaxed).max(0) as u64
}

/// Calls `tell` with the outcomes for each rule name, in the order of the names.
pub fn for_each_name(main: &MainThread, mut tell: impl FnMut(&[u8], Counts)) {
    NAMES.lock(main).in_order.iter().for_each(|(name, outcomes)| tell(name, outcomes.counts()));
}

/// The outcomes for names that came when there was no room for more names.
pub fn other_names(main: &MainThread) -> Option<Counts> {
    NAMES.lock(main).others.as_ref().map(|outcomes| outcomes.counts())
}
