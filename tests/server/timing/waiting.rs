//! How late waiters are served or denied, and that the server is idle while they wait.

use std::thread;
use std::time::{Duration, Instant};

use testkit::{Reply, Server, wait_for, words};

use super::{cpu, within_bounds};

use crate::calls::ALGORITHMS;
use crate::waiting::ends::{TIMEOUTS_MS, wait_in_vain};
use crate::waiting::served::{queue_a_hundred, serve_a_hundred, wait_by};
use crate::waiting::{only, take, waiters};

/// How late a wake-up or a denial may be.
const LATE: Duration = Duration::from_millis(5);

fn not_too_late(late: Duration, who: &str) -> Result<(), String> {
    eprintln!("{who}: {late:?} late");
    if late <= LATE { Ok(()) } else { Err(format!("{who}: {late:?} late")) }
}

#[test]
fn a_hundred_are_served_evenly_and_cost_nothing_while_they_wait() {
    let server = Server::start();
    let mut client = server.client();
    within_bounds(|| {
        let hundred = queue_a_hundred(&server);
        let before = cpu(&mut client);
        thread::sleep(Duration::from_millis(1500));
        let share = (cpu(&mut client) - before).as_secs_f64() / 1.5;
        let late = serve_a_hundred(&mut client, hundred);
        if share >= 0.02 {
            return Err(format!("the server was busy for {share:.3} of the time"));
        }
        not_too_late(late, "the last of them")
    });
}

#[test]
fn each_algorithm_serves_at_the_moment_it_said() {
    let server = Server::start();
    for algorithm in ALGORITHMS.into_iter().chain(["concurrency"]) {
        within_bounds(|| not_too_late(wait_by(&server, algorithm), algorithm));
    }
}

#[test]
fn a_denial_comes_at_the_deadline() {
    let server = Server::start();
    let mut client = server.client();
    for timeout in TIMEOUTS_MS.map(Duration::from_millis) {
        within_bounds(|| {
            not_too_late(wait_in_vain(&mut client, timeout), &format!("TIMEOUT of {timeout:?}"))
        });
    }
}

/// How long it takes from a release until the next one has the lease, and how long a PING takes: medians.
fn hand_on() -> (Duration, Duration) {
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
    (handed[ROUNDS / 2], plain[ROUNDS / 2])
}

#[test]
fn a_release_hands_on_at_once() {
    within_bounds(|| {
        let (handed, plain) = hand_on();
        let found = format!("a release is handed on in {handed:?}, a PING takes {plain:?}");
        eprintln!("{found}");
        if handed < Duration::from_millis(1) + 3 * plain { Ok(()) } else { Err(found) }
    });
}
