//! A second, naive implementation of the contract, to hold the first one against.
//!
//! It shares nothing with the crate but the plain data of requests and answers. It is written to be
//! obviously right: it keeps lists, copies everything, and finds every time by looking at one moment after the
//! other (in growing steps) whether the thing asked for is true then.

mod bucket;
mod leases;
mod sliding;
mod windows;

use rl_core::decision::{Ask, Decision, Terms, Verdict};
use rl_core::rule::{Algorithm, MAX_TIME_MS, Rule};

/// Where the permits in use of one limiter saturate.
const MAX_IN_USE: u64 = 1_000_000_000_000_000;

/// The most permits that a limiter has when nobody uses it.
fn capacity(rule: &Rule) -> u64 {
    match rule.algorithm() {
        _ if rule.limit() == 0 => 0,
        Algorithm::Bucket => {
            // No less than what comes in a millisecond, any part of a permit being one more.
            let window = rule.window_ms() as u64;
            let whole = rule.limit() / window;
            let part = if whole * window < rule.limit() { 1 } else { 0 };
            rule.burst().max(whole + part)
        }
        _ => rule.limit(),
    }
}

/// What an algorithm keeps.
#[derive(Clone, Debug, PartialEq)]
enum State {
    Sliding(sliding::Sliding),
    Bucket(bucket::Bucket),
    Fixed(windows::Fixed),
    Counter(windows::Counter),
    Concurrency(leases::Leases),
}

impl State {
    fn fresh(rule: &Rule, now: i64) -> State {
        match rule.algorithm() {
            Algorithm::Sliding => State::Sliding(sliding::Sliding::default()),
            Algorithm::Bucket => State::Bucket(bucket::Bucket::full(now)),
            Algorithm::Fixed => State::Fixed(windows::Fixed::empty(rule, now)),
            Algorithm::Counter => State::Counter(windows::Counter::empty(rule, now)),
            Algorithm::Concurrency => State::Concurrency(leases::Leases::default()),
        }
    }

    fn in_use(&self, rule: &Rule, now: i64) -> u64 {
        match self {
            State::Sliding(s) => s.in_use(rule, now),
            State::Bucket(b) => b.in_use(rule, now),
            State::Fixed(f) => f.in_use(rule, now),
            State::Counter(c) => c.in_use(rule, now),
            State::Concurrency(l) => l.in_use(now),
        }
    }

    fn void_at(&self, rule: &Rule) -> i64 {
        let at = match self {
            State::Sliding(s) => s.void_at(rule),
            State::Bucket(b) => b.void_at(rule),
            State::Fixed(f) => f.void_at(rule),
            State::Counter(c) => c.void_at(rule),
            State::Concurrency(l) => l.void_at(),
        };
        at.min(MAX_TIME_MS)
    }

    fn take(&mut self, rule: &Rule, now: i64, n: u64, resolution: u32, id: &[u8]) {
        match self {
            State::Sliding(s) => s.take(rule, now, n, resolution),
            State::Bucket(b) => b.take(rule, now, n),
            State::Fixed(f) => f.take(rule, now, n),
            State::Counter(c) => c.take(rule, now, n),
            State::Concurrency(l) => l.take(rule, now, n, id),
        }
    }

    /// The state under a rule of the same kind, `None` when the rules have nothing in common but the permits.
    fn kept(&self, old: &Rule, new: &Rule) -> Option<State> {
        let same_windows = old.window_ms() == new.window_ms() && old.offset_ms() == new.offset_ms();
        match (self, new.algorithm()) {
            (State::Bucket(b), Algorithm::Bucket) => Some(State::Bucket(b.converted(old, new))),
            (State::Sliding(_), Algorithm::Sliding) => Some(self.clone()),
            (State::Concurrency(_), Algorithm::Concurrency) => Some(self.clone()),
            (State::Fixed(_), Algorithm::Fixed) if same_windows => Some(self.clone()),
            (State::Counter(_), Algorithm::Counter) if same_windows => Some(self.clone()),
            _ => None,
        }
    }
}

/// What is known about one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Key {
    stored: Option<(Rule, State)>,
    pub blocked_until: i64,
    pub exempt_until: i64,
    /// The clock when the last hold was laid.
    pub laid: i64,
}

impl Key {
    /// The state as a request under `rule` would see it at `now`.
    fn seen(&self, rule: &Rule, now: i64, resolution: u32) -> State {
        match &self.stored {
            Some((old, state)) if now < state.void_at(old) => {
                state.kept(old, rule).unwrap_or_else(|| {
                    let mut fresh = State::fresh(rule, now);
                    let in_use = state.in_use(old, now);
                    if in_use > 0 {
                        fresh.take(rule, now, in_use, resolution, b"");
                    }
                    fresh
                })
            }
            _ => State::fresh(rule, now),
        }
    }

    /// The resolution only matters for what is written down.
    fn in_use(&self, rule: &Rule, now: i64) -> u64 {
        self.seen(rule, now, u32::MAX).in_use(rule, now)
    }

    fn is_blocked(&self, now: i64) -> bool {
        now < self.blocked_until
    }

    fn is_exempt(&self, now: i64) -> bool {
        now < self.exempt_until && !self.is_blocked(now)
    }

    /// Whether that lease is alive.
    fn has_lease(&self, id: &[u8], now: i64) -> bool {
        matches!(&self.stored, Some((_, State::Concurrency(leases))) if leases.held_by(id, now) > 0)
    }

    /// How many acquisitions a call would get from this key alone at `now`.
    fn allows(&self, ask: &Ask, terms: &Terms<'_>, now: i64) -> u64 {
        let Ask { rule, cost, .. } = ask;
        let capacity = capacity(rule);
        if self.is_exempt(now) {
            return terms.upto;
        }
        if capacity == 0 || self.is_blocked(now) {
            return 0;
        }
        if *cost == 0 {
            return if self.in_use(rule, now) <= capacity { terms.upto } else { 0 };
        }
        let due = now + terms.reserve_ms;
        let seen = self.seen(rule, due, terms.resolution);
        let in_use = seen.in_use(rule, due);
        let held = match (seen, terms.id) {
            (State::Concurrency(leases), Some(id)) => leases.held_by(id, due),
            _ => 0,
        };
        // A holder gets what fits beside the others, and what it has already in any case.
        let fit = capacity.saturating_sub(in_use - held) / cost;
        fit.max(held / cost).min(terms.upto)
    }

    fn take(&mut self, ask: &Ask, acquisitions: u64, terms: &Terms<'_>) {
        let (rule, now) = (ask.rule, terms.now_ms);
        let mut state = self.seen(&rule, now, terms.resolution);
        let n = ask.cost * acquisitions;
        state.take(&rule, now, n, terms.resolution, terms.id.unwrap_or(b""));
        self.stored = Some((rule, state));
    }

    /// The first moment from now on at which the same call would get something; `None` when never.
    fn granted_at(&self, ask: &Ask, terms: &Terms<'_>) -> Option<i64> {
        let from = (terms.now_ms + 1).max(self.blocked_until);
        if self.allows(ask, terms, from) > 0 {
            return Some(from);
        }
        if capacity(&ask.rule) == 0 || ask.cost > capacity(&ask.rule) {
            return None;
        }
        Some(search(from, |t| self.allows(ask, terms, t) > 0))
    }

    /// The first moment from `now` on at which nothing is in use.
    fn reset_at(&self, rule: &Rule, now: i64) -> i64 {
        if capacity(rule) == 0 {
            return now.max(self.blocked_until);
        }
        search(now, |t| self.in_use(rule, t) == 0).max(self.blocked_until)
    }

    fn remaining(&self, rule: &Rule, now: i64) -> u64 {
        if self.is_exempt(now) {
            return capacity(rule);
        }
        if capacity(rule) == 0 || self.is_blocked(now) {
            return 0;
        }
        capacity(rule).saturating_sub(self.in_use(rule, now))
    }

    /// The clock may have stepped back since the key was written.
    pub fn pull_back(&mut self, now: i64) {
        let holds = self.blocked_until.max(self.exempt_until) > 0;
        if holds && self.laid > now {
            // As much time is left as there was then.
            let back = self.laid - now;
            self.blocked_until = (self.blocked_until - back).max(0);
            self.exempt_until = (self.exempt_until - back).max(0);
            self.laid = now;
        }
        match &mut self.stored {
            Some((_, State::Sliding(s))) => s.pull_back(now),
            Some((_, State::Bucket(b))) => b.pull_back(now),
            Some((rule, State::Fixed(f))) => f.pull_back(rule, now),
            Some((rule, State::Counter(c))) => c.pull_back(rule, now),
            Some((_, State::Concurrency(l))) => l.pull_back(now),
            None => {}
        }
    }

    /// Gives permits back; whether that changed anything.
    pub fn refund(&mut self, n: u64, now: i64) -> bool {
        let Some((rule, state)) = &mut self.stored else { return false };
        if n == 0 || now >= state.void_at(rule) || state.in_use(rule, now) == 0 {
            return false;
        }
        match state {
            State::Sliding(s) => s.give_back(rule, now, n),
            State::Bucket(b) => b.give_back(rule, now, n),
            State::Fixed(f) => f.give_back(rule, now, n),
            State::Counter(c) => c.give_back(rule, now, n),
            State::Concurrency(_) => return false,
        }
        true
    }

    /// Ends a live lease; whether there was one.
    pub fn release(&mut self, id: &[u8], now: i64) -> bool {
        match &mut self.stored {
            Some((_, State::Concurrency(l))) => l.release(id, now),
            _ => false,
        }
    }

    /// When it will be as good as new, 0 if it was never anything else.
    pub fn void_at(&self) -> i64 {
        self.stored.as_ref().map_or(0, |(rule, state)| state.void_at(rule))
    }

    /// The window of the rule that last wrote it, 0 if none did.
    pub fn window(&self) -> i64 {
        self.stored.as_ref().map_or(0, |(rule, _)| rule.window_ms())
    }

    /// Entries of the log, if it is one.
    pub fn entries(&self) -> Option<usize> {
        match &self.stored {
            Some((_, State::Sliding(s))) => Some(s.entries()),
            _ => None,
        }
    }
}

/// What a call answers, and what it leaves behind.
pub struct Answer {
    pub decision: Decision,
    pub verdicts: Vec<Verdict>,
    pub after: Vec<Key>,
    /// Which keys were written.
    pub wrote: Vec<bool>,
}

/// A call on keys of which none is ahead of the clock.
pub fn call(before: &[Key], asks: &[Ask], terms: &Terms<'_>) -> Answer {
    let now = terms.now_ms;
    let alone: Vec<u64> =
        before.iter().zip(asks).map(|(key, ask)| key.allows(ask, terms, now)).collect();
    let real: Vec<usize> = (0..asks.len()).filter(|i| !asks[*i].shadow).collect();
    let granted = real.iter().map(|i| alone[*i]).min().unwrap_or(terms.upto);
    let id = terms.id.unwrap_or(b"");
    let lapsed: Vec<usize> = real
        .iter()
        .copied()
        .filter(|i| terms.only_renew && !before[*i].has_lease(id, now))
        .collect();
    if let Some(first) = lapsed.first() {
        return nothing_to_renew(before, asks, terms, &alone, &lapsed, *first);
    }
    let acquisitions = if terms.force { terms.upto } else { granted };

    let (mut verdicts, mut after, mut wrote) = (Vec::new(), Vec::new(), Vec::new());
    for ((ask, unchanged), alone) in asks.iter().zip(before).zip(&alone) {
        let Ask { rule, cost, block_ms, shadow } = ask;
        let capacity = capacity(rule);
        let mut key = unchanged.clone();
        let mut written = false;
        let mut retry_after_ms = 0;
        let leases = rule.algorithm() == Algorithm::Concurrency;
        // Of a shadow no more is taken than it has, but every lease is kept, and so it is when all pass.
        let acquisitions = match (shadow, terms.force, leases) {
            (true, false, false) => acquisitions.min(*alone),
            _ => acquisitions,
        };
        if capacity > 0 && *cost > 0 && (leases || !key.is_exempt(now)) {
            if terms.reserve_ms > 0 && acquisitions > 0 {
                let fits = |t| key.in_use(rule, t) + cost * acquisitions <= capacity;
                retry_after_ms = search(now, fits) - now;
            }
            if acquisitions > 0 {
                key.take(ask, acquisitions, terms);
                written = true;
            }
            let lacks_room = *alone == 0 || terms.force && key.in_use(rule, now) >= capacity;
            let starts = *block_ms > 0 && *cost <= capacity && !shadow;
            if lacks_room && starts && !key.is_blocked(now) {
                key.blocked_until = (now + block_ms).min(MAX_TIME_MS);
                key.laid = now;
                written = true;
            }
        }
        if *alone == 0 {
            // A lease that a shadow kept all the same would be renewed, so: as it was before.
            let asked = if leases && *shadow { unchanged } else { &key };
            retry_after_ms = asked.granted_at(ask, terms).map_or(-1, |t| t - now);
        }
        verdicts.push(Verdict {
            granted: *alone,
            limit: capacity,
            remaining: key.remaining(rule, now),
            retry_after_ms,
            reset_after_ms: key.reset_at(rule, now) - now,
        });
        after.push(key);
        wrote.push(written);
    }

    // Shadows bind only among themselves.
    let binds = if real.is_empty() { (0..asks.len()).collect() } else { real.clone() };
    let binding = if granted == 0 {
        // "Never" is the longest wait; of equals the first.
        let wait = |i: usize| match verdicts[i].retry_after_ms {
            -1 => i64::MAX,
            wait => wait,
        };
        let denying = binds.into_iter().filter(|i| alone[*i] == 0);
        denying.rev().max_by_key(|i| wait(*i)).unwrap()
    } else {
        let further = |i: usize| {
            let unlimited = asks[i].cost == 0 || after[i].is_exempt(now);
            if unlimited { u64::MAX } else { verdicts[i].remaining / asks[i].cost }
        };
        binds.into_iter().min_by_key(|i| (further(*i), verdicts[*i].remaining, *i)).unwrap()
    };
    let retry_after_ms = if granted == 0 {
        verdicts[binding].retry_after_ms
    } else {
        real.iter().map(|i| verdicts[*i].retry_after_ms).max().unwrap_or(0)
    };
    let retry_after_ms = if granted > 0 && terms.reserve_ms == 0 { 0 } else { retry_after_ms };
    Answer { decision: Decision { granted, retry_after_ms, binding }, verdicts, after, wrote }
}

/// Nothing happens when one of the leases is gone that were to be renewed.
fn nothing_to_renew(
    before: &[Key],
    asks: &[Ask],
    terms: &Terms<'_>,
    alone: &[u64],
    lapsed: &[usize],
    binding: usize,
) -> Answer {
    let now = terms.now_ms;
    let verdict = |i: usize| {
        let (key, rule) = (&before[i], &asks[i].rule);
        let waits = || key.granted_at(&asks[i], terms).map_or(-1, |t| t - now);
        let (granted, retry_after_ms) = match lapsed.contains(&i) {
            true => (0, 0),
            false => (alone[i], if alone[i] == 0 { waits() } else { 0 }),
        };
        Verdict {
            granted,
            limit: capacity(rule),
            remaining: key.remaining(rule, now),
            retry_after_ms,
            reset_after_ms: key.reset_at(rule, now) - now,
        }
    };
    Answer {
        decision: Decision { granted: 0, retry_after_ms: 0, binding },
        verdicts: (0..asks.len()).map(verdict).collect(),
        after: before.to_vec(),
        wrote: vec![false; asks.len()],
    }
}

/// The first moment from `from` on at which `is_so`, which stays so: one by one at first, then in
/// growing steps and back. By the end of time everything is so.
pub fn search(from: i64, is_so: impl Fn(i64) -> bool) -> i64 {
    let near = (from..from + 8).find(|t| is_so(*t));
    if let Some(t) = near {
        return t;
    }
    let mut not_yet = from + 7;
    let mut step = 8;
    while not_yet + step < MAX_TIME_MS && !is_so(not_yet + step) {
        not_yet += step;
        step *= 2;
    }
    let mut so = (not_yet + step).min(MAX_TIME_MS);
    while so - not_yet > 1 {
        let middle = not_yet + (so - not_yet) / 2;
        if is_so(middle) { so = middle } else { not_yet = middle }
    }
    so
}
