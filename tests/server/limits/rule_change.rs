//! A limiter is asked under another rule than before.

use std::thread;
use std::time::Duration;

use testkit::{Reply, Server, bytes_of, field, int};

use crate::calls::{COUNTING, acquirex, at_once, info, peek, rule, sleep_until};

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
        // The denial stored no rule, so all eight permits are still in use.
        assert_eq!(info(&mut client, algorithm, "limit"), 8, "{algorithm}");
        assert_eq!(client.drain(algorithm, &rule(algorithm, 9, "")), 1, "{algorithm}");
    }
    // Only the burst changes.
    client.take(5, "b", &rule("bucket", 5, ""));
    assert_eq!(acquirex(&mut client, "b", rule("bucket", 5, "BURST 7 UPTO 9")).granted, 2);
    assert_eq!(acquirex(&mut client, "b", rule("bucket", 5, "BURST 3")).granted, 0);
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
                let next = format!("WINDOW {window} LIMIT 5 ALGO {to} UPTO 9 {id}");
                assert_eq!(peek(&mut client, "k", &next).granted, 2, "{case}");
                let before = client.stored("k");
                let denied = next.replace("UPTO 9", "COST 3");
                assert_eq!(acquirex(&mut client, "k", denied).granted, 0, "{case}");
                assert_eq!(client.stored("k"), before, "{case}: a denial stores no rule");
                assert_eq!(acquirex(&mut client, "k", &next).granted, 2, "{case}");
                assert_eq!(info(&mut client, "k", "used"), 5, "{case}");
            }
        }
    }
    // A limiter that is void under the rule that wrote it is fresh under every rule.
    for from in COUNTING {
        client.run("FLUSHALL");
        let short = format!("WINDOW 30ms LIMIT 5 ALGO {from}");
        client.take(3, "k", &short);
        thread::sleep(Duration::from_millis(65));
        assert_eq!(bytes_of(&client.run("DUMP k")).map(|dump| dump.is_empty()), Some(false));
        let fresh = peek(&mut client, "k", format!("{} UPTO 9", rule("sliding", 5, "")));
        assert_eq!(fresh.granted, 5, "{from}");
        assert!(acquirex(&mut client, "k", rule("sliding", 5, "")).is_grant());
        assert_eq!(info(&mut client, "k", "used"), 1, "{from}: what was void does not come back");
    }
}

/// A denial stores no rule, so the limiter becomes fresh when the rule that wrote it says so. No caller is told to
/// wait longer.
#[test]
fn nobody_waits_longer_than_until_the_limiter_is_void() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        let taken = format!("RL.ACQUIREX k 'WINDOW 150ms LIMIT 2 ALGO {algorithm} COST 2'");
        for asked in COUNTING {
            let asked = format!("RL.ACQUIREX k 'WINDOW 1h LIMIT 2 ALGO {asked} COST 2'");
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
