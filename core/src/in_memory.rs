//! Limiters in memory, for callers without a server.

use std::slice;

use crate::call::{NoMemory, acquire, peek};
use crate::decision::Decision;
use crate::effect::Effect;
use crate::limiter::Limiter;
use crate::limiters::{Limiters, Observer, Taken};
use crate::part::Verdict;
use crate::plain;
use crate::terms::{Ask, Terms};

/// The limiters of a call made at `now_ms`. They may always grow.
#[derive(Debug)]
pub struct InMemory<'a> {
    limiters: &'a mut [Option<Limiter>],
    asks: &'a [Ask],
    now_ms: i64,
    effects: Option<Vec<(usize, Effect)>>,
}

impl<'a> InMemory<'a> {
    /// The limiters of a call, and the request to each at the same place.
    pub fn new(limiters: &'a mut [Option<Limiter>], asks: &'a [Ask], now_ms: i64) -> InMemory<'a> {
        InMemory { limiters, asks, now_ms, effects: None }
    }

    /// Also records the effects of the call.
    pub fn recorded(self) -> InMemory<'a> {
        InMemory { effects: Some(Vec::new()), ..self }
    }

    /// Decides a call and takes what it grants: see [`acquire`].
    pub fn acquire(
        &mut self,
        terms: &Terms<'_>,
        observer: &mut impl Observer,
    ) -> (Decision, Verdict) {
        acquire(self, terms, observer).unwrap_or_else(|NoMemory| unreachable!("there is memory"))
    }

    /// The recorded effects with their places, in the order in which they were applied.
    pub fn into_effects(self) -> Vec<(usize, Effect)> {
        self.effects.unwrap_or_default()
    }
}

impl Limiters for InMemory<'_> {
    fn count(&self) -> usize {
        self.asks.len()
    }

    fn get(&self, place: usize) -> Option<&Limiter> {
        self.limiters.get(place)?.as_ref()
    }

    fn ask(&self, place: usize) -> Option<&Ask> {
        self.asks.get(place)
    }

    fn asked(&mut self, place: usize) -> Option<(&mut Limiter, &Ask)> {
        self.limiters.get_mut(place)?.as_mut().zip(self.asks.get(place))
    }

    fn taken(&mut self, place: usize, taken: Taken) {
        let stored = self.limiters.get(place).and_then(Option::as_ref);
        let asked = stored.zip(self.asks.get(place));
        if let Some(((limiter, ask), effects)) = asked.zip(self.effects.as_mut()) {
            effects.push((place, plain::effect(limiter, &ask.rule, &taken, self.now_ms)));
        }
    }

    fn apply(&mut self, place: usize, effect: &Effect) {
        if let Some(limiter) = self.limiters.get_mut(place) {
            limiter.get_or_insert_default().apply(effect);
            self.effects.iter_mut().for_each(|effects| effects.push((place, effect.clone())));
        }
    }

    fn may_grow(&self) -> bool {
        true
    }
}

/// Decides a call over one limiter and takes what it grants.
pub fn acquire_one(
    limiter: &mut Option<Limiter>,
    ask: &Ask,
    terms: &Terms<'_>,
) -> (Decision, Verdict) {
    let (limiter, asks) = (slice::from_mut(limiter), slice::from_ref(ask));
    InMemory::new(limiter, asks, terms.now_ms).acquire(terms, &mut ())
}

/// Decides a call over one limiter and changes nothing.
pub fn peek_one(limiter: &Option<Limiter>, ask: &Ask, terms: &Terms<'_>) -> (Decision, Verdict) {
    // `InMemory` needs a mutable limiter, hence the copy.
    let mut copy = limiter.clone();
    let (limiter, asks) = (slice::from_mut(&mut copy), slice::from_ref(ask));
    peek(&InMemory::new(limiter, asks, terms.now_ms), terms, &mut ())
}
