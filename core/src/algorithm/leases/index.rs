//! Finds when the lease of a name ends, among many leases.
//!
//! Linear hashing (W. Litwin, "Linear Hashing: A New Tool for File and Table Addressing", VLDB
//! 1980): the table grows by one bucket at a time, so that no single call pays for all of it.
//!
//! An entry may outlive its lease, so that forgetting thousands of leases at once costs nothing
//! here. So an entry only says where a lease may be. When a bucket is about to grow, it drops the
//! entries that are older than every lease.

use crate::hash::Seed;

/// The average number of entries a bucket at which the table grows.
const FULL: usize = 16;

/// The number of entries by which a bucket grows.
const MORE: usize = 8;

/// The hash of a name, and when a lease with that name ends or ended.
type Entry = (u64, i64);

/// An index of leases; the head of this file describes it.
#[derive(Clone, Debug)]
pub(super) struct Index {
    seed: Seed,
    buckets: Vec<Vec<Entry>>,
    entries: usize,
}

impl Index {
    /// An empty index with room for this many entries.
    pub fn new(entries: usize) -> Index {
        let room = FULL.min(entries);
        let buckets = (0..1 + entries / FULL).map(|_| Vec::with_capacity(room)).collect();
        Index { seed: Seed::random(), buckets, entries: 0 }
    }

    /// The hash of a name.
    pub fn hash(&self, id: &[u8]) -> u64 {
        self.seed.hash(0, id)
    }

    /// When leases whose names have this hash end. The times may include those of leases that are
    /// gone.
    pub fn ends_ms(&self, hash: u64) -> impl Iterator<Item = i64> {
        let bucket = self.buckets.get(bucket_of(hash, self.buckets.len()));
        let entries = bucket.map(Vec::as_slice).unwrap_or_default();
        entries.iter().filter(move |(other, _)| *other == hash).map(|(_, end_ms)| *end_ms)
    }

    /// Adds an entry. `oldest_ms` is a time before which no lease ends.
    pub fn add(&mut self, hash: u64, end_ms: i64, oldest_ms: i64) {
        if self.entries >= FULL * self.buckets.len() {
            self.grow();
        }
        let at = bucket_of(hash, self.buckets.len());
        if let Some(bucket) = self.buckets.get_mut(at) {
            // Drop dead entries before taking more memory.
            if bucket.len() == bucket.capacity() {
                let before = bucket.len();
                bucket.retain(|(_, end_ms)| *end_ms >= oldest_ms);
                self.entries -= before - bucket.len();
                bucket.reserve_exact(MORE);
            }
            bucket.push((hash, end_ms));
            self.entries += 1;
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, hash: u64, end_ms: i64) {
        let at = bucket_of(hash, self.buckets.len());
        if let Some(bucket) = self.buckets.get_mut(at)
            && let Some(place) = bucket.iter().position(|entry| *entry == (hash, end_ms))
        {
            bucket.swap_remove(place);
            self.entries -= 1;
        }
    }

    /// Whether the index is much larger than this many leases need.
    pub fn is_sparse(&self, leases: usize) -> bool {
        self.buckets.len() > 4 * leases + 1
    }

    /// The most allocations that it can be made of.
    pub fn allocations(&self) -> usize {
        1 + self.buckets.len()
    }

    /// Bytes allocated besides the struct itself.
    pub fn heap_bytes(&self) -> usize {
        let entries: usize = self.buckets.iter().map(Vec::capacity).sum();
        self.buckets.capacity() * size_of::<Vec<Entry>>() + entries * size_of::<Entry>()
    }

    /// Divides the entries of one bucket between it and a new one.
    fn grow(&mut self) {
        let new = self.buckets.len();
        let old = new - (new + 1).next_power_of_two() / 2;
        if let Some(bucket) = self.buckets.get_mut(old) {
            let moved =
                bucket.extract_if(.., |(hash, _)| bucket_of(*hash, new + 1) == new).collect();
            self.buckets.push(moved);
        }
    }
}

/// Which of `buckets` buckets a hash belongs to. When one bucket is added, only hashes of one old
/// bucket change theirs, and only to the new one.
fn bucket_of(hash: u64, buckets: usize) -> usize {
    let doubled = buckets.next_power_of_two();
    let at = hash as usize & (doubled - 1);
    if at < buckets { at } else { at - doubled / 2 }
}
