//! The most frequent keys of a stream, in constant memory: the Space-Saving algorithm (A.
//! Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
//! Data Streams", ICDT 2005).
//!
//! With `m` counters over `n` events, every key that occurred more than `n / m` times has a
//! counter. Its count is never too low, and too high by at most its error, which is at most `n /
//! m`.
//!
//! Counts are kept in order. A count that goes up changes places with the first of the counts
//! equal to it, found by bisection. A map leads from a key's hash to its counter. Keys are told
//! apart by a seeded 64-bit hash: two keys with the same hash would be counted as one.

use std::cmp::Reverse;

use crate::hash::ByHash;

/// The number of bytes of a key that are kept.
pub const KEY_BYTES: usize = 128;

/// A key and how often it occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    /// The database of the key.
    pub db: i32,
    /// The first [`KEY_BYTES`] bytes of the key.
    pub key: &'a [u8],
    /// The key occurred at most this many times,
    pub count: u64,
    /// and at least `count - error` times.
    pub error: u64,
}

/// The key for sorting: the most frequent first, equally frequent ones by name.
pub fn order<'a>(counted: &Counted<'a>) -> (Reverse<u64>, i32, &'a [u8]) {
    (Reverse(counted.count), counted.db, counted.key)
}

/// One counter.
#[derive(Debug, Default)]
pub struct Counter {
    pub hash: u64,
    /// Its place in the ranking.
    pub place: usize,
    pub db: i32,
    pub key: Vec<u8>,
    pub count: u64,
    pub error: u64,
}

impl Counter {
    /// Gives the counter another key, reusing the memory of the one before.
    pub fn name(&mut self, hash: u64, db: i32, key: &[u8]) {
        (self.hash, self.db) = (hash, db);
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    /// The count together with that of the same key in another sketch.
    pub fn with(&self, other: Option<&Counter>, sketch: &Sketch) -> Counted<'_> {
        let unseen = (sketch.unseen(), sketch.unseen());
        let (count, error) = other.map_or(unseen, |other| (other.count, other.error));
        let (count, error) = (self.count + count, self.error + error);
        Counted { db: self.db, key: &self.key, count, error }
    }
}

/// A sketch of a stream.
#[derive(Debug, Default)]
pub struct Sketch {
    /// Counters stay where they are; only their places in the ranking change. Those without a
    /// place are left from an earlier stream and will be used again.
    pub counters: Vec<Counter>,
    pub by_hash: ByHash<usize>,
    /// Counts, the highest first, each with its counter.
    pub ranking: Vec<(u64, usize)>,
    pub capacity: usize,
}

impl Sketch {
    pub fn new(capacity: usize) -> Sketch {
        Sketch {
            counters: Vec::with_capacity(capacity),
            by_hash: ByHash::with_capacity_and_hasher(capacity, Default::default()),
            ranking: Vec::with_capacity(capacity),
            capacity,
        }
    }

    /// Starts anew. Keeps the counters: freeing all their keys would stall the server.
    pub fn clear(&mut self) {
        self.by_hash.clear();
        self.ranking.clear();
    }

    pub fn add(&mut self, hash: u64, db: i32, key: &[u8]) {
        if let Some(at) = self.by_hash.get(&hash).copied() {
            self.count(at);
        } else if self.ranking.len() < self.capacity {
            let at = self.ranking.len();
            if at == self.counters.len() {
                self.counters.push(Counter::default());
            }
            if let Some(counter) = self.counters.get_mut(at) {
                counter.name(hash, db, key);
                (counter.place, counter.count, counter.error) = (at, 1, 0);
            }
            self.by_hash.insert(hash, at);
            self.ranking.push((1, at));
        } else if let Some((_, at)) = self.ranking.last().copied()
            && let Some(lowest) = self.counters.get_mut(at)
        {
            // The new key takes the counter of the least frequent one, and may have occurred as
            // often as that.
            self.by_hash.remove(&lowest.hash);
            self.by_hash.insert(hash, at);
            lowest.name(hash, db, key);
            lowest.error = lowest.count;
            self.count(at);
        }
    }

    pub fn count(&mut self, at: usize) {
        let Some(counter) = self.counters.get_mut(at) else {
            return;
        };
        let (count, place) = (counter.count, counter.place);
        counter.count += 1;
        let above = self.ranking.get(..place).unwrap_or_default();
        let first = above.partition_point(|(higher, _)| *higher > count);
        self.settle(place, self.ranking.get(first).copied());
        self.settle(first, Some((count + 1, at)));
    }

    /// Puts a counter into a place of the ranking.
    pub fn settle(&mut self, place: usize, ranked: Option<(u64, usize)>) {
        if let (Some(there), Some(ranked)) = (self.ranking.get_mut(place), ranked) {
            *there = ranked;
            if let Some(counter) = self.counters.get_mut(ranked.1) {
                counter.place = place;
            }
        }
    }

    /// The largest number of times that a key without a counter can have occurred.
    pub fn unseen(&self) -> u64 {
        if self.ranking.len() < self.capacity {
            0
        } else {
            self.ranking.last().map_or(0, |(count, _)| *count)
        }
    }

    pub fn find(&self, hash: u64) -> Option<&Counter> {
        self.by_hash.get(&hash).and_then(|at| self.counters.get(*at))
    }

    /// The counter at a place of the ranking.
    pub fn ranked(&self, place: usize) -> Option<&Counter> {
        self.ranking.get(place).and_then(|(_, at)| self.counters.get(*at))
    }

    /// The largest number of times that a key can have occurred that is not ranked before `place`.
    pub fn behind(&self, place: usize) -> u64 {
        self.ranking.get(place).map_or(self.unseen(), |(count, _)| *count)
    }
}
