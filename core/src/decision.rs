//! The decision over all limiters of a call: checks every one, then deducts from all or from none.
//!
//! [`decide`] changes nothing. It leaves a [`Verdict`] and an effect in each [`Part`]. The caller
//! applies the effects, or drops them if it only asks.

pub use crate::part::{Part, Verdict};
pub use crate::terms::{Ask, Terms};

/// The answer to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The number of acquisitions granted.
    pub granted: u64,
    /// The largest wait over the denying limiters, in ms; -1 if one of them can never grant. 0 if
    /// granted, or if a lease has lapsed: see [`Decision::has_lapsed`].
    pub retry_after_ms: i64,
    /// The index of the binding limiter. If denied, the one that denies for longest; if granted,
    /// the one that allows the fewest further acquisitions.
    pub binding: usize,
}

impl Decision {
    /// Whether nothing was taken because the call may only renew a lease, and the lease has
    /// lapsed. That is no denial: the same call does not succeed later, however much room there
    /// is.
    pub fn has_lapsed(&self, terms: &Terms<'_>) -> bool {
        terms.only_renew && self.granted == 0 && self.retry_after_ms == 0
    }
}

/// Decides a call over at least one limiter.
pub fn decide<'a>(parts: &mut [Part<'a>], terms: &Terms<'a>) -> Decision {
    let mut granted = terms.upto;
    let mut all_shadows = true;
    for part in parts.iter_mut() {
        part.check(terms);
        if !part.ask().shadow {
            all_shadows = false;
            granted = granted.min(part.room());
        }
    }
    if terms.only_renew && parts.iter().any(|part| part.has_lapsed(terms)) {
        return lapsed(parts, terms);
    }
    let acquisitions = if terms.force { terms.upto } else { granted };
    for part in parts.iter_mut() {
        part.take(acquisitions, terms);
        part.settle(terms);
    }
    let binds = |part: &Part<'_>| all_shadows || !part.ask().shadow;
    if granted == 0 {
        let binding = binding_of_denial(parts, binds);
        let retry_after_ms = parts.get(binding).map_or(0, |part| part.verdict().retry_after_ms);
        return Decision { granted, retry_after_ms, binding };
    }
    let mut retry_after_ms = 0;
    if terms.reserve_ms > 0 {
        let real = parts.iter().filter(|part| !part.ask().shadow);
        retry_after_ms = real.map(|part| part.verdict().retry_after_ms).max().unwrap_or(0);
    }
    Decision { granted, retry_after_ms, binding: binding_of_grant(parts, binds, terms.now_ms) }
}

/// The decision if the call may only renew a lease that has lapsed: it takes nothing, and starts
/// no block. The first limiter whose lease has lapsed binds.
fn lapsed<'a>(parts: &mut [Part<'a>], terms: &Terms<'a>) -> Decision {
    let mut binding = None;
    for (i, part) in parts.iter_mut().enumerate() {
        part.settle(terms);
        if part.has_lapsed(terms) {
            part.lapse();
            binding.get_or_insert(i);
        }
    }
    Decision { granted: 0, retry_after_ms: 0, binding: binding.unwrap_or(0) }
}

/// The limiter that allows the fewest further acquisitions; among those, the one with the least
/// remaining, then the first.
fn binding_of_grant(parts: &[Part<'_>], binds: impl Fn(&Part<'_>) -> bool, now_ms: i64) -> usize {
    if parts.len() == 1 {
        return 0;
    }
    let candidates = parts.iter().enumerate().filter(|(_, part)| binds(part));
    let key = |(i, part): &(usize, &Part<'_>)| (part.further(now_ms), part.verdict().remaining, *i);
    candidates.min_by_key(key).map_or(0, |(i, _)| i)
}

/// The denying limiter with the largest wait, then the first. "Never" is the largest wait.
fn binding_of_denial(parts: &[Part<'_>], binds: impl Fn(&Part<'_>) -> bool) -> usize {
    let (mut binding, mut longest) = (0, 0);
    for (i, part) in parts.iter().enumerate().filter(|(_, part)| part.lacks_room() && binds(part)) {
        // As an unsigned number, -1 ("never") is the largest.
        let wait = part.verdict().retry_after_ms as u64;
        if wait > longest {
            (binding, longest) = (i, wait);
        }
    }
    binding
}
