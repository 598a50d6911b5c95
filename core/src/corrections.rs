//! Limiters that are ahead of the clock: what a call reads instead, and what it writes first.

use crate::effect::Effect;
use crate::limiter::Limiter;

/// Limiters whose stored time is ahead of the clock, because that stepped back, as they are to be read
/// instead.
#[derive(Debug, Default)]
pub struct Corrections(Vec<Correction>);

#[derive(Debug)]
struct Correction {
    place: usize,
    limiter: Limiter,
    effect: Effect,
}

impl Corrections {
    /// Looks at that many limiters.
    #[inline(always)]
    pub fn of<'a>(
        count: usize,
        now_ms: i64,
        get: impl Fn(usize) -> Option<&'a Limiter>,
    ) -> Corrections {
        let mut corrections = Vec::new();
        for place in 0..count {
            if let Some((limiter, effect)) = get(place).and_then(|stored| stored.pull_back(now_ms))
            {
                corrections.push(Correction { place, limiter, effect });
            }
        }
        Corrections(corrections)
    }

    /// Whether no limiter is ahead of the clock.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The places of those that are.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|correction| correction.place)
    }

    /// The limiter at a place as it is to be read, given the one that is stored there.
    pub fn or<'a>(&'a self, place: usize, stored: Option<&'a Limiter>) -> Option<&'a Limiter> {
        if self.0.is_empty() {
            return stored;
        }
        // In the order of their places, as they were looked at.
        let corrected = self.0.binary_search_by_key(&place, |correction| correction.place);
        match corrected.ok().and_then(|at| self.0.get(at)) {
            Some(correction) => Some(&correction.limiter),
            None => stored,
        }
    }

    /// What makes each of them so, with its place.
    pub fn effects(&self) -> impl Iterator<Item = (usize, &Effect)> {
        self.0.iter().map(|correction| (correction.place, &correction.effect))
    }
}
