//! `repl-diskless-load swapdb`: a replica goes on with its data and its policies until a full sync is complete.

use testkit::{Client, Server, acquire, wait_for, wait_for_replica, words};

use crate::policies::{digest, names, set};
use crate::replication::assert_same;
use crate::waiting::Waiter;

const RULE: &str = "WINDOW 1d LIMIT 5 ALGO sliding";

fn start_primary() -> Server {
    Server::builder()
        .conf("repl-diskless-sync yes")
        .conf("repl-backlog-size 16kb")
        .conf("rdbcompression no")
        .start()
}

/// Such a replica, which looks after its clients often while it loads.
fn start_replica() -> Server {
    let replica = Server::builder()
        .conf("repl-diskless-load swapdb")
        .conf("loading-process-events-interval-bytes 1024")
        .start();
    // With a channel of its own the RDB goes on coming when the primary was killed. Not every server knows these.
    for name in ["repl-rdb-channel", "dual-channel-replication-enabled"] {
        let _ = replica.client().call(format!("CONFIG SET {name} no"));
    }
    replica
}

fn follow(replica: &Server, primary: &Server) {
    replica.client().run(format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    wait_for_replica(primary, replica);
}

/// What a replica answers to reads: the policies, and the state of a limiter.
fn seen(client: &mut Client) -> (String, Vec<String>, String) {
    let info = format!("{:?}", client.run("RL.INFO before"));
    // Times count down.
    let state = info.split("reset_after").next().unwrap_or_default().to_owned();
    (digest(client), names(client), state)
}

fn is_loading(client: &mut Client) -> bool {
    client.info("persistence", "loading") == "1"
        || client.info("persistence", "async_loading") == "1"
}

/// Some hundred limiters, and more bytes than fit between two servers when one of them is slow.
fn fill(client: &mut Client) {
    for reply in client.pipeline((0..500).map(|i| acquire(&format!("k{i}"), RULE))) {
        reply.expect("a grant");
    }
    for i in 0..100 {
        client.run(words(&format!("SET long{i}")).arg(vec![b'x'; 1_000_000]));
    }
}

/// Lets a replica lose more of the stream than the backlog holds, all of this being `change`, and begin a slow
/// full sync from the primary that it had before.
fn fall_behind(primary: &mut Client, replica: &mut Client, change: impl FnOnce(&mut Client)) {
    replica.run("CONFIG SET key-load-delay 5000");
    replica.send(["DEBUG SLEEP 1"]);
    primary.run("CLIENT KILL TYPE replica");
    change(primary);
    fill(primary);
    replica.receive().expect("the end of the sleep");
    wait_for("a full sync beside the data", || {
        (replica.info("persistence", "async_loading") == "1").then_some(())
    });
}

fn old_state(client: &mut Client) {
    set(client, "old", 3, "");
    set(client, "both", 3, "");
    client.take(2, "before", RULE);
}

fn new_state(client: &mut Client) {
    client.run("RL.POLICY DEL old");
    set(client, "both", 4, "");
    set(client, "new", 4, "");
    client.take(1, "before", RULE);
}

#[test]
fn reads_are_answered_from_before_until_a_full_sync_is_complete() {
    let (primary, replica) = (start_primary(), start_replica());
    let (mut client, mut at_replica) = (primary.client(), replica.client());
    old_state(&mut client);
    follow(&replica, &primary);
    let before = seen(&mut at_replica);
    assert_eq!(before.1, ["both", "old"]);
    fall_behind(&mut client, &mut at_replica, new_state);
    assert_eq!(seen(&mut at_replica), before);
    assert_eq!(
        at_replica.error(acquire("before", RULE)),
        "READONLY You can't write against a read only replica."
    );
    assert!(is_loading(&mut at_replica), "the full sync was too quick for this test");
    wait_for_replica(&primary, &replica);
    assert_eq!(seen(&mut at_replica), seen(&mut client));
    assert_eq!(names(&mut at_replica), ["both", "new"]);
    assert_same(&primary, &replica);
    wait_for("the old data to be gone", || {
        (at_replica.info_number("rl", "rl_limiters") == 501).then_some(())
    });
}

#[test]
fn a_full_sync_that_breaks_off_changes_nothing() {
    let (mut primary, replica) = (start_primary(), start_replica());
    let (mut client, mut at_replica) = (primary.client(), replica.client());
    old_state(&mut client);
    follow(&replica, &primary);
    let before = seen(&mut at_replica);
    // From the primary it had, and then from another, with whose data its own have nothing in common.
    fall_behind(&mut client, &mut at_replica, new_state);
    primary.kill();
    wait_for("the end of the load", || (!is_loading(&mut at_replica)).then_some(()));
    assert_eq!(seen(&mut at_replica), before);
    let mut other = start_primary();
    new_state(&mut other.client());
    fill(&mut other.client());
    at_replica.run(format!("REPLICAOF 127.0.0.1 {}", other.port()));
    wait_for("a full sync from the other", || is_loading(&mut at_replica).then_some(()));
    assert_eq!(at_replica.info("persistence", "async_loading"), "0");
    other.kill();
    wait_for("the end of the load", || (!is_loading(&mut at_replica)).then_some(()));
    assert_eq!(seen(&mut at_replica), before);
    assert_eq!(at_replica.info_number("rl", "rl_limiters"), 1);
    // And one that does not break off.
    at_replica.run("CONFIG SET key-load-delay 0");
    let last = start_primary();
    new_state(&mut last.client());
    follow(&replica, &last);
    assert_eq!(seen(&mut at_replica), seen(&mut last.client()));
}

/// A replica that takes writes may have clients that wait.
#[test]
fn who_waits_is_looked_at_when_the_new_data_are_there() {
    let (primary, replica) = (start_primary(), start_replica());
    let (mut client, mut at_replica) = (primary.client(), replica.client());
    // Longer than this test has patience.
    const RULE: &str = "WINDOW 1m LIMIT 5 ALGO sliding";
    client.take(5, "full", RULE);
    follow(&replica, &primary);
    at_replica.run("CONFIG SET replica-read-only no");
    let mut waiter = Waiter::queue(&replica, format!("full '{RULE} TIMEOUT 1m'"));
    fall_behind(&mut client, &mut at_replica, |client| assert_eq!(client.int("DEL full"), 1));
    let reply = waiter.reply();
    assert!(reply.is_grant(), "{reply:?}");
    assert!(!is_loading(&mut at_replica));
}
