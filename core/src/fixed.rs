//! Fixed window: at most `limit` permits in each window of epoch time.
//!
//! The oldest scheme, a counter per period (the Redis documentation of `INCR`, "Pattern: rate
//! limiter"), with a boundary that can be moved: an offset of -8 h makes windows of a day turn over
//! at midnight in UTC+8. Two full windows can meet at the boundary; use another algorithm where
//! that matters.

use crate::rule::{MAX_IN_USE, Rule};

/// The stored state of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The start of the window that `used` belongs to, in ms of epoch time.
    pub start_ms: i64,
    /// Permits taken in that window.
    pub used: u64,
}

/// The start of the window that `now_ms` is in.
pub fn start_of(now_ms: i64, window_ms: i64, offset_ms: i64) -> i64 {
    now_ms - (now_ms - offset_ms).rem_euclid(window_ms)
}

impl Fixed {
    /// A window that nothing was taken from.
    pub fn fresh(rule: &Rule, now_ms: i64) -> Fixed {
        let start_ms = start_of(now_ms, rule.window_ms(), rule.offset_ms());
        Fixed { start_ms, used: 0 }
    }

    /// The window at `now_ms`, which is not before `start_ms`.
    pub fn at(&self, rule: &Rule, now_ms: i64) -> Fixed {
        let fresh = Fixed::fresh(rule, now_ms);
        if fresh.start_ms > self.start_ms { fresh } else { *self }
    }

    /// Takes permits, saturated.
    pub fn take(&mut self, permits: u64) {
        self.used = self.used.saturating_add(permits).min(MAX_IN_USE);
    }

    /// When nothing is in use any more: the end of the window.
    pub fn void_at(&self, window_ms: i64) -> i64 {
        if self.used == 0 { self.start_ms } else { self.start_ms.saturating_add(window_ms) }
    }
}
