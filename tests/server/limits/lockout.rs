//! `BLOCK`: a key that denied a call for lack of room goes on denying for a time.

use testkit::{Client, Reply, Server, field, int};

use crate::calls::{
    ALGORITHMS, COUNTING, acquirex, at_once, capacity, info, peek, rule, sleep_until, survives,
    timed,
};

/// The recipe for failed logins: ask first, count only failures, block for a time after the fifth.
#[test]
fn a_block_denies_for_its_time_whatever_the_window_says() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        let rule = format!("WINDOW 100ms LIMIT 5 ALGO {algorithm}");
        let (ask, fail) =
            (format!("RL.PEEK k '{rule}'"), format!("RL.ACQUIREX k '{rule} BLOCK 700ms FORCE'"));
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
        // Nothing prolongs or lifts the block, not even when the window is long over.
        sleep_until(&mut client, begin + 250);
        let others = [
            format!("RL.ACQUIREX k '{rule} BLOCK 700ms'"),
            format!("RL.ACQUIREX k '{rule} BLOCK 1h FORCE'"),
            format!("RL.ACQUIREX k '{rule} COST 1000 BLOCK 1h'"),
            "RL.REFUND k COST 100".into(),
            format!("RL.ACQUIREX k '{rule} COST 0 BLOCK 1h'"),
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
        let reply = peek(&mut client, "k", &rule);
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
        let block = |cost: &str| rule(algorithm, 3, &format!("BLOCK 1h {cost}"));
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
            client.run(format!("RL.ACQUIREX k '{}'", rule(algorithm, 3, &format!("COST {full}"))));
            client.run(format!("{call} k '{}'", block(cost)));
            assert_eq!(blocked(&mut client), starts, "{algorithm}: {call} {cost}");
        }
        // A grant of the last permit starts no block, unless it is forced.
        client.run("DEL k");
        client.run(format!("RL.ACQUIREX k '{}'", block(&format!("COST {full}"))));
        assert!(!blocked(&mut client), "{algorithm}");
        client.run("DEL k");
        client.run(format!("RL.ACQUIREX k '{}'", block(&format!("COST {full} FORCE"))));
        assert!(blocked(&mut client), "{algorithm}");
    }
    // Of two keys, only the one that lacks room is blocked.
    client.run("FLUSHALL");
    client.take(3, "b", &rule("sliding", 3, ""));
    assert_eq!(acquirex(&mut client, "a b", rule("sliding", 3, "BLOCK 1h")).key, 1);
    assert_eq!(client.int("EXISTS a"), 0);
    assert!(info(&mut client, "b", "blocked_for") > 0);
}

#[test]
fn a_block_survives() {
    let once = rule("bucket", 2, "BLOCK 1h COST 2 FORCE");
    let create = |client: &mut Client| {
        assert!(acquirex(client, "k", &once).is_grant());
        client.run("RL.REFUND k COST 2");
    };
    survives(create, &["k"], |client| {
        let reply = peek(client, "k", rule("bucket", 2, ""));
        assert_eq!((reply.granted, reply.remaining), (0, 0));
        assert!((3_500_000..=3_600_000).contains(&reply.retry_after), "{reply:?}");
    });
}
