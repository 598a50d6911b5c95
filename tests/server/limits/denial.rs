//! A denial changes nothing: neither the data, nor what is saved or replicated, nor what other clients watch.

use redis::{PushKind, Value};
use testkit::{Client, Server, acquire, bytes_of, wait_for_replica};

use crate::calls::{ALGORITHMS, long_rule};

const RULE: &str = "WINDOW 10d LIMIT 1 ALGO sliding";

/// Everything that a write would change.
#[derive(Debug, PartialEq)]
struct Traces {
    changes: i64,
    aof_size: i64,
    offset: i64,
    digest: String,
    keys: i64,
}

fn traces(client: &mut Client) -> Traces {
    Traces {
        changes: client.info_number("persistence", "rdb_changes_since_last_save"),
        aof_size: client.info_number("persistence", "aof_current_size"),
        offset: client.info_number("replication", "master_repl_offset"),
        digest: client.text("DEBUG DIGEST"),
        keys: client.int("DBSIZE"),
    }
}

#[test]
fn a_denial_is_neither_saved_nor_replicated() {
    let server = Server::builder()
        .conf("appendonly yes")
        .conf("appendfsync always")
        .conf("repl-ping-replica-period 3600")
        .start();
    let replica = Server::builder().replica_of(&server).start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        client.drain(algorithm, &long_rule(algorithm, 1));
    }
    wait_for_replica(&server, &replica);
    let before = traces(&mut client);
    for algorithm in ALGORITHMS {
        let rule = long_rule(algorithm, 1);
        for keys in
            [algorithm.to_owned(), format!("absent {algorithm}"), format!("{algorithm} absent")]
        {
            for _ in 0..20 {
                assert!(!client.acquire(&keys, &rule).is_grant(), "{keys}");
            }
        }
        assert!(!client.acquire(algorithm, &long_rule(algorithm, 0)).is_grant());
    }
    assert_eq!(traces(&mut client), before);
    assert_eq!(client.int("EXISTS absent"), 0);
    // A grant changes all of them, so the test would have noticed one.
    client.take(1, "absent", RULE);
    let after = traces(&mut client);
    assert_eq!(after.changes, before.changes + 1);
    assert_eq!(after.keys, before.keys + 1);
    assert!(after.aof_size > before.aof_size, "{after:?}, before {before:?}");
    assert!(after.offset > before.offset, "{after:?}, before {before:?}");
    assert_ne!(after.digest, before.digest);
}

#[test]
fn a_denial_does_not_disturb_who_watches_the_key() {
    let server = Server::start();
    let (mut watcher, mut client) = (server.client(), server.client());
    client.take(1, "k", RULE);
    for (denied, aborts) in [("k", false), ("other k", false), ("k absent", false), ("other", true)]
    {
        watcher.run("WATCH k other absent");
        assert_eq!(client.acquire(denied, RULE).is_grant(), aborts, "{denied}");
        watcher.run("MULTI");
        watcher.run("PING");
        let executed = watcher.run("EXEC") != Value::Nil;
        assert_eq!(executed, !aborts, "{denied}");
    }
}

#[test]
fn a_denial_invalidates_no_cache() {
    let server = Server::start();
    let (mut reader, mut client) = (server.client_resp3(), server.client());
    client.take(1, "k", RULE);
    client.run("SET text x");
    reader.run("CLIENT TRACKING ON");
    let mut invalidated_after = |calls: &[&str], granted| -> Vec<String> {
        for key in ["k", "other", "text"] {
            reader.run(format!("DUMP {key}"));
        }
        for call in calls {
            assert_eq!(client.acquire(call, RULE).is_grant(), granted, "{call}");
        }
        client.run("SET text y");
        let pushes = reader.pushes();
        let keys = pushes.iter().flat_map(|push| {
            assert_eq!(push.kind, PushKind::Invalidate);
            let Some(Value::Array(keys)) = push.data.first() else { panic!("no keys: {push:?}") };
            keys.iter()
                .map(|key| String::from_utf8_lossy(&bytes_of(key).expect("a key")).into_owned())
        });
        keys.collect()
    };
    assert_eq!(invalidated_after(&["k", "other k", "k other"], false), ["text"]);
    assert_eq!(invalidated_after(&["other"], true), ["other", "text"]);
}

#[test]
fn a_key_of_another_type_in_the_middle_deducts_nowhere() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 10d LIMIT 3 ALGO sliding";
    client.take(1, "a", rule);
    for create in
        ["SET x text", "RPUSH x 1", "SADD x 1", "HSET x f 1", "ZADD x 1 m", "XADD x * f 1"]
    {
        client.run("DEL x");
        client.run(create);
        let before = (client.text("DEBUG DIGEST"), client.stored("a"), client.stored("x"));
        let changes = client.info_number("persistence", "rdb_changes_since_last_save");
        for keys in ["x", "a x absent", "x a absent", "absent a x"] {
            assert_eq!(
                client.error(acquire(keys, rule)),
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                "{create}: {keys}"
            );
        }
        let after = (client.text("DEBUG DIGEST"), client.stored("a"), client.stored("x"));
        assert_eq!(after, before, "{create}");
        let changes_after = client.info_number("persistence", "rdb_changes_since_last_save");
        assert_eq!(changes_after, changes, "{create}");
    }
    assert_eq!(client.int("EXISTS absent"), 0);
    assert_eq!(client.drain("a", rule), 2);
}

/// A log records grants above its resolution at a later time than they were made. The next call must not take that
/// for a clock that stepped back, whatever its rule.
#[test]
fn a_denial_writes_nothing_when_a_coarse_log_comes_under_an_exact_rule() {
    let server = Server::start();
    let mut client = server.client();
    client.take(1, "k", "WINDOW 3650d LIMIT 5000 ALGO sliding");
    client.take(1, "k", "WINDOW 10d LIMIT 2 ALGO sliding");
    let before = (client.text("DEBUG DIGEST"), client.stored("k"));
    assert!(!client.acquire("k", "WINDOW 10d LIMIT 2 ALGO sliding").is_grant());
    assert_eq!((client.text("DEBUG DIGEST"), client.stored("k")), before);
}

#[test]
fn a_denial_writes_nothing_when_the_resolution_was_raised() {
    let server = Server::builder().conf("rl.sliding-resolution 16").start();
    let mut client = server.client();
    let rule = "WINDOW 10d LIMIT 20 ALGO sliding";
    client.take(20, "k", rule);
    client.run("CONFIG SET rl.sliding-resolution 4096");
    let before = (client.text("DEBUG DIGEST"), client.stored("k"));
    assert!(!client.acquire("k", rule).is_grant());
    assert_eq!((client.text("DEBUG DIGEST"), client.stored("k")), before);
}
