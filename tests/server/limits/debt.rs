//! `RESERVE` and `FORCE`: permits taken before they are due.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use testkit::{Reply, Server, field, int, words};

use crate::calls::{COUNTING, acquirex, at_once, info, outcome, peek, rule, timed};

/// Each of several callers is told to wait until exactly the moment of its own permit, however many ask at once.
#[test]
fn reservations_come_due_at_exactly_the_rate() {
    const CALLERS: usize = 8;
    const EACH: usize = 12;
    let server = Server::start();
    for (algorithm, limit) in [("leaky", 7), ("bucket", 7), ("leaky", 30), ("bucket", 110)] {
        let mut client = server.client();
        let (burst, options) = if algorithm == "leaky" { (1, "") } else { (4, " BURST 4") };
        let call =
            format!("RL.ACQUIREX k 'WINDOW 1s LIMIT {limit} ALGO {algorithm}{options} RESERVE 1m'");
        // The whole burst falls into one millisecond, so the test knows when it began.
        let (replies, begin) = at_once(&mut client, &["DEL k"], &vec![call.as_str(); burst]);
        assert!(replies.iter().all(|reply| outcome(&Reply::of(reply)).3 == 0));
        let start = Barrier::new(CALLERS);
        let mut due: Vec<(i64, i64, bool)> = thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut client = server.client();
                        start.wait();
                        let reserve = |_| {
                            let (replies, when) = timed(&mut client, [call.as_str()]);
                            let reply = Reply::of(&replies[0]);
                            assert_eq!(reply.granted, 1, "{call}: {reply:?}");
                            let wait = reply.retry_after;
                            (when.start() + wait, when.end() + wait, wait == 0)
                        };
                        (0..EACH).map(reserve).collect::<Vec<_>>()
                    })
                })
                .collect();
            callers.into_iter().flat_map(|caller| caller.join().expect("a caller")).collect()
        });
        due.sort();
        for (n, (earliest, latest, at_once)) in due.iter().enumerate() {
            let exact = begin
                + (n as i64 + 1) * 1000 / limit
                + i64::from((n as i64 + 1) * 1000 % limit != 0);
            assert!(
                // A call that comes later than its permit is granted at once.
                exact <= *latest && (*earliest <= exact || *at_once),
                "{call}: number {n} due from {earliest} to {latest}, at the rate at {exact}"
            );
        }
    }
}

#[test]
fn a_reservation_that_comes_due_too_late_is_denied_and_takes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let call = "RL.ACQUIREX k 'WINDOW 1s LIMIT 10 ALGO leaky RESERVE 250ms'";
    let (replies, _) = at_once(&mut client, &["DEL k"], &[call; 5]);
    let replies: Vec<_> = replies.iter().map(|reply| outcome(&Reply::of(reply))).collect();
    let expected =
        [(1, 1, 0, 0, 0), (1, 1, 0, 100, 0), (1, 1, 0, 200, 0), (0, 1, 0, 50, 0), (0, 1, 0, 50, 0)];
    assert_eq!(replies, expected);
    // The key that comes due later tells how long to wait; the first key when there is nothing to wait for.
    let call = "RL.ACQUIREX a b 'WINDOW 1s LIMIT 10 ALGO leaky WINDOW 1s LIMIT 4 ALGO bucket BURST 2 RESERVE 10s'";
    let (replies, _) = at_once(&mut client, &["DEL a b"], &[call; 5]);
    let waits: Vec<i64> = replies.iter().map(|reply| Reply::of(reply).retry_after).collect();
    // Key a: 0, 100, 200, 300, 400. Key b: 0, 0, 250, 500, 750.
    assert_eq!(waits, [0, 100, 250, 500, 750]);
    // One key denies, so nothing is taken from the other.
    client.run("DEL a b");
    let rules = "WINDOW 10d LIMIT 1 ALGO leaky WINDOW 1s LIMIT 10 ALGO leaky RESERVE 5s";
    assert!(acquirex(&mut client, "a b", rules).is_grant());
    let before = client.stored("b");
    assert_eq!(acquirex(&mut client, "a b", rules).granted, 0);
    assert_eq!(client.stored("b"), before);
}

#[test]
fn a_batch_reserves_what_comes_due_in_time() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 1s LIMIT 10 ALGO bucket";
    let take = format!("RL.ACQUIREX k '{rule} UPTO 10'");
    let reserve = format!("RL.ACQUIREX k '{rule} UPTO 10 RESERVE 550ms'");
    let free = format!("RL.ACQUIREX k '{rule} COST 0 RESERVE 550ms'");
    let (replies, _) = at_once(&mut client, &["DEL k"], &[&take, &reserve, &reserve, &free]);
    let replies: Vec<_> = replies.iter().map(|reply| outcome(&Reply::of(reply))).collect();
    // It reserves the five permits of the next 500 ms and not one more; more than the capacity is in use.
    assert_eq!(replies[..3], [(10, 10, 0, 0, 0), (5, 10, 0, 500, 0), (0, 10, 0, 50, 0)]);
    assert_eq!(replies[3].0, 0);
    let (replies, _) = at_once(&mut client, &["RL.EXEMPT k FOR 1h"], &[&reserve]);
    assert_eq!(outcome(&Reply::of(&replies[0])), (10, 10, 10, 0, 0), "exempt, nobody waits");
    client.run("RL.BLOCK k FOR 100ms");
    assert_eq!(acquirex(&mut client, "k", format!("{rule} RESERVE 10s")).granted, 0, "blocked");
}

#[test]
fn reservations_work_in_transactions_and_scripts() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 10s LIMIT 10 ALGO leaky RESERVE 5s";
    let script = "return redis.call('RL.ACQUIREX', KEYS[1], ARGV[1])";
    let mut waits = Vec::new();
    for _ in 0..2 {
        let (replies, _) = timed(&mut client, [words("RL.ACQUIREX k").arg(rule)]);
        waits.push(Reply::of(&replies[0]).retry_after);
        let call = words("EVAL").arg(script).then("1 k").arg(rule);
        waits.push(Reply::of(&client.run(call)).retry_after);
    }
    for (wait, highest) in waits.iter().zip([0, 1000, 2000, 3000]) {
        assert!((highest - 500..=highest).contains(wait), "{waits:?}");
    }
}

#[test]
fn force_goes_into_debt_that_time_pays_back() {
    let server = Server::start();
    let mut client = server.client();
    // A permit comes back every 10 ms.
    let rule = "WINDOW 100ms LIMIT 10 ALGO bucket";
    let force = format!("RL.ACQUIREX k '{rule} COST 30 FORCE'");
    let look = format!("RL.PEEK k '{rule}'");
    // COST 0 shows how many permits are there, and takes none of them.
    let count = format!("RL.PEEK k '{rule} COST 0'");
    let (replies, begin) = at_once(&mut client, &["DEL k"], &[&force, &look, "RL.INFO k"]);
    assert_eq!(outcome(&Reply::of(&replies[0])), (0, 10, 0, -1, 0));
    // 21 permits are paid back before one is there, and 30 until it is full.
    let reply = Reply::of(&replies[1]);
    assert_eq!(
        (reply.granted, reply.remaining, reply.retry_after, reply.reset_after),
        (0, 0, 210, 300)
    );
    assert_eq!(int(field(&replies[2], "used")), 30);
    loop {
        let (replies, when) = timed(&mut client, [count.as_str()]);
        if *when.start() >= begin + 300 {
            assert_eq!(Reply::of(&replies[0]).remaining, 10);
            break;
        }
        let paid = |now: i64| (10 - 30 + (now - begin) / 10).clamp(0, 10);
        let reply = Reply::of(&replies[0]);
        assert!((paid(*when.start())..=paid(*when.end())).contains(&reply.remaining), "{reply:?}");
        thread::sleep(Duration::from_millis(7));
    }
}

#[test]
fn force_takes_from_every_key_and_tells_whether_it_was_within_the_limits() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        client.run("FLUSHALL");
        let force = |cost: u64| format!("{} FORCE", rule(algorithm, 5, &format!("COST {cost}")));
        let mut force = |keys: &str, cost| acquirex(&mut client, keys, force(cost));
        assert_eq!(outcome(&force("a", 3)), (1, 5, 2, 0, 0), "{algorithm}");
        assert_eq!(outcome(&force("a", 2)), (1, 5, 0, 0, 0), "{algorithm}");
        // Key a has no room and b has: FORCE takes from both.
        let reply = force("a b", 1);
        assert_eq!((reply.granted, reply.remaining, reply.key), (0, 0, 0), "{algorithm}");
        assert!(reply.retry_after > 0, "{algorithm}: {reply:?}");
        assert_eq!(force("c", 6).retry_after, -1, "{algorithm}: more than it ever holds");
        for (key, used) in [("a", 6), ("b", 1), ("c", 6)] {
            assert_eq!(info(&mut client, key, "used"), used, "{algorithm}: {key}");
        }
        // The debt is not forgiven: a refund pays it back first.
        client.run("RL.REFUND a COST 1");
        assert_eq!(peek(&mut client, "a", rule(algorithm, 5, "")).granted, 0);
        client.run("RL.REFUND a COST 1");
        assert_eq!(peek(&mut client, "a", rule(algorithm, 5, "")).granted, 1);
        // FORCE takes permits despite a block.
        client.run("RL.BLOCK b FOR 1h");
        let reply = acquirex(&mut client, "b", format!("{} FORCE", rule(algorithm, 5, "")));
        assert_eq!((reply.granted, reply.remaining), (0, 0), "{algorithm}");
        assert_eq!(info(&mut client, "b", "used"), 2, "{algorithm}");
        let reply = acquirex(&mut client, "z", format!("{} FORCE", rule(algorithm, 0, "")));
        assert_eq!(outcome(&reply), (0, 0, 0, -1, 0), "{algorithm}");
        assert_eq!(client.int("EXISTS z"), 0, "{algorithm}");
    }
}

#[test]
fn a_debt_saturates() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        let rule = rule(algorithm, 5, "COST 1000000000000 FORCE");
        for _ in 0..1100 {
            assert_eq!(acquirex(&mut client, algorithm, &rule).granted, 0);
        }
        assert_eq!(info(&mut client, algorithm, "used"), 1_000_000_000_000_000, "{algorithm}");
    }
}
