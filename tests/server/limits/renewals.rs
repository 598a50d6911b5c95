//! Leases that are held already: which of them a call renews whatever others hold, which are kept, and `XX`, by which
//! a holder learns that its lease is gone.

use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{Client, Reply, Server, wait_for_replica, words};

use crate::calls::{acquirex, assert_same_digest, info, peek, survives, with_keys};
use crate::waiting::{Waiter, no_waiters, waiters};

/// A rule for leases that do not end while a test runs.
fn lease(limit: u64, options: &str, id: &str) -> String {
    format!("WINDOW 10d LIMIT {limit} ALGO concurrency {options} ID {id}")
}

/// A rule for leases that end after this many ms.
fn short(ms: u64, options: &str, id: &str) -> String {
    format!("WINDOW {ms} LIMIT 3 ALGO concurrency {options} ID {id}")
}

/// Granted, limit, remaining.
fn taken(client: &mut Client, keys: &str, rules: &str) -> (i64, i64, i64) {
    let reply = acquirex(client, keys, rules);
    (reply.granted, reply.limit, reply.remaining)
}

const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];

fn five_hold(client: &mut Client, key: &str) {
    for id in FIVE {
        assert!(acquirex(client, key, lease(5, "", id)).is_grant(), "{id}");
    }
}

#[test]
fn whoever_holds_renews_however_far_the_limit_was_lowered() {
    let server = Server::start();
    let mut client = server.client();
    five_hold(&mut client, "k");
    for limit in [2, 1] {
        for id in FIVE {
            assert_eq!(
                taken(&mut client, "k", &lease(limit, "", id)),
                (1, limit as i64, 0),
                "{id}"
            );
        }
        assert_eq!(taken(&mut client, "k", &lease(limit, "", "new")).0, 0);
        assert_eq!(info(&mut client, "k", "used"), 5);
    }
    // Newcomers wait until enough have gone.
    for (id, room) in [("a", 0), ("b", 0), ("c", 0), ("d", 1)] {
        assert_eq!(client.int(format!("RL.RELEASE k ID {id}")), 1);
        assert_eq!(peek(&mut client, "k", lease(2, "", "new")).granted, room, "after {id}");
    }
    // LIMIT 0 and a block refuse a renewal; a release ends the lease.
    assert_eq!(acquirex(&mut client, "k", lease(0, "", "e")).retry_after, -1);
    client.run("RL.BLOCK k FOR 1h");
    let reply = acquirex(&mut client, "k", lease(2, "", "e"));
    assert_eq!((reply.granted, reply.remaining), (0, 0));
    assert!((3_590_000..=3_600_000).contains(&reply.retry_after), "{reply:?}");
    client.run("RL.BLOCK k FOR 0");
    assert!(acquirex(&mut client, "k", lease(2, "", "e")).is_grant());
    assert_eq!(client.int("RL.RELEASE k ID e"), 1);
    assert_eq!(info(&mut client, "k", "used"), 0);
}

#[test]
fn a_renewal_is_for_no_more_than_is_held() {
    let server = Server::start();
    let mut client = server.client();
    assert!(acquirex(&mut client, "k", lease(9, "COST 6", "a")).is_grant());
    assert!(acquirex(&mut client, "k", lease(9, "COST 3", "b")).is_grant());
    // A lease whose cost is above the lowered capacity is renewed.
    assert_eq!(taken(&mut client, "k", &lease(4, "COST 6", "a")), (1, 4, 0));
    let reply = acquirex(&mut client, "k", lease(4, "COST 7", "a"));
    assert_eq!((reply.granted, reply.retry_after), (0, -1));
    assert_eq!(acquirex(&mut client, "k", lease(4, "COST 5", "b")).retry_after, -1);
    let reply = acquirex(&mut client, "k", lease(4, "COST 4", "b"));
    assert!(reply.granted == 0 && reply.retry_after > 863_000_000, "{reply:?}");
    assert_eq!(info(&mut client, "k", "used"), 9, "denials left both as they were");
    // UPTO grants at least as many whole acquisitions as fit into what the lease holds.
    for (options, granted, used) in
        [("COST 2 UPTO 9", 3, 9), ("COST 4 UPTO 9", 1, 7), ("UPTO 9", 4, 7), ("UPTO 3", 3, 6)]
    {
        let reply = acquirex(&mut client, "k", lease(4, options, "a"));
        assert_eq!(reply.granted, granted, "{options}");
        assert_eq!(info(&mut client, "k", "used"), used, "{options}");
    }
    // A renewal for less succeeds as well, and frees the rest.
    assert_eq!(taken(&mut client, "k", &lease(4, "COST 1", "a")), (1, 4, 0));
    assert_eq!(info(&mut client, "k", "used"), 4);
    // A renewal begins no block.
    let reply = acquirex(&mut client, "k", lease(1, "COST 3 BLOCK 1h", "b"));
    assert_eq!((reply.granted, info(&mut client, "k", "blocked_for")), (1, 0));
}

#[test]
fn each_of_several_keys_is_judged_for_itself() {
    let server = Server::start();
    let mut client = server.client();
    five_hold(&mut client, "x");
    assert!(acquirex(&mut client, "y", lease(1, "", "other")).is_grant());
    let both = |id: &str| format!("{} {}", lease(2, "", id).replace("ID a", ""), lease(1, "", id));
    let reply = acquirex(&mut client, "x y", both("a"));
    assert_eq!((reply.granted, reply.key), (0, 1), "x is renewed, y has no room");
    client.run("RL.RELEASE y ID other");
    let (reply, keys) =
        with_keys(&client.run(words("RL.ACQUIREX x y").arg(both("a") + " WITHKEYS")));
    assert_eq!(reply.granted, 1);
    assert_eq!(
        keys.iter().map(|key| key[..3].to_vec()).collect::<Vec<_>>(),
        [[1, 2, 0], [1, 1, 0]]
    );
}

/// A blocked holder is told to come back when the block ends if its lease lasts that long, however many others hold
/// leases.
#[test]
fn a_blocked_holder_waits_for_the_end_of_the_block() {
    let server = Server::start();
    let mut client = server.client();
    five_hold(&mut client, "k");
    client.run("RL.BLOCK k FOR 1h");
    let reply = acquirex(&mut client, "k", lease(1, "", "a"));
    assert!((3_590_000..=3_600_000).contains(&reply.retry_after), "{reply:?}");
    client.run("RL.BLOCK k FOR 11d");
    let reply = acquirex(&mut client, "k", lease(5, "", "a"));
    assert!((950_000_000..=950_400_000).contains(&reply.retry_after), "{reply:?}");
}

#[test]
fn an_exemption_keeps_leases_and_so_does_a_shadow() {
    let server = Server::start();
    let mut client = server.client();
    client.run("RL.EXEMPT e FOR 1h");
    client.run("RL.POLICY SET quiet WINDOW 10d LIMIT 2 ALGO concurrency SHADOW");
    for (key, limit, name, shown) in
        [("e", 2, "", [2, 2, 2, 2]), ("s", 9, "NAME quiet", [1, 0, 0, 0])]
    {
        for (i, id) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let reply = acquirex(&mut client, key, lease(limit, name, id));
            let seen = (reply.granted, reply.limit, reply.remaining, reply.retry_after);
            assert_eq!(seen, (1, 2, shown[i], 0), "{key} {id}");
            assert_eq!(info(&mut client, key, "used"), i as i64 + 1, "{key} {id}");
        }
        assert_eq!(info(&mut client, key, "entries"), 4, "{key}");
        assert_eq!(info(&mut client, key, "remaining"), shown[3], "{key}");
        assert_eq!(client.int(format!("RL.REFUND {key} COST 1")), 0, "{key}: leases are released");
        assert_eq!(client.int(format!("RL.RELEASE {key} ID d")), 1, "{key}");
    }
    // When the block ends, holders go on and others wait for them.
    client.run("RL.EXEMPT e FOR 0");
    client.run("RL.POLICY SET quiet WINDOW 10d LIMIT 2 ALGO concurrency");
    for (key, name) in [("e", ""), ("s", "NAME quiet")] {
        assert_eq!(acquirex(&mut client, key, lease(2, name, "new")).granted, 0, "{key}");
        for id in ["a", "b", "c"] {
            assert_eq!(taken(&mut client, key, &lease(2, name, id)), (1, 2, 0), "{key} {id}");
        }
        assert_eq!(client.int(format!("RL.RELEASE {key} ID a")), 1);
        assert_eq!(acquirex(&mut client, key, lease(2, name, "new")).granted, 0, "{key}");
        assert_eq!(client.int(format!("RL.RELEASE {key} ID b")), 1);
        assert_eq!(acquirex(&mut client, key, lease(2, name, "new")).granted, 1, "{key}");
    }
    // Under LIMIT 0 nothing is kept, whatever lets the call pass.
    client.run("RL.EXEMPT zero FOR 1h");
    assert!(acquirex(&mut client, "zero", lease(0, "", "a")).is_grant());
    assert_eq!(info(&mut client, "zero", "entries"), 0);
}

#[test]
fn what_is_renewed_and_kept_survives_and_is_replicated() {
    let create = |client: &mut Client| {
        client.run("RL.EXEMPT e FOR 1h");
        for id in ["a", "b", "c"] {
            acquirex(client, "e", lease(1, "", id));
            acquirex(client, "k", lease(3, "", id));
        }
        assert!(acquirex(client, "k", lease(1, "XX", "a")).is_grant());
        client.run("RL.EXEMPT e FOR 0");
        assert!(acquirex(client, "e", lease(1, "XX", "b")).is_grant());
        assert!(!acquirex(client, "e", lease(1, "XX", "gone")).is_grant());
    };
    survives(create, &["e", "k"], |client| {
        for key in ["e", "k"] {
            assert_eq!(info(client, key, "used"), 3);
            assert!(!acquirex(client, key, lease(1, "", "new")).is_grant());
            assert!(acquirex(client, key, lease(1, "XX", "c")).is_grant());
        }
    });
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    create(&mut primary.client());
    assert_same_digest(&primary, &replica);
    for key in ["e", "k"] {
        let expires_at = |server: &Server| server.client().int(format!("PEXPIRETIME {key}"));
        assert_eq!(expires_at(&replica), expires_at(&primary), "{key}");
    }
}

/// The counters of `INFO rl` for calls, algorithms and names, and the keys denied most.
fn counted(client: &mut Client) -> ([i64; 3], [String; 2], Value) {
    let calls = ["granted", "denied", "shadow_denied"];
    let calls = calls.map(|field| client.info_number("rl", &format!("rl_{field}")));
    let by = ["algo_concurrency", "name_beat"];
    let by = by.map(|field| client.info("rl", &format!("rl_{field}")));
    (calls, by, client.run("RL.TOP"))
}

fn lapsed(reply: Reply) -> bool {
    (reply.granted, reply.retry_after) == (0, 0)
}

#[test]
fn xx_renews_or_takes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let beat = |options: &str| lease(3, &format!("NAME beat BLOCK 1h {options}"), "me") + " XX";
    acquirex(&mut client, "k", lease(3, "NAME beat", "me"));
    let before = (counted(&mut client), client.int("PEXPIRETIME k"));
    assert!(acquirex(&mut client, "k", beat("")).is_grant());
    assert_eq!(counted(&mut client).0[0], before.0.0[0] + 1, "a renewal is a grant like others");
    assert_eq!(client.int("RL.RELEASE k ID me"), 1);

    // Nothing is counted, written, blocked or waited for.
    let before = (counted(&mut client), client.stored("k"), client.text("DEBUG DIGEST"));
    for options in ["", "COST 0", "COST 2", "COST 9", "UPTO 3", "TIMEOUT 1h"] {
        let reply = acquirex(&mut client, "k", beat(options));
        let seen = (reply.granted, reply.limit, reply.remaining, reply.retry_after, reply.key);
        assert_eq!(seen, (0, 3, 3, 0, 0), "{options}");
        let reply = acquirex(&mut client, "missing", beat(options));
        assert!(lapsed(reply), "{options}: {reply:?}");
    }
    client.run("MULTI");
    client.run(words("RL.ACQUIREX k").arg(beat("")));
    let replies = client.run("EXEC");
    assert!(lapsed(Reply::of(&testkit::array(&replies)[0])), "{replies:?}");
    assert_eq!(client.int("EXISTS missing"), 0);
    let after = (counted(&mut client), client.stored("k"), client.text("DEBUG DIGEST"));
    assert_eq!(after, before);

    // A lease that is renewed too late has ended by itself.
    let calls = ["", "XX"].map(|options| words("RL.ACQUIREX k").arg(short(150, options, "me")));
    let renewed = client.pipeline(calls).pop().expect("a reply").expect("an answer");
    assert!(Reply::of(&renewed).is_grant());
    thread::sleep(Duration::from_millis(200));
    assert!(lapsed(acquirex(&mut client, "k", short(150, "XX", "me"))));
    assert!(acquirex(&mut client, "k", short(150, "", "me")).is_grant(), "anew, without the word");
}

#[test]
fn xx_asks_for_all_leases_of_a_call() {
    let server = Server::start();
    let mut client = server.client();
    let beat = lease(3, "XX", "me");
    assert!(acquirex(&mut client, "a b", short(60_000, "", "me")).is_grant());
    assert!(acquirex(&mut client, "c", lease(3, "", "other")).is_grant());
    let before = client.text("DEBUG DIGEST");
    let reply = client.run(words("RL.ACQUIREX a c b").arg(format!("{beat} WITHKEYS")));
    let (reply, keys) = with_keys(&reply);
    assert_eq!((reply.granted, reply.remaining, reply.retry_after, reply.key), (0, 2, 0, 1));
    // Taken alone, a and b would have been renewed.
    assert_eq!(
        keys.iter().map(|key| (key[0], key[3])).collect::<Vec<_>>(),
        [(1, 0), (0, 0), (1, 0)]
    );
    assert_eq!(client.text("DEBUG DIGEST"), before, "none was renewed");
    assert!(acquirex(&mut client, "a b", &beat).is_grant());
    assert!(info(&mut client, "a", "reset_after") > 60_000);
}

/// A refused renewal is a denial like any other: it tells how long to wait, and is counted.
#[test]
fn xx_with_a_live_lease_is_an_ordinary_call() {
    let server = Server::start();
    let mut client = server.client();
    assert!(acquirex(&mut client, "k", lease(3, "", "me")).is_grant());
    assert!(acquirex(&mut client, "k", lease(3, "COST 2", "other")).is_grant());
    let reply = acquirex(&mut client, "k", lease(3, "COST 2 XX", "me"));
    assert!(reply.granted == 0 && reply.retry_after > 0, "{reply:?}");
    assert_eq!(acquirex(&mut client, "k", lease(0, "XX", "me")).retry_after, -1);
    client.run("RL.BLOCK k FOR 1h");
    let reply = acquirex(&mut client, "k", lease(3, "XX TIMEOUT 2h", "me"));
    assert!((3_590_000..=3_600_000).contains(&reply.retry_after), "at once: {reply:?}");
    // When the key is blocked and the lease is gone, the answer is that it is gone.
    assert!(lapsed(acquirex(&mut client, "k", lease(3, "XX", "gone"))));
    assert_eq!(client.info_number("rl", "rl_denied"), 3);
    client.run("RL.BLOCK k FOR 0");
    assert!(acquirex(&mut client, "k", lease(1, "XX", "me")).is_grant());
    // COST 0 renews nothing, and asks whether the lease is there.
    let before = client.stored("k");
    assert!(acquirex(&mut client, "k", lease(3, "COST 0 XX", "me")).is_grant());
    assert_eq!(client.stored("k"), before);
}

#[test]
fn xx_under_an_exemption_tells_the_truth_and_a_shadow_stays_out_of_it() {
    let server = Server::start();
    let mut client = server.client();
    client.run("RL.EXEMPT e FOR 1h");
    assert!(lapsed(acquirex(&mut client, "e", lease(3, "XX", "me"))));
    assert!(acquirex(&mut client, "e", lease(3, "", "me")).is_grant());
    assert!(acquirex(&mut client, "e", lease(3, "XX", "me")).is_grant());
    // A policy that only watches must not end the leases of those who renew more rarely than its window.
    client.run("RL.POLICY SET quiet WINDOW 1ms LIMIT 1 ALGO concurrency SHADOW");
    for _ in 0..3 {
        assert!(acquirex(&mut client, "s", lease(3, "NAME quiet XX", "me")).is_grant());
        thread::sleep(Duration::from_millis(5));
    }
    let both =
        "WINDOW 1h LIMIT 3 ALGO concurrency NAME quiet WINDOW 1h LIMIT 3 ALGO concurrency ID me XX";
    assert!(lapsed(acquirex(&mut client, "s real", both)));
    assert!(acquirex(&mut client, "s real", both.replace("XX", "")).is_grant());
    thread::sleep(Duration::from_millis(5));
    assert!(acquirex(&mut client, "s real", both).is_grant());
    assert_eq!(client.info_number("rl", "rl_denied"), 0);
}

/// A renewal takes nothing from those who wait, so it need not queue behind them.
#[test]
fn a_renewal_does_not_queue_behind_those_who_wait() {
    let server = Server::start();
    let mut client = server.client();
    for id in ["a", "b"] {
        assert!(acquirex(&mut client, "k", lease(2, "", id)).is_grant());
    }
    let mut first = Waiter::queue(&server, format!("k '{}'", lease(2, "TIMEOUT 20s", "first")));
    for options in ["", "UPTO 1", "XX"] {
        let reply = acquirex(&mut client, "k", lease(1, &format!("TIMEOUT 20s {options}"), "a"));
        assert_eq!((reply.granted, waiters(&mut client)), (1, 1), "{options}");
    }
    // On a key where its lease is new, a call queues as others do.
    assert!(acquirex(&mut client, "full", lease(1, "", "x")).is_grant());
    let _queued = Waiter::queue(&server, format!("full '{}'", lease(1, "TIMEOUT 20s", "y")));
    client.run("RL.RELEASE full ID x");
    no_longer(&mut client, 2);
    client.run("RL.RELEASE full ID y");
    let rules = lease(2, "TIMEOUT 20s", "a");
    assert!(acquirex(&mut client, "k full", &rules).is_grant(), "nobody waits on full");
    client.run("RL.RELEASE k ID b");
    assert_eq!(first.reply().granted, 1);
    no_waiters(&mut client);
}

/// Waits until fewer than `count` clients wait.
fn no_longer(client: &mut Client, count: i64) {
    testkit::wait_for("a waiter to be served", || (waiters(client) < count).then_some(()));
}
