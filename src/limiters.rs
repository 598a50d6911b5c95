//! The limiters of one call: opened together, written together.

use rl_core::blob::Blob;
use rl_core::codec;
use rl_core::effect::Effect;
use rl_core::limiter::Limiter;
use rl_core::request::Arguments;
use rl_core::slot::slot;
use smallvec::SmallVec;

use crate::call::{Call, Effects, Failure};
use crate::keys::{Access, Key};
use crate::{config, propagation, waiting};

/// Up to so many keys a call allocates nothing.
pub const FEW: usize = 8;

/// See the file's head.
pub struct Limiters<'call> {
    call: &'call Call,
    keys: SmallVec<[Key<'call>; FEW]>,
    corrections: Vec<Correction>,
}

/// A limiter whose stored time was ahead of the clock, as it is to be read instead.
struct Correction {
    key: usize,
    limiter: Limiter,
    effect: Effect,
}

impl<'call> Limiters<'call> {
    /// None yet.
    pub fn new(call: &'call Call) -> Limiters<'call> {
        Limiters { call, keys: SmallVec::new(), corrections: Vec::new() }
    }

    /// Opens the keys that the first `count` arguments are. In place, since it is many bytes.
    ///
    /// # Errors
    /// Keys of several slots where that is validated, or a key that holds something else.
    pub fn open(&mut self, count: usize, access: Access, now_ms: i64) -> Result<(), Failure> {
        check_slots(self.call, count)?;
        for index in 0..count {
            let key = self.call.open(index, access)?;
            let stored = key.limiter();
            if let Some((limiter, effect)) = stored.and_then(|stored| corrected(stored, now_ms)) {
                self.corrections.push(Correction { key: index, limiter, effect });
            }
            self.keys.push(key);
        }
        Ok(())
    }

    /// The limiter under a key, `None` when there is none.
    pub fn get(&self, key: usize) -> Option<&Limiter> {
        if self.corrections.is_empty() {
            return self.keys.get(key)?.limiter();
        }
        // In the order of their keys, since that is how the keys were opened.
        let corrected = self.corrections.binary_search_by_key(&key, |correction| correction.key);
        match corrected.ok().and_then(|at| self.corrections.get(at)) {
            Some(correction) => Some(&correction.limiter),
            None => self.keys.get(key)?.limiter(),
        }
    }

    /// Applies effects to their keys and sends them on as one command. With limiters that had to be
    /// corrected there is something to write even without an effect.
    pub fn write(&mut self, effects: &[(usize, Effect)]) {
        let corrections = std::mem::take(&mut self.corrections);
        let corrected = || corrections.iter().map(|correction| (correction.key, &correction.effect));
        let all = || corrected().chain(effects.iter().map(|(key, effect)| (*key, effect)));
        if all().next().is_none() {
            return;
        }
        for (key, effect) in all() {
            self.apply(key, effect);
        }
        if !propagation::has_listener() {
            return self.call.replicate_verbatim();
        }
        let mut blob = Blob::new();
        // Most calls: cheaper than the list of several.
        if let ([(key, effect)], true) = (effects, corrections.is_empty()) {
            codec::encode_effect(effect, &mut blob);
            return self.call.replicate(*key, blob.bytes());
        }
        let mut sent = Effects::new(self.call);
        for (key, effect) in all() {
            blob.clear();
            codec::encode_effect(effect, &mut blob);
            sent.push(key, blob.bytes());
        }
        sent.replicate();
    }

    fn apply(&mut self, index: usize, effect: &Effect) {
        if let Some(key) = self.keys.get_mut(index) {
            key.apply(effect);
        }
        if waiting::waiters() > 0 {
            waiting::wake(self.call.context(), self.call.db(), self.call.get(index));
        }
    }
}

/// A limiter that is ahead of the clock as it should be, and the effect that makes it so.
fn corrected(stored: &Limiter, now_ms: i64) -> Option<(Limiter, Effect)> {
    let effect = stored.pull_back(now_ms)?;
    let mut limiter = stored.clone();
    limiter.apply(&effect);
    Some((limiter, effect))
}

/// Refuses keys of different slots where the server does not.
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
