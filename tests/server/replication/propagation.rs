//! Whoever listens to a server gets effects and policies from the first moment on, and never a client's call.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use testkit::{
    Client, PATIENCE, Server, acquire, wait_for, wait_for_children, wait_for_replica, words,
};

use crate::calls::long_rule;
use crate::replication::{Traffic, assert_same, during_traffic};

/// Lets the server run for a while without a listener: no AOF, replica or backlog.
fn leave_it_alone(client: &mut Client) {
    let until = client.info_number("server", "uptime_in_seconds") + 2;
    wait_for("a whole second", || {
        (client.info_number("server", "uptime_in_seconds") >= until).then_some(())
    });
}

/// A primary on which the first request of a replica begins a backlog without a fork.
fn primary_in_no_hurry() -> Server {
    Server::builder().conf("repl-diskless-sync yes").conf("repl-diskless-sync-delay 1000").start()
}

/// Keeps a child of the server busy with saving.
fn save_slowly(client: &mut Client, seconds: i64) {
    client.run("SET a 1");
    let delay_us = seconds * 1_000_000 / client.int("DBSIZE");
    client.run(format!("CONFIG SET rdb-key-save-delay {delay_us}"));
    client.run("BGSAVE");
    client.run("CONFIG SET rdb-key-save-delay 0");
}

/// A connection that asks for the stream of a primary as a replica does.
struct Listener {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Listener {
    fn connect(primary: &Server) -> Listener {
        let stream = TcpStream::connect(("127.0.0.1", primary.port())).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Listener { stream, heard: Vec::new() }
    }

    fn ask(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\r\n").as_bytes()).expect("a server that reads");
    }

    /// Reads until these bytes have come, and returns everything read.
    fn hear_until(&mut self, what: &str) -> String {
        let mut buffer = [0; 1 << 16];
        loop {
            let heard = String::from_utf8_lossy(&self.heard);
            if heard.contains(what) {
                return heard.into_owned();
            }
            let read = self.stream.read(&mut buffer).expect("a server that goes on");
            assert!(read > 0, "the stream ended before {what:?}: {heard}");
            self.heard.extend_from_slice(&buffer[..read]);
        }
    }
}

/// The present end of a primary's history: where a replica that has everything goes on.
fn next_in_history(client: &mut Client) -> String {
    wait_for("a backlog", || {
        (client.info("replication", "repl_backlog_active") == "1").then_some(())
    });
    let id = client.info("replication", "master_replid");
    format!("PSYNC {id} {}", client.info_number("replication", "master_repl_offset") + 1)
}

fn assert_never_a_call(heard: &str) {
    // Nor is RL.ACQUIREX sent.
    assert!(!heard.contains("RL.ACQUIRE"), "{heard}");
}

/// A replica may ask for the contents of a backlog of which the module has not heard yet. No replica has data as old
/// as its beginning, so gaps are allowed until the module has noticed it, but never a client's call.
#[test]
fn a_backlog_never_holds_a_call_and_soon_every_effect() {
    for (request, busy) in [("PSYNC ? -1", false), ("PSYNC ? -1", true), ("SYNC", true)] {
        let primary = primary_in_no_hurry();
        let mut client = primary.client();
        if busy {
            save_slowly(&mut client, 4);
        }
        leave_it_alone(&mut client);
        let mut first = Listener::connect(&primary);
        first.ask("REPLCONF capa eof");
        first.hear_until("+OK");
        first.ask(request);
        let next = next_in_history(&mut client);
        let mut traffic = Traffic::new(3);
        let granted = traffic.run(&mut client, 50);
        assert!(granted > 50);
        let mut second = Listener::connect(&primary);
        second.ask(&next);
        client.run("SET beginning end");
        let heard = second.hear_until("$9\r\nbeginning");
        assert!(heard.starts_with("+CONTINUE"), "{heard}");
        assert_never_a_call(&heard);
        let before = heard.matches("RL._EFFECT").count();
        assert!(before <= granted as usize, "{request}: {heard}");
        wait_for("the module to see it", || {
            (client.info_number("rl", "rl_propagates") == 1).then_some(())
        });
        let granted = traffic.run(&mut client, 50);
        client.run("SET the end");
        let heard = second.hear_until("$3\r\nthe");
        assert_never_a_call(&heard);
        let heard = heard.matches("RL._EFFECT").count() - before;
        assert_eq!(heard, granted as usize, "{request}");
    }
}

/// `SAVE` forks nothing, and its RDB tells its place in the history.
#[test]
fn a_replica_that_begins_with_an_rdb_hears_what_followed_it() {
    let primary = primary_in_no_hurry();
    let mut replica = Server::start();
    let mut client = primary.client();
    leave_it_alone(&mut client);
    let mut first = Listener::connect(&primary);
    first.ask("REPLCONF capa eof");
    first.hear_until("+OK");
    first.ask("PSYNC ? -1");
    next_in_history(&mut client);
    let mut traffic = Traffic::new(5);
    traffic.run(&mut client, 20);
    client.run("SAVE");
    let granted = traffic.run(&mut client, 20);
    replica.crash_and(|replica| {
        fs::copy(primary.file("dump.rdb"), replica.file("dump.rdb")).expect("a copy of the RDB");
        let conf = fs::read_to_string(replica.file("redis.conf")).expect("redis.conf");
        let conf = format!("{conf}replicaof 127.0.0.1 {}\n", primary.port());
        fs::write(replica.file("redis.conf"), conf).expect("redis.conf");
    });
    wait_for_replica(&primary, &replica);
    assert_same(&primary, &replica);
    assert_eq!(client.info_number("stats", "sync_partial_ok"), 1);
    let stats = replica.client().text("INFO commandstats");
    assert!(stats.contains(&format!("cmdstat_rl._effect:calls={granted},")), "{stats}");
    assert!(!stats.contains("cmdstat_rl.acquire"), "{stats}");
}

#[test]
fn each_grant_is_a_change_for_the_save_points_and_no_denial_is() {
    let server = Server::start();
    let mut client = server.client();
    let changes =
        |client: &mut Client| client.info_number("persistence", "rdb_changes_since_last_save");
    let bucket = "WINDOW 1h LIMIT 2 ALGO bucket";
    for (command, expected) in [
        (acquire("a", bucket), 1),
        (acquire("a", bucket), 1),
        // This call is denied.
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
}

/// Makes the server send the RDB of a full sync beside the stream, if it can.
fn two_channels(client: &mut Client) {
    for name in ["repl-rdb-channel", "dual-channel-replication-enabled"] {
        let _ = client.call(format!("CONFIG SET {name} yes"));
    }
}

/// What happens while the first replica attaches.
#[derive(Clone, Copy)]
enum Way {
    Plain,
    WhileSaving,
    TwoChannels,
}

/// The first replica attaches in the middle of traffic, several times. The stream must have everything that the RDB
/// lacks, and only effects.
#[test]
fn a_first_replica_hears_all_that_follows() {
    let ways = [
        ("no", 0, Way::WhileSaving),
        ("yes", 0, Way::Plain),
        ("yes", 1, Way::Plain),
        ("yes", 1, Way::TwoChannels),
    ];
    for (diskless, delay, way) in ways {
        let primary = Server::builder()
            .conf("repl-backlog-ttl 1")
            .conf(format!("repl-diskless-sync {diskless}"))
            .conf(format!("repl-diskless-sync-delay {delay}"))
            .start();
        let mut client = primary.client();
        for seed in 0..2 {
            // Each of them is the first one.
            wait_for("no backlog", || {
                (client.info("replication", "repl_backlog_active") == "0").then_some(())
            });
            let replica = during_traffic(&primary, seed, || {
                let replica = Server::start();
                let mut at_replica = replica.client();
                match way {
                    Way::Plain => {}
                    Way::WhileSaving => save_slowly(&mut client, 2),
                    Way::TwoChannels => {
                        two_channels(&mut client);
                        two_channels(&mut at_replica);
                    }
                }
                at_replica.run(format!("REPLICAOF 127.0.0.1 {}", primary.port()));
                wait_for("the first sync", || {
                    (at_replica.info("replication", "master_link_status") == "up").then_some(())
                });
                let heard =
                    |client: &mut Client| client.info_number("replication", "slave_repl_offset");
                let at_first = heard(&mut at_replica);
                wait_for("more", || (heard(&mut at_replica) > at_first + 50_000).then_some(()));
                replica
            });
            assert_same(&primary, &replica);
            let stats = replica.client().text("INFO commandstats");
            assert!(stats.contains("cmdstat_rl._effect:"), "{stats}");
            assert!(!stats.contains("cmdstat_rl.acquire"), "{stats}");
        }
    }
}

#[test]
fn an_aof_that_is_switched_on_in_the_middle_of_traffic_has_it_all() {
    let mut server = Server::builder().conf("aof-use-rdb-preamble yes").start();
    for busy in [false, true] {
        let mut client = server.client();
        leave_it_alone(&mut client);
        during_traffic(&server, u64::from(busy), || {
            if busy {
                save_slowly(&mut client, 2);
            }
            client.run("CONFIG SET appendonly yes");
            wait_for_children(&mut client);
            leave_it_alone(&mut client);
        });
        client.run("DEBUG SET-ACTIVE-EXPIRE 0");
        let before = client.text("DEBUG DIGEST");
        client.run("DEBUG LOADAOF");
        assert_eq!(client.text("DEBUG DIGEST"), before);
        let files = fs::read_dir(server.file("appendonlydir")).expect("the directory of the AOF");
        for file in files {
            let bytes = fs::read(file.expect("a file").path()).expect("the AOF");
            assert_never_a_call(&String::from_utf8_lossy(&bytes));
        }
        client.run("CONFIG SET appendonly no");
        server.crash();
    }
}

/// The server ignores a script's choice of what to replicate for commands of a module.
#[test]
fn a_script_cannot_keep_a_grant_from_the_replicas() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut client = primary.client();
    let script =
        "redis.set_repl(redis.REPL_NONE) return redis.call('RL.ACQUIRE', KEYS[1], unpack(ARGV))";
    client.run(words("EVAL").arg(script).then("1 k").then(&long_rule("bucket", 5)));
    let script = "redis.set_repl(redis.REPL_NONE) return redis.call('SET', KEYS[1], 1)";
    client.run(words("EVAL").arg(script).then("1 string"));
    wait_for_replica(&primary, &replica);
    assert_eq!(replica.client().keys(), ["k"]);
}
