//! The state under one key, and its changes.
//!
//! A primary decides an [`Effect`], applies it, and sends it to replicas and to the AOF, which
//! apply it by the same function. That keeps them alike. Only [`crate::plain`] changes a limiter
//! in place; it then builds the effect that would have made the same change.
//!
//! A limiter is 48 bytes, and for most algorithms that is its only allocation.

use crate::algorithm::list::AnyLevel;
use crate::algorithm::scheme::Moment;
use crate::algorithm::{Algorithm, Change, State};
use crate::effect::{Effect, Write};
use crate::laid::Laid;
use crate::numbers::{MAX_TIME_MS, Own};
use crate::packed::PackedNumbers;
use crate::rule::{Rule, Shape};
use crate::ttl::{self, expiry};

/// The state under one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limiter {
    /// Numbers of the rule that last wrote it; zeros if unused.
    numbers: PackedNumbers,
    laid: Option<Box<Laid>>,
    state: State,
}

impl Limiter {
    /// A limiter that `rule` last wrote. The state is one of the rule's algorithm.
    pub(crate) fn new(rule: Option<&Rule>, state: State, laid: Laid) -> Limiter {
        let numbers =
            rule.map_or_else(PackedNumbers::default, |rule| PackedNumbers::new(rule.numbers()));
        let mut limiter = Limiter { numbers, laid: None, state };
        limiter.set_laid(laid);
        limiter
    }

    fn set_laid(&mut self, laid: Laid) {
        self.laid = (laid.end_ms() > 0).then(|| Box::new(laid));
    }

    /// The window of the rule that last wrote the limiter, in ms; 0 if nothing was ever granted.
    pub(crate) fn window_ms(&self) -> i64 {
        self.numbers.window_ms()
    }

    /// The limit of the rule that last wrote the limiter; 0 if nothing was ever granted.
    pub(crate) fn limit(&self) -> u64 {
        self.numbers.limit()
    }

    /// The rule that last wrote the limiter; `None` if nothing was ever granted.
    pub fn rule(&self) -> Option<Rule> {
        let algorithm = self.state.algorithm()?;
        let mut shape = Shape::default();
        match algorithm.own() {
            Own::None => {}
            Own::Burst => shape.burst = Some(self.numbers.own()),
            Own::Offset => shape.offset_ms = Some(self.numbers.own() as i64),
        }
        Rule::new(algorithm, self.window_ms(), self.limit(), shape).ok()
    }

    /// Whether `rule` is the rule that last wrote the limiter.
    #[inline(always)]
    pub(crate) fn has_rule(&self, rule: &Rule) -> bool {
        self.state.algorithm() == Some(rule.algorithm())
            && self.numbers == PackedNumbers::new(rule.numbers())
    }

    /// The level under another rule, whose algorithm is `asked`. `None` if only the number of
    /// permits in use can be carried over to it.
    pub(crate) fn level_under<'a>(
        &'a self,
        asked: Algorithm,
        moment: &Moment<'a>,
    ) -> Option<AnyLevel<'a>> {
        self.state.at_other_rule(&self.numbers, asked, moment)
    }

    /// Whether nothing was ever granted.
    pub(crate) fn is_unused(&self) -> bool {
        matches!(self.state, State::Unused)
    }

    /// Whether a block or an exemption is laid on the limiter.
    #[inline(always)]
    pub(crate) fn is_blocked_or_exempt(&self, now_ms: i64) -> bool {
        self.laid.as_ref().is_some_and(|laid| laid.end_ms() > now_ms)
    }

    /// The block and the exemption laid on the limiter.
    pub fn laid(&self) -> Laid {
        self.laid.as_deref().copied().unwrap_or_default()
    }

    /// When the key may expire, in ms of epoch time: some time after the limiter is void, and not
    /// before a block or an exemption ends.
    pub fn expire_at_ms(&self) -> i64 {
        expiry(self.window_ms(), self.void_at(), self.laid().end_ms())
    }

    /// Whether the TTL must move for the key to live until `time_ms`. Errs on the side of yes:
    /// every grant asks this, and an exact answer would cost a bucket a division. `window_ms` is
    /// the window of the stored rule, which the caller has at hand.
    #[inline(always)]
    pub(crate) fn may_expire_before(&self, window_ms: i64, time_ms: i64) -> bool {
        let void_from_ms = ttl::void_from(window_ms, time_ms);
        self.state.is_void_before(&self.numbers, void_from_ms) && self.laid().end_ms() < time_ms
    }

    /// The new TTL after a write under a rule of this window, if the key may go at `expire_at_ms`;
    /// `None` if the present TTL is near enough. For writes that may let the key go sooner than
    /// before. A grant under the same rule never does: [`Limiter::may_expire_before`] is for
    /// grants.
    #[cold]
    pub(crate) fn moved_ttl(&self, window_ms: i64, expire_at_ms: i64) -> Option<i64> {
        let (was_ms, stretch_ms) = (self.expire_at_ms(), ttl::stretch_ms(window_ms));
        let sooner = expire_at_ms < was_ms && expire_at_ms / stretch_ms < was_ms / stretch_ms;
        // Until now the TTL was only known to be in the same stretch of a longer window.
        let shorter = stretch_ms < ttl::stretch_ms(self.window_ms());
        (expire_at_ms > was_ms || sooner || shorter).then_some(expire_at_ms)
    }

    /// When the live lease named `id` ends, in ms of epoch time. `None` if there is none.
    pub(crate) fn lease_end_ms(&self, id: &[u8], now_ms: i64) -> Option<i64> {
        self.state.lease_end_ms(id, now_ms)
    }

    /// The change that ends the live lease named `id`, and when the state is void after it.
    pub(crate) fn release(&self, id: &[u8], now_ms: i64) -> Option<(Change, i64)> {
        self.state.release(id, now_ms)
    }

    /// The algorithm's part.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The numbers of the rule that last wrote the limiter, and the algorithm's part.
    #[inline(always)]
    pub(crate) fn split_mut(&mut self) -> (&PackedNumbers, &mut State) {
        (&self.numbers, &mut self.state)
    }

    /// The number of log entries or leases that count; 0 for algorithms that have neither.
    pub fn entries(&self, now_ms: i64) -> u64 {
        self.state.entries(&self.numbers, now_ms)
    }

    /// Bytes allocated besides the struct itself, roughly.
    pub fn heap_bytes(&self) -> usize {
        self.laid.as_deref().map_or(0, size_of_val) + self.state.heap().bytes
    }

    /// The number of allocations that the limiter is made of, roughly.
    pub fn allocations(&self) -> usize {
        1 + self.state.heap().allocations
    }

    /// Calls `each` with one of the algorithm's allocations after the other, from number `from`
    /// on, until it returns false. Returns whether it never did. For a caller that relocates them.
    pub fn each_part(&mut self, from: usize, each: impl FnMut(&mut Box<[u8]>) -> bool) -> bool {
        self.state.each_part(from, each)
    }

    /// The allocation of the block and the exemption, for a caller that relocates it.
    pub fn laid_mut(&mut self) -> Option<&mut Box<Laid>> {
        self.laid.as_mut()
    }

    /// When the limiter becomes void under the rule that last wrote it. From then on every rule
    /// treats it as new.
    pub fn void_at(&self) -> i64 {
        self.state.void_at(&self.numbers).min(MAX_TIME_MS)
    }

    /// The corrected limiter and the effect that corrects it, if a stored time is ahead of
    /// `now_ms` because the clock stepped back. `None` if none is. Compares only times read from a
    /// clock: grants that were rounded up are rightly ahead.
    pub fn pull_back(&self, now_ms: i64) -> Option<(Limiter, Effect)> {
        let laid = self.laid.as_ref().and_then(|laid| laid.pulled_back(now_ms));
        let write = self.pull_state_back(now_ms);
        if write.is_none() && laid.is_none() {
            return None;
        }
        let mut effect = Effect { write, laid, expire_at_ms: None };
        let mut pulled = self.clone();
        pulled.apply(&effect);
        let expire_at_ms =
            expiry(self.window_ms(), pulled.void_at().max(now_ms), pulled.laid().end_ms());
        effect.expire_at_ms = match pulled.void_at() <= now_ms {
            // A limiter that was refunded in full does not say when, and so not where its TTL is.
            true => Some(expire_at_ms),
            false => self.moved_ttl(self.window_ms(), expire_at_ms),
        };
        Some((pulled, effect))
    }

    #[inline(always)]
    fn pull_state_back(&self, now_ms: i64) -> Option<Write> {
        let change = self.state.pull_back(&self.numbers, now_ms)?;
        Some(Write { rule: self.rule()?, start_over: false, change })
    }

    /// Applies an effect. Total: any effect leaves any limiter valid.
    pub fn apply(&mut self, effect: &Effect) {
        if let Some(Write { rule, start_over, change }) = &effect.write {
            self.numbers = PackedNumbers::new(rule.numbers());
            if *start_over {
                self.state = State::Unused;
            }
            self.state.apply(change, rule.window_ms());
        }
        if let Some(laid) = effect.laid {
            self.set_laid(laid);
        }
    }
}

/// The new TTL, in ms of epoch time, after a write that cannot make the limiter void sooner;
/// `None` if the present one reaches far enough.
#[inline(always)]
pub(crate) fn moved_expiry(
    stored: Option<&Limiter>,
    window_ms: i64,
    expire_at_ms: i64,
) -> Option<i64> {
    let moves = stored.is_none_or(|stored| stored.may_expire_before(window_ms, expire_at_ms));
    moves.then_some(expire_at_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limiter_fits_an_allocation_of_48_bytes() {
        assert_eq!(size_of::<Limiter>(), 48);
    }
}
