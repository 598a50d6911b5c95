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

use crate::rule::{MAX_IN_USE, MAX_TIME_MS, Rule};
use crate::varint::{self, Sink};

/// Above how many entries a log rounds, unless configured otherwise.
pub const DEFAULT_RESOLUTION: u32 = 4096;

/// More entries than any log reaches: at the highest resolution twice 65536, and a part of that for
/// each time that its window doubles.
const MAX_ENTRIES: u32 = 1 << 22;

/// A cache line: allocations are a multiple of it, and jemalloc then begins them with one.
const LINE_BYTES: usize = 64;

/// The room that a log keeps, however short it gets.
const KEPT_BYTES: usize = 5 * LINE_BYTES - HEAD_BYTES;

/// The stored state of a sliding limiter: the [`Head`], then the run, then room for more. No bytes at
/// all before the first grant.
#[derive(Clone, Debug, Default)]
pub struct Log(Box<[u8]>);

/// The numbers of a log, in seven words.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    first_ms: i64,
    newest_ms: i64,
    newest_permits: u64,
    permits: u64,
    /// The clock at the last grant. The newest entry may rightly be ahead of it, rounded up.
    granted_ms: i64,
    entries: u32,
    /// Where the first entry starts in the run; what is before it has been pruned.
    start: u32,
    /// Where the run ends.
    end: u32,
}

const HEAD_WORDS: usize = 7;
const HEAD_BYTES: usize = HEAD_WORDS * 8;

impl Head {
    /// Reads the head of a log; zeros if it has none.
    #[inline(always)]
    fn read(bytes: &[u8]) -> Head {
        let Some(bytes) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Head::default();
        };
        let (words, _) = bytes.as_chunks::<8>();
        let [first_ms, newest_ms, newest_permits, permits, granted_ms, entries, bounds] =
            std::array::from_fn(|i| words.get(i).map_or(0, |word| u64::from_le_bytes(*word)));
        Head {
            first_ms: first_ms as i64,
            newest_ms: newest_ms as i64,
            newest_permits,
            permits,
            granted_ms: granted_ms as i64,
            entries: entries as u32,
            start: bounds as u32,
            end: (bounds >> 32) as u32,
        }
    }

    #[inline(always)]
    fn write(&self, bytes: &mut [u8]) {
        let bounds = u64::from(self.end) << 32 | u64::from(self.start);
        let words: [u64; HEAD_WORDS] = [
            self.first_ms as u64,
            self.newest_ms as u64,
            self.newest_permits,
            self.permits,
            self.granted_ms as u64,
            u64::from(self.entries),
            bounds,
        ];
        if let Some(bytes) = bytes.first_chunk_mut::<HEAD_BYTES>() {
            let (places, _) = bytes.as_chunks_mut::<8>();
            places.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
        }
    }
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
    /// Take back the oldest permits, so many.
    GiveBack(u64),
    /// Take back the newest. No longer decided, but effects of earlier versions say so.
    GiveBackNewest(u64),
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

    /// The time at which a grant at `now_ms` is recorded.
    pub fn stamp(&self, rule: &Rule, live: Live, resolution: u32, now_ms: i64) -> i64 {
        // Never behind the newest entry: that one may have been rounded up further.
        stamp(rule, live.entries, resolution, now_ms).max(self.newest_ms())
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
    pub(crate) fn apply_to(&mut self, live: Live, change: LogChange) {
        let LogChange { now_ms, step } = change;
        let mut open = Open::new(self);
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
    pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Log> {
        let time = |ms: i64| (0..=MAX_TIME_MS).contains(&ms).then_some(ms);
        let granted_ms = time(varint::read_signed(bytes, at)?)?;
        let entries = varint::read(bytes, at)?;
        let entries = u32::try_from(entries).ok().filter(|entries| *entries <= MAX_ENTRIES)?;
        let mut head = Head { granted_ms, entries, ..Head::default() };
        if entries == 0 {
            return Some(Log::of(head, &[]));
        }
        head.first_ms = time(granted_ms.checked_add(varint::read_signed(bytes, at)?)?)?;
        let start = *at;
        let (mut newest_ms, mut permits) = (head.first_ms, 0u64);
        for _ in 1..entries {
            permits = permits.checked_add(varint::read(bytes, at).filter(|n| *n > 0)?)?;
            let gap_ms = i64::try_from(varint::read(bytes, at).filter(|n| *n > 0)?).ok()?;
            newest_ms = newest_ms.checked_add(gap_ms)?;
        }
        let run = bytes.get(start..*at)?;
        head.newest_ms = time(newest_ms)?;
        head.newest_permits = varint::read(bytes, at).filter(|n| *n > 0)?;
        head.permits = permits.checked_add(head.newest_permits)?;
        (head.permits <= MAX_IN_USE).then(|| Log::of(head, run))
    }

    /// A log of these numbers and this run.
    fn of(head: Head, run: &[u8]) -> Log {
        Log(allocation(run.len(), &Head { start: 0, end: run.len() as u32, ..head }, run))
    }
}

/// Room for a head and so many bytes of a run, with these in it.
fn allocation(run_bytes: usize, head: &Head, run: &[u8]) -> Box<[u8]> {
    let len = HEAD_BYTES + run_bytes.max(run.len());
    let mut bytes = vec![0; len.next_multiple_of(LINE_BYTES)].into_boxed_slice();
    head.write(&mut bytes);
    if let Some(place) = bytes.get_mut(HEAD_BYTES..HEAD_BYTES + run.len()) {
        place.copy_from_slice(run);
    }
    bytes
}

/// The run, with what was pruned of it.
#[inline(always)]
fn run<'a>(bytes: &'a [u8], head: &Head) -> &'a [u8] {
    bytes.get(HEAD_BYTES..HEAD_BYTES + head.end as usize).unwrap_or_default()
}

/// How many bytes the run may take.
fn room(bytes: &[u8]) -> usize {
    bytes.len().saturating_sub(HEAD_BYTES)
}

/// How many bytes of a run it takes to begin an entry at `at_ms`, a time after the newest one.
fn entry_bytes(head: &Head, at_ms: i64) -> usize {
    varint::len(head.newest_permits) + varint::len((at_ms - head.newest_ms) as u64)
}

/// The newest entries of a run: a cursor that goes back.
struct Newest {
    end: usize,
    /// The time of the entry before them.
    at_ms: i64,
    permits: u64,
}

impl Newest {
    /// Goes back by an entry: its permits.
    fn go_back(&mut self, run: &[u8], floor: usize) -> Option<u64> {
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        let gap_ms = varint::pop(run, &mut self.end, floor)?;
        self.at_ms -= gap_ms as i64;
        varint::pop(run, &mut self.end, floor)
    }
}

#[cfg(test)]
thread_local! {
    /// How many entries were walked over one by one.
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Live {
    /// The permits of the first entry.
    fn first_permits(&self, run: &[u8]) -> u64 {
        match self.entries {
            0 | 1 => self.permits,
            _ => varint::read(run, &mut { self.at }).unwrap_or(0),
        }
    }

    /// Drops entries for as long as `goes` is true of those that are left. Tells what was left before
    /// it was no longer true, and what was left then.
    #[inline(always)]
    fn drop_while(self, run: &[u8], goes: impl Fn(&Live) -> bool) -> (Live, Live) {
        let mut before = self;
        loop {
            let mut left = before;
            left.advance(run);
            if left.entries == 0 || !goes(&left) {
                return (before, left);
            }
            before = left;
            while let Some(left) = before.without_some(run).filter(&goes) {
                before = left;
            }
        }
    }

    /// The same without some entries, if their numbers are short: a hundred thousand may leave at once.
    #[inline(always)]
    fn without_some(&self, run: &[u8]) -> Option<Live> {
        const LONGER: u64 = 0x8080_8080_8080_8080;
        let bytes = u64::from_le_bytes(*run.get(self.at..)?.first_chunk()?);
        let byte = |at: u32| bytes >> (8 * at) & 0x7f;
        let (len, entries, gaps_ms, permits) = match bytes & LONGER {
            0 => {
                let every_other = |bytes: u64| bytes & 0x00ff_00ff_00ff_00ff;
                let sum = |bytes| every_other(bytes).wrapping_mul(0x0001_0001_0001_0001) >> 48;
                (8, 4, sum(bytes >> 8), sum(bytes))
            }
            // Gaps of two bytes.
            longer if longer << 16 == 0x0080_0000_8000 << 16 => {
                let gaps_ms = byte(1) + byte(4) + ((byte(2) + byte(5)) << 7);
                (6, 2, gaps_ms, byte(0) + byte(3))
            }
            _ => return None,
        };
        // The newest has its permits elsewhere, and is never among them.
        (self.entries > entries).then(|| Live {
            at: self.at + len,
            first_ms: self.first_ms + gaps_ms as i64,
            permits: self.permits.saturating_sub(permits),
            entries: self.entries - entries,
        })
    }

    /// Drops the first entry.
    fn advance(&mut self, run: &[u8]) {
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        let next = match self.entries {
            0 | 1 => None,
            _ => varint::read(run, &mut self.at).zip(varint::read(run, &mut self.at)),
        };
        match next {
            Some((permits, gap_ms)) => {
                self.permits -= permits;
                self.first_ms += gap_ms as i64;
                self.entries -= 1;
            }
            None => (self.entries, self.permits) = (0, 0),
        }
    }
}

/// A log that is being changed, with its numbers apart.
struct Open<'a> {
    head: Head,
    bytes: &'a mut Box<[u8]>,
}

impl Open<'_> {
    fn new(log: &mut Log) -> Open<'_> {
        if log.0.is_empty() {
            log.0 = allocation(0, &Head::default(), &[]);
        }
        Open { head: log.head(), bytes: &mut log.0 }
    }

    fn close(self) {
        self.head.write(self.bytes);
    }

    fn push(&mut self, at_ms: i64, permits: u64) {
        let permits = permits.min(MAX_IN_USE - self.head.permits);
        if permits == 0 {
            return;
        }
        if self.head.entries == 0 {
            self.head.first_ms = at_ms;
            self.head.newest_ms = at_ms;
        }
        if at_ms > self.head.newest_ms {
            self.make_room(entry_bytes(&self.head, at_ms));
            self.append(self.head.newest_permits);
            self.append((at_ms - self.head.newest_ms) as u64);
            self.head.newest_ms = at_ms;
            self.head.newest_permits = 0;
        }
        if self.head.newest_permits == 0 {
            self.head.entries += 1;
        }
        self.head.newest_permits += permits;
        self.head.permits += permits;
    }

    /// Makes room for so many bytes behind the run.
    fn make_room(&mut self, needed: usize) {
        let (start, end) = (self.head.start as usize, self.head.end as usize);
        let used = end - start;
        if end + needed <= room(self.bytes) {
            return;
        }
        // Only if that makes room for many: a full log would be moved for each entry.
        if used + needed <= room(self.bytes) && start >= used / 4 {
            self.compact();
        } else {
            // By a quarter rather than doubling: logs are many and live long, and are copied rarely.
            self.reallocate(used + needed + used / 4);
        }
    }

    /// Moves the run to the front of its room.
    fn compact(&mut self) {
        let Head { start, end, .. } = self.head;
        self.bytes.copy_within(HEAD_BYTES + start as usize..HEAD_BYTES + end as usize, HEAD_BYTES);
        (self.head.start, self.head.end) = (0, end - start);
    }

    /// Moves the run to an allocation with room for so many bytes of it.
    fn reallocate(&mut self, run_bytes: usize) {
        let Head { start, end, .. } = self.head;
        let run = run(self.bytes, &self.head).get(start as usize..).unwrap_or_default();
        *self.bytes = allocation(run_bytes, &self.head, run);
        (self.head.start, self.head.end) = (0, end - start);
    }

    /// Appends a number to the run, which has room for it.
    fn append(&mut self, value: u64) {
        if let Some(place) = self.bytes.get_mut(HEAD_BYTES + self.head.end as usize..) {
            self.head.end += varint::write_into(place, value) as u32;
        }
    }

    /// Forgets all but the live entries.
    fn prune(&mut self, live: Live) {
        if live.entries == self.head.entries {
            return;
        }
        if live.entries == 0 {
            self.head = Head { granted_ms: self.head.granted_ms, ..Head::default() };
        } else {
            self.head.first_ms = live.first_ms;
            self.head.permits = live.permits;
            self.head.entries = live.entries;
            self.head.start = live.at as u32;
            // Compacting only when most of the run is dead makes pruning O(1) an entry.
            if self.head.start <= self.head.end / 2 {
                return;
            }
            self.compact();
        }
        self.shrink();
    }

    /// Gives memory back when most of it is room.
    fn shrink(&mut self) {
        let used = (self.head.end - self.head.start) as usize;
        if room(self.bytes) > KEPT_BYTES + 4 * used {
            self.reallocate(KEPT_BYTES.max(2 * used));
        }
    }

    /// Removes the newest entry.
    fn pop(&mut self) {
        self.head.permits -= self.head.newest_permits;
        self.head.entries -= 1;
        let (mut end, floor) = (self.head.end as usize, self.head.start as usize);
        let run = run(self.bytes, &self.head);
        let mut number = || varint::pop(run, &mut end, floor);
        let before = if self.head.entries > 0 { number().zip(number()) } else { None };
        match before {
            Some((gap_ms, permits)) => {
                self.head.newest_ms -= gap_ms as i64;
                self.head.newest_permits = permits;
                self.head.end = end as u32;
            }
            None => self.head = Head { granted_ms: self.head.granted_ms, ..Head::default() },
        }
    }

    /// Forgets all but the live entries, and of those the oldest permits.
    fn give_back(&mut self, mut live: Live, mut permits: u64) {
        let run = run(self.bytes, &self.head);
        while live.entries > 0 {
            let first = live.first_permits(run);
            if permits < first {
                break;
            }
            permits -= first;
            live.advance(run);
        }
        self.prune(live);
        self.shorten_first(permits);
    }

    /// Takes permits off the first entry, which holds more.
    fn shorten_first(&mut self, permits: u64) {
        if permits == 0 || self.head.entries == 0 {
            return;
        }
        self.head.permits -= permits;
        if self.head.entries == 1 {
            self.head.newest_permits -= permits;
            return;
        }
        // The smaller number takes no more bytes. It is to end where the larger one did.
        let mut end = self.head.start as usize;
        let Some(first) = varint::read(run(self.bytes, &self.head), &mut end) else {
            return;
        };
        let start = end - varint::len(first - permits);
        if let Some(place) = self.bytes.get_mut(HEAD_BYTES + start..HEAD_BYTES + end) {
            varint::write_into(place, first - permits);
            self.head.start = start as u32;
        }
    }

    fn give_back_newest(&mut self, mut permits: u64) {
        while self.head.entries > 0 && permits >= self.head.newest_permits {
            permits -= self.head.newest_permits;
            self.pop();
        }
        if self.head.entries > 0 {
            self.head.newest_permits -= permits;
            self.head.permits -= permits;
        }
        self.shrink();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(log: &mut Log, now_ms: i64, window_ms: i64) {
        let step = LogStep::Add { at_ms: now_ms, permits: 1 };
        log.apply(LogChange { now_ms, step }, window_ms);
    }

    fn loaded(log: &Log) -> Log {
        let mut stored = Vec::new();
        log.encode(&mut stored);
        Log::decode(&stored, &mut 0).unwrap()
    }

    #[test]
    fn a_full_log_is_not_moved_for_each_entry() {
        const WINDOW_MS: i64 = 4000;
        let mut log = Log::default();
        (0..WINDOW_MS).for_each(|now_ms| grant(&mut log, now_ms, WINDOW_MS));
        // Without room behind the run, as it is after a load.
        let mut log = loaded(&log);
        let mut moves = 0;
        for now_ms in WINDOW_MS..2 * WINDOW_MS {
            let start = log.head().start;
            grant(&mut log, now_ms, WINDOW_MS);
            moves += u32::from(log.head().start < start || log.head().start == 0);
            assert_eq!(log.entries(), WINDOW_MS as u32);
        }
        assert!((1..10).contains(&moves), "{moves} moves");
    }

    /// Permits by their times.
    fn entries(log: &Log) -> Vec<(i64, u64)> {
        let mut live = log.live(i64::MIN);
        let mut entries = Vec::new();
        while live.entries > 0 {
            entries.push((live.first_ms, live.first_permits(log.run())));
            live.advance(log.run());
        }
        entries
    }

    #[test]
    fn the_oldest_permits_are_given_back_and_the_rest_stays_as_it_was() {
        // Numbers of one byte and of more, and what is left of them in fewer.
        let grants: [(i64, u64); 5] = [(0, 3), (7, 200), (500, 1), (501, 20_000), (90_000, 130)];
        let in_all: u64 = grants.iter().map(|(_, permits)| permits).sum();
        for (given, step) in (0..in_all + 2).map(|given| (given, LogStep::GiveBack(given))) {
            let mut log = Log::default();
            for (at_ms, permits) in grants {
                let step = LogStep::Add { at_ms, permits };
                log.apply(LogChange { now_ms: at_ms, step }, 100_000);
            }
            log.apply(LogChange { now_ms: 90_000, step }, 100_000);
            let mut left = given;
            let mut expected = grants.to_vec();
            for (_, permits) in &mut expected {
                let back = left.min(*permits);
                *permits -= back;
                left -= back;
            }
            expected.retain(|(_, permits)| *permits > 0);
            assert_eq!(entries(&log), expected, "{given}");
            assert_eq!(loaded(&log), log, "{given}");
        }
    }

    #[test]
    fn an_effect_of_an_earlier_version_takes_the_newest() {
        let mut log = Log::default();
        [10, 20].into_iter().for_each(|now_ms| grant(&mut log, now_ms, 1000));
        log.apply(LogChange { now_ms: 30, step: LogStep::GiveBackNewest(1) }, 1000);
        assert_eq!(entries(&log), [(10, 1)]);
    }

    /// A log of these times and permits.
    fn log_of(entries: &[(i64, u64)]) -> Log {
        let mut log = Log::default();
        for (at_ms, permits) in entries.iter().copied() {
            let add = LogStep::Add { at_ms, permits };
            log.apply(LogChange { now_ms: at_ms, step: add }, MAX_TIME_MS);
        }
        log
    }

    #[test]
    fn what_counts_and_when_it_leaves_is_what_a_list_says() {
        const WINDOW_MS: i64 = 1000;
        let mut state = 1u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        for round in 0..300 {
            // Numbers of one byte, of two, and of any length, in turn and mixed.
            let gaps: &[u64] =
                [&[100][..], &[300], &[100, 100, 100, 20_000], &[5, 300, 1 << 40]][round % 4];
            let permits: &[u64] = [&[1][..], &[2, 200], &[100]][round / 4 % 3];
            let mut at_ms = 5;
            let entries: Vec<(i64, u64)> = (0..random(40) as usize)
                .map(|i| {
                    at_ms += 1 + random(gaps[(i + round) % gaps.len()]) as i64;
                    (at_ms, 1 + random(permits[i % permits.len()]))
                })
                .collect();
            let log = log_of(&entries);
            for from in 0..=entries.len() {
                let cutoff_ms = from.checked_sub(1).map_or(0, |last| entries[last].0);
                let live = log.live(cutoff_ms);
                let counts = &entries[from..];
                let in_use: u64 = counts.iter().map(|(_, permits)| permits).sum();
                assert_eq!((live.entries as usize, live.permits), (counts.len(), in_use));
                for at_most in (0..in_use).step_by(1 + in_use as usize / 20) {
                    let mut left = in_use;
                    let last = counts.iter().position(|(_, permits)| {
                        left -= permits;
                        left <= at_most
                    });
                    let expected = last
                        .filter(|last| last + 1 < counts.len())
                        .map(|last| counts[last].0 + WINDOW_MS);
                    assert_eq!(
                        log.earliest(live, WINDOW_MS, at_most),
                        expected,
                        "{counts:?}, {at_most}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_long_log_is_not_walked_over_one_by_one() {
        const MANY: i64 = 100_000;
        let steps = |work: &dyn Fn()| {
            let before = STEPS.get();
            work();
            STEPS.get() - before
        };
        for gap_ms in [1, 100, 1000] {
            let entries: Vec<(i64, u64)> = (0..MANY).map(|i| (i * gap_ms, 1)).collect();
            let log = log_of(&entries);
            // All but the newest leave at once; a limit was lowered to 4; half of the permits are asked for.
            let last = steps(&|| assert_eq!(log.live((MANY - 1) * gap_ms - 1).entries, 1));
            let all = log.live(-1);
            let lowered = steps(&|| assert_eq!(log.earliest(all, 0, 3), Some((MANY - 4) * gap_ms)));
            let half = steps(&|| assert!(log.earliest(all, 0, MANY as u64 / 2).is_some()));
            assert!(last < 20 && lowered < 20 && half < 20, "{gap_ms}: {last}, {lowered}, {half}");
        }
    }

    #[test]
    fn memory_is_given_back_when_a_log_gets_short() {
        const WINDOW_MS: i64 = 10_000;
        let mut full = Log::default();
        (0..5000).for_each(|now_ms| grant(&mut full, now_ms, WINDOW_MS));
        let large = full.heap_bytes();
        assert!((10_000..20_000).contains(&large), "{large}");
        let give_back = LogStep::GiveBack(4990);
        let now_ms = WINDOW_MS + 4990;
        let changes = [(5000, give_back), (now_ms, LogStep::Add { at_ms: now_ms, permits: 1 })];
        for (now_ms, step) in changes {
            let mut log = full.clone();
            log.apply(LogChange { now_ms, step }, WINDOW_MS);
            assert!(log.heap_bytes() < 1000, "{}", log.heap_bytes());
            assert_eq!(loaded(&log), log);
        }
    }
}
