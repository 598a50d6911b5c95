//! The limiters of one call: opened together, written together.

use std::ops::Range;

use rl_core::codec;
use rl_core::effect::Effect;
use rl_core::limiter::Limiter;
use rl_core::request::Arguments;
use rl_core::slot::slot;
use rl_core::varint::{MAX_LEN, Sink};
use smallvec::SmallVec;

use crate::call::{Call, Failure};
use crate::keys::{Access, Key};
use crate::{config, waiting};

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
        let corrections = corrections.iter().map(|correction| (correction.key, &correction.effect));
        let effects = effects.iter().map(|(key, effect)| (*key, effect));
        let mut blobs = Blobs::new();
        let mut spans = SmallVec::<[(usize, Range<usize>); FEW]>::new();
        for (index, effect) in corrections.chain(effects) {
            if let Some(key) = self.keys.get_mut(index) {
                key.apply(effect);
                if waiting::waiters() > 0 {
                    waiting::wake(self.call.context(), self.call.db(), self.call.get(index));
                }
                let start = blobs.len;
                codec::encode_effect(effect, &mut blobs);
                spans.push((index, start..blobs.len));
            }
        }
        if spans.is_empty() {
            return;
        }
        let bytes = blobs.bytes();
        let blobs: SmallVec<[(usize, &[u8]); FEW]> = spans
            .into_iter()
            .map(|(key, span)| (key, bytes.get(span).unwrap_or_default()))
            .collect();
        self.call.replicate(&blobs);
    }
}

/// How many bytes of effects fit onto the stack: those of a few keys do.
const STACK_BYTES: usize = 64 * FEW;

/// Encoded effects, one behind the other.
struct Blobs {
    stack: [u8; STACK_BYTES],
    /// All of them, once the stack is too small.
    heap: Vec<u8>,
    len: usize,
}

impl Blobs {
    fn new() -> Blobs {
        Blobs { stack: [0; STACK_BYTES], heap: Vec::new(), len: 0 }
    }

    fn bytes(&self) -> &[u8] {
        if self.heap.is_empty() { &self.stack } else { &self.heap }
    }
}

impl Sink for Blobs {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.stack.get_mut(self.len..end) {
            Some(place) if self.heap.is_empty() => place.copy_from_slice(bytes),
            _ => {
                if self.heap.is_empty() {
                    self.heap.extend_from_slice(self.stack.get(..self.len).unwrap_or_default());
                }
                self.heap.extend_from_slice(bytes);
            }
        }
        self.len = end;
    }

    fn put_byte(&mut self, byte: u8) {
        match self.stack.get_mut(self.len) {
            Some(place) if self.heap.is_empty() => {
                *place = byte;
                self.len += 1;
            }
            _ => self.put(&[byte]),
        }
    }

    fn room(&mut self) -> Option<&mut [u8; MAX_LEN]> {
        let room = self.stack.get_mut(self.len..)?.first_chunk_mut();
        room.filter(|_| self.heap.is_empty())
    }

    fn grow(&mut self, len: usize) {
        self.len += len;
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
