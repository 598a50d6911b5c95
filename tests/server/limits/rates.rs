//! Rates above one permit a millisecond: a bucket holds at least what a millisecond brings, whatever its burst.

use testkit::{Client, Reply, Server, field, int};

use crate::calls::{acquirex, at_once, info, peek, survives};

/// How many permits an idle limiter gives at once, and its capacity in the reply and in RL.INFO.
fn shown(client: &mut Client, rule: &str) -> [i64; 3] {
    client.run("DEL k");
    let reply = acquirex(client, "k", format!("{rule} UPTO 1000000"));
    [reply.granted, reply.limit, info(client, "k", "burst")]
}

#[test]
fn a_bucket_holds_what_a_millisecond_brings() {
    let server = Server::start();
    let mut client = server.client();
    for (rule, capacity) in [
        ("WINDOW 1s LIMIT 20000 ALGO leaky", 20),
        ("WINDOW 1s LIMIT 20001 ALGO leaky", 21),
        ("WINDOW 1s LIMIT 20000 ALGO bucket BURST 3", 20),
        ("WINDOW 1s LIMIT 20000 ALGO bucket BURST 50", 50),
        ("WINDOW 1ms LIMIT 7 ALGO leaky", 7),
        // Up to 1000 permits a second the capacity is what the rule asks for.
        ("WINDOW 1s LIMIT 1000 ALGO leaky", 1),
        ("WINDOW 1s LIMIT 1001 ALGO leaky", 2),
        ("WINDOW 1d LIMIT 5 ALGO bucket BURST 2", 2),
    ] {
        assert_eq!(shown(&mut client, rule), [capacity; 3], "{rule}");
    }
}

#[test]
fn a_demand_below_the_rate_is_never_refused() {
    let server = Server::start();
    let mut client = server.client();
    // Twenty permits in one millisecond.
    let calls = ["RL.ACQUIREX k 'WINDOW 1s LIMIT 20000 ALGO leaky COST 4'"; 5];
    let (replies, _) = at_once(&mut client, &["DEL k"], &calls);
    assert!(replies.iter().all(|reply| Reply::of(reply).is_grant()), "{replies:?}");
}

#[test]
fn burst_is_kept_as_it_was_set() {
    survives(
        |client| {
            client.run("RL.POLICY SET fast WINDOW 1s LIMIT 20000 ALGO bucket BURST 3");
            acquirex(client, "k", "WINDOW 10d LIMIT 2000000000 ALGO bucket BURST 2 COST 3 FORCE");
        },
        &["k"],
        |client| {
            assert_eq!(info(client, "k", "burst"), 3);
            // A policy with the same LIMIT and WINDOW still has a burst of its own.
            let reply = peek(client, "k", "WINDOW 10d LIMIT 2000000000 ALGO bucket BURST 2 COST 0");
            assert_eq!(reply.limit, 3);
        },
    );
    let server = Server::start();
    let mut client = server.client();
    client.run("RL.POLICY SET fast WINDOW 1s LIMIT 20000 ALGO bucket BURST 3");
    assert_eq!(int(field(&client.run("RL.POLICY GET fast"), "burst")), 3);
    let reply = acquirex(&mut client, "k", "WINDOW 1s LIMIT 5 ALGO sliding NAME fast");
    assert_eq!((reply.limit, reply.remaining), (20, 19));
    assert_eq!(info(&mut client, "k", "burst"), 20);
}

#[test]
fn so_it_is_for_cl_throttle() {
    let server = Server::builder().module_args("cl-throttle yes").start();
    let mut client = server.client();
    for (call, limit) in [("a 0 20000 1", 20), ("b 99 20000 1", 100), ("c 0 1000 1", 1)] {
        let reply = client.run(format!("CL.THROTTLE {call}"));
        let reply: Vec<i64> = testkit::array(&reply).iter().map(int).collect();
        assert_eq!(reply[..4], [0, limit, limit - 1, -1], "{call}");
    }
}
