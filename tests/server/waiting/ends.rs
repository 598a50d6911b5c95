//! Other ends of a wait: deadlines, clients that go, pauses, failovers, slots that move. And what is left of it.

use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use testkit::{Client, Reply, Server, wait_for, wait_for_replica, words};

use crate::calls::{acquirex, assert_same_digest, info};
use crate::cluster::{cluster, owner, slot_of};
use crate::waiting::{Waiter, no_waiters, only, take, waiters};

const GONE: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// Waits in vain for a lease that another client holds for some seconds more, as the denial must tell. Returns how
/// late the denial came.
pub fn wait_in_vain(client: &mut Client, timeout: Duration) -> Duration {
    const LEASE_MS: i64 = 10_000;
    let rule = "WINDOW 10s LIMIT 1 ALGO concurrency ID";
    let began = Instant::now();
    client.run("DEL c");
    take(client, format!("c '{rule} holder'"));
    let taken = Instant::now();
    let asked = Instant::now();
    let reply = acquirex(client, "c", format!("{rule} w TIMEOUT {}", timeout.as_millis()));
    let told = Instant::now();
    assert_eq!(reply.granted, 0);
    let took = told - asked;
    assert!(took + Duration::from_millis(1) >= timeout, "{took:?} instead of {timeout:?}");
    // The lease's remaining time at the moment of the denial, which lies between its deadline and the answer.
    let ms = |duration: Duration| duration.as_millis() as i64;
    let left = LEASE_MS - ms(told - began) - 2..=LEASE_MS - ms(asked + timeout - taken) + 2;
    assert!(left.contains(&reply.retry_after), "{reply:?}, {left:?} are left");
    took.saturating_sub(timeout)
}

pub const TIMEOUTS_MS: [u64; 5] = [1, 7, 50, 200, 450];

#[test]
fn a_denial_comes_no_sooner_than_the_deadline_and_is_right() {
    let server = Server::start();
    let mut client = server.client();
    for timeout in TIMEOUTS_MS {
        wait_in_vain(&mut client, Duration::from_millis(timeout));
    }
    assert_eq!(client.info_number("rl", "rl_waits_timed_out"), 5);
    assert_eq!(client.info_number("rl", "rl_waits_granted"), 0);
    assert_eq!(waiters(&mut client), 0);
    // The call waited for one key, and took nothing from the other.
    let rule = "WINDOW 10s LIMIT 1 ALGO concurrency ID w TIMEOUT 30";
    assert_eq!(acquirex(&mut client, "free c", rule).key, 1);
    assert_eq!(client.int("EXISTS free"), 0);
}

#[test]
fn who_vanished_takes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("k", "holder", "0"));
    let gone = Waiter::queue(&server, only("k", "gone", "10m"));
    let killed = Waiter::queue(&server, only("k", "killed", "10m"));
    let mut next = Waiter::queue(&server, only("k", "next", "10m"));
    drop(gone);
    assert_eq!(client.int(format!("CLIENT KILL ID {}", killed.id)), 1);
    wait_for("them to be gone", || (waiters(&mut client) == 1).then_some(()));
    client.run("RL.RELEASE k ID holder");
    assert!(next.reply().is_grant());
    assert_eq!(client.int("RL.RELEASE k ID gone"), 0);
    assert_eq!(client.int("RL.RELEASE k ID killed"), 0);
    assert_eq!(client.int("RL.RELEASE k ID next"), 1);
}

#[test]
fn client_unblock_does_what_it_does_for_blpop() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("k", "holder", "0"));
    for round in 0..3 {
        let mut waiter = Waiter::queue(&server, only("k", "w", "10m"));
        assert_eq!(client.int(format!("CLIENT UNBLOCK {}", waiter.id)), 1, "{round}");
        let reply = waiter.reply();
        assert_eq!((reply.granted, reply.limit, reply.key), (0, 1, 0));
        assert!((863_000_000..=864_000_000).contains(&reply.retry_after), "{reply:?}");
        assert_eq!(client.int(format!("CLIENT UNBLOCK {}", waiter.id)), 0);
        // The connection goes on, and may wait again.
        waiter.client.send([words("RL.ACQUIREX").then(&only("k", "w", "10m"))]);
        wait_for("it to wait", || waiter.waits(&mut client).then_some(()));
        assert_eq!(client.int(format!("CLIENT UNBLOCK {} ERROR", waiter.id)), 1);
        assert_eq!(
            waiter.end().expect_err("an error"),
            "UNBLOCKED client unblocked via CLIENT UNBLOCK"
        );
        assert_eq!(waiters(&mut client), 0);
        assert_eq!(waiter.client.text("PING"), "PONG");
    }
    // A permit that is free but not handed out yet is no grant for a client that was unblocked.
    client.run("RL.RELEASE k ID holder");
    assert_eq!(info(&mut client, "k", "used"), 0);
}

#[test]
fn commands_behind_one_that_waits_are_answered_after_it() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("k", "holder", "0"));
    let mut waiter = Waiter::queue(&server, only("k", "w", "10m"));
    waiter.client.send(["PING", "RL.RELEASE k ID w", "RL.RELEASE k ID w"]);
    client.run("RL.RELEASE k ID holder");
    assert!(waiter.reply().is_grant());
    let rest: Vec<_> = (0..3).map(|_| waiter.end().expect("a reply")).collect();
    assert_eq!(rest[1..], [Value::Int(1), Value::Int(0)]);
    no_waiters(&mut client);
}

#[test]
fn what_a_key_became_is_told() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("k", "holder", "0"));
    let mut waiter = Waiter::queue(&server, only("k", "w", "10m"));
    client.run("SET k text");
    let line = waiter.end().expect_err("an error");
    assert!(line.starts_with("WRONGTYPE"), "{line}");
    no_waiters(&mut client);
}

fn hundred(server: &Server, key: &str) -> Vec<Waiter> {
    let mut control = server.client();
    let queue = |i| Waiter::queue_by(server, &mut control, only(key, &format!("w{i}"), "10m"));
    (0..100).map(queue).collect()
}

#[test]
fn nothing_is_granted_while_writes_are_paused() {
    for how in ["WRITE", "ALL"] {
        let server = Server::start();
        let mut client = server.client();
        client.run("RL.BLOCK k FOR 10m");
        let mut control = server.client();
        let rule = "WINDOW 10d LIMIT 100 ALGO concurrency COST 100";
        let mut waiters: Vec<Waiter> = (0..100)
            .map(|i| {
                let line = format!("k '{rule} ID w{i} TIMEOUT 20m'");
                Waiter::queue_by(&server, &mut control, line)
            })
            .collect();
        let pause = format!("CLIENT PAUSE 600 {how}");
        let begun = Instant::now();
        client.send([words("RL.BLOCK k FOR 50ms"), words(&pause)]);
        (0..2).for_each(|_| drop(client.receive().expect("a reply")));
        if how == "WRITE" {
            thread::sleep(Duration::from_millis(350));
            let granted = client.info_number("rl", "rl_waits_granted");
            assert!(granted == 0 || begun.elapsed() > Duration::from_millis(590), "{granted}");
        }
        assert!(waiters[0].reply().is_grant());
        for (i, waiter) in waiters.iter_mut().enumerate().take(20).skip(1) {
            client.run(format!("RL.RELEASE k ID w{}", i - 1));
            assert!(waiter.reply().is_grant(), "{i}");
        }
        drop(waiters);
        no_waiters(&mut client);
    }
}

/// A denial writes nothing, so a pause of writes delays none.
#[test]
fn a_deadline_is_met_while_writes_are_paused() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("k", "holder", "0"));
    let mut waiter = Waiter::queue(&server, only("k", "w", "200"));
    client.run("CLIENT PAUSE 60000 WRITE");
    let end = waiter.end_within(Duration::from_secs(2), &mut client, "in a pause");
    assert_eq!(Reply::of(&end.expect("an answer")).granted, 0);
    client.run("CLIENT UNPAUSE");
}

#[test]
fn a_shutdown_and_a_kill_with_waiters_are_harmless() {
    let mut server = Server::builder().conf("appendonly yes").conf("appendfsync always").start();
    take(&mut server.client(), only("k", "holder", "0"));
    let waiters = hundred(&server, "k");
    server.restart();
    drop(waiters);
    assert_eq!(info(&mut server.client(), "k", "used"), 1, "the AOF holds the limit");
    let mut waiters = hundred(&server, "k");
    server.client().run("RL.RELEASE k ID holder");
    assert!(waiters[0].reply().is_grant());
    server.crash();
    drop(waiters);
    let mut client = server.client();
    assert_eq!(info(&mut client, "k", "used"), 1, "what a waiter got is in the AOF");
    assert_eq!(client.int("RL.RELEASE k ID w0"), 1);
    take(&mut client, only("k", "new", "10m"));
}

#[test]
fn a_primary_turned_replica_lets_its_waiters_go() {
    let (server, other) = (Server::start(), Server::start());
    let mut client = server.client();
    take(&mut client, only("k", "holder", "0"));
    let mut waiters = hundred(&server, "k");
    client.run(format!("REPLICAOF 127.0.0.1 {}", other.port()));
    for waiter in &mut waiters {
        assert_eq!(waiter.end().expect_err("an error"), GONE);
    }
    no_waiters(&mut client);
    wait_for_replica(&other, &server);
    let line = client.error(words("RL.ACQUIREX").then(&only("k", "w", "10m")));
    assert!(line.starts_with("READONLY"), "{line}");
    client.run("REPLICAOF NO ONE");
    take(&mut client, only("k", "holder", "0"));
    let mut waiter = Waiter::queue(&server, only("k", "w", "10m"));
    client.run("RL.RELEASE k ID holder");
    assert!(waiter.reply().is_grant());
}

#[test]
fn a_failover_with_waiters() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut client = primary.client();
    take(&mut client, only("k", "holder", "0"));
    take(&mut client, "soon 'WINDOW 10d LIMIT 9 ALGO concurrency ID holder'");
    let mut waiters = hundred(&primary, "k");
    let mut busy: Vec<Client> = (0..20).map(|_| primary.client()).collect();
    for waiter in &mut busy {
        waiter.send(["RL.ACQUIREX fast 'WINDOW 50ms LIMIT 1 ALGO bucket TIMEOUT 10m'"]);
    }
    let failover = format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 10000", replica.port());
    // The primary learns a little later that the replica is ready.
    wait_for("the failover to begin", || client.call(&*failover).ok());
    for waiter in &mut waiters {
        assert_eq!(waiter.end().expect_err("an error"), GONE);
    }
    for waiter in &mut busy {
        match waiter.receive() {
            Ok(value) => assert!(Reply::of(&value).is_grant()),
            Err(line) => assert_eq!(line, GONE),
        }
    }
    wait_for("the failover", || {
        (replica.client().info("replication", "role") == "master").then_some(())
    });
    let mut client = replica.client();
    let mut waiter = Waiter::queue(&replica, only("k", "w", "10m"));
    client.run("RL.RELEASE k ID holder");
    assert!(waiter.reply().is_grant());
    assert_same_digest(&replica, &primary);
}

// ---------------------------------------------------------------------------------------- cluster

#[test]
fn a_slot_that_moves_away_takes_its_waiters_along() {
    let nodes = cluster();
    let mut clients: Vec<Client> = nodes.iter().map(Server::client).collect();
    let slot = slot_of(&mut clients[0], "{tag}");
    let from = owner(slot);
    let to = (from + 1) % nodes.len();
    let ids: Vec<String> = clients.iter_mut().map(|client| client.text("CLUSTER MYID")).collect();
    let moved = format!("MOVED {slot} 127.0.0.1:{}", nodes[to].port());
    let key = "{tag}:k";
    take(&mut clients[from], only(key, "holder", "0"));
    // While its slot moves, a key that never existed looks like one that has moved already.
    take(&mut clients[from], only("{tag}:other", "holder", "0"));
    let mut waiters: Vec<Waiter> =
        (0..5).map(|i| Waiter::queue(&nodes[from], only(key, &format!("w{i}"), "10m"))).collect();
    let mut both = Waiter::queue(&nodes[from], only("{tag}:other {tag}:k", "both", "10m"));
    clients[to].run(format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[from]));
    clients[from].run(format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[to]));
    let port = nodes[to].port();
    for key in [key, "{tag}:other"] {
        clients[from].run(format!("MIGRATE 127.0.0.1 {port} {key} 0 5000"));
        thread::sleep(Duration::from_millis(30));
        assert_eq!(clients[from].int("DBSIZE"), i64::from(key != "{tag}:other"));
    }
    assert_eq!(clients[from].info_number("rl", "rl_waits_granted"), 0);
    for i in [to, from] {
        clients[i].run(format!("CLUSTER SETSLOT {slot} NODE {}", ids[to]));
    }
    for waiter in waiters.iter_mut().chain([&mut both]) {
        let line = waiter.end().expect_err("an error");
        assert_eq!(line, moved);
    }
    no_waiters(&mut clients[from]);
    assert_eq!(clients[from].info_number("rl", "rl_waits_granted"), 0);
    let target = &mut clients[to];
    assert_eq!(info(target, key, "used"), 1);
    assert_eq!(target.int(format!("RL.RELEASE {key} ID holder")), 1);
}

// ---------------------------------------------------------------------------------------- data

#[test]
fn grants_to_waiters_are_replicated() {
    let primary = Server::start();
    let mut client = primary.client();
    take(&mut client, "keeper 'WINDOW 10d LIMIT 9 ALGO sliding'");
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut waiters = Vec::new();
    for algorithm in ["sliding", "bucket", "leaky", "fixed", "counter"] {
        for i in 0..6 {
            let mut waiter = primary.client();
            let line = format!(
                "a:{algorithm} b:{algorithm} 'WINDOW 250ms LIMIT 2 ALGO {algorithm} WINDOW 10d LIMIT 99 \
                 ALGO {algorithm} BURST 99 TIMEOUT {}'",
                if i % 2 == 0 { "5s" } else { "4s" }
            );
            // Only buckets have a burst.
            let line = if ["bucket", "leaky"].contains(&algorithm) && algorithm == "bucket" {
                line
            } else {
                line.replace(" BURST 99", "")
            };
            // A leaky bucket of ten days would let one call through every few hours.
            let line =
                if algorithm == "leaky" { line.replace("WINDOW 10d", "WINDOW 1s") } else { line };
            waiter.send([words("RL.ACQUIREX").then(&line)]);
            waiters.push(waiter);
        }
    }
    for mut waiter in waiters {
        assert!(Reply::of(&waiter.receive().expect("a reply")).is_grant());
    }
    assert!(client.info_number("rl", "rl_waits_granted") > 15);
    for server in [&primary, &replica] {
        server.client().run("DEBUG SET-ACTIVE-EXPIRE 0");
    }
    assert_same_digest(&primary, &replica);
    assert_eq!(info(&mut replica.client(), "b:fixed", "used"), 6);
}
