//! What operators and users do to a server in mid-traffic: sync anew, flush, swap, pause, sleep, change a key's name
//! and expiry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use testkit::{Client, Reply, Server, acquire, array, wait_for, wait_for_replica, words};

use crate::calls::{ALGORITHMS, capacity, long_rule};
use crate::load::anything::{Anything, assert_alike};

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does something while two clients make random calls of everything.
fn amid_traffic<T>(server: &Server, seed: u64, act: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = |seed| {
            let (mut client, mut anything) = (server.client(), Anything::new(seed));
            while !done.load(Ordering::Relaxed) {
                anything.run(&mut client, 60);
            }
        };
        let threads = [seed, seed + 1].map(|seed| scope.spawn(move || traffic(seed)));
        // On a panic too.
        let stop = StopOnDrop(&done);
        let result = act();
        drop(stop);
        threads.into_iter().for_each(|thread| thread.join().expect("the traffic"));
        result
    })
}

fn is_up(client: &mut Client) -> bool {
    client.info("replication", "master_link_status") == "up"
}

/// The replica syncs in full a few times, each time because its link was cut for longer than the backlog lasts.
fn syncs_in_full(load: &str) {
    let primary = Server::builder()
        .conf("repl-backlog-size 16kb")
        .conf("repl-diskless-sync yes")
        .conf("client-output-buffer-limit replica 0 0 0")
        .start();
    let builder = Server::builder().conf(format!("repl-diskless-load {load}"));
    let replica = builder.replica_of(&primary).start();
    let mut behind = replica.client();
    let syncs = |client: &mut Client| client.info_number("stats", "sync_full");
    amid_traffic(&primary, 5, || {
        let mut client = primary.client();
        wait_for("the first sync", || is_up(&mut behind).then_some(()));
        for _ in 0..3 {
            let before = syncs(&mut client);
            // Cut until the replica came back too late for the backlog.
            wait_for("another full sync", || {
                client.run("CLIENT KILL TYPE replica");
                behind.run("DEBUG SLEEP 0.05");
                (syncs(&mut client) > before).then_some(())
            });
            wait_for("its end", || is_up(&mut behind).then_some(()));
        }
    });
    assert_alike(&primary, &replica);
    assert!(syncs(&mut primary.client()) >= 4);
}

#[test]
fn full_syncs_in_mid_traffic_through_a_file() {
    syncs_in_full("disabled");
}

#[test]
fn full_syncs_in_mid_traffic_beside_the_old_data() {
    syncs_in_full("swapdb");
}

#[test]
fn a_diskless_replica_that_starts_empty_in_mid_traffic() {
    let primary = Server::builder().conf("repl-diskless-sync yes").start();
    let replicas = amid_traffic(&primary, 15, || {
        let start = |load| {
            let builder = Server::builder().conf(format!("repl-diskless-load {load}"));
            let replica = builder.replica_of(&primary).start();
            wait_for("the sync", || is_up(&mut replica.client()).then_some(()));
            replica
        };
        ["on-empty-db", "swapdb"].map(start)
    });
    for replica in &replicas {
        assert_alike(&primary, replica);
    }
}

#[test]
fn flushes_and_swaps_take_the_limiters_with_them() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut client = primary.client();
    let used = |client: &mut Client, db: usize| {
        client.run(format!("SELECT {db}"));
        ALGORITHMS.map(|name| {
            let peek = format!("RL.PEEK {name} '{} COST 0'", long_rule(name, 5));
            capacity(name, 5) - Reply::of(&client.run(peek)).remaining
        })
    };
    let fill = |client: &mut Client| {
        client.run("SELECT 0");
        for algorithm in ALGORITHMS {
            client.take(capacity(algorithm, 5).min(3), algorithm, &long_rule(algorithm, 5));
        }
    };
    let taken = ALGORITHMS.map(|name| capacity(name, 5).min(3));
    for flush in ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC"] {
        fill(&mut client);
        assert_eq!(used(&mut client, 0), taken, "{flush}");
        client.run("SWAPDB 0 3");
        assert_eq!(used(&mut client, 0), [0; 5], "{flush}");
        assert_eq!(used(&mut client, 3), taken, "{flush}");
        wait_for_replica(&primary, &replica);
        assert_eq!(used(&mut replica.client(), 3), taken, "{flush}, the replica");
        client.run(flush);
        for server in [&primary, &replica] {
            wait_for_replica(&primary, &replica);
            assert_eq!(used(&mut server.client(), 3), [0; 5], "{flush}");
        }
        // A limiter that begins anew.
        client.run("SELECT 0");
        fill(&mut client);
        assert_eq!(used(&mut client, 0), taken, "{flush}");
        client.run("FLUSHALL");
    }
    amid_traffic(&primary, 25, || {
        let mut client = primary.client();
        for command in ["FLUSHALL", "SWAPDB 0 1", "FLUSHALL ASYNC", "SWAPDB 1 0", "FLUSHDB"] {
            client.run(command);
            thread::sleep(Duration::from_millis(40));
        }
    });
    assert_alike(&primary, &replica);
    client.run("FLUSHALL ASYNC");
    wait_for_replica(&primary, &replica);
    for server in [&primary, &replica] {
        wait_for("the lazy free", || {
            (server.client().info_number("rl", "rl_limiters") == 0).then_some(())
        });
    }
}

#[test]
fn nothing_is_granted_while_writes_are_paused() {
    const LIMIT: u64 = 400;
    const PAUSE: Duration = Duration::from_millis(250);
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let rule = long_rule("sliding", LIMIT);
    let mut operator = primary.client();
    operator.take(10, "k", &rule);
    let granted = thread::scope(|scope| {
        operator.run("CLIENT PAUSE 60000 WRITE");
        let before = operator.text("DEBUG DIGEST");
        let begun = Instant::now();
        let script = words("EVAL").arg("return redis.call('RL.ACQUIRE', 'k', unpack(ARGV))");
        let calls = [
            vec![acquire("k", &rule)],
            vec![words(&format!("RL.ACQUIREX k '{rule} UPTO 3'"))],
            vec![words("MULTI"), acquire("k", &rule), acquire("k", &rule), words("EXEC")],
            vec![script.then("0").then(&rule)],
        ];
        let threads = calls.map(|calls| {
            let mut client = primary.client();
            scope.spawn(move || {
                let reply = client.pipeline(calls).pop().expect("a reply").expect("no error");
                let is_many = matches!(array(&reply)[0], Value::Array(_));
                let replies = if is_many { array(&reply).to_vec() } else { vec![reply] };
                (replies.iter().map(|reply| Reply::of(reply).granted).sum::<i64>(), begun.elapsed())
            })
        });
        thread::sleep(PAUSE);
        // Reads go on, and see nothing change.
        let peek = format!("RL.PEEK k '{rule} COST 0'");
        assert_eq!(Reply::of(&operator.run(peek)).remaining, LIMIT as i64 - 10);
        assert_eq!(operator.text("DEBUG DIGEST"), before);
        operator.run("CLIENT UNPAUSE");
        threads.map(|thread| thread.join().expect("a client")).map(|(granted, after)| {
            assert!(after >= PAUSE, "answered {after:?} after the pause began");
            granted
        })
    });
    assert_eq!(granted, [1, 3, 2, 1]);
    assert_eq!(operator.drain("k", &rule), LIMIT as i64 - 10 - 7);
    wait_for_replica(&primary, &replica);
    assert_eq!(operator.text("DEBUG DIGEST"), replica.client().text("DEBUG DIGEST"));
    // A pause amid everything that could write by itself, such as keys that expire.
    amid_traffic(&primary, 35, || {
        for _ in 0..4 {
            operator.run("CLIENT PAUSE 60 WRITE");
            thread::sleep(Duration::from_millis(90));
        }
    });
    assert_alike(&primary, &replica);
}

#[test]
fn a_server_that_slept_grants_no_more_than_the_limit() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut client = primary.client();
    for algorithm in ["sliding", "bucket", "fixed", "counter"] {
        let rule = format!("WINDOW 400ms LIMIT 20 ALGO {algorithm}");
        for sleeper in [&primary, &replica] {
            client.drain(algorithm, &rule);
            // Calls pile up meanwhile.
            let mut other = primary.client();
            sleeper.client().run("DEBUG SLEEP 0.9");
            other.send((0..60).map(|_| acquire(algorithm, &rule)));
            let replies: Vec<_> = (0..60).map(|_| other.receive().expect("a reply")).collect();
            let granted: i64 = replies.iter().map(|reply| Reply::of(reply).granted).sum();
            // All of what is free by now; more only where a window ends or refills meanwhile.
            assert!((20..=40).contains(&granted), "{algorithm}: {granted}");
            let begun = Instant::now();
            let more = client.drain(algorithm, &rule);
            let most = if begun.elapsed() < Duration::from_millis(100) { 20 } else { 40 };
            assert!(more <= most, "{algorithm}: {more}");
        }
    }
    amid_traffic(&primary, 45, || {
        for server in [&replica, &primary, &replica] {
            server.client().run("DEBUG SLEEP 0.1");
            thread::sleep(Duration::from_millis(50));
        }
    });
    assert_alike(&primary, &replica);
}

#[test]
fn users_who_persist_expire_and_rename_leave_replicas_alike() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    amid_traffic(&primary, 55, || {
        let (mut client, mut anything) = (primary.client(), Anything::new(65));
        for i in 0..150 {
            let keys = |i: usize| format!("k{}", i % 24);
            let (key, other) = (keys(i), keys(i * 7 + 1));
            let rule = long_rule(ALGORITHMS[i % 5], 100_000);
            let replies = client.pipeline([
                format!("DEL {key}"),
                format!("RL.ACQUIRE {key} {rule}"),
                format!("PERSIST {key}"),
                format!("RL.ACQUIRE {key} {rule}"),
                format!("RENAME {key} {other}"),
                format!("PEXPIRE {other} {}", 1 + i % 40),
                format!("RL.ACQUIRE {other} WINDOW 30ms LIMIT 5 ALGO sliding"),
                format!("EXPIREAT {other} 99999999999 LT"),
            ]);
            assert_eq!(replies.len(), 8);
            client.pipeline((0..10).map(|_| anything.theirs()));
        }
    });
    assert_alike(&primary, &replica);
}

/// A policy that closes an endpoint must reach a replica and outlive a restart.
#[test]
fn policies_of_every_form_reach_replicas_and_outlive_a_restart() {
    let mut primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut client = primary.client();
    let mut number = 0;
    for algorithm in ["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"] {
        for numbers in
            ["WINDOW 1m LIMIT 0", "WINDOW 3650d LIMIT 1000000000000", "WINDOW 1ms LIMIT 1"]
        {
            for options in ["", "BLOCK 3650d SHADOW", "FOR 1h"] {
                number += 1;
                client.run(format!("RL.POLICY SET p{number} {numbers} ALGO {algorithm} {options}"));
            }
        }
    }
    client.run("RL.POLICY SET a.burst WINDOW 1m LIMIT 0 ALGO bucket BURST 5");
    client.run("RL.POLICY SET an.offset WINDOW 1m LIMIT 5 ALGO fixed OFFSET -3650d");
    let digest = |client: &mut Client| client.info("rl", "rl_policies_digest");
    let before = digest(&mut client);
    wait_for_replica(&primary, &replica);
    assert_eq!(digest(&mut replica.client()), before);
    primary.restart();
    assert_eq!(digest(&mut primary.client()), before);
}
