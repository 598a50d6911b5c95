//! A limiter as it stands at one moment under the rule that is asked.
//!
//! The decision is the same for every algorithm: `n` permits fit when `in_use + n <= capacity`. A
//! view gives it the numbers, and is where the algorithms plug in. For each, it can tell the
//! permits in use, the earliest moment at which no more than so many are in use, take more, and
//! write down what became of it.
//!
//! **A rule that changed.** A bucket is converted to the new rule; a log, leases and the counters
//! of the same windows are judged by it as they are. Any other change counts the permits in use
//! under the old rule as taken at this instant (*carried*). How soon a carried limiter has room is
//! up to the old rule, since a denied call stores nothing and a later one carries less.

use std::sync::Arc;

use crate::bucket::{self, Bucket};
use crate::concurrency::{Lease, LeaseChange, Leases};
use crate::counter::Counter;
use crate::effect::{Change, Write};
use crate::fixed::Fixed;
use crate::limiter::{Limiter, State};
use crate::rule::{Algorithm, MAX_IN_USE, MAX_TIME_MS, Rule};
use crate::sliding::{self, DEFAULT_RESOLUTION, Live, Log, LogChange, LogStep};

/// When a limiter is looked at, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    /// The clock, in ms of epoch time.
    pub now_ms: i64,
    /// Above how many entries a sliding log rounds.
    pub resolution: u32,
    /// The lease that asks.
    pub id: Option<&'a [u8]>,
}

/// Looks at a limiter under the rule that last wrote it; `None` when there is none.
pub(crate) fn own_view<T>(
    stored: &Limiter,
    now_ms: i64,
    look: impl FnOnce(View<'_>) -> T,
) -> Option<T> {
    let rule = stored.rule()?;
    // Nobody takes from this view, so when a grant would be recorded does not matter.
    let moment = Moment { now_ms, resolution: DEFAULT_RESOLUTION, id: None };
    Some(look(View::new(Some(stored), &rule, moment)))
}

/// What each algorithm knows about the moment of the view.
#[derive(Clone, Copy, Debug)]
enum Level<'a> {
    /// Missing credits.
    Bucket(i128),
    /// The entries that count, and the permits to be recorded at `stamp_ms`.
    Sliding { live: Option<(&'a Log, Live)>, stamp_ms: i64, added: u64 },
    /// The present window.
    Fixed(Fixed),
    /// The present window and the one before.
    Counter(Counter),
    /// The leases; `own` permits are held under the name that asks.
    Concurrency { leases: Option<&'a Leases>, others: u64, own: u64, carried: u64, taken: u64 },
}

/// See the file's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    rule: &'a Rule,
    now_ms: i64,
    id: Option<&'a [u8]>,
    level: Level<'a>,
    /// The limiter when another rule last wrote it, until permits are taken.
    other: Option<&'a Limiter>,
    /// Whether the level is not built on what is stored.
    start_over: bool,
    /// Whether another rule last wrote the limiter.
    rule_changed: bool,
}

// What is `inline(always)` here saves a tenth of a decision.
impl<'a> View<'a> {
    /// Looks at a limiter (none: a fresh one) under a rule whose limit is above 0.
    #[inline(always)]
    pub fn new(stored: Option<&'a Limiter>, rule: &'a Rule, moment: Moment<'a>) -> View<'a> {
        let Moment { now_ms, id, .. } = moment;
        let rule_changed = stored.is_some_and(|stored| !stored.has_rule(rule));
        let view = |level, start_over, other| View {
            rule,
            now_ms,
            id,
            level,
            other,
            start_over,
            rule_changed,
        };
        let Some(stored) = stored.filter(|stored| !stored.is_unused()) else {
            return view(Level::fresh(rule, moment, 0), false, None);
        };
        let other = rule_changed.then_some(stored);
        if rule_changed && now_ms >= stored.void_at() {
            return view(Level::fresh(rule, moment, 0), true, None);
        }
        match Level::judge(stored, rule, moment) {
            Some(level) => view(level, false, other),
            None => {
                let used = own_view(stored, now_ms, |own| own.in_use()).unwrap_or(0);
                view(Level::fresh(rule, moment, used), true, other)
            }
        }
    }

    /// Permits in use, rounded up.
    #[inline(always)]
    pub fn in_use(&self) -> u64 {
        match self.level {
            Level::Bucket(deficit) => bucket::in_use(deficit, self.rule.window_ms()),
            Level::Sliding { live, added, .. } => added + live.map_or(0, |(_, live)| live.permits),
            Level::Fixed(fixed) => fixed.used,
            Level::Counter(counter) => counter.in_use(self.rule.window_ms(), self.now_ms),
            Level::Concurrency { others, own, carried, taken, .. } => {
                others + own + carried + taken
            }
        }
    }

    /// Permits that are in the way of an acquisition: a lease is renewed without its old cost.
    pub fn in_the_way(&self) -> u64 {
        match self.level {
            Level::Concurrency { others, carried, .. } => others + carried,
            _ => self.in_use(),
        }
    }

    /// Permits that the lease of that name holds: it may keep them whatever others hold.
    pub fn own(&self) -> u64 {
        match self.level {
            Level::Concurrency { own, .. } => own,
            _ => 0,
        }
    }

    /// Whether the lease of that name will still be there at a later time.
    pub fn owns_until(&self, time_ms: i64) -> bool {
        match (self.level, self.id) {
            (Level::Concurrency { leases: Some(leases), .. }, Some(id)) => {
                leases.live(id, time_ms).is_some()
            }
            _ => false,
        }
    }

    /// The first millisecond from now on at which at most `at_most` permits are in the way.
    pub fn earliest(&self, at_most: u64) -> i64 {
        let earliest = match self.other.filter(|_| self.start_over) {
            None => self.level_earliest(at_most),
            Some(other) => own_view(other, self.now_ms, |own| own.level_earliest(at_most))
                .unwrap_or(self.now_ms),
        };
        self.before_void(earliest)
    }

    fn level_earliest(&self, at_most: u64) -> i64 {
        if self.in_the_way() <= at_most {
            return self.now_ms;
        }
        let window_ms = self.rule.window_ms();
        match self.level {
            Level::Bucket(deficit) => bucket::earliest(deficit, self.rule, self.now_ms, at_most),
            Level::Sliding { live, stamp_ms, added } => {
                let of_live = at_most.checked_sub(added).zip(live).map(|(at_most, (log, live))| {
                    log.earliest(live, window_ms, at_most)
                        .unwrap_or(log.newest_ms().saturating_add(window_ms))
                });
                of_live.unwrap_or(stamp_ms.saturating_add(window_ms))
            }
            Level::Fixed(fixed) => fixed.void_at(window_ms),
            Level::Counter(counter) => counter.earliest(window_ms, self.now_ms, at_most),
            Level::Concurrency { leases, carried, taken, .. } => {
                let added = carried + taken;
                match (at_most.checked_sub(added), leases) {
                    (Some(at_most), Some(leases)) => leases.earliest(self.now_ms, at_most, self.id),
                    _ => self.now_ms.saturating_add(window_ms),
                }
            }
        }
    }

    /// A void limiter is fresh, whatever the rule that is asked says.
    fn before_void(&self, time_ms: i64) -> i64 {
        self.other.map_or(time_ms, |other| time_ms.min(other.void_at())).min(MAX_TIME_MS)
    }

    /// Takes permits, whether or not they fit. Says whether there is anything to write: there are no
    /// leases of no permits.
    pub fn take(&mut self, permits: u64) -> bool {
        let room = MAX_IN_USE.saturating_sub(self.in_the_way());
        if matches!(self.level, Level::Concurrency { .. }) && room == 0 {
            return false;
        }
        self.other = None;
        match &mut self.level {
            Level::Bucket(deficit) => *deficit = bucket::take(*deficit, self.rule, permits),
            Level::Sliding { added, .. } => *added += permits.min(room),
            Level::Fixed(fixed) => fixed.take(permits),
            Level::Counter(counter) => counter.take(permits),
            Level::Concurrency { own, taken, .. } => {
                *own = 0;
                *taken += permits.min(room);
            }
        }
        true
    }

    /// When nothing will be in use any more.
    #[inline(always)]
    pub fn full_at(&self) -> i64 {
        let window_ms = self.rule.window_ms();
        let full_at = match self.level {
            Level::Bucket(deficit) => bucket::full_at(deficit, self.rule.limit(), self.now_ms),
            Level::Sliding { live: None, added: 0, .. } => self.now_ms,
            Level::Sliding { live: Some((log, _)), added: 0, .. } => {
                log.newest_ms().saturating_add(window_ms)
            }
            Level::Sliding { stamp_ms, .. } => stamp_ms.saturating_add(window_ms),
            Level::Fixed(fixed) => fixed.void_at(window_ms),
            Level::Counter(counter) => counter.void_at(window_ms),
            Level::Concurrency { leases, carried, taken, .. } => {
                // A lease that is being renewed is replaced.
                let replaced = self.id.filter(|_| taken > 0);
                let stored = leases.map_or(0, |leases| leases.last_end_without(replaced));
                let added = if carried + taken > 0 { self.now_ms + window_ms } else { 0 };
                stored.max(added)
            }
        };
        let full_at = match self.other.filter(|_| self.start_over) {
            // Carried permits come free as the old rule says, until some are taken under this one.
            Some(other) => own_view(other, self.now_ms, |own| own.full_at()).unwrap_or(self.now_ms),
            None => full_at,
        };
        self.before_void(full_at).max(self.now_ms)
    }

    /// When what [`View::write`] stores will be as a fresh limiter: when it is full, but for a
    /// bucket that fills up beyond its cap.
    pub fn void_at(&self, full_at_ms: i64) -> i64 {
        match self.level {
            Level::Bucket(deficit) => {
                bucket::void_at(deficit, self.rule.limit(), self.now_ms, full_at_ms)
                    .min(MAX_TIME_MS)
            }
            _ => full_at_ms,
        }
    }

    /// Whether what was taken may be void sooner than what was there: after another rule, or when a
    /// lease from the time of another rule was renewed.
    pub fn may_be_void_sooner(&self) -> bool {
        self.rule_changed || matches!(self.level, Level::Concurrency { .. })
    }

    /// What stores the view.
    pub fn write(&self) -> Write {
        let change = match self.level {
            Level::Bucket(deficit) => Change::Bucket(self.bucket(deficit)),
            Level::Sliding { stamp_ms, added, .. } => Change::Log(LogChange {
                now_ms: self.now_ms,
                step: LogStep::Add { at_ms: stamp_ms, permits: added },
            }),
            Level::Fixed(fixed) => Change::Fixed(fixed),
            Level::Counter(counter) => Change::Counter(counter),
            Level::Concurrency { carried, taken, .. } => {
                let end_ms = self.now_ms.saturating_add(self.rule.window_ms()).min(MAX_TIME_MS);
                Change::Lease(LeaseChange::Put {
                    now_ms: self.now_ms,
                    id: Arc::from(self.id.unwrap_or_default()),
                    lease: Lease { permits: taken, taken_ms: self.now_ms, end_ms },
                    carried,
                })
            }
        };
        Write { rule: *self.rule, start_over: self.start_over, change }
    }

    /// What stores the view after `permits` were given back, and when that will be as a fresh
    /// limiter; `None` when there were none to give back. Leases are released instead.
    pub fn give_back(&self, permits: u64) -> Option<(Write, i64)> {
        let in_use = self.in_use();
        let permits = permits.min(in_use);
        if permits == 0 {
            return None;
        }
        let window_ms = self.rule.window_ms();
        let (change, void_at_ms) = match self.level {
            Level::Bucket(deficit) => {
                let given = i128::from(permits) * i128::from(window_ms);
                let bucket = self.bucket((deficit - given).max(0));
                (Change::Bucket(bucket), bucket.void_at(self.rule.limit()))
            }
            Level::Sliding { .. } => {
                let step = LogStep::GiveBack(permits);
                // The newest permits are the last to be given back.
                let void_at_ms = if permits < in_use { self.full_at() } else { self.now_ms };
                (Change::Log(LogChange { now_ms: self.now_ms, step }), void_at_ms)
            }
            Level::Fixed(fixed) => {
                let fixed = Fixed { used: fixed.used - permits, ..fixed };
                (Change::Fixed(fixed), fixed.void_at(window_ms))
            }
            Level::Counter(mut counter) => {
                counter.give_back(window_ms, self.now_ms, permits);
                (Change::Counter(counter), counter.void_at(window_ms))
            }
            Level::Concurrency { .. } => return None,
        };
        let write = Write { rule: *self.rule, start_over: self.start_over, change };
        Some((write, void_at_ms.clamp(self.now_ms, MAX_TIME_MS)))
    }

    fn bucket(&self, deficit: i128) -> Bucket {
        Bucket::new(self.now_ms, deficit)
    }
}

impl<'a> Level<'a> {
    /// A limiter of which `used` permits were taken just now.
    fn fresh(rule: &Rule, moment: Moment<'a>, used: u64) -> Level<'a> {
        let Moment { now_ms, resolution, .. } = moment;
        match rule.algorithm() {
            Algorithm::Bucket => Level::Bucket(bucket::take(0, rule, used)),
            Algorithm::Sliding => Level::Sliding {
                live: None,
                stamp_ms: sliding::stamp(rule, 0, resolution, now_ms),
                added: used,
            },
            Algorithm::Fixed => Level::Fixed(Fixed { used, ..Fixed::fresh(rule, now_ms) }),
            Algorithm::Counter => {
                let fresh = Counter::fresh(rule.window_ms(), now_ms);
                Level::Counter(Counter { current: used, ..fresh })
            }
            Algorithm::Concurrency => {
                Level::Concurrency { leases: None, others: 0, own: 0, carried: used, taken: 0 }
            }
        }
    }

    /// A stored limiter judged by `rule`; `None` when its permits must be carried over instead.
    fn judge(stored: &'a Limiter, rule: &Rule, moment: Moment<'a>) -> Option<Level<'a>> {
        let Moment { now_ms, resolution, id } = moment;
        let same_window = stored.window_ms() == rule.window_ms();
        match (stored.state(), rule.algorithm()) {
            (State::Bucket(bucket), Algorithm::Bucket) => {
                let same_rate = same_window && stored.limit() == rule.limit();
                let converted = match same_rate {
                    true => *bucket,
                    false => bucket.rescaled(stored.window_ms(), rule.window_ms()),
                };
                Some(Level::Bucket(converted.deficit_at(rule.limit(), now_ms)))
            }
            (State::Sliding(log), Algorithm::Sliding) => {
                let live = log.live(now_ms - rule.window_ms());
                let stamp_ms = log.stamp(rule, live, resolution, now_ms);
                let live = (live.entries > 0).then_some((log, live));
                Some(Level::Sliding { live, stamp_ms, added: 0 })
            }
            (State::Fixed(fixed), Algorithm::Fixed) if same_window && stored.has_shape(rule) => {
                Some(Level::Fixed(fixed.at(rule, now_ms)))
            }
            (State::Counter(counter), Algorithm::Counter) if same_window => {
                Some(Level::Counter(counter.get().at(rule.window_ms(), now_ms)))
            }
            (State::Concurrency(leases), Algorithm::Concurrency) => {
                let own = id.and_then(|id| leases.live(id, now_ms));
                let own = own.map_or(0, |lease| lease.permits);
                let others = leases.in_use(now_ms) - own;
                let leases = Some(leases);
                Some(Level::Concurrency { leases, others, own, carried: 0, taken: 0 })
            }
            _ => None,
        }
    }
}
