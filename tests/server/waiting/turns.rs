//! Whose turn it is: every client is served at the first moment possible, and one that cannot be served holds up none
//! that can.

use std::time::Duration;

use testkit::{Client, Reply, Server, wait_for, wait_up_to, words};

use crate::calls::info;
use crate::cluster::{cluster, owner, slot_of};
use crate::waiting::{AT_ONCE, Waiter, line, no_waiters, only, take, two_kinds, waiters};

/// Sends calls that wait, each from a client of its own.
fn queue_all(server: &Server, calls: impl Iterator<Item = String>) -> Vec<Waiter> {
    let mut control = server.client();
    let before = waiters(&mut control);
    let all: Vec<Waiter> = calls.map(|call| Waiter::send(server, call)).collect();
    wait_up_to(Duration::from_secs(30), "all to wait", || {
        (waiters(&mut control) == before + all.len() as i64).then_some(())
    });
    all
}

fn granted(client: &mut Client) -> bool {
    Reply::of(&client.receive().expect("an answer")).is_grant()
}

/// More clients than the module looks at in one go wait for a shared bucket and for a lease each. While the module
/// goes through them, one of the first gets its lease, and the bucket is drained. The client must be served when the
/// bucket has refilled, wherever the work was cut short.
#[test]
fn nobody_sleeps_past_its_moment_when_work_was_cut_short() {
    const MANY: usize = 700;
    let bucket = "WINDOW 1s LIMIT 1000 ALGO bucket BURST 100";
    let lease = "WINDOW 10d LIMIT 1 ALGO concurrency";
    let server = Server::start();
    let mut client = server.client();
    for i in 0..MANY {
        take(&mut client, line(&format!("lease{i}"), &format!("{lease} ID holder")));
    }
    let call = |i: usize| {
        // Clients further behind need less of the bucket than is left.
        let cost = if i < MANY / 2 { 40 + i % 20 } else { 1 };
        let rules = format!("{bucket} COST {cost} {lease} ID w TIMEOUT 8s");
        line(&format!("shared lease{i}"), &rules)
    };
    let mut waiting = queue_all(&server, (0..MANY).map(call));
    let passing =
        |cost| format!("RL.ACQUIREX {}", line("shared", &format!("{bucket} COST {cost}")));
    client.run(passing(1));
    for i in (0..MANY / 2).step_by(MANY / 20) {
        wait_for("the bucket to be full", || {
            (info(&mut client, "shared", "remaining") == 100).then_some(())
        });
        client.run(passing(1));
        client.pipeline([passing(95), format!("RL.RELEASE lease{i} ID holder")]);
        // It refills within 55 ms.
        let most = Duration::from_millis(55) + AT_ONCE;
        let end = waiting[i].end_within(most, &mut client, &i.to_string());
        assert!(Reply::of(&end.expect("an answer")).is_grant(), "{i}");
    }
}

/// A waiting call is not denied before its deadline, so it starts no block and is in no statistics of denials.
#[test]
fn waiters_start_no_block_and_are_not_counted_as_denied() {
    const MANY: usize = 2700;
    let server = Server::start();
    let mut client = server.client();
    // They come due within some ms, one after the other.
    let rule = "WINDOW 8s LIMIT 1 ALGO sliding BLOCK 1h";
    let call = |i: usize, more: &str| line(&format!("k{i}"), &format!("{rule} {more}"));
    client.pipeline((0..MANY).map(|i| format!("RL.ACQUIREX {}", call(i, ""))));
    let clients = (0..MANY).map(|i| {
        let mut waiter = server.client();
        waiter.send([words("RL.ACQUIREX").then(&call(i, "TIMEOUT 20s"))]);
        waiter
    });
    let mut clients: Vec<Client> = clients.collect();
    for (i, waiter) in clients.iter_mut().enumerate() {
        assert!(granted(waiter), "{i}");
    }
    for i in 0..MANY {
        assert_eq!(info(&mut client, &format!("k{i}"), "blocked_for"), 0, "{i}");
    }
    assert_eq!(client.info_number("rl", "rl_denied"), 0);
    assert_eq!(client.info_number("rl", "rl_top_tracked"), 0);
    assert_eq!(client.info_number("rl", "rl_granted"), 2 * MANY as i64);
}

/// A call that has become an error is answered at once, and those behind it have their turn.
#[test]
fn one_that_gets_an_error_holds_up_nobody() {
    for server in two_kinds() {
        let mut client = server.client();
        let rule = |more: &str| format!("WINDOW 10d LIMIT 1 ALGO fixed {more}");
        let wait = |keys: &str| line(keys, &rule("TIMEOUT 11d"));
        let errors: [(&str, &[&str], &[&str]); 2] = [
            ("WRONGTYPE", &["SET {t}:other text"], &["DEL {t}:other"]),
            ("OOM", &["CONFIG SET maxmemory 1"], &["CONFIG SET maxmemory 0"]),
        ];
        for (code, before, after) in errors {
            take(&mut client, line("{t}:a", &rule("")));
            let mut first = Waiter::queue(&server, wait("{t}:a {t}:other"));
            let mut behind = Waiter::queue(&server, wait("{t}:a"));
            before.iter().for_each(|command| drop(client.run(*command)));
            client.run("RL.REFUND {t}:a COST 1");
            let error = first.end_within(AT_ONCE, &mut client, code).expect_err("an error");
            assert!(error.starts_with(code), "{error}");
            behind.granted_at_once(&mut client, code);
            after.iter().for_each(|command| drop(client.run(*command)));
            client.run("DEL {t}:a {t}:other");
        }
        no_waiters(&mut client);
    }
}

/// While a slot moves, a call that needs a missing key of it goes on waiting, and one whose keys are still there is
/// served.
#[test]
fn one_whose_slot_is_moving_holds_up_nobody() {
    let nodes = cluster();
    let mut clients: Vec<Client> = nodes.iter().map(Server::client).collect();
    let slot = slot_of(&mut clients[0], "{t}");
    let from = owner(slot);
    let to = (from + 1) % nodes.len();
    let ids: Vec<String> = clients.iter_mut().map(|client| client.text("CLUSTER MYID")).collect();
    let rule = |more: &str| format!("WINDOW 10d LIMIT 1 ALGO fixed {more}");
    take(&mut clients[from], line("{t}:a", &rule("")));
    take(&mut clients[from], only("{t}:lease", "holder", "0"));
    // The key that it also needs has no limiter yet: while the slot moves it could be on the other node.
    let wait = |keys: &str, timeout: &str| line(keys, &rule(&format!("TIMEOUT {timeout}")));
    let mut first = Waiter::queue(&nodes[from], wait("{t}:a {t}:other", "11d"));
    let mut short = Waiter::queue(&nodes[from], only("{t}:lease {t}:new", "w", "1s"));
    let mut behind = Waiter::queue(&nodes[from], wait("{t}:a", "11d"));
    clients[to].run(format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[from]));
    clients[from].run(format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[to]));
    clients[from].run("RL.REFUND {t}:a COST 1");
    behind.granted_at_once(&mut clients[from], "the one behind");
    assert!(first.waits(&mut clients[from]));
    // At its deadline it gets the answer of a new call.
    let error = short.end().expect_err("an error");
    assert!(error.starts_with("TRYAGAIN"), "{error}");
    // The slot stays here after all.
    clients[to].run(format!("CLUSTER SETSLOT {slot} STABLE"));
    clients[from].run(format!("CLUSTER SETSLOT {slot} STABLE"));
    clients[from].run("RL.REFUND {t}:a COST 1");
    assert!(first.reply().is_grant());
    no_waiters(&mut clients[from]);
}
