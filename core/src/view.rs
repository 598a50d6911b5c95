//! A limiter as it stands at one moment under the rule that is asked.
//!
//! A view of the rule that last wrote the limiter is just the algorithm's level. Under another rule
//! the algorithm says what becomes of what is stored: a bucket is converted; a log, leases and the
//! counters of the same windows are judged as they are. Otherwise the permits in use under the old
//! rule count as taken at this instant (*carried*). How soon a carried limiter has room is up to the
//! old rule, since a denied call stores nothing and a later one carries less.

use crate::algorithm::Change;
use crate::algorithm::list::AnyLevel;
use crate::algorithm::scheme::Moment;
use crate::algorithm::sliding::DEFAULT_RESOLUTION;
use crate::effect::Write;
use crate::limiter::Limiter;
use crate::numbers::MAX_TIME_MS;
use crate::rule::Rule;

/// Looks at a limiter under the rule that last wrote it; `None` when there is none.
pub(crate) fn own_view<T>(
    stored: &Limiter,
    now_ms: i64,
    look: impl FnOnce(View<'_>) -> T,
) -> Option<T> {
    let rule = stored.rule()?;
    // Nobody takes from this view, so when a grant would be recorded does not matter.
    let moment =
        Moment { numbers: rule.numbers(), now_ms, resolution: DEFAULT_RESOLUTION, id: None };
    Some(look(View::new(Some(stored), &rule, moment)))
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct View<'a> {
    rule: &'a Rule,
    moment: Moment<'a>,
    level: AnyLevel<'a>,
    /// The limiter when another rule last wrote it, until permits are taken.
    other: Option<&'a Limiter>,
    /// Whether the level is not built on what is stored.
    start_over: bool,
    /// Whether another rule last wrote the limiter.
    rule_changed: bool,
}

// What is `inline(always)` here saves a tenth of a decision.
impl<'a> View<'a> {
    /// Looks at a limiter (none: a fresh one) under a rule whose limit is above 0, at a moment with the
    /// numbers of that rule.
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

    /// Permits in use of the lease that asks, which its holder may keep whatever others hold.
    #[inline(always)]
    pub fn renewable(&self) -> u64 {
        self.level.renewable()
    }

    /// The first millisecond from now on at which at most `at_most` permits are in use, those of the
    /// lease that asks left out.
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

    /// A void limiter is fresh, whatever the rule that is asked says.
    fn before_void(&self, time_ms: i64) -> i64 {
        self.other.map_or(time_ms, |other| time_ms.min(other.void_at())).min(MAX_TIME_MS)
    }

    /// Takes permits, whether or not they fit. Says whether there is anything to write.
    pub fn take(&mut self, permits: u64) -> bool {
        let writes = self.level.take(&self.moment, permits);
        if writes {
            self.other = None;
        }
        writes
    }

    /// When nothing will be in use any more.
    #[inline(always)]
    pub fn full_at(&self) -> i64 {
        let now_ms = self.moment.now_ms;
        let full_at_ms = match self.other.filter(|_| self.start_over) {
            // Carried permits come free as the old rule says, until some are taken under this one.
            Some(other) => own_view(other, now_ms, |own| own.full_at()).unwrap_or(now_ms),
            None => self.level.full_at(&self.moment),
        };
        self.before_void(full_at_ms).max(now_ms)
    }

    /// When what [`View::write`] stores will be as a fresh limiter. The view is full at `full_at_ms`.
    pub fn void_at(&self, full_at_ms: i64) -> i64 {
        self.level.void_after(&self.moment, full_at_ms).min(MAX_TIME_MS)
    }

    /// Whether what was taken may be void sooner than what was there: after another rule, or when a
    /// lease from the time of another rule was renewed.
    pub fn may_be_void_sooner(&self) -> bool {
        self.rule_changed || self.rule.algorithm().is_leased()
    }

    /// What stores the view.
    pub fn write(&self) -> Write {
        self.writes(self.level.change(&self.moment))
    }

    /// Whether [`View::write`] takes more memory than there is in `stored`, the limiter looked at. What
    /// has left makes room.
    pub fn grows(&self, stored: &Limiter) -> bool {
        let algorithm = self.rule.algorithm();
        match stored.state().algorithm() == Some(algorithm) {
            true => !self.start_over && self.level.grows(&self.moment),
            false => algorithm.allocates(),
        }
    }

    /// What stores the view after `permits` were given back, and when that will be as a fresh
    /// limiter; `None` when there were none to give back. Leases are released instead.
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
