//! `ALGO concurrency` and `RL.RELEASE`: leases with names hold permits.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Random, Reply, Server, Words, wait_for_replica, words};

use crate::calls::{acquirex, assert_same_digest, at_once, info, peek, sleep_until, survives};

/// A rule for a lease that does not end while a test runs.
fn lease(limit: u64, options: &str, id: &str) -> String {
    format!("WINDOW 10d LIMIT {limit} ALGO concurrency {options} ID {id}")
}

fn take(client: &mut Client, limit: u64, id: &str) -> (i64, i64) {
    let reply = acquirex(client, "k", lease(limit, "", id));
    assert_eq!(reply.limit, limit as i64);
    (reply.granted, reply.remaining)
}

#[test]
fn there_are_limit_holders_at_once_and_a_release_frees_at_once() {
    let server = Server::start();
    let mut client = server.client();
    for (id, remaining) in [("a", 2), ("b", 1), ("c", 0)] {
        assert_eq!(take(&mut client, 3, id), (1, remaining), "{id}");
    }
    assert_eq!(take(&mut client, 3, "d"), (0, 0));
    assert_eq!(client.int("RL.RELEASE k ID d"), 0, "was never granted");
    assert_eq!(client.int("RL.RELEASE k ID b"), 1);
    assert_eq!(client.int("RL.RELEASE k ID b"), 0, "only once");
    assert_eq!(take(&mut client, 3, "d"), (1, 0));
    assert_eq!(take(&mut client, 3, "b"), (0, 0));
    // RL.RELEASE on several keys ends the lease where it is held; it skips the other keys and creates none.
    acquirex(&mut client, "other", lease(1, "", "a"));
    client.take(1, "log", "WINDOW 10d LIMIT 3 ALGO sliding");
    assert_eq!(client.int("RL.RELEASE k other log missing ID a"), 2);
    assert_eq!(client.int("EXISTS missing"), 0);
    assert_eq!(info(&mut client, "log", "used"), 1);
}

#[test]
fn two_limiters_give_a_lease_both_or_neither() {
    let server = Server::start();
    let mut client = server.client();
    let call = |id: &str| {
        let rule = |limit| format!("WINDOW 10d LIMIT {limit} ALGO concurrency");
        format!("{} {} WINDOW 10d LIMIT 9 ALGO sliding ID {id}", rule(1), rule(2))
    };
    assert!(acquirex(&mut client, "a b c", call("x")).is_grant());
    let before = client.text("DEBUG DIGEST");
    let reply = acquirex(&mut client, "a b c", call("y"));
    assert_eq!((reply.granted, reply.key), (0, 0));
    assert_eq!(client.text("DEBUG DIGEST"), before);
    assert_eq!(client.int("RL.RELEASE a b c ID x"), 2);
    let reply = acquirex(&mut client, "a b c", call("y"));
    assert_eq!((reply.granted, reply.limit, reply.remaining), (1, 1, 0));
    assert_eq!(["a", "b", "c"].map(|key| info(&mut client, key, "used")), [1, 1, 2]);
}

#[test]
fn a_holder_that_vanished_frees_after_the_window() {
    let server = Server::start();
    let mut client = server.client();
    let lease = |id: &str| format!("WINDOW 200ms LIMIT 2 ALGO concurrency ID {id}");
    let call = |id: &str| format!("RL.ACQUIREX k '{}'", lease(id));
    let (_, begin) = at_once(&mut client, &["DEL k"], &[&call("a"), &call("b")]);
    for ahead in [1, 0] {
        // Before the end both leases are held, from it on neither is.
        sleep_until(&mut client, begin + 200 - ahead * 60);
        let reply = acquirex(&mut client, "k", lease("c"));
        let now = client.time_ms();
        if reply.is_grant() {
            assert!(now >= begin + 200);
        } else {
            assert_eq!(ahead, 1, "{reply:?}");
            assert!(reply.retry_after > 0 && now + reply.retry_after >= begin + 200, "{reply:?}");
        }
    }
    assert_eq!(info(&mut client, "k", "entries"), 1);
    assert_eq!(client.int("RL.RELEASE k ID a"), 0, "it has ended");
}

#[test]
fn the_same_id_renews_cost_and_end() {
    let server = Server::start();
    let mut client = server.client();
    let cost = |n| format!("COST {n}");
    for (n, granted, remaining) in [(2, 1, 3), (4, 1, 1), (5, 1, 0), (6, 0, 0), (1, 1, 4)] {
        let reply = acquirex(&mut client, "k", lease(5, &cost(n), "a"));
        assert_eq!((reply.granted, reply.remaining), (granted, remaining), "COST {n}");
        assert_eq!(info(&mut client, "k", "entries"), 1);
    }
    // Permits that others hold are in the way of a renewal, its own are not.
    assert!(acquirex(&mut client, "k", lease(5, &cost(3), "b")).is_grant());
    assert!(!acquirex(&mut client, "k", lease(5, &cost(3), "a")).is_grant());
    assert_eq!(info(&mut client, "k", "used"), 4, "the denied renewal left the lease as it was");
    assert!(acquirex(&mut client, "k", lease(5, &cost(2), "a")).is_grant());
    assert_eq!(client.int("RL.RELEASE k ID a"), 1);
    assert_eq!(info(&mut client, "k", "used"), 3);
    // The end moves, also to an earlier one.
    let lease = |window: &str| format!("WINDOW {window} LIMIT 1 ALGO concurrency ID a");
    for (window, ms) in [("1h", 3_600_000), ("2h", 7_200_000), ("1m", 60_000)] {
        assert_eq!(acquirex(&mut client, "e", lease(window)).reset_after, ms);
        let left = info(&mut client, "e", "reset_after");
        assert!((ms - 2000..=ms).contains(&left), "{window}: {left}");
    }
}

#[test]
fn a_lease_ends_when_it_was_said_to_whatever_window_is_asked_later() {
    let server = Server::start();
    let mut client = server.client();
    let lease = |window: &str, limit, id: &str| {
        format!("WINDOW {window} LIMIT {limit} ALGO concurrency ID {id}")
    };
    assert!(acquirex(&mut client, "k", lease("1h", 2, "long")).is_grant());
    assert!(acquirex(&mut client, "k", lease("10s", 2, "short")).is_grant());
    for window in ["10s", "1d", "1ms"] {
        let reply = acquirex(&mut client, "k", lease(window, 2, "x"));
        assert_eq!(reply.granted, 0, "{window}");
        assert!((8_000..=10_000).contains(&reply.retry_after), "{window}: {reply:?}");
        let reply = acquirex(&mut client, "k", lease(window, 1, "x"));
        assert!((3_598_000..=3_600_000).contains(&reply.retry_after), "{window}: {reply:?}");
    }
}

#[test]
fn a_limit_is_lowered_below_the_holders_and_raised_again() {
    let server = Server::start();
    let mut client = server.client();
    for id in ["a", "b", "c", "d"] {
        assert_eq!(take(&mut client, 4, id).0, 1);
    }
    assert_eq!(take(&mut client, 2, "e"), (0, 0));
    assert_eq!(take(&mut client, 2, "a"), (1, 0), "who holds goes on");
    // COST 0 renews nothing, so the caller's own lease counts among those above the limit.
    let reply = acquirex(&mut client, "k", lease(3, "COST 0", "a"));
    assert_eq!(reply.granted, 0);
    assert!((863_990_000..=864_000_000).contains(&reply.retry_after), "{reply:?}");
    assert_eq!(client.int("RL.RELEASE k ID b"), 1);
    assert_eq!(take(&mut client, 2, "e"), (0, 0));
    assert_eq!(client.int("RL.RELEASE k ID c"), 1);
    assert_eq!(take(&mut client, 2, "e"), (0, 0));
    assert_eq!(take(&mut client, 2, "a"), (1, 0), "two hold, and may renew");
    assert_eq!(take(&mut client, 3, "e"), (1, 0));
    assert_eq!(take(&mut client, 0, "e"), (0, 0));
    assert_eq!(take(&mut client, 10, "f"), (1, 6));
}

#[test]
fn ids_are_any_bytes_but_white_space_and_never_share() {
    let server = Server::start();
    let mut client = server.client();
    let long = [b'i'; 255];
    let other = [&long[..254], b"j"].concat();
    // IDs of each byte alone and beside others, words, and the longest ID.
    let single = (0..=255u8).filter(|byte| !b" \t\r\n".contains(byte));
    let ids: Vec<Vec<u8>> = single
        .flat_map(|byte| [vec![byte], vec![byte, byte], vec![b'a', byte, b'z']])
        .chain([long.to_vec(), other, b"WITHKEYS".to_vec(), b"WINDOW".to_vec()])
        .collect();
    let rule = format!("WINDOW 10d LIMIT {} ALGO concurrency ID ", ids.len());
    let call = |id: &[u8]| words("RL.ACQUIREX k").arg([rule.as_bytes(), id].concat());
    for (i, id) in ids.iter().enumerate() {
        let reply = Reply::of(&client.run(call(id)));
        assert_eq!((reply.granted, reply.remaining), (1, (ids.len() - 1 - i) as i64), "{id:?}");
    }
    assert_eq!(Reply::of(&client.run(call(b"b-b"))).granted, 0);
    for id in &ids {
        assert_eq!(Reply::of(&client.run(call(id))).granted, 1, "{id:?} renews");
        assert_eq!(client.int(words("RL.RELEASE k ID").arg(id)), 1, "{id:?}");
    }
    assert_eq!(info(&mut client, "k", "used"), 0);
    // RL.RELEASE refuses IDs that would be two words in a rules argument.
    let refused = "ERR ID must be 1 to 255 bytes without white space, got ";
    for (id, shown) in [
        (&b"a b"[..], r"'a b'"),
        (b" ", r"' '"),
        (b" a", r"' a'"),
        (b"a\t", r"'a\t'"),
        (b"a\rb", r"'a\rb'"),
        (b"\n", r"'\n'"),
        (b"", r"''"),
        (&[b'i'; 256], &format!("'{}'", "i".repeat(64))),
    ] {
        let line = client.error(words("RL.RELEASE k ID").arg(id));
        assert_eq!(line, format!("{refused}{shown}"));
    }
    let too_long = client.error(call(&[b'i'; 256]));
    assert_eq!(too_long, format!("{refused}'{}'", "i".repeat(64)));
}

#[test]
fn leases_and_releases_survive() {
    let create = |client: &mut Client| {
        for (id, cost) in [("a", 1), ("b", 2), ("c", 3), ("a", 2)] {
            let lease = lease(9, &format!("COST {cost}"), id);
            assert!(acquirex(client, "k", lease).is_grant(), "{id}");
        }
        assert_eq!(client.int("RL.RELEASE k ID b"), 1);
        // A limiter whose leases were all released.
        acquirex(client, "empty", lease(1, "", "x"));
        client.run("RL.RELEASE empty ID x");
    };
    survives(create, &["k", "empty"], |client| {
        assert_eq!(info(client, "k", "used"), 5);
        assert_eq!(peek(client, "k", lease(9, "COST 5", "z")).granted, 0);
        assert_eq!(peek(client, "k", lease(9, "COST 4", "z")).granted, 1);
        assert_eq!(peek(client, "k", lease(9, "COST 6", "a")).granted, 1, "its own does not count");
        assert_eq!(client.int("RL.RELEASE k ID b"), 0);
        assert_eq!(client.int("RL.RELEASE k ID c"), 1);
        assert!(acquirex(client, "empty", lease(1, "", "y")).is_grant());
    });
}

#[test]
fn leases_and_releases_are_replicated() {
    const SEED: u64 = 77;
    let primary = Server::start();
    let mut client = primary.client();
    let mut random = Random(SEED);
    let mut call = || {
        let keys = ["a", "b", "a b", "b c d", "d"][random.below(5)];
        let id = random.below(6);
        if random.one_in(3) {
            return words(&format!("RL.RELEASE {keys} ID {id}"));
        }
        // Some windows are long, and some so short that leases end during the test on a key that others keep.
        let window = random.pick(&["1ms", "10ms", "1h", "1d"]);
        let (limit, cost) = (random.below(8), random.below(3));
        words(&format!(
            "RL.ACQUIREX {keys} 'WINDOW {window} LIMIT {limit} ALGO concurrency COST {cost} ID {id}'"
        ))
    };
    let calls: Vec<Words> = (0..2000).map(|_| call()).collect();
    acquirex(&mut client, "a b c d", lease(100, "", "keeper"));
    // Half of the calls run before the replica syncs, half reach it as a stream.
    let replica = Server::builder().replica_of(&primary);
    let (before, after) = calls.split_at(1000);
    client.pipeline(before.to_vec()).into_iter().for_each(|reply| drop(reply.expect("a reply")));
    let replica = replica.start();
    wait_for_replica(&primary, &replica);
    assert_same_digest(&primary, &replica);
    for calls in after.chunks(100) {
        client.pipeline(calls.to_vec()).into_iter().for_each(|reply| drop(reply.expect("a reply")));
        thread::sleep(Duration::from_millis(3));
    }
    assert_same_digest(&primary, &replica);
    let mut behind = replica.client();
    for key in ["a", "b", "c", "d"] {
        assert_eq!(
            behind.int(format!("PEXPIRETIME {key}")),
            client.int(format!("PEXPIRETIME {key}"))
        );
    }
}

/// The clients' own logs tell: a permit is held at least from the reply until the release is sent.
#[test]
fn thirty_threads_never_hold_more_than_the_limit() {
    const LIMIT: i64 = 5;
    let server = Server::start();
    let log = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for holder in 0..30 {
            let (log, server) = (&log, &server);
            scope.spawn(move || {
                let mut client = server.client();
                let mut random = Random(holder);
                for round in 0..40 {
                    let cost = 1 + random.below(3) as i64;
                    let id = format!("{holder}:{round}");
                    let lease = lease(LIMIT as u64, &format!("COST {cost}"), &id);
                    if !acquirex(&mut client, "k", lease).is_grant() {
                        thread::sleep(Duration::from_micros(500));
                        continue;
                    }
                    let from = Instant::now();
                    thread::sleep(Duration::from_micros(random.below(1500) as u64));
                    let to = Instant::now();
                    log.lock().expect("no panic").extend([(from, cost), (to, -cost)]);
                    assert_eq!(client.int(format!("RL.RELEASE k ID {id}")), 1);
                }
            });
        }
    });
    let mut log = log.into_inner().expect("no panic");
    // At the same instant an end counts before a beginning.
    log.sort();
    let (mut held, mut highest) = (0, 0);
    for (_, change) in &log {
        held += change;
        highest = highest.max(held);
    }
    assert!(log.len() > 100, "only {} grants", log.len() / 2);
    assert!((2..=LIMIT).contains(&highest), "{highest} held at once");
    assert_eq!(info(&mut server.client(), "k", "used"), 0);
}
