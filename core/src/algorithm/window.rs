//! Windows of epoch time, which some algorithms count in.

use crate::numbers::Numbers;
use crate::stored::reader::Reader;

/// The start of the window that `now_ms` is in, in ms of epoch time: it may be before the epoch.
#[inline(always)]
pub(super) fn start_of(now_ms: i64, window_ms: i64, offset_ms: i64) -> i64 {
    now_ms - (now_ms - offset_ms).rem_euclid(window_ms)
}

/// Reads the start of a window. `None` when no window starts there.
pub(super) fn decode_start(
    reader: &mut Reader<'_>,
    numbers: &Numbers,
    offset_ms: i64,
) -> Option<i64> {
    let start_ms = reader.signed_time()?;
    let aligned = (start_ms - offset_ms).rem_euclid(numbers.window_ms()) == 0;
    aligned.then_some(start_ms)
}
