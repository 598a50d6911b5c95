//! `CL.THROTTLE` answers as redis-cell does, where redis-cell is right.
//!
//! The same random calls go to a server with redis-cell, built from its published crate, and to one with this module.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Server, array, int, wait_for, wait_for_replica};

use crate::calls::peek;

fn start() -> Server {
    Server::builder().module_args("cl-throttle yes").start()
}

/// Limited, limit, remaining, seconds to wait, seconds until full.
fn throttle(client: &mut Client, call: &str) -> [i64; 5] {
    let reply = client.run(format!("CL.THROTTLE {call}"));
    let numbers: Vec<i64> = array(&reply).iter().map(int).collect();
    numbers.try_into().expect("five integers")
}

#[test]
fn there_is_none_unless_it_is_configured() {
    let server = Server::start();
    let mut client = server.client();
    assert!(client.error("CL.THROTTLE k 1 1 1").starts_with("ERR unknown command"));
    let refused = client.error("CONFIG SET rl.cl-throttle yes");
    assert!(refused.contains("immutable"), "{refused}");
    let configured = Server::builder().conf("rl.cl-throttle yes").start();
    assert_eq!(throttle(&mut configured.client(), "k 1 1 1")[0], 0);
    let refused = Server::builder().module_args("cl-throttle maybe").try_start();
    let log = refused.err().expect("no such value");
    assert!(log.contains("cl-throttle must be no or yes, got \"maybe\""), "{log}");
}

#[test]
fn it_answers_as_documented() {
    let server = start();
    let mut client = server.client();
    for call in 0..16 {
        let reply = throttle(&mut client, "user123 15 30 60");
        assert_eq!(reply, [0, 16, 15 - call, -1, 2 * (call + 1)], "call {call}");
    }
    assert_eq!(throttle(&mut client, "user123 15 30 60"), [1, 16, 0, 2, 32]);
    // Quantity 0 only looks.
    let digest = client.text("DEBUG DIGEST");
    assert_eq!(throttle(&mut client, "user123 15 30 60 0"), [0, 16, 0, -1, 32]);
    assert_eq!(throttle(&mut client, "fresh 15 30 60 0"), [0, 16, 16, -1, 0]);
    assert_eq!(client.text("DEBUG DIGEST"), digest);
    // A quantity above the capacity.
    assert_eq!(throttle(&mut client, "fresh 15 30 60 17"), [1, 16, 16, -1, 0]);
    assert_eq!(throttle(&mut client, "fresh 15 30 60 16"), [0, 16, 0, -1, 32]);
    // The wait is for the whole quantity, in seconds, rounded up.
    assert_eq!(throttle(&mut client, "fresh 15 30 60 5"), [1, 16, 0, 10, 32]);
    assert_eq!(throttle(&mut client, "slow 0 1 31536000"), [0, 1, 0, -1, 31_536_000]);
    assert_eq!(throttle(&mut client, "slow 0 1 31536000"), [1, 1, 0, 31_536_000, 31_536_000]);
    assert_eq!(throttle(&mut client, "quick 0 1000 1"), [0, 1, 0, -1, 1]);
}

#[test]
fn its_limiters_are_buckets_like_any_other() {
    let primary = start();
    let mut client = primary.client();
    let replica = Server::builder().replica_of(&primary).start();
    throttle(&mut client, "k 4 1 3600 3");
    let peeked = peek(&mut client, "k", "WINDOW 1h LIMIT 1 ALGO bucket BURST 5");
    assert_eq!((peeked.granted, peeked.limit, peeked.remaining), (1, 5, 1));
    wait_for_replica(&primary, &replica);
    let digest = client.text("DEBUG DIGEST");
    assert_eq!(replica.client().text("DEBUG DIGEST"), digest, "the replica has no CL.THROTTLE");
    client.run("SET text x");
    let error = client.error("CL.THROTTLE text 1 1 1");
    assert_eq!(error, "WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_eq!(client.info_number("rl", "rl_granted"), 1);
}

/// redis-cell 0.2.2 declares no keys, so cluster clients and ACL rules for keys do not see them.
#[test]
fn the_server_knows_its_key() {
    let server = start();
    let mut client = server.client();
    assert_eq!(client.texts("COMMAND GETKEYS CL.THROTTLE k 15 30 60 2"), ["k"]);
    client.run("ACL SETUSER app on >secret ~app:* +cl.throttle");
    client.run("AUTH app secret");
    assert_eq!(throttle(&mut client, "app:k 15 30 60")[0], 0);
    let refused = client.error("CL.THROTTLE k 15 30 60");
    assert!(refused.starts_with("NOPERM"), "{refused}");
}

#[test]
fn numbers_that_cannot_be_are_errors() {
    let server = start();
    let mut client = server.client();
    for (call, error) in [
        ("k -1 1 1", "max_burst must be 0 to 999999999999, got '-1'"),
        ("k x 1 1", "max_burst must be 0 to 999999999999, got 'x'"),
        ("k 1 0 1", "count must be 1 to 1000000000000, got '0'"),
        ("k 1 1.5 1", "count must be 1 to 1000000000000, got '1.5'"),
        ("k 1 1 0", "period must be 1 to 315360000, got '0'"),
        ("k 1 1 315360001", "period must be 1 to 315360000, got '315360001'"),
        ("k 1 1 1 -1", "quantity must be 0 to 1000000000000, got '-1'"),
        (
            "k 1 1 1 9223372036854775808",
            "quantity must be 0 to 1000000000000, got '9223372036854775808'",
        ),
        ("k 1 1 1 1 1", "wrong number of arguments"),
    ] {
        assert_eq!(client.error(format!("CL.THROTTLE {call}")), format!("ERR {error}"), "{call}");
    }
    assert!(client.error("CL.THROTTLE k 1 1").starts_with("ERR wrong number of arguments"));
    assert_eq!(client.int("DBSIZE"), 0);
}

/// A client that sleeps as long as it is told is granted every time.
#[test]
fn who_waits_as_told_is_never_refused_again() {
    let server = start();
    thread::scope(|scope| {
        for call in ["a 0 1 1", "b 2 3 2", "c 4 100 1", "d 0 7 5", "e 9 7 3 4", "f 1 999 1 2"] {
            let mut client = server.client();
            scope.spawn(move || {
                let mut waits = 0;
                while waits < 3 {
                    let [limited, _, _, wait_s, _] = throttle(&mut client, call);
                    if limited == 0 {
                        continue;
                    }
                    assert!(wait_s >= 1, "{call}: told to wait {wait_s} s");
                    thread::sleep(Duration::from_secs(wait_s as u64));
                    let again = throttle(&mut client, call);
                    assert_eq!(
                        again[0], 0,
                        "{call}: refused after a wait of {wait_s} s: {again:?}"
                    );
                    waits += 1;
                }
            });
        }
    });
}

/// redis-cell as a library that a server can load. It is built alone and with the release profile: the crate is a
/// Rust dylib, which would link a shared standard library when others are built along.
pub fn redis_cell() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let test = env::current_exe().expect("the path of the test");
        let target = test.ancestors().nth(3).expect("the target directory").join("redis-cell");
        let status = Command::new(env::var("CARGO").unwrap_or("cargo".into()))
            .args(["build", "--quiet", "--release", "--package", "redis-cell"])
            .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
            .arg("--target-dir")
            .arg(&target)
            .status()
            .expect("cargo");
        assert!(status.success(), "redis-cell does not build");
        target.join("release/libredis_cell.so")
    };
    PATH.get_or_init(build).clone()
}

/// A small pseudo-random generator (Knuth's MMIX constants), for the same calls on each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A limiter of both servers. Its emission interval is a second or more.
struct Quota {
    key: String,
    max_burst: u64,
    count: u64,
    period: u64,
}

impl Quota {
    fn random(random: &mut Random, key: u64) -> Quota {
        let longest = [3, 60, 86_400][random.below(3) as usize];
        let period = 1 + random.below(longest);
        let count = 1 + random.below(period);
        Quota { key: format!("k{key}"), max_burst: random.below(20), count, period }
    }

    fn call(&self, quantity: u64) -> String {
        let Quota { key, max_burst, count, period } = self;
        format!("{key} {max_burst} {count} {period} {quantity}")
    }

    /// Waits for a moment at which the answer is the same a few ms earlier or later, since the two servers are not
    /// called in the same instant.
    /// Returns when it looked.
    fn leave_edge(&self, client: &mut Client, quantity: u64) -> Instant {
        let Quota { key, max_burst, count, period } = self;
        let burst = max_burst + 1;
        let rule = format!("WINDOW {period}s LIMIT {count} ALGO bucket BURST {burst} COST");
        let interval_ms = 1000.0 * *period as f64 / *count as f64;
        wait_for("a moment between the edges", || {
            let looked = Instant::now();
            let full_in_ms = peek(client, key, format!("{rule} 0")).reset_after;
            let told = peek(client, key, format!("{rule} {quantity}"));
            let next_permit_ms = full_in_ms as f64 % interval_ms;
            let same_second = |ms: i64| ms <= 0 || (NEAR_MS..1000 - NEAR_MS).contains(&(ms % 1000));
            let is_between = next_permit_ms > NEAR_MS as f64
                && same_second(told.retry_after)
                && same_second(told.reset_after);
            if full_in_ms == 0 {
                // The other server may be full a part of a millisecond later; after that both are exact.
                thread::sleep(Duration::from_millis(2));
            }
            (full_in_ms == 0 || is_between).then_some(looked)
        })
    }
}

/// How far from an edge both servers are called, and up to which time after the look at it.
const NEAR_MS: i64 = 20;

#[test]
fn random_calls_are_answered_as_by_redis_cell() {
    let cell = Server::builder().without_module();
    let cell = cell.conf(format!("loadmodule \"{}\"", redis_cell().display()));
    let Ok(cell) = cell.try_start() else {
        println!("redis-cell does not load into this server");
        return;
    };
    let ours = start();
    let (mut cell, mut ours) = (cell.client(), ours.client());
    let mut random = Random(8);
    let quotas: Vec<Quota> = (0..60).map(|key| Quota::random(&mut random, key)).collect();
    let (mut limited, mut calls) = (0, 0);
    for _ in 0..4000 {
        let quota = &quotas[random.below(quotas.len() as u64) as usize];
        let quantity = match random.below(4) {
            0 => random.below(quota.max_burst + 3),
            _ => 1,
        };
        let call = quota.call(quantity);
        let looked = quota.leave_edge(&mut ours, quantity);
        let theirs = throttle(&mut cell, &call);
        let answer = throttle(&mut ours, &call);
        if looked.elapsed() > Duration::from_millis(NEAR_MS as u64 / 2) {
            // A busy machine called one of them too late. From now on they may differ.
            for client in [&mut cell, &mut ours] {
                client.run(format!("DEL {}", quota.key));
            }
            continue;
        }
        assert_eq!(answer[..3], theirs[..3], "CL.THROTTLE {call}: {answer:?} and {theirs:?}");
        for (which, seconds, theirs) in
            [("wait", answer[3], theirs[3]), ("reset", answer[4], theirs[4])]
        {
            // redis-cell rounds down.
            let same = seconds == theirs || (theirs >= 0 && seconds == theirs + 1);
            assert!(same, "CL.THROTTLE {call}: {which} of {seconds} s and {theirs} s");
        }
        limited += answer[0];
        calls += 1;
    }
    assert!(calls > 1000, "{calls} calls were in time");
    assert!((calls / 10..calls * 9 / 10).contains(&limited), "{limited} of {calls} limited");
}
