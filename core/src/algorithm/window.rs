//! Windows aligned to the epoch, for the algorithms that count in them.

use crate::numbers::Numbers;
use crate::stored::reader::Reader;

/// The start of the window that contains `now_ms`, in ms of epoch time. It may be before the
/// epoch.
#[inline(always)]
pub(super) fn start_of(now_ms: i64, window_ms: i64, offset_ms: i64) -> i64 {
    now_ms - (now_ms - offset_ms).rem_euclid(window_ms)
}

/// Reads the start of a window. `None` if no window starts at that time.
pub(super) fn decode_start(
    reader: &mut Reader<'_>,
    numbers: &Numbers,
    offset_ms: i64,
) -> Option<i64> {
    let start_ms = reader.signed_time()?;
    let aligned = (start_ms - offset_ms).rem_euclid(numbers.window_ms()) == 0;
    aligned.then_some(start_ms)
}
