//! Fixed window: at most `limit` permits in each window, aligned to the epoch.
//!
//! The oldest scheme: one counter for each period (the Redis documentation of `INCR`, "Pattern:
//! rate limiter"). The boundary can be moved: with an offset of -8 h, windows of a day begin at
//! midnight in UTC+8. Twice the limit can pass around a boundary; use another algorithm where that
//! matters.

use std::iter;

use super::scheme::{Heap, Level, Moment, Scheme};
use super::window::{decode_start, start_of};
use crate::numbers::{MAX_IN_USE, Numbers, Own};
use crate::packed::PackedNumbers;
use crate::stored::reader::Reader;
use crate::stored::varint::{self, Sink};

/// The stored state of a fixed window, which is also its level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// The start of the window in which `used` was taken, in ms of epoch time.
    start_ms: i64,
    /// Permits taken in that window.
    used: u64,
}

impl Fixed {
    /// When nothing is in use any more: the end of the window, or its start if nothing was taken.
    fn free_at(&self, window_ms: i64) -> i64 {
        if self.used == 0 { self.start_ms } else { self.start_ms.saturating_add(window_ms) }
    }
}

impl Scheme for Fixed {
    const WORD: &'static str = "fixed";
    const ALIAS: Option<(&'static str, u64)> = None;
    const TAG: u8 = 3;
    const OWN: Own = Own::Offset;
    const IS_LEASED: bool = false;
    const CAN_RESERVE: bool = false;
    const ALLOCATES: bool = false;

    type Change = Fixed;
    type Step = Fixed;
    type Level<'a> = Fixed;

    fn capacity(_: i64, limit: u64, _: u64) -> u64 {
        limit
    }

    fn fresh<'a>(moment: &Moment<'a>, used: u64) -> Fixed {
        let numbers = moment.numbers;
        let start_ms = start_of(moment.now_ms, numbers.window_ms(), numbers.own() as i64);
        Fixed { start_ms, used }
    }

    #[inline(always)]
    fn at<'a>(&'a self, moment: &Moment<'a>) -> Fixed {
        let fresh = Fixed::fresh(moment, 0);
        if fresh.start_ms > self.start_ms { fresh } else { *self }
    }

    fn at_other_rule<'a>(&'a self, written: &PackedNumbers, moment: &Moment<'a>) -> Option<Fixed> {
        let numbers = moment.numbers;
        let same_windows =
            written.window_ms() == numbers.window_ms() && written.own() == numbers.own();
        same_windows.then(|| self.at(moment))
    }

    fn void_at(&self, written: &PackedNumbers) -> i64 {
        self.free_at(written.window_ms())
    }

    #[inline(always)]
    fn is_void_before(&self, written: &PackedNumbers, time_ms: i64) -> bool {
        self.void_at(written) < time_ms
    }

    fn pull_back(&self, written: &PackedNumbers, now_ms: i64) -> Option<Fixed> {
        let start_ms = || start_of(now_ms, written.window_ms(), written.own() as i64);
        (self.start_ms > now_ms).then(|| Fixed { start_ms: start_ms(), ..*self })
    }

    fn lease_end_ms(&self, _: &[u8], _: i64) -> Option<i64> {
        None
    }

    fn release(&self, _: &[u8], _: i64) -> Option<(Fixed, i64)> {
        None
    }

    fn apply(&mut self, change: &Fixed, _: i64) {
        *self = *change;
    }

    #[inline(always)]
    fn apply_step(&mut self, step: Fixed) {
        *self = step;
    }

    fn taken_one(&self, _: i64) -> Option<Fixed> {
        Some(*self)
    }

    fn entries(&self, _: &PackedNumbers, _: i64) -> u64 {
        0
    }

    fn heap(&self) -> Heap {
        Heap::default()
    }

    fn parts_mut(&mut self, _: usize) -> impl Iterator<Item = &mut Box<[u8]>> {
        iter::empty()
    }

    /// The offset is part of the rule.
    fn encode(&self, out: &mut impl Sink) {
        varint::write_signed(out, self.start_ms);
        varint::write(out, self.used);
    }

    fn decode(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<Fixed> {
        let start_ms = decode_start(reader, numbers, numbers.own() as i64)?;
        Some(Fixed { start_ms, used: reader.permits()? })
    }

    fn encode_change(change: &Fixed, out: &mut impl Sink) {
        change.encode(out);
    }

    fn decode_change(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<Fixed> {
        Fixed::decode(reader, numbers)
    }
}

impl Level<Fixed> for Fixed {
    #[inline(always)]
    fn in_use(&self, _: &Moment<'_>) -> u64 {
        self.used
    }

    #[inline(always)]
    fn renewable(&self) -> u64 {
        0
    }

    fn earliest(&self, moment: &Moment<'_>, _: u64) -> i64 {
        self.free_at(moment.numbers.window_ms())
    }

    #[inline(always)]
    fn take(&mut self, _: &Moment<'_>, permits: u64) -> bool {
        self.used = self.used.saturating_add(permits).min(MAX_IN_USE);
        true
    }

    #[inline(always)]
    fn full_at(&self, moment: &Moment<'_>) -> i64 {
        self.free_at(moment.numbers.window_ms())
    }

    #[inline(always)]
    fn void_after(&self, _: &Moment<'_>, full_at_ms: i64) -> i64 {
        full_at_ms
    }

    #[inline(always)]
    fn grows(&self, _: &Moment<'_>) -> bool {
        false
    }

    #[inline(always)]
    fn step(self, _: &Moment<'_>) -> Fixed {
        self
    }

    fn change(&self, _: &Moment<'_>) -> Fixed {
        *self
    }

    fn give_back(&self, moment: &Moment<'_>, permits: u64) -> Option<(Fixed, i64)> {
        let left = Fixed { used: self.used.saturating_sub(permits), ..*self };
        Some((left, left.free_at(moment.numbers.window_ms())))
    }
}
