//! A few leases in one allocation. Most limiters need no more than that, and with many limiters a
//! grant mostly waits for memory.
//!
//! | head | the bytes used, where the last lease begins, the leases, the most there ever were: two bytes each |
//! |---|---|
//! | a lease | its end, when it was taken, its permits with the length of its name on top: eight bytes each; its name |
//! **Invariants.** Leases are in the order of their ends; leases with the same end are in the
//! order of their names. There are at most [`MOST`]. A pack has no bytes at all before its first
//! lease.

use super::lease::{Lease, Named, order};

/// The most leases in a pack. Finding a name walks over all of them.
pub(super) const MOST: usize = 32;

const HEAD_BYTES: usize = 8;
const WORDS: usize = 3;
const WORD_BYTES: usize = 8;
/// Bytes of a lease without its name.
const FIXED_BYTES: usize = WORDS * WORD_BYTES;
/// The room that a pack keeps, however few leases it has: enough for a lease with the longest
/// name.
const KEPT_BYTES: usize = 320;
/// The position of the name's length in the third word. Permits use the bits below.
const LEN_SHIFT: u32 = 56;

/// A pack of leases; the head of this file describes the layout.
#[derive(Clone, Debug, Default)]
pub(super) struct Pack(Box<[u8]>);

#[derive(Clone, Copy, Debug)]
struct Head {
    used: u16,
    last: u16,
    leases: u16,
    most: u16,
}

fn bytes_of((id, _): Named<'_>) -> usize {
    FIXED_BYTES + id.len()
}

#[cfg(test)]
thread_local! {
    /// The number of leases that were looked at, as a measure of cost.
    pub(super) static WALKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The leases of a pack, in order.
#[derive(Clone, Debug)]
pub(super) struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Named<'a>;

    #[inline]
    fn next(&mut self) -> Option<Named<'a>> {
        #[cfg(test)]
        WALKED.set(WALKED.get() + 1);
        let (fixed, rest) = self.0.split_first_chunk::<FIXED_BYTES>()?;
        let (words, _) = fixed.as_chunks::<WORD_BYTES>();
        let [end_ms, taken_ms, permits]: [u64; WORDS] =
            std::array::from_fn(|i| words.get(i).map_or(0, |word| u64::from_le_bytes(*word)));
        let (id, rest) = rest.split_at_checked((permits >> LEN_SHIFT) as usize)?;
        self.0 = rest;
        let permits = permits & ((1 << LEN_SHIFT) - 1);
        Some((id, Lease { permits, taken_ms: taken_ms as i64, end_ms: end_ms as i64 }))
    }
}

/// The length to allocate for this many bytes. An allocator would take no less.
fn room_for(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 8).max(16))
}

impl Pack {
    /// An empty pack with room for [`MOST`] leases like this one.
    pub fn for_many_like(named: Named<'_>) -> Pack {
        let mut pack = Pack::default();
        pack.reallocate(room_for(HEAD_BYTES + MOST * bytes_of(named)));
        pack
    }

    fn head(&self) -> Head {
        let words = self.0.first_chunk::<HEAD_BYTES>().map_or([[0; 2]; 4], |head| {
            let (words, _) = head.as_chunks::<2>();
            std::array::from_fn(|i| words.get(i).copied().unwrap_or_default())
        });
        let [used, last, leases, most] = words.map(u16::from_le_bytes);
        Head { used: used.max(HEAD_BYTES as u16), last, leases, most }
    }

    fn set_head(&mut self, head: Head) {
        let words = [head.used, head.last, head.leases, head.most].map(u16::to_le_bytes);
        if let Some(place) = self.0.first_chunk_mut::<HEAD_BYTES>() {
            place.as_chunks_mut::<2>().0.copy_from_slice(&words);
        }
    }

    fn from(&self, start: usize) -> Entries<'_> {
        Entries(self.0.get(start..self.head().used.into()).unwrap_or_default())
    }

    /// All leases, in order.
    pub fn entries(&self) -> Entries<'_> {
        self.from(HEAD_BYTES)
    }

    /// The lease that ends first.
    pub fn first(&self) -> Option<Named<'_>> {
        self.entries().next()
    }

    /// The lease that ends last.
    pub fn last(&self) -> Option<Named<'_>> {
        self.from(self.head().last.into()).next().filter(|_| self.len() > 0)
    }

    /// When the last lease other than `except` ends.
    pub fn last_end_ms(&self, except: Option<&[u8]>) -> Option<i64> {
        let (id, lease) = self.last()?;
        if except != Some(id) {
            return Some(lease.end_ms);
        }
        let before = self.entries().take(self.len() - 1).last();
        before.map(|(_, lease)| lease.end_ms)
    }

    /// How many leases there are.
    pub fn len(&self) -> usize {
        self.head().leases.into()
    }

    /// The most leases that there ever were.
    pub fn most(&self) -> usize {
        self.head().most.into()
    }

    /// Bytes allocated besides the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.0.len()
    }

    /// The allocation, for a caller that relocates it.
    pub fn bytes_mut(&mut self) -> &mut Box<[u8]> {
        &mut self.0
    }

    /// The lease with this name.
    pub fn find(&self, id: &[u8]) -> Option<Lease> {
        self.entries().find(|(other, _)| *other == id).map(|(_, lease)| lease)
    }

    /// The number of leases that ended by `now_ms`, and their permits.
    pub fn ended(&self, now_ms: i64) -> (usize, u64) {
        let ended = self.entries().take_while(|(_, lease)| lease.end_ms <= now_ms);
        ended.fold((0, 0), |(leases, permits), (_, lease)| (leases + 1, permits + lease.permits))
    }

    /// Adds a lease whose name is new. The pack has fewer than [`MOST`].
    pub fn put(&mut self, named: Named<'_>) {
        let mut head = self.head();
        let at = match self.last() {
            Some(last) if order(named) < order(last) => self.place_of(named),
            _ => head.used.into(),
        };
        let (used, bytes) = (usize::from(head.used), bytes_of(named));
        if used + bytes > self.0.len() {
            self.reallocate(room_for(used + bytes));
        }
        self.0.copy_within(at..used, at + bytes);
        if let Some(place) = self.0.get_mut(at..at + bytes) {
            write(place, named);
        }
        head.last = if at == used { at as u16 } else { head.last + bytes as u16 };
        head.used += bytes as u16;
        head.leases += 1;
        head.most = head.most.max(head.leases);
        self.set_head(head);
    }

    /// The position at which to insert a lease that is not the last.
    fn place_of(&self, named: Named<'_>) -> usize {
        let before = self.entries().take_while(|other| order(*other) < order(named));
        HEAD_BYTES + before.map(bytes_of).sum::<usize>()
    }

    /// Removes the lease with this name.
    pub fn remove(&mut self, id: &[u8]) -> Option<Lease> {
        let mut at = HEAD_BYTES;
        for named in self.entries() {
            let bytes = bytes_of(named);
            if named.0 == id {
                let lease = named.1;
                self.cut(at, at + bytes, 1);
                return Some(lease);
            }
            at += bytes;
        }
        None
    }

    /// Forgets the leases that ended by `now_ms`. Returns how many there were, and their permits.
    pub fn forget(&mut self, now_ms: i64) -> (usize, u64) {
        let (leases, permits) = self.ended(now_ms);
        if leases > 0 {
            let bytes = self.entries().take(leases).map(bytes_of).sum::<usize>();
            self.cut(HEAD_BYTES, HEAD_BYTES + bytes, leases);
        }
        (leases, permits)
    }

    /// Moves the second half into a new pack.
    pub fn split(&mut self) -> Pack {
        let (kept, mut second) = (self.len() / 2, Pack::default());
        second.reallocate(self.0.len());
        self.entries().skip(kept).for_each(|named| second.put(named));
        let at = HEAD_BYTES + self.entries().take(kept).map(bytes_of).sum::<usize>();
        self.cut(at, self.head().used.into(), second.len());
        second
    }

    /// Removes the bytes from `start` to `end`, which contain `leases` leases.
    fn cut(&mut self, start: usize, end: usize, leases: usize) {
        let mut head = self.head();
        let last = usize::from(head.last);
        self.0.copy_within(end..head.used.into(), start);
        head.used -= (end - start) as u16;
        head.leases -= leases as u16;
        self.set_head(head);
        head.last = match last.checked_sub(end - start).filter(|_| last >= end) {
            Some(moved) => moved as u16,
            // The last lease was removed too.
            None => {
                let before = usize::from(head.leases).saturating_sub(1);
                (HEAD_BYTES + self.entries().take(before).map(bytes_of).sum::<usize>()) as u16
            }
        };
        self.set_head(head);
        // Gives memory back if most of it is unused, but never so much that a renewal would take
        // it again.
        let used = usize::from(head.used);
        if self.0.len() > 4 * used + KEPT_BYTES {
            self.reallocate(room_for(2 * used));
        }
    }

    fn reallocate(&mut self, len: usize) {
        let mut bytes = vec![0; len].into_boxed_slice();
        let used = self.0.get(..self.head().used.into()).unwrap_or_default();
        if let Some(place) = bytes.get_mut(..used.len()) {
            place.copy_from_slice(used);
        }
        let mut head = self.head();
        self.0 = bytes;
        head.used = head.used.max(HEAD_BYTES as u16);
        self.set_head(head);
    }
}

/// Writes a lease into a place of exactly its length.
fn write(place: &mut [u8], (id, lease): Named<'_>) {
    if let Some((fixed, name)) = place.split_first_chunk_mut::<FIXED_BYTES>() {
        let permits = lease.permits | (id.len() as u64) << LEN_SHIFT;
        let words = [lease.end_ms as u64, lease.taken_ms as u64, permits].map(u64::to_le_bytes);
        fixed.as_chunks_mut::<WORD_BYTES>().0.copy_from_slice(&words);
        name.copy_from_slice(id);
    }
}
