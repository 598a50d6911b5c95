//! `RL.ACQUIRE`: check every limiter, then deduct from all or from none.

use rl_core::codec;
use rl_core::decision::{Slot, Terms, decide};
use rl_core::effect::Effect;
use rl_core::limiter::Limiter;
use rl_core::request::{Arguments, parse_acquire};
use rl_core::slot::slot;
use smallvec::SmallVec;

use crate::call::{Call, Command, Failure};
use crate::config;
use crate::keys::Key;

/// Up to so many keys a call allocates nothing.
const FEW: usize = 8;

/// The arity of the command, its name included.
const MIN_ARGS: usize = 7;

/// See the file's head.
pub struct Acquire;

impl Command for Acquire {
    fn run(call: &Call) -> Result<(), Failure> {
        if call.count() < MIN_ARGS {
            return Err(Failure::Arity);
        }
        let request = parse_acquire(call)?;
        check_slots(call, request.keys)?;
        let terms = Terms {
            now_ms: call.now_ms(),
            resolution: config::sliding_resolution(),
            ..Terms::default()
        };
        let mut keys: SmallVec<[Key; FEW]> = (0..request.keys).map(|i| call.open(i)).collect();

        let mut corrections = SmallVec::<[(usize, Limiter, Effect); 0]>::new();
        for (i, key) in keys.iter().enumerate() {
            let Some(limiter) = key.limiter()? else { continue };
            if let Some(effect) = limiter.pull_back(terms.now_ms, terms.resolution) {
                let mut corrected = limiter.clone();
                corrected.apply(&effect);
                corrections.push((i, corrected, effect));
            }
        }
        let mut slots = SmallVec::<[Slot; FEW]>::new();
        for (i, key) in keys.iter().enumerate() {
            let corrected = corrections.iter().find(|(at, _, _)| *at == i).map(|(_, c, _)| c);
            let stored = match corrected {
                Some(corrected) => Some(corrected),
                None => key.limiter()?,
            };
            slots.push(Slot::new(stored, request.ask));
        }
        let decision = decide(&mut slots, &terms);
        let binding = slots.get(decision.binding).map(|slot| *slot.verdict()).unwrap_or_default();
        let reply = [
            decision.granted as i64,
            binding.limit as i64,
            binding.remaining as i64,
            decision.retry_after_ms,
            binding.reset_after_ms,
            decision.binding as i64,
        ];

        let mut effects = SmallVec::<[(usize, Effect); FEW]>::new();
        effects.extend(corrections.iter().map(|(i, _, effect)| (*i, effect.clone())));
        let mut grows = false;
        for (i, slot) in slots.iter().enumerate() {
            if let Some(effect) = slot.effect() {
                grows |= slot.grows(&effect);
                effects.push((i, effect));
            }
        }
        drop(slots);
        if grows && call.is_out_of_memory() {
            return Err(Failure::OutOfMemory);
        }
        write(call, &mut keys, &effects)?;
        call.reply_integers(reply);
        Ok(())
    }
}

/// Applies effects to their keys and sends them on as one command.
fn write(call: &Call, keys: &mut [Key], effects: &[(usize, Effect)]) -> Result<(), Failure> {
    if effects.is_empty() {
        return Ok(());
    }
    let mut bytes = Vec::with_capacity(64 * effects.len());
    let mut ends = SmallVec::<[(usize, usize); FEW]>::new();
    for (i, effect) in effects {
        if let Some(key) = keys.get_mut(*i) {
            key.apply(effect)?;
            codec::encode_effect(effect, &mut bytes);
            ends.push((*i, bytes.len()));
        }
    }
    let mut start = 0;
    let blobs: SmallVec<[(usize, &[u8]); FEW]> = ends
        .iter()
        .map(|(i, end)| {
            (*i, bytes.get(std::mem::replace(&mut start, *end)..*end).unwrap_or_default())
        })
        .collect();
    call.replicate(&blobs);
    Ok(())
}

/// Refuses keys of different slots where the server does not.
fn check_slots(call: &Call, keys: usize) -> Result<(), Failure> {
    if keys < 2 || !config::validates_slots() {
        return Ok(());
    }
    let first = slot(call.get(0));
    match (1..keys).all(|i| slot(call.get(i)) == first) {
        true => Ok(()),
        false => Err(Failure::CrossSlot),
    }
}
