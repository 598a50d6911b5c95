//! `RL.ACQUIRE` as a client sees it: grants, denials, the fields of the reply and every error.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use testkit::{Reply, Server, acquire, args, line_of, words};

use crate::calls::{ALGORITHMS, capacity, long_rule};

const RULE: &str = "WINDOW 10d LIMIT 3 ALGO sliding";

#[test]
fn a_grant_and_a_denial() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        let rule = long_rule(algorithm, 2);
        let full = capacity(algorithm, 2);
        for left in (0..full).rev() {
            let reply = client.acquire(algorithm, &rule);
            let Reply { granted, limit, remaining, retry_after, key, .. } = reply;
            assert_eq!(
                (granted, limit, remaining, retry_after, key),
                (1, full, left, 0, 0),
                "{algorithm}"
            );
            assert!((1..=20 * 86_400_000).contains(&reply.reset_after), "{algorithm}: {reply:?}");
        }
        let reply = client.acquire(algorithm, &rule);
        let Reply { granted, limit, remaining, key, .. } = reply;
        assert_eq!((granted, limit, remaining, key), (0, full, 0, 0), "{algorithm}");
        assert!(reply.retry_after > 0, "{algorithm}: {reply:?}");
        assert!(reply.retry_after <= reply.reset_after, "{algorithm}: {reply:?}");
    }
}

#[test]
fn the_third_key_denies_and_the_others_stay_as_they_are() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALGORITHMS.into_iter().filter(|a| *a != "leaky") {
        let rule = long_rule(algorithm, 10);
        let keys = ["a", "b", "c"].map(|key| format!("{algorithm}:{key}"));
        for (key, used) in keys.iter().zip([3, 9, 10]) {
            client.take(used, key, &rule);
        }
        let before = keys.each_ref().map(|key| client.stored(key));
        let reply = client.acquire(&keys.join(" "), &rule);
        let Reply { granted, limit, remaining, key, .. } = reply;
        assert_eq!((granted, limit, remaining, key), (0, 10, 0, 2), "{algorithm}");
        assert_eq!(keys.each_ref().map(|key| client.stored(key)), before, "{algorithm}");
        // The permits that were left are still there, and no more.
        assert_eq!(client.drain(&keys[0], &rule), 7, "{algorithm}");
        assert_eq!(client.drain(&keys[1], &rule), 1, "{algorithm}");
    }
}

#[test]
fn a_grant_is_deducted_from_every_key() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        let rule = long_rule(algorithm, 4);
        let full = capacity(algorithm, 4);
        let keys = ["a", "b", "c"].map(|key| format!("{algorithm}:{key}"));
        client.take(1, &keys.join(" "), &rule);
        for key in &keys {
            assert_eq!(client.drain(key, &rule), full - 1, "{key}");
        }
    }
}

#[test]
fn a_grant_is_bound_by_the_key_with_the_least_left_then_by_the_first() {
    let server = Server::start();
    let mut client = server.client();
    client.take(1, "b", RULE);
    let reply = client.acquire("a b", RULE);
    assert_eq!((reply.granted, reply.remaining, reply.key), (1, 1, 1));
    // Now a has 2 left, c and d have 3: of equal keys the first one binds.
    let reply = client.acquire("c d", RULE);
    assert_eq!((reply.granted, reply.remaining, reply.key), (1, 2, 0));
    let reply = client.acquire("d a", RULE);
    assert_eq!((reply.granted, reply.remaining, reply.key), (1, 1, 0));
}

#[test]
fn a_denial_is_bound_by_the_longest_wait_then_by_the_first() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 1h LIMIT 1 ALGO sliding";
    client.take(1, "early", rule);
    thread::sleep(Duration::from_millis(20));
    // Both calls run in one millisecond.
    client.take(1, "late1 late2", rule);
    for (keys, key) in [
        ("early late1 late2", 1),
        ("late1 early late2", 0),
        ("late2 late1 early", 0),
        ("free early late2 late1", 2),
        ("free early", 1),
    ] {
        let reply = client.acquire(keys, rule);
        assert_eq!((reply.granted, reply.remaining, reply.key), (0, 0, key), "{keys}");
        assert_eq!(reply.limit, 1);
        if keys.contains("late") {
            let early = client.acquire("early", rule).retry_after;
            assert!(reply.retry_after > early, "{reply:?} is not later than {early}");
        }
    }
    assert_eq!(client.int("EXISTS free"), 0);
}

#[test]
fn the_pairs_come_in_any_order_and_the_words_in_any_case() {
    let server = Server::start();
    let mut client = server.client();
    let pairs = ["WINDOW 10d", "LIMIT 100", "ALGO sliding"];
    let mixed = ["wInDoW 10d", "lImIt 100", "aLgO SLIDing"];
    let mut remaining = 100;
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for tail in [pairs, mixed, pairs.map(|pair| pair.to_lowercase().leak() as &str)] {
            let rule = order.map(|i| tail[i]).join(" ");
            remaining -= 1;
            assert_eq!(client.acquire("k", &rule).remaining, remaining, "{rule}");
        }
    }
}

#[test]
fn durations_carry_a_unit() {
    let server = Server::start();
    let mut client = server.client();
    for (duration, ms) in [
        ("60000", 60_000),
        ("1", 1),
        ("500ms", 500),
        ("60s", 60_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("3650d", 315_360_000_000),
    ] {
        let reply = client.acquire(duration, &format!("WINDOW {duration} LIMIT 5 ALGO sliding"));
        assert_eq!((reply.granted, reply.reset_after), (1, ms), "{duration}");
    }
}

#[test]
fn fifty_clients_get_exactly_the_limit() {
    const CLIENTS: usize = 50;
    const CALLS: usize = 10;
    let server = Server::start();
    let begun = Instant::now();
    let start = Barrier::new(CLIENTS);
    let granted: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.client();
                    start.wait();
                    let rule = "WINDOW 10s LIMIT 100 ALGO sliding";
                    (0..CALLS).filter(|_| client.acquire("k", rule).is_grant()).count()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("a client")).sum()
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "too slow to tell");
    assert_eq!(granted, 100);
}

#[test]
fn a_key_is_any_bytes() {
    let server = Server::start();
    let mut client = server.client();
    let long = vec![b'k'; 1 << 20];
    let keys: [&[u8]; 8] =
        [b"", b"\0", b"\0\0", b"a\0b", b"\r\n+OK\r\n", b"\xff\xfe%s%n", "clé".as_bytes(), &long];
    for left in [2, 1, 0] {
        for key in keys {
            let call = words("RL.ACQUIRE").arg(key).then(RULE);
            let reply = Reply::of(&client.run(call));
            assert_eq!(
                (reply.granted, reply.remaining),
                (1, left),
                "{:?}",
                &key[..key.len().min(9)]
            );
        }
    }
    assert_eq!(client.int("DBSIZE"), keys.len() as i64);
    let all = args([b"RL.ACQUIRE".as_slice()].into_iter().chain(keys)).then(RULE);
    assert_eq!(Reply::of(&client.run(all)).granted, 0);
}

#[test]
fn up_to_1024_keys_go_into_a_call() {
    let server = Server::start();
    let mut client = server.client();
    let keys = |count| (0..count).map(|i| format!("k{i}")).collect::<Vec<_>>().join(" ");
    let reply = client.acquire(&keys(1024), RULE);
    assert_eq!((reply.granted, reply.remaining, reply.key), (1, 2, 0));
    assert_eq!(client.int("DBSIZE"), 1024);
    client.take(2, "k1023", RULE);
    let reply = client.acquire(&keys(1024), RULE);
    assert_eq!((reply.granted, reply.key), (0, 1023));
    client.run("FLUSHALL");
    assert_eq!(client.error(acquire(&keys(1025), RULE)), "ERR at most 1024 keys, got 1025");
    assert_eq!(client.int("DBSIZE"), 0);
}

/// The module's own errors, each after the arguments that cause it.
const ERRORS: &[(&str, &str)] = &[
    ("k WINDOW 1s LIMIT 1 COST 1", "ERR syntax error, expected WINDOW, LIMIT or ALGO, got 'COST'"),
    ("k WINDOW 1s LIMIT 1 x bucket", "ERR syntax error, expected WINDOW, LIMIT or ALGO, got 'x'"),
    ("k x 1s LIMIT 1 ALGO bucket", "ERR syntax error, expected WINDOW, LIMIT or ALGO, got 'x'"),
    // An additional argument moves all others by one place.
    (
        "k WINDOW 1s LIMIT 1 ALGO bucket 9",
        "ERR syntax error, expected WINDOW, LIMIT or ALGO, got '1s'",
    ),
    ("k WINDOW 1s WINDOW 1s ALGO bucket", "ERR syntax error, WINDOW is given twice"),
    ("k LIMIT 1 LIMIT 1 ALGO bucket", "ERR syntax error, LIMIT is given twice"),
    ("k LIMIT 1 ALGO bucket ALGO bucket", "ERR syntax error, ALGO is given twice"),
    (
        "k COST 5 WINDOW 1s LIMIT 1 ALGO bucket",
        "ERR 'COST' is an option of RL.ACQUIREX, not a key: RL.ACQUIRE takes only WINDOW, LIMIT and ALGO",
    ),
    (
        "k withkeys WINDOW 1s LIMIT 1 ALGO bucket",
        "ERR 'WITHKEYS' is an option of RL.ACQUIREX, not a key: RL.ACQUIRE takes only WINDOW, LIMIT and ALGO",
    ),
    (
        "k WINDOW 1s WINDOW 1s LIMIT 1 ALGO bucket",
        "ERR 'WINDOW' is an option, not a key: RL.ACQUIRE takes WINDOW, LIMIT and ALGO once each, after the keys",
    ),
    ("k WINDOW 0 LIMIT 1 ALGO bucket", "ERR WINDOW must be 1 to 315360000000 ms, got '0'"),
    ("k WINDOW -1 LIMIT 1 ALGO bucket", "ERR WINDOW must be 1 to 315360000000 ms, got '-1'"),
    ("k WINDOW 3651d LIMIT 1 ALGO bucket", "ERR WINDOW must be 1 to 315360000000 ms, got '3651d'"),
    (
        "k WINDOW 315360000001 LIMIT 1 ALGO bucket",
        "ERR WINDOW must be 1 to 315360000000 ms, got '315360000001'",
    ),
    ("k WINDOW 1w LIMIT 1 ALGO bucket", "ERR WINDOW must be 1 to 315360000000 ms, got '1w'"),
    ("k WINDOW 1S LIMIT 1 ALGO bucket", "ERR WINDOW must be 1 to 315360000000 ms, got '1S'"),
    ("k WINDOW 1.5s LIMIT 1 ALGO bucket", "ERR WINDOW must be 1 to 315360000000 ms, got '1.5s'"),
    ("k WINDOW s LIMIT 1 ALGO bucket", "ERR WINDOW must be 1 to 315360000000 ms, got 's'"),
    ("k WINDOW 01s LIMIT 1 ALGO bucket", "ERR WINDOW must be 1 to 315360000000 ms, got '01s'"),
    ("k WINDOW +1s LIMIT 1 ALGO bucket", "ERR WINDOW must be 1 to 315360000000 ms, got '+1s'"),
    (
        "k WINDOW 9223372036854775807d LIMIT 1 ALGO bucket",
        "ERR WINDOW must be 1 to 315360000000 ms, got '9223372036854775807d'",
    ),
    ("k WINDOW 1s LIMIT -1 ALGO bucket", "ERR LIMIT must be 0 to 1000000000000, got '-1'"),
    ("k WINDOW 1s LIMIT -0 ALGO bucket", "ERR LIMIT must be 0 to 1000000000000, got '-0'"),
    ("k WINDOW 1s LIMIT 1x ALGO bucket", "ERR LIMIT must be 0 to 1000000000000, got '1x'"),
    ("k WINDOW 1s LIMIT 007 ALGO bucket", "ERR LIMIT must be 0 to 1000000000000, got '007'"),
    ("k WINDOW 1s LIMIT 1s ALGO bucket", "ERR LIMIT must be 0 to 1000000000000, got '1s'"),
    ("k WINDOW 1s LIMIT 1e3 ALGO bucket", "ERR LIMIT must be 0 to 1000000000000, got '1e3'"),
    (
        "k ALGO bucket LIMIT 1000000000001 WINDOW 1s",
        "ERR LIMIT must be 0 to 1000000000000, got '1000000000001'",
    ),
    (
        "k WINDOW 1s LIMIT 99999999999999999999 ALGO bucket",
        "ERR LIMIT must be 0 to 1000000000000, got '99999999999999999999'",
    ),
    (
        "k WINDOW 1s LIMIT 1 ALGO x",
        "ERR unknown ALGO 'x', expected sliding, bucket, leaky, fixed, counter or concurrency",
    ),
    (
        "same same WINDOW 1s LIMIT 1 ALGO bucket",
        "ERR key 'same' is named twice, give each limit a key of its own, such as k:1s and k:1h",
    ),
    (
        "1 2 3 4 5 6 7 8 9 3 WINDOW 1s LIMIT 1 ALGO bucket",
        "ERR key '3' is named twice, give each limit a key of its own, such as k:1s and k:1h",
    ),
];

#[test]
fn every_error_says_what_was_expected_and_what_came() {
    let server = Server::start();
    let mut client = server.client();
    let empty = client.text("DEBUG DIGEST");
    for (call, line) in ERRORS {
        assert_eq!(client.error(format!("RL.ACQUIRE {call}")), *line, "for: {call}");
    }
    for arity in ["", "k", "WINDOW 1s LIMIT 1 ALGO bucket"] {
        let line = client.error(format!("RL.ACQUIRE {arity}"));
        assert_eq!(line, "ERR wrong number of arguments for 'rl.acquire' command");
    }
    let spaces = words("RL.ACQUIRE k WINDOW").arg(" 1s").then("LIMIT 1 ALGO bucket");
    assert_eq!(client.error(spaces), "ERR WINDOW must be 1 to 315360000000 ms, got ' 1s'");
    let nothing = words("RL.ACQUIRE k WINDOW 1s LIMIT").arg("").then("ALGO bucket");
    assert_eq!(client.error(nothing), "ERR LIMIT must be 0 to 1000000000000, got ''");
    // Bytes that would break the protocol, the log or a terminal are escaped; long arguments are cut.
    let bytes = words("RL.ACQUIRE k WINDOW 1s LIMIT 1 ALGO").arg(b"a\r\n\0'%s\xff");
    assert_eq!(
        client.error(bytes),
        r"ERR unknown ALGO 'a\r\n\x00\'%s\xff', expected sliding, bucket, leaky, fixed, counter or concurrency"
    );
    let long = words("RL.ACQUIRE k WINDOW 1s LIMIT 1").arg("x".repeat(1 << 20)).then("bucket");
    assert_eq!(
        client.error(long),
        format!("ERR syntax error, expected WINDOW, LIMIT or ALGO, got '{}'", "x".repeat(64))
    );
    client.run("SET text x");
    let with_text = client.text("DEBUG DIGEST");
    assert_ne!(with_text, empty);
    assert_eq!(
        client.error(acquire("text", RULE)),
        "WRONGTYPE Operation against a key holding the wrong kind of value"
    );
    assert_eq!(client.text("DEBUG DIGEST"), with_text);
}

/// Every option word of the module's commands is refused as a key, so that none becomes one by mistake.
#[test]
fn option_words_are_no_keys() {
    let server = Server::start();
    let mut client = server.client();
    for word in [
        "BURST", "OFFSET", "BLOCK", "COST", "NAME", "UPTO", "ID", "XX", "RESERVE", "TIMEOUT",
        "FORCE", "WITHKEYS", "FOR", "SHADOW",
    ] {
        let line = format!(
            "ERR '{word}' is an option of RL.ACQUIREX, not a key: RL.ACQUIRE takes only WINDOW, LIMIT and ALGO"
        );
        assert_eq!(client.error(acquire(&format!("k {word}"), RULE)), line);
        assert_eq!(client.error(acquire(&word.to_lowercase(), RULE)), line);
    }
    assert_eq!(client.int("DBSIZE"), 0);
}

#[test]
fn it_works_in_a_transaction() {
    let server = Server::start();
    let mut client = server.client();
    client.run("MULTI");
    for keys in ["a", "a b", "a", "a b", "same same"] {
        client.run(acquire(keys, RULE));
    }
    let Value::Array(replies) = client.run("EXEC") else { panic!("no array") };
    let granted: Vec<i64> = replies[..4].iter().map(|reply| Reply::of(reply).granted).collect();
    assert_eq!(granted, [1, 1, 1, 0]);
    let Value::ServerError(error) = &replies[4] else { panic!("no error: {:?}", replies[4]) };
    assert_eq!(
        line_of(error),
        "ERR key 'same' is named twice, give each limit a key of its own, such as k:1s and k:1h"
    );
    assert_eq!(client.drain("b", RULE), 2);
}

#[test]
fn it_works_from_a_script() {
    let server = Server::start();
    let mut client = server.client();
    let script = "local r = {} \
        for i = 1, 4 do r[i] = redis.call('RL.ACQUIRE', KEYS[1], KEYS[2], unpack(ARGV)) end \
        return r";
    let call = words("EVAL").arg(script).then("2 a b").then(RULE);
    let Value::Array(replies) = client.run(call) else { panic!("no array") };
    let replies: Vec<Reply> = replies.iter().map(Reply::of).collect();
    assert_eq!(replies.iter().map(|r| r.remaining).collect::<Vec<_>>(), [2, 1, 0, 0]);
    assert_eq!(replies.iter().map(|r| r.granted).collect::<Vec<_>>(), [1, 1, 1, 0]);

    let script =
        "return redis.pcall('RL.ACQUIRE', KEYS[1], 'WINDOW', 0, 'LIMIT', 1, 'ALGO', 'fixed')";
    let line = client.error(words("EVAL").arg(script).then("1 k"));
    assert_eq!(line, "ERR WINDOW must be 1 to 315360000000 ms, got '0'");
}

#[test]
fn the_reply_is_the_same_in_resp3() {
    let server = Server::start();
    let (mut two, mut three) = (server.client(), server.client_resp3());
    for left in [2, 1, 0, 0] {
        let [of_two, of_three] = [(&mut two, "two"), (&mut three, "three")].map(|(client, key)| {
            let value = client.run(acquire(key, RULE));
            Reply { reset_after: 0, retry_after: 0, ..Reply::of(&value) }
        });
        assert_eq!(of_two, of_three);
        assert_eq!(of_two.remaining, left);
    }
    assert_eq!(
        three.error(acquire("same same", RULE)),
        "ERR key 'same' is named twice, give each limit a key of its own, such as k:1s and k:1h"
    );
}

#[test]
fn a_limit_of_0_denies_for_good() {
    let server = Server::start();
    let mut client = server.client();
    let never =
        |key| Reply { granted: 0, limit: 0, remaining: 0, retry_after: -1, reset_after: 0, key };
    for algorithm in ALGORITHMS {
        assert_eq!(client.acquire("absent", &long_rule(algorithm, 0)), never(0), "{algorithm}");
        assert_eq!(client.acquire("a b", &long_rule(algorithm, 0)), never(0), "{algorithm}");
    }
    assert_eq!(client.int("DBSIZE"), 0);
    // An endpoint that is closed and opened again has kept its count.
    client.take(2, "k", RULE);
    let before = client.stored("k");
    assert_eq!(client.acquire("k", &long_rule("sliding", 0)).retry_after, -1);
    assert_eq!(client.stored("k"), before);
    assert_eq!(client.drain("k", RULE), 1);
}

#[test]
fn whoever_waits_for_retry_after_is_granted() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        let rule = format!("WINDOW 150ms LIMIT 2 ALGO {algorithm}");
        for round in 0..3 {
            client.drain(algorithm, &rule);
            let denied = client.acquire(algorithm, &rule);
            if denied.is_grant() {
                // A window ended between the two calls.
                continue;
            }
            assert!((1..=300).contains(&denied.retry_after), "{algorithm}: {denied:?}");
            thread::sleep(Duration::from_millis(denied.retry_after as u64));
            let granted = client.acquire(algorithm, &rule);
            assert!(granted.is_grant(), "{algorithm}, round {round}: {denied:?}, then {granted:?}");
        }
    }
}

#[test]
fn denials_take_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ["sliding", "bucket", "fixed", "counter"] {
        let rule = long_rule(algorithm, 5);
        assert_eq!(client.drain(algorithm, &rule), 5, "{algorithm}");
        for reply in client.pipeline((0..500).map(|_| acquire(algorithm, &rule))) {
            assert_eq!(Reply::of(&reply.expect("a reply")).granted, 0, "{algorithm}");
        }
        assert_eq!(client.drain(algorithm, &long_rule(algorithm, 6)), 1, "{algorithm}");
    }
}
