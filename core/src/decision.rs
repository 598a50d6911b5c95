//! The decision over all limiters of a call: check every one, then deduct from all or from none.
//!
//! [`decide`] changes nothing. It leaves a [`Verdict`] and an [`Effect`] in each slot; the caller
//! applies the effects, or drops them to have only asked.

use crate::effect::Effect;
use crate::limiter::{Holds, Limiter, expiry};
use crate::rule::{Algorithm, MAX_TIME_MS, Rule};
use crate::view::{Moment, View};

/// What is asked of one limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The rule to judge by.
    pub rule: Rule,
    /// Permits that one acquisition takes.
    pub cost: u64,
    /// For how long the limiter goes on denying once it lacks room, in ms; 0: only while it does.
    pub block_ms: i64,
    /// Only see whether there is room, and never be in anyone's way.
    pub shadow: bool,
}

/// What is asked of all limiters of a call alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms<'a> {
    /// The server's clock, read once for the call, in ms of epoch time.
    pub now_ms: i64,
    /// Above how many entries a sliding log rounds: see [`crate::sliding`].
    pub resolution: u32,
    /// As many acquisitions as all limiters allow, up to this number; at least 1.
    pub upto: u64,
    /// Take now what comes due within so many ms. For buckets.
    pub reserve_ms: i64,
    /// Deduct whatever the check says.
    pub force: bool,
    /// The name of the lease, for concurrency limiters.
    pub id: Option<&'a [u8]>,
    /// Only renew: take nothing where a lease of that name has lapsed.
    pub only_renew: bool,
}

impl Terms<'_> {
    /// Whether one acquisition is asked for and nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        self.upto == 1 && self.reserve_ms == 0 && !self.force && self.id.is_none()
    }
}

impl Default for Terms<'_> {
    /// One plain acquisition, with the time left to fill in.
    fn default() -> Self {
        let resolution = crate::sliding::DEFAULT_RESOLUTION;
        Terms {
            now_ms: 0,
            resolution,
            upto: 1,
            reserve_ms: 0,
            force: false,
            id: None,
            only_renew: false,
        }
    }
}

/// The answer of one limiter on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Acquisitions that it alone would have granted.
    pub granted: u64,
    /// Its capacity.
    pub limit: u64,
    /// Permits that could be taken after the call, 0 to the capacity.
    pub remaining: u64,
    /// Ms until the same request would be granted: 0 if it was, -1 if it never can be.
    pub retry_after_ms: i64,
    /// Ms until it is as good as new.
    pub reset_after_ms: i64,
}

/// The answer to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How many acquisitions were granted.
    pub granted: u64,
    /// The largest wait over the denying limiters, in ms; -1 if one of them can never grant. 0 when
    /// granted, or when a lease has lapsed: see [`Decision::has_lapsed`].
    pub retry_after_ms: i64,
    /// The index of the limiter that binds: the one that denies for longest or, when granted,
    /// allows the fewest further acquisitions.
    pub binding: usize,
}

impl Decision {
    /// Whether nothing was taken because a lease has lapsed that was only to be renewed. That is no
    /// denial: the same call does not succeed later, however much room there is.
    pub fn has_lapsed(&self, terms: &Terms<'_>) -> bool {
        terms.only_renew && self.granted == 0 && self.retry_after_ms == 0
    }
}

/// One limiter's part of a call.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    stored: Option<&'a Limiter>,
    holds: Holds,
    ask: &'a Ask,
    /// `None` when the limit is 0.
    view: Option<View<'a>>,
    /// Acquisitions that fit.
    room: u64,
    /// Whether the caller's lease holds as much as is asked.
    renews: bool,
    /// Whether permits were taken.
    taken: bool,
    /// Whether a block began.
    blocks: bool,
    /// When the view will be full: after [`Slot::settle`].
    full_at_ms: i64,
    verdict: Verdict,
}

/// Acquisitions without bound.
const UNLIMITED: u64 = u64::MAX;

impl<'a> Slot<'a> {
    /// A slot for a stored limiter (none: a fresh one).
    pub fn new(stored: Option<&'a Limiter>, ask: &'a Ask) -> Slot<'a> {
        Slot {
            stored,
            holds: stored.map_or(Holds::default(), Limiter::holds),
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

    /// What was asked of this limiter.
    pub fn ask(&self) -> &Ask {
        self.ask
    }

    /// This limiter's own answer, after [`decide`].
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Whether this limiter alone would have denied.
    pub fn lacks_room(&self) -> bool {
        self.room == 0
    }

    /// Whether a holder asks for no more than it holds, which it is given whoever else waits.
    pub fn renews(&self) -> bool {
        self.renews
    }

    /// Whether the lease that is only to be renewed is not there. A shadow is not asked: it only
    /// watches, even when it tries a shorter window than the caller reckons with.
    fn has_lapsed(&self, terms: &Terms<'_>) -> bool {
        let id = terms.id.unwrap_or_default();
        let is_live = self.stored.is_some_and(|stored| stored.holds_lease(id, terms.now_ms));
        !is_live && !self.ask.shadow
    }

    /// How long permits may be in coming due. Only a bucket can go into debt for them: a policy may
    /// have put another algorithm in its place. Cost 0 reserves nothing.
    fn reserve_ms(&self, terms: &Terms<'_>) -> i64 {
        let bucket = self.ask.rule.algorithm() == Algorithm::Bucket;
        if bucket && self.ask.cost > 0 { terms.reserve_ms } else { 0 }
    }

    /// Whether this limiter denies the call: it lacks room, and is no shadow.
    pub fn denies(&self) -> bool {
        self.lacks_room() && !self.ask.shadow
    }

    fn is_blocked(&self, now_ms: i64) -> bool {
        self.holds.blocked_until_ms > now_ms
    }

    fn is_exempt(&self, now_ms: i64) -> bool {
        self.holds.exempt_until_ms > now_ms && !self.is_blocked(now_ms)
    }

    /// Looks at the limiter and finds how many acquisitions fit.
    fn check(&mut self, terms: &Terms<'a>) {
        let (ask, now_ms) = (self.ask, terms.now_ms);
        let capacity = self.verdict.limit;
        // Cost 0 renews no lease: the caller's own counts as in use.
        let id = terms.id.filter(|_| ask.cost > 0);
        let moment = Moment { now_ms, resolution: terms.resolution, id };
        if capacity > 0 {
            self.view = Some(View::new(self.stored, &ask.rule, moment));
        }
        let own = self.view.as_ref().map_or(0, View::own);
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

    /// Takes what `acquisitions` cost, and starts a block if that is due.
    fn take(&mut self, acquisitions: u64, terms: &Terms<'a>) {
        let Ask { cost, block_ms, shadow, .. } = *self.ask;
        if acquisitions == 0 && block_ms == 0 {
            return;
        }
        let reserve_ms = self.reserve_ms(terms);
        // A lease is kept even if nothing stands in its way: its holder goes on renewing it, and is
        // not to lose it when that ends.
        let leases = self.ask.rule.algorithm() == Algorithm::Concurrency;
        // A shadow takes no more than it has, since it let through what it would have denied.
        let acquisitions = match shadow && !terms.force && !leases {
            true => acquisitions.min(self.room),
            false => acquisitions,
        };
        let capacity = self.verdict.limit;
        let counts = leases || !self.is_exempt(terms.now_ms);
        if leases && acquisitions > 0 && self.room == 0 {
            // A shadow. Once the lease is there the same call would renew it.
            self.verdict.retry_after_ms = self.wait_ms(terms);
        }
        let Some(view) = self.view.as_mut().filter(|_| counts && cost > 0) else {
            return;
        };
        // How long a reservation must wait is known only before it is taken.
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
            self.holds.blocked_until_ms = terms.now_ms.saturating_add(block_ms).min(MAX_TIME_MS);
            self.holds.laid_ms = terms.now_ms;
            self.blocks = true;
        }
    }

    /// Fills in the verdict, as it stands after the call.
    fn settle(&mut self, terms: &Terms<'a>) {
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
        (self.holds.blocked_until_ms - now_ms).max(0)
    }

    /// How long a denied request must wait: -1 for ever.
    fn wait_ms(&self, terms: &Terms<'a>) -> i64 {
        let blocked_ms = self.blocked_ms(terms.now_ms);
        // Whatever the rule says, an exemption that outlasts the block lets it through then.
        if blocked_ms > 0 && self.holds.exempt_until_ms > self.holds.blocked_until_ms {
            return blocked_ms;
        }
        let cost = self.ask.cost;
        // So does a lease that outlasts the block.
        if let Some(view) = self.view.as_ref().filter(|view| blocked_ms > 0 && view.own() >= cost)
            && view.owns_until(self.holds.blocked_until_ms)
        {
            return blocked_ms;
        }
        match (&self.view, self.verdict.limit.checked_sub(cost)) {
            (Some(view), Some(at_most)) => {
                // A reservation is granted as soon as it comes due in time.
                let reserve_ms = self.reserve_ms(terms);
                (view.earliest(at_most) - terms.now_ms - reserve_ms).max(blocked_ms)
            }
            _ => -1,
        }
    }

    /// How many more acquisitions this limiter allows.
    fn further(&self, now_ms: i64) -> u64 {
        let further = self.verdict.remaining.checked_div(self.ask.cost);
        further.filter(|_| !self.is_exempt(now_ms)).unwrap_or(UNLIMITED)
    }

    /// What the call does to this limiter, after [`decide`]; `None` when nothing.
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
        let expire_at_ms = expiry(window_ms, void_at_ms, self.holds.end_ms());
        let expire_at_ms = match self.stored.filter(|_| taken.is_some_and(View::may_be_void_sooner))
        {
            Some(stored) => stored.moved_ttl(window_ms, expire_at_ms),
            None => moved_expiry(self.stored, window_ms, expire_at_ms),
        };
        Some(Effect {
            write: taken.map(View::write),
            holds: self.blocks.then_some(self.holds),
            expire_at_ms,
        })
    }

    /// Whether storing the effect needs more memory than the limiter has.
    pub fn grows(&self, effect: &Effect) -> bool {
        match (self.stored, &effect.write) {
            (None, _) => true,
            (Some(stored), Some(write)) => stored.grows(write),
            (Some(_), None) => false,
        }
    }
}

/// How many acquisitions at `cost` fit.
fn rooms(capacity: u64, view: &View<'_>, cost: u64) -> u64 {
    let room = capacity.saturating_sub(view.in_the_way());
    // A division is a good part of the whole decision, and most costs are 1.
    let rooms = if cost == 1 { room } else { room / cost };
    match view.own() {
        0 => rooms,
        own => rooms.max(own / cost),
    }
}

/// Where the TTL must move to, in ms of epoch time, after a write that keeps the rule; `None` when it
/// reaches far enough.
pub(crate) fn moved_expiry(
    stored: Option<&Limiter>,
    window_ms: i64,
    expire_at_ms: i64,
) -> Option<i64> {
    let moves = stored.is_none_or(|stored| stored.may_expire_before(window_ms, expire_at_ms));
    moves.then_some(expire_at_ms)
}

/// Decides a call over at least one limiter.
pub fn decide<'a>(slots: &mut [Slot<'a>], terms: &Terms<'a>) -> Decision {
    let mut granted = terms.upto;
    let mut all_shadows = true;
    for slot in slots.iter_mut() {
        slot.check(terms);
        if !slot.ask.shadow {
            all_shadows = false;
            granted = granted.min(slot.room);
        }
    }
    if terms.only_renew && slots.iter().any(|slot| slot.has_lapsed(terms)) {
        return lapsed(slots, terms);
    }
    let acquisitions = if terms.force { terms.upto } else { granted };
    for slot in slots.iter_mut() {
        slot.take(acquisitions, terms);
        slot.settle(terms);
    }
    let binds = |slot: &Slot<'_>| all_shadows || !slot.ask.shadow;
    if granted == 0 {
        let binding = binding_of_denial(slots, binds);
        let retry_after_ms = slots.get(binding).map_or(0, |slot| slot.verdict.retry_after_ms);
        return Decision { granted, retry_after_ms, binding };
    }
    let mut retry_after_ms = 0;
    if terms.reserve_ms > 0 {
        let real = slots.iter().filter(|slot| !slot.ask.shadow);
        retry_after_ms = real.map(|slot| slot.verdict.retry_after_ms).max().unwrap_or(0);
    }
    Decision { granted, retry_after_ms, binding: binding_of_grant(slots, binds, terms.now_ms) }
}

/// What is answered when a lease has lapsed that was only to be renewed: nothing is taken, and no
/// block begins. The first of those that lapsed binds.
fn lapsed<'a>(slots: &mut [Slot<'a>], terms: &Terms<'a>) -> Decision {
    let mut binding = None;
    for (i, slot) in slots.iter_mut().enumerate() {
        slot.settle(terms);
        if slot.has_lapsed(terms) {
            (slot.verdict.granted, slot.verdict.retry_after_ms) = (0, 0);
            binding.get_or_insert(i);
        }
    }
    Decision { granted: 0, retry_after_ms: 0, binding: binding.unwrap_or(0) }
}

/// The limiter that allows the fewest further acquisitions, then the one with the least remaining,
/// then the first.
fn binding_of_grant(slots: &[Slot<'_>], binds: impl Fn(&Slot<'_>) -> bool, now_ms: i64) -> usize {
    if slots.len() == 1 {
        return 0;
    }
    let candidates = slots.iter().enumerate().filter(|(_, slot)| binds(slot));
    let key = |(i, slot): &(usize, &Slot<'_>)| (slot.further(now_ms), slot.verdict.remaining, *i);
    candidates.min_by_key(key).map_or(0, |(i, _)| i)
}

/// The denying limiter with the largest wait, of which "never" is the largest; then the first.
fn binding_of_denial(slots: &[Slot<'_>], binds: impl Fn(&Slot<'_>) -> bool) -> usize {
    let (mut binding, mut longest) = (0, 0);
    for (i, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.room == 0 && binds(slot)) {
        // As an unsigned number -1 is the largest.
        let wait = slot.verdict.retry_after_ms as u64;
        if wait > longest {
            (binding, longest) = (i, wait);
        }
    }
    binding
}
