//! Plain acquisitions, in short: what [`crate::decision`] decides, for most calls.
//!
//! A call is plain when it takes one permit of each limiter and asks for nothing else, and when each
//! limiter was last written by the rule that is asked, has no block or exemption laid on it, and needs
//! no more memory. It is decided and granted in place: next to nothing is remembered in between, which
//! takes most of the time of a decision. Everything else is left to [`crate::decision`].
//!
//! The arithmetic is that of the algorithms, compiled for each. `tests/against_oracle.rs` decides each
//! plain call both ways and compares all that comes of it: that one permit is enough to know, and that
//! what happens in place is what the effect says.

use crate::algorithm::list::Visit;
use crate::algorithm::scheme::{Level, Moment, Scheme};
use crate::decision::Decision;
use crate::effect::{Effect, Write};
use crate::limiter::Limiter;
use crate::limiters::{Limiters, Taken, Told};
use crate::numbers::MAX_TIME_MS;
use crate::packed::PackedNumbers;
use crate::part::Verdict;
use crate::rule::Rule;
use crate::terms::{Ask, Terms};
use crate::ttl;

/// Decides a plain call, and takes what it grants. Returns the decision and the answer of the binding
/// limiter; `None`, and nothing is changed, when the call is not plain.
#[inline(always)]
pub(crate) fn decide<L: Limiters>(
    limiters: &mut L,
    terms: &Terms<'_>,
    told: &mut impl Told,
) -> Option<(Decision, Verdict)> {
    if !terms.is_plain() {
        return None;
    }
    let count = limiters.count();
    let mut verdict = Verdict::default();
    // A single limiter finds out by taking whether it has room.
    if count > 1 {
        let mut longest: Option<(usize, Verdict)> = None;
        let mut any_grows = false;
        for place in 0..count {
            let (limiter, ask) = limiters.asked(place)?;
            match look(limiter, ask, terms, &mut verdict)? {
                Outcome::Room(grows) => any_grows |= grows,
                Outcome::Full => {
                    told.denied_by(place);
                    let waits = verdict.retry_after_ms;
                    if longest.is_none_or(|(_, longest)| waits > longest.retry_after_ms) {
                        longest = Some((place, verdict));
                    }
                }
            }
        }
        if let Some((place, verdict)) = longest {
            return Some(denied(place, verdict));
        }
        if any_grows {
            return None;
        }
    }
    let mut fewest: Option<(usize, Verdict)> = None;
    for place in 0..count {
        let taken = limiters
            .asked(place)
            .and_then(|(limiter, ask)| take(limiter, ask, terms, &mut verdict));
        match taken {
            Some(Outcome::Room(taken)) => limiters.taken(place, taken),
            Some(Outcome::Full) => {
                debug_assert!(place == 0, "looked at before");
                told.denied_by(place);
                return Some(denied(place, verdict));
            }
            None => {
                debug_assert!(place == 0, "looked at before");
                return None;
            }
        }
        if fewest.is_none_or(|(_, fewest)| verdict.remaining < fewest.remaining) {
            fewest = Some((place, verdict));
        }
    }
    let (binding, verdict) = fewest?;
    Some((Decision { granted: 1, retry_after_ms: 0, binding }, verdict))
}

fn denied(binding: usize, verdict: Verdict) -> (Decision, Verdict) {
    (Decision { granted: 0, retry_after_ms: verdict.retry_after_ms, binding }, verdict)
}

/// How a limiter takes a call.
enum Outcome<T> {
    /// It has room.
    Room(T),
    /// It has none.
    Full,
}

/// Looks whether a limiter has room for one permit, and whether that takes memory; if it has none,
/// the verdict is its answer. `None` when the call is not plain.
fn look(
    stored: &mut Limiter,
    ask: &Ask,
    terms: &Terms<'_>,
    verdict: &mut Verdict,
) -> Option<Outcome<bool>> {
    if !is_plain(stored, ask, terms) {
        return None;
    }
    let (_, state) = stored.split_mut();
    state.visit(Look { moment: moment(&ask.rule, terms), verdict })?
}

/// Takes one permit from a limiter, if it has room; the verdict is its answer. `None`, and nothing is
/// changed, when the call is not plain.
#[inline(always)]
fn take(
    stored: &mut Limiter,
    ask: &Ask,
    terms: &Terms<'_>,
    verdict: &mut Verdict,
) -> Option<Outcome<Taken>> {
    if !is_plain(stored, ask, terms) {
        return None;
    }
    let (written, state) = stored.split_mut();
    state.visit(Take { moment: moment(&ask.rule, terms), written, verdict })?
}

fn is_plain(stored: &Limiter, ask: &Ask, terms: &Terms<'_>) -> bool {
    let asks_one = ask.cost == 1 && ask.block_ms == 0 && !ask.shadow;
    asks_one && !stored.is_blocked_or_exempt(terms.now_ms) && stored.has_rule(&ask.rule)
}

fn moment<'a>(rule: &'a Rule, terms: &Terms<'_>) -> Moment<'a> {
    let Terms { now_ms, resolution, .. } = *terms;
    Moment { numbers: rule.numbers(), now_ms, resolution, id: None }
}

struct Look<'v> {
    moment: Moment<'v>,
    verdict: &'v mut Verdict,
}

impl Visit for Look<'_> {
    type Output = Option<Outcome<bool>>;

    fn visit<S: Scheme>(self, scheme: &mut S) -> Self::Output {
        Some(match with_one_more(scheme, &self.moment, self.verdict)? {
            Outcome::Room(level) => Outcome::Room(level.grows(&self.moment)),
            Outcome::Full => Outcome::Full,
        })
    }
}

struct Take<'v> {
    moment: Moment<'v>,
    written: &'v PackedNumbers,
    verdict: &'v mut Verdict,
}

impl Visit for Take<'_> {
    type Output = Option<Outcome<Taken>>;

    #[inline(always)]
    fn visit<S: Scheme>(self, scheme: &mut S) -> Self::Output {
        let Take { moment, written, verdict } = self;
        let Outcome::Room(level) = with_one_more(scheme, &moment, verdict)? else {
            return Some(Outcome::Full);
        };
        if level.grows(&moment) {
            return None;
        }
        let full_at_ms = level.full_at(&moment);
        let void_at_ms = level.void_after(&moment, full_at_ms).min(MAX_TIME_MS);
        let (capacity, window_ms) = (moment.numbers.capacity(), moment.numbers.window_ms());
        verdict.granted = 1;
        verdict.limit = capacity;
        // Where permits saturate none was taken.
        verdict.remaining = capacity.saturating_sub(level.in_use(&moment));
        verdict.retry_after_ms = 0;
        verdict.reset_after_ms = full_at_ms.min(MAX_TIME_MS) - moment.now_ms;
        let expire_at_ms = ttl::expiry(window_ms, void_at_ms, 0);
        let void_from_ms = ttl::void_from(window_ms, expire_at_ms);
        let moves = scheme.is_void_before(written, void_from_ms);
        let step = level.step(&moment);
        scheme.apply_step(step);
        Some(Outcome::Room(Taken { expire_at_ms: moves.then_some(expire_at_ms) }))
    }
}

/// The level of a limiter with one permit more in use, if it has room for that; else the verdict is
/// its answer. `None` when that is not plain: leases have names.
#[inline(always)]
fn with_one_more<'a, S: Scheme>(
    scheme: &'a S,
    moment: &Moment<'a>,
    verdict: &mut Verdict,
) -> Option<Outcome<S::Level<'a>>> {
    if S::IS_LEASED {
        return None;
    }
    let mut level = scheme.at(moment);
    let capacity = moment.numbers.capacity();
    if level.in_use(moment) < capacity {
        level.take(moment, 1);
        return Some(Outcome::Room(level));
    }
    verdict.granted = 0;
    verdict.limit = capacity;
    verdict.remaining = 0;
    let free_at_ms = level.earliest(moment, capacity.checked_sub(1)?);
    verdict.retry_after_ms = free_at_ms.min(MAX_TIME_MS) - moment.now_ms;
    verdict.reset_after_ms = level.full_at(moment).min(MAX_TIME_MS) - moment.now_ms;
    Some(Outcome::Full)
}

/// What [`decide`] did to a limiter that it took from, for those who only hear of it.
pub fn effect(stored: &Limiter, rule: &Rule, taken: &Taken, now_ms: i64) -> Effect {
    let change = stored.state().taken_one(now_ms);
    let write = change.map(|change| Write { rule: *rule, start_over: false, change });
    Effect { write, laid: None, expire_at_ms: taken.expire_at_ms }
}
