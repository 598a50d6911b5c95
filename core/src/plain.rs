//! Plain acquisitions, in short: what [`crate::decision`] decides, for the calls that are most of all.
//!
//! A call is plain when it takes one permit of each limiter and asks for nothing else, and when each
//! limiter was last written by the rule that is asked, is under no block or exemption, and needs no
//! more memory. It is decided and granted in place: next to nothing is remembered in between, which
//! is what takes most of the time of a decision. Everything else is left to [`crate::decision`].
//! `tests/against_oracle.rs` decides each plain call both ways and compares all that comes of it.

use crate::bucket::{self, Bucket};
use crate::counter::StoredCounter;
use crate::decision::{Ask, Decision, Terms, Verdict, moved_expiry};
use crate::effect::{Change, Effect, Write};
use crate::limiter::{Limiter, State, expiry};
use crate::rule::{MAX_TIME_MS, Rule};
use crate::sliding::{Live, LogChange, LogStep};

/// A limiter of a call, and what is asked of it.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The limiter.
    pub limiter: &'a mut Limiter,
    /// What is asked.
    pub ask: &'a Ask,
}

/// A limiter that one permit was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Where the TTL must move to, in ms of epoch time; `None` when it reaches far enough.
    pub expire_at_ms: Option<i64>,
}

/// Decides a plain call over at least one limiter, and takes what it grants. Returns the decision and
/// what the binding limiter answers; `None`, and nothing is changed, when the call is not plain.
///
/// `told` hears of each limiter that a permit was taken from, in their order, or else of each that
/// denies. What it hears counts only if there is a decision.
#[inline]
pub fn decide(
    asked: &mut [Asked<'_>],
    terms: &Terms<'_>,
    told: &mut impl FnMut(usize, Option<Taken>),
) -> Option<(Decision, Verdict)> {
    if !terms.is_plain() {
        return None;
    }
    // A single limiter finds out by taking whether it has room.
    if asked.len() > 1 {
        let mut longest: Option<(usize, Verdict)> = None;
        let mut any_grows = false;
        for (index, Asked { limiter, ask }) in asked.iter().enumerate() {
            match look(limiter, ask, terms)? {
                Ok(grows) => any_grows |= grows,
                Err(verdict) => {
                    told(index, None);
                    let waits = verdict.retry_after_ms;
                    if longest.is_none_or(|(_, longest)| waits > longest.retry_after_ms) {
                        longest = Some((index, verdict));
                    }
                }
            }
        }
        if let Some((index, verdict)) = longest {
            return Some(denied(index, verdict));
        }
        if any_grows {
            return None;
        }
    }
    let mut fewest: Option<(usize, Verdict)> = None;
    for (index, Asked { limiter, ask }) in asked.iter_mut().enumerate() {
        let Some((verdict, taken)) = take(limiter, ask, terms) else {
            debug_assert!(index == 0, "looked at before");
            return None;
        };
        debug_assert!(index == 0 || taken.is_some(), "looked at before");
        told(index, taken);
        if taken.is_none() {
            return Some(denied(index, verdict));
        }
        if fewest.is_none_or(|(_, fewest)| verdict.remaining < fewest.remaining) {
            fewest = Some((index, verdict));
        }
    }
    let (binding, verdict) = fewest?;
    Some((Decision { granted: 1, retry_after_ms: 0, binding }, verdict))
}

fn denied(binding: usize, verdict: Verdict) -> (Decision, Verdict) {
    (Decision { granted: 0, retry_after_ms: verdict.retry_after_ms, binding }, verdict)
}

/// Looks whether a limiter has room for one permit, and whether that takes memory; if it has none,
/// what it answers. `None` when the call is not plain.
fn look(stored: &Limiter, ask: &Ask, terms: &Terms<'_>) -> Option<Result<bool, Verdict>> {
    let next = is_plain(stored, ask, terms).then(|| next(stored.state(), &ask.rule, terms))??;
    Some(match next {
        Next::Room { grows, .. } => Ok(grows),
        Next::Full { free_at_ms, full_at_ms } => {
            Err(denial(&ask.rule, free_at_ms, full_at_ms, terms.now_ms))
        }
    })
}

/// Takes one permit from a limiter, if it has room. `None`, and nothing is changed, when the call is
/// not plain.
#[inline(always)]
fn take(stored: &mut Limiter, ask: &Ask, terms: &Terms<'_>) -> Option<(Verdict, Option<Taken>)> {
    if !is_plain(stored, ask, terms) {
        return None;
    }
    let (rule, now_ms) = (&ask.rule, terms.now_ms);
    let (step, remaining, full_at_ms, void_at_ms) = match next(stored.state(), rule, terms)? {
        Next::Room { grows: true, .. } => return None,
        Next::Room { step, remaining, full_at_ms, void_at_ms, .. } => {
            (step, remaining, full_at_ms.min(MAX_TIME_MS), void_at_ms.min(MAX_TIME_MS))
        }
        Next::Full { free_at_ms, full_at_ms } => {
            return Some((denial(rule, free_at_ms, full_at_ms, now_ms), None));
        }
    };
    let window_ms = rule.window_ms();
    let expire_at_ms = moved_expiry(Some(stored), window_ms, expiry(window_ms, void_at_ms, 0));
    match (step, stored.state_mut()) {
        (Step::To(next), state) => *state = next,
        (Step::Log(live, change), State::Sliding(log)) => log.apply_to(live, change),
        (Step::Log(..), _) => {}
    }
    let verdict = Verdict {
        granted: 1,
        limit: rule.capacity(),
        remaining,
        retry_after_ms: 0,
        reset_after_ms: full_at_ms - now_ms,
    };
    Some((verdict, Some(Taken { expire_at_ms })))
}

fn denial(rule: &Rule, free_at_ms: i64, full_at_ms: i64, now_ms: i64) -> Verdict {
    Verdict {
        granted: 0,
        limit: rule.capacity(),
        remaining: 0,
        retry_after_ms: free_at_ms.min(MAX_TIME_MS) - now_ms,
        reset_after_ms: full_at_ms.min(MAX_TIME_MS) - now_ms,
    }
}

/// What [`decide`] did to a limiter that it took from, for those who only hear of it.
pub fn effect(stored: &Limiter, rule: &Rule, taken: &Taken, now_ms: i64) -> Effect {
    let change = match stored.state() {
        State::Bucket(bucket) => Some(Change::Bucket(*bucket)),
        State::Sliding(log) => {
            let step = LogStep::Add { at_ms: log.newest_ms(), permits: 1 };
            Some(Change::Log(LogChange { now_ms, step }))
        }
        State::Fixed(fixed) => Some(Change::Fixed(*fixed)),
        State::Counter(counter) => Some(Change::Counter(counter.get())),
        State::Unused | State::Concurrency(_) => None,
    };
    let write = change.map(|change| Write { rule: *rule, start_over: false, change });
    Effect { write, holds: None, expire_at_ms: taken.expire_at_ms }
}

fn is_plain(stored: &Limiter, ask: &Ask, terms: &Terms<'_>) -> bool {
    let asks_one = ask.cost == 1 && ask.block_ms == 0 && !ask.shadow;
    asks_one && !stored.is_held(terms.now_ms) && stored.has_rule(&ask.rule)
}

/// What becomes of a limiter that is asked for one more permit.
enum Next {
    /// It has room.
    Room { step: Step, grows: bool, remaining: u64, full_at_ms: i64, void_at_ms: i64 },
    /// It has none.
    Full { free_at_ms: i64, full_at_ms: i64 },
}

/// How a permit is taken.
enum Step {
    /// By another state.
    To(State),
    /// By one more entry, after those that are live.
    Log(Live, LogChange),
}

/// Asks a limiter for one more permit. `None` when that is not plain.
#[inline(always)]
fn next(state: &State, rule: &Rule, terms: &Terms<'_>) -> Option<Next> {
    let Terms { now_ms, resolution, .. } = *terms;
    let (window_ms, limit) = (rule.window_ms(), rule.limit());
    // Permits that may be in use for one more to fit.
    let most = rule.capacity().checked_sub(1)?;
    Some(match state {
        State::Bucket(bucket) => {
            let deficit = bucket.deficit_at(limit, now_ms);
            if bucket::in_use(deficit, window_ms) > most {
                return Some(Next::Full {
                    free_at_ms: bucket::earliest(deficit, rule, now_ms, most),
                    full_at_ms: bucket::full_at(deficit, limit, now_ms),
                });
            }
            let deficit = bucket::take(deficit, rule, 1);
            let full_at_ms = bucket::full_at(deficit, limit, now_ms);
            Next::Room {
                step: Step::To(State::Bucket(Bucket::new(now_ms, deficit))),
                grows: false,
                remaining: (most + 1).saturating_sub(bucket::in_use(deficit, window_ms)),
                full_at_ms,
                void_at_ms: bucket::void_at(deficit, limit, now_ms, full_at_ms),
            }
        }
        State::Sliding(log) => {
            let cutoff_ms = now_ms - window_ms;
            let live = log.live(cutoff_ms);
            let Some(remaining) = most.checked_sub(live.permits) else {
                let full_at_ms = log.newest_ms().saturating_add(window_ms);
                let free_at_ms = log.earliest(live, window_ms, most).unwrap_or(full_at_ms);
                return Some(Next::Full { free_at_ms, full_at_ms });
            };
            let at_ms = log.stamp(rule, live, resolution, now_ms);
            let grows = log.grows(at_ms, &live);
            let add = LogStep::Add { at_ms, permits: 1 };
            let step = Step::Log(live, LogChange { now_ms, step: add });
            let full_at_ms = at_ms.saturating_add(window_ms);
            Next::Room { step, grows, remaining, full_at_ms, void_at_ms: full_at_ms }
        }
        State::Fixed(fixed) => {
            let mut fixed = fixed.at(rule, now_ms);
            let Some(remaining) = most.checked_sub(fixed.used) else {
                let full_at_ms = fixed.void_at(window_ms);
                return Some(Next::Full { free_at_ms: full_at_ms, full_at_ms });
            };
            fixed.take(1);
            let (step, full_at_ms) = (Step::To(State::Fixed(fixed)), fixed.void_at(window_ms));
            Next::Room { step, grows: false, remaining, full_at_ms, void_at_ms: full_at_ms }
        }
        State::Counter(counter) => {
            let mut counter = counter.get().at(window_ms, now_ms);
            if counter.in_use(window_ms, now_ms) > most {
                let free_at_ms = counter.earliest(window_ms, now_ms, most);
                return Some(Next::Full { free_at_ms, full_at_ms: counter.void_at(window_ms) });
            }
            counter.take(1);
            // Where permits saturate none was taken.
            let remaining = (most + 1).saturating_sub(counter.in_use(window_ms, now_ms));
            let full_at_ms = counter.void_at(window_ms);
            let step = Step::To(State::Counter(StoredCounter::new(counter)));
            Next::Room { step, grows: false, remaining, full_at_ms, void_at_ms: full_at_ms }
        }
        State::Unused | State::Concurrency(_) => return None,
    })
}
