//! When a key may go: some time after its limiter is void, so that most grants leave the TTL alone.
//!
//! The TTL is not stored but follows from the state, so the server need not be asked for it. It moves
//! up with each step. It moves down when it leaves a stretch of eight steps: a limiter that gains and
//! loses a little leaves the TTL alone, and however it loses permits bit by bit, the TTL is never
//! longer than needed by more than a stretch.

use crate::numbers::MAX_TIME_MS;

/// A step, in ms. A power of two, for which no division is needed: at least 1,024 ms, and a sixteenth
/// to an eighth of the window.
pub(crate) fn step_ms(window_ms: i64) -> i64 {
    (window_ms as u64 / 16).max(1024).next_power_of_two() as i64
}

/// How much longer than it must a TTL may last, in ms. A power of two, and a multiple of the step: so
/// times in one stretch of a short window are in one stretch of a longer window too.
pub(crate) fn stretch_ms(window_ms: i64) -> i64 {
    (8 * step_ms(window_ms)).max(32_768)
}

/// When a key may go whose limiter is void at `void_at_ms`: at the second step from there, and not
/// before a block or an exemption ends.
pub(crate) fn expiry(window_ms: i64, void_at_ms: i64, laid_end_ms: i64) -> i64 {
    let step_ms = step_ms(window_ms);
    let expire_at_ms = (void_at_ms | (step_ms - 1)) + 1 + step_ms;
    expire_at_ms.max(laid_end_ms).min(MAX_TIME_MS)
}

/// A limiter whose TTL ends at `time_ms` is void from here on.
pub(crate) fn void_from(window_ms: i64, time_ms: i64) -> i64 {
    let step_ms = step_ms(window_ms);
    ((time_ms - 1) | (step_ms - 1)) + 1 - 2 * step_ms
}
