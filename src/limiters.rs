//! The limiters of one call: opened together, written together.

use rl_core::codec;
use rl_core::effect::Effect;
use rl_core::limiter::Limiter;
use rl_core::request::Arguments;
use rl_core::slot::slot;
use rl_core::varint::Sink;
use smallvec::SmallVec;

use crate::call::{Call, Failure};
use crate::config;
use crate::keys::{Access, Key};

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
    /// Opens the keys that the first `count` arguments are.
    ///
    /// # Errors
    /// Keys of several slots where that is validated, or a key that holds something else.
    pub fn open(
        call: &'call Call,
        count: usize,
        access: Access,
        now_ms: i64,
    ) -> Result<Limiters<'call>, Failure> {
        check_slots(call, count)?;
        let mut limiters = Limiters { call, keys: SmallVec::new(), corrections: Vec::new() };
        for index in 0..count {
            let key = call.open(index, access)?;
            let stored = key.limiter();
            if let Some((limiter, effect)) = stored.and_then(|stored| corrected(stored, now_ms)) {
                limiters.corrections.push(Correction { key: index, limiter, effect });
            }
            limiters.keys.push(key);
        }
        Ok(limiters)
    }

    /// The limiter under a key, `None` when there is none.
    pub fn get(&self, key: usize) -> Option<&Limiter> {
        let corrected = self.corrections.iter().find(|correction| correction.key == key);
        match corrected {
            Some(correction) => Some(&correction.limiter),
            None => self.keys.get(key)?.limiter(),
        }
    }

    /// Applies effects to their keys and sends them on as one command. With limiters that had to be corrected
    /// there is something to write even without an effect.
    pub fn write(&mut self, effects: &[(usize, Effect)]) {
        let corrections = std::mem::take(&mut self.corrections);
        let corrections = corrections.iter().map(|correction| (correction.key, &correction.effect));
        let effects = effects.iter().map(|(key, effect)| (*key, effect));
        let mut blobs = Blobs::default();
        for (index, effect) in corrections.chain(effects) {
            if let Some(key) = self.keys.get_mut(index) {
                key.apply(effect);
                codec::encode_effect(effect, &mut blobs);
                blobs.end(index);
            }
        }
        if !blobs.ends.is_empty() {
            let blobs: SmallVec<[(usize, &[u8]); FEW]> = blobs.iter().collect();
            self.call.replicate(&blobs);
        }
    }
}

/// Encoded effects, one behind the other, each with the index of its key.
#[derive(Default)]
struct Blobs {
    bytes: SmallVec<[u8; 64 * FEW]>,
    ends: SmallVec<[(usize, usize); FEW]>,
}

impl Sink for Blobs {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

impl Blobs {
    /// Says that what was put since the last one belongs to this key.
    fn end(&mut self, key: usize) {
        self.ends.push((key, self.bytes.len()));
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(key, end)| {
            let blob = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            (*key, blob)
        })
    }
}

/// A limiter that is ahead of the clock as it should be, and the effect that makes it so.
fn corrected(stored: &Limiter, now_ms: i64) -> Option<(Limiter, Effect)> {
    let effect = stored.pull_back(now_ms, config::sliding_resolution())?;
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
