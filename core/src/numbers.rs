//! The numbers of a rule, whatever its algorithm, and the ranges that all arithmetic relies on.
//!
//! The ranges keep the arithmetic of the algorithms from overflowing. A bucket lacks at most
//! `MAX_IN_USE * MAX_WINDOW_MS` credits, about 3.2e26. Its conversion to another window multiplies
//! that by `MAX_WINDOW_MS` again: about 9.9e37, below the 1.7e38 of an `i128`.

/// Ten years, in milliseconds: the longest window.
pub const MAX_WINDOW_MS: i64 = 315_360_000_000;

/// The largest `LIMIT`, `BURST`, cost, and cost times batch, in permits.
pub const MAX_PERMITS: u64 = 1_000_000_000_000;

/// The number at which the permits in use of one limiter saturate, debt by `FORCE` included.
pub const MAX_IN_USE: u64 = 1_000_000_000_000_000;

/// The value at which times, durations in replies and expiries saturate, in ms: 2^53-1, the
/// largest integer that every client language reads exactly.
pub const MAX_TIME_MS: i64 = (1 << 53) - 1;

/// The number that the rules of an algorithm have besides window and limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// No such number.
    None,
    /// `BURST`: the largest number of permits that can be free. By default the limit.
    Burst,
    /// `OFFSET`: where windows start, in ms from the epoch. By default 0.
    Offset,
}

/// The checked numbers of a rule, made by [`crate::rule::Rule::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    window_ms: i64,
    limit: u64,
    own: u64,
    capacity: u64,
}

impl Numbers {
    #[inline(always)]
    pub(crate) fn new(window_ms: i64, limit: u64, own: u64, capacity: u64) -> Numbers {
        Numbers { window_ms, limit, own, capacity }
    }

    /// The window, in ms.
    #[inline(always)]
    pub fn window_ms(&self) -> i64 {
        self.window_ms
    }

    /// Permits per window.
    #[inline(always)]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The algorithm's own number; 0 if it has none. An offset is from 0 up to the window.
    #[inline(always)]
    pub fn own(&self) -> u64 {
        self.own
    }

    /// The largest number of permits that can be free; 0 if the limit is 0.
    #[inline(always)]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}
