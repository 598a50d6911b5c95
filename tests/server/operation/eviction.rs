//! A full server, under each eviction policy: limiters go on, or are evicted and then fresh, and only newcomers under
//! `noeviction` get an error.

use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{Client, Reply, Server, Words, acquire, words};

use crate::calls::{ALGORITHMS, long_rule};

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// How many bytes the server may use above those it starts with.
const ROOM: i64 = 2_000_000;

/// The policies that this server knows.
fn policies(client: &mut Client) -> Vec<&'static str> {
    let all = [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-lrm",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-lrm",
        "volatile-random",
        "volatile-ttl",
    ];
    let mut known = |policy: &&str| client.call(format!("CONFIG SET maxmemory-policy {policy}"));
    let known = all.into_iter().filter(|policy| known(policy).is_ok()).collect::<Vec<_>>();
    assert!(known.len() >= 7, "{known:?}");
    known
}

/// Lets the server use this many bytes more than it does.
fn leave_room(client: &mut Client, bytes: i64) -> i64 {
    let limit = client.info_number("memory", "used_memory") + bytes;
    client.run(format!("CONFIG SET maxmemory {limit}"));
    limit
}

fn empty(client: &mut Client, policy: &str) -> i64 {
    client.run("CONFIG SET maxmemory 0");
    client.run("FLUSHALL SYNC");
    client.run(format!("CONFIG SET maxmemory-policy {policy}"));
    leave_room(client, ROOM)
}

/// Sends calls on new keys, many together.
fn flood(client: &mut Client, count: usize, call: impl Fn(usize) -> Words) {
    for at in (0..count).step_by(500) {
        for reply in client.pipeline((at..at + 500).map(&call)) {
            let reply = reply.unwrap_or_else(|line| panic!("a new limiter at {at}: {line}"));
            assert!(Reply::of(&reply).is_grant(), "{reply:?}");
        }
    }
}

#[test]
fn where_the_server_may_evict_new_limiters_are_made_and_old_ones_are_fresh() {
    let server = Server::start();
    let mut client = server.client();
    for policy in policies(&mut client) {
        let limit = empty(&mut client, policy);
        let evicted = client.info_number("stats", "evicted_keys");
        flood(&mut client, 15_000, |i| {
            acquire(&format!("new:{i}"), &long_rule(ALGORITHMS[i % ALGORITHMS.len()], 1))
        });
        flood(&mut client, 2_000, |i| {
            words(&format!("RL.ACQUIREX leases:{i} '{} ID x'", long_rule("concurrency", 1)))
        });
        let evicted = client.info_number("stats", "evicted_keys") - evicted;
        assert!(evicted > 1_000, "{policy}: {evicted} keys evicted");
        let used = client.info_number("memory", "used_memory");
        assert!(used < limit + ROOM / 2, "{policy}: {used} bytes of {limit}");
        // Each limiter has one permit, which is taken unless the key was evicted.
        let mut fresh = 0;
        for i in 0..300 {
            let key = format!("new:{}", i * 50);
            let rule = long_rule(ALGORITHMS[i * 50 % ALGORITHMS.len()], 1);
            let replies = client.pipeline([words(&format!("EXISTS {key}")), acquire(&key, &rule)]);
            let exists = replies[0] == Ok(Value::Int(1));
            let reply = Reply::of(replies[1].as_ref().expect("a reply"));
            // A key can be evicted between the two to make room for the second.
            assert!(exists || reply.is_grant(), "{policy}: {key} is not fresh");
            fresh += usize::from(reply.is_grant());
        }
        assert!(fresh > 0, "{policy}");
    }
}

#[test]
fn a_script_may_make_many_limiters_on_a_full_server() {
    let server = Server::start();
    let mut client = server.client();
    let script = "local n = 0 for i = 1, 3000 do local key = ARGV[1] .. i \
        n = n + redis.call('RL.ACQUIRE', key, 'WINDOW', '1d', 'LIMIT', '9', 'ALGO', 'sliding')[1] \
        end return n";
    for policy in policies(&mut client) {
        empty(&mut client, policy);
        leave_room(&mut client, 60_000);
        for round in 0..3 {
            let call = words("EVAL").arg(script).then("0").arg(format!("{{x}}:{round}:"));
            assert_eq!(client.int(call), 3000, "{policy}, round {round}");
        }
        assert_eq!(client.text("PING"), "PONG");
    }
    // Where nothing may be evicted, the script ends in the error that a new limiter gets.
    empty(&mut client, "noeviction");
    leave_room(&mut client, 60_000);
    let error = client.error(words("EVAL").arg(script).then("0 {x}:"));
    assert!(error.contains("OOM") || error.contains("maxmemory"), "{error}");
    assert!(client.int("DBSIZE") < 3000);
}

/// Fills the server up to its last byte.
fn fill(client: &mut Client) {
    client.run("CONFIG SET maxmemory-policy noeviction");
    client.run("CONFIG SET maxmemory 1");
    assert_eq!(client.error("SET text x"), OOM);
}

#[test]
fn a_full_server_that_may_not_evict_goes_on_with_what_it_has() {
    const SLIDING: &str = "WINDOW 400ms LIMIT 5 ALGO sliding";
    const SLOTS: &str = "WINDOW 300ms LIMIT 1 ALGO concurrency";
    let server = Server::start();
    let mut client = server.client();
    let lease = |key: &str, id: usize| format!("RL.ACQUIREX {key} '{SLOTS} ID id{id}'");
    // PERSIST by a user lets the keys outlive their permits.
    let granted = Reply::of(&client.run(format!("RL.ACQUIREX steady '{SLIDING} UPTO 5'")));
    assert_eq!(granted.granted, 5);
    assert!(Reply::of(&client.run(lease("slots", 0))).is_grant());
    client.run("PERSIST steady");
    client.run("PERSIST slots");
    fill(&mut client);
    for round in 1..5 {
        let reply = client.acquire("steady", SLIDING);
        if !reply.is_grant() {
            thread::sleep(Duration::from_millis(reply.retry_after as u64));
        }
        // Expired permits make room for as many new ones.
        let reply = client.run(format!("RL.ACQUIREX steady '{SLIDING} UPTO 5'"));
        assert!(Reply::of(&reply).granted >= 4, "round {round}: {reply:?}");
        assert!(!client.acquire("steady", "WINDOW 400ms LIMIT 1 ALGO sliding").is_grant());

        let reply = Reply::of(&client.run(lease("slots", round)));
        thread::sleep(Duration::from_millis(reply.retry_after as u64));
        assert!(Reply::of(&client.run(lease("slots", round))).is_grant(), "round {round}");
        assert!(!Reply::of(&client.run(lease("slots", 100))).is_grant());
        assert_eq!(client.error(acquire("new", SLIDING)), OOM);
        assert_eq!(client.error(lease("new", 0)), OOM);
    }
}

/// A limiter of leases goes on: a lease given back makes room for another.
#[test]
fn a_slot_that_was_given_back_can_be_taken_on_a_full_server() {
    let server = Server::start();
    let mut client = server.client();
    let rule = long_rule("concurrency", 3);
    for id in ["a", "b", "c"] {
        client.run(format!("RL.ACQUIREX slots '{rule} ID {id}'"));
    }
    fill(&mut client);
    for (old, new) in [("b", "d"), ("d", "e")] {
        assert_eq!(client.int(format!("RL.RELEASE slots ID {old}")), 1);
        let reply = client.call(format!("RL.ACQUIREX slots '{rule} ID {new}'"));
        let reply = reply.unwrap_or_else(|line| panic!("{new} in the place of {old}: {line}"));
        assert!(Reply::of(&reply).is_grant());
    }
}

/// A log that was longer before still has its memory.
#[test]
fn a_log_may_grow_to_its_old_length_on_a_full_server() {
    const RULE: &str = "WINDOW 200ms LIMIT 50 ALGO sliding";
    let server = Server::start();
    let mut client = server.client();
    let grow = |client: &mut Client, entries: usize| {
        for i in 0..entries {
            let reply = client.call(acquire("k", RULE));
            let reply = reply.unwrap_or_else(|line| panic!("entry {i}: {line}"));
            assert!(Reply::of(&reply).is_grant());
            thread::sleep(Duration::from_millis(2));
        }
    };
    grow(&mut client, 20);
    client.run("PERSIST k");
    fill(&mut client);
    thread::sleep(Duration::from_millis(230));
    grow(&mut client, 10);
}
