//! Sliding window log: exact, and small.
//!
//! The textbook log (every grant's time is kept, and counts for a window; the usual form is a
//! sorted set in Redis), with two differences. Grants of the same millisecond share one entry. And
//! above `resolution` entries a grant's time is rounded *up* to a multiple of `ceil(window /
//! resolution)`, so that a log stays bounded while the limit is still never exceeded: a permit can
//! leave late, never early.
//!
//! **Layout.** Entries are a run of variable-length integers: the permits of an entry, then the gap
//! in milliseconds to the next one. The first entry's time and the newest entry's time and permits
//! are kept aside. That makes an append, a prune from the front and a give-back from the end O(1)
//! an entry, and takes two or three bytes an entry where a sorted set takes more than a hundred.
//!
//! **Invariants**: `entries` and `permits` are 0 and the run is empty, or: gaps are above 0, every
//! entry holds at least one permit, and `permits` is their sum.

use crate::rule::{MAX_IN_USE, MAX_TIME_MS, Rule};
use crate::varint::{self, Sink};

/// Above how many entries a log rounds, unless configured otherwise.
pub const DEFAULT_RESOLUTION: u32 = 4096;

/// More entries than any log reaches: at the highest resolution twice 65536, and a part of that for
/// each time that its window doubles.
const MAX_ENTRIES: u32 = 1 << 22;

/// The longest entry of a run.
const ENTRY_BYTES: usize = 2 * varint::MAX_LEN;

/// What a log keeps allocated, however short it gets.
const KEPT_BYTES: usize = 256;

/// The stored state of a sliding limiter.
#[derive(Clone, Debug, Default)]
pub struct Log {
    first_ms: i64,
    newest_ms: i64,
    newest_permits: u64,
    permits: u64,
    entries: u32,
    /// The clock at the last grant. The newest entry may rightly be ahead of it, rounded up.
    granted_ms: i64,
    /// Where the first entry starts in `run`; what is before it has been pruned.
    head: usize,
    run: Vec<u8>,
}

/// The entries of a log that count at one moment: a cursor, which changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    at: usize,
    first_ms: i64,
    /// Permits in use.
    pub permits: u64,
    /// Entries that hold them.
    pub entries: u32,
}

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
    /// Take back the newest permits, so many.
    GiveBack(u64),
    /// Move every entry that is ahead of the clock to it: the clock stepped back.
    PullBack,
}

/// The width of a step in ms, when grants are rounded.
fn step_ms(window_ms: i64, resolution: u32) -> i64 {
    (window_ms as u64).div_ceil(u64::from(resolution.max(1))) as i64
}

/// The time at which a grant at `now_ms` is recorded in a log of that many live entries.
pub fn stamp(rule: &Rule, entries: u32, resolution: u32, now_ms: i64) -> i64 {
    if rule.limit() <= u64::from(resolution) && entries < resolution {
        return now_ms;
    }
    let step = step_ms(rule.window_ms(), resolution);
    let rounded_ms = now_ms.saturating_add(step - 1).div_euclid(step) * step;
    rounded_ms.min(MAX_TIME_MS)
}

impl Log {
    /// When the newest permits were granted; the epoch for an empty log.
    pub fn newest_ms(&self) -> i64 {
        self.newest_ms
    }

    /// The time at which a grant at `now_ms` is recorded.
    pub fn stamp(&self, rule: &Rule, live: Live, resolution: u32, now_ms: i64) -> i64 {
        // Never behind the newest entry: that one may have been rounded up further.
        stamp(rule, live.entries, resolution, now_ms).max(self.newest_ms)
    }

    /// Whether a grant recorded at `at_ms` takes more memory than there is, once what is not later
    /// than `cutoff_ms` is forgotten.
    pub fn grows(&self, at_ms: i64, cutoff_ms: i64) -> bool {
        if at_ms <= self.newest_ms {
            return false;
        }
        let live = self.live(cutoff_ms);
        live.entries > 0 && self.run.len() - live.at + ENTRY_BYTES > self.run.capacity()
    }

    /// Whether something was granted after `now_ms`: the clock stepped back since.
    pub fn is_ahead(&self, now_ms: i64) -> bool {
        self.granted_ms > now_ms
    }

    /// Entries stored, those included that have left and were not pruned yet.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Bytes allocated besides the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.run.capacity()
    }

    /// The buffer, for a caller that relocates allocations.
    pub fn run_mut(&mut self) -> &mut Vec<u8> {
        &mut self.run
    }

    /// The entries later than `cutoff_ms`.
    pub fn live(&self, cutoff_ms: i64) -> Live {
        let mut live = Live {
            at: self.head,
            first_ms: self.first_ms,
            permits: self.permits,
            entries: self.entries,
        };
        if self.newest_ms <= cutoff_ms {
            return Live { entries: 0, permits: 0, ..live };
        }
        while live.entries > 0 && live.first_ms <= cutoff_ms {
            self.advance(&mut live);
        }
        live
    }

    /// Drops the first entry of `live` and returns its permits.
    fn advance(&self, live: &mut Live) -> u64 {
        let next = match live.entries {
            0 | 1 => None,
            _ => varint::read(&self.run, &mut live.at).zip(varint::read(&self.run, &mut live.at)),
        };
        match next {
            Some((permits, gap_ms)) => {
                live.permits -= permits;
                live.first_ms += gap_ms as i64;
                live.entries -= 1;
                permits
            }
            None => {
                live.entries = 0;
                std::mem::take(&mut live.permits)
            }
        }
    }

    /// The first moment at which at most `at_most` of the live permits are left.
    /// `None` when even the newest must leave for that, and so with it everything added since.
    pub fn earliest(&self, mut live: Live, window_ms: i64, at_most: u64) -> Option<i64> {
        if at_most < self.newest_permits {
            return None;
        }
        while live.entries > 1 {
            let left_at_ms = live.first_ms.saturating_add(window_ms);
            self.advance(&mut live);
            if live.permits <= at_most {
                return Some(left_at_ms);
            }
        }
        None
    }

    /// Applies a change under the window that it was decided under. Total: any change leaves any
    /// log in a valid state.
    pub fn apply(&mut self, change: LogChange, window_ms: i64) {
        let LogChange { now_ms, step } = change;
        match step {
            LogStep::Add { at_ms, permits } => {
                self.prune(now_ms.saturating_sub(window_ms));
                self.push(at_ms, permits);
                self.granted_ms = now_ms;
            }
            LogStep::GiveBack(permits) => {
                self.prune(now_ms.saturating_sub(window_ms));
                self.give_back(permits);
            }
            LogStep::PullBack => {
                let mut ahead = 0;
                while self.entries > 0 && self.newest_ms > now_ms {
                    ahead += self.newest_permits;
                    self.pop();
                }
                self.push(now_ms, ahead);
                self.granted_ms = self.granted_ms.min(now_ms);
            }
        }
    }

    fn push(&mut self, at_ms: i64, permits: u64) {
        let permits = permits.min(MAX_IN_USE - self.permits);
        if permits == 0 {
            return;
        }
        if self.entries == 0 {
            self.first_ms = at_ms;
            self.newest_ms = at_ms;
        }
        if at_ms > self.newest_ms {
            // By a quarter rather than doubling: logs are many and live long, and are copied
            // rarely.
            if self.run.capacity() - self.run.len() < ENTRY_BYTES {
                self.run.drain(..self.head);
                self.head = 0;
                if self.run.capacity() - self.run.len() < ENTRY_BYTES {
                    self.run.reserve_exact(ENTRY_BYTES + self.run.len() / 4);
                }
            }
            varint::write(&mut self.run, self.newest_permits);
            varint::write(&mut self.run, (at_ms - self.newest_ms) as u64);
            self.newest_ms = at_ms;
            self.newest_permits = 0;
        }
        if self.newest_permits == 0 {
            self.entries += 1;
        }
        self.newest_permits += permits;
        self.permits += permits;
    }

    fn prune(&mut self, cutoff_ms: i64) {
        let live = self.live(cutoff_ms);
        if live.entries == self.entries {
            return;
        }
        if live.entries == 0 {
            let mut run = std::mem::take(&mut self.run);
            run.clear();
            *self = Log { run, granted_ms: self.granted_ms, ..Log::default() };
        } else {
            self.first_ms = live.first_ms;
            self.permits = live.permits;
            self.entries = live.entries;
            self.head = live.at;
            // Compacting only when most of the run is dead makes pruning O(1) an entry.
            if self.head <= self.run.len() / 2 {
                return;
            }
            self.run.drain(..self.head);
            self.head = 0;
        }
        if self.run.capacity() > KEPT_BYTES + 4 * self.run.len() {
            self.run.shrink_to(KEPT_BYTES.max(2 * self.run.len()));
        }
    }

    /// Removes the newest entry.
    fn pop(&mut self) {
        self.permits -= self.newest_permits;
        self.entries -= 1;
        let before = match self.entries {
            0 => None,
            _ => varint::pop(&mut self.run, self.head).zip(varint::pop(&mut self.run, self.head)),
        };
        match before {
            Some((gap_ms, permits)) => {
                self.newest_ms -= gap_ms as i64;
                self.newest_permits = permits;
            }
            None => *self = Log { granted_ms: self.granted_ms, ..Log::default() },
        }
    }

    fn give_back(&mut self, mut permits: u64) {
        while self.entries > 0 && permits >= self.newest_permits {
            permits -= self.newest_permits;
            self.pop();
        }
        if self.entries > 0 {
            self.newest_permits -= permits;
            self.permits -= permits;
        }
    }

    /// Appends the stored form: the entries, what was pruned left out.
    pub fn encode(&self, out: &mut impl Sink) {
        varint::write_signed(out, self.granted_ms);
        varint::write(out, u64::from(self.entries));
        if self.entries > 0 {
            varint::write_signed(out, self.first_ms - self.granted_ms);
            out.put(&self.run[self.head..]);
            varint::write(out, self.newest_permits);
        }
    }

    /// Reads the stored form. `None` when it breaks an invariant. Allocates no more than the bytes
    /// there are.
    pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Log> {
        let time = |ms: i64| (0..=MAX_TIME_MS).contains(&ms).then_some(ms);
        let granted_ms = time(varint::read_signed(bytes, at)?)?;
        let entries = varint::read(bytes, at)?;
        let entries = u32::try_from(entries).ok().filter(|entries| *entries <= MAX_ENTRIES)?;
        if entries == 0 {
            return Some(Log { granted_ms, ..Log::default() });
        }
        let first_ms = time(granted_ms.checked_add(varint::read_signed(bytes, at)?)?)?;
        let start = *at;
        let (mut newest_ms, mut permits) = (first_ms, 0u64);
        for _ in 1..entries {
            permits = permits.checked_add(varint::read(bytes, at).filter(|n| *n > 0)?)?;
            let gap_ms = i64::try_from(varint::read(bytes, at).filter(|n| *n > 0)?).ok()?;
            newest_ms = newest_ms.checked_add(gap_ms)?;
        }
        let run = bytes.get(start..*at)?.to_vec();
        let newest_permits = varint::read(bytes, at).filter(|n| *n > 0)?;
        permits = permits.checked_add(newest_permits)?;
        let newest_ms = time(newest_ms)?;
        let head = 0;
        (permits <= MAX_IN_USE).then_some(Log {
            first_ms,
            newest_ms,
            newest_permits,
            permits,
            entries,
            granted_ms,
            head,
            run,
        })
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
