//! A whole call: over all its limiters, or over none.
//!
//! The module, the simulator, the benchmarks and the tests all make calls through [`acquire`].
//! They differ in where their limiters are ([`Limiters`]) and in what they want to know about the
//! decision ([`Observer`]).

use std::{fmt, slice};

use smallvec::SmallVec;

use crate::corrections::Corrections;
use crate::decision::{Decision, decide};
use crate::effect::Effect;
use crate::limiter::Limiter;
use crate::limiters::{FEW, Limiters, Observer};
use crate::part::{Part, Verdict};
use crate::plain;
use crate::terms::{Ask, Terms};

/// The call needs more memory than there is. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl std::error::Error for NoMemory {}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory for another permit")
    }
}

/// Decides a call and takes what it grants. Returns the decision and the answer of the binding
/// limiter.
///
/// # Errors
/// The call needs memory, and `limiters` may not grow. Nothing is changed.
#[inline(always)]
pub fn acquire<L: Limiters>(
    limiters: &mut L,
    terms: &Terms<'_>,
    observer: &mut impl Observer,
) -> Result<(Decision, Verdict), NoMemory> {
    let corrections = Corrections::of(limiters.count(), terms.now_ms, |place| limiters.get(place));
    if corrections.is_empty()
        && !observer.wants_answers()
        && let Some(decided) = plain::decide(limiters, terms, observer)
    {
        return Ok(decided);
    }
    acquire_in_full(limiters, corrections, terms, observer)
}

/// A function of its own, since it uses much of the stack.
#[inline(never)]
fn acquire_in_full<L: Limiters>(
    limiters: &mut L,
    corrections: Corrections,
    terms: &Terms<'_>,
    observer: &mut impl Observer,
) -> Result<(Decision, Verdict), NoMemory> {
    let mut parts = Parts::new();
    fill(&mut parts, limiters, &corrections);
    let decision = decide(&mut parts, terms);
    let verdict = verdict_of(&decision, &parts);
    let mut effects = SmallVec::<[(usize, Effect); FEW]>::new();
    let mut grows = false;
    for (place, part) in parts.iter().enumerate() {
        if let Some(effect) = part.effect() {
            grows |= part.grows(&effect);
            effects.push((place, effect));
        }
    }
    if grows && !limiters.may_grow() {
        return Err(NoMemory);
    }
    observer.decided(&decision, &parts);
    drop(parts);
    corrections.effects().for_each(|(place, effect)| limiters.apply(place, effect));
    effects.iter().for_each(|(place, effect)| limiters.apply(*place, effect));
    Ok((decision, verdict))
}

/// Decides a call as [`acquire`] would, and changes nothing.
#[inline(never)]
pub fn peek<L: Limiters>(
    limiters: &L,
    terms: &Terms<'_>,
    observer: &mut impl Observer,
) -> (Decision, Verdict) {
    let corrections = Corrections::of(limiters.count(), terms.now_ms, |place| limiters.get(place));
    let mut parts = Parts::new();
    fill(&mut parts, limiters, &corrections);
    let decision = decide(&mut parts, terms);
    observer.decided(&decision, &parts);
    (decision, verdict_of(&decision, &parts))
}

/// Decides over one limiter and changes nothing. The limiter must not be ahead of the clock.
pub fn look_at_one<T>(
    stored: Option<&Limiter>,
    ask: &Ask,
    terms: &Terms<'_>,
    look: impl FnOnce(&Part<'_>) -> T,
) -> T {
    let mut part = Part::new(stored, ask);
    decide(slice::from_mut(&mut part), terms);
    look(&part)
}

type Parts<'a> = SmallVec<[Part<'a>; FEW]>;

/// Fills them in place: a return value would copy two kilobytes.
fn fill<'a, L: Limiters>(parts: &mut Parts<'a>, limiters: &'a L, corrections: &'a Corrections) {
    for place in 0..limiters.count() {
        if let Some(ask) = limiters.ask(place) {
            parts.push(Part::new(corrections.or(place, limiters.get(place)), ask));
        }
    }
}

fn verdict_of(decision: &Decision, parts: &[Part<'_>]) -> Verdict {
    parts.get(decision.binding).map(|part| *part.verdict()).unwrap_or_default()
}
