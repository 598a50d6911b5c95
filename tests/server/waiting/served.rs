//! `TIMEOUT` on `RL.ACQUIREX`: which calls wait, in which order they are served, and what wakes them.

use redis::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Client, Reply, Server, Words, wait_for, words};

use crate::calls::{ALGORITHMS, acquirex, info, peek, with_keys};
use crate::waiting::{Waiter, no_waiters, only, take, waiters};

/// Lets a hundred clients wait for a rule that grants one of them every 20 ms.
pub fn queue_a_hundred(server: &Server) -> Vec<Waiter> {
    server.client().run("RL.BLOCK k FOR 10m");
    let queue = || Waiter::queue(server, "k 'WINDOW 1s LIMIT 50 ALGO leaky TIMEOUT 20m'");
    (0..100).map(|_| queue()).collect()
}

/// Serves them, and asserts that none is early. Returns how late the latest was, beyond a twentieth of its time.
pub fn serve_a_hundred(client: &mut Client, waiters: Vec<Waiter>) -> Duration {
    let begun = Instant::now();
    let answer = |mut waiter: Waiter| thread::spawn(move || (waiter.reply(), Instant::now()));
    let threads: Vec<_> = waiters.into_iter().map(answer).collect();
    client.run("RL.BLOCK k FOR 0");
    let lifted = Instant::now();
    let late = (0..).zip(threads).map(|(i, thread)| {
        let (reply, at) = thread.join().expect("no panic");
        assert!(reply.is_grant(), "{i}: {reply:?}");
        let due = i * Duration::from_millis(20);
        assert!(at + Duration::from_millis(1) >= begun + due, "{i}: above the rule");
        at.saturating_duration_since(lifted + due.mul_f64(1.05))
    });
    late.max().expect("some waited")
}

#[test]
fn a_hundred_are_served_in_order_and_no_faster_than_the_rule() {
    let server = Server::start();
    let mut client = server.client();
    let hundred = queue_a_hundred(&server);
    serve_a_hundred(&mut client, hundred);
    assert_eq!(client.info_number("rl", "rl_waits_granted"), 100);
    assert_eq!(client.info_number("rl", "rl_waits_timed_out"), 0);
    no_waiters(&mut client);
}

/// Uses a rule up and waits for more. Asserts that the grant does not come before the promised moment, and returns
/// how much later it came.
pub fn wait_by(server: &Server, algorithm: &str) -> Duration {
    static IDS: AtomicU64 = AtomicU64::new(0);
    let mut client = server.client();
    let rule = format!("WINDOW 300ms LIMIT 2 ALGO {algorithm}");
    let lease = algorithm == "concurrency";
    let id = |id: String| if lease { format!("ID {id}") } else { String::new() };
    let waiter = id("waiter".into());
    loop {
        client.run("DEL k");
        let other = || id(format!("n{}", IDS.fetch_add(1, Ordering::Relaxed)));
        while acquirex(&mut client, "k", format!("{rule} {}", other())).is_grant() {}
        let asked = Instant::now();
        let wait = peek(&mut client, "k", format!("{rule} {waiter}")).retry_after;
        let known = Instant::now();
        if wait <= 0 {
            // A permit has come back in the meantime.
            continue;
        }
        let batch = if lease { "" } else { "UPTO 2" };
        let reply = acquirex(&mut client, "k", format!("{rule} {batch} TIMEOUT 5s {waiter}"));
        let at = Instant::now();
        assert!(reply.is_grant(), "{algorithm}: {reply:?}");
        let wait = Duration::from_millis(wait as u64);
        assert!(at + Duration::from_millis(1) >= asked + wait, "{algorithm}: too early");
        return at.saturating_duration_since(known + wait);
    }
}

#[test]
fn no_algorithm_serves_before_the_moment_it_said() {
    let server = Server::start();
    for algorithm in ALGORITHMS.into_iter().chain(["concurrency"]) {
        wait_by(&server, algorithm);
    }
    no_waiters(&mut server.client());
}

#[test]
fn permits_are_handed_on_in_order_of_arrival() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("k", "0", "0"));
    let mut waiters: Vec<Waiter> =
        (1..=20).map(|i| Waiter::queue(&server, only("k", &i.to_string(), "10m"))).collect();
    for i in 0..20 {
        assert_eq!(client.int(format!("RL.RELEASE k ID {i}")), 1, "{i}");
        assert!(waiters[i].reply().is_grant());
        for waiter in &mut waiters[i + 1..] {
            assert!(waiter.waits(&mut client), "overtook {i}");
        }
    }
}

#[test]
fn as_many_as_there_are_with_upto_and_what_each_key_says() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, "k 'WINDOW 10d LIMIT 5 ALGO fixed UPTO 5'");
    let line = "k other 'WINDOW 10d LIMIT 5 ALGO fixed UPTO 4 TIMEOUT 11d WITHKEYS'";
    let mut waiter = Waiter::queue(&server, line);
    client.run("RL.REFUND k COST 3");
    let (reply, keys) = with_keys(&waiter.end().expect("an answer"));
    assert_eq!((reply.granted, reply.remaining, reply.key), (3, 0, 0));
    assert_eq!((keys.len(), keys[1][2]), (2, 2), "{keys:?}");
}

#[test]
fn none_is_taken_until_all_can_be() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["a", "b"] {
        take(&mut client, only(key, "holder", "0"));
    }
    let mut both = Waiter::queue(&server, only("a b", "both", "10m"));
    // A call that does not need the slow key is not stopped, not even behind one that does.
    client.run("RL.RELEASE a ID holder");
    assert_eq!(info(&mut client, "a", "used"), 0, "free while the other key is not");
    assert!(both.waits(&mut client));
    take(&mut client, only("a", "other", "10m"));
    client.run("RL.RELEASE b ID holder");
    thread::sleep(Duration::from_millis(20));
    assert!(both.waits(&mut client));
    assert_eq!(info(&mut client, "b", "used"), 0);
    client.run("RL.RELEASE a ID other");
    assert!(both.reply().is_grant());
    assert_eq!(["a", "b"].map(|key| info(&mut client, key, "used")), [1, 1]);
}

#[test]
fn one_with_a_timeout_queues_and_one_without_may_pass() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 10d LIMIT 10 ALGO fixed";
    take(&mut client, format!("k '{rule} UPTO 8'"));
    let call = |cost, options| format!("k '{rule} COST {cost} {options}'");
    let mut large = Waiter::queue(&server, call(5, "TIMEOUT 11d"));
    let mut small = Waiter::queue(&server, call(1, "TIMEOUT 11d"));
    take(&mut client, call(1, ""));
    take(&mut client, call(1, "TIMEOUT 0"));
    assert!(large.waits(&mut client) && small.waits(&mut client));
    client.run("RL.REFUND k COST 6");
    assert!(large.reply().is_grant() && small.reply().is_grant());
    assert_eq!(info(&mut client, "k", "used"), 10);
}

/// A client in the middle of the queue gives up: those behind it may be served now.
#[test]
fn who_is_behind_one_that_gave_up_is_served_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let rule = |limit, cost| format!("WINDOW 10d LIMIT {limit} ALGO concurrency COST {cost}");
    take(&mut client, only("b", "holder", "0"));
    take(&mut client, format!("a '{} ID holder'", rule(10, 5)));
    let ab = format!("a b '{} {} ID first TIMEOUT 10m'", rule(10, 1), rule(1, 1));
    let mut first = Waiter::queue(&server, ab);
    let large = Waiter::queue(&server, format!("a '{} ID large TIMEOUT 10m'", rule(10, 9)));
    let mut small = Waiter::queue(&server, format!("a '{} ID small TIMEOUT 10m'", rule(10, 1)));
    thread::sleep(Duration::from_millis(20));
    assert!(small.waits(&mut client), "it overtook");
    client.run(format!("CLIENT KILL ID {}", large.id));
    wait_for("the one behind", || (!small.waits(&mut client)).then_some(()));
    assert!(small.reply().is_grant());
    assert!(first.waits(&mut client));
}

/// More clients wait for other keys than the module looks at in one go.
#[test]
fn many_that_wait_for_other_keys_stop_nobody() {
    const MANY: usize = 700;
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("fast", "holder", "0"));
    let rule = |i: usize| only(&format!("fast slow{i}"), "w", "3s");
    let waiting: Vec<Client> = (0..MANY)
        .map(|i| {
            take(&mut client, only(&format!("slow{i}"), "holder", "0"));
            let mut waiter = server.client();
            waiter.send([words("RL.ACQUIREX").then(&rule(i))]);
            waiter
        })
        .collect();
    wait_for("all to wait", || (waiters(&mut client) == MANY as i64).then_some(()));
    let mut last = Waiter::queue(&server, only("fast", "last", "10m"));
    client.run("RL.RELEASE fast ID holder");
    wait_for("the last one", || (!last.waits(&mut client)).then_some(()));
    assert!(last.reply().is_grant());
    for mut waiter in waiting {
        let reply = Reply::of(&waiter.receive().expect("an answer at the deadline"));
        assert_eq!(reply.granted, 0);
    }
}

#[test]
fn a_denial_that_time_cannot_change_is_immediate() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, "k 'WINDOW 10d LIMIT 2 ALGO sliding COST 2'");
    take(&mut client, only("c", "holder", "0"));
    for (key, rule, never) in [
        // Calls that can never succeed.
        ("k", "WINDOW 10d LIMIT 2 ALGO sliding COST 3 TIMEOUT 11d", true),
        ("x", "WINDOW 10d LIMIT 0 ALGO fixed TIMEOUT 11d", true),
        ("c", "WINDOW 10d LIMIT 1 ALGO concurrency COST 2 ID x TIMEOUT 10m", true),
        // Calls that cannot succeed in time.
        ("k", "WINDOW 10d LIMIT 2 ALGO sliding TIMEOUT 9d", false),
        ("k", "WINDOW 10d LIMIT 2 ALGO sliding TIMEOUT 0", false),
    ] {
        let reply = acquirex(&mut client, key, rule);
        assert_eq!((reply.granted, reply.retry_after < 0), (0, never), "{key} {rule}: {reply:?}");
    }
    // A lease may be released at any time.
    let mut waiter = Waiter::queue(&server, only("c", "w", "10m"));
    client.run("RL.RELEASE c ID holder");
    assert!(waiter.reply().is_grant());
    assert_eq!(client.info_number("rl", "rl_waits_timed_out"), 0);
}

#[test]
fn where_blocking_is_denied_a_timeout_counts_as_0() {
    let server = Server::builder().module_args("max-waiters 2").start();
    let mut client = server.client();
    take(&mut client, only("k", "holder", "0"));
    let call = words("RL.ACQUIREX").then(&only("k", "w", "10m"));
    client.run("MULTI");
    client.run(call.clone());
    let Value::Array(replies) = client.run("EXEC") else { panic!("no replies") };
    assert_eq!(Reply::of(&replies[0]).granted, 0);
    let script = "return redis.call('RL.ACQUIREX', KEYS[1], ARGV[1])";
    let eval = words("EVAL").arg(script).then("1").then(&only("k", "w", "10m"));
    assert_eq!(Reply::of(&client.run(eval)).granted, 0);
    // Only as many wait as there is room for.
    let mut queued: Vec<Waiter> =
        ["a", "b"].map(|id| Waiter::queue(&server, only("k", id, "10m"))).into();
    let too_many = words("RL.ACQUIREX").then(&only("k", "c", "10m"));
    assert_eq!(Reply::of(&client.run(too_many)).granted, 0);
    assert_eq!(waiters(&mut client), 2);
    client.run("RL.RELEASE k ID holder");
    assert!(queued[0].reply().is_grant());
    let mut third = Waiter::queue(&server, only("k", "c", "10m"));
    client.run("RL.RELEASE k ID a");
    assert!(queued[1].reply().is_grant());
    client.run("RL.RELEASE k ID b");
    assert!(third.reply().is_grant());
}

#[test]
fn what_does_not_go_with_a_timeout_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 1s LIMIT 5 ALGO bucket";
    for (options, expected) in [
        ("TIMEOUT 5s FORCE", "ERR FORCE does not go with TIMEOUT"),
        ("FORCE TIMEOUT 0", "ERR FORCE does not go with TIMEOUT"),
        ("TIMEOUT 5s RESERVE 1s", "ERR RESERVE does not go with TIMEOUT"),
        ("TIMEOUT", "ERR syntax error, TIMEOUT has no value"),
    ] {
        assert_eq!(client.error(format!("RL.ACQUIREX k '{rule} {options}'")), expected);
    }
    for options in ["TIMEOUT -1", "TIMEOUT x", "TIMEOUT 1s TIMEOUT 2s", "TIMEOUT 1.5"] {
        let line = client.error(format!("RL.ACQUIREX k '{rule} {options}'"));
        assert!(line.contains("TIMEOUT"), "{options}: {line}");
    }
    for call in
        [format!("RL.PEEK k '{rule} TIMEOUT 5s'"), format!("RL.ACQUIRE k {rule} TIMEOUT 5s")]
    {
        let line = client.error(call.as_str());
        assert!(line.contains("TIMEOUT"), "{call}: {line}");
    }
    assert_eq!(client.int("EXISTS k"), 0);
}

// ---------------------------------------------------------------------------------------- wakes

/// Each of these commands lets a waiter in long before its time.
#[test]
fn whatever_gives_permits_wakes() {
    let full = "WINDOW 10d LIMIT 1 ALGO fixed";
    let server = Server::start();
    let mut client = server.client();
    let wakes: [(&str, &[&str]); 17] = [
        ("REFUND", &["RL.REFUND k COST 1"]),
        ("POLICY SET", &["RL.POLICY SET plan WINDOW 10d LIMIT 2 ALGO fixed"]),
        ("POLICY DEL", &["RL.POLICY DEL tight"]),
        ("BLOCK lifted", &["RL.BLOCK k FOR 0"]),
        ("EXEMPT", &["RL.EXEMPT k FOR 1m"]),
        ("DEL", &["DEL k"]),
        ("UNLINK", &["UNLINK k"]),
        ("expiry", &["PEXPIRE k 30"]),
        ("EXPIRE in the past", &["EXPIRE k -1"]),
        ("FLUSHDB", &["FLUSHDB"]),
        ("FLUSHALL", &["FLUSHALL ASYNC"]),
        ("SWAPDB", &["SWAPDB 0 1"]),
        ("RENAME", &["RENAME k gone"]),
        ("RENAME to it", &["RENAME fresh k"]),
        ("MOVE", &["MOVE k 3"]),
        ("COPY", &["COPY fresh k REPLACE"]),
        ("in a transaction", &["MULTI", "DEL k", "EXEC"]),
    ];
    for (name, commands) in wakes {
        client.run("FLUSHALL");
        for policy in ["plan", "tight"] {
            client.run(format!("RL.POLICY DEL {policy}"));
        }
        client.run("RL.EXEMPT fresh FOR 10m");
        let named = match name {
            "POLICY SET" => "NAME plan",
            "POLICY DEL" => "NAME tight",
            _ => "",
        };
        match name {
            "POLICY DEL" => {
                client.run("RL.POLICY SET tight WINDOW 20d LIMIT 1 ALGO fixed");
                take(&mut client, "k 'WINDOW 10d LIMIT 9 ALGO fixed NAME tight'");
            }
            "BLOCK lifted" => drop(client.run("RL.BLOCK k FOR 10d")),
            _ => take(&mut client, format!("k '{full}'")),
        }
        let line = match name {
            "POLICY DEL" => format!("k 'WINDOW 10d LIMIT 9 ALGO fixed {named} TIMEOUT 1000d'"),
            _ => format!("k '{full} {named} TIMEOUT 11d'"),
        };
        let mut waiter = Waiter::queue(&server, line);
        for command in commands {
            client.run(*command);
        }
        if name == "expiry" {
            // The server expires keys by itself ten times a second.
            let end = waiter.end_within(Duration::from_millis(400), &mut client, name);
            assert!(Reply::of(&end.expect("an answer")).is_grant());
        } else {
            waiter.granted_at_once(&mut client, name);
        }
    }
    assert_eq!(client.info_number("rl", "rl_waits_granted"), wakes.len() as i64);
}

#[test]
fn switching_to_shadow_lets_all_through() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("k", "holder", "0"));
    let mut waiter = Waiter::queue(&server, only("k", "w", "10m"));
    client.run("CONFIG SET rl.enforce shadow");
    wait_for("the waiter", || (!waiter.waits(&mut client)).then_some(()));
    assert!(waiter.reply().is_grant());
}

#[test]
fn a_policy_that_ends_by_itself_wakes() {
    let server = Server::start();
    let mut client = server.client();
    client.run("RL.POLICY SET plan WINDOW 10d LIMIT 1 ALGO concurrency FOR 1s");
    let call =
        |id| format!("k 'WINDOW 10d LIMIT 5 ALGO concurrency NAME plan ID {id} TIMEOUT 10m'");
    take(&mut client, call("a"));
    let mut waiter = Waiter::queue(&server, call("b"));
    wait_for("the waiter", || (!waiter.waits(&mut client)).then_some(()));
    assert!(waiter.reply().is_grant());
}

/// A waiter waits for the keys of its own database.
#[test]
fn each_database_has_its_own() {
    let server = Server::start();
    let (mut zero, mut one) = (server.client(), server.client());
    one.run("SELECT 1");
    take(&mut zero, only("k", "holder", "0"));
    take(&mut one, only("k", "holder", "0"));
    let call: Words = words("RL.ACQUIREX").then(&only("k", "w", "10m"));
    let mut in_one = server.client();
    in_one.run("SELECT 1");
    in_one.send([call]);
    wait_for("it to wait", || (waiters(&mut zero) == 1).then_some(()));
    zero.run("RL.RELEASE k ID holder");
    thread::sleep(Duration::from_millis(20));
    assert_eq!(waiters(&mut zero), 1);
    one.run("RL.RELEASE k ID holder");
    assert!(Reply::of(&in_one.receive().expect("a reply")).is_grant());
    assert_eq!((info(&mut zero, "k", "used"), info(&mut one, "k", "used")), (0, 1));
}
