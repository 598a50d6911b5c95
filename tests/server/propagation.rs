//! A server that nobody listens to sends nothing on, and sends everything to whoever begins to listen.

use std::fs;

use crate::harness::{Client, Server, acquire, wait_for, wait_for_children, words};
use crate::replication::{assert_same, during_traffic};

fn wait_until_nobody_listens(client: &mut Client) {
    wait_for("nobody to listen", || (client.info("rl", "rl_propagates") == "0").then_some(()));
}

fn listens(client: &mut Client) -> bool {
    client.info("rl", "rl_propagates") == "1"
}

/// Waits for one more look at who listens: there is one each second.
fn wait_for_a_look(client: &mut Client) {
    let until = client.info_number("server", "uptime_in_seconds") + 2;
    wait_for("a whole second", || {
        (client.info_number("server", "uptime_in_seconds") >= until).then_some(())
    });
}

#[test]
fn each_call_is_a_change_for_the_save_points_though_nobody_listens() {
    let server = Server::start();
    let mut client = server.client();
    wait_until_nobody_listens(&mut client);
    let changes =
        |client: &mut Client| client.info_number("persistence", "rdb_changes_since_last_save");
    let bucket = "WINDOW 1h LIMIT 2 ALGO bucket";
    for (command, expected) in [
        (acquire("a", bucket), 1),
        (acquire("a", bucket), 1),
        // Denied.
        (acquire("a", bucket), 0),
        (acquire("b c d", bucket), 1),
        (words("RL.ACQUIREX e 'WINDOW 1h LIMIT 9 ALGO sliding COST 3'"), 1),
        (words("RL.PEEK e 'WINDOW 1h LIMIT 9 ALGO sliding'"), 0),
        (words("RL.REFUND e COST 1"), 1),
        (words("RL.BLOCK f FOR 1h"), 1),
    ] {
        let before = changes(&mut client);
        let what = format!("{:?}", command.lossy());
        client.run(command);
        assert_eq!(changes(&mut client) - before, expected, "{what}");
    }
    assert!(!listens(&mut client));
}

/// Keeps a child of the server busy with saving for longer than a look takes.
fn save_slowly(client: &mut Client) {
    const TIME_US: i64 = 1_500_000;
    client.run("SET a 1");
    let delay_us = TIME_US / client.int("DBSIZE");
    client.run(format!("CONFIG SET rdb-key-save-delay {delay_us}"));
    client.run("BGSAVE");
    client.run("CONFIG SET rdb-key-save-delay 0");
}

/// The first replica attaches in the middle of traffic, several times over. It must hear of everything that was
/// not in what it was sent at first, and of effects only.
#[test]
fn a_first_replica_hears_all_that_follows() {
    for (diskless, delay, busy) in [("no", 0, true), ("yes", 0, false), ("yes", 1, false)] {
        let primary = Server::builder()
            .conf("repl-backlog-ttl 1")
            .conf(format!("repl-diskless-sync {diskless}"))
            .conf(format!("repl-diskless-sync-delay {delay}"))
            .start();
        let mut client = primary.client();
        for seed in 0..2 {
            wait_until_nobody_listens(&mut client);
            let replica = during_traffic(&primary, seed, || {
                if busy {
                    save_slowly(&mut client);
                }
                let replica = Server::builder().replica_of(&primary).start();
                let mut at_replica = replica.client();
                wait_for("the first sync", || {
                    (at_replica.info("replication", "master_link_status") == "up").then_some(())
                });
                wait_for_a_look(&mut at_replica);
                replica
            });
            assert!(listens(&mut client));
            assert_same(&primary, &replica);
            let stats = replica.client().text("INFO commandstats");
            assert!(stats.contains("cmdstat_rl._effect:"), "{stats}");
            assert!(!stats.contains("cmdstat_rl.acquire"), "{stats}");
            // As a replica it may be given replicas of its own.
            assert!(listens(&mut replica.client()));
        }
    }
}

#[test]
fn an_aof_that_is_switched_on_in_the_middle_of_traffic_has_it_all() {
    let mut server = Server::builder().conf("aof-use-rdb-preamble yes").start();
    for busy in [false, true] {
        let mut client = server.client();
        wait_until_nobody_listens(&mut client);
        during_traffic(&server, u64::from(busy), || {
            if busy {
                save_slowly(&mut client);
            }
            client.run("CONFIG SET appendonly yes");
            wait_for_children(&mut client);
            assert!(listens(&mut client));
            wait_for_a_look(&mut client);
        });
        assert!(listens(&mut client));
        client.run("DEBUG SET-ACTIVE-EXPIRE 0");
        let before = client.text("DEBUG DIGEST");
        client.run("DEBUG LOADAOF");
        assert_eq!(client.text("DEBUG DIGEST"), before);
        // The AOF is said to be off while it is loaded.
        assert!(listens(&mut client));
        let files = fs::read_dir(server.file("appendonlydir")).expect("the directory of the AOF");
        for file in files {
            let bytes = fs::read(file.expect("a file").path()).expect("the AOF");
            assert!(!bytes.windows(10).any(|bytes| bytes == b"RL.ACQUIRE"));
        }
        client.run("CONFIG SET appendonly no");
        server.crash();
    }
}

#[test]
fn a_save_in_the_background_only_interrupts_the_silence() {
    let server = Server::start();
    let mut client = server.client();
    wait_until_nobody_listens(&mut client);
    // In one go, so that there is no look in between.
    let replies = format!("{:?}", client.pipeline(["BGSAVE", "INFO rl"]));
    assert!(replies.contains("rl_propagates:1"), "{replies}");
    wait_for_children(&mut client);
    wait_until_nobody_listens(&mut client);
}

#[test]
fn a_change_of_role_ends_the_silence() {
    let server = Server::start();
    let mut client = server.client();
    wait_until_nobody_listens(&mut client);
    // There and back at once, before there is a look.
    let replies = client.pipeline(["REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "INFO rl"]);
    assert!(format!("{replies:?}").contains("rl_propagates:1"), "{replies:?}");
}

/// A slot that migrates has a listener that no field of INFO tells of.
#[test]
fn in_a_cluster_somebody_may_always_listen() {
    let node = Server::builder().cluster_node().start();
    let mut client = node.client();
    wait_for_a_look(&mut client);
    assert!(listens(&mut client));
}
