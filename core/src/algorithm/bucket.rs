//! Token bucket, in integers.
//!
//! The classic token bucket (J. Turner, "New directions in communications", IEEE Communications
//! Magazine 24(10), 1986; the conformance view is ITU-T I.371), kept as a *deficit*: the credits
//! that are missing from a full bucket. One permit is `window_ms` credits and every millisecond
//! brings `limit` credits, so no rate needs a fraction and nothing drifts. The bucket stores a
//! deficit rather than a level because a deficit survives a change of the burst: permits in use
//! stay in use.
//!
//! **The millisecond of filling up.** Calls see a bucket in whole milliseconds, but it fills up
//! somewhere inside one. The credits beyond the cap that this millisecond brought (fewer than
//! `limit`) stay until the next millisecond, as a negative deficit. Without them the bucket would
//! fall short of any rate that is not a whole number of permits a millisecond: at 300 a second
//! with a burst of 1, a call in every millisecond would get 250. An idle bucket has exactly its
//! cap.

use std::iter;

use super::scheme::{Heap, Level, Moment, Scheme};
use crate::numbers::{MAX_IN_USE, Numbers, Own};
use crate::packed::PackedNumbers;
use crate::stored::reader::Reader;
use crate::stored::varint::{self, Sink};

/// A deficit in credits, in 12 bytes instead of 16: see [`crate::packed`]. The range is that of an
/// `i96`. The largest deficit is about 3.2e26, well inside it.
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

/// The stored state of a bucket, in 20 bytes. Aligned to 8, it would take 24, and 32 together with
/// the tag of the enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct Bucket {
    /// When the deficit was `deficit`, in ms of epoch time.
    at_ms: i64,
    deficit: Credits,
}

impl Default for Bucket {
    /// Full since the epoch.
    fn default() -> Bucket {
        Bucket::new(0, 0)
    }
}

/// The largest deficit under a window, in credits.
fn max_deficit(window_ms: i64) -> i128 {
    i128::from(MAX_IN_USE) * i128::from(window_ms)
}

impl Bucket {
    /// A bucket that lacks `deficit` credits at `at_ms`. A negative deficit is a refill beyond the
    /// cap.
    fn new(at_ms: i64, deficit: i128) -> Bucket {
        Bucket { at_ms, deficit: Credits::new(deficit) }
    }

    /// The missing credits at `at_ms`.
    fn deficit(&self) -> i128 {
        self.deficit.get()
    }

    /// The missing credits at `now_ms` (not before `at_ms`) when each millisecond brings `limit`.
    #[inline(always)]
    fn deficit_at(&self, limit: u64, now_ms: i64) -> Deficit {
        let deficit = self.deficit();
        if now_ms <= self.at_ms {
            return Deficit(deficit);
        }
        let limit = i128::from(limit);
        let refilled = deficit - i128::from(now_ms - self.at_ms) * limit;
        // It was full a millisecond ago: what came since went over the rim.
        Deficit(if refilled + limit <= 0 { 0 } else { refilled })
    }

    /// The same permits in use under another window. A credit is then worth another fraction of a
    /// permit; the result is rounded up so that no permit is forgiven. A refill beyond the cap is
    /// dropped.
    fn rescaled(&self, window_old_ms: i64, window_new_ms: i64) -> Bucket {
        let deficit = self.deficit().max(0) * i128::from(window_new_ms);
        let deficit = div_ceil(deficit, i128::from(window_old_ms)).min(max_deficit(window_new_ms));
        Bucket { deficit: Credits::new(deficit), ..*self }
    }
}

impl Scheme for Bucket {
    const WORD: &'static str = "bucket";
    /// The leaky bucket is a bucket with a burst of one.
    const ALIAS: Option<(&'static str, u64)> = Some(("leaky", 1));
    const TAG: u8 = 2;
    const OWN: Own = Own::Burst;
    const IS_LEASED: bool = false;
    const CAN_RESERVE: bool = true;
    const ALLOCATES: bool = false;

    type Change = Bucket;
    type Step = Bucket;
    type Level<'a> = Deficit;

    #[inline(always)]
    fn capacity(window_ms: i64, limit: u64, burst: u64) -> u64 {
        // Most rules have no burst of their own, and so need no division.
        if burst == limit { limit } else { burst.max(limit.div_ceil(window_ms as u64)) }
    }

    fn fresh<'a>(moment: &Moment<'a>, used: u64) -> Deficit {
        Deficit(0).and(moment, used)
    }

    #[inline(always)]
    fn at<'a>(&'a self, moment: &Moment<'a>) -> Deficit {
        self.deficit_at(moment.numbers.limit(), moment.now_ms)
    }

    fn at_other_rule<'a>(
        &'a self,
        written: &PackedNumbers,
        moment: &Moment<'a>,
    ) -> Option<Deficit> {
        let numbers = moment.numbers;
        let same_rate =
            written.window_ms() == numbers.window_ms() && written.limit() == numbers.limit();
        Some(match same_rate {
            true => self.at(moment),
            false => self.rescaled(written.window_ms(), numbers.window_ms()).at(moment),
        })
    }

    fn void_at(&self, written: &PackedNumbers) -> i64 {
        let deficit = Deficit(self.deficit());
        let full_at_ms = deficit.due_at(0, written.limit(), self.at_ms);
        deficit.void_at(written.limit(), self.at_ms, full_at_ms)
    }

    #[inline(always)]
    fn is_void_before(&self, written: &PackedNumbers, time_ms: i64) -> bool {
        self.deficit() <= i128::from(time_ms - 1 - self.at_ms) * i128::from(written.limit())
    }

    fn pull_back(&self, _: &PackedNumbers, now_ms: i64) -> Option<Bucket> {
        // A refill beyond the cap belongs to a millisecond that is over.
        (self.at_ms > now_ms).then(|| Bucket::new(now_ms, self.deficit().max(0)))
    }

    fn lease_end_ms(&self, _: &[u8], _: i64) -> Option<i64> {
        None
    }

    fn release(&self, _: &[u8], _: i64) -> Option<(Bucket, i64)> {
        None
    }

    fn apply(&mut self, change: &Bucket, _: i64) {
        *self = *change;
    }

    #[inline(always)]
    fn apply_step(&mut self, step: Bucket) {
        *self = step;
    }

    fn taken_one(&self, _: i64) -> Option<Bucket> {
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

    /// The burst is part of the rule. The deficit is split at bit 63, because the high part nearly
    /// always takes one byte.
    fn encode(&self, out: &mut impl Sink) {
        let deficit = self.deficit();
        varint::write_time(out, self.at_ms);
        varint::write_signed(out, (deficit >> 63) as i64);
        varint::write(out, deficit as u64 & (u64::MAX >> 1));
    }

    fn decode(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<Bucket> {
        let at_ms = reader.time()?;
        let high = reader.signed()?;
        let low = reader.number().filter(|low| low >> 63 == 0)?;
        let deficit = i128::from(high) << 63 | i128::from(low);
        let least = 1 - i128::from(numbers.limit());
        let in_range = (least..=max_deficit(numbers.window_ms())).contains(&deficit);
        in_range.then(|| Bucket::new(at_ms, deficit))
    }

    fn encode_change(change: &Bucket, out: &mut impl Sink) {
        change.encode(out);
    }

    fn decode_change(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<Bucket> {
        Bucket::decode(reader, numbers)
    }
}

/// The missing credits at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Deficit(i128);

impl Deficit {
    /// The deficit after taking permits, saturated.
    #[inline(always)]
    fn and(self, moment: &Moment<'_>, permits: u64) -> Deficit {
        let window_ms = moment.numbers.window_ms();
        let taken = i128::from(permits) * i128::from(window_ms);
        Deficit((self.0 + taken).min(max_deficit(window_ms)))
    }

    /// When at most `allowed` credits are missing.
    #[inline(always)]
    fn due_at(self, allowed: i128, limit: u64, now_ms: i64) -> i64 {
        let missing = self.0 - allowed;
        if missing <= 0 {
            return now_ms;
        }
        // A limit of 0 is never stored.
        let wait = div_ceil(missing, i128::from(limit.max(1)));
        now_ms.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX))
    }

    /// When a bucket that is full at `full_at_ms` becomes void. Credits that this millisecond
    /// brings beyond the cap stay for one more.
    #[inline(always)]
    fn void_at(self, limit: u64, now_ms: i64, full_at_ms: i64) -> i64 {
        let brought = i128::from(full_at_ms - now_ms) * i128::from(limit);
        full_at_ms.saturating_add(i64::from(brought > self.0))
    }
}

impl Level<Bucket> for Deficit {
    #[inline(always)]
    fn in_use(&self, moment: &Moment<'_>) -> u64 {
        if self.0 <= 0 {
            return 0;
        }
        let permits = div_ceil(self.0, i128::from(moment.numbers.window_ms()));
        u64::try_from(permits).unwrap_or(MAX_IN_USE)
    }

    #[inline(always)]
    fn renewable(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn earliest(&self, moment: &Moment<'_>, at_most: u64) -> i64 {
        let allowed = i128::from(at_most) * i128::from(moment.numbers.window_ms());
        self.due_at(allowed, moment.numbers.limit(), moment.now_ms)
    }

    #[inline(always)]
    fn take(&mut self, moment: &Moment<'_>, permits: u64) -> bool {
        *self = self.and(moment, permits);
        true
    }

    #[inline(always)]
    fn full_at(&self, moment: &Moment<'_>) -> i64 {
        self.due_at(0, moment.numbers.limit(), moment.now_ms)
    }

    #[inline(always)]
    fn void_after(&self, moment: &Moment<'_>, full_at_ms: i64) -> i64 {
        self.void_at(moment.numbers.limit(), moment.now_ms, full_at_ms)
    }

    #[inline(always)]
    fn grows(&self, _: &Moment<'_>) -> bool {
        false
    }

    #[inline(always)]
    fn step(self, moment: &Moment<'_>) -> Bucket {
        Bucket::new(moment.now_ms, self.0)
    }

    fn change(&self, moment: &Moment<'_>) -> Bucket {
        self.step(moment)
    }

    fn give_back(&self, moment: &Moment<'_>, permits: u64) -> Option<(Bucket, i64)> {
        let given = i128::from(permits) * i128::from(moment.numbers.window_ms());
        let left = Deficit((self.0 - given).max(0));
        Some((left.step(moment), left.void_after(moment, left.full_at(moment))))
    }
}

/// `ceil(a / b)` for `a >= 0`, `b >= 1`. Uses a 64-bit division if the numbers fit: they nearly
/// always do, and it costs a fraction of a 128-bit one.
fn div_ceil(a: i128, b: i128) -> i128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => i128::from(a.div_ceil(b)),
        _ => (a + b - 1) / b,
    }
}
