//! Corrections of limiters that are ahead of the clock. A call reads and writes these first.

use crate::effect::Effect;
use crate::limiter::Limiter;

/// Limiters whose stored times are ahead of the clock, which stepped back, in their corrected
/// form.
#[derive(Debug, Default)]
pub struct Corrections(Vec<Correction>);

#[derive(Debug)]
struct Correction {
    place: usize,
    limiter: Limiter,
    effect: Effect,
}

impl Corrections {
    /// Looks at `count` limiters.
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

    /// The places of the limiters that are ahead.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|correction| correction.place)
    }

    /// The limiter to read at a place: the corrected one, or else `stored`.
    pub fn or<'a>(&'a self, place: usize, stored: Option<&'a Limiter>) -> Option<&'a Limiter> {
        if self.0.is_empty() {
            return stored;
        }
        // They are sorted, since they were looked at in the order of their places.
        let corrected = self.0.binary_search_by_key(&place, |correction| correction.place);
        match corrected.ok().and_then(|at| self.0.get(at)) {
            Some(correction) => Some(&correction.limiter),
            None => stored,
        }
    }

    /// The effects that correct them, with their places.
    pub fn effects(&self) -> impl Iterator<Item = (usize, &Effect)> {
        self.0.iter().map(|correction| (correction.place, &correction.effect))
    }
}
