//! The clock of the queue: microseconds that never step.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use crate::api::live_clock_ms;

/// By how much the wall clock was ahead of this one at the last comparison, in ms.
static WALL_AHEAD_MS: AtomicI64 = AtomicI64::new(0);

/// The time since this clock began.
pub fn clock_us() -> i64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_micros() as i64
}

/// The moment `wait_ms` from now.
pub fn in_ms(wait_ms: i64) -> i64 {
    clock_us().saturating_add(wait_ms.saturating_mul(1000))
}

fn wall_ahead_ms() -> i64 {
    live_clock_ms() - clock_us() / 1000
}

/// Records by how much the wall clock is ahead, for [`wall_stepped`].
pub fn watch_wall() {
    WALL_AHEAD_MS.store(wall_ahead_ms(), Ordering::Relaxed);
}

/// Whether the wall clock has stepped by at least `by_ms` since the last comparison.
pub fn wall_stepped(by_ms: i64) -> bool {
    let ahead_ms = wall_ahead_ms();
    let stepped = ahead_ms.abs_diff(WALL_AHEAD_MS.load(Ordering::Relaxed)) >= by_ms as u64;
    if stepped {
        WALL_AHEAD_MS.store(ahead_ms, Ordering::Relaxed);
    }
    stepped
}
