//! The log of a sliding window: when permits were taken, and how many.
//!
//! **Layout.** Entries are a run of variable-length integers: the permits of an entry, then the
//! gap in milliseconds to the next one. The [`Head`] keeps the first entry's time, and the newest
//! entry's time and permits. So an append, and a prune or a give-back from the front, takes O(1)
//! an entry, and an entry takes two or three bytes where a sorted set takes more than a hundred.
//! Head and run share one allocation of whole cache lines, because with many limiters a grant
//! mostly waits for memory.
//!
//! **Giving back.** The oldest permits come back first. A refund does not say whose permits it
//! returns, and the oldest would leave first anyway. So at most the limit is out in any window,
//! whoever took the permits. If the newest came back first, a late refund of old permits would
//! make the log forget new permits of others.
//!
//! **Invariants.** Either `entries` and `permits` are 0 and the run is empty, or all gaps are
//! above 0, every entry has at least one permit, and `permits` is their sum.

mod head;
mod live;
mod open;
#[cfg(test)]
mod tests;

use self::head::{Head, allocation, entry_bytes, room, run};
pub use self::live::Live;
use self::live::Newest;
use self::open::Open;
use crate::numbers::{MAX_IN_USE, MAX_TIME_MS};
use crate::stored::reader::Reader;
use crate::stored::varint::{self, Sink};

/// More entries than any log can reach: twice 65,536 at the highest resolution, plus a part of
/// that each time its window doubles.
const MAX_ENTRIES: u32 = 1 << 22;

/// The stored state of a sliding limiter: the [`Head`], then the run, then room for more. It has
/// no bytes at all before the first grant.
#[derive(Clone, Debug, Default)]
pub struct Log(Box<[u8]>);

/// A change of a log, as the primary decides it and replicas apply it. Its size does not depend on
/// the size of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogChange {
    /// The clock at the decision.
    pub now_ms: i64,
    /// The step to apply.
    pub step: LogStep,
}

/// A step of a [`LogChange`]. All steps but the last first forget the entries that have left by
/// then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStep {
    /// Add permits.
    Add {
        /// When they count as granted: now, or now rounded up.
        at_ms: i64,
        /// How many.
        permits: u64,
    },
    /// Take back this many of the oldest permits.
    GiveBack(u64),
    /// Take back this many of the newest permits. The limiter no longer decides this, but effects
    /// of earlier versions contain it.
    GiveBackNewest(u64),
    /// Move every entry that is ahead of the clock to the clock, because the clock stepped back.
    PullBack,
}

impl Log {
    #[inline(always)]
    fn head(&self) -> Head {
        Head::read(&self.0)
    }

    #[inline(always)]
    fn run(&self) -> &[u8] {
        run(&self.0, &self.head())
    }

    /// When the newest permits were granted; the epoch for an empty log.
    #[inline(always)]
    pub fn newest_ms(&self) -> i64 {
        self.head().newest_ms
    }

    /// When nothing will be left in a window of this length; the epoch for an empty log.
    pub fn void_at(&self, window_ms: i64) -> i64 {
        let Head { newest_ms, entries, .. } = self.head();
        if entries == 0 { 0 } else { newest_ms.saturating_add(window_ms) }
    }

    /// Whether a grant recorded at `at_ms` needs more memory than the log has, once it keeps only
    /// the live entries. (A log may still grow by a quarter, once: see `Open::make_room`.)
    pub fn grows(&self, at_ms: i64, live: &Live) -> bool {
        let head = self.head();
        let used = (head.end as usize).saturating_sub(live.at);
        let adds = at_ms > head.newest_ms && live.entries > 0;
        adds && used + entry_bytes(&head, at_ms) > room(&self.0)
    }

    /// Whether something was granted after `now_ms`, which means that the clock has stepped back
    /// since.
    #[inline(always)]
    pub fn is_ahead(&self, now_ms: i64) -> bool {
        self.head().granted_ms > now_ms
    }

    /// The number of stored entries, including those that have left but are not pruned yet.
    pub fn entries(&self) -> u32 {
        self.head().entries
    }

    /// Bytes allocated besides the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.0.len()
    }

    /// The allocation, for a caller that relocates it.
    pub fn bytes_mut(&mut self) -> &mut Box<[u8]> {
        &mut self.0
    }

    /// The entries later than `cutoff_ms`.
    #[inline(always)]
    pub fn live(&self, cutoff_ms: i64) -> Live {
        let head = self.head();
        let Head { first_ms, permits, entries, .. } = head;
        let live = Live { at: head.start as usize, first_ms, permits, entries };
        if head.newest_ms <= cutoff_ms {
            return Live { entries: 0, permits: 0, ..live };
        }
        if live.first_ms > cutoff_ms {
            return live;
        }
        live.drop_while(run(&self.0, &head), |left| left.first_ms <= cutoff_ms).1
    }

    /// The first moment at which at most `at_most` of the live permits are left. `None` if even
    /// the newest entry must leave for that, and with it any permits added since.
    pub fn earliest(&self, live: Live, window_ms: i64, at_most: u64) -> Option<i64> {
        let head = self.head();
        if live.entries <= 1 || at_most < head.newest_permits {
            return None;
        }
        let run = run(&self.0, &head);
        let left_at_ms = if at_most < live.permits / 2 {
            // The limit was lowered: fewer permits stay than go, so walk back from the newest.
            let mut stays = Newest { end: run.len(), at_ms: head.newest_ms, permits: 0 };
            let mut permits = head.newest_permits;
            while stays.permits + permits <= at_most {
                stays.permits += permits;
                permits = stays.go_back(run, live.at)?;
            }
            stays.at_ms
        } else {
            live.drop_while(run, |left| left.permits > at_most).0.first_ms
        };
        Some(left_at_ms.saturating_add(window_ms))
    }

    /// Applies a change under the window that it was decided under. Total: any change leaves any
    /// log in a valid state.
    pub fn apply(&mut self, change: LogChange, window_ms: i64) {
        let cutoff_ms = match change.step {
            // A pull-back forgets nothing.
            LogStep::PullBack => i64::MIN,
            _ => change.now_ms.saturating_sub(window_ms),
        };
        self.apply_to(self.live(cutoff_ms), change);
    }

    /// Applies a change for a caller that already knows the live entries, so that the entries that
    /// left are not walked again.
    pub fn apply_to(&mut self, live: Live, change: LogChange) {
        let LogChange { now_ms, step } = change;
        let mut open = Open::new(&mut self.0);
        match step {
            LogStep::Add { at_ms, permits } => {
                open.prune(live);
                open.push(at_ms, permits);
                open.head.granted_ms = now_ms;
            }
            LogStep::GiveBack(permits) => open.give_back(live, permits),
            LogStep::GiveBackNewest(permits) => {
                open.prune(live);
                open.give_back_newest(permits);
            }
            LogStep::PullBack => {
                let mut ahead = 0;
                while open.head.entries > 0 && open.head.newest_ms > now_ms {
                    ahead += open.head.newest_permits;
                    open.pop();
                }
                open.push(now_ms, ahead);
                open.head.granted_ms = open.head.granted_ms.min(now_ms);
            }
        }
        open.close();
    }

    /// Appends the stored form: the entries that are not pruned.
    pub fn encode(&self, out: &mut impl Sink) {
        let head = self.head();
        varint::write_signed(out, head.granted_ms);
        varint::write(out, u64::from(head.entries));
        if head.entries > 0 {
            varint::write_signed(out, head.first_ms - head.granted_ms);
            out.put(self.run().get(head.start as usize..).unwrap_or_default());
            varint::write(out, head.newest_permits);
        }
    }

    /// Reads the stored form. `None` if it breaks an invariant. Allocates about as many bytes as
    /// it reads.
    pub fn decode(reader: &mut Reader<'_>) -> Option<Log> {
        let time = |ms: i64| (0..=MAX_TIME_MS).contains(&ms).then_some(ms);
        let granted_ms = time(reader.signed()?)?;
        let entries = u32::try_from(reader.number()?).ok();
        let entries = entries.filter(|entries| *entries <= MAX_ENTRIES)?;
        let mut head = Head { granted_ms, entries, ..Head::default() };
        if entries == 0 {
            return Some(Log::of(head, &[]));
        }
        head.first_ms = time(granted_ms.checked_add(reader.signed()?)?)?;
        let run = reader.rest();
        let (mut newest_ms, mut permits) = (head.first_ms, 0u64);
        for _ in 1..entries {
            permits = permits.checked_add(reader.number().filter(|n| *n > 0)?)?;
            let gap_ms = i64::try_from(reader.number().filter(|n| *n > 0)?).ok()?;
            newest_ms = newest_ms.checked_add(gap_ms)?;
        }
        let run = reader.read_of(run)?;
        head.newest_ms = time(newest_ms)?;
        head.newest_permits = reader.number().filter(|n| *n > 0)?;
        head.permits = permits.checked_add(head.newest_permits)?;
        (head.permits <= MAX_IN_USE).then(|| Log::of(head, run))
    }

    /// A log with these numbers and this run.
    fn of(head: Head, run: &[u8]) -> Log {
        Log(allocation(run.len(), &Head { start: 0, end: run.len() as u32, ..head }, run))
    }
}

/// Logs are equal if they have the same entries, whatever was pruned before.
impl PartialEq for Log {
    fn eq(&self, other: &Log) -> bool {
        let stored = |log: &Log| {
            let mut bytes = Vec::new();
            log.encode(&mut bytes);
            bytes
        };
        stored(self) == stored(other)
    }
}
