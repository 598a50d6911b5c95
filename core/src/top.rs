//! The keys that were denied most in the present period and in the one before.

mod sketch;

pub use self::sketch::{Counted, KEY_BYTES};
use self::sketch::{Sketch, order};
use crate::hash::Seed;

/// Two sketches: of the present period and of the one before.
#[derive(Debug)]
pub struct Top {
    present: Sketch,
    previous: Sketch,
    /// When the present period began, in ms of epoch time.
    since_ms: i64,
    seed: Seed,
}

/// How large the sketches are, and how long a period lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Counters of each sketch; 0 to count nothing.
    pub capacity: usize,
    /// The length of a period, in ms.
    pub period_ms: i64,
}

impl Default for Top {
    fn default() -> Top {
        let (present, previous) = (Sketch::default(), Sketch::default());
        Top { present, previous, since_ms: 0, seed: Seed::random() }
    }
}

impl Top {
    /// Counts one event of a key.
    pub fn add(&mut self, db: i32, key: &[u8], shape: Shape, now_ms: i64) {
        self.turn_over(shape, now_ms);
        let key = key.get(..KEY_BYTES).unwrap_or(key);
        self.present.add(self.hash(db, key), db, key);
    }

    /// The count of a key over both periods. It may be too high, never too low.
    pub fn count(&mut self, db: i32, key: &[u8], shape: Shape, now_ms: i64) -> u64 {
        self.turn_over(shape, now_ms);
        let key = key.get(..KEY_BYTES).unwrap_or(key);
        let hash = self.hash(db, key);
        let seen = |sketch: &Sketch| sketch.find(hash).map_or(0, |counter| counter.count);
        seen(&self.present) + seen(&self.previous)
    }

    /// The keys that occurred most over both periods, the most frequent first.
    pub fn most(&mut self, limit: usize, shape: Shape, now_ms: i64) -> Vec<Counted<'_>> {
        self.turn_over(shape, now_ms);
        let wanted = limit.max(1);
        // Counts of the keys found so far are final, so only the best of them are kept.
        let mut found = Vec::new();
        for place in 0..self.present.ranking.len().max(self.previous.ranking.len()) {
            found.extend(self.ranked_at(place));
            if found.len() < 2 * wanted {
                continue;
            }
            found.select_nth_unstable_by(wanted - 1, |a, b| order(a).cmp(&order(b)));
            found.truncate(wanted);
            // Whether no other key can be among the most frequent.
            let others = self.present.behind(place + 1) + self.previous.behind(place + 1);
            if found.last().is_some_and(|last| last.count > others) {
                break;
            }
        }
        if limit < found.len() {
            found.select_nth_unstable_by(limit, |a, b| order(a).cmp(&order(b)));
            found.truncate(limit);
        }
        found.sort_unstable_by(|a, b| order(a).cmp(&order(b)));
        found
    }

    /// The keys at a place of either ranking that have no higher place in the other ranking.
    fn ranked_at(&self, place: usize) -> impl Iterator<Item = Counted<'_>> {
        let of_present = self.present.ranked(place).and_then(|counter| {
            let other = self.previous.find(counter.hash);
            let is_new = other.is_none_or(|other| other.place >= place);
            is_new.then(|| counter.with(other, &self.previous))
        });
        let of_previous = self.previous.ranked(place).and_then(|counter| {
            let other = self.present.find(counter.hash);
            let is_new = other.is_none_or(|other| other.place > place);
            is_new.then(|| counter.with(other, &self.present))
        });
        of_present.into_iter().chain(of_previous)
    }

    /// The number of counters in use.
    pub fn tracked(&mut self, shape: Shape, now_ms: i64) -> usize {
        self.turn_over(shape, now_ms);
        self.present.ranking.len() + self.previous.ranking.len()
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
        std::mem::swap(&mut self.present, &mut self.previous);
        self.present.clear();
        if periods == 1 {
            self.since_ms += period_ms;
        } else {
            // After a pause, or if the clock stepped back, neither count is of a recent period.
            self.previous.clear();
            self.since_ms = now_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const SHAPE: Shape = Shape { capacity: 16, period_ms: 1000 };

    fn next(state: u64) -> u64 {
        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)
    }

    /// A stream in which key `i` occurs about `1 / i` as often as the first.
    fn stream(events: u64) -> Vec<u64> {
        let mut state = 7u64;
        (0..events)
            .map(|_| {
                state = next(state);
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
            let occurred = truth[counted.key];
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
        let found: Vec<_> = found.iter().map(|c| (c.db, c.key, c.count, c.error)).collect();
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

    /// As in the paper: all keys of both, added up and sorted.
    fn sorted<'a>(top: &'a Top) -> Vec<Counted<'a>> {
        let counters = |sketch: &'a Sketch| sketch.counters.iter().take(sketch.ranking.len());
        let mut all: Vec<Counted<'a>> = (counters(&top.present))
            .map(|counter| counter.with(top.previous.find(counter.hash), &top.previous))
            .collect();
        let others =
            counters(&top.previous).filter(|counter| top.present.find(counter.hash).is_none());
        all.extend(others.map(|counter| counter.with(None, &top.present)));
        all.sort_by(|a, b| order(a).cmp(&order(b)));
        all
    }

    #[test]
    fn the_most_frequent_are_the_first_of_all() {
        // Fewer keys than counters, as many, or more; the same in both periods, or others.
        for (seed, keys, shift) in [(1, 9, 0), (2, 16, 0), (3, 40, 0), (4, 40, 20), (5, 16, 16)] {
            for events in [[0, 5], [5, 0], [12, 12], [300, 30], [1000, 3000]] {
                let (mut top, mut state) = (Top::default(), seed);
                for (period, events) in events.into_iter().enumerate() {
                    for event in 0..events {
                        state = next(state);
                        // In every other stream all keys occur equally often.
                        let key = if seed % 2 == 0 { event } else { (state >> 33) % (event + 1) };
                        let key = (key % keys) as usize + period * shift;
                        let db = (key % 3) as i32;
                        top.add(db, &[key as u8], SHAPE, 1000 * period as i64);
                    }
                }
                let all: Vec<_> =
                    sorted(&top).iter().map(|c| (c.db, c.key.to_vec(), c.count, c.error)).collect();
                for limit in [1, 2, 3, 10, 16, 17, 100] {
                    let most = top.most(limit, SHAPE, 1000);
                    let most: Vec<_> =
                        most.iter().map(|c| (c.db, c.key.to_vec(), c.count, c.error)).collect();
                    assert_eq!(most, all[..limit.min(all.len())], "{seed}, {events:?}, {limit}");
                }
            }
        }
    }

    #[test]
    fn a_new_period_takes_the_memory_of_an_old_one() {
        let mut top = Top::default();
        for period in 0..4 {
            for key in 0..16u8 {
                top.add(0, &[key; 40], SHAPE, 1000 * period);
            }
            assert_eq!(top.tracked(SHAPE, 1000 * period), if period == 0 { 16 } else { 32 });
        }
        let keys = |top: &Top| -> Vec<*const u8> {
            top.present.counters.iter().map(|c| c.key.as_ptr()).collect()
        };
        let before = keys(&top);
        top.add(0, b"a", SHAPE, 4500);
        assert_eq!(top.tracked(SHAPE, 4500), 17);
        top.add(0, b"a", SHAPE, 9000);
        assert_eq!((top.tracked(SHAPE, 9000), keys(&top)), (1, before));
    }

    #[test]
    fn a_long_key_is_cut_and_no_capacity_counts_nothing() {
        let mut top = Top::default();
        top.add(0, &[7; 500], SHAPE, 0);
        assert_eq!(top.most(1, SHAPE, 0)[0].key, [7; KEY_BYTES]);
        let none = Shape { capacity: 0, ..SHAPE };
        top.add(0, b"a", none, 0);
        assert_eq!(top.most(1, none, 0), vec![]);
    }
}
