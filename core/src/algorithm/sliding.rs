//! Sliding window log: exact, and small.
//!
//! The textbook log keeps the time of every grant, and a grant counts for one window; the usual
//! form is a sorted set in Redis. This log differs in two ways. Grants of the same millisecond
//! share one entry. And if the limit is above `resolution`, or the log already has that many
//! entries, a grant's time is rounded *up* to a multiple of `ceil(window / resolution)`. So the
//! log stays bounded and the limit is still never exceeded: a permit can leave late, never early.

use std::iter;

use super::log::{Live, Log, LogChange, LogStep};
use super::scheme::{Heap, Level, Moment, Scheme};
use crate::numbers::{MAX_IN_USE, MAX_TIME_MS, Numbers, Own};
use crate::packed::PackedNumbers;
use crate::stored::reader::Reader;
use crate::stored::varint::{self, Sink};

/// The number of entries above which a log rounds its times, unless configured otherwise.
pub const DEFAULT_RESOLUTION: u32 = 4096;

/// The tags of [`LogStep`] in the form in which a change travels.
const ADD: u8 = 0;
const GIVE_BACK_NEWEST: u8 = 1;
const PULL_BACK: u8 = 2;
const GIVE_BACK: u8 = 3;

/// The time to record for a grant, in a log with this many live entries.
#[inline(always)]
fn stamp(moment: &Moment<'_>, entries: u32) -> i64 {
    let Moment { numbers, now_ms, resolution, .. } = *moment;
    if numbers.limit() <= u64::from(resolution) && entries < resolution {
        return now_ms;
    }
    let step_ms = (numbers.window_ms() as u64).div_ceil(u64::from(resolution.max(1))) as i64;
    let rounded_ms = now_ms.saturating_add(step_ms - 1).div_euclid(step_ms) * step_ms;
    rounded_ms.min(MAX_TIME_MS)
}

impl Scheme for Log {
    const WORD: &'static str = "sliding";
    const ALIAS: Option<(&'static str, u64)> = None;
    const TAG: u8 = 1;
    const OWN: Own = Own::None;
    const IS_LEASED: bool = false;
    const CAN_RESERVE: bool = false;
    const ALLOCATES: bool = true;

    type Change = LogChange;
    type Step = (Live, LogChange);
    type Level<'a> = Window<'a>;

    fn capacity(_: i64, limit: u64, _: u64) -> u64 {
        limit
    }

    fn fresh<'a>(moment: &Moment<'a>, used: u64) -> Window<'a> {
        Window { log: None, live: Live::default(), stamp_ms: stamp(moment, 0), added: used }
    }

    #[inline(always)]
    fn at<'a>(&'a self, moment: &Moment<'a>) -> Window<'a> {
        let live = self.live(moment.now_ms - moment.numbers.window_ms());
        // Never before the newest entry, which may have been rounded up further.
        let stamp_ms = stamp(moment, live.entries).max(self.newest_ms());
        Window { log: Some(self), live, stamp_ms, added: 0 }
    }

    fn at_other_rule<'a>(&'a self, _: &PackedNumbers, moment: &Moment<'a>) -> Option<Window<'a>> {
        Some(self.at(moment))
    }

    fn void_at(&self, written: &PackedNumbers) -> i64 {
        Log::void_at(self, written.window_ms())
    }

    #[inline(always)]
    fn is_void_before(&self, written: &PackedNumbers, time_ms: i64) -> bool {
        Log::void_at(self, written.window_ms()) < time_ms
    }

    /// Compares only the clock of the last grant: entries that were rounded up are rightly ahead.
    fn pull_back(&self, _: &PackedNumbers, now_ms: i64) -> Option<LogChange> {
        self.is_ahead(now_ms).then_some(LogChange { now_ms, step: LogStep::PullBack })
    }

    fn lease_end_ms(&self, _: &[u8], _: i64) -> Option<i64> {
        None
    }

    fn release(&self, _: &[u8], _: i64) -> Option<(LogChange, i64)> {
        None
    }

    fn apply(&mut self, change: &LogChange, window_ms: i64) {
        Log::apply(self, *change, window_ms);
    }

    #[inline(always)]
    fn apply_step(&mut self, (live, change): (Live, LogChange)) {
        self.apply_to(live, change);
    }

    fn taken_one(&self, now_ms: i64) -> Option<LogChange> {
        let step = LogStep::Add { at_ms: self.newest_ms(), permits: 1 };
        Some(LogChange { now_ms, step })
    }

    fn entries(&self, written: &PackedNumbers, now_ms: i64) -> u64 {
        u64::from(self.live(now_ms - written.window_ms()).entries)
    }

    fn heap(&self) -> Heap {
        Heap { bytes: self.heap_bytes(), allocations: 1 }
    }

    fn parts_mut(&mut self, from: usize) -> impl Iterator<Item = &mut Box<[u8]>> {
        iter::once(self.bytes_mut()).skip(from)
    }

    fn encode(&self, out: &mut impl Sink) {
        Log::encode(self, out);
    }

    fn decode(reader: &mut Reader<'_>, _: &Numbers) -> Option<Log> {
        Log::decode(reader)
    }

    fn encode_change(change: &LogChange, out: &mut impl Sink) {
        let (tag, permits) = match change.step {
            LogStep::Add { permits, .. } => (ADD, permits),
            LogStep::GiveBack(permits) => (GIVE_BACK, permits),
            LogStep::GiveBackNewest(permits) => (GIVE_BACK_NEWEST, permits),
            LogStep::PullBack => (PULL_BACK, 0),
        };
        out.put_byte(tag);
        varint::write_time(out, change.now_ms);
        varint::write(out, permits);
        if let LogStep::Add { at_ms, .. } = change.step {
            varint::write_signed(out, at_ms - change.now_ms);
        }
    }

    fn decode_change(reader: &mut Reader<'_>, _: &Numbers) -> Option<LogChange> {
        let tag = reader.byte()?;
        let (now_ms, permits) = (reader.time()?, reader.permits()?);
        let step = match tag {
            ADD => {
                let at_ms = now_ms.checked_add(reader.signed()?);
                let at_ms = at_ms.filter(|at_ms| (0..=MAX_TIME_MS).contains(at_ms))?;
                LogStep::Add { at_ms, permits }
            }
            GIVE_BACK => LogStep::GiveBack(permits),
            GIVE_BACK_NEWEST => LogStep::GiveBackNewest(permits),
            PULL_BACK => LogStep::PullBack,
            _ => return None,
        };
        Some(LogChange { now_ms, step })
    }
}

/// The entries that count at one moment, and the permits to add at `stamp_ms`.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// `None` for the level of a new limiter.
    log: Option<&'a Log>,
    live: Live,
    stamp_ms: i64,
    added: u64,
}

impl<'a> Window<'a> {
    /// The log, if any of its entries counts.
    #[inline(always)]
    fn counting(&self) -> Option<&'a Log> {
        self.log.filter(|_| self.live.entries > 0)
    }
}

impl Level<Log> for Window<'_> {
    #[inline(always)]
    fn in_use(&self, _: &Moment<'_>) -> u64 {
        self.live.permits + self.added
    }

    #[inline(always)]
    fn renewable(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn earliest(&self, moment: &Moment<'_>, at_most: u64) -> i64 {
        let window_ms = moment.numbers.window_ms();
        match at_most.checked_sub(self.added).zip(self.counting()) {
            Some((at_most, log)) => log
                .earliest(self.live, window_ms, at_most)
                .unwrap_or(log.newest_ms().saturating_add(window_ms)),
            None => self.stamp_ms.saturating_add(window_ms),
        }
    }

    #[inline(always)]
    fn take(&mut self, _: &Moment<'_>, permits: u64) -> bool {
        let room = MAX_IN_USE.saturating_sub(self.live.permits + self.added);
        self.added += permits.min(room);
        true
    }

    #[inline(always)]
    fn full_at(&self, moment: &Moment<'_>) -> i64 {
        let window_ms = moment.numbers.window_ms();
        match (self.added, self.counting()) {
            (0, None) => moment.now_ms,
            (0, Some(log)) => log.newest_ms().saturating_add(window_ms),
            _ => self.stamp_ms.saturating_add(window_ms),
        }
    }

    #[inline(always)]
    fn void_after(&self, _: &Moment<'_>, full_at_ms: i64) -> i64 {
        full_at_ms
    }

    #[inline(always)]
    fn grows(&self, _: &Moment<'_>) -> bool {
        self.log.is_some_and(|log| log.grows(self.stamp_ms, &self.live))
    }

    #[inline(always)]
    fn step(self, moment: &Moment<'_>) -> (Live, LogChange) {
        (self.live, self.change(moment))
    }

    #[inline(always)]
    fn change(&self, moment: &Moment<'_>) -> LogChange {
        let step = LogStep::Add { at_ms: self.stamp_ms, permits: self.added };
        LogChange { now_ms: moment.now_ms, step }
    }

    fn give_back(&self, moment: &Moment<'_>, permits: u64) -> Option<(LogChange, i64)> {
        let change = LogChange { now_ms: moment.now_ms, step: LogStep::GiveBack(permits) };
        // The newest permits are given back last.
        let is_rest = permits >= self.in_use(moment);
        Some((change, if is_rest { moment.now_ms } else { self.full_at(moment) }))
    }
}
