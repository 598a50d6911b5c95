//! A limiter at one moment under the rule asked.
//!
//! Under the rule that last wrote the limiter, a view is just the algorithm's level. Under another
//! rule the algorithm decides what becomes of the stored state. It converts a bucket. It takes a
//! log, leases, and the counters of equal windows as they are. In all other cases the permits in
//! use under the old rule count as taken at this instant: they are *carried*. The old rule then
//! determines when a carried limiter has room, since a denied call stores nothing and a later call
//! carries less.

use crate::algorithm::Change;
use crate::algorithm::list::AnyLevel;
use crate::algorithm::scheme::Moment;
use crate::algorithm::sliding::DEFAULT_RESOLUTION;
use crate::effect::Write;
use crate::limiter::Limiter;
use crate::numbers::MAX_TIME_MS;
use crate::rule::Rule;

/// Looks at a limiter under the rule that last wrote it. `None` if no rule ever did.
pub(crate) fn own_view<T>(
    stored: &Limiter,
    now_ms: i64,
    look: impl FnOnce(View<'_>) -> T,
) -> Option<T> {
    let rule = stored.rule()?;
    // Nothing is taken from this view, so the resolution makes no difference.
    let moment =
        Moment { numbers: rule.numbers(), now_ms, resolution: DEFAULT_RESOLUTION, id: None };
    Some(look(View::new(Some(stored), &rule, moment)))
}

/// A view; the head of this file describes it.
#[derive(Debug)]
pub(crate) struct View<'a> {
    rule: &'a Rule,
    moment: Moment<'a>,
    level: AnyLevel<'a>,
    /// The limiter, if another rule last wrote it. `None` again once permits are taken.
    other: Option<&'a Limiter>,
    /// Whether the level replaces the stored state instead of continuing it.
    start_over: bool,
    /// Whether another rule last wrote the limiter.
    rule_changed: bool,
}

// `inline(always)` on these functions saves a tenth of a decision.
impl<'a> View<'a> {
    /// Looks at a limiter (`None` is a new one) under a rule whose limit is above 0. The moment
    /// has the numbers of that rule.
    #[inline(always)]
    pub fn new(stored: Option<&'a Limiter>, rule: &'a Rule, moment: Moment<'a>) -> View<'a> {
        let view = |level| View {
            rule,
            moment,
            level,
            other: None,
            start_over: false,
            rule_changed: false,
        };
        let Some(stored) = stored else {
            return view(AnyLevel::fresh(rule.algorithm(), &moment, 0));
        };
        let level = if stored.has_rule(rule) { stored.state().at(&moment) } else { None };
        match level {
            Some(level) => view(level),
            None => View::by_other_rule(stored, rule, moment),
        }
    }

    #[cold]
    fn by_other_rule(stored: &'a Limiter, rule: &'a Rule, moment: Moment<'a>) -> View<'a> {
        let fresh = |used| AnyLevel::fresh(rule.algorithm(), &moment, used);
        let view = |level, other, start_over| View {
            rule,
            moment,
            level,
            other,
            start_over,
            rule_changed: true,
        };
        if stored.is_unused() {
            return view(fresh(0), None, false);
        }
        if moment.now_ms >= stored.void_at() {
            return view(fresh(0), None, true);
        }
        match stored.level_under(rule.algorithm(), &moment) {
            Some(level) => view(level, Some(stored), false),
            None => {
                let used = own_view(stored, moment.now_ms, |own| own.in_use()).unwrap_or(0);
                view(fresh(used), Some(stored), true)
            }
        }
    }

    /// Permits in use, rounded up.
    #[inline(always)]
    pub fn in_use(&self) -> u64 {
        self.level.in_use(&self.moment)
    }

    /// Permits in use by the lease that asks. Its holder may keep them whatever others hold.
    #[inline(always)]
    pub fn renewable(&self) -> u64 {
        self.level.renewable()
    }

    /// The first millisecond from now on at which at most `at_most` permits are in use, not
    /// counting those of the lease that asks.
    pub fn earliest(&self, at_most: u64) -> i64 {
        let earliest = match self.other.filter(|_| self.start_over) {
            None => self.level_earliest(at_most),
            Some(other) => {
                let now_ms = self.moment.now_ms;
                own_view(other, now_ms, |own| own.level_earliest(at_most)).unwrap_or(now_ms)
            }
        };
        self.before_void(earliest)
    }

    fn level_earliest(&self, at_most: u64) -> i64 {
        if self.in_use() - self.renewable() <= at_most {
            return self.moment.now_ms;
        }
        self.level.earliest(&self.moment, at_most)
    }

    /// Limits a time to when the stored state becomes void: every rule then treats it as new.
    fn before_void(&self, time_ms: i64) -> i64 {
        self.other.map_or(time_ms, |other| time_ms.min(other.void_at())).min(MAX_TIME_MS)
    }

    /// Takes permits, whether or not they fit. Returns whether there is anything to write.
    pub fn take(&mut self, permits: u64) -> bool {
        let writes = self.level.take(&self.moment, permits);
        if writes {
            self.other = None;
        }
        writes
    }

    /// When nothing will be in use any more; now if nothing is.
    #[inline(always)]
    pub fn full_at(&self) -> i64 {
        let now_ms = self.moment.now_ms;
        let full_at_ms = match self.other.filter(|_| self.start_over) {
            // Carried permits come back as the old rule says, until a call takes some under this
            // one.
            Some(other) => own_view(other, now_ms, |own| own.full_at()).unwrap_or(now_ms),
            None => self.level.full_at(&self.moment),
        };
        self.before_void(full_at_ms).max(now_ms)
    }

    /// When the state that [`View::write`] stores becomes void. The view is full at `full_at_ms`.
    pub fn void_at(&self, full_at_ms: i64) -> i64 {
        self.level.void_after(&self.moment, full_at_ms).min(MAX_TIME_MS)
    }

    /// Whether the write may make the limiter void sooner than it was: if another rule wrote it
    /// before, or if it renews a lease that was taken under another rule.
    pub fn may_be_void_sooner(&self) -> bool {
        self.rule_changed || self.rule.algorithm().is_leased()
    }

    /// The write that stores the view.
    pub fn write(&self) -> Write {
        self.writes(self.level.change(&self.moment))
    }

    /// Whether [`View::write`] takes more memory than `stored`, the limiter looked at, has.
    /// Permits that are no longer in use make room.
    pub fn grows(&self, stored: &Limiter) -> bool {
        let algorithm = self.rule.algorithm();
        match stored.state().algorithm() == Some(algorithm) {
            true => !self.start_over && self.level.grows(&self.moment),
            false => algorithm.allocates(),
        }
    }

    /// The write that stores the view after `permits` were given back, and when the limiter is
    /// void after it. `None` if there were none to give back, or for leases, which are released
    /// instead.
    pub fn give_back(&self, permits: u64) -> Option<(Write, i64)> {
        let permits = permits.min(self.in_use());
        if permits == 0 {
            return None;
        }
        let (change, void_at_ms) = self.level.give_back(&self.moment, permits)?;
        Some((self.writes(change), void_at_ms.clamp(self.moment.now_ms, MAX_TIME_MS)))
    }

    fn writes(&self, change: Change) -> Write {
        Write { rule: *self.rule, start_over: self.start_over, change }
    }
}
