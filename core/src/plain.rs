//! The short way for most calls, which are plain. It decides as [`crate::decision`] does.
//!
//! A call is plain if it takes one permit of each limiter and asks for nothing else, and if each
//! limiter was last written by the rule asked, has no block or exemption laid on it, and needs no
//! more memory. Such a call is decided and granted in place. Almost nothing is kept between check
//! and grant, and keeping it takes most of the time of a full decision. [`crate::decision`]
//! handles all other calls.
//!
//! The arithmetic is that of the algorithms, compiled for each. `tests/against_oracle.rs` decides
//! each plain call both ways and compares all results. So it checks that a plain call needs to
//! look no further than one permit, and that the change in place is the one that the effect
//! describes.

use crate::algorithm::list::Visit;
use crate::algorithm::scheme::{Level, Moment, Scheme};
use crate::decision::Decision;
use crate::effect::{Effect, Write};
use crate::limiter::Limiter;
use crate::limiters::{Limiters, Observer, Taken};
use crate::numbers::MAX_TIME_MS;
use crate::packed::PackedNumbers;
use crate::part::Verdict;
use crate::rule::Rule;
use crate::terms::{Ask, Terms};
use crate::ttl;

/// Decides a plain call, and takes what it grants. Returns the decision and the answer of the
/// binding limiter. `None` if the call is not plain; nothing is changed then.
#[inline(always)]
pub(crate) fn decide<L: Limiters>(
    limiters: &mut L,
    terms: &Terms<'_>,
    observer: &mut impl Observer,
) -> Option<(Decision, Verdict)> {
    if !terms.is_plain() {
        return None;
    }
    let count = limiters.count();
    let mut verdict = Verdict::default();
    // A single limiter needs no look beforehand: `take` finds out whether it has room.
    if count > 1 {
        let mut longest: Option<(usize, Verdict)> = None;
        let mut any_grows = false;
        for place in 0..count {
            let (limiter, ask) = limiters.asked(place)?;
            match look(limiter, ask, terms, &mut verdict)? {
                Fit::Room(grows) => any_grows |= grows,
                Fit::NoRoom => {
                    observer.denied_by(place);
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
            Some(Fit::Room(taken)) => limiters.taken(place, taken),
            Some(Fit::NoRoom) => {
                debug_assert!(place == 0, "looked at before");
                observer.denied_by(place);
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

/// The outcome of a call at one limiter.
enum Fit<T> {
    /// The limiter has room.
    Room(T),
    /// It has no room.
    NoRoom,
}

/// Looks whether a limiter has room for one permit, and whether that permit needs more memory. If
/// there is no room, the verdict is the limiter's answer. `None` if the call is not plain.
fn look(
    stored: &mut Limiter,
    ask: &Ask,
    terms: &Terms<'_>,
    verdict: &mut Verdict,
) -> Option<Fit<bool>> {
    if !is_plain(stored, ask, terms) {
        return None;
    }
    let (_, state) = stored.split_mut();
    state.visit(Look { moment: moment(&ask.rule, terms), verdict })?
}

/// Takes one permit from a limiter if it has room. The verdict is the limiter's answer. `None` if
/// the call is not plain; nothing is changed then.
#[inline(always)]
fn take(
    stored: &mut Limiter,
    ask: &Ask,
    terms: &Terms<'_>,
    verdict: &mut Verdict,
) -> Option<Fit<Taken>> {
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
    type Output = Option<Fit<bool>>;

    fn visit<S: Scheme>(self, scheme: &mut S) -> Self::Output {
        Some(match with_one_more(scheme, &self.moment, self.verdict)? {
            Fit::Room(level) => Fit::Room(level.grows(&self.moment)),
            Fit::NoRoom => Fit::NoRoom,
        })
    }
}

struct Take<'v> {
    moment: Moment<'v>,
    written: &'v PackedNumbers,
    verdict: &'v mut Verdict,
}

impl Visit for Take<'_> {
    type Output = Option<Fit<Taken>>;

    #[inline(always)]
    fn visit<S: Scheme>(self, scheme: &mut S) -> Self::Output {
        let Take { moment, written, verdict } = self;
        let Fit::Room(level) = with_one_more(scheme, &moment, verdict)? else {
            return Some(Fit::NoRoom);
        };
        if level.grows(&moment) {
            return None;
        }
        let full_at_ms = level.full_at(&moment);
        let void_at_ms = level.void_after(&moment, full_at_ms).min(MAX_TIME_MS);
        let (capacity, window_ms) = (moment.numbers.capacity(), moment.numbers.window_ms());
        verdict.granted = 1;
        verdict.limit = capacity;
        // If the permits in use saturate, none was taken.
        verdict.remaining = capacity.saturating_sub(level.in_use(&moment));
        verdict.retry_after_ms = 0;
        verdict.reset_after_ms = full_at_ms.min(MAX_TIME_MS) - moment.now_ms;
        let expire_at_ms = ttl::expiry(window_ms, void_at_ms, 0);
        let void_from_ms = ttl::void_from(window_ms, expire_at_ms);
        let moves = scheme.is_void_before(written, void_from_ms);
        let step = level.step(&moment);
        scheme.apply_step(step);
        Some(Fit::Room(Taken { expire_at_ms: moves.then_some(expire_at_ms) }))
    }
}

/// The level of a limiter with one more permit in use, if it has room. Otherwise the verdict is
/// the limiter's answer. `None` for leases, since a plain call has no name for one.
#[inline(always)]
fn with_one_more<'a, S: Scheme>(
    scheme: &'a S,
    moment: &Moment<'a>,
    verdict: &mut Verdict,
) -> Option<Fit<S::Level<'a>>> {
    if S::IS_LEASED {
        return None;
    }
    let mut level = scheme.at(moment);
    let capacity = moment.numbers.capacity();
    if level.in_use(moment) < capacity {
        level.take(moment, 1);
        return Some(Fit::Room(level));
    }
    verdict.granted = 0;
    verdict.limit = capacity;
    verdict.remaining = 0;
    let free_at_ms = level.earliest(moment, capacity.checked_sub(1)?);
    verdict.retry_after_ms = free_at_ms.min(MAX_TIME_MS) - moment.now_ms;
    verdict.reset_after_ms = level.full_at(moment).min(MAX_TIME_MS) - moment.now_ms;
    Some(Fit::NoRoom)
}

/// The effect of what [`decide`] did to a limiter, for replicas and the AOF.
pub fn effect(stored: &Limiter, rule: &Rule, taken: &Taken, now_ms: i64) -> Effect {
    let change = stored.state().taken_one(now_ms);
    let write = change.map(|change| Write { rule: *rule, start_over: false, change });
    Effect { write, laid: None, expire_at_ms: taken.expire_at_ms }
}
