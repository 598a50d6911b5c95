//! How long keys live: the TTL follows the limiter up and down.

use testkit::{Client, Server, wait_for_replica};

use crate::calls::{acquirex, assert_same_digest};

/// Commands after which the key may go almost at once: what is done before, and the command.
const SHORTENED: [(&str, &str, &str); 9] = [
    ("shorter window", "WINDOW 3650d LIMIT 5 ALGO sliding", "WINDOW 1s LIMIT 5 ALGO sliding"),
    ("shorter bucket", "WINDOW 3650d LIMIT 5 ALGO bucket", "WINDOW 1s LIMIT 5 ALGO bucket"),
    ("another algorithm", "WINDOW 3650d LIMIT 5 ALGO fixed", "WINDOW 1s LIMIT 5 ALGO counter"),
    ("carried", "WINDOW 3650d LIMIT 5 ALGO sliding", "WINDOW 1s LIMIT 5 ALGO bucket"),
    (
        "a lease renewed",
        "WINDOW 3650d LIMIT 5 ALGO concurrency ID a",
        "WINDOW 1s LIMIT 5 ALGO concurrency ID a",
    ),
    ("sliding refunded", "WINDOW 10d LIMIT 5 ALGO sliding COST 3", "RL.REFUND k COST 9"),
    ("bucket refunded", "WINDOW 10d LIMIT 5 ALGO bucket COST 5", "RL.REFUND k COST 5"),
    ("counter refunded", "WINDOW 1h LIMIT 5 ALGO counter COST 2", "RL.REFUND k COST 2"),
    ("released", "WINDOW 10d LIMIT 5 ALGO concurrency ID a", "RL.RELEASE k ID a"),
];

fn run(client: &mut Client, what: &str) {
    if what.starts_with("RL.") {
        assert_eq!(client.int(what), 1, "{what}");
    } else {
        assert!(acquirex(client, "k", what).is_grant(), "{what}");
    }
}

/// How long a key may outlive its limiter at most: two steps, and what a TTL may lag behind.
fn latest(what: &str) -> i64 {
    let step = match what {
        what if what.contains("10d") => 67_108_864,
        what if what.contains("1h") => 262_144,
        _ => 1024,
    };
    2 * step + 2000 + (8 * step).max(60_000)
}

#[test]
fn it_moves_down_when_the_key_may_go_much_sooner() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut client = primary.client();
    for (case, before, after) in SHORTENED {
        for persisted in [false, true] {
            client.run("DEL k");
            run(&mut client, before);
            if persisted {
                // Where the TTL moves, it replaces one that a user set.
                assert_eq!(client.int("PERSIST k"), 1);
            }
            let window = if after.starts_with("RL.") { before } else { after };
            let was = client.int("PTTL k");
            run(&mut client, after);
            let left = client.int("PTTL k");
            assert!((1..=latest(window)).contains(&left), "{case}: {left} ms left of {was}");
            assert_same_digest(&primary, &replica);
            let expires_at = client.int("PEXPIRETIME k");
            assert_eq!(replica.client().int("PEXPIRETIME k"), expires_at, "{case}");
        }
    }
}

/// A small change leaves a user's own TTL alone.
#[test]
fn it_stays_when_little_is_gained() {
    let server = Server::start();
    let mut client = server.client();
    // Seven minutes altogether, of a stretch of six days.
    run(&mut client, "WINDOW 10d LIMIT 1000000 ALGO bucket COST 900000");
    client.run("PERSIST k");
    let mut moved = 0;
    for _ in 0..50 {
        run(&mut client, "RL.REFUND k COST 10");
        if client.int("PTTL k") >= 0 {
            moved += 1;
            client.run("PERSIST k");
        }
    }
    assert!(moved <= 1, "{moved} times");
}

/// It gets there however small the steps are.
#[test]
fn it_never_stays_behind_little_by_little() {
    let server = Server::start();
    let mut client = server.client();
    let mut window_ms: i64 = 315_360_000_000;
    while window_ms > 1000 {
        run(&mut client, &format!("WINDOW {window_ms} LIMIT 1000 ALGO sliding"));
        window_ms = window_ms * 9 / 10;
    }
    let left = client.int("PTTL k");
    assert!((1..=65_000).contains(&left), "{left}");
    // A debt that is paid back in small pieces.
    run_forced(&mut client);
    for _ in 0..100 {
        run(&mut client, "RL.REFUND k COST 10");
    }
    let left = client.int("PTTL k");
    assert!((1..=130_000).contains(&left), "{left}");
}

/// A thousand permits at one a minute.
fn run_forced(client: &mut Client) {
    client.run("DEL k");
    acquirex(client, "k", "WINDOW 1m LIMIT 1 ALGO bucket COST 1000 FORCE");
    let left = client.int("PTTL k");
    assert!(left > 59_000_000, "{left}");
}

#[test]
fn it_reaches_to_the_end_of_what_is_laid() {
    let server = Server::start();
    let mut client = server.client();
    for laid in ["RL.BLOCK k FOR 2d", "RL.EXEMPT k FOR 2d"] {
        client.run("DEL k");
        run(&mut client, "WINDOW 10d LIMIT 5 ALGO sliding COST 2");
        client.run(laid);
        run(&mut client, "RL.REFUND k COST 2");
        let left = client.int("PTTL k");
        assert!((172_790_000..=172_800_000).contains(&left), "{laid}: {left}");
    }
}
