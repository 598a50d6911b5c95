//! `RL.ACQUIREX` as a client sees it: a rule for each key, costs, batches, reservations, debts, blocks, and rules that
//! change.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use redis::Value;

use crate::calls::{
    COUNTING, acquirex, at_once, info, peek, rule, sleep_until, survives, timed, with_keys,
};
use crate::harness::{ALGORITHMS, Client, Reply, Server, bytes_of, capacity, words};
use crate::metadata::{field, int, text};

const ALL: [&str; 6] = ["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"];

/// Granted, limit, remaining, retry_after and key: what does not depend on the time of a grant.
fn outcome(reply: &Reply) -> (i64, i64, i64, i64, i64) {
    (reply.granted, reply.limit, reply.remaining, reply.retry_after, reply.key)
}

#[test]
fn each_key_has_its_own_rule_in_the_order_of_the_keys() {
    let server = Server::start();
    let mut client = server.client();
    let rules = [
        "WINDOW 10d LIMIT 2 ALGO sliding",
        "WINDOW 1d LIMIT 5 ALGO bucket BURST 7",
        "LIMIT 9 ALGO fixed",
    ];
    let call = format!("a b c {} {} WINDOW 5d {}", rules[0], rules[1], rules[2]);
    let reply = acquirex(&mut client, call);
    assert_eq!(outcome(&reply), (1, 2, 1, 0, 0));
    for (key, algorithm, numbers) in [
        ("a", "sliding", [864_000_000, 2, 2, 1]),
        ("b", "bucket", [86_400_000, 5, 7, 6]),
        ("c", "fixed", [432_000_000, 9, 9, 8]),
    ] {
        let fields = client.run(format!("RL.INFO {key}"));
        let named =
            ["window", "limit", "burst", "remaining"].map(|name| info(&mut client, key, name));
        assert_eq!(named, numbers, "{key}");
        assert_eq!(text(field(&fields, "algo")), algorithm);
    }
    let before = client.text("DEBUG DIGEST");
    let one = "WINDOW 1d LIMIT 5 ALGO bucket";
    for (keys, rules, line) in [
        ("x", 2, "ERR 1 key needs 1 rule, got 2"),
        ("x y", 3, "ERR 2 keys need 1 or 2 rules, got 3"),
        ("x y z", 2, "ERR 3 keys need 1 or 3 rules, got 2"),
        ("a b c d", 3, "ERR 4 keys need 1 or 4 rules, got 3"),
    ] {
        let rules = [one].repeat(rules).join(" ");
        for command in ["RL.ACQUIREX", "RL.PEEK"] {
            assert_eq!(client.error(format!("{command} {keys} {rules}")), line);
        }
    }
    assert_eq!(client.text("DEBUG DIGEST"), before);
}

#[test]
fn a_cost_is_taken_whole_or_not_at_all() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        for remaining in [7, 4, 1] {
            let reply =
                acquirex(&mut client, format!("{algorithm} {}", rule(algorithm, 10, "COST 3")));
            assert_eq!(outcome(&reply), (1, 10, remaining, 0, 0), "{algorithm}");
        }
        let reply = acquirex(&mut client, format!("{algorithm} {}", rule(algorithm, 10, "COST 3")));
        assert_eq!((reply.granted, reply.remaining, reply.key), (0, 1, 0), "{algorithm}");
        assert!(reply.retry_after > 0, "{algorithm}: {reply:?}");
        // The one that is left can still be had.
        assert_eq!(client.drain(algorithm, &rule(algorithm, 10, "")), 1, "{algorithm}");
    }
}

#[test]
fn requests_and_bytes_are_taken_both_or_neither() {
    let server = Server::start();
    let mut client = server.client();
    for requests in COUNTING {
        for bytes in COUNTING {
            client.run("FLUSHALL");
            let rules = |cost| {
                let cost = format!("COST {cost}");
                format!("{} {}", rule(requests, 50, ""), rule(bytes, 1000, &cost))
            };
            let case = format!("{requests} {bytes}");
            assert_eq!(
                outcome(&acquirex(&mut client, format!("r b {}", rules(400)))),
                (1, 1000, 600, 0, 1)
            );
            assert_eq!(
                outcome(&acquirex(&mut client, format!("r b {}", rules(400)))),
                (1, 1000, 200, 0, 1)
            );
            let before = [client.stored("r"), client.stored("b")];
            let reply = acquirex(&mut client, format!("r b {}", rules(400)));
            assert_eq!(
                (reply.granted, reply.limit, reply.remaining, reply.key),
                (0, 1000, 200, 1),
                "{case}"
            );
            assert_eq!([client.stored("r"), client.stored("b")], before, "{case}");
            // A small one still goes through, and counts one request.
            assert!(acquirex(&mut client, format!("r b {}", rules(200))).is_grant(), "{case}");
            assert_eq!(info(&mut client, "r", "used"), 3, "{case}");
            assert_eq!(info(&mut client, "b", "used"), 1000, "{case}");
        }
    }
}

#[test]
fn upto_grants_the_minimum_over_all_keys_in_one_step() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        client.run("FLUSHALL");
        let rules = [(30, ""), (100, "COST 4"), (50, "")].map(|(n, cost)| rule(algorithm, n, cost));
        let call = format!("a b c {} UPTO 50", rules.join(" "));
        let changes = client.info_number("persistence", "rdb_changes_since_last_save");
        let reply = acquirex(&mut client, &call);
        assert_eq!(outcome(&reply), (25, 100, 0, 0, 1), "{algorithm}");
        let changed = client.info_number("persistence", "rdb_changes_since_last_save") - changes;
        assert_eq!(changed, 1, "{algorithm}: one step");
        let used = ["a", "b", "c"].map(|key| info(&mut client, key, "used"));
        assert_eq!(used, [25, 100, 25], "{algorithm}");
        let before = client.text("DEBUG DIGEST");
        let (reply, keys) = with_keys(&client.run(format!("RL.ACQUIREX {call} WITHKEYS")));
        assert_eq!((reply.granted, reply.key), (0, 1), "{algorithm}");
        // What each would have granted on its own.
        let alone: Vec<i64> = keys.iter().map(|key| key[0]).collect();
        assert_eq!(alone, [5, 0, 25], "{algorithm}");
        // The wait is for one acquisition.
        let one = peek(&mut client, call.replace("UPTO 50", ""));
        assert!(
            (reply.retry_after - one.retry_after).abs() < 1000,
            "{algorithm}: {reply:?} {one:?}"
        );
        assert_eq!(client.text("DEBUG DIGEST"), before, "{algorithm}");
        // Less than all, when all can be had.
        let reply = acquirex(&mut client, format!("c {} UPTO 20", rules[2]));
        assert_eq!(outcome(&reply), (20, 50, 5, 0, 0), "{algorithm}");
    }
    // A batch is one lease.
    let reply = acquirex(&mut client, "l WINDOW 10d LIMIT 10 ALGO concurrency COST 3 UPTO 50 ID x");
    assert_eq!(outcome(&reply), (3, 10, 1, 0, 0));
    assert_eq!(info(&mut client, "l", "entries"), 1);
}

#[test]
fn with_keys_tells_about_each_key() {
    let server = Server::start();
    let flat = |numbers: &[i64]| numbers.iter().copied().map(Value::Int).collect::<Vec<_>>();
    for (protocol, mut client) in [(2, server.client()), (3, server.client_resp3())] {
        client.run("FLUSHALL");
        let call = "a b c WINDOW 10d LIMIT 5 ALGO sliding WINDOW 1d LIMIT 2 ALGO sliding COST 2 \
            WINDOW 10s LIMIT 10 ALGO bucket BURST 20 COST 0 WITHKEYS";
        let keys = [
            flat(&[1, 5, 4, 0, 864_000_000, 864_000_000, 5]),
            flat(&[1, 2, 0, 0, 86_400_000, 86_400_000, 2]),
            flat(&[1, 20, 20, 0, 0, 10_000, 10]),
        ];
        let mut expected = flat(&[1, 2, 0, 0, 86_400_000, 1]);
        expected.push(Value::Array(keys.map(Value::Array).to_vec()));
        let reply = client.run(words("RL.ACQUIREX").then(call));
        assert_eq!(reply, Value::Array(expected), "RESP{protocol}");
        for command in ["RL.ACQUIREX", "RL.PEEK"] {
            let (reply, keys) = with_keys(&client.run(words(command).then(call)));
            assert_eq!((reply.granted, reply.limit, reply.remaining, reply.key), (0, 2, 0, 1));
            assert_eq!(keys[0][..4], [1, 5, 4, 0], "{command}, RESP{protocol}");
            assert_eq!(keys[1][..3], [0, 2, 0], "{command}, RESP{protocol}");
            assert_eq!(keys[1][3..5], [reply.retry_after, reply.reset_after]);
            assert_eq!(keys[1][5..], [86_400_000, 2]);
            assert_eq!(keys[2], [1, 20, 20, 0, 0, 10_000, 10], "{command}, RESP{protocol}");
        }
    }
}

/// The n-th caller is told to wait until exactly the moment of the n-th permit, however many ask at once.
#[test]
fn reservations_come_due_at_exactly_the_rate() {
    const CALLERS: usize = 8;
    const EACH: usize = 12;
    let server = Server::start();
    for (algorithm, limit) in [("leaky", 7), ("bucket", 7), ("leaky", 30), ("bucket", 110)] {
        let mut client = server.client();
        let (burst, options) = if algorithm == "leaky" { (1, "") } else { (4, " BURST 4") };
        let call =
            format!("RL.ACQUIREX k WINDOW 1s LIMIT {limit} ALGO {algorithm}{options} RESERVE 1m");
        // The whole burst in one millisecond, which is then known.
        let (replies, begin) = at_once(&mut client, &["DEL k"], &vec![call.as_str(); burst]);
        assert!(replies.iter().all(|reply| outcome(&Reply::of(reply)).3 == 0));
        let start = Barrier::new(CALLERS);
        let mut due: Vec<(i64, i64)> = thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut client = server.client();
                        start.wait();
                        let reserve = |_| {
                            let (replies, when) = timed(&mut client, [call.as_str()]);
                            let reply = Reply::of(&replies[0]);
                            assert_eq!(reply.granted, 1, "{call}: {reply:?}");
                            (when.start() + reply.retry_after, when.end() + reply.retry_after)
                        };
                        (0..EACH).map(reserve).collect::<Vec<_>>()
                    })
                })
                .collect();
            callers.into_iter().flat_map(|caller| caller.join().expect("a caller")).collect()
        });
        due.sort();
        for (n, (earliest, latest)) in due.iter().enumerate() {
            let exact = begin
                + (n as i64 + 1) * 1000 / limit
                + i64::from((n as i64 + 1) * 1000 % limit != 0);
            assert!(
                *earliest <= exact && exact <= *latest,
                "{call}: number {n} due from {earliest} to {latest}, at the rate at {exact}"
            );
        }
    }
}

#[test]
fn a_reservation_that_comes_due_too_late_is_denied_and_takes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let call = "RL.ACQUIREX k WINDOW 1s LIMIT 10 ALGO leaky RESERVE 250ms";
    let (replies, _) = at_once(&mut client, &["DEL k"], &[call; 5]);
    let replies: Vec<_> = replies.iter().map(|reply| outcome(&Reply::of(reply))).collect();
    let expected =
        [(1, 1, 0, 0, 0), (1, 1, 0, 100, 0), (1, 1, 0, 200, 0), (0, 1, 0, 50, 0), (0, 1, 0, 50, 0)];
    assert_eq!(replies, expected);
    // The later of two keys tells how long to wait; the first is for who has none to wait for.
    let call = "RL.ACQUIREX a b WINDOW 1s LIMIT 10 ALGO leaky WINDOW 1s LIMIT 4 ALGO bucket BURST 2 RESERVE 10s";
    let (replies, _) = at_once(&mut client, &["DEL a b"], &[call; 5]);
    let waits: Vec<i64> = replies.iter().map(|reply| Reply::of(reply).retry_after).collect();
    // For a: 0, 100, 200, 300, 400. For b: 0, 0, 250, 500, 750.
    assert_eq!(waits, [0, 100, 250, 500, 750]);
    // Denied by one key, it is taken from none.
    client.run("DEL a b");
    let call = "a b WINDOW 10d LIMIT 1 ALGO leaky WINDOW 1s LIMIT 10 ALGO leaky RESERVE 5s";
    assert!(acquirex(&mut client, call).is_grant());
    let before = client.stored("b");
    assert_eq!(acquirex(&mut client, call).granted, 0);
    assert_eq!(client.stored("b"), before);
}

#[test]
fn a_batch_reserves_what_comes_due_in_time() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 1s LIMIT 10 ALGO bucket";
    let take = format!("RL.ACQUIREX k {rule} UPTO 10");
    let reserve = format!("{take} RESERVE 550ms");
    let free = format!("RL.ACQUIREX k {rule} COST 0 RESERVE 550ms");
    let (replies, _) = at_once(&mut client, &["DEL k"], &[&take, &reserve, &reserve, &free]);
    let replies: Vec<_> = replies.iter().map(|reply| outcome(&Reply::of(reply))).collect();
    // The five of the next 500 ms, and then not one more; more than the capacity is in use.
    assert_eq!(replies[..3], [(10, 10, 0, 0, 0), (5, 10, 0, 500, 0), (0, 10, 0, 50, 0)]);
    assert_eq!(replies[3].0, 0);
    let (replies, _) = at_once(&mut client, &["RL.EXEMPT k FOR 1h"], &[&reserve]);
    assert_eq!(outcome(&Reply::of(&replies[0])), (10, 10, 10, 0, 0), "exempt, nobody waits");
    client.run("RL.BLOCK k FOR 100ms");
    assert_eq!(acquirex(&mut client, format!("k {rule} RESERVE 10s")).granted, 0, "blocked");
}

#[test]
fn reservations_work_in_transactions_and_scripts() {
    let server = Server::start();
    let mut client = server.client();
    let line = "WINDOW 10s LIMIT 10 ALGO leaky RESERVE 5s";
    let script = "return redis.call('RL.ACQUIREX', KEYS[1], unpack(ARGV))";
    let mut waits = Vec::new();
    for _ in 0..2 {
        let (replies, _) = timed(&mut client, [format!("RL.ACQUIREX k {line}")]);
        waits.push(Reply::of(&replies[0]).retry_after);
        let call = words("EVAL").arg(script).then("1 k").then(line);
        waits.push(Reply::of(&client.run(call)).retry_after);
    }
    for (wait, highest) in waits.iter().zip([0, 1000, 2000, 3000]) {
        assert!((highest - 500..=highest).contains(wait), "{waits:?}");
    }
}

#[test]
fn force_goes_into_debt_that_time_pays_back() {
    let server = Server::start();
    let mut client = server.client();
    // A permit each 10 ms.
    let rule = "WINDOW 100ms LIMIT 10 ALGO bucket";
    let force = format!("RL.ACQUIREX k {rule} COST 30 FORCE");
    let look = format!("RL.PEEK k {rule}");
    // Cost 0 shows what is there, without the one that would be taken.
    let count = format!("{look} COST 0");
    let (replies, begin) = at_once(&mut client, &["DEL k"], &[&force, &look, "RL.INFO k"]);
    assert_eq!(outcome(&Reply::of(&replies[0])), (0, 10, 0, -1, 0));
    // 21 permits are paid back before one is there, and 30 until it is full.
    let reply = Reply::of(&replies[1]);
    assert_eq!(
        (reply.granted, reply.remaining, reply.retry_after, reply.reset_after),
        (0, 0, 210, 300)
    );
    assert_eq!(int(field(&replies[2], "used")), 30);
    loop {
        let (replies, when) = timed(&mut client, [count.as_str()]);
        if *when.start() >= begin + 300 {
            assert_eq!(Reply::of(&replies[0]).remaining, 10);
            break;
        }
        let paid = |now: i64| (10 - 30 + (now - begin) / 10).clamp(0, 10);
        let reply = Reply::of(&replies[0]);
        assert!((paid(*when.start())..=paid(*when.end())).contains(&reply.remaining), "{reply:?}");
        thread::sleep(Duration::from_millis(7));
    }
}

#[test]
fn force_takes_from_every_key_and_tells_whether_it_was_within_the_limits() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        client.run("FLUSHALL");
        let force = |cost: u64| format!("{} FORCE", rule(algorithm, 5, &format!("COST {cost}")));
        let mut force = |keys: &str, cost| acquirex(&mut client, format!("{keys} {}", force(cost)));
        assert_eq!(outcome(&force("a", 3)), (1, 5, 2, 0, 0), "{algorithm}");
        assert_eq!(outcome(&force("a", 2)), (1, 5, 0, 0, 0), "{algorithm}");
        // a has no room, b has: both are taken from.
        let reply = force("a b", 1);
        assert_eq!((reply.granted, reply.remaining, reply.key), (0, 0, 0), "{algorithm}");
        assert!(reply.retry_after > 0, "{algorithm}: {reply:?}");
        assert_eq!(force("c", 6).retry_after, -1, "{algorithm}: more than it ever holds");
        for (key, used) in [("a", 6), ("b", 1), ("c", 6)] {
            assert_eq!(info(&mut client, key, "used"), used, "{algorithm}: {key}");
        }
        // Not forgiven: what is given back is what was too much.
        client.run("RL.REFUND a COST 1");
        assert_eq!(peek(&mut client, format!("a {}", rule(algorithm, 5, ""))).granted, 0);
        client.run("RL.REFUND a COST 1");
        assert_eq!(peek(&mut client, format!("a {}", rule(algorithm, 5, ""))).granted, 1);
        // Whatever a block says.
        client.run("RL.BLOCK b FOR 1h");
        let reply = acquirex(&mut client, format!("b {} FORCE", rule(algorithm, 5, "")));
        assert_eq!((reply.granted, reply.remaining), (0, 0), "{algorithm}");
        assert_eq!(info(&mut client, "b", "used"), 2, "{algorithm}");
        let reply = acquirex(&mut client, format!("z {} FORCE", rule(algorithm, 0, "")));
        assert_eq!(outcome(&reply), (0, 0, 0, -1, 0), "{algorithm}");
        assert_eq!(client.int("EXISTS z"), 0, "{algorithm}");
    }
}

#[test]
fn a_debt_saturates() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        let call = format!("{algorithm} {} FORCE", rule(algorithm, 5, "COST 1000000000000"));
        for _ in 0..1100 {
            assert_eq!(acquirex(&mut client, &call).granted, 0);
        }
        assert_eq!(info(&mut client, algorithm, "used"), 1_000_000_000_000_000, "{algorithm}");
    }
}

#[test]
fn a_burst_is_the_capacity() {
    let server = Server::start();
    let mut client = server.client();
    for (key, limit, burst) in [("more", 1, 20), ("less", 100, 5), ("same", 7, 7)] {
        let rule = rule("bucket", limit, &format!("BURST {burst}"));
        let granted = (0..).find(|_| !acquirex(&mut client, format!("{key} {rule}")).is_grant());
        assert_eq!(granted, Some(burst), "{key}");
        assert_eq!(peek(&mut client, format!("{key} {rule} COST {}", burst + 1)).retry_after, -1);
        let reply = peek(&mut client, format!("{key} {rule}"));
        assert_eq!((reply.limit, reply.remaining), (i64::from(burst), 0));
        let each = 864_000_000u64.div_ceil(limit) as i64;
        assert!((each - 2000..=each).contains(&reply.retry_after), "{key}: {reply:?}");
    }
}

#[test]
fn an_offset_moves_the_boundary() {
    const HOUR: i64 = 3_600_000;
    let server = Server::start();
    let mut client = server.client();
    for (key, windows) in [("positive", 0), ("negative", -1), ("far", 20)] {
        let boundary = client.time_ms() + 300;
        let offset = boundary.rem_euclid(HOUR) + windows * HOUR;
        let rule = format!("WINDOW 1h LIMIT 2 ALGO fixed OFFSET {offset}");
        let call = format!("RL.ACQUIREX {key} {rule}");
        for remaining in [1, 0] {
            let (replies, when) = timed(&mut client, [call.as_str()]);
            let reply = Reply::of(&replies[0]);
            assert_eq!(outcome(&reply), (1, 2, remaining, 0, 0), "{key}");
            let resets = boundary - when.end()..=boundary - when.start();
            assert!(resets.contains(&reply.reset_after), "{key}: {reply:?}");
        }
        let reply = acquirex(&mut client, format!("{key} {rule}"));
        assert_eq!((reply.granted, reply.remaining), (0, 0), "{key}");
        assert!((1..=300).contains(&reply.retry_after), "{key}: {reply:?}");
        sleep_until(&mut client, boundary);
        let reply = acquirex(&mut client, format!("{key} {rule}"));
        assert_eq!(outcome(&reply), (1, 2, 1, 0, 0), "{key}");
        assert!((HOUR - 2000..=HOUR).contains(&reply.reset_after), "{key}: {reply:?}");
    }
}

#[test]
fn limit_0_denies_everything_and_stores_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALL {
        for options in ["", "COST 0", "COST 7", "BLOCK 1h"] {
            let reply = acquirex(&mut client, format!("k {}", rule(algorithm, 0, options)));
            assert_eq!(reply, Reply { retry_after: -1, ..zero() }, "{algorithm} {options}");
        }
    }
    let reply = acquirex(&mut client, format!("k {}", rule("bucket", 0, "BURST 5")));
    assert_eq!(reply, Reply { retry_after: -1, ..zero() }, "BURST");
    assert_eq!(client.int("EXISTS k"), 0);
    // An endpoint that is closed and opened again has what it had.
    client.take(2, "k", &rule("sliding", 5, ""));
    assert_eq!(acquirex(&mut client, format!("k {}", rule("sliding", 0, ""))).retry_after, -1);
    assert_eq!(client.drain("k", &rule("sliding", 5, "")), 3);
}

fn zero() -> Reply {
    Reply { granted: 0, limit: 0, remaining: 0, retry_after: 0, reset_after: 0, key: 0 }
}

#[test]
fn cost_0_takes_nothing_and_stores_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALL {
        let full = if algorithm == "concurrency" { 3 } else { capacity(algorithm, 3) };
        let call = |key: &str, options: &str| format!("{key} {}", rule(algorithm, 3, options));
        let reply = acquirex(&mut client, call("k", "COST 0"));
        assert_eq!(
            reply,
            Reply { granted: 1, limit: full, remaining: full, ..zero() },
            "{algorithm}"
        );
        assert_eq!(client.int("DBSIZE"), 0, "{algorithm}");
        // In a batch too.
        let reply = acquirex(&mut client, format!("{} UPTO 1000000", call("k", "COST 0")));
        assert_eq!(reply.granted, 1_000_000, "{algorithm}");
        // Full is not too much.
        assert!(acquirex(&mut client, call("k", &format!("COST {full}"))).is_grant());
        let before = client.text("DEBUG DIGEST");
        let reply = acquirex(&mut client, call("k", "COST 0"));
        assert_eq!(outcome(&reply), (1, full, 0, 0, 0), "{algorithm}");
        assert_eq!(client.text("DEBUG DIGEST"), before, "{algorithm}");
        if algorithm != "concurrency" {
            assert!(!acquirex(&mut client, call("k", "FORCE")).is_grant());
            let reply = acquirex(&mut client, call("k", "COST 0"));
            assert_eq!((reply.granted, reply.remaining), (0, 0), "{algorithm}: over the capacity");
            assert!(reply.retry_after > 0, "{algorithm}: {reply:?}");
        }
        client.run("DEL k");
        client.run("RL.BLOCK k FOR 1h");
        assert_eq!(acquirex(&mut client, call("k", "COST 0")).granted, 0, "{algorithm}: blocked");
        client.run("DEL k");
    }
}

/// The recipe: ask, count only failures, lock for a time after the fifth.
#[test]
fn a_block_denies_for_its_time_whatever_the_window_says() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        let rule = format!("WINDOW 100ms LIMIT 5 ALGO {algorithm}");
        let (ask, fail) =
            (format!("RL.PEEK k {rule}"), format!("RL.ACQUIREX k {rule} BLOCK 700ms FORCE"));
        let failures = [ask.as_str(), &fail].repeat(5);
        let mut calls = failures;
        calls.push(&ask);
        let (replies, begin) = at_once(&mut client, &["DEL k"], &calls);
        for (i, reply) in replies[..10].iter().enumerate() {
            assert_eq!(Reply::of(reply).granted, 1, "{algorithm}: call {i}");
        }
        let reply = Reply::of(&replies[10]);
        assert_eq!((reply.granted, reply.remaining), (0, 0), "{algorithm}");
        assert!((700..=900).contains(&reply.retry_after), "{algorithm}: {reply:?}");
        let end = begin + reply.retry_after;
        // Nothing prolongs it or lifts it, when the window has long passed.
        sleep_until(&mut client, begin + 250);
        let others = [
            format!("RL.ACQUIREX k {rule} BLOCK 700ms"),
            format!("RL.ACQUIREX k {rule} BLOCK 1h FORCE"),
            format!("RL.ACQUIREX k {rule} COST 1000 BLOCK 1h"),
            "RL.REFUND k COST 100".into(),
            format!("RL.ACQUIREX k {rule} COST 0 BLOCK 1h"),
            ask.clone(),
        ];
        for call in &others {
            client.run(call.as_str());
            let (replies, when) = timed(&mut client, [ask.as_str(), "RL.INFO k"]);
            let reply = Reply::of(&replies[0]);
            assert_eq!((reply.granted, reply.remaining), (0, 0), "{algorithm}: {call}");
            let blocked_for = int(field(&replies[1], "blocked_for"));
            for left in [reply.retry_after, blocked_for] {
                let lefts = end - when.end()..=end - when.start();
                assert!(lefts.contains(&left), "{algorithm}: {left}, not {lefts:?} after {call}");
            }
        }
        sleep_until(&mut client, end);
        let reply = peek(&mut client, format!("k {rule}"));
        assert_eq!(reply.granted, 1, "{algorithm}: {reply:?}");
        assert_eq!(info(&mut client, "k", "blocked_for"), 0);
    }
}

#[test]
fn what_starts_a_block_and_what_does_not() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        let full = capacity(algorithm, 3);
        let block = |cost: &str| format!("k {}", rule(algorithm, 3, &format!("BLOCK 1h {cost}")));
        let blocked = |client: &mut Client| {
            client.int("EXISTS k") == 1 && info(client, "k", "blocked_for") > 0
        };
        for (call, cost, starts) in [
            ("RL.PEEK", "", false),
            ("RL.ACQUIREX", "COST 0", false),
            ("RL.ACQUIREX", "COST 4", false),
            ("RL.ACQUIREX", "", true),
        ] {
            client.run("DEL k");
            client.run(format!("RL.ACQUIREX k {}", rule(algorithm, 3, &format!("COST {full}"))));
            client.run(format!("{call} {}", block(cost)));
            assert_eq!(blocked(&mut client), starts, "{algorithm}: {call} {cost}");
        }
        // A grant that takes the last one starts none, unless forced.
        client.run("DEL k");
        client.run(format!("RL.ACQUIREX {}", block(&format!("COST {full}"))));
        assert!(!blocked(&mut client), "{algorithm}");
        client.run("DEL k");
        client.run(format!("RL.ACQUIREX {} FORCE", block(&format!("COST {full}"))));
        assert!(blocked(&mut client), "{algorithm}");
    }
    // Of two keys, the one that lacks room is blocked, and only it.
    client.run("FLUSHALL");
    client.take(3, "b", &rule("sliding", 3, ""));
    let call = format!("a b {}", rule("sliding", 3, "BLOCK 1h"));
    assert_eq!(acquirex(&mut client, call).key, 1);
    assert_eq!(client.int("EXISTS a"), 0);
    assert!(info(&mut client, "b", "blocked_for") > 0);
}

#[test]
fn a_block_survives() {
    let call = format!("k {} FORCE", rule("bucket", 2, "BLOCK 1h COST 2"));
    let create = |client: &mut Client| {
        assert!(acquirex(client, &call).is_grant());
        client.run("RL.REFUND k COST 2");
    };
    survives(create, &["k"], |client| {
        let reply = peek(client, format!("k {}", rule("bucket", 2, "")));
        assert_eq!((reply.granted, reply.remaining), (0, 0));
        assert!((3_500_000..=3_600_000).contains(&reply.retry_after), "{reply:?}");
    });
}

#[test]
fn a_cost_that_can_never_be_paid_leaves_everything_byte_for_byte() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALL {
        let full = if algorithm == "concurrency" { 5 } else { capacity(algorithm, 5) };
        for used in [1, full] {
            client.run("FLUSHALL");
            let cost = format!("COST {used}");
            assert!(acquirex(&mut client, format!("k {}", rule(algorithm, 5, &cost))).is_grant());
            let before = client.stored("k");
            for options in ["COST 1000", "COST 1000 BLOCK 1h"] {
                let reply = acquirex(&mut client, format!("k {}", rule(algorithm, 5, options)));
                let expected = (0, full, full - used, -1, 0);
                assert_eq!(outcome(&reply), expected, "{algorithm} {options}");
                assert_eq!(client.stored("k"), before, "{algorithm} {options}");
                // Nor with another rule.
                let reply = acquirex(&mut client, format!("k {}", rule("fixed", 7, options)));
                assert_eq!(reply.retry_after, -1);
                assert_eq!(client.stored("k"), before, "{algorithm} {options}");
            }
        }
    }
}

#[test]
fn denials_use_nothing_up() {
    const LIMIT: u64 = 5;
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        let full = capacity(algorithm, LIMIT);
        let call =
            |limit, options: &str| format!("RL.ACQUIREX k {}", rule(algorithm, limit, options));
        client.run("FLUSHALL");
        assert_eq!(client.drain("k", &rule(algorithm, LIMIT, "")), full);
        for reply in client.pipeline(vec![call(LIMIT, "COST 1"); 500]) {
            assert!(!Reply::of(&reply.expect("a reply")).is_grant());
        }
        // A leaky bucket holds one whatever its limit is.
        let (next, more) =
            if algorithm == "leaky" { ("bucket", 2) } else { (algorithm, LIMIT + 1) };
        assert_eq!(client.drain("k", &rule(next, more, "")), 1, "{algorithm}");
    }
}

#[test]
fn a_limit_that_is_raised_helps_at_once_and_one_that_is_lowered_forgives_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        client.take(5, algorithm, &rule(algorithm, 5, ""));
        assert_eq!(client.drain(algorithm, &rule(algorithm, 8, "")), 3, "{algorithm}");
        let reply = client.acquire(algorithm, &rule(algorithm, 3, ""));
        assert_eq!((reply.granted, reply.limit, reply.remaining), (0, 3, 0), "{algorithm}");
        assert!(reply.retry_after > 0, "{algorithm}: {reply:?}");
        // The denial stored no rule, and all eight are still in use.
        assert_eq!(info(&mut client, algorithm, "limit"), 8, "{algorithm}");
        assert_eq!(client.drain(algorithm, &rule(algorithm, 9, "")), 1, "{algorithm}");
    }
    // A burst alone.
    client.take(5, "b", &rule("bucket", 5, ""));
    let burst = |n| format!("b {}", rule("bucket", 5, &format!("BURST {n}")));
    assert_eq!(acquirex(&mut client, format!("{} UPTO 9", burst(7))).granted, 2);
    assert_eq!(acquirex(&mut client, burst(3)).granted, 0);
}

#[test]
fn a_window_or_an_algorithm_that_changes_keeps_the_permits_in_use() {
    let server = Server::start();
    let mut client = server.client();
    for from in COUNTING {
        for to in [COUNTING.as_slice(), &["concurrency"]].concat() {
            for window in ["10d", "20d", "5d"] {
                let case = format!("{from} to {to} {window}");
                client.run("FLUSHALL");
                client.take(3, "k", &rule(from, 5, ""));
                let id = if to == "concurrency" { "ID x" } else { "" };
                let next = format!("k WINDOW {window} LIMIT 5 ALGO {to} UPTO 9 {id}");
                assert_eq!(peek(&mut client, &next).granted, 2, "{case}");
                let before = client.stored("k");
                let denied = words("RL.ACQUIREX").then(&next.replace("UPTO 9", "COST 3"));
                assert_eq!(Reply::of(&client.run(denied)).granted, 0, "{case}");
                assert_eq!(client.stored("k"), before, "{case}: a denial stores no rule");
                assert_eq!(acquirex(&mut client, &next).granted, 2, "{case}");
                assert_eq!(info(&mut client, "k", "used"), 5, "{case}");
            }
        }
    }
    // Void under the rule that wrote it, it is fresh under every rule.
    for from in COUNTING {
        client.run("FLUSHALL");
        let short = format!("WINDOW 30ms LIMIT 5 ALGO {from}");
        client.take(3, "k", &short);
        thread::sleep(Duration::from_millis(65));
        assert_eq!(bytes_of(&client.run("DUMP k")).map(|dump| dump.is_empty()), Some(false));
        let fresh = peek(&mut client, format!("k {} UPTO 9", rule("sliding", 5, "")));
        assert_eq!(fresh.granted, 5, "{from}");
        assert!(acquirex(&mut client, format!("k {}", rule("sliding", 5, ""))).is_grant());
        assert_eq!(info(&mut client, "k", "used"), 1, "{from}: what was void does not come back");
    }
}

/// A denial stores no rule, so the limiter becomes fresh when the rule that wrote it says so: no later is it to be asked
/// again.
#[test]
fn nobody_waits_longer_than_until_the_limiter_is_void() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        let taken = format!("RL.ACQUIREX k WINDOW 150ms LIMIT 2 ALGO {algorithm} COST 2");
        for asked in COUNTING {
            let asked = format!("RL.ACQUIREX k WINDOW 1h LIMIT 2 ALGO {asked} COST 2");
            let calls = [taken.as_str(), &asked, "RL.INFO k"];
            let (replies, now) = at_once(&mut client, &["DEL k"], &calls);
            let reply = Reply::of(&replies[1]);
            assert_eq!(reply.granted, 0, "{algorithm}, {asked}");
            let void = int(field(&replies[2], "reset_after"));
            assert!((1..=300).contains(&void), "{algorithm}: {void}");
            assert!((1..=void).contains(&reply.retry_after), "{algorithm}, {asked}: {reply:?}");
            sleep_until(&mut client, now + reply.retry_after);
            let reply = Reply::of(&client.run(asked.as_str()));
            assert_eq!(reply.granted, 1, "{algorithm}, {asked}");
        }
    }
}
