//! The queue of waiters on a simulated clock: small worlds whose course is known, and thousands of random ones in which
//! after each step nobody may sleep who could be served.

use std::collections::{BTreeMap, BTreeSet};

use rl_core::queue::{Queue, Task, Ticket};

const NEVER: i64 = i64::MAX / 2;

/// A key: permits that come free at known times.
#[derive(Clone, Debug, Default)]
struct Limit {
    /// When each permit is free.
    free_at: Vec<i64>,
    blocked_until: i64,
    /// It holds something else than a limiter.
    broken: bool,
}

#[derive(Clone, Debug)]
struct Want {
    keys: Vec<String>,
    cost: usize,
    deadline: i64,
}

/// What a look finds.
#[derive(Debug, PartialEq)]
enum Look {
    Served,
    /// The same call, arriving now, would not wait.
    Over,
    Waits {
        key: usize,
        until: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Served,
    /// Told before its time.
    Told,
    Expired,
    Left,
}

/// A server: it looks, and serves whom it can.
#[derive(Default)]
struct World {
    queue: Queue,
    now: i64,
    limits: BTreeMap<String, Limit>,
    wants: BTreeMap<Ticket, Want>,
    ends: Vec<(i64, Ticket, End)>,
    /// Keys of slots that are moving: whoever needs one is refused for now.
    moving: BTreeSet<String>,
    refused_until: BTreeMap<Ticket, i64>,
    tasks: usize,
    /// Keys that were looked at.
    keys_looked_at: usize,
}

impl World {
    fn new(limits: &[(&str, &[i64])]) -> World {
        let limit = |times: &[i64]| Limit { free_at: times.to_vec(), ..Limit::default() };
        let limits = limits.iter().map(|(key, times)| (key.to_string(), limit(times))).collect();
        World { limits, ..World::default() }
    }

    /// When a key has room, if it has none now.
    fn until(&self, want: &Want, key: usize) -> Option<i64> {
        let limit = &self.limits[&want.keys[key]];
        let mut times = limit.free_at.clone();
        times.sort_unstable();
        let free_at = times.get(want.cost - 1).copied().unwrap_or(NEVER);
        Some(free_at.max(limit.blocked_until)).filter(|until| *until > self.now)
    }

    fn look(&self, want: &Want) -> Look {
        if want.keys.iter().any(|key| self.limits[key].broken) {
            return Look::Over;
        }
        let waits = (0..want.keys.len()).filter_map(|key| Some((self.until(want, key)?, key)));
        match waits.max_by_key(|(until, key)| (*until, std::cmp::Reverse(*key))) {
            None => Look::Served,
            Some((until, _)) if until > want.deadline => Look::Over,
            Some((until, key)) => Look::Waits { key, until },
        }
    }

    fn join(&mut self, keys: &[&str], cost: usize, deadline: i64) -> Ticket {
        let keys: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
        let want = Want { keys, cost, deadline };
        let ticket = self.queue.join(want.keys.iter().map(|key| key.as_bytes()), deadline);
        self.wants.insert(ticket, want);
        self.act_on_look(ticket);
        ticket
    }

    fn end(&mut self, ticket: Ticket, end: End) {
        self.wants.remove(&ticket).expect("it waits");
        self.queue.leave(ticket, self.now);
        self.ends.push((self.now, ticket, end));
    }

    /// Takes what it wants of each key.
    fn serve(&mut self, ticket: Ticket) {
        let want = self.wants[&ticket].clone();
        if want.keys.iter().any(|key| self.moving.contains(key)) {
            self.refused_until.insert(ticket, self.now + 50);
            return self.queue.step_aside(ticket, self.now + 50, self.now);
        }
        self.assert_its_turn(ticket, &want);
        for key in &want.keys {
            let limit = self.limits.get_mut(key).expect("a limit");
            for _ in 0..want.cost {
                let at = limit.free_at.iter().position(|at| *at <= self.now).expect("a permit");
                limit.free_at.remove(at);
            }
            self.queue.has_room(key.as_bytes(), self.now);
        }
        self.end(ticket, End::Served);
    }

    /// Nobody who waits for one key only is overtaken on it, unless the server refuses him.
    fn assert_its_turn(&self, ticket: Ticket, want: &Want) {
        for (earlier, other) in self.wants.range(..ticket) {
            let passed = other.keys.len() == 1 && want.keys.contains(&other.keys[0]);
            let refused = self.refused_until.get(earlier).is_some_and(|until| *until > self.now);
            assert!(!passed || refused, "{ticket} overtakes {earlier} at {}", self.now);
        }
    }

    fn act_on_look(&mut self, ticket: Ticket) {
        let Some(want) = self.wants.get(&ticket).cloned() else { panic!("{ticket} is gone") };
        self.keys_looked_at += want.keys.len();
        match self.look(&want) {
            Look::Served => match self.queue.behind(ticket) {
                Some(key) => self.queue.stand(ticket, key, self.now, self.now),
                None => self.serve(ticket),
            },
            Look::Over => self.end(ticket, End::Told),
            Look::Waits { key, until } => self.queue.stand(ticket, key, until, self.now),
        }
    }

    fn act(&mut self, task: Task) {
        match task {
            Task::Look(ticket) => self.act_on_look(ticket),
            Task::First(ticket, key) => {
                self.keys_looked_at += 1;
                let want = &self.wants[&ticket];
                match self.until(want, key) {
                    Some(until)
                        if until <= want.deadline && !self.limits[&want.keys[key]].broken =>
                    {
                        self.queue.stand(ticket, key, until, self.now);
                    }
                    _ => self.act_on_look(ticket),
                }
            }
            Task::News(ticket, key) => {
                self.keys_looked_at += 1;
                let want = &self.wants[&ticket];
                let late = self.until(want, key).is_some_and(|until| until > want.deadline);
                if late || self.limits[&want.keys[key]].broken {
                    self.act_on_look(ticket);
                }
            }
        }
    }

    /// Works as long as there is anything to do now, but for so many steps at most. Says whether all is done.
    fn work(&mut self, mut steps: usize) -> bool {
        while steps > 0 {
            steps -= 1;
            self.tasks += 1;
            let mut worked = self.queue.tidy();
            if let Some(ticket) = self.queue.expired(self.now) {
                worked = true;
                self.end(ticket, End::Expired);
            }
            if let Some(task) = self.queue.next(self.now) {
                worked = true;
                self.act(task);
            }
            if !worked {
                return true;
            }
        }
        false
    }

    fn work_all(&mut self) {
        let links: usize = self.wants.values().map(|want| want.keys.len()).sum();
        assert!(self.work(100_000 + 10 * links), "there is no end of it: {:?}", self.queue);
    }

    /// Lets time pass, from event to event.
    fn run(&mut self, until: i64) {
        self.work_all();
        while let Some(at) = self.queue.next_at().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.work_all();
        }
        self.now = until;
    }

    fn ended(&self, end: End) -> Vec<(i64, Ticket)> {
        let of = self.ends.iter().filter(|(_, _, how)| *how == end);
        of.map(|(at, ticket, _)| (*at, *ticket)).collect()
    }

    /// With nothing left to do, whoever could be served is behind somebody whom one of its keys denies.
    fn assert_nobody_sleeps_too_long(&self) {
        for (ticket, want) in &self.wants {
            let refused = self.refused_until.get(ticket).is_some_and(|until| *until > self.now);
            let hopeless = want.keys.iter().map(|key| &self.limits[key]);
            let hopeless =
                hopeless.map(|limit| limit.broken || limit.blocked_until > want.deadline);
            assert!(!hopeless.fold(false, |a, b| a | b), "{ticket} was not told: {want:?}");
            if self.look(want) != Look::Served || refused {
                continue;
            }
            let stopped_by = self.wants.range(..ticket).find(|(_, other)| {
                let shared = |key: &usize| want.keys.contains(&other.keys[*key]);
                (0..other.keys.len()).filter(shared).any(|key| self.until(other, key).is_some())
            });
            assert!(stopped_by.is_some(), "{ticket} sleeps at {}: {want:?}", self.now);
        }
    }
}

#[test]
fn all_are_served_in_order_of_arrival_as_permits_come_free() {
    let mut world = World::new(&[("a", &[10, 20, 40, 60])]);
    let tickets: Vec<_> = (0..4).map(|_| world.join(&["a"], 1, 1000)).collect();
    world.run(1000);
    let expected: Vec<_> = [10, 20, 40, 60].into_iter().zip(tickets).collect();
    assert_eq!(world.ended(End::Served), expected);
    assert!(world.queue.is_empty() && world.queue.next_at().is_none());
}

#[test]
fn one_short_key_does_not_stop_those_who_do_not_need_it() {
    let mut world = World::new(&[("slow", &[500]), ("fast", &[5, 10])]);
    let both = world.join(&["slow", "fast"], 1, 1000);
    let fast = world.join(&["fast"], 1, 1000);
    world.run(1000);
    assert_eq!(world.ended(End::Served), [(5, fast), (500, both)]);
}

#[test]
fn a_waiter_on_several_keys_takes_none_until_it_can_take_all() {
    let mut world = World::new(&[("a", &[5]), ("b", &[70])]);
    let both = world.join(&["a", "b"], 1, 1000);
    world.run(69);
    assert_eq!((world.ends.len(), world.limits["a"].free_at.len()), (0, 1));
    world.run(1000);
    assert_eq!(world.ended(End::Served), [(70, both)]);
}

#[test]
fn nobody_overtakes_on_the_key_that_is_short() {
    let mut world = World::new(&[("a", &[30, 31]), ("b", &[1, 1])]);
    let first = world.join(&["a", "b"], 1, 1000);
    let second = world.join(&["a"], 1, 1000);
    world.run(1000);
    assert_eq!(world.ended(End::Served), [(30, first), (31, second)]);
    // Not even one that needs less.
    let mut world = World::new(&[("a", &[1, 2, 3, 4, 50, 51])]);
    let large = world.join(&["a"], 5, 1000);
    let small = world.join(&["a"], 1, 1000);
    world.run(1000);
    assert_eq!(world.ended(End::Served), [(50, large), (51, small)]);
}

/// It has room on both, but one is before it on the second.
#[test]
fn one_that_comes_by_another_key_does_not_overtake_either() {
    let mut world = World::new(&[("a", &[20, 20]), ("b", &[1, 1, 40])]);
    let large = world.join(&["b"], 3, 1000);
    let small = world.join(&["a", "b"], 1, 1000);
    world.run(30);
    assert!(world.ends.is_empty(), "{:?}", world.ends);
    world.limits.get_mut("b").expect("b").free_at.push(1);
    world.queue.has_room(b"b", world.now);
    world.run(35);
    assert_eq!(world.ended(End::Served), [(30, large)]);
    world.run(1000);
    assert_eq!(world.ended(End::Served), [(30, large), (40, small)]);
}

#[test]
fn a_deadline_ends_the_wait_and_the_next_one_is_looked_at() {
    let mut world = World::new(&[("a", &[40])]);
    let large = world.join(&["a"], 1, 50);
    world.limits.get_mut("a").expect("a").free_at = vec![100];
    let long = world.join(&["a"], 1, 500);
    world.run(39);
    assert_eq!(world.ends, []);
    world.run(1000);
    // At the moment that was promised it turns out that it cannot be in time.
    assert_eq!(world.ends, [(40, large, End::Told), (100, long, End::Served)]);
}

#[test]
fn one_who_vanished_takes_nothing() {
    let mut world = World::new(&[("a", &[100])]);
    let gone = world.join(&["a"], 1, 500);
    let next = world.join(&["a"], 1, 500);
    world.run(10);
    world.end(gone, End::Left);
    world.queue.leave(gone, world.now);
    world.run(1000);
    assert_eq!(world.ended(End::Served), [(100, next)]);
}

#[test]
fn a_wake_looks_before_the_planned_time() {
    for all in [false, true] {
        let mut world = World::new(&[("a", &[900])]);
        let waiter = world.join(&["a"], 1, 1000);
        world.run(10);
        world.limits.get_mut("a").expect("a").free_at = vec![0];
        match all {
            true => world.queue.all_changed(),
            false => assert!(world.queue.has_room(b"a", world.now)),
        }
        world.run(11);
        assert_eq!(world.ended(End::Served), [(10, waiter)]);
    }
}

/// Whatever it was that keeps a waiter: it is told as soon as another of its keys makes it hopeless.
#[test]
fn bad_news_of_a_key_reaches_all_who_wait_for_it() {
    let mut world = World::new(&[("a", &[400, 900]), ("b", &[0, 0, 0])]);
    let short = world.join(&["a", "b"], 1, 500);
    let long = world.join(&["a", "b"], 1, 5000);
    world.run(10);
    world.limits.get_mut("b").expect("b").blocked_until = 2000;
    world.queue.changed(b"b", world.now);
    world.run(11);
    assert_eq!(world.ends, [(10, short, End::Told)]);
    world.run(5000);
    assert_eq!(world.ends[1..], [(2000, long, End::Served)]);
}

#[test]
fn one_that_the_server_refuses_for_a_time_is_in_nobodys_way() {
    let mut world = World::new(&[("a", &[20, 20, 20]), ("moving", &[0])]);
    world.moving.insert("moving".into());
    let refused = world.join(&["a", "moving"], 1, 1000);
    let other = world.join(&["a"], 1, 1000);
    world.run(60);
    assert_eq!(world.ended(End::Served), [(20, other)]);
    world.moving.clear();
    world.run(1000);
    assert_eq!(world.ended(End::Served), [(20, other), (70, refused)]);
}

#[test]
fn ten_thousand_on_one_key_cost_one_look_a_permit() {
    let times: Vec<i64> = (1..=10_000).collect();
    let mut world = World::new(&[("a", &times)]);
    let tickets: Vec<_> = (0..10_000).map(|_| world.join(&["a"], 1, NEVER)).collect();
    world.limits.get_mut("a").expect("a").free_at.reverse();
    world.keys_looked_at = 0;
    world.run(10_000);
    assert_eq!(world.ended(End::Served), times.into_iter().zip(tickets).collect::<Vec<_>>());
    assert!(world.keys_looked_at <= 3 * 10_000, "{}", world.keys_looked_at);
}

/// What happens is noted in no time, and what follows is a look at each key of each waiter at most.
#[test]
fn nothing_makes_work_in_waiters_times_keys() {
    const WAITERS: usize = 50;
    const KEYS: usize = 200;
    let names: Vec<String> = (0..KEYS).map(|i| format!("k{i}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::default();
    for name in &names {
        world.limits.insert(name.clone(), Limit { free_at: vec![0; WAITERS], ..Limit::default() });
    }
    world.limits.get_mut("k7").expect("k7").free_at = vec![1000; WAITERS];
    let tickets: Vec<_> = (0..WAITERS).map(|_| world.join(&keys, 1, NEVER)).collect();
    let looks = |world: &mut World, what: &str, most: usize| {
        world.keys_looked_at = 0;
        world.work_all();
        assert!(world.keys_looked_at <= most, "{what}: {} keys", world.keys_looked_at);
    };
    world.end(tickets[20], End::Left);
    looks(&mut world, "one in the middle leaves", 0);
    world.end(tickets[0], End::Left);
    looks(&mut world, "the first leaves", 1);
    for name in &names {
        world.queue.has_room(name.as_bytes(), 0);
    }
    looks(&mut world, "every key may have room", 1);
    world.queue.changed(b"k3", 0);
    looks(&mut world, "a key is blocked", WAITERS);
    for _ in 0..100 {
        world.queue.all_changed();
    }
    looks(&mut world, "all may have changed", 2 * WAITERS * KEYS);
    assert_eq!(world.queue.len(), WAITERS - 2);
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Something happens, and the queue is told what the module is told.
fn disturb(world: &mut World, random: &mut Random) {
    let name = KEYS[random.below(KEYS.len())];
    let now = world.now;
    let mut limit = world.limits[name].clone();
    match random.below(10) {
        0..=2 => limit.free_at.push(now),
        3 => limit.free_at.push(now + random.below(40) as i64),
        4 => limit.blocked_until = now + random.below(100) as i64,
        5 => limit.blocked_until = 0,
        6 => limit.broken = random.one_in(3),
        7 => {
            // Somebody who does not wait takes a permit: no news to anybody.
            let free = limit.free_at.iter().position(|at| *at <= now);
            if let Some(at) = free {
                limit.free_at[at] = now + 1 + random.below(30) as i64;
            }
        }
        8 => {
            if !world.moving.remove(name) && random.one_in(4) {
                world.moving.insert(name.into());
            }
        }
        _ => {
            let waiting: Vec<Ticket> = world.wants.keys().copied().collect();
            if !waiting.is_empty() {
                world.end(waiting[random.below(waiting.len())], End::Left);
            }
        }
    }
    let before = world.limits.insert(name.into(), limit.clone()).expect("a limit");
    if before.blocked_until != limit.blocked_until || before.broken != limit.broken {
        match random.one_in(4) {
            true => world.queue.all_changed(),
            false => drop(world.queue.changed(name.as_bytes(), now)),
        }
    } else if before.free_at != limit.free_at {
        world.queue.has_room(name.as_bytes(), now);
    }
}

fn random_world(seed: u64) {
    let mut random = Random(seed);
    let mut world = World::default();
    for key in KEYS {
        let free_at = (0..random.below(4)).map(|_| random.below(60) as i64).collect();
        world.limits.insert(key.into(), Limit { free_at, ..Limit::default() });
    }
    for _ in 0..200 {
        match random.below(4) {
            0 => {
                let mut keys = KEYS.to_vec();
                let count = [1, 1, 1, 2, 2, 3, 6][random.below(7)];
                while keys.len() > count {
                    keys.remove(random.below(keys.len()));
                }
                let cost = 1 + random.below(2);
                let deadline = world.now + 1 + random.below(200) as i64;
                world.join(&keys, cost, deadline);
            }
            1 => disturb(&mut world, &mut random),
            // Cut short.
            2 => drop(world.work(random.below(4))),
            _ => {
                let until = world.now + random.below(30) as i64;
                world.work_all();
                world.assert_nobody_sleeps_too_long();
                while let Some(at) = world.queue.next_at().filter(|at| *at <= until) {
                    world.now = world.now.max(at);
                    world.work_all();
                    world.assert_nobody_sleeps_too_long();
                }
                world.now = until;
            }
        }
    }
    world.moving.clear();
    world.run(100_000);
    assert!(world.wants.is_empty() && world.queue.is_empty(), "{:?}", world.wants);
    assert_eq!(world.queue.next_at(), None);
}

#[test]
fn in_random_worlds_nobody_sleeps_past_its_moment() {
    for seed in 0..3000 {
        let world = std::panic::catch_unwind(|| random_world(seed));
        assert!(world.is_ok(), "seed {seed}");
    }
}
