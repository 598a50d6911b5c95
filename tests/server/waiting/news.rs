//! A client that has come to wait in vain is told at once, as a new call would be: after a block, a policy, the end
//! of an exemption, a key overwritten with another type, rights taken away. And clocks that step.

use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Reply, Server, wait_for, words};

use crate::calls::acquirex;
use crate::limits::clock::Pair;
use crate::waiting::{AT_ONCE, Waiter, line, no_waiters, only, take, two_kinds, waiters};

fn denied_at_once(waiter: &mut Waiter, control: &mut Client, what: &str) {
    let reply = waiter.end_within(AT_ONCE, control, what);
    let reply = Reply::of(&reply.unwrap_or_else(|error| panic!("{what}: {error}")));
    assert!(!reply.is_grant(), "{what}: {reply:?}");
}

/// Blocks `k` for 4 s, so that no client gets in by it.
fn hold(client: &mut Client) {
    client.run("RL.BLOCK k FOR 4s");
}

const RULE: &str = "WINDOW 10d LIMIT 5 ALGO fixed NAME plan";

type Happening = fn(&mut Client);

/// Each event makes it hopeless to wait for less than a minute, but not to wait for days. `other` is a key with all
/// its permits; `k` lets no client in for a while.
#[test]
fn bad_news_are_told_at_once() {
    let news: [(&str, Happening); 11] = [
        ("a block on the key", |client| drop(client.run("RL.BLOCK k FOR 1d"))),
        ("a block on another key", |client| drop(client.run("RL.BLOCK other FOR 1d"))),
        ("a policy", |client| {
            client.run("RL.POLICY SET plan WINDOW 10d LIMIT 1 ALGO fixed");
        }),
        ("a lock-out", |client| {
            // A call too many, by a client that does not wait.
            take(client, line("other", &format!("{RULE} UPTO 4")));
            acquirex(client, "other", format!("{RULE} BLOCK 1d"));
        }),
        ("an exemption that is lifted", |client| drop(client.run("RL.EXEMPT exempt FOR 0"))),
        ("an exemption that ends", |client| {
            client.run("RL.EXEMPT exempt FOR 50ms");
            thread::sleep(Duration::from_millis(50));
        }),
        ("a limiter in its place", |client| drop(client.run("COPY blocked other REPLACE"))),
        ("a limiter under its name", |client| drop(client.run("RENAME blocked other"))),
        ("in a transaction", |client| {
            client.pipeline(["MULTI", "RL.BLOCK other FOR 1d", "EXEC"]);
        }),
        ("in a script", |client| {
            let script = "return redis.call('RL.BLOCK', KEYS[1], 'FOR', '1d')";
            client.run(words("EVAL").arg(script).then("1 other"));
        }),
        ("another database", |client| drop(client.run("SWAPDB 0 1"))),
    ];
    for (what, happen) in news {
        let server = Server::start();
        let mut client = server.client();
        client.run("RL.BLOCK blocked FOR 1d");
        client.run("SELECT 1");
        client.run("RL.BLOCK other FOR 1d");
        client.run("SELECT 0");
        hold(&mut client);
        take(&mut client, line("exempt", &format!("{RULE} UPTO 5")));
        client.run("RL.EXEMPT exempt FOR 1d");
        take(&mut client, line("other", RULE));
        let wait = |timeout: &str| line("other k exempt", &format!("{RULE} TIMEOUT {timeout}"));
        // The first waiter, and others behind it.
        let mut short: Vec<Waiter> = (0..5).map(|_| Waiter::queue(&server, wait("1m"))).collect();
        let mut long = Waiter::queue(&server, wait("11d"));
        happen(&mut client);
        short.iter_mut().for_each(|waiter| denied_at_once(waiter, &mut client, what));
        thread::sleep(Duration::from_millis(20));
        assert!(long.waits(&mut client), "{what}");
        assert_eq!(client.info_number("rl", "rl_waits_denied"), 5, "{what}");
        assert_eq!(client.info_number("rl", "rl_waits_timed_out"), 0, "{what}");
    }
}

/// A client whose lease may come free at any time goes on waiting, as a new call would begin to.
#[test]
fn what_is_no_bad_news_is_not_told() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("lease", "holder", "0"));
    let rules = "WINDOW 10d LIMIT 1 ALGO concurrency";
    let mut waiter =
        Waiter::queue(&server, line("lease other", &format!("{rules} ID w TIMEOUT 9s")));
    client.run("RL.BLOCK other FOR 1d");
    client.run("CONFIG SET rl.sliding-resolution 5000");
    client.run("RL.POLICY SET plan WINDOW 1d LIMIT 0 ALGO fixed");
    thread::sleep(Duration::from_millis(50));
    assert!(waiter.waits(&mut client));
    client.run("RL.BLOCK other FOR 0");
    client.run("RL.RELEASE lease ID holder");
    assert!(waiter.reply().is_grant());
}

#[test]
fn a_key_that_holds_something_else_is_told_at_once() {
    let overwriting: [(&str, &[&str]); 5] = [
        ("SET", &["SET other text"]),
        ("SET with an end", &["SET other text PX 60000"]),
        ("RENAME", &["RENAME text other"]),
        ("COPY", &["COPY text other REPLACE"]),
        ("DEL and LPUSH", &["MULTI", "DEL other", "LPUSH other a", "EXEC"]),
    ];
    for server in two_kinds() {
        for (what, commands) in overwriting {
            let tagged = |line: &str| line.replace("other", "{t}other").replace("text", "{t}text");
            let mut client = server.client();
            client.run("FLUSHALL");
            client.run("SET {t}text text");
            client.run("RL.BLOCK {t}k FOR 10m");
            take(&mut client, line("{t}other", RULE));
            let call = line("{t}k {t}other", &format!("{RULE} TIMEOUT 11d"));
            let mut two = [(); 2].map(|()| Waiter::queue(&server, &call));
            commands.iter().for_each(|command| drop(client.run(tagged(command))));
            for waiter in &mut two {
                let end = waiter.end_within(AT_ONCE, &mut client, what);
                let error = end.expect_err("an error");
                assert!(error.starts_with("WRONGTYPE"), "{what}: {error}");
            }
        }
        no_waiters(&mut server.client());
    }
}

/// The module is not told of a key that comes into being: its waiter is told when it would be its turn.
#[test]
fn a_key_that_was_not_there_is_told_when_it_is_looked_at() {
    let server = Server::start();
    let mut client = server.client();
    client.run("RL.BLOCK k FOR 300ms");
    let mut waiter = Waiter::queue(&server, line("k missing", &format!("{RULE} TIMEOUT 11d")));
    client.run("SET missing text");
    let most = Duration::from_millis(320);
    let error = waiter.end_within(most, &mut client, "missing").expect_err("an error");
    assert!(error.starts_with("WRONGTYPE"), "{error}");
}

// ---------------------------------------------------------------------------------------- rights

#[test]
fn rights_that_were_taken_away_count_for_who_waits() {
    for server in two_kinds() {
        let mut client = server.client();
        for taken in ["-rl.acquirex", "resetkeys", "resetkeys ~other*"] {
            client.run("ACL SETUSER user on >word ~* +@all");
            take(&mut client, only("k", "holder", "0"));
            let mut waiter = Waiter::queue_as(&server, "user word", only("k", "w", "10m"));
            let mut behind = Waiter::queue(&server, only("k", "behind", "10m"));
            client.run(format!("ACL SETUSER user {taken}"));
            client.run("RL.RELEASE k ID holder");
            let error = waiter.end_within(AT_ONCE, &mut client, taken).expect_err("an error");
            assert!(error.starts_with("NOPERM"), "{taken}: {error}");
            assert!(behind.reply().is_grant(), "{taken}");
            assert_eq!(client.int("RL.RELEASE k ID w"), 0, "{taken}");
            client.run("DEL k");
        }
        // Rights count at the deadline too.
        client.run("ACL SETUSER user on >word ~* +@all");
        take(&mut client, only("k", "holder", "0"));
        let mut waiter = Waiter::queue_as(&server, "user word", only("k", "w", "700"));
        client.run("ACL SETUSER user -rl.acquirex");
        assert!(waiter.end().expect_err("an error").starts_with("NOPERM"));
        // A client with sufficient rights is served.
        client.run("ACL SETUSER user +rl.acquirex -del");
        let mut waiter = Waiter::queue_as(&server, "user word", only("k", "w", "10m"));
        client.run("ACL SETUSER user -get");
        client.run("RL.RELEASE k ID holder");
        assert!(waiter.reply().is_grant());
        client.run("RL.RELEASE k ID w");
        no_waiters(&mut client);
    }
}

#[test]
fn a_user_that_was_deleted_gets_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.run("ACL SETUSER user on >word ~* +@all");
    take(&mut client, only("k", "holder", "0"));
    let mut waiter = Waiter::queue_as(&server, "user word", only("k", "w", "10m"));
    let mut behind = Waiter::queue(&server, only("k", "behind", "10m"));
    // Sent together: the server has not closed the connection yet when it releases.
    client.pipeline(["ACL DELUSER user", "RL.RELEASE k ID holder"]);
    assert!(behind.reply().is_grant());
    waiter.end().expect_err("a closed connection");
    assert_eq!(client.int("RL.RELEASE k ID w"), 0);
    no_waiters(&mut client);
}

// ---------------------------------------------------------------------------------------- clocks

/// A clock that steps by an hour, in either direction, delays no client by more than a second.
#[test]
fn a_clock_that_steps_delays_nobody() {
    const SECOND: Duration = Duration::from_secs(1);
    for step_s in [-3600, 3600, -3600] {
        let mut pair = Pair::start();
        let mut client = pair.primary.client();
        take(&mut client, only("lease", "holder", "0"));
        let mut denied = Waiter::queue(&pair.primary, only("lease", "w", "1500"));
        let rule = |algorithm: &str| format!("WINDOW 2s LIMIT 1 ALGO {algorithm}");
        let algorithms = ["sliding", "bucket", "fixed", "counter"];
        let mut granted = algorithms.map(|algorithm| {
            take(&mut client, line(algorithm, &rule(algorithm)));
            let call = line(algorithm, &format!("{} TIMEOUT 60s", rule(algorithm)));
            Waiter::queue(&pair.primary, call)
        });
        let begun = Instant::now();
        pair.step(&mut client, step_s);
        let stepped = begun.elapsed();
        let mut end = |waiter: &mut Waiter, due: Duration, who: &str| {
            let most = (due + SECOND).saturating_sub(begun.elapsed());
            let end = waiter.end_within(most, &mut client, &format!("{step_s} {who}"));
            Reply::of(&end.expect("an answer")).is_grant()
        };
        assert!(!end(&mut denied, Duration::from_millis(1500), "denied"));
        for (algorithm, waiter) in algorithms.iter().zip(&mut granted) {
            // A limiter that is ahead of the clock starts its window anew: `counter` has two of them.
            let window = Duration::from_secs(if *algorithm == "counter" { 4 } else { 2 });
            assert!(end(waiter, stepped + window, algorithm), "{step_s} {algorithm}");
        }
        assert_eq!(waiters(&mut client), 0);
    }
}

/// Waiters cost other clients nothing: the module does not subscribe to key events, which the server would send for
/// each `SET key value PX ms`. No field shows that; what the test sees is that keys without limiters call no command
/// of the module.
#[test]
fn keys_of_others_are_none_of_ours() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, only("k", "holder", "0"));
    let mut waiter = Waiter::queue(&server, only("k", "w", "10m"));
    let calls = |client: &mut Client| client.info("commandstats", "cmdstat_rl.acquirex");
    let before = calls(&mut client);
    for i in 0..100 {
        client.run(format!("SET plain{i} v PX 1"));
    }
    wait_for("them to expire", || (client.int("DBSIZE") == 1).then_some(()));
    client.run(words("SET plain v PX 100000"));
    client.run("DEL plain");
    assert_eq!(calls(&mut client), before);
    client.run("RL.RELEASE k ID holder");
    assert!(waiter.reply().is_grant());
}
