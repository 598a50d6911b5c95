//! The most frequent keys of a stream, in constant memory: the Space-Saving algorithm (A. Metwally,
//! D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
//! Streams", ICDT 2005).
//!
//! With `m` counters over `n` events, every key that occurred more than `n / m` times is among
//! them, its count is never too low, and too high by at most its error, which is at most `n / m`.
//!
//! Counts are kept in order: one that goes up changes places with the first of those that were equal
//! to it, found by bisection. Beside them is a map from a key's hash to its counter. Keys are told
//! apart by a seeded 64-bit hash: two that share one would be counted as one.

use crate::hash::{ByHash, Seed};

/// How many bytes of a key are kept.
pub const KEY_BYTES: usize = 128;

/// A key and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The database of the key.
    pub db: i32,
    /// The first [`KEY_BYTES`] bytes of the key.
    pub key: Vec<u8>,
    /// At most so often.
    pub count: u64,
    /// At least `count - error` times.
    pub error: u64,
}

/// One counter.
#[derive(Debug)]
struct Counter {
    hash: u64,
    /// Its place in the ranking.
    place: usize,
    counted: Counted,
}

/// A sketch of a stream.
#[derive(Debug, Default)]
pub struct Sketch {
    /// They stay where they are; only their places in the ranking change.
    counters: Vec<Counter>,
    by_hash: ByHash<usize>,
    /// Counts, the highest first, each with its counter.
    ranking: Vec<(u64, usize)>,
    capacity: usize,
}

impl Sketch {
    fn new(capacity: usize) -> Sketch {
        Sketch {
            counters: Vec::with_capacity(capacity),
            by_hash: ByHash::with_capacity_and_hasher(capacity, Default::default()),
            ranking: Vec::with_capacity(capacity),
            capacity,
        }
    }

    fn add(&mut self, hash: u64, db: i32, key: &[u8]) {
        if let Some(at) = self.by_hash.get(&hash).copied() {
            self.count(at);
        } else if self.counters.len() < self.capacity {
            let at = self.counters.len();
            let counted = Counted { db, key: key.to_vec(), count: 1, error: 0 };
            self.counters.push(Counter { hash, place: at, counted });
            self.by_hash.insert(hash, at);
            self.ranking.push((1, at));
        } else if let Some((_, at)) = self.ranking.last().copied()
            && let Some(lowest) = self.counters.get_mut(at)
        {
            // The new key takes the place of the least frequent one, and may have been that all
            // along.
            self.by_hash.remove(&lowest.hash);
            self.by_hash.insert(hash, at);
            lowest.hash = hash;
            lowest.counted.error = lowest.counted.count;
            lowest.counted.db = db;
            lowest.counted.key.clear();
            lowest.counted.key.extend_from_slice(key);
            self.count(at);
        }
    }

    fn count(&mut self, at: usize) {
        let Some(counter) = self.counters.get_mut(at) else {
            return;
        };
        let (count, place) = (counter.counted.count, counter.place);
        counter.counted.count += 1;
        let above = self.ranking.get(..place).unwrap_or_default();
        let first = above.partition_point(|(higher, _)| *higher > count);
        self.settle(place, self.ranking.get(first).copied());
        self.settle(first, Some((count + 1, at)));
    }

    /// Puts a counter into a place of the ranking.
    fn settle(&mut self, place: usize, ranked: Option<(u64, usize)>) {
        if let (Some(there), Some(ranked)) = (self.ranking.get_mut(place), ranked) {
            *there = ranked;
            if let Some(counter) = self.counters.get_mut(ranked.1) {
                counter.place = place;
            }
        }
    }

    /// What a key that has no counter can have occurred at most.
    fn unseen(&self) -> u64 {
        if self.counters.len() < self.capacity {
            0
        } else {
            self.ranking.last().map_or(0, |(count, _)| *count)
        }
    }

    /// The count and the error of a key.
    fn of(&self, hash: u64) -> (u64, u64) {
        let counter = self.by_hash.get(&hash).and_then(|at| self.counters.get(*at));
        counter.map_or((self.unseen(), self.unseen()), |c| (c.counted.count, c.counted.error))
    }
}

/// Two sketches, of the present period and of the one before.
#[derive(Debug)]
pub struct Top {
    present: Sketch,
    previous: Sketch,
    /// When the present period began, in ms of epoch time.
    since_ms: i64,
    seed: Seed,
}

/// How large the sketches are and how often they turn over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Counters of each; 0 for none.
    pub capacity: usize,
    /// How long a period is, in ms.
    pub period_ms: i64,
}

impl Default for Top {
    fn default() -> Top {
        let (present, previous) = (Sketch::default(), Sketch::default());
        Top { present, previous, since_ms: 0, seed: Seed::random() }
    }
}

impl Top {
    /// Counts an event of a key.
    pub fn add(&mut self, db: i32, key: &[u8], shape: Shape, now_ms: i64) {
        self.turn_over(shape, now_ms);
        let key = key.get(..KEY_BYTES).unwrap_or(key);
        self.present.add(self.hash(db, key), db, key);
    }

    /// The count of a key over both periods, at most.
    pub fn count(&mut self, db: i32, key: &[u8], shape: Shape, now_ms: i64) -> u64 {
        self.turn_over(shape, now_ms);
        let key = key.get(..KEY_BYTES).unwrap_or(key);
        let hash = self.hash(db, key);
        let seen = |sketch: &Sketch| {
            if sketch.by_hash.contains_key(&hash) { sketch.of(hash).0 } else { 0 }
        };
        seen(&self.present) + seen(&self.previous)
    }

    /// The keys that occurred most over both periods, the most frequent first.
    pub fn most(&mut self, limit: usize, shape: Shape, now_ms: i64) -> Vec<Counted> {
        self.turn_over(shape, now_ms);
        let only_previous =
            self.previous.counters.iter().filter(|c| !self.present.by_hash.contains_key(&c.hash));
        let mut all: Vec<Counted> = (self.present.counters.iter().chain(only_previous))
            .map(|counter| {
                let (present, previous) =
                    (self.present.of(counter.hash), self.previous.of(counter.hash));
                let (count, error) = (present.0 + previous.0, present.1 + previous.1);
                Counted { count, error, ..counter.counted.clone() }
            })
            .collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (a.db, &a.key).cmp(&(b.db, &b.key))));
        all.truncate(limit);
        all
    }

    /// Keys that have a counter.
    pub fn tracked(&mut self, shape: Shape, now_ms: i64) -> usize {
        self.turn_over(shape, now_ms);
        self.present.counters.len() + self.previous.counters.len()
    }

    fn hash(&self, db: i32, key: &[u8]) -> u64 {
        self.seed.hash(db as u32, key)
    }

    fn turn_over(&mut self, shape: Shape, now_ms: i64) {
        let Shape { capacity, period_ms } = shape;
        if self.present.capacity != capacity {
            self.present = Sketch::new(capacity);
            self.previous = Sketch::new(capacity);
            self.since_ms = now_ms;
        }
        let since_ms = now_ms - self.since_ms;
        if (0..period_ms).contains(&since_ms) {
            return;
        }
        let periods = since_ms.div_euclid(period_ms.max(1));
        let ended = std::mem::replace(&mut self.present, Sketch::new(capacity));
        // After a pause, or a clock that stepped back, what was counted is of no recent period.
        self.previous = if periods == 1 { ended } else { Sketch::new(capacity) };
        self.since_ms = if periods == 1 { self.since_ms + period_ms } else { now_ms };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const SHAPE: Shape = Shape { capacity: 16, period_ms: 1000 };

    /// A stream in which key `i` occurs about `1 / i` as often as the first.
    fn stream(events: u64) -> Vec<u64> {
        let mut state = 7u64;
        (0..events)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let uniform = (state >> 33) % 1000 + 1;
                1000 / uniform
            })
            .collect()
    }

    #[test]
    fn counts_keep_the_promises_of_the_paper() {
        let (mut top, mut truth) = (Top::default(), HashMap::new());
        let events = stream(20_000);
        for key in &events {
            top.add(0, &key.to_be_bytes(), SHAPE, 5);
            *truth.entry(key.to_be_bytes().to_vec()).or_insert(0u64) += 1;
        }
        let most = top.most(SHAPE.capacity, SHAPE, 5);
        let bound = events.len() as u64 / SHAPE.capacity as u64;
        for counted in &most {
            let occurred = truth[&counted.key];
            assert!(counted.count >= occurred && occurred >= counted.count - counted.error);
            assert!(counted.error <= bound, "{counted:?}");
        }
        for (key, occurred) in truth {
            let listed = most.iter().any(|counted| counted.key == key);
            assert!(listed || occurred <= bound, "{key:?} occurred {occurred} times");
        }
    }

    #[test]
    fn few_keys_are_counted_exactly_and_apart_by_database() {
        let mut top = Top::default();
        for (db, key) in [(0, b"a"), (0, b"b"), (1, b"a"), (0, b"a")] {
            top.add(db, key, SHAPE, 5);
        }
        let found = top.most(9, SHAPE, 5);
        let found: Vec<_> =
            found.iter().map(|c| (c.db, c.key.as_slice(), c.count, c.error)).collect();
        let expected: [(i32, &[u8], u64, u64); 3] =
            [(0, b"a", 2, 0), (0, b"b", 1, 0), (1, b"a", 1, 0)];
        assert_eq!(found, expected);
        assert_eq!(top.count(0, b"a", SHAPE, 5), 2);
        assert_eq!(top.count(0, b"c", SHAPE, 5), 0);
    }

    #[test]
    fn a_period_is_remembered_for_one_more() {
        let mut top = Top::default();
        top.add(0, b"a", SHAPE, 0);
        top.add(0, b"a", SHAPE, 1500);
        assert_eq!(top.count(0, b"a", SHAPE, 1999), 2);
        assert_eq!(top.count(0, b"a", SHAPE, 2500), 1);
        assert_eq!(top.count(0, b"a", SHAPE, 3500), 0);
    }

    #[test]
    fn a_long_key_is_cut_and_no_capacity_counts_nothing() {
        let mut top = Top::default();
        top.add(0, &[7; 500], SHAPE, 0);
        assert_eq!(top.most(1, SHAPE, 0)[0].key, vec![7; KEY_BYTES]);
        let none = Shape { capacity: 0, ..SHAPE };
        top.add(0, b"a", none, 0);
        assert_eq!(top.most(1, none, 0), vec![]);
    }
}
