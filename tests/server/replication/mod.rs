//! Replicas: they hold what their primary holds, they are sent the right things, and one takes over.

pub mod failover;
mod faults;
mod propagation;
mod replicas;
mod swapdb;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use redis::Value;
use testkit::{Client, Random, Reply, Server, Words, acquire, wait_for_replica, words};

use crate::calls::ALGORITHMS;

/// Some of eight keys, each at most once.
fn some_keys(random: &mut Random) -> String {
    let first = random.below(8);
    let keys: Vec<String> =
        (0..=random.below(4)).map(|i| format!("r{}", (first + i * 3) % 8)).collect();
    keys.join(" ")
}

fn random_rule(random: &mut Random) -> String {
    let window = random.pick(&["50ms", "400ms", "2s", "1m", "1d"]);
    let limit = random.pick(&["0", "1", "3", "20", "300", "100000"]);
    format!("WINDOW {window} LIMIT {limit} ALGO {}", random.pick(&ALGORITHMS))
}

/// A mix of calls whose rule changes now and then.
pub struct Traffic {
    random: Random,
    rule: String,
}

impl Traffic {
    pub fn new(seed: u64) -> Traffic {
        let mut random = Random(seed);
        let rule = random_rule(&mut random);
        Traffic { random, rule }
    }

    fn call(&mut self) -> Words {
        if self.random.one_in(5) {
            self.rule = random_rule(&mut self.random);
        }
        acquire(&some_keys(&mut self.random), &self.rule)
    }

    /// Runs this many steps, and returns how many calls were granted.
    pub fn run(&mut self, client: &mut Client, steps: usize) -> i64 {
        let mut granted = 0;
        for _ in 0..steps {
            match self.random.below(12) {
                0 => {
                    client.run("MULTI");
                    for _ in 0..=self.random.below(4) {
                        client.run(self.call());
                    }
                    let Value::Array(replies) = client.run("EXEC") else { panic!("no array") };
                    granted += replies.iter().map(|reply| Reply::of(reply).granted).sum::<i64>();
                }
                1 => {
                    let keys = some_keys(&mut self.random);
                    let script = "local n = 0 for i = 1, 3 do \
                        n = n + redis.call('RL.ACQUIRE', KEYS[1], unpack(ARGV))[1] end return n";
                    let first = keys.split(' ').next().expect("a key");
                    let call = words("EVAL").arg(script).then("1").then(first).then(&self.rule);
                    granted += client.int(call);
                }
                2 if self.random.one_in(4) => {
                    let [from, to] = [self.random.below(8), self.random.below(8)];
                    let commands = [
                        format!("DEL r{from}"),
                        format!("COPY r{from} r{} REPLACE", (from + 1 + to % 7) % 8),
                        format!("PERSIST r{from}"),
                        format!("PEXPIRE r{from} 700"),
                    ];
                    client.run(commands[self.random.below(4)].as_str());
                }
                _ => {
                    let calls: Vec<Words> = (0..5).map(|_| self.call()).collect();
                    for reply in client.pipeline(calls) {
                        granted += Reply::of(&reply.expect("a reply")).granted;
                    }
                }
            }
        }
        granted
    }
}

/// Asserts that both have the same data, and that every key expires at the same time.
pub fn assert_same(primary: &Server, replica: &Server) {
    let (mut ahead, mut behind) = (primary.client(), replica.client());
    // Keys would go on expiring during the comparison.
    ahead.run("DEBUG SET-ACTIVE-EXPIRE 0");
    wait_for_replica(primary, replica);
    let keys = ahead.keys();
    assert!(!keys.is_empty());
    for key in &keys {
        let [a, b] = [&mut ahead, &mut behind].map(|client| {
            let digest = client.run(format!("DEBUG DIGEST-VALUE {key}"));
            (client.int(format!("PEXPIRETIME {key}")), digest)
        });
        assert_eq!(a, b, "{key}");
    }
    assert_eq!(ahead.text("DEBUG DIGEST"), behind.text("DEBUG DIGEST"));
    ahead.run("DEBUG SET-ACTIVE-EXPIRE 1");
}

/// Runs `work` during traffic, which has ended when this returns.
pub fn during_traffic<T>(server: &Server, seed: u64, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, mut traffic) = (server.client(), Traffic::new(seed));
            while !done.load(Ordering::Relaxed) {
                traffic.run(&mut client, 20);
            }
        });
        // On a panic too.
        let _stop = StopOnDrop(&done);
        work()
    })
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
