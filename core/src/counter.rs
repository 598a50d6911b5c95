//! Sliding window counter: two counters instead of a log.
//!
//! The previous window's count fades linearly while the current one fills, which approximates a
//! sliding window in constant memory (J. Desgats and others, "How we built rate limiting capable of
//! scaling to millions of domains", Cloudflare blog, 2017):
//!
//! ```text
//! used = previous * (window - elapsed) / window + current
//! ```
//!
//! compared exactly: for whole permits, rounding the first term up is the same as multiplying out.
//! Windows are aligned to the epoch.

use crate::fixed::start_of;
use crate::packed::U56;
use crate::rule::MAX_IN_USE;

/// A sliding window counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The start of the current window, in ms of epoch time.
    pub start_ms: i64,
    /// Permits taken in the window before.
    pub previous: u64,
    /// Permits taken in the current window.
    pub current: u64,
}

/// The stored state of a sliding window counter, in 22 bytes: see [`crate::packed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct StoredCounter {
    start_ms: i64,
    previous: U56,
    current: U56,
}

impl StoredCounter {
    /// Packs a counter.
    pub fn new(counter: Counter) -> StoredCounter {
        let Counter { start_ms, previous, current } = counter;
        StoredCounter { start_ms, previous: U56::new(previous), current: U56::new(current) }
    }

    /// Unpacks it.
    pub fn get(&self) -> Counter {
        let (previous, current) = (self.previous.get(), self.current.get());
        Counter { start_ms: self.start_ms, previous, current }
    }
}

impl Counter {
    /// A counter that nothing was taken from.
    pub fn fresh(window_ms: i64, now_ms: i64) -> Counter {
        Counter { start_ms: start_of(now_ms, window_ms, 0), previous: 0, current: 0 }
    }

    /// The counter at `now_ms`, which is not before `start_ms`.
    pub fn at(&self, window_ms: i64, now_ms: i64) -> Counter {
        let start_ms = start_of(now_ms, window_ms, 0);
        if start_ms <= self.start_ms {
            return *self;
        }
        let previous = if start_ms - self.start_ms == window_ms { self.current } else { 0 };
        Counter { start_ms, previous, current: 0 }
    }

    /// Permits in use at `now_ms`, a time in the current window, rounded up.
    pub fn in_use(&self, window_ms: i64, now_ms: i64) -> u64 {
        faded(self.previous, window_ms, self.start_ms + window_ms - now_ms) + self.current
    }

    /// The first millisecond from `now_ms` on, a time in the current window, at which at most
    /// `at_most` permits are in use.
    pub fn earliest(&self, window_ms: i64, now_ms: i64, at_most: u64) -> i64 {
        let next_ms = self.start_ms.saturating_add(window_ms);
        match at_most.checked_sub(self.current) {
            Some(at_most) => fades_at(self.previous, window_ms, self.start_ms, at_most).max(now_ms),
            None => fades_at(self.current, window_ms, next_ms, at_most),
        }
    }

    /// Takes permits, saturated.
    pub fn take(&mut self, permits: u64) {
        let room = MAX_IN_USE.saturating_sub(self.previous.saturating_add(self.current));
        self.current += permits.min(room);
    }

    /// Gives back permits at `now_ms`: the newest first, then of what is left of the previous
    /// window.
    pub fn give_back(&mut self, window_ms: i64, now_ms: i64, permits: u64) {
        let of_current = permits.min(self.current);
        self.current -= of_current;
        let (window, left) =
            (window_ms as u128, (self.start_ms + window_ms - now_ms).max(1) as u128);
        let of_previous = u128::from(permits - of_current) * window;
        let weight = (u128::from(self.previous) * left).saturating_sub(of_previous);
        self.previous = self.previous.min(weight.div_ceil(left) as u64);
    }

    /// When nothing is in use any more. A full current window is still felt in the one after.
    pub fn void_at(&self, window_ms: i64) -> i64 {
        let windows = if self.current > 0 { 2 } else { i64::from(self.previous > 0) };
        self.start_ms.saturating_add(windows * window_ms)
    }
}

/// What is left of `permits` of the window before when `left_ms` of the current one are left,
/// rounded up.
fn faded(permits: u64, window_ms: i64, left_ms: i64) -> u64 {
    let weight = u128::from(permits) * left_ms.clamp(0, window_ms) as u128;
    weight.div_ceil(window_ms as u128) as u64
}

/// When at most `at_most` of the `permits` of the window before `start_ms` are left.
fn fades_at(permits: u64, window_ms: i64, start_ms: i64, at_most: u64) -> i64 {
    if permits <= at_most {
        return start_ms;
    }
    // permits * left <= at_most * window
    let left_ms = u128::from(at_most) * window_ms as u128 / u128::from(permits);
    start_ms.saturating_add(window_ms - left_ms as i64)
}
