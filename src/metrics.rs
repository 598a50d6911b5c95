//! `INFO rl`: what was granted and denied, by algorithm and by name.
//!
//! Counters only grow. Commands run on one thread, so they are plain loads and stores; atomics only
//! because `INFO` may be asked for in a crash report, by another thread.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use lazy_static::lazy_static;
use redis_module::{InfoContext, RedisGILGuard, RedisResult, raw};
use redis_module_macros::info_command_handler;
use rl_core::decision::Slot;
use rl_core::grammar::{Named, rule_of};
use rl_core::rule::Algorithm;

use crate::api::{MainThread, api, clock_ms};
use crate::{config, listener, policies, remembered, top, waiting};

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

    fn fields(&self) -> [(&'static str, u64); 3] {
        [
            ("granted", self.granted.get()),
            ("denied", self.denied.get()),
            ("shadow_denied", self.shadow_denied.get()),
        ]
    }
}

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::Sliding,
    Algorithm::Bucket,
    Algorithm::Fixed,
    Algorithm::Counter,
    Algorithm::Concurrency,
];

static CALLS: Outcomes = Outcomes::new();
static BY_ALGORITHM: [Outcomes; ALGORITHMS.len()] = [const { Outcomes::new() }; ALGORITHMS.len()];
static ERRORS: Counter = Counter::new();
static MISMATCHES: Counter = Counter::new();
static LIMITERS: AtomicI64 = AtomicI64::new(0);

#[derive(Default)]
struct Names {
    known: HashMap<Arc<[u8]>, Arc<Outcomes>>,
    /// The same: to sort a hundred thousand for each `INFO` would hold the server up.
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
    pub fn of(slot: &Slot<'_>, granted: bool) -> Outcome {
        match (slot.lacks_room(), slot.ask().shadow) {
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

/// Writes fields in the server's own style. The crate's builder takes quadratic time, and there can
/// be thousands of names.
struct Section(*mut raw::RedisModuleInfoCtx);

impl Section {
    /// Whether the section is asked for. Without a name it is that of the module.
    fn begin(&self) -> bool {
        // SAFETY: the context is that of the running `INFO`.
        let begun = unsafe { api!(RedisModule_InfoAddSection)(self.0, c"".as_ptr()) };
        begun == raw::REDISMODULE_OK as i32
    }

    fn number(&self, name: &str, value: u64) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the context is that of the running `INFO`; the server copies the name.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(self.0, name.as_ptr(), value) };
    }

    fn text(&self, name: &str, value: &str) {
        let (name, value) =
            (CString::new(name).unwrap_or_default(), CString::new(value).unwrap_or_default());
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldCString)(self.0, name.as_ptr(), value.as_ptr()) };
    }

    fn outcomes(&self, name: &str, outcomes: &Outcomes) {
        self.named_outcomes(&mut Vec::new(), "", name.as_bytes(), outcomes);
    }

    /// Writes what the server makes of a dictionary field, but in one call: there can be a hundred
    /// thousand. `text` is room to write in.
    fn named_outcomes(&self, text: &mut Vec<u8>, prefix: &str, name: &[u8], outcomes: &Outcomes) {
        text.clear();
        text.extend([prefix.as_bytes(), name, b"\0"].into_iter().flatten());
        let value = text.len();
        let [(granted, g), (denied, d), (shadow, s)] = outcomes.fields();
        // Writing to memory does not fail.
        let _ = write!(text, "{granted}={g},{denied}={d},{shadow}={s}\0");
        let texts = text.split_at_checked(value).unwrap_or_default();
        if let (Ok(name), Ok(value)) =
            (CStr::from_bytes_with_nul(texts.0), CStr::from_bytes_with_nul(texts.1))
        {
            // SAFETY: the context is that of the running `INFO`; the server copies both.
            unsafe { api!(RedisModule_InfoAddFieldCString)(self.0, name.as_ptr(), value.as_ptr()) };
        }
    }
}

// The macro cannot read C string literals, so the work is done elsewhere.
#[info_command_handler]
fn info(ctx: &InfoContext, for_crash_report: bool) -> RedisResult<()> {
    fill(&Section(ctx.ctx), for_crash_report);
    Ok(())
}

fn fill(section: &Section, for_crash_report: bool) {
    if !section.begin() {
        return;
    }
    section.text("version", env!("CARGO_PKG_VERSION"));
    CALLS.fields().iter().for_each(|(field, value)| section.number(field, *value));
    section.number("errors", ERRORS.get());
    section.number("propagates", u64::from(listener::is_heard()));
    section.number("limiters", LIMITERS.load(Ordering::Relaxed).max(0) as u64);
    for (algorithm, outcomes) in ALGORITHMS.iter().zip(&BY_ALGORITHM) {
        section.outcomes(&format!("algo_{}", algorithm.name()), outcomes);
    }
    for (name, value) in config::shown() {
        section.text(&format!("config_{}", name.replace('-', "_")), &value);
    }
    // A crash may have struck in the middle of a change, and may be reported by another thread.
    if !for_crash_report {
        guarded_fields(section);
    }
}

/// The fields whose state only the main thread may look at.
fn guarded_fields(section: &Section) {
    // SAFETY: outside a crash report, only `INFO` on the main thread comes here.
    let main = unsafe { MainThread::in_callback() };
    let now_ms = clock_ms();
    policies::with(&main, |policies| {
        section.number("policies", policies.count(now_ms) as u64);
        section.text("policies_digest", &format!("{:016x}", policies.digest(now_ms)));
    });
    section.number("policies_mismatched", MISMATCHES.get());
    let waits = waiting::counts();
    section.number("waiters", waiting::waiters() as u64);
    section.number("waits_granted", waits.granted);
    section.number("waits_timed_out", waits.timed_out);
    section.number("waits_denied", waits.denied);
    section.number("top_tracked", top::tracked(&main) as u64);
    let rules = remembered::figures(&main);
    section.number("rules_parsed", rules.parsed);
    section.number("rules_remembered", rules.count as u64);
    section.number("rules_memory", rules.bytes as u64);
    let names = NAMES.lock(&main);
    let mut text = Vec::new();
    for (name, outcomes) in &names.in_order {
        section.named_outcomes(&mut text, "name_", name, outcomes);
    }
    if let Some(others) = &names.others {
        section.outcomes("other_names", others);
    }
}
