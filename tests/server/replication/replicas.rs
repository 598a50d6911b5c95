//! Replicas hold the same limiters as their primary, byte for byte, whatever the traffic.

use std::fs;
use std::io::Write as _;

use testkit::{Client, Random, Reply, Server, acquire, args, wait_for, wait_for_replica, words};

use crate::calls::{ALGORITHMS, capacity, long_rule};
use crate::replication::{Traffic, assert_same, during_traffic};

#[test]
fn replicas_are_alike_after_random_traffic() {
    const SEED: u64 = 20_240;
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let chained = Server::builder().replica_of(&replica).start();
    wait_for_replica(&primary, &replica);
    wait_for_replica(&replica, &chained);
    let mut client = primary.client();
    let mut traffic = Traffic::new(SEED);
    for round in 0..5 {
        let granted = traffic.run(&mut client, 300);
        assert!(granted > 50, "round {round}, seed {SEED}: only {granted} grants");
        assert_same(&primary, &replica);
        wait_for_replica(&replica, &chained);
        assert_same(&replica, &chained);
    }
    assert_eq!(primary.client().info_number("stats", "sync_full"), 1);
}

#[test]
fn a_full_sync_in_the_middle_of_traffic() {
    let primary = Server::start();
    let replicas = during_traffic(&primary, 7, || {
        let first =
            Server::builder().replica_of(&primary).conf("repl-diskless-load disabled").start();
        let second = Server::builder().conf("repl-diskless-load swapdb").start();
        // The replica has data of its own, which it must drop.
        second.client().take(1, "r0 own", "WINDOW 1h LIMIT 9 ALGO fixed");
        second.client().run(format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        let replicas = vec![first, second];
        for replica in &replicas {
            let mut client = replica.client();
            wait_for("the first sync", || {
                (client.info("replication", "master_link_status") == "up").then_some(())
            });
        }
        replicas
    });
    assert_eq!(primary.client().info_number("stats", "sync_full"), 2);
    for replica in &replicas {
        assert_same(&primary, replica);
    }
}

#[test]
fn a_replica_refuses_and_holds_the_limit_once_promoted() {
    let mut primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut client = primary.client();
    for algorithm in ALGORITHMS {
        client.take(capacity(algorithm, 5).min(3), algorithm, &long_rule(algorithm, 5));
    }
    wait_for_replica(&primary, &replica);
    let mut promoted = replica.client();
    for command in [acquire("sliding", &long_rule("sliding", 5)), words("RL._EFFECT k x")] {
        assert_eq!(
            promoted.error(command),
            "READONLY You can't write against a read only replica."
        );
    }
    // A writable replica takes no effects from clients either.
    promoted.run("CONFIG SET replica-read-only no");
    assert_eq!(
        promoted.error("RL._EFFECT k x"),
        "ERR this command is sent by a primary to its replicas, not by clients"
    );
    let before = ALGORITHMS.map(|algorithm| promoted.stored(algorithm));
    promoted.run("REPLICAOF NO ONE");
    primary.crash_and(|_| {});
    assert_eq!(ALGORITHMS.map(|algorithm| promoted.stored(algorithm)), before);
    for algorithm in ALGORITHMS {
        let left = if algorithm == "leaky" { 0 } else { 2 };
        assert_eq!(promoted.drain(algorithm, &long_rule(algorithm, 5)), left, "{algorithm}");
    }
}

/// A command as it stands in an AOF.
fn in_aof(arguments: &[&[u8]]) -> Vec<u8> {
    redis::pack_command(&arguments.iter().map(|argument| argument.to_vec()).collect::<Vec<_>>())
}

#[test]
fn damaged_effects_in_an_aof_are_logged_and_skipped() {
    let mut server = Server::builder()
        .conf("appendonly yes")
        .conf("appendfsync always")
        .conf("aof-use-rdb-preamble no")
        .start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        client.take(capacity(algorithm, 5).min(3), algorithm, &long_rule(algorithm, 5));
    }
    client.run("SET text before");
    let before = ALGORITHMS.map(|algorithm| client.stored(algorithm));
    server.crash_and(|server| {
        let dir = fs::read_dir(server.file("appendonlydir")).expect("the directory of the AOF");
        let incremental = dir
            .map(|entry| entry.expect("an entry").path())
            .find(|path| path.to_string_lossy().ends_with(".incr.aof"))
            .expect("an incremental AOF");
        let mut file = fs::File::options().append(true).open(incremental).expect("the AOF");
        let mut random = Random(3);
        let mut write = |arguments: &[&[u8]]| file.write_all(&in_aof(arguments)).expect("a write");
        write(&[b"RL._EFFECT", b"%s%n\r\n", b"\x01\xff"]);
        write(&[b"RL._EFFECT"]);
        write(&[b"RL._EFFECT", b"sliding"]);
        write(&[b"RL._EFFECT", b"sliding", b""]);
        write(&[b"RL._EFFECT", b"newer", b"\x63\x00"]);
        // An effect for a key of another type stands between two effects that apply: blocks until the end of time.
        let block = b"\x01\x02\xff\xff\xff\xff\xff\xff\xff\x0f\x00\x00";
        write(&[b"RL._EFFECT", b"made1", block, b"text", block, b"made2", block]);
        // A key without an effect follows one that has one.
        write(&[b"RL._EFFECT", b"made3", block, b"made4"]);
        for _ in 0..300 {
            let mut blob = random.bytes(40);
            if random.one_in(2) {
                blob.splice(0..0, [1, random.below(32) as u8]);
            }
            write(&[b"RL._EFFECT", b"random", &blob]);
        }
        write(&[b"DEL", b"random"]);
        write(&[b"SET", b"after", b"x"]);
    });
    let mut client = server.client();
    assert_eq!(ALGORITHMS.map(|algorithm| client.stored(algorithm)), before);
    assert_eq!(client.text("GET text"), "before");
    assert_eq!(client.text("GET after"), "x");
    assert_eq!(client.int("EXISTS made1 made2 made3"), 3);
    assert_eq!(client.int("EXISTS made4 newer random"), 0);
    // The log has one line for each reason, however many effects there are.
    let log = server.log();
    assert!(log.matches("skipped: damaged value").count() < 5);
    for line in [
        "effect on key 'newer' skipped: version 99 is unknown to this version of the module",
        r"effect on key '%s%n\r\n' skipped: damaged value",
        "effect on key 'text' skipped: WRONGTYPE Operation against a key holding the wrong kind of value",
    ] {
        assert!(log.contains(line), "not in the log: {line}");
    }
    for algorithm in ALGORITHMS {
        let left = if algorithm == "leaky" { 0 } else { 2 };
        assert_eq!(client.drain(algorithm, &long_rule(algorithm, 5)), left, "{algorithm}");
    }
}

/// Effects are results, so a replica agrees whatever its own clock says.
#[test]
fn effects_are_one_command_whose_size_does_not_grow() {
    let primary = Server::builder().conf("repl-ping-replica-period 3600").start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut client = primary.client();
    let commands = |client: &mut Client, call: &str, rule: &str| {
        let before = client.info_number("replication", "master_repl_offset");
        assert!(client.acquire(call, rule).is_grant());
        client.info_number("replication", "master_repl_offset") - before
    };
    client.run(args(["SET", "select", "the database first"]));
    let rule = long_rule("sliding", 4000);
    commands(&mut client, "log", &rule);
    let early = commands(&mut client, "log", &rule);
    for reply in client.pipeline((0..2000).map(|_| acquire("log", &rule))) {
        assert!(Reply::of(&reply.expect("a reply")).is_grant());
    }
    let late = commands(&mut client, "log", &rule);
    assert!(late <= early + 2, "{early} bytes at first, {late} with a long log");
    wait_for_replica(&primary, &replica);
    let stats = replica.client().info("commandstats", "cmdstat_rl._effect");
    assert!(stats.starts_with("calls=2003,"), "{stats}");
    commands(&mut client, "a b c log", &rule);
    wait_for_replica(&primary, &replica);
    let stats = replica.client().info("commandstats", "cmdstat_rl._effect");
    assert!(stats.starts_with("calls=2004,"), "{stats}");
    assert_same(&primary, &replica);
}

/// A replica that lost a key by itself, as with `replica-ignore-maxmemory no`, is not told its TTL again.
#[test]
fn what_a_replica_makes_anew_has_a_ttl() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).conf("replica-read-only no").start();
    let (mut client, mut at_replica) = (primary.client(), replica.client());
    client.take(1, "k", "WINDOW 1h LIMIT 9 ALGO sliding");
    wait_for_replica(&primary, &replica);
    assert_eq!(at_replica.int("DEL k"), 1);
    client.take(1, "k", "WINDOW 1h LIMIT 9 ALGO sliding");
    wait_for_replica(&primary, &replica);
    let expires_at = client.int("PEXPIRETIME k");
    assert_eq!(at_replica.int("PEXPIRETIME k"), expires_at);
}
