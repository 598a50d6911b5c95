//! The keys of one call: opened together, read as limiters, written together.

use std::borrow::Borrow;

use rl_core::blob::Blob;
use rl_core::codec;
use rl_core::decision::{Decision, Terms, Verdict};
use rl_core::effect::Effect;
use rl_core::grammar::{Arguments, Named, rule_of};
use rl_core::limiter::Limiter;
use rl_core::plain::{self, Asked, Taken};
use rl_core::slot::slot;
use smallvec::SmallVec;

use crate::call::{Call, FEW};
use crate::failure::Failure;
use crate::key::{Access, Key};
use crate::propagation::Effects;
use crate::waiting::queue;
use crate::{config, listener, propagation};

/// Keys, by their index, and the effect to be written to each.
pub type Changes = SmallVec<[(usize, Effect); FEW]>;

/// See the file's head.
pub struct OpenKeys<'call> {
    call: &'call Call,
    keys: SmallVec<[Key<'call>; FEW]>,
    corrections: Vec<Correction>,
}

/// A plain call, decided.
pub struct Plain {
    /// The answer to the call.
    pub decision: Decision,
    /// The answer of the binding limiter.
    pub verdict: Verdict,
    /// The keys that deny, by their index; none when the call is granted.
    pub denying: SmallVec<[usize; FEW]>,
}

/// What is read in the place of a limiter whose stored time is ahead of the clock.
struct Correction {
    key: usize,
    limiter: Limiter,
    effect: Effect,
}

impl<'call> OpenKeys<'call> {
    /// None yet.
    pub fn new(call: &'call Call) -> OpenKeys<'call> {
        OpenKeys { call, keys: SmallVec::new(), corrections: Vec::new() }
    }

    /// Opens the keys that the first `count` arguments are. In place, since it is many bytes.
    ///
    /// # Errors
    /// Keys of several hash slots where that is validated, or a key whose value is no limiter.
    pub fn open(&mut self, count: usize, access: Access, now_ms: i64) -> Result<(), Failure> {
        check_slots(self.call, count)?;
        for index in 0..count {
            self.keys.push(Key::open(self.call, index, access)?);
        }
        // Only now, so that the processor waits for the memory of all limiters at once.
        for (index, key) in self.keys.iter().enumerate() {
            let stored = key.limiter();
            if let Some((limiter, effect)) = stored.and_then(|stored| stored.pull_back(now_ms)) {
                self.corrections.push(Correction { key: index, limiter, effect });
            }
        }
        Ok(())
    }

    /// The keys whose limiters are ahead of the clock. They are read as they will be corrected.
    pub fn ahead_of_clock(&self) -> impl Iterator<Item = usize> + '_ {
        self.corrections.iter().map(|correction| correction.key)
    }

    /// The limiter under a key, `None` when there is none.
    pub fn limiter(&self, key: usize) -> Option<&Limiter> {
        if self.corrections.is_empty() {
            return self.keys.get(key)?.limiter();
        }
        // They are in the order of their keys, in which these were opened.
        let corrected = self.corrections.binary_search_by_key(&key, |correction| correction.key);
        match corrected.ok().and_then(|at| self.corrections.get(at)) {
            Some(correction) => Some(&correction.limiter),
            None => self.keys.get(key)?.limiter(),
        }
    }

    /// Carries out a plain call: see [`rl_core::plain`]. `None`, and nothing is changed, when the
    /// call is not plain.
    pub fn acquire_plain(&mut self, rules: &[Named<'_>], terms: &Terms<'_>) -> Option<Plain> {
        if !self.corrections.is_empty() {
            return None;
        }
        let mut asked = SmallVec::<[Asked<'_>; FEW]>::new();
        for (index, key) in self.keys.iter_mut().enumerate() {
            let ask = &rule_of(rules, index)?.ask;
            asked.push(Asked { limiter: key.stored_mut()?, ask });
        }
        let mut taken = SmallVec::<[Taken; FEW]>::new();
        let mut denying = SmallVec::new();
        let (decision, verdict) = plain::decide(&mut asked, terms, &mut |key, one| match one {
            Some(one) => taken.push(one),
            None => denying.push(key),
        })?;
        drop(asked);
        if decision.granted > 0 {
            for (index, (key, one)) in self.keys.iter().zip(&taken).enumerate() {
                key.changed(one.expire_at_ms);
                wake(self.call, index, false);
            }
            match listener::is_heard() {
                true => self.propagate_plain(&taken, rules, terms.now_ms),
                false => propagation::count_change(self.call),
            }
        }
        Some(Plain { decision, verdict, denying })
    }

    /// Sends on what was taken in place. A function of its own, since it takes much of the stack.
    #[inline(never)]
    fn propagate_plain(&self, taken: &[Taken], rules: &[Named<'_>], now_ms: i64) {
        let effects =
            self.keys.iter().zip(taken).enumerate().filter_map(|(index, (key, taken))| {
                let (rule, limiter) = rule_of(rules, index).zip(key.limiter())?;
                Some((index, plain::effect(limiter, &rule.ask.rule, taken, now_ms)))
            });
        self.propagate(taken.len(), effects);
    }

    /// Applies effects to their keys and sends them on as one command. Limiters that had to be
    /// corrected are written even without an effect.
    pub fn write(&mut self, mut changes: Changes) {
        if !self.corrections.is_empty() {
            let corrections = std::mem::take(&mut self.corrections);
            changes.insert_many(0, corrections.into_iter().map(|c| (c.key, c.effect)));
        }
        if changes.is_empty() {
            return;
        }
        for (index, effect) in &changes {
            if let Some(key) = self.keys.get_mut(*index) {
                key.apply(effect);
            }
            wake(self.call, *index, effect.holds.is_some());
        }
        self.propagate(changes.len(), changes.iter().map(|(index, effect)| (*index, effect)));
    }

    /// Sends `count` effects on as one command, in the order in which they were applied.
    fn propagate(&self, count: usize, effects: impl Iterator<Item = (usize, impl Borrow<Effect>)>) {
        if !listener::is_heard() {
            return propagation::count_change(self.call);
        }
        let mut blob = Blob::new();
        // Most calls have one: cheaper than a list.
        let mut several = (count > 1).then(|| Effects::new(self.call));
        for (key, effect) in effects {
            blob.clear();
            codec::encode_effect(effect.borrow(), &mut blob);
            match &mut several {
                Some(several) => several.push(key, blob.bytes()),
                None => propagation::send_effect(self.call, key, blob.bytes()),
            }
        }
        if let Some(several) = several {
            several.send();
        }
    }
}

/// Tells the queue that a key, an argument, changed: the first who waits for it may be served now,
/// or the key may deny everyone for longer than they wait.
#[inline(always)]
fn wake(call: &Call, key: usize, may_deny_longer: bool) {
    if queue::waiters() > 0 {
        match may_deny_longer {
            true => queue::changed(call.main_thread(), call.db(), call.get(key)),
            false => queue::has_room(call.main_thread(), call.db(), call.get(key)),
        }
    }
}

/// Refuses keys of different hash slots where the server does not.
fn check_slots(call: &Call, keys: usize) -> Result<(), Failure> {
    if keys < 2 || !config::validates_slots() {
        return Ok(());
    }
    let first = slot(call.get(0));
    match (1..keys).all(|index| slot(call.get(index)) == first) {
        true => Ok(()),
        false => Err(Failure::CrossSlot),
    }
}
