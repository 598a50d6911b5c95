//! How late waiters are served or denied, and that the server is idle while they wait.
//!
//! The bounds are those that the feature promises, plus how late a plain sleep of this process was meanwhile: on an idle
//! machine that is next to nothing.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::calls::{acquirex, peek};
use crate::harness::{ALGORITHMS, Client, Reply, Server, wait_for, words};
use crate::waiting::{LATE, Lateness, Waiter, no_waiters, only, take, waiters};

fn cpu_seconds(client: &mut Client) -> f64 {
    let mut field = |name| client.info("cpu", name).parse::<f64>().expect("a number");
    field("used_cpu_user_main_thread") + field("used_cpu_sys_main_thread")
}

#[test]
fn a_hundred_are_served_in_order_and_evenly() {
    const COUNT: u32 = 100;
    let server = Server::start();
    let mut client = server.client();
    client.run("RL.BLOCK k FOR 10m");
    let queue = || Waiter::queue(&server, "k 'WINDOW 1s LIMIT 50 ALGO leaky TIMEOUT 20m'");
    let waiters: Vec<Waiter> = (0..COUNT).map(|_| queue()).collect();
    let before = cpu_seconds(&mut client);
    thread::sleep(Duration::from_millis(1500));
    let share = (cpu_seconds(&mut client) - before) / 1.5;
    assert!(share < 0.02, "the server was busy for {share:.3} of the time");

    let lateness = Lateness::start();
    let begun = Instant::now();
    let threads: Vec<_> = waiters
        .into_iter()
        .map(|mut waiter| thread::spawn(move || (waiter.reply(), Instant::now())))
        .collect();
    client.run("RL.BLOCK k FOR 0");
    let lifted = Instant::now();
    let answers: Vec<_> = threads.into_iter().map(|t| t.join().expect("no panic")).collect();
    let allowance = LATE + lateness.allowance();
    for (i, (reply, at)) in (0..).zip(&answers) {
        assert!(reply.is_grant(), "{i}: {reply:?}");
        let due = i * Duration::from_millis(20);
        assert!(*at + Duration::from_millis(1) >= begun + due, "{i}: above the rule");
        assert!(
            *at <= lifted + due.mul_f64(1.05) + allowance,
            "{i}: {:?} late",
            *at - lifted - due
        );
    }
    assert_eq!(client.info_number("rl", "rl_waits_granted"), COUNT.into());
    assert_eq!(waiters_left(&mut client), (0, 0));
}

/// Who still waits, and how many ran out of time.
fn waiters_left(client: &mut Client) -> (i64, i64) {
    (waiters(client), client.info_number("rl", "rl_waits_timed_out"))
}

#[test]
fn each_algorithm_serves_at_the_moment_it_said() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALGORITHMS.into_iter().chain(["concurrency"]) {
        let rule = format!("WINDOW 300ms LIMIT 2 ALGO {algorithm}");
        let id =
            |id: &str| if algorithm == "concurrency" { format!("ID {id}") } else { String::new() };
        client.run("DEL k");
        while acquirex(&mut client, "k", format!("{rule} {}", id(&client_id()))).is_grant() {}
        let mut waiter = server.client();
        let lateness = Lateness::start();
        let asked = Instant::now();
        let wait = peek(&mut client, "k", format!("{rule} {}", id("w"))).retry_after;
        let known = Instant::now();
        if wait <= 0 {
            // It has come free meanwhile.
            continue;
        }
        let batch = if algorithm == "concurrency" { "" } else { "UPTO 2" };
        let reply = acquirex(&mut waiter, "k", format!("{rule} {batch} TIMEOUT 5s {}", id("w")));
        let at = Instant::now();
        let allowance = LATE + lateness.allowance();
        assert!(reply.is_grant(), "{algorithm}: {reply:?}");
        let wait = Duration::from_millis(wait as u64);
        assert!(at + Duration::from_millis(1) >= asked + wait, "{algorithm}: too early");
        assert!(at <= known + wait + allowance, "{algorithm}: {:?} late", at - known - wait);
    }
    no_waiters(&mut client);
}

/// A name that no other lease has.
fn client_id() -> String {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("n{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn a_deadline_is_met_and_the_denial_is_right() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, "c 'WINDOW 10s LIMIT 1 ALGO concurrency ID holder'");
    let taken = Instant::now();
    let mut waiter = server.client();
    for timeout in [1_u64, 7, 50, 200, 450] {
        let lateness = Lateness::start();
        let begun = Instant::now();
        let rule = format!("WINDOW 10s LIMIT 1 ALGO concurrency ID w TIMEOUT {timeout}");
        let reply = acquirex(&mut waiter, "c", rule);
        let took = begun.elapsed();
        let most = LATE + lateness.allowance();
        let timeout = Duration::from_millis(timeout);
        assert_eq!(reply.granted, 0);
        assert!(took + Duration::from_millis(1) >= timeout, "{took:?} instead of {timeout:?}");
        assert!(took <= timeout + most, "{took:?} instead of {timeout:?}");
        let left = 10_000 - taken.elapsed().as_millis() as i64;
        let off = reply.retry_after - left;
        assert!((-2..=2 + most.as_millis() as i64).contains(&off), "{reply:?}, {left} are left");
    }
    assert_eq!(client.info_number("rl", "rl_waits_timed_out"), 5);
    assert_eq!(client.info_number("rl", "rl_waits_granted"), 0);
    assert_eq!(waiters(&mut client), 0);
    // It waited for a key that is as short, and took nothing of the other one.
    let rule = "WINDOW 10s LIMIT 1 ALGO concurrency ID w TIMEOUT 30";
    assert_eq!(acquirex(&mut waiter, "free c", rule).key, 1);
    assert_eq!(client.int("EXISTS free"), 0);
}

#[test]
fn a_release_hands_on_at_once() {
    const ROUNDS: usize = 300;
    let server = Server::start();
    let (mut one, mut two) = (server.client(), server.client());
    let mut control = server.client();
    take(&mut one, only("k", "0", "0"));
    let (mut handed, mut plain) = (Vec::new(), Vec::new());
    for i in 1..=ROUNDS {
        two.send([words("RL.ACQUIREX").then(&only("k", &i.to_string(), "10m"))]);
        wait_for("the other to wait", || (waiters(&mut control) == 1).then_some(()));
        let begun = Instant::now();
        one.send([format!("RL.RELEASE k ID {}", i - 1)]);
        assert!(Reply::of(&two.receive().expect("a reply")).is_grant());
        handed.push(begun.elapsed());
        one.receive().expect("a reply");
        let begun = Instant::now();
        one.send(["PING"]);
        one.receive().expect("a reply");
        plain.push(begun.elapsed());
    }
    for times in [&mut handed, &mut plain] {
        times.sort();
    }
    let (handed, plain) = (handed[ROUNDS / 2], plain[ROUNDS / 2]);
    eprintln!("a release is handed on in {handed:?}, a PING takes {plain:?} (medians)");
    assert!(handed < Duration::from_millis(1) + 3 * plain, "{handed:?}, a PING takes {plain:?}");
}
