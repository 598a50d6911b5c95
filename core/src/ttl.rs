//! When a key expires: some time after its limiter is void, so that most grants leave the TTL
//! alone.
//!
//! The TTL is not stored: it follows from the state, so there is no need to ask the server for it.
//! It moves up with each step. It moves down only when it enters an earlier stretch of eight
//! steps. So a limiter that gains and loses a few permits leaves the TTL alone, and one that loses
//! permits bit by bit still never keeps a TTL more than a stretch too long.

use crate::numbers::MAX_TIME_MS;

/// A step, in ms. It is a power of two, so that no division is needed: at least 1,024 ms, and a
/// sixteenth to an eighth of the window.
pub(crate) fn step_ms(window_ms: i64) -> i64 {
    (window_ms as u64 / 16).max(1024).next_power_of_two() as i64
}

/// The most by which a TTL may be longer than necessary, in ms. It is a power of two and a
/// multiple of the step. So times within one stretch of a short window are within one stretch of a
/// longer window too.
pub(crate) fn stretch_ms(window_ms: i64) -> i64 {
    (8 * step_ms(window_ms)).max(32_768)
}

/// The expiry of a key whose limiter is void at `void_at_ms`: the second step from there, and not
/// before a block or an exemption ends.
pub(crate) fn expiry(window_ms: i64, void_at_ms: i64, laid_end_ms: i64) -> i64 {
    let step_ms = step_ms(window_ms);
    let expire_at_ms = (void_at_ms | (step_ms - 1)) + 1 + step_ms;
    expire_at_ms.max(laid_end_ms).min(MAX_TIME_MS)
}

/// The time from which a limiter is void, if its TTL ends at `time_ms`.
pub(crate) fn void_from(window_ms: i64, time_ms: i64) -> i64 {
    let step_ms = step_ms(window_ms);
    ((time_ms - 1) | (step_ms - 1)) + 1 - 2 * step_ms
}
