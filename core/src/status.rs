//! The report of a limiter about itself, under the rule that last wrote it.

use crate::limiter::Limiter;
use crate::rule::Rule;
use crate::view::own_view;

/// A limiter at one moment. Durations in ms, counts in permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The rule that last wrote it; `None` if nothing was ever granted.
    pub rule: Option<Rule>,
    /// Permits in use.
    pub used: u64,
    /// Permits that could be taken.
    pub remaining: u64,
    /// Until nothing is in use and no block is laid.
    pub reset_after_ms: i64,
    /// Until its block ends.
    pub blocked_for_ms: i64,
    /// Until its exemption ends.
    pub exempt_for_ms: i64,
    /// The number of log entries or leases that count; 0 for algorithms that have neither.
    pub entries: u64,
}

impl Status {
    /// Looks at a limiter.
    pub fn of(limiter: &Limiter, now_ms: i64) -> Status {
        let laid = limiter.laid();
        let mut status = Status {
            rule: limiter.rule(),
            blocked_for_ms: (laid.blocked_until_ms - now_ms).max(0),
            exempt_for_ms: (laid.exempt_until_ms - now_ms).max(0),
            ..Status::default()
        };
        let Some((used, full_at_ms)) =
            own_view(limiter, now_ms, |view| (view.in_use(), view.full_at()))
        else {
            return status;
        };
        let capacity = status.rule.map_or(0, |rule| rule.capacity());
        status.used = used;
        status.remaining = match (status.blocked_for_ms, status.exempt_for_ms) {
            (0, 0) => capacity.saturating_sub(status.used),
            (0, _) => capacity,
            _ => 0,
        };
        status.reset_after_ms = (full_at_ms - now_ms).max(status.blocked_for_ms);
        status.entries = limiter.entries(now_ms);
        status
    }
}
