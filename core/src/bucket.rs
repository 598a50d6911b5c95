//! Token bucket, in integers.
//!
//! The classic token bucket (J. Turner, "New directions in communications", IEEE Communications
//! Magazine 24(10), 1986; the conformance view is ITU-T I.371), kept as a *deficit*: the credits
//! that are missing from a full bucket. One permit is `window_ms` credits and every millisecond
//! brings `limit` credits, so no rate needs a fraction and nothing drifts. A deficit rather than a
//! level, because it is what survives a change of the burst: permits in use stay in use.
//!
//! **The millisecond of filling up.** A bucket is looked at in whole milliseconds, but it fills up
//! somewhere inside one. What was refilled beyond the cap in that millisecond (less than `limit`
//! credits) is kept until the next one, as a negative deficit. Without it a rate that is no whole
//! number of permits a millisecond would be short: 300 a second with a burst of 1, asked every
//! millisecond, would give 250. An idle bucket holds exactly its cap.

use crate::rule::{MAX_IN_USE, Rule};

/// A deficit, in credits, in 12 bytes instead of 16: see [`crate::packed`]. The range is that of an
/// `i96`; the largest deficit is about 3.2e26, well inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Credits([u32; 3]);

impl Credits {
    fn new(value: i128) -> Credits {
        let bits = value as u128;
        let credits = Credits([bits as u32, (bits >> 32) as u32, (bits >> 64) as u32]);
        debug_assert_eq!(credits.get(), value);
        credits
    }

    fn get(self) -> i128 {
        let [low, mid, high] = self.0;
        i128::from(high as i32) << 64 | i128::from(mid) << 32 | i128::from(low)
    }
}

/// The stored state of a bucket, in 20 bytes: aligned to 8 they would be 24, and with the algorithm
/// 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct Bucket {
    /// When `deficit` was true, in ms of epoch time.
    pub at_ms: i64,
    deficit: Credits,
}

/// The largest deficit under a window, in credits.
pub fn max_deficit(window_ms: i64) -> i128 {
    i128::from(MAX_IN_USE) * i128::from(window_ms)
}

impl Bucket {
    /// A bucket that misses `deficit` credits at `at_ms`; negative: refilled beyond its cap.
    pub fn new(at_ms: i64, deficit: i128) -> Bucket {
        Bucket { at_ms, deficit: Credits::new(deficit) }
    }

    /// The missing credits at `at_ms`.
    pub fn deficit(&self) -> i128 {
        self.deficit.get()
    }

    /// The missing credits at `now_ms` (not before `at_ms`) when each millisecond brings `limit`.
    pub fn deficit_at(&self, limit: u64, now_ms: i64) -> i128 {
        let deficit = self.deficit();
        if now_ms <= self.at_ms {
            return deficit;
        }
        let limit = i128::from(limit);
        let refilled = deficit - i128::from(now_ms - self.at_ms) * limit;
        // Full already a millisecond ago: what came since went over the rim.
        if refilled + limit <= 0 { 0 } else { refilled }
    }

    /// The same permits in use under another window: credits are worth another part of a permit,
    /// rounded up so that none is forgiven. A refill beyond the cap does not move over.
    pub fn rescaled(&self, window_old_ms: i64, window_new_ms: i64) -> Bucket {
        let deficit = self.deficit().max(0) * i128::from(window_new_ms);
        let deficit = div_ceil(deficit, i128::from(window_old_ms)).min(max_deficit(window_new_ms));
        Bucket { deficit: Credits::new(deficit), ..*self }
    }

    /// Whether the bucket is full before `time_ms`, under its own `limit`.
    pub fn is_full_before(&self, time_ms: i64, limit: u64) -> bool {
        self.deficit() <= i128::from(time_ms - 1 - self.at_ms) * i128::from(limit)
    }

    /// When the bucket is as a fresh one, under its own `limit`: full, and without a refill beyond
    /// the cap.
    pub fn void_at(&self, limit: u64) -> i64 {
        let deficit = self.deficit();
        void_at(deficit, limit, self.at_ms, full_at(deficit, limit, self.at_ms))
    }
}

/// When a bucket that misses `deficit` credits at `now_ms` and is full at `full_at_ms` is as a fresh
/// one: what that millisecond brings beyond the cap stays for one more.
pub fn void_at(deficit: i128, limit: u64, now_ms: i64, full_at_ms: i64) -> i64 {
    let brought = i128::from(full_at_ms - now_ms) * i128::from(limit);
    full_at_ms.saturating_add(i64::from(brought > deficit))
}

/// When a bucket that misses `deficit` credits at `now_ms` is full.
pub fn full_at(deficit: i128, limit: u64, now_ms: i64) -> i64 {
    due_at(deficit, limit, now_ms)
}

/// Permits in use: missing credits in whole permits, rounded up.
pub fn in_use(deficit: i128, window_ms: i64) -> u64 {
    if deficit <= 0 {
        return 0;
    }
    u64::try_from(div_ceil(deficit, i128::from(window_ms))).unwrap_or(MAX_IN_USE)
}

/// The first millisecond from `now_ms` on at which at most `at_most` permits are in use.
pub fn earliest(deficit: i128, rule: &Rule, now_ms: i64, at_most: u64) -> i64 {
    let allowed = i128::from(at_most) * i128::from(rule.window_ms());
    due_at(deficit - allowed, rule.limit(), now_ms)
}

/// The deficit after taking `permits`, saturated.
pub fn take(deficit: i128, rule: &Rule, permits: u64) -> i128 {
    let taken = i128::from(permits) * i128::from(rule.window_ms());
    (deficit + taken).min(max_deficit(rule.window_ms()))
}

/// When `missing` credits have been refilled. The limit is at least 1 (a limit of 0 is never
/// stored).
fn due_at(missing: i128, limit: u64, now_ms: i64) -> i64 {
    if missing <= 0 {
        return now_ms;
    }
    let wait = div_ceil(missing, i128::from(limit.max(1)));
    now_ms.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX))
}

/// `ceil(a / b)` for `a >= 0`, `b >= 1`, by a 64-bit division where that is enough: it nearly
/// always is, and costs a fraction of a 128-bit one.
fn div_ceil(a: i128, b: i128) -> i128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => i128::from(a.div_ceil(b)),
        _ => (a + b - 1) / b,
    }
}
