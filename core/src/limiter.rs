//! The state kept under one key, and how it changes.
//!
//! A primary decides an [`Effect`] and applies it, and sends the same effect to replicas and to the
//! AOF, which apply it by the same function. That is what keeps them alike. Only [`crate::plain`]
//! changes a limiter in place, and tells afterwards by which effect it could have done so.
//!
//! A limiter is 48 bytes, and for most algorithms that is its only allocation. When its key may
//! expire is not stored but follows from the state ([`Limiter::expire_at_ms`]): the TTL moves when
//! that does, which is rare, and nobody need ask the server for it. It moves up with each step. Down
//! it moves when it leaves a stretch of eight steps, so that a limiter that gains and loses a little
//! leaves it alone: whatever was lost bit by bit, the TTL is never a stretch too long.

use crate::bucket::Bucket;
use crate::concurrency::{LeaseChange, Leases};
use crate::counter::{Counter, StoredCounter};
use crate::effect::{Change, Effect, Write};
use crate::fixed::{Fixed, start_of};
use crate::packed::PackedRule;
use crate::rule::{Algorithm, MAX_IN_USE, MAX_TIME_MS, Rule, Shape};
use crate::sliding::{Log, LogChange, LogStep};

/// What an operator or a `BLOCK` laid on a limiter: the ends of its block and of its exemption, in
/// ms of epoch time; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Everything is denied before this time.
    pub blocked_until_ms: i64,
    /// Everything passes uncounted before this time, unless blocked.
    pub exempt_until_ms: i64,
    /// The clock when the last of them was laid.
    pub laid_ms: i64,
}

impl Holds {
    /// When the last of both ends.
    pub fn end_ms(&self) -> i64 {
        self.blocked_until_ms.max(self.exempt_until_ms)
    }

    /// The same, or nothing at all when both are over for good.
    pub(crate) fn or_none(self) -> Holds {
        if self.end_ms() == 0 { Holds::default() } else { self }
    }

    /// The same with as much time left as when the last was laid, if that is ahead of the clock.
    fn pulled_back(&self, now_ms: i64) -> Option<Holds> {
        let ahead_ms = self.laid_ms.checked_sub(now_ms).filter(|ahead_ms| *ahead_ms > 0)?;
        let pulled = Holds {
            blocked_until_ms: (self.blocked_until_ms - ahead_ms).max(0),
            exempt_until_ms: (self.exempt_until_ms - ahead_ms).max(0),
            laid_ms: now_ms,
        };
        Some(pulled.or_none())
    }
}

/// The algorithm's part of a limiter.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum State {
    /// Nothing was ever granted: there are only holds.
    #[default]
    Unused,
    /// See [`crate::bucket`].
    Bucket(Bucket),
    /// See [`crate::sliding`].
    Sliding(Log),
    /// See [`crate::fixed`].
    Fixed(Fixed),
    /// See [`crate::counter`].
    Counter(StoredCounter),
    /// See [`crate::concurrency`].
    Concurrency(Leases),
}

/// The state kept under one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limiter {
    /// Of the rule that last wrote it; zeros when unused.
    numbers: PackedRule,
    holds: Option<Box<Holds>>,
    state: State,
}

/// The TTL of a key moves in steps, so that most grants leave it alone. A power of two, for which
/// no division is needed: at least 1,024 ms, and a sixteenth to an eighth of the window.
fn ttl_step_ms(window_ms: i64) -> i64 {
    (window_ms as u64 / 16).max(1024).next_power_of_two() as i64
}

/// How much longer than it must a TTL may last. A power of two, and a multiple of the step: so times
/// in one stretch of a short window are in one stretch of a longer window too.
fn ttl_stretch_ms(window_ms: i64) -> i64 {
    (8 * ttl_step_ms(window_ms)).max(32_768)
}

/// When a key may go whose limiter is void at `void_at_ms`: at the second step from there, and not
/// before a hold ends.
pub(crate) fn expiry(window_ms: i64, void_at_ms: i64, holds_end_ms: i64) -> i64 {
    let step_ms = ttl_step_ms(window_ms);
    let expire_at_ms = (void_at_ms | (step_ms - 1)) + 1 + step_ms;
    expire_at_ms.max(holds_end_ms).min(MAX_TIME_MS)
}

impl Limiter {
    /// A limiter that `rule` last wrote. The state is one of its algorithm.
    pub(crate) fn new(rule: Option<&Rule>, state: State, holds: Holds) -> Limiter {
        let numbers = rule.map_or_else(PackedRule::default, PackedRule::new);
        let mut limiter = Limiter { numbers, holds: None, state };
        limiter.set_holds(holds);
        limiter
    }

    fn set_holds(&mut self, holds: Holds) {
        self.holds = (holds.end_ms() > 0).then(|| Box::new(holds));
    }

    /// The window of the rule that last wrote the limiter, in ms; 0 when nothing was ever granted.
    pub(crate) fn window_ms(&self) -> i64 {
        self.numbers.window_ms()
    }

    /// The limit of that rule; 0 likewise.
    pub(crate) fn limit(&self) -> u64 {
        self.numbers.limit()
    }

    /// The rule that last wrote the limiter, or `None` when nothing was ever granted.
    pub fn rule(&self) -> Option<Rule> {
        let mut shape = Shape::default();
        let algorithm = match &self.state {
            State::Unused => return None,
            State::Bucket(_) => {
                shape.burst = Some(self.numbers.shape());
                Algorithm::Bucket
            }
            State::Sliding(_) => Algorithm::Sliding,
            State::Fixed(_) => {
                shape.offset_ms = Some(self.numbers.shape() as i64);
                Algorithm::Fixed
            }
            State::Counter(_) => Algorithm::Counter,
            State::Concurrency(_) => Algorithm::Concurrency,
        };
        Rule::new(algorithm, self.window_ms(), self.limit(), shape).ok()
    }

    /// Whether `rule` is the rule that last wrote the limiter.
    pub(crate) fn has_rule(&self, rule: &Rule) -> bool {
        let same_algorithm = match self.state {
            State::Unused => false,
            State::Bucket(_) => rule.algorithm() == Algorithm::Bucket,
            State::Sliding(_) => rule.algorithm() == Algorithm::Sliding,
            State::Fixed(_) => rule.algorithm() == Algorithm::Fixed,
            State::Counter(_) => rule.algorithm() == Algorithm::Counter,
            State::Concurrency(_) => rule.algorithm() == Algorithm::Concurrency,
        };
        same_algorithm && self.numbers == PackedRule::new(rule)
    }

    /// Whether the burst or the offset is that of `rule`, a rule of the same algorithm.
    pub(crate) fn has_shape(&self, rule: &Rule) -> bool {
        self.numbers.shape() == PackedRule::new(rule).shape()
    }

    /// Whether nothing was ever granted.
    pub(crate) fn is_unused(&self) -> bool {
        matches!(self.state, State::Unused)
    }

    /// Whether it is under a block or an exemption.
    pub(crate) fn is_held(&self, now_ms: i64) -> bool {
        self.holds.as_ref().is_some_and(|holds| holds.end_ms() > now_ms)
    }

    /// The block and the exemption.
    pub fn holds(&self) -> Holds {
        self.holds.as_deref().copied().unwrap_or_default()
    }

    /// When the key may expire, in ms of epoch time: some time after the limiter is void, and not
    /// before a hold ends.
    pub fn expire_at_ms(&self) -> i64 {
        expiry(self.window_ms(), self.void_at(), self.holds().end_ms())
    }

    /// Whether the TTL must move for the key to live until `time_ms`. True too often rather than too
    /// rarely, since it is asked on each grant and a bucket would have to divide. The window is that
    /// of the stored rule, which the caller has at hand.
    pub(crate) fn may_expire_before(&self, window_ms: i64, time_ms: i64) -> bool {
        let step_ms = ttl_step_ms(window_ms);
        // A TTL that ends at this time belongs to a limiter that is void from here on.
        let void_from_ms = ((time_ms - 1) | (step_ms - 1)) + 1 - 2 * step_ms;
        let void_before = match &self.state {
            State::Bucket(bucket) => bucket.is_full_before(void_from_ms, self.limit()),
            _ => self.void_at() < void_from_ms,
        };
        void_before && self.holds().end_ms() < time_ms
    }

    /// Where the TTL must move to when the key may go at `expire_at_ms` after a write under a rule of
    /// this window; `None` when it is near enough. For writes after which that may be sooner than
    /// before: under the same rule grants never are, for which see [`Limiter::may_expire_before`].
    #[cold]
    pub(crate) fn moved_ttl(&self, window_ms: i64, expire_at_ms: i64) -> Option<i64> {
        let (was_ms, stretch_ms) = (self.expire_at_ms(), ttl_stretch_ms(window_ms));
        let sooner = expire_at_ms < was_ms && expire_at_ms / stretch_ms < was_ms / stretch_ms;
        // Until now the TTL was only known to be in the same longer stretch.
        let shorter = stretch_ms < ttl_stretch_ms(self.window_ms());
        (expire_at_ms > was_ms || sooner || shorter).then_some(expire_at_ms)
    }

    /// Whether there is a live lease of this name.
    pub(crate) fn holds_lease(&self, id: &[u8], now_ms: i64) -> bool {
        match &self.state {
            State::Concurrency(leases) => leases.live(id, now_ms).is_some(),
            _ => false,
        }
    }

    /// The algorithm's part, for a caller that reports it or relocates its allocations.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// See [`Limiter::state`].
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Bytes allocated besides the struct itself, about.
    pub fn heap_bytes(&self) -> usize {
        let holds = self.holds.as_deref().map_or(0, size_of_val);
        holds
            + match &self.state {
                State::Sliding(log) => log.heap_bytes(),
                State::Concurrency(leases) => leases.heap_bytes(),
                _ => 0,
            }
    }

    /// How many allocations the limiter is made of, about.
    pub fn allocations(&self) -> usize {
        1 + match &self.state {
            State::Sliding(_) => 1,
            State::Concurrency(leases) => leases.allocations(),
            _ => 0,
        }
    }

    /// The holds' allocation, for a caller that relocates it.
    pub fn holds_mut(&mut self) -> Option<&mut Box<Holds>> {
        self.holds.as_mut()
    }

    /// When the limiter will be as good as new under the rule that last wrote it. From then on it
    /// is treated as fresh, by every rule.
    pub fn void_at(&self) -> i64 {
        let void_at = match &self.state {
            State::Unused => 0,
            State::Bucket(bucket) => bucket.void_at(self.limit()),
            State::Sliding(log) => log.void_at(self.window_ms()),
            State::Fixed(fixed) => fixed.void_at(self.window_ms()),
            State::Counter(counter) => counter.get().void_at(self.window_ms()),
            State::Concurrency(leases) => leases.last_end_ms(),
        };
        void_at.min(MAX_TIME_MS)
    }

    /// What becomes of a limiter whose stored time is ahead of `now_ms`, because the clock stepped
    /// back, and the effect that makes it so; `None` when it is not ahead. Only what a clock said
    /// counts: grants that were rounded up (see [`crate::sliding`]) are rightly ahead.
    pub fn pull_back(&self, now_ms: i64) -> Option<(Limiter, Effect)> {
        let holds = self.holds.as_ref().and_then(|holds| holds.pulled_back(now_ms));
        let write = self.pull_state_back(now_ms);
        if write.is_none() && holds.is_none() {
            return None;
        }
        let mut effect = Effect { write, holds, expire_at_ms: None };
        let mut pulled = self.clone();
        pulled.apply(&effect);
        let expire_at_ms =
            expiry(self.window_ms(), pulled.void_at().max(now_ms), pulled.holds().end_ms());
        effect.expire_at_ms = match pulled.void_at() <= now_ms {
            // What was refunded in full does not tell when that was, and so where the TTL is.
            true => Some(expire_at_ms),
            false => self.moved_ttl(self.window_ms(), expire_at_ms),
        };
        Some((pulled, effect))
    }

    fn pull_state_back(&self, now_ms: i64) -> Option<Write> {
        let change = match &self.state {
            State::Bucket(bucket) if bucket.at_ms > now_ms => {
                // A refill beyond the cap belongs to a millisecond that is gone.
                Change::Bucket(Bucket::new(now_ms, bucket.deficit().max(0)))
            }
            State::Sliding(log) if log.is_ahead(now_ms) => {
                Change::Log(LogChange { now_ms, step: LogStep::PullBack })
            }
            State::Fixed(fixed) if fixed.start_ms > now_ms => {
                let offset_ms = self.numbers.shape() as i64;
                let start_ms = start_of(now_ms, self.window_ms(), offset_ms);
                Change::Fixed(Fixed { start_ms, ..*fixed })
            }
            State::Counter(counter) if counter.get().start_ms > now_ms => {
                let counter = counter.get();
                // What faded in the window that is gone would fade again: all counts as taken now.
                let fresh = Counter::fresh(self.window_ms(), now_ms);
                let current = counter.previous.saturating_add(counter.current).min(MAX_IN_USE);
                Change::Counter(Counter { current, ..fresh })
            }
            State::Concurrency(leases) if leases.is_ahead(now_ms) => {
                Change::Lease(LeaseChange::PullBack { now_ms })
            }
            _ => return None,
        };
        Some(Write { rule: self.rule()?, start_over: false, change })
    }

    /// Applies an effect. Total: any effect leaves any limiter in a valid state.
    pub fn apply(&mut self, effect: &Effect) {
        if let Some(Write { rule, start_over, change }) = &effect.write {
            self.numbers = PackedRule::new(rule);
            if *start_over {
                self.state = State::Unused;
            }
            match change {
                Change::Bucket(bucket) => self.state = State::Bucket(*bucket),
                Change::Fixed(fixed) => self.state = State::Fixed(*fixed),
                Change::Counter(counter) => {
                    self.state = State::Counter(StoredCounter::new(*counter));
                }
                Change::Log(change) => match &mut self.state {
                    State::Sliding(log) => log.apply(*change, rule.window_ms()),
                    state => {
                        let mut log = Log::default();
                        log.apply(*change, rule.window_ms());
                        *state = State::Sliding(log);
                    }
                },
                Change::Lease(change) => match &mut self.state {
                    State::Concurrency(leases) => leases.apply(change),
                    state => {
                        let mut leases = Leases::default();
                        leases.apply(change);
                        *state = State::Concurrency(leases);
                    }
                },
            }
        }
        if let Some(holds) = effect.holds {
            self.set_holds(holds);
        }
    }

    /// Whether applying `write` needs more memory than the limiter has. What has left makes room.
    pub(crate) fn grows(&self, write: &Write) -> bool {
        match (&self.state, &write.change) {
            (_, Change::Bucket(_) | Change::Fixed(_) | Change::Counter(_)) => false,
            (State::Sliding(log), Change::Log(LogChange { now_ms, step })) => match step {
                LogStep::Add { at_ms, .. } if !write.start_over => {
                    log.grows(*at_ms, &log.live(now_ms - write.rule.window_ms()))
                }
                _ => false,
            },
            (State::Concurrency(leases), Change::Lease(change)) => match change {
                LeaseChange::Put { now_ms, id, .. } if !write.start_over => {
                    leases.live(id, *now_ms).is_none() && leases.grows(*now_ms)
                }
                _ => false,
            },
            (_, Change::Log(_) | Change::Lease(_)) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limiter_fits_an_allocation_of_48_bytes() {
        assert_eq!(size_of::<Limiter>(), 48);
    }
}
