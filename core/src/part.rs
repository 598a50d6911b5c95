//! One limiter's part of a call: its answer, and the change that the call makes to it.
//!
//! `n` permits fit when `in_use + n <= capacity`, for every algorithm.

use crate::algorithm::scheme::Moment;
use crate::effect::Effect;
use crate::laid::Laid;
use crate::limiter::{Limiter, moved_expiry};
use crate::numbers::MAX_TIME_MS;
use crate::terms::{Ask, Terms};
use crate::ttl::expiry;
use crate::view::View;

/// The answer of one limiter on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Acquisitions that this limiter alone would have granted.
    pub granted: u64,
    /// Its capacity.
    pub limit: u64,
    /// Permits that could be taken after the call: 0 to the capacity.
    pub remaining: u64,
    /// Ms until the same request would be granted; 0 if it was granted, -1 if it never can be.
    pub retry_after_ms: i64,
    /// Ms until nothing is in use and no block is laid.
    pub reset_after_ms: i64,
}

/// One limiter's part of a call.
#[derive(Debug)]
pub struct Part<'a> {
    stored: Option<&'a Limiter>,
    laid: Laid,
    ask: &'a Ask,
    /// `None` if the limit is 0.
    view: Option<View<'a>>,
    /// Acquisitions that fit.
    room: u64,
    /// Whether the caller's lease has at least as many permits as the call asks for.
    renews: bool,
    /// Whether permits were taken.
    taken: bool,
    /// Whether the call starts a block.
    blocks: bool,
    /// When the view will be full. Valid after [`Part::settle`].
    full_at_ms: i64,
    verdict: Verdict,
}

/// Acquisitions without bound.
const UNLIMITED: u64 = u64::MAX;

impl<'a> Part<'a> {
    /// The part of a limiter; `None` is a new one.
    #[inline(always)]
    pub fn new(stored: Option<&'a Limiter>, ask: &'a Ask) -> Part<'a> {
        Part {
            stored,
            laid: stored.map_or(Laid::default(), Limiter::laid),
            ask,
            view: None,
            room: 0,
            renews: false,
            taken: false,
            blocks: false,
            full_at_ms: 0,
            verdict: Verdict { limit: ask.rule.capacity(), ..Verdict::default() },
        }
    }

    /// The request to this limiter.
    pub fn ask(&self) -> &Ask {
        self.ask
    }

    /// This limiter's own answer, once [`decide`](crate::decision::decide) has run.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Whether this limiter alone would have denied.
    pub fn lacks_room(&self) -> bool {
        self.room == 0
    }

    /// Acquisitions that fit.
    pub(crate) fn room(&self) -> u64 {
        self.room
    }

    /// Turns the verdict into that of a lapsed lease.
    pub(crate) fn lapse(&mut self) {
        (self.verdict.granted, self.verdict.retry_after_ms) = (0, 0);
    }

    /// Whether a holder asks for no more than it holds. It gets that whoever else waits.
    pub fn renews(&self) -> bool {
        self.renews
    }

    /// Whether the call may only renew a lease, and the lease is gone. False for a shadow, which
    /// only watches: it may have a shorter window than the caller knows of.
    pub(crate) fn has_lapsed(&self, terms: &Terms<'_>) -> bool {
        let id = terms.id.unwrap_or_default();
        let end_ms = self.stored.and_then(|stored| stored.lease_end_ms(id, terms.now_ms));
        end_ms.is_none() && !self.ask.shadow
    }

    /// The longest that permits may take to come due, in ms. 0 if a policy has put in an algorithm
    /// that cannot reserve. Cost 0 reserves nothing.
    fn reserve_ms(&self, terms: &Terms<'_>) -> i64 {
        let can_reserve = self.ask.rule.algorithm().can_reserve();
        if can_reserve && self.ask.cost > 0 { terms.reserve_ms } else { 0 }
    }

    /// Whether this limiter denies the call: it lacks room and is no shadow.
    pub fn denies(&self) -> bool {
        self.lacks_room() && !self.ask.shadow
    }

    fn is_blocked(&self, now_ms: i64) -> bool {
        self.laid.blocked_until_ms > now_ms
    }

    fn is_exempt(&self, now_ms: i64) -> bool {
        self.laid.exempt_until_ms > now_ms && !self.is_blocked(now_ms)
    }

    /// Looks at the limiter and computes how many acquisitions fit.
    #[inline(always)]
    pub(crate) fn check(&mut self, terms: &Terms<'a>) {
        let (ask, now_ms) = (self.ask, terms.now_ms);
        let capacity = self.verdict.limit;
        // Cost 0 renews no lease, so the caller's own lease counts as in use.
        let id = terms.id.filter(|_| ask.cost > 0);
        let moment =
            Moment { numbers: ask.rule.numbers(), now_ms, resolution: terms.resolution, id };
        if capacity > 0 {
            self.view = Some(View::new(self.stored, &ask.rule, moment));
        }
        let own = self.view.as_ref().map_or(0, View::renewable);
        self.renews = own > 0 && own >= ask.cost && !self.is_blocked(now_ms);
        let reserve_ms = self.reserve_ms(terms);
        if self.is_exempt(now_ms) {
            self.room = UNLIMITED;
        } else if let Some(view) = self.view.as_ref().filter(|_| !self.is_blocked(now_ms)) {
            self.room = match (ask.cost, reserve_ms) {
                (0, _) if view.in_use() <= capacity => UNLIMITED,
                (0, _) => 0,
                (cost, 0) => rooms(capacity, view, cost),
                (cost, reserve_ms) => {
                    let due = Moment { now_ms: now_ms.saturating_add(reserve_ms), ..moment };
                    rooms(capacity, &View::new(self.stored, &ask.rule, due), cost)
                }
            };
        }
    }

    /// Takes the permits of `acquisitions`, and starts a block if one is due.
    #[inline(always)]
    pub(crate) fn take(&mut self, acquisitions: u64, terms: &Terms<'a>) {
        let Ask { cost, block_ms, shadow, .. } = *self.ask;
        if acquisitions == 0 && block_ms == 0 {
            return;
        }
        let reserve_ms = self.reserve_ms(terms);
        // A lease is recorded even under an exemption or in a shadow: its holder goes on renewing
        // it, and must not lose it when the exemption or the shadow ends.
        let leases = self.ask.rule.algorithm().is_leased();
        // A shadow let through what it would have denied, so it takes only what fits.
        let acquisitions = match shadow && !terms.force && !leases {
            true => acquisitions.min(self.room),
            false => acquisitions,
        };
        let capacity = self.verdict.limit;
        let counts = leases || !self.is_exempt(terms.now_ms);
        if leases && acquisitions > 0 && self.room == 0 {
            // Only a shadow gets here. Compute the wait now: once the lease is recorded, the same
            // call would renew it.
            self.verdict.retry_after_ms = self.wait_ms(terms);
        }
        let Some(view) = self.view.as_mut().filter(|_| counts && cost > 0) else {
            return;
        };
        // The wait for a reservation can only be computed before its permits are taken.
        if reserve_ms > 0 && acquisitions > 0 {
            let at_most = capacity.saturating_sub(cost.saturating_mul(acquisitions));
            self.verdict.retry_after_ms = view.earliest(at_most) - terms.now_ms;
        }
        if acquisitions > 0 {
            self.taken = view.take(cost.saturating_mul(acquisitions));
        }
        let lacks_room = self.room == 0 || (terms.force && view.in_use() >= capacity);
        let may_block =
            block_ms > 0 && !shadow && cost <= capacity && !self.is_blocked(terms.now_ms);
        if lacks_room && may_block {
            self.laid.blocked_until_ms = terms.now_ms.saturating_add(block_ms).min(MAX_TIME_MS);
            self.laid.laid_ms = terms.now_ms;
            self.blocks = true;
        }
    }

    /// Fills in the verdict as it stands after the call.
    #[inline(always)]
    pub(crate) fn settle(&mut self, terms: &Terms<'a>) {
        let now_ms = terms.now_ms;
        let capacity = self.verdict.limit;
        let blocked_ms = self.blocked_ms(now_ms);
        self.verdict.granted = self.room.min(terms.upto);
        self.verdict.reset_after_ms = blocked_ms;
        if let Some(view) = &self.view {
            self.verdict.remaining = match (self.is_exempt(now_ms), blocked_ms) {
                (true, _) => capacity,
                (false, 0) => capacity.saturating_sub(view.in_use()),
                (false, _) => 0,
            };
            self.full_at_ms = view.full_at();
            self.verdict.reset_after_ms = blocked_ms.max(self.full_at_ms - now_ms);
        }
        if self.room == 0 && (terms.force || !self.taken) {
            self.verdict.retry_after_ms = self.wait_ms(terms);
        }
    }

    fn blocked_ms(&self, now_ms: i64) -> i64 {
        (self.laid.blocked_until_ms - now_ms).max(0)
    }

    /// How long a denied request must wait, in ms; -1 for ever.
    fn wait_ms(&self, terms: &Terms<'a>) -> i64 {
        let blocked_ms = self.blocked_ms(terms.now_ms);
        // An exemption that outlasts the block lets the request through then, whatever the rule
        // says.
        if blocked_ms > 0 && self.laid.exempt_until_ms > self.laid.blocked_until_ms {
            return blocked_ms;
        }
        let cost = self.ask.cost;
        // So does a lease that outlasts the block.
        if blocked_ms > 0 && self.keeps_lease_until(self.laid.blocked_until_ms, terms) {
            return blocked_ms;
        }
        match (&self.view, self.verdict.limit.checked_sub(cost)) {
            (Some(view), Some(at_most)) => {
                // A reservation is granted once its permits come due within `reserve_ms`.
                let reserve_ms = self.reserve_ms(terms);
                (view.earliest(at_most) - terms.now_ms - reserve_ms).max(blocked_ms)
            }
            _ => -1,
        }
    }

    /// Whether the caller's lease has at least as many permits as the call asks for, and ends
    /// after `time_ms`.
    fn keeps_lease_until(&self, time_ms: i64, terms: &Terms<'_>) -> bool {
        let renewable = self.view.as_ref().map_or(0, View::renewable);
        let lease =
            self.stored.zip(terms.id).filter(|_| renewable > 0 && renewable >= self.ask.cost);
        let end_ms = lease.and_then(|(stored, id)| stored.lease_end_ms(id, terms.now_ms));
        end_ms.is_some_and(|end_ms| end_ms > time_ms)
    }

    /// The number of further acquisitions that this limiter allows.
    pub(crate) fn further(&self, now_ms: i64) -> u64 {
        let further = self.verdict.remaining.checked_div(self.ask.cost);
        further.filter(|_| !self.is_exempt(now_ms)).unwrap_or(UNLIMITED)
    }

    /// The change that the call makes to this limiter, once [`decide`](crate::decision::decide)
    /// has run. `None` if there is none.
    #[inline(always)]
    pub fn effect(&self) -> Option<Effect> {
        if !self.taken && !self.blocks {
            return None;
        }
        let taken = self.view.as_ref().filter(|_| self.taken);
        let (window_ms, void_at_ms) = match (taken, self.stored) {
            (Some(view), _) => (self.ask.rule.window_ms(), view.void_at(self.full_at_ms)),
            (None, Some(stored)) => (stored.window_ms(), stored.void_at()),
            (None, None) => (0, 0),
        };
        let expire_at_ms = expiry(window_ms, void_at_ms, self.laid.end_ms());
        let expire_at_ms = match self.stored.filter(|_| taken.is_some_and(View::may_be_void_sooner))
        {
            Some(stored) => stored.moved_ttl(window_ms, expire_at_ms),
            None => moved_expiry(self.stored, window_ms, expire_at_ms),
        };
        Some(Effect {
            write: taken.map(View::write),
            laid: self.blocks.then_some(self.laid),
            expire_at_ms,
        })
    }

    /// Whether storing the effect takes more memory than the limiter has.
    #[inline(always)]
    pub fn grows(&self, effect: &Effect) -> bool {
        match (self.stored, &self.view) {
            (None, _) => true,
            (Some(stored), Some(view)) => effect.write.is_some() && view.grows(stored),
            (Some(_), None) => false,
        }
    }
}

/// The number of acquisitions at `cost` that fit. `cost` is above 0.
#[inline(always)]
fn rooms(capacity: u64, view: &View<'_>, cost: u64) -> u64 {
    let renewable = view.renewable();
    let room = capacity.saturating_sub(view.in_use() - renewable);
    // A division is a good part of a whole decision, and most costs are 1.
    let rooms = if cost == 1 { room } else { room / cost };
    match renewable {
        0 => rooms,
        _ => rooms.max(renewable / cost),
    }
}
