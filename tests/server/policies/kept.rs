//! What becomes of policies when the server saves, loads, replicates and flushes.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{Client, Server, array, text, wait_for_children, wait_for_replica, words};

use crate::policies::{create, digest, limit, names, set};

/// The whole listing, without the time that is left.
fn listed(client: &mut Client) -> BTreeMap<String, Vec<String>> {
    let pairs = client.run("RL.POLICY LIST");
    let of = |pair: &Value| {
        let [name, policy] = array(pair) else { panic!("not a pair: {pair:?}") };
        let fields = array(policy).chunks(2).filter(|pair| text(&pair[0]) != "for");
        let fields = fields.map(|pair| format!("{}={:?}", text(&pair[0]), pair[1])).collect();
        (text(name), fields)
    };
    array(&pairs).iter().map(of).collect()
}

/// Asserts that digest and listing are the same.
pub fn assert_same(
    before: &(String, BTreeMap<String, Vec<String>>),
    client: &mut Client,
    case: &str,
) {
    assert_eq!(before.1.len(), 4, "{case}: nothing to compare");
    assert_eq!((digest(client), listed(client)), *before, "{case}");
    assert_eq!(limit(client, "d"), 10, "{case}");
}

pub fn snapshot(client: &mut Client) -> (String, BTreeMap<String, Vec<String>>) {
    (digest(client), listed(client))
}

#[test]
fn policies_survive_saving() {
    for (case, with_key) in [("no key at all", false), ("with a key", true)] {
        let mut server = Server::start();
        let mut client = server.client();
        create(&mut client);
        if with_key {
            client.run("SET k v");
        }
        let before = snapshot(&mut client);
        client.run("SAVE");
        server.crash();
        assert_same(&before, &mut server.client(), case);
        // Loading removes policies that were set after the save.
        set(&mut server.client(), "late", 3, "");
        server.client().run("DEBUG RELOAD NOSAVE");
        assert_same(&before, &mut server.client(), case);
        server.restart();
        assert_same(&before, &mut server.client(), case);
        assert_eq!(server.client().int("RL.POLICY DEL d a b.B-_9 c"), 4, "{case}");
        server.restart();
        assert_eq!(names(&mut server.client()), Vec::<String>::new(), "{case}");
    }
}

#[test]
fn policies_survive_in_an_aof() {
    for preamble in ["yes", "no"] {
        let mut server = Server::builder()
            .conf("appendonly yes")
            .conf("appendfsync always")
            .conf(format!("aof-use-rdb-preamble {preamble}"))
            .start();
        create(&mut server.client());
        let before = snapshot(&mut server.client());
        server.crash();
        assert_same(&before, &mut server.client(), "as they were sent");
        // An AOF rewritten without the preamble loses them, and the log says so.
        if preamble == "no" {
            assert!(server.log().contains("aof-use-rdb-preamble"), "no warning in the log");
            continue;
        }
        server.client().run("BGREWRITEAOF");
        wait_for_children(&mut server.client());
        server.crash();
        assert_same(&before, &mut server.client(), "rewritten");
        set(&mut server.client(), "late", 3, "");
        server.client().run("RL.POLICY DEL late");
        server.crash();
        assert_same(&before, &mut server.client(), "rewritten, with more behind it");
    }
}

#[test]
fn a_policy_for_a_time_ends_while_the_server_is_down() {
    let mut server = Server::start();
    set(&mut server.client(), "n", 8, "");
    set(&mut server.client(), "n", 9, "FOR 200ms");
    server.client().run("SAVE");
    server.crash_and(|_| thread::sleep(Duration::from_millis(210)));
    assert_eq!(limit(&mut server.client(), "n"), 8);
}

#[test]
fn replicas_have_them_and_keep_them_once_promoted() {
    let mut primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let chained = Server::builder().replica_of(&replica).start();
    wait_for_replica(&primary, &replica);
    wait_for_replica(&replica, &chained);
    let mut client = primary.client();
    create(&mut client);
    let before = snapshot(&mut client);
    for (ahead, behind) in [(&primary, &replica), (&replica, &chained)] {
        wait_for_replica(ahead, behind);
        assert_same(&before, &mut behind.client(), "replicated");
    }
    assert_eq!(primary.client().info_number("stats", "sync_full"), 1);
    // Policies set in a transaction and from a script.
    client.run("MULTI");
    set(&mut client, "e", 3, "");
    client.run("RL.POLICY DEL c");
    client.run("EXEC");
    client.run(words("EVAL").arg("return redis.call('RL.POLICY', 'DEL', 'e')").then("0"));
    wait_for_replica(&primary, &replica);
    let before = snapshot(&mut client);
    assert_eq!(snapshot(&mut replica.client()), before);
    let mut promoted = replica.client();
    for line in ["RL.POLICY SET x WINDOW 1h LIMIT 1 ALGO fixed", "RL.POLICY DEL a", "RL._POLICY x"]
    {
        assert_eq!(promoted.error(line), "READONLY You can't write against a read only replica.");
    }
    primary.crash_and(|_| {
        promoted.run("REPLICAOF NO ONE");
    });
    assert_eq!(snapshot(&mut promoted), before);
    assert_eq!(promoted.int("RL.POLICY DEL d a"), 2);
    wait_for_replica(&replica, &chained);
    assert_eq!(names(&mut chained.client()), ["b.B-_9"]);
}

/// A replica's own AOF holds what its primary sent.
#[test]
fn a_replica_keeps_them_in_its_own_aof() {
    let primary = Server::start();
    let mut replica = Server::builder().conf("appendonly yes").conf("appendfsync always").start();
    replica.client().run(format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    set(&mut primary.client(), "before", 3, "");
    wait_for_replica(&primary, &replica);
    wait_for_children(&mut replica.client());
    create(&mut primary.client());
    primary.client().run("RL.POLICY DEL before");
    wait_for_replica(&primary, &replica);
    let before = snapshot(&mut primary.client());
    // The replica comes back as a primary, from its AOF alone.
    replica.crash();
    assert_same(&before, &mut replica.client(), "from its own AOF");
}

/// A server that becomes a replica loses its own policies, whether its primary has some or none.
#[test]
fn a_full_sync_leaves_only_those_of_the_primary() {
    for load in ["disabled", "on-empty-db", "swapdb"] {
        for some in [true, false] {
            let case = format!("repl-diskless-load {load}, {some}");
            let primary = Server::start();
            if some {
                create(&mut primary.client());
            }
            let replica = Server::builder().conf(format!("repl-diskless-load {load}")).start();
            set(&mut replica.client(), "stale", 3, "");
            set(&mut replica.client(), "d", 3, "FOR 1h");
            replica.client().run(format!("REPLICAOF 127.0.0.1 {}", primary.port()));
            wait_for_replica(&primary, &replica);
            let [ahead, behind] = [&primary, &replica].map(|server| snapshot(&mut server.client()));
            assert_eq!(ahead, behind, "{case}");
            assert_eq!(ahead.1.len(), if some { 4 } else { 0 }, "{case}");
        }
    }
}

#[test]
fn flushing_keeps_policies() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut client = primary.client();
    create(&mut client);
    let before = snapshot(&mut client);
    for flush in ["FLUSHALL", "FLUSHALL SYNC", "FLUSHALL ASYNC", "FLUSHDB", "SWAPDB 0 1"] {
        client.run(flush);
        assert_same(&before, &mut client, flush);
        wait_for_replica(&primary, &replica);
        assert_same(&before, &mut replica.client(), flush);
    }
}
