//! `RL.ACQUIREX` as a client sees it: a rule for each key, costs, batches, reservations, debts, blocks, and rules that
//! change.

use redis::Value;
use testkit::{Reply, Server, field, text, words};

use crate::calls::{
    ALGORITHMS, ALL, COUNTING, acquirex, capacity, info, outcome, peek, rule, sleep_until, timed,
    with_keys,
};

#[test]
fn each_key_has_its_own_rule_in_the_order_of_the_keys() {
    let server = Server::start();
    let mut client = server.client();
    let rules = [
        "WINDOW 10d LIMIT 2 ALGO sliding",
        "WINDOW 1d LIMIT 5 ALGO bucket BURST 7",
        "LIMIT 9 ALGO fixed",
    ];
    let rules = format!("{} {} WINDOW 5d {}", rules[0], rules[1], rules[2]);
    let reply = acquirex(&mut client, "a b c", rules);
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
            assert_eq!(client.error(format!("{command} {keys} '{rules}'")), line);
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
            let reply = acquirex(&mut client, algorithm, rule(algorithm, 10, "COST 3"));
            assert_eq!(outcome(&reply), (1, 10, remaining, 0, 0), "{algorithm}");
        }
        let reply = acquirex(&mut client, algorithm, rule(algorithm, 10, "COST 3"));
        assert_eq!((reply.granted, reply.remaining, reply.key), (0, 1, 0), "{algorithm}");
        assert!(reply.retry_after > 0, "{algorithm}: {reply:?}");
        // The permit that is left can still be taken.
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
            assert_eq!(outcome(&acquirex(&mut client, "r b", rules(400))), (1, 1000, 600, 0, 1));
            assert_eq!(outcome(&acquirex(&mut client, "r b", rules(400))), (1, 1000, 200, 0, 1));
            let before = [client.stored("r"), client.stored("b")];
            let reply = acquirex(&mut client, "r b", rules(400));
            assert_eq!(
                (reply.granted, reply.limit, reply.remaining, reply.key),
                (0, 1000, 200, 1),
                "{case}"
            );
            assert_eq!([client.stored("r"), client.stored("b")], before, "{case}");
            // A small upload is still granted, and counts as one request.
            assert!(acquirex(&mut client, "r b", rules(200)).is_grant(), "{case}");
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
        let call = |options: &str| format!("{} {options}", rules.join(" "));
        let changes = client.info_number("persistence", "rdb_changes_since_last_save");
        let reply = acquirex(&mut client, "a b c", call("UPTO 50"));
        assert_eq!(outcome(&reply), (25, 100, 0, 0, 1), "{algorithm}");
        let changed = client.info_number("persistence", "rdb_changes_since_last_save") - changes;
        assert_eq!(changed, 1, "{algorithm}: one step");
        let used = ["a", "b", "c"].map(|key| info(&mut client, key, "used"));
        assert_eq!(used, [25, 100, 25], "{algorithm}");
        let before = client.text("DEBUG DIGEST");
        let all = words("RL.ACQUIREX a b c").arg(call("UPTO 50 WITHKEYS"));
        let (reply, keys) = with_keys(&client.run(all));
        assert_eq!((reply.granted, reply.key), (0, 1), "{algorithm}");
        // How many each key alone would have granted.
        let alone: Vec<i64> = keys.iter().map(|key| key[0]).collect();
        assert_eq!(alone, [5, 0, 25], "{algorithm}");
        // retry_after is the wait for one acquisition.
        let one = peek(&mut client, "a b c", call(""));
        assert!(
            (reply.retry_after - one.retry_after).abs() < 1000,
            "{algorithm}: {reply:?} {one:?}"
        );
        assert_eq!(client.text("DEBUG DIGEST"), before, "{algorithm}");
        // UPTO asks for fewer than there are.
        let reply = acquirex(&mut client, "c", format!("{} UPTO 20", rules[2]));
        assert_eq!(outcome(&reply), (20, 50, 5, 0, 0), "{algorithm}");
    }
    // A batch is one lease.
    let reply =
        acquirex(&mut client, "l", "WINDOW 10d LIMIT 10 ALGO concurrency COST 3 UPTO 50 ID x");
    assert_eq!(outcome(&reply), (3, 10, 1, 0, 0));
    assert_eq!(info(&mut client, "l", "entries"), 1);
}

#[test]
fn with_keys_tells_about_each_key() {
    let server = Server::start();
    let flat = |numbers: &[i64]| numbers.iter().copied().map(Value::Int).collect::<Vec<_>>();
    for (protocol, mut client) in [(2, server.client()), (3, server.client_resp3())] {
        client.run("FLUSHALL");
        let call = "a b c 'WINDOW 10d LIMIT 5 ALGO sliding WINDOW 1d LIMIT 2 ALGO sliding COST 2 \
            WINDOW 10s LIMIT 10 ALGO bucket BURST 20 COST 0 WITHKEYS'";
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

#[test]
fn a_burst_is_the_capacity() {
    let server = Server::start();
    let mut client = server.client();
    for (key, limit, burst) in [("more", 1, 20), ("less", 100, 5), ("same", 7, 7)] {
        let rule = rule("bucket", limit, &format!("BURST {burst}"));
        let granted = (0..).find(|_| !acquirex(&mut client, key, &rule).is_grant());
        assert_eq!(granted, Some(burst), "{key}");
        assert_eq!(peek(&mut client, key, format!("{rule} COST {}", burst + 1)).retry_after, -1);
        let reply = peek(&mut client, key, &rule);
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
        let call = format!("RL.ACQUIREX {key} '{rule}'");
        for remaining in [1, 0] {
            let (replies, when) = timed(&mut client, [call.as_str()]);
            let reply = Reply::of(&replies[0]);
            assert_eq!(outcome(&reply), (1, 2, remaining, 0, 0), "{key}");
            let resets = boundary - when.end()..=boundary - when.start();
            assert!(resets.contains(&reply.reset_after), "{key}: {reply:?}");
        }
        let reply = acquirex(&mut client, key, &rule);
        assert_eq!((reply.granted, reply.remaining), (0, 0), "{key}");
        assert!((1..=300).contains(&reply.retry_after), "{key}: {reply:?}");
        sleep_until(&mut client, boundary);
        let reply = acquirex(&mut client, key, &rule);
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
            let reply = acquirex(&mut client, "k", rule(algorithm, 0, options));
            assert_eq!(reply, Reply { retry_after: -1, ..zero() }, "{algorithm} {options}");
        }
    }
    let reply = acquirex(&mut client, "k", rule("bucket", 0, "BURST 5"));
    assert_eq!(reply, Reply { retry_after: -1, ..zero() }, "BURST");
    assert_eq!(client.int("EXISTS k"), 0);
    // An endpoint that is closed and opened again has as many permits as before.
    client.take(2, "k", &rule("sliding", 5, ""));
    assert_eq!(acquirex(&mut client, "k", rule("sliding", 0, "")).retry_after, -1);
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
        let rule = |options: &str| rule(algorithm, 3, options);
        let reply = acquirex(&mut client, "k", rule("COST 0"));
        assert_eq!(
            reply,
            Reply { granted: 1, limit: full, remaining: full, ..zero() },
            "{algorithm}"
        );
        assert_eq!(client.int("DBSIZE"), 0, "{algorithm}");
        // The same holds for a batch.
        let reply = acquirex(&mut client, "k", rule("COST 0 UPTO 1000000"));
        assert_eq!(reply.granted, 1_000_000, "{algorithm}");
        // COST equal to the capacity is not too much.
        assert!(acquirex(&mut client, "k", rule(&format!("COST {full}"))).is_grant());
        let before = client.text("DEBUG DIGEST");
        let reply = acquirex(&mut client, "k", rule("COST 0"));
        assert_eq!(outcome(&reply), (1, full, 0, 0, 0), "{algorithm}");
        assert_eq!(client.text("DEBUG DIGEST"), before, "{algorithm}");
        if algorithm != "concurrency" {
            assert!(!acquirex(&mut client, "k", rule("FORCE")).is_grant());
            let reply = acquirex(&mut client, "k", rule("COST 0"));
            assert_eq!((reply.granted, reply.remaining), (0, 0), "{algorithm}: over the capacity");
            assert!(reply.retry_after > 0, "{algorithm}: {reply:?}");
        }
        client.run("DEL k");
        client.run("RL.BLOCK k FOR 1h");
        assert_eq!(acquirex(&mut client, "k", rule("COST 0")).granted, 0, "{algorithm}: blocked");
        client.run("DEL k");
    }
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
            assert!(acquirex(&mut client, "k", rule(algorithm, 5, &cost)).is_grant());
            let before = client.stored("k");
            for options in ["COST 1000", "COST 1000 BLOCK 1h"] {
                let reply = acquirex(&mut client, "k", rule(algorithm, 5, options));
                let expected = (0, full, full - used, -1, 0);
                assert_eq!(outcome(&reply), expected, "{algorithm} {options}");
                assert_eq!(client.stored("k"), before, "{algorithm} {options}");
                // The same holds under another rule.
                let reply = acquirex(&mut client, "k", rule("fixed", 7, options));
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
            |limit, options: &str| format!("RL.ACQUIREX k '{}'", rule(algorithm, limit, options));
        client.run("FLUSHALL");
        assert_eq!(client.drain("k", &rule(algorithm, LIMIT, "")), full);
        for reply in client.pipeline(vec![call(LIMIT, "COST 1"); 500]) {
            assert!(!Reply::of(&reply.expect("a reply")).is_grant());
        }
        // A leaky bucket holds one permit, whatever its limit.
        let (next, more) =
            if algorithm == "leaky" { ("bucket", 2) } else { (algorithm, LIMIT + 1) };
        assert_eq!(client.drain("k", &rule(next, more, "")), 1, "{algorithm}");
    }
}
