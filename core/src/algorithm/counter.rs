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
//! The comparison is exact: for whole permits, rounding the first term up gives the same result as
//! multiplying out. Windows are aligned to the epoch.

use std::iter;

use super::scheme::{Heap, Level, Moment, Scheme};
use super::window::{decode_start, start_of};
use crate::numbers::{MAX_IN_USE, Numbers, Own};
use crate::packed::{PackedNumbers, U56};
use crate::stored::reader::Reader;
use crate::stored::varint::{self, Sink};

/// A sliding window counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The start of the current window, in ms of epoch time.
    start_ms: i64,
    /// Permits taken in the window before.
    previous: u64,
    /// Permits taken in the current window.
    current: u64,
}

/// The stored state of a sliding window counter, in 22 bytes: see [`crate::packed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct StoredCounter {
    start_ms: i64,
    previous: U56,
    current: U56,
}

impl StoredCounter {
    #[inline(always)]
    fn new(counter: Counter) -> StoredCounter {
        let Counter { start_ms, previous, current } = counter;
        StoredCounter { start_ms, previous: U56::new(previous), current: U56::new(current) }
    }

    #[inline(always)]
    fn get(&self) -> Counter {
        let (previous, current) = (self.previous.get(), self.current.get());
        Counter { start_ms: self.start_ms, previous, current }
    }
}

impl Counter {
    /// When nothing is in use any more. Permits of the current window still count in the next one.
    #[inline(always)]
    fn free_at(&self, window_ms: i64) -> i64 {
        let windows = if self.current > 0 { 2 } else { i64::from(self.previous > 0) };
        self.start_ms.saturating_add(windows * window_ms)
    }
}

impl Scheme for StoredCounter {
    const WORD: &'static str = "counter";
    const ALIAS: Option<(&'static str, u64)> = None;
    const TAG: u8 = 4;
    const OWN: Own = Own::None;
    const IS_LEASED: bool = false;
    const CAN_RESERVE: bool = false;
    const ALLOCATES: bool = false;

    type Change = Counter;
    type Step = StoredCounter;
    type Level<'a> = Counter;

    fn capacity(_: i64, limit: u64, _: u64) -> u64 {
        limit
    }

    fn fresh<'a>(moment: &Moment<'a>, used: u64) -> Counter {
        let start_ms = start_of(moment.now_ms, moment.numbers.window_ms(), 0);
        Counter { start_ms, previous: 0, current: used }
    }

    #[inline(always)]
    fn at<'a>(&'a self, moment: &Moment<'a>) -> Counter {
        let (counter, window_ms) = (self.get(), moment.numbers.window_ms());
        let start_ms = start_of(moment.now_ms, window_ms, 0);
        if start_ms <= counter.start_ms {
            return counter;
        }
        let is_next = start_ms - counter.start_ms == window_ms;
        Counter { start_ms, previous: if is_next { counter.current } else { 0 }, current: 0 }
    }

    fn at_other_rule<'a>(
        &'a self,
        written: &PackedNumbers,
        moment: &Moment<'a>,
    ) -> Option<Counter> {
        (written.window_ms() == moment.numbers.window_ms()).then(|| self.at(moment))
    }

    fn void_at(&self, written: &PackedNumbers) -> i64 {
        self.get().free_at(written.window_ms())
    }

    #[inline(always)]
    fn is_void_before(&self, written: &PackedNumbers, time_ms: i64) -> bool {
        self.void_at(written) < time_ms
    }

    fn pull_back(&self, written: &PackedNumbers, now_ms: i64) -> Option<Counter> {
        let Counter { start_ms, previous, current } = self.get();
        if start_ms <= now_ms {
            return None;
        }
        // The previous count has already faded in part and would fade a second time, so all
        // permits count as taken now.
        let current = previous.saturating_add(current).min(MAX_IN_USE);
        let start_ms = start_of(now_ms, written.window_ms(), 0);
        Some(Counter { start_ms, previous: 0, current })
    }

    fn lease_end_ms(&self, _: &[u8], _: i64) -> Option<i64> {
        None
    }

    fn release(&self, _: &[u8], _: i64) -> Option<(Counter, i64)> {
        None
    }

    fn apply(&mut self, change: &Counter, _: i64) {
        *self = StoredCounter::new(*change);
    }

    #[inline(always)]
    fn apply_step(&mut self, step: StoredCounter) {
        *self = step;
    }

    fn taken_one(&self, _: i64) -> Option<Counter> {
        Some(self.get())
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

    fn encode(&self, out: &mut impl Sink) {
        StoredCounter::encode_change(&self.get(), out);
    }

    fn decode(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<StoredCounter> {
        StoredCounter::decode_change(reader, numbers).map(StoredCounter::new)
    }

    fn encode_change(change: &Counter, out: &mut impl Sink) {
        varint::write_signed(out, change.start_ms);
        varint::write(out, change.previous);
        varint::write(out, change.current);
    }

    fn decode_change(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<Counter> {
        let start_ms = decode_start(reader, numbers, 0)?;
        let (previous, current) = (reader.permits()?, reader.permits()?);
        let in_range = previous + current <= MAX_IN_USE;
        in_range.then_some(Counter { start_ms, previous, current })
    }
}

impl Level<StoredCounter> for Counter {
    #[inline(always)]
    fn in_use(&self, moment: &Moment<'_>) -> u64 {
        let window_ms = moment.numbers.window_ms();
        let left_ms = self.start_ms + window_ms - moment.now_ms;
        faded(self.previous, window_ms, left_ms) + self.current
    }

    #[inline(always)]
    fn renewable(&self) -> u64 {
        0
    }

    fn earliest(&self, moment: &Moment<'_>, at_most: u64) -> i64 {
        let window_ms = moment.numbers.window_ms();
        match at_most.checked_sub(self.current) {
            Some(at_most) => {
                fades_at(self.previous, window_ms, self.start_ms, at_most).max(moment.now_ms)
            }
            None => {
                let next_ms = self.start_ms.saturating_add(window_ms);
                fades_at(self.current, window_ms, next_ms, at_most)
            }
        }
    }

    #[inline(always)]
    fn take(&mut self, _: &Moment<'_>, permits: u64) -> bool {
        let room = MAX_IN_USE.saturating_sub(self.previous.saturating_add(self.current));
        self.current += permits.min(room);
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
    fn step(self, _: &Moment<'_>) -> StoredCounter {
        StoredCounter::new(self)
    }

    fn change(&self, _: &Moment<'_>) -> Counter {
        *self
    }

    /// Gives back the permits of the current window first, then those of the previous one.
    fn give_back(&self, moment: &Moment<'_>, permits: u64) -> Option<(Counter, i64)> {
        let window_ms = moment.numbers.window_ms();
        let of_current = permits.min(self.current);
        let left = (self.start_ms + window_ms - moment.now_ms).max(1) as u128;
        let of_previous = u128::from(permits - of_current) * window_ms as u128;
        let weight = (u128::from(self.previous) * left).saturating_sub(of_previous);
        let counter = Counter {
            current: self.current - of_current,
            previous: self.previous.min(weight.div_ceil(left) as u64),
            ..*self
        };
        Some((counter, counter.free_at(window_ms)))
    }
}

/// The part of `permits`, taken in the previous window, that still counts when `left_ms` of the
/// current window are left. Rounded up.
fn faded(permits: u64, window_ms: i64, left_ms: i64) -> u64 {
    let weight = u128::from(permits) * left_ms.clamp(0, window_ms) as u128;
    weight.div_ceil(window_ms as u128) as u64
}

/// When at most `at_most` of `permits` still count. They were taken in the window before
/// `start_ms`.
fn fades_at(permits: u64, window_ms: i64, start_ms: i64, at_most: u64) -> i64 {
    if permits <= at_most {
        return start_ms;
    }
    // permits * left <= at_most * window
    let left_ms = u128::from(at_most) * window_ms as u128 / u128::from(permits);
    start_ms.saturating_add(window_ms - left_ms as i64)
}
