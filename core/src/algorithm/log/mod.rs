//! The log of a sliding window: when permits were taken, and how many.
//!
//! **Layout.** Entries are a run of variable-length integers: the permits of an entry, then the gap
//! in milliseconds to the next one. The first entry's time and the newest entry's time and permits
//! are kept aside, in the [`Head`]. That makes an append, and a prune or a give-back from the front,
//! O(1) an entry, and takes two or three bytes an entry where a sorted set takes more than a hundred.
//! Head and run share one allocation of whole cache lines: with many limiters a grant takes as long
//! as the memory does.
//!
//! **Giving back.** The oldest permits come back first. Nobody says whose permits they are, and the
//! oldest leave first anyway: so whoever took them, at most the limit is ever out in any window.
//! Were it the newest, a late refund of old permits would make the log forget new ones of others.
//!
//! **Invariants**: `entries` and `permits` are 0 and the run is empty, or: gaps are above 0, every
//! entry holds at least one permit, and `permits` is their sum.

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

/// More entries than any log reaches: at the highest resolution twice 65536, and a part of that for
/// each time that its window doubles.
const MAX_ENTRIES: u32 = 1 << 22;

/// The stored state of a sliding limiter: the [`Head`], then the run, then room for more. No bytes at
/// all before the first grant.
#[derive(Clone, Debug, Default)]
pub struct Log(Box<[u8]>);

/// A change of a log, as the primary decides it and replicas apply it. Its size does not depend on
/// the log's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogChange {
    /// The clock when it was decided.
    pub now_ms: i64,
    /// What to do.
    pub step: LogStep,
}

/// See [`LogChange`]. All but the last first forget what has left by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStep {
    /// Add permits.
    Add {
        /// When they count as granted: now, or now rounded up.
        at_ms: i64,
        /// How many.
        permits: u64,
    },
    /// Take back the oldest permits, so many.
    GiveBack(u64),
    /// Take back the newest. No longer decided, but effects of earlier versions say so.
    GiveBackNewest(u64),
    /// Move every entry that is ahead of the clock to it: the clock stepped back.
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

    /// Whether a grant recorded at `at_ms` takes more memory than there is, when only the live entries
    /// are kept. (A full log may take a quarter more all the same, once: see `Open::make_room`.)
    pub fn grows(&self, at_ms: i64, live: &Live) -> bool {
        let head = self.head();
        let used = (head.end as usize).saturating_sub(live.at);
        let adds = at_ms > head.newest_ms && live.entries > 0;
        adds && used + entry_bytes(&head, at_ms) > room(&self.0)
    }

    /// Whether something was granted after `now_ms`: the clock stepped back since.
    #[inline(always)]
    pub fn is_ahead(&self, now_ms: i64) -> bool {
        self.head().granted_ms > now_ms
    }

    /// Entries stored, those included that have left and were not pruned yet.
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

    /// The first moment at which at most `at_most` of the live permits are left.
    /// `None` when even the newest must leave for that, and so with it everything added since.
    pub fn earliest(&self, live: Live, window_ms: i64, at_most: u64) -> Option<i64> {
        let head = self.head();
        if live.entries <= 1 || at_most < head.newest_permits {
            return None;
        }
        let run = run(&self.0, &head);
        let left_at_ms = if at_most < live.permits / 2 {
            // A limit that was lowered: fewer stay than go.
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
            // Forgets nothing.
            LogStep::PullBack => i64::MIN,
            _ => change.now_ms.saturating_sub(window_ms),
        };
        self.apply_to(self.live(cutoff_ms), change);
    }

    /// The same for a caller that has looked which entries are live: what left is not walked again.
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

    /// Appends the stored form: the entries, what was pruned left out.
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

    /// Reads the stored form. `None` when it breaks an invariant. Allocates about as much as the
    /// bytes there are.
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

    /// A log of these numbers and this run.
    fn of(head: Head, run: &[u8]) -> Log {
        Log(allocation(run.len(), &Head { start: 0, end: run.len() as u32, ..head }, run))
    }
}

/// Equal when they hold the same entries, whatever was pruned before.
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
