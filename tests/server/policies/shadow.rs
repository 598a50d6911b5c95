//! Limits that only watch: `SHADOW` in a policy, and `rl.enforce shadow` for all of them.

use redis::Value;
use testkit::{Client, Reply, Server, wait_for_replica};

use crate::calls::{
    ALGORITHMS, COUNTING, acquirex, assert_same_digest, info, peek, rule, with_keys,
};

/// A server with a policy that gives rules named `quiet` these numbers and shadows them.
fn watching(numbers: &str) -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.run(format!("RL.POLICY SET quiet WINDOW 10d {numbers} SHADOW"));
    (server, client)
}

/// A rule that the policy replaces. Its own numbers would deny, since LIMIT is 0.
fn quiet(algorithm: &str) -> String {
    format!("WINDOW 1s LIMIT 0 ALGO {algorithm} NAME quiet")
}

fn real(limit: u64) -> String {
    format!("WINDOW 10d LIMIT {limit} ALGO sliding NAME real")
}

/// The reply, and for each key `granted, limit, remaining, retry_after`.
fn shown(client: &mut Client, keys: &str, rules: &str) -> (Reply, Vec<[i64; 4]>) {
    let (reply, keys) = with_keys(&client.run(format!("RL.ACQUIREX {keys} '{rules} WITHKEYS'")));
    (reply, keys.iter().map(|key| [key[0], key[1], key[2], key[3]]).collect())
}

/// `granted, denied, shadow_denied` of the calls, and of a name.
fn counted(client: &mut Client, name: &str) -> ([i64; 3], String) {
    let calls = ["granted", "denied", "shadow_denied"];
    let calls = calls.map(|field| client.info_number("rl", &format!("rl_{field}")));
    (calls, client.info("rl", &format!("rl_name_{name}")))
}

#[test]
fn alone_it_grants_takes_what_it_has_and_binds() {
    for algorithm in COUNTING {
        let (_server, mut client) = watching(&format!("LIMIT 2 ALGO {algorithm}"));
        for (i, remaining) in [1, 0, 0, 0, 0].into_iter().enumerate() {
            let (reply, keys) = shown(&mut client, "k", &quiet("sliding"));
            let case = format!("{algorithm}, call {i}: {reply:?}");
            assert_eq!((reply.granted, reply.limit), (1, 2), "{case}");
            assert_eq!(
                (reply.remaining, reply.key, reply.retry_after),
                (remaining, 0, 0),
                "{case}"
            );
            // What the limiters say without a shadow.
            assert_eq!(keys[0][0], i64::from(i < 2), "{case}");
            assert_eq!(keys[0][3] > 0, i >= 2, "{case}: {keys:?}");
        }
        assert_eq!(info(&mut client, "k", "used"), 2, "{algorithm}");
        let expected = ([5, 0, 3], "granted=2,denied=0,shadow_denied=3".to_string());
        assert_eq!(counted(&mut client, "quiet"), expected, "{algorithm}");
        assert_eq!(client.run("RL.TOP"), Value::Array(vec![]));
    }
}

#[test]
fn when_all_are_shadows_the_tightest_binds() {
    let (_server, mut client) = watching("LIMIT 3 ALGO sliding");
    let rule = quiet("sliding");
    shown(&mut client, "b", &rule);
    // At the end both are full, so the first one binds.
    for (remaining, key, b) in [(1, 1, 1), (0, 1, 1), (0, 0, 0)] {
        let (reply, keys) = shown(&mut client, "a b", &rule);
        assert_eq!((reply.granted, reply.key, reply.remaining), (1, key, remaining), "{reply:?}");
        assert_eq!(keys[1][0], b, "{keys:?}");
    }
    assert_eq!(["a", "b"].map(|key| info(&mut client, key, "used")), [3, 3]);
}

#[test]
fn beside_a_real_one_it_neither_denies_nor_binds_nor_limits() {
    for shadow_first in [true, false] {
        let (_server, mut client) = watching("LIMIT 3 ALGO sliding");
        let mut both = |tail: &str, limit: u64| {
            let (s, r) = (quiet("sliding"), real(limit));
            let (keys, rules) = match shadow_first {
                true => ("s r", format!("{s} {r} {tail}")),
                false => ("r s", format!("{r} {s} {tail}")),
            };
            let (reply, mut keys) = shown(&mut client, keys, &rules);
            if !shadow_first {
                keys.reverse();
            }
            assert_eq!(reply.key, i64::from(shadow_first), "{reply:?}");
            (reply, keys[0], keys[1])
        };
        // The shadow has more room than the real limiter, then less.
        let (reply, s, r) = both("", 2);
        assert_eq!((reply.granted, reply.limit, reply.remaining), (1, 2, 1));
        assert_eq!((s, r), ([1, 3, 2, 0], [1, 2, 1, 0]));
        let (reply, s, _) = both("UPTO 8", 10);
        assert_eq!((reply.granted, reply.limit, reply.remaining), (8, 10, 1));
        assert_eq!(s[..3], [2, 3, 0], "what fitted was taken");
        let (reply, s, r) = both("", 10);
        assert_eq!((reply.granted, reply.remaining, reply.retry_after), (1, 0, 0));
        assert_eq!((s[..3].to_vec(), r), (vec![0, 3, 0], [1, 10, 0, 0]));
        assert!(s[3] > 860_000_000, "{s:?}");
        // The real limiter denies.
        let (reply, s, r) = both("", 10);
        assert_eq!((reply.granted, reply.limit), (0, 10));
        assert_eq!((s[0], r[0]), (0, 0));
        assert!(reply.retry_after > 0);
        for (key, used) in [("s", 3), ("r", 10)] {
            assert_eq!(info(&mut client, key, "used"), used, "{key}");
        }
        assert_eq!(counted(&mut client, "quiet").0, [3, 1, 2]);
        assert_eq!(counted(&mut client, "quiet").1, "granted=2,denied=0,shadow_denied=2");
        assert_eq!(counted(&mut client, "real").1, "granted=3,denied=1,shadow_denied=0");
    }
}

#[test]
fn when_a_real_one_denies_nothing_is_taken() {
    let (_server, mut client) = watching("LIMIT 3 ALGO sliding");
    let rules = format!("{} {}", quiet("sliding"), real(0));
    let before = client.text("DEBUG DIGEST");
    for _ in 0..3 {
        let (reply, keys) = shown(&mut client, "s r", &rules);
        assert_eq!((reply.granted, reply.key, reply.retry_after), (0, 1, -1));
        assert_eq!(keys[0], [1, 3, 3, 0]);
    }
    assert_eq!(client.text("DEBUG DIGEST"), before);
    // The shadow had room in calls that another limiter denied, so they count as neither.
    let expected = ([0, 3, 0], "granted=0,denied=0,shadow_denied=0".to_string());
    assert_eq!(counted(&mut client, "quiet"), expected);
}

#[test]
fn whatever_would_deny_does_not() {
    for (numbers, asked, tail, retry_after) in [
        ("LIMIT 0 ALGO fixed", "fixed", "", -1),
        ("LIMIT 5 ALGO sliding", "sliding", "COST 6", -1),
        ("LIMIT 5 ALGO bucket", "bucket", "COST 6 RESERVE 1h", -1),
        ("LIMIT 0 ALGO sliding", "sliding", "COST 0", -1),
    ] {
        let (_server, mut client) = watching(numbers);
        let (reply, keys) = shown(&mut client, "k", &format!("{} {tail}", quiet(asked)));
        assert_eq!((reply.granted, reply.retry_after), (1, 0), "{numbers} {tail}: {reply:?}");
        assert_eq!((keys[0][0], keys[0][3]), (0, retry_after), "{numbers} {tail}");
        assert_eq!(client.int("EXISTS k"), 0, "{numbers} {tail}");
    }
    // A key that an operator blocked.
    let (_server, mut client) = watching("LIMIT 5 ALGO sliding");
    client.run("RL.BLOCK k FOR 1h");
    let (reply, keys) = shown(&mut client, "k", &quiet("sliding"));
    assert_eq!((reply.granted, keys[0][0], keys[0][2]), (1, 0, 0), "{reply:?}");
    assert!(keys[0][3] > 3_590_000, "{keys:?}");
    // An exempt limiter has room, and counts nothing.
    client.run("RL.EXEMPT e FOR 1h");
    let (reply, keys) = shown(&mut client, "e", &quiet("sliding"));
    assert_eq!((reply.granted, keys[0][0]), (1, 1), "{reply:?}");
    assert_eq!(info(&mut client, "e", "used"), 0);
}

#[test]
fn it_waits_for_nobody_and_starts_no_block() {
    let (_server, mut client) = watching("LIMIT 1 ALGO bucket BLOCK 1h");
    let rules = format!("{} WINDOW 10d LIMIT 50 ALGO bucket RESERVE 20d", quiet("bucket"));
    // The real limiter has room, so the reservation has nothing to wait for. The shadow takes what would come due in
    // time, and tells so.
    let (reply, keys) = shown(&mut client, "s r", &rules);
    assert_eq!((reply.granted, reply.retry_after, keys[0][3]), (1, 0, 0));
    let (reply, keys) = shown(&mut client, "s r", &rules);
    assert_eq!((reply.granted, reply.retry_after, reply.key), (1, 0, 1));
    assert!(keys[0][3] > 860_000_000, "{keys:?}");
    for tail in ["", "COST 1", "UPTO 9"] {
        let (reply, keys) = shown(&mut client, "s", &format!("{} {tail}", quiet("bucket")));
        assert_eq!(
            (reply.granted, keys[0][0]),
            (if tail == "UPTO 9" { 9 } else { 1 }, 0),
            "{tail}"
        );
    }
    assert_eq!(info(&mut client, "s", "blocked_for"), 0);
    // FORCE takes from every key, and starts no block here either.
    let (reply, keys) = shown(&mut client, "f", &format!("{} FORCE", quiet("bucket")));
    assert_eq!((reply.granted, keys[0][0]), (1, 1));
    let (reply, keys) = shown(&mut client, "f", &format!("{} FORCE", quiet("bucket")));
    assert_eq!((reply.granted, keys[0][0]), (1, 0));
    assert_eq!(info(&mut client, "f", "used"), 2);
    assert_eq!(info(&mut client, "f", "blocked_for"), 0);
    // Once the policy is real, the same call starts a block.
    client.run("RL.POLICY SET quiet WINDOW 10d LIMIT 1 ALGO bucket BLOCK 1h");
    assert_eq!(shown(&mut client, "s", &quiet("bucket")).0.granted, 0);
    assert!(info(&mut client, "s", "blocked_for") > 3_590_000);
}

#[test]
fn leases_beyond_the_limit_are_let_through_and_kept() {
    let (_server, mut client) = watching("LIMIT 1 ALGO concurrency");
    let rule = |id: &str| format!("{} ID {id}", quiet("concurrency"));
    // Once the caller holds a lease it renews it, without the shadow as well.
    for (id, room) in [("a", 1), ("b", 0), ("a", 1), ("b", 1), ("c", 0)] {
        let (reply, keys) = shown(&mut client, "k", &rule(id));
        assert_eq!((reply.granted, keys[0][0]), (1, room), "{id}");
        // Without the shadow it would wait until a lease ends.
        assert_eq!(keys[0][3] > 860_000_000, room == 0, "{id}: {keys:?}");
    }
    assert_eq!(info(&mut client, "k", "used"), 3);
    for (id, ended) in [("b", 1), ("a", 1), ("a", 0)] {
        assert_eq!(client.int(format!("RL.RELEASE k ID {id}")), ended, "{id}");
    }
    assert_eq!(shown(&mut client, "k", &rule("b")).1[0][0], 0);
    client.run("RL.RELEASE k ID c");
    assert_eq!(shown(&mut client, "k", &rule("b")).1[0][0], 1);
}

#[test]
fn one_command_makes_it_real_and_one_takes_it_back() {
    let (server, mut client) = watching("LIMIT 3 ALGO sliding");
    let replica = Server::builder().replica_of(&server).start();
    wait_for_replica(&server, &replica);
    let rule = quiet("sliding");
    for _ in 0..5 {
        assert!(acquirex(&mut client, "k", &rule).is_grant());
    }
    client.run("RL.POLICY SET quiet WINDOW 10d LIMIT 3 ALGO sliding");
    // Permits that were counted while it watched are in use.
    let reply = acquirex(&mut client, "k", &rule);
    assert_eq!((reply.granted, reply.limit, reply.remaining), (0, 3, 0));
    client.run("RL.POLICY SET quiet WINDOW 10d LIMIT 3 ALGO sliding SHADOW FOR 1h");
    assert!(acquirex(&mut client, "k", &rule).is_grant());
    let expected = ([6, 1, 3], "granted=3,denied=1,shadow_denied=3".to_string());
    assert_eq!(counted(&mut client, "quiet"), expected);
    assert_same_digest(&server, &replica);
}

/// PEEK gives the answer of the same call, shadowed or not, and counts nothing.
#[test]
fn peek_says_what_a_call_would() {
    let (_server, mut client) = watching("LIMIT 2 ALGO fixed");
    for enforce in ["yes", "shadow"] {
        client.run(format!("CONFIG SET rl.enforce {enforce}"));
        client.run("FLUSHALL");
        for i in 0..6 {
            let rules = format!("{} WINDOW 10d LIMIT 4 ALGO fixed COST 2 UPTO 2", quiet("fixed"));
            let before = counted(&mut client, "quiet");
            let peeked = peek(&mut client, "s r", &rules);
            assert_eq!(counted(&mut client, "quiet"), before);
            let reply = acquirex(&mut client, "s r", &rules);
            let answer = |reply: &Reply| (reply.granted, reply.limit, reply.key);
            assert_eq!(answer(&peeked), answer(&reply), "{enforce}, call {i}");
        }
    }
}

#[test]
fn enforce_shadow_denies_nothing_and_counts_everything() {
    let by_config = |server: &Server| {
        server.client().run("CONFIG SET rl.enforce shadow");
    };
    for (case, server) in [
        ("CONFIG SET", Server::start()),
        ("redis.conf", Server::builder().conf("rl.enforce shadow").start()),
        ("load argument", Server::builder().module_args("enforce shadow").start()),
    ] {
        if case == "CONFIG SET" {
            by_config(&server);
        }
        let mut client = server.client();
        assert_eq!(client.info("rl", "rl_config_enforce"), "shadow", "{case}");
        for algorithm in ALGORITHMS {
            for _ in 0..4 {
                let reply = client.acquire(algorithm, &rule(algorithm, 1, ""));
                assert_eq!((reply.granted, reply.retry_after), (1, 0), "{case}, {algorithm}");
            }
            let rule = rule(algorithm, 1, "BLOCK 1h UPTO 7 WITHKEYS");
            let (reply, keys) = with_keys(&client.run(format!("RL.ACQUIREX {algorithm} '{rule}'")));
            assert_eq!((reply.granted, keys[0][0]), (7, 0), "{case}, {algorithm}");
            assert_eq!(info(&mut client, algorithm, "used"), 1, "{case}, {algorithm}");
            assert_eq!(info(&mut client, algorithm, "blocked_for"), 0, "{case}, {algorithm}");
        }
        for id in ["a", "b", "a"] {
            let rule = format!("WINDOW 1h LIMIT 1 ALGO concurrency NAME leases ID {id}");
            assert_eq!(acquirex(&mut client, "l", rule).granted, 1, "{case}, {id}");
        }
        client.run("RL.BLOCK k FOR 1h");
        assert!(client.acquire("k", &rule("fixed", 1, "")).is_grant(), "{case}");
        let calls = 5 * ALGORITHMS.len() as i64 + 3 + 1;
        let without_room = 4 * ALGORITHMS.len() as i64 + 1 + 1;
        let expected = ([calls, 0, without_room], "granted=2,denied=0,shadow_denied=1".to_string());
        assert_eq!(counted(&mut client, "leases"), expected, "{case}");
        for (algorithm, shown) in [
            ("sliding", "granted=1,denied=0,shadow_denied=4"),
            ("bucket", "granted=2,denied=0,shadow_denied=8"),
            ("fixed", "granted=1,denied=0,shadow_denied=5"),
            ("counter", "granted=1,denied=0,shadow_denied=4"),
            ("concurrency", "granted=2,denied=0,shadow_denied=1"),
        ] {
            let field = format!("rl_algo_{algorithm}");
            assert_eq!(client.info("rl", &field), shown, "{case}, {algorithm}");
        }
        assert_eq!(client.run("RL.TOP"), Value::Array(vec![]), "{case}");
        // Enforced again: the permits counted meanwhile are in use.
        client.run("CONFIG SET rl.enforce yes");
        for algorithm in ALGORITHMS {
            let reply = client.acquire(algorithm, &rule(algorithm, 1, ""));
            assert_eq!((reply.granted, reply.remaining), (0, 0), "{case}, {algorithm}");
        }
        assert!(!client.acquire("k", &rule("fixed", 1, "")).is_grant(), "{case}");
        assert_eq!(client.info_number("rl", "rl_denied"), 6, "{case}");
    }
}
