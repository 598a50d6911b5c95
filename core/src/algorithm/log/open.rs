//! Changes of a log.

use super::head::{HEAD_BYTES, Head, LINE_BYTES, allocation, entry_bytes, room, run};
use super::live::Live;
use crate::numbers::MAX_IN_USE;
use crate::stored::varint;

/// The room that a log keeps, however short it gets.
const KEPT_BYTES: usize = 5 * LINE_BYTES - HEAD_BYTES;

/// A log during a change, with its numbers unpacked.
pub struct Open<'a> {
    pub head: Head,
    bytes: &'a mut Box<[u8]>,
}

impl Open<'_> {
    /// Unpacks the numbers of a log. A log without bytes gets an allocation.
    pub fn new(bytes: &mut Box<[u8]>) -> Open<'_> {
        if bytes.is_empty() {
            *bytes = allocation(0, &Head::default(), &[]);
        }
        Open { head: Head::read(bytes), bytes }
    }

    /// Writes the numbers back.
    pub fn close(self) {
        self.head.write(self.bytes);
    }

    /// Adds permits at a time that is not before the newest entry.
    pub fn push(&mut self, at_ms: i64, permits: u64) {
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

    /// Makes room for `needed` bytes behind the run.
    fn make_room(&mut self, needed: usize) {
        let (start, end) = (self.head.start as usize, self.head.end as usize);
        let used = end - start;
        if end + needed <= room(self.bytes) {
            return;
        }
        // Compacts only if that makes room for many entries; otherwise the run would move for
        // each one.
        if used + needed <= room(self.bytes) && start >= used / 4 {
            self.compact();
        } else {
            // Grows by a quarter rather than doubling: logs are many and long-lived, and rarely
            // copied.
            self.reallocate(used + needed + used / 4);
        }
    }

    /// Moves the run to the front of its room.
    fn compact(&mut self) {
        let Head { start, end, .. } = self.head;
        self.bytes.copy_within(HEAD_BYTES + start as usize..HEAD_BYTES + end as usize, HEAD_BYTES);
        (self.head.start, self.head.end) = (0, end - start);
    }

    /// Moves the run to a new allocation with room for `run_bytes`.
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
    pub fn prune(&mut self, live: Live) {
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
            // Pruning takes O(1) an entry because it compacts only when most of the run is dead.
            if self.head.start <= self.head.end / 2 {
                return;
            }
            self.compact();
        }
        self.shrink();
    }

    /// Gives memory back if most of it is unused room.
    fn shrink(&mut self) {
        let used = (self.head.end - self.head.start) as usize;
        if room(self.bytes) > KEPT_BYTES + 4 * used {
            self.reallocate(KEPT_BYTES.max(2 * used));
        }
    }

    /// Removes the newest entry.
    pub fn pop(&mut self) {
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

    /// Forgets all but the live entries, and then the oldest permits of those.
    pub fn give_back(&mut self, mut live: Live, mut permits: u64) {
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

    /// Takes permits off the first entry, which has more than that.
    fn shorten_first(&mut self, permits: u64) {
        if permits == 0 || self.head.entries == 0 {
            return;
        }
        self.head.permits -= permits;
        if self.head.entries == 1 {
            self.head.newest_permits -= permits;
            return;
        }
        // The smaller number takes no more bytes, and must end where the larger one did.
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

    /// Removes the newest permits.
    pub fn give_back_newest(&mut self, mut permits: u64) {
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
