//! Who waits for permits, in which order, and when to look again.
//!
//! Waiters have one global order of arrival, their ticket. Each key has a queue in that order. A
//! wake of a key walks its queue: whoever can be served in full is; those that only another key
//! denies are skipped; the first one that this key denies ends the walk. So nobody overtakes on the
//! key that is short, and one short key does not stop the others.
//!
//! Nothing here knows a limiter or a server: who can be served is the caller's to find out. Keys
//! need an order only to be found.

use std::collections::{BTreeMap, BTreeSet};

/// The place of a waiter in the order of arrival.
pub type Ticket = u64;

/// Those who wait, over keys of type `K`.
#[derive(Debug)]
pub struct Queue<K> {
    waiters: BTreeMap<Ticket, Waiter<K>>,
    by_key: BTreeMap<K, BTreeSet<Ticket>>,
    /// When the queue of a key is to be walked next.
    walks: BTreeSet<(i64, K)>,
    walk_at: BTreeMap<K, i64>,
    deadlines: BTreeSet<(i64, Ticket)>,
    next_ticket: Ticket,
}

#[derive(Debug)]
struct Waiter<K> {
    keys: Vec<K>,
    deadline_ms: i64,
}

impl<K> Default for Queue<K> {
    fn default() -> Queue<K> {
        Queue {
            waiters: BTreeMap::new(),
            by_key: BTreeMap::new(),
            walks: BTreeSet::new(),
            walk_at: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_ticket: 0,
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Whether anybody waits on a key.
    pub fn has_waiters(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// Joins the queues of these keys, behind everybody else, until the deadline in ms.
    pub fn join(&mut self, keys: Vec<K>, deadline_ms: i64) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().insert(ticket);
        }
        self.deadlines.insert((deadline_ms, ticket));
        self.waiters.insert(ticket, Waiter { keys, deadline_ms });
        ticket
    }

    /// Leaves all queues: served on a walk of `walked`, given up or gone. It may have been the one
    /// at which walks ended, so the other queues are walked.
    pub fn leave(&mut self, ticket: Ticket, walked: Option<&K>) {
        let Some(waiter) = self.waiters.remove(&ticket) else {
            return;
        };
        self.deadlines.remove(&(waiter.deadline_ms, ticket));
        for key in waiter.keys {
            let Some(queue) = self.by_key.get_mut(&key) else { continue };
            queue.remove(&ticket);
            if queue.is_empty() {
                self.by_key.remove(&key);
                self.forget_walk(&key);
            } else if walked != Some(&key) {
                self.walk_no_later_than(&key, i64::MIN);
            }
        }
    }

    /// The keys of a waiter, in its order.
    pub fn keys(&self, ticket: Ticket) -> &[K] {
        self.waiters.get(&ticket).map_or(&[], |waiter| &waiter.keys)
    }

    /// Looks at a key's queue at `at_ms`, or earlier if that is planned already.
    pub fn walk_no_later_than(&mut self, key: &K, at_ms: i64) {
        if !self.has_waiters(key) || self.walk_at.get(key).is_some_and(|planned| *planned <= at_ms)
        {
            return;
        }
        self.forget_walk(key);
        self.walks.insert((at_ms, key.clone()));
        self.walk_at.insert(key.clone(), at_ms);
    }

    /// Looks at the queues of all keys as soon as possible.
    pub fn walk_all(&mut self) {
        let keys: Vec<K> = self.by_key.keys().cloned().collect();
        keys.iter().for_each(|key| self.walk_no_later_than(key, i64::MIN));
    }

    fn forget_walk(&mut self, key: &K) {
        if let Some(at_ms) = self.walk_at.remove(key) {
            self.walks.remove(&(at_ms, key.clone()));
        }
    }

    /// When there is something to do: the earliest walk or deadline. May be long ago.
    pub fn next_ms(&self) -> Option<i64> {
        let walk = self.walks.first().map(|(at_ms, _)| *at_ms);
        let deadline = self.deadlines.first().map(|(at_ms, _)| *at_ms);
        walk.into_iter().chain(deadline).min()
    }

    /// The next key whose queue is to be walked by `now_ms`.
    pub fn pop_walk(&mut self, now_ms: i64) -> Option<K> {
        let (_, key) = self.walks.first().filter(|(at_ms, _)| *at_ms <= now_ms)?.clone();
        self.forget_walk(&key);
        Some(key)
    }

    /// The next waiter whose deadline has come by `now_ms`. It stays until it leaves.
    pub fn expired(&self, now_ms: i64) -> Option<Ticket> {
        self.deadlines.first().filter(|(at_ms, _)| *at_ms <= now_ms).map(|(_, ticket)| *ticket)
    }

    /// The first waiter on a key, or the first behind a ticket.
    pub fn next_on(&self, key: &K, behind: Option<Ticket>) -> Option<Ticket> {
        let queue = self.by_key.get(key)?;
        let from = behind.map_or(0, |ticket| ticket.saturating_add(1));
        queue.range(from..).next().copied()
    }

    /// Notes that a waiter was denied by these keys, each for so many ms, on a walk of `walked`.
    /// Says whether the walk goes on to the next one.
    pub fn denied(&mut self, walked: &K, by: &[(K, i64)], now_ms: i64) -> bool {
        for (key, wait_ms) in by {
            self.walk_no_later_than(key, now_ms.saturating_add((*wait_ms).max(1)));
        }
        by.iter().all(|(key, _)| key != walked)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A server with a simulated clock: each key gives a permit at certain times.
    #[derive(Default)]
    struct World {
        queue: Queue<&'static str>,
        now_ms: i64,
        /// When the next permits of a key come free.
        free_at: BTreeMap<&'static str, Vec<i64>>,
        wants: BTreeMap<Ticket, Vec<&'static str>>,
        served: Vec<(i64, Ticket)>,
        expired: Vec<(i64, Ticket)>,
    }

    impl World {
        fn new(free_at: &[(&'static str, &[i64])]) -> World {
            let free_at = free_at.iter().map(|(key, times)| (*key, times.to_vec())).collect();
            World { free_at, ..World::default() }
        }

        fn join(&mut self, keys: &[&'static str], deadline_ms: i64) -> Ticket {
            let ticket = self.queue.join(keys.to_vec(), deadline_ms);
            self.wants.insert(ticket, keys.to_vec());
            keys.iter().for_each(|key| self.queue.walk_no_later_than(key, self.now_ms));
            ticket
        }

        fn denied_by(&self, ticket: Ticket) -> Vec<(&'static str, i64)> {
            let wait = |key: &&'static str| {
                let free_at = self.free_at[key].first().copied().unwrap_or(i64::MAX / 2);
                (free_at > self.now_ms).then_some((*key, free_at - self.now_ms))
            };
            self.wants[&ticket].iter().filter_map(wait).collect()
        }

        fn work(&mut self) {
            while let Some(key) = self.queue.pop_walk(self.now_ms) {
                let mut at = None;
                while let Some(ticket) = self.queue.next_on(&key, at) {
                    at = Some(ticket);
                    let by = self.denied_by(ticket);
                    if by.is_empty() {
                        for key in &self.wants[&ticket] {
                            self.free_at.get_mut(key).unwrap().remove(0);
                        }
                        self.queue.leave(ticket, Some(&key));
                        self.served.push((self.now_ms, ticket));
                    } else if !self.queue.denied(&key, &by, self.now_ms) {
                        break;
                    }
                }
            }
            while let Some(ticket) = self.queue.expired(self.now_ms) {
                self.queue.leave(ticket, None);
                self.expired.push((self.now_ms, ticket));
            }
        }

        /// Lets time pass, from event to event.
        fn run(&mut self, until_ms: i64) {
            self.work();
            while let Some(next_ms) = self.queue.next_ms().filter(|next_ms| *next_ms <= until_ms) {
                self.now_ms = self.now_ms.max(next_ms);
                self.work();
            }
            self.now_ms = until_ms;
        }
    }

    #[test]
    fn all_are_served_in_order_of_arrival_as_permits_come_free() {
        let mut world = World::new(&[("a", &[0, 20, 40, 60])]);
        let tickets: Vec<_> = (0..4).map(|_| world.join(&["a"], 1000)).collect();
        world.run(1000);
        let expected: Vec<_> = [0, 20, 40, 60].into_iter().zip(tickets).collect();
        assert_eq!(world.served, expected);
        assert!(world.queue.is_empty() && world.queue.next_ms().is_none());
    }

    #[test]
    fn one_short_key_does_not_stop_those_who_do_not_need_it() {
        let mut world = World::new(&[("slow", &[500]), ("fast", &[0, 10])]);
        let both = world.join(&["slow", "fast"], 1000);
        let fast = world.join(&["fast"], 1000);
        world.run(1000);
        assert_eq!(world.served, [(0, fast), (500, both)]);
    }

    #[test]
    fn a_waiter_on_several_keys_takes_none_until_it_can_take_all() {
        let mut world = World::new(&[("a", &[0]), ("b", &[70])]);
        let both = world.join(&["a", "b"], 1000);
        world.run(69);
        assert_eq!((world.served.len(), world.free_at["a"].len()), (0, 1));
        world.run(1000);
        assert_eq!(world.served, [(70, both)]);
    }

    #[test]
    fn nobody_overtakes_on_the_key_that_is_short() {
        let mut world = World::new(&[("a", &[30, 31]), ("b", &[0, 0])]);
        let first = world.join(&["a", "b"], 1000);
        let second = world.join(&["a"], 1000);
        world.run(1000);
        assert_eq!(world.served, [(30, first), (31, second)]);
    }

    #[test]
    fn a_deadline_ends_the_wait_and_the_next_one_is_looked_at() {
        let mut world = World::new(&[("a", &[100])]);
        let short = world.join(&["a"], 50);
        let long = world.join(&["a"], 500);
        world.run(1000);
        assert_eq!(world.expired, [(50, short)]);
        assert_eq!(world.served, [(100, long)]);
    }

    #[test]
    fn one_who_vanished_takes_nothing() {
        let mut world = World::new(&[("a", &[100])]);
        let gone = world.join(&["a"], 500);
        let next = world.join(&["a"], 500);
        world.run(10);
        world.queue.leave(gone, None);
        world.queue.leave(gone, None);
        world.run(1000);
        assert_eq!(world.served, [(100, next)]);
    }

    #[test]
    fn a_wake_looks_before_the_planned_time() {
        let mut world = World::new(&[("a", &[900])]);
        let waiter = world.join(&["a"], 1000);
        world.run(10);
        world.free_at.insert("a", vec![0]);
        world.queue.walk_all();
        world.run(11);
        assert_eq!(world.served, [(10, waiter)]);
    }

    #[test]
    fn ten_thousand_on_one_key_cost_one_look_a_permit() {
        let times: Vec<i64> = (0..10_000).collect();
        let mut world = World::new(&[("a", &times)]);
        let tickets: Vec<_> = (0..10_000).map(|_| world.join(&["a"], i64::MAX)).collect();
        world.run(10_000);
        assert_eq!(world.served, times.into_iter().zip(tickets).collect::<Vec<_>>());
    }
}
