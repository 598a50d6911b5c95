//! Random rounds of calls that wait, of events that end waits, and of changes meanwhile. After each round every
//! client that still waits must have a reason, which RL.PEEK tells: its keys deny it, or deny a client that came
//! before it. In the end no client waits and no memory is left.
//!
//! `RL_WAIT_ROUNDS=10000` is the long run, `RL_WAIT_SEED` another one.

use std::collections::BTreeSet;
use std::env;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Random, Server, wait_for, words};

use crate::calls::with_keys;
use crate::waiting::{AT_ONCE, GRACE, line, no_waiters, two_kinds};

/// Too many to be answered in one go.
const CLIENTS: usize = 60;
const KEYS: [&str; 5] = ["{t}a", "{t}b", "{t}c", "{t}d", "{t}e"];

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A client, and the call with which it waits.
struct Seat {
    client: Client,
    id: i64,
    waits: Option<Wait>,
}

impl Seat {
    fn some(server: &Server) -> Vec<Seat> {
        let seat = |_| {
            let mut client = server.client();
            Seat { id: client.int("CLIENT ID"), client, waits: None }
        };
        (0..CLIENTS).map(seat).collect()
    }

    fn connect(&mut self, server: &Server) {
        self.client = server.client();
        self.id = self.client.int("CLIENT ID");
    }
}

struct Wait {
    arrived: usize,
    keys: Vec<&'static str>,
    rules: String,
    since: Instant,
}

struct Rounds {
    random: Random,
    server: Server,
    control: Client,
    seats: Vec<Seat>,
    arrived: usize,
    pauses: bool,
    granted: usize,
    denied: usize,
}

impl Rounds {
    fn new(server: Server, seed: u64) -> Rounds {
        let (control, seats) = (server.client(), Seat::some(&server));
        let random = Random(seed);
        Rounds { random, server, control, seats, arrived: 0, pauses: false, granted: 0, denied: 0 }
    }

    /// Lets some more clients begin to wait.
    fn arrive(&mut self, how_many: usize) {
        for at in 0..self.seats.len() {
            if self.seats[at].waits.is_some() || !self.random.one_in(CLIENTS / how_many) {
                continue;
            }
            let mut keys: Vec<&str> = KEYS.to_vec();
            let count = [1, 1, 1, 2, 2, 3, 5][self.random.below(7)];
            while keys.len() > count {
                keys.remove(self.random.below(keys.len()));
            }
            let random = &mut self.random;
            let (cost, timeout) = (1 + random.below(2), 20 + random.below(400));
            let rules = match random.below(5) {
                0 => format!("WINDOW 100ms LIMIT 3 ALGO sliding COST {cost} BLOCK 5"),
                1 => format!("WINDOW 100ms LIMIT 3 ALGO bucket COST {cost} NAME plan"),
                2 => format!("WINDOW 50ms LIMIT 3 ALGO fixed COST {cost}"),
                _ => {
                    let lease = "WINDOW 300ms LIMIT 3 ALGO concurrency";
                    format!("{lease} COST {cost} NAME lease ID w{at}")
                }
            };
            let call = line(&keys.join(" "), &format!("{rules} TIMEOUT {timeout}"));
            if self.seats[at].client.try_send(&[words("RL.ACQUIREX").then(&call)]).is_err() {
                // It was killed.
                self.seats[at].connect(&self.server);
                continue;
            }
            self.arrived += 1;
            let (arrived, since) = (self.arrived, Instant::now());
            self.seats[at].waits = Some(Wait { arrived, keys, rules, since });
        }
    }

    /// Runs a command that concerns some or all of them.
    fn happen(&mut self) {
        let random = &mut self.random;
        let key = random.pick(&KEYS);
        let seat = random.below(CLIENTS);
        let command = match random.below(20) {
            0 => format!("DEL {key}"),
            1 => format!("RL.BLOCK {key} FOR {}", random.below(150)),
            2 => format!("RL.BLOCK {key} FOR 0"),
            3 => format!("RL.EXEMPT {key} FOR {}", random.below(10)),
            4 => format!("RL.REFUND {key} COST 2"),
            5 => "RL.POLICY SET plan WINDOW 20ms LIMIT 5 ALGO bucket FOR 30".into(),
            6 => "RL.POLICY SET lease WINDOW 1s LIMIT 5 ALGO concurrency".into(),
            7 => "RL.POLICY DEL plan lease".into(),
            8 => format!("CLIENT KILL ID {}", self.seats[seat].id),
            9 => format!("CLIENT UNBLOCK {}", self.seats[seat].id),
            10 => format!("CLIENT UNBLOCK {} ERROR", self.seats[seat].id),
            11 => format!("RENAME {key} {{t}}b"),
            12 if random.one_in(4) => "FLUSHALL".into(),
            13 => format!("PEXPIRE {key} 5"),
            14 if random.one_in(3) => format!("SET {key} text PX 5"),
            15 => "CONFIG SET rl.sliding-resolution 5000".into(),
            16 if random.one_in(4) => "CONFIG SET rl.enforce shadow".into(),
            17 => "CONFIG SET rl.enforce yes".into(),
            18 if random.one_in(4) => {
                self.pauses = true;
                "CLIENT PAUSE 10 WRITE".into()
            }
            19 => format!("RL.ACQUIREX {}", line(key, "WINDOW 100ms LIMIT 3 ALGO bucket")),
            _ => format!("RL.RELEASE {} ID w{seat}", KEYS.join(" ")),
        };
        // A command that fails changes nothing.
        let _ = self.control.call(command);
    }

    /// Receives the answers of all clients that no longer wait.
    fn collect(&mut self) {
        let list = self.control.text("CLIENT LIST");
        let field = |line: &str, name: &str| {
            let words = line.split(' ').find_map(|word| word.strip_prefix(name).map(str::to_owned));
            words.unwrap_or_default()
        };
        let blocked = |line: &str| field(line, "flags=").contains('b');
        let blocked: BTreeSet<i64> = list
            .lines()
            .filter(|line| blocked(line))
            .filter_map(|line| field(line, "id=").parse().ok())
            .collect();
        for seat in &mut self.seats {
            // A call that was only just sent may not wait yet.
            let new = seat.waits.as_ref().is_some_and(|wait| wait.since.elapsed() < AT_ONCE / 4);
            if seat.waits.is_none() || blocked.contains(&seat.id) || new {
                continue;
            }
            match seat.client.receive() {
                Ok(redis::Value::Array(reply)) if reply[0] != redis::Value::Int(0) => {
                    self.granted += 1;
                }
                Ok(_) => self.denied += 1,
                Err(error)
                    if ["UNBLOCKED", "WRONGTYPE"].iter().any(|known| error.starts_with(known)) => {}
                Err(_) => {
                    seat.connect(&self.server);
                }
            }
            seat.waits = None;
        }
    }

    /// Clients that wait although they could be served and no client before them wants the same keys.
    fn without_reason(&mut self) -> BTreeSet<usize> {
        self.collect();
        let mut waiting: Vec<&Wait> =
            self.seats.iter().filter_map(|seat| seat.waits.as_ref()).collect();
        waiting.sort_by_key(|wait| wait.arrived);
        if waiting.is_empty() {
            return BTreeSet::new();
        }
        let peeks = waiting.iter().map(|wait| {
            let call = line(&wait.keys.join(" "), &format!("{} WITHKEYS", wait.rules));
            words("RL.PEEK").then(&call)
        });
        let peeks = self.control.pipeline(peeks);
        let mut denying: BTreeSet<&str> = BTreeSet::new();
        let mut found = BTreeSet::new();
        for (wait, peek) in waiting.iter().zip(peeks) {
            let Ok(peek) = peek else { continue };
            let (reply, keys) = with_keys(&peek);
            if reply.is_grant() && !wait.keys.iter().any(|key| denying.contains(key)) {
                found.insert(wait.arrived);
            }
            let denied = wait.keys.iter().zip(&keys).filter(|(_, key)| key[0] == 0);
            denying.extend(denied.map(|(key, _)| *key));
        }
        found
    }

    /// No client may wait without a reason for longer than a moment.
    fn check(&mut self, round: usize) {
        let mut found = self.without_reason();
        let begun = Instant::now();
        let mut grace = GRACE;
        while !found.is_empty() && grace > 0 {
            if begun.elapsed() > AT_ONCE {
                grace -= 1;
            }
            thread::sleep(Duration::from_millis(2));
            let still = self.without_reason();
            found.retain(|arrived| still.contains(arrived));
        }
        assert!(found.is_empty(), "round {round}: {found:?} sleep past their moment");
    }

    fn round(&mut self, round: usize) {
        match self.random.below(12) {
            0 => self.arrive(CLIENTS),
            1..=5 => self.arrive(6),
            _ => {}
        }
        for _ in 0..self.random.below(4) {
            self.happen();
        }
        if std::mem::take(&mut self.pauses) {
            // No client is served while writes are paused.
            self.control.run("CLIENT UNPAUSE");
        }
        self.check(round);
    }

    /// Waits until all clients are gone, and returns the memory in use.
    fn settle(&mut self) -> i64 {
        self.control.run("CONFIG SET rl.enforce yes");
        wait_for("all to be answered", || {
            self.collect();
            self.seats.iter().all(|seat| seat.waits.is_none()).then_some(())
        });
        no_waiters(&mut self.control);
        self.control.run("FLUSHALL");
        self.control.run("RL.POLICY DEL plan lease");
        // The server keeps buffers for its clients as long as they are there.
        self.seats.clear();
        wait_for("the clients to be gone", || {
            (self.control.info_number("clients", "connected_clients") == 1).then_some(())
        });
        let mut last = i64::MAX;
        wait_for("the memory", || {
            thread::sleep(Duration::from_millis(200));
            // This leaves out remembered strings of rules, which have a bound of their own.
            let remembered = self.control.info_number("rl", "rl_rules_memory");
            let used = self.control.info_number("memory", "used_memory") - remembered;
            let steady = (used - last).abs() < 20_000;
            last = used;
            steady.then_some(used)
        })
    }
}

#[test]
fn nobody_sleeps_past_its_moment_and_nothing_is_left() {
    let rounds = number("RL_WAIT_ROUNDS", 400) as usize;
    let seed = number("RL_WAIT_SEED", 1);
    for server in two_kinds() {
        let mut play = Rounds::new(server, seed);
        // The first rounds let buffers that the server keeps for its clients grow to their size.
        (0..400.max(rounds / 4)).for_each(|round| play.round(round));
        let before = play.settle();
        play.seats = Seat::some(&play.server);
        (0..rounds).for_each(|round| play.round(round));
        let after = play.settle();
        let Rounds { granted, denied, .. } = play;
        eprintln!(
            "{rounds} rounds of seed {seed}: {granted} granted, {denied} denied, {before} bytes, then {after}"
        );
        assert!(granted > rounds / 2 && denied > rounds / 20, "{granted} granted, {denied} denied");
        assert!(after - before < 50_000, "{before} bytes, then {after}");
    }
}
