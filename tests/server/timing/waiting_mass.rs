//! Very many clients wait, and something happens that concerns all of them: other clients are served in between, and
//! the server's work stays in proportion.
//!
//! `RL_TEST_MASS=full` measures the promise: 1000 waiters with 128 keys each, 500 with 1024, 10,000 with one. The
//! default is a fifth of that. Where fewer files can be open, the tests measure nothing and say so.

use std::env;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Server, wait_up_to};

use super::{LONGEST_PING, Pings, ServerClock, within_bounds};
use crate::waiting::{line, waiters};

const MOST_CPU: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// A number of waiters with a number of keys each, which are shared by all or their own.
#[derive(Clone, Copy, Debug)]
struct Shape {
    waiters: usize,
    keys: usize,
    own: bool,
}

const SHAPES: [Shape; 4] = [
    Shape { waiters: 1000, keys: 128, own: false },
    Shape { waiters: 500, keys: 1024, own: false },
    Shape { waiters: 10_000, keys: 1, own: false },
    Shape { waiters: 10_000, keys: 1, own: true },
];

fn full() -> bool {
    env::var("RL_TEST_MASS").is_ok_and(|value| value == "full")
}

fn shapes() -> impl Iterator<Item = Shape> {
    let part = if full() { 1 } else { 5 };
    SHAPES.into_iter().map(move |shape| Shape { waiters: shape.waiters / part, ..shape })
}

fn open_files() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits.lines().find_map(|line| {
        line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok()
    });
    soft.unwrap_or(usize::MAX)
}

const RULE: &str = "WINDOW 10d LIMIT 1000000 ALGO fixed NAME all";

struct Mass {
    server: Server,
    client: Client,
    shape: Shape,
    streams: Vec<TcpStream>,
}

impl Mass {
    /// Lets all of them wait. Their key `stop` is blocked.
    fn queue(shape: Shape) -> Option<Mass> {
        let mut mass = Mass::empty(shape)?;
        mass.fill("RL.BLOCK stop FOR 10m", RULE, || 1_200_000).expect("twenty minutes are enough");
        Some(mass)
    }

    fn empty(shape: Shape) -> Option<Mass> {
        let clients = shape.waiters + 200;
        let server = Server::builder()
            .conf(format!("maxclients {clients}"))
            .conf("tcp-backlog 4096")
            .module_args(&format!("max-waiters {}", shape.waiters))
            .start();
        let mut client = server.client();
        let most: usize = client.config("maxclients").parse().expect("a number");
        if open_files() < clients || most < clients {
            eprintln!("skipped: {shape:?} wants {clients} open files (ulimit -n)");
            return None;
        }
        Some(Mass { server, client, shape, streams: Vec::new() })
    }

    /// Lets them wait. `hold` lets no client in by the key `stop`. An error says that some ran out of time before the
    /// last one came.
    fn fill(
        &mut self,
        hold: &str,
        rule: &str,
        timeout_ms: impl Fn() -> u128,
    ) -> Result<(), String> {
        let Shape { waiters: count, keys, own } = self.shape;
        let others: Vec<String> = (1..keys).map(|i| format!("k{i}")).collect();
        if !own {
            // Each key has a limiter, so that overwriting it makes a difference.
            for key in &others {
                self.client.run(format!("RL.ACQUIREX {}", line(key, RULE)));
            }
            self.client.run(hold);
        }
        for i in 0..count {
            let stop = if own { format!("stop{i}") } else { "stop".into() };
            if own {
                self.client.run(hold.replace("stop", &stop));
            }
            let keys = [others.as_slice(), &[stop]].concat().join(" ");
            let call = line(&keys, &format!("{rule} TIMEOUT {}", timeout_ms()));
            let address = ("127.0.0.1", self.server.port());
            let mut stream = TcpStream::connect(address).expect("a connection");
            stream.write_all(format!("RL.ACQUIREX {call}\r\n").as_bytes()).expect("a server");
            self.streams.push(stream);
        }
        let (mut before, mut arrived) = (0, 0);
        wait_up_to(PATIENCE, "all to wait", || {
            (before, arrived) = (arrived, self.waiting());
            (arrived == count || arrived < before).then_some(())
        });
        if arrived == count { Ok(()) } else { Err(format!("only {arrived} of {count} wait")) }
    }

    fn waiting(&mut self) -> usize {
        waiters(&mut self.client) as usize
    }

    /// Runs `happen`, waits until `left` clients still wait and the server is idle, and measures what the server did
    /// meanwhile.
    fn measure(
        &mut self,
        what: &str,
        left: usize,
        happen: impl FnOnce(&mut Mass),
    ) -> Result<(), String> {
        let clock = ServerClock::of(&self.server);
        let pings = Pings::start(&self.server);
        let (begun, worked) = (Instant::now(), clock.read());
        happen(self);
        wait_up_to(PATIENCE, what, || (self.waiting() <= left).then_some(()));
        let took = begun.elapsed();
        // Work that goes on afterwards, such as forgetting clients that left.
        thread::sleep(Duration::from_millis(200));
        let cpu = clock.read() - worked;
        let longest = pings.longest();
        let Shape { waiters, keys, own } = self.shape;
        let own = if own { "own" } else { "shared" };
        let found =
            format!("{what}, {waiters} with {keys} {own}: {took:?}, {cpu:?} CPU, PING {longest:?}");
        eprintln!("{found}");
        assert_eq!(self.waiting(), left, "{what}");
        if cpu < MOST_CPU && longest < LONGEST_PING { Ok(()) } else { Err(found) }
    }
}

/// Measures commands that concern all of a mass, after which `left` of them still wait.
fn each_shape(
    what: &str,
    shapes: impl Iterator<Item = Shape>,
    left: impl Fn(Shape) -> usize,
    commands: &[&str],
) {
    for shape in shapes {
        within_bounds(|| {
            let Some(mut mass) = Mass::queue(shape) else { return Ok(()) };
            mass.measure(what, left(shape), |mass| {
                for command in commands {
                    mass.client.run(*command);
                }
            })
        });
    }
}

fn all(shape: Shape) -> usize {
    shape.waiters
}

fn none(_: Shape) -> usize {
    0
}

fn shared() -> impl Iterator<Item = Shape> {
    shapes().filter(|shape| !shape.own)
}

#[test]
fn nothing_of_interest_happens() {
    each_shape("a directive", shapes(), all, &["CONFIG SET rl.sliding-resolution 5000"]);
    let policy = "RL.POLICY SET other WINDOW 1d LIMIT 1 ALGO fixed";
    each_shape("a policy", shapes(), all, &[policy]);
    each_shape("many policies", shapes(), all, &[policy; 50]);
}

#[test]
fn all_are_let_in() {
    each_shape("a block lifted", shared(), none, &["RL.BLOCK stop FOR 0"]);
    each_shape("SWAPDB", shapes(), none, &["SWAPDB 0 1"]);
    each_shape("FLUSHALL", shapes(), none, &["FLUSHALL"]);
    each_shape("shadow", shapes(), none, &["CONFIG SET rl.enforce shadow"]);
}

#[test]
fn all_are_told_that_they_wait_in_vain() {
    each_shape("a longer block", shared(), none, &["RL.BLOCK stop FOR 1d"]);
    let several = shared().filter(|shape| shape.keys > 1);
    each_shape("another key", several, none, &["SET k1 text"]);
    let closed = "RL.POLICY SET all WINDOW 1d LIMIT 0 ALGO fixed";
    each_shape("a closed endpoint", shapes(), none, &[closed]);
}

#[test]
fn one_of_them_or_all_go() {
    for shape in shapes() {
        within_bounds(|| {
            let Some(mut mass) = Mass::queue(shape) else { return Ok(()) };
            let left = shape.waiters - 2;
            mass.measure("the first and one in the middle go", left, |mass| {
                mass.streams.remove(mass.shape.waiters / 2);
                mass.streams.remove(0);
            })?;
            // The server takes longer to free a client than this test to close it, and frees in one go all that have
            // gone.
            mass.measure("all go", 0, |mass| {
                while !mass.streams.is_empty() {
                    mass.streams.truncate(mass.streams.len().saturating_sub(10));
                    mass.client.run("PING");
                }
            })
        });
    }
}

#[test]
fn all_run_out_of_time_at_once() {
    for pause in [false, true] {
        for shape in shapes() {
            // Time enough for all of them to arrive; doubled when it was too short.
            let mut ahead = Duration::from_millis(if full() { 6000 } else { 750 });
            within_bounds(|| {
                ahead *= 2;
                let end = Instant::now() + ahead;
                let left = || end.saturating_duration_since(Instant::now()).as_millis().max(1);
                let Some(mut mass) = Mass::empty(shape) else { return Ok(()) };
                // A lease may be released at any time, so all calls may wait for it.
                let rule = "WINDOW 10d LIMIT 1 ALGO concurrency ID";
                let holder = format!("RL.ACQUIREX {}", line("stop", &format!("{rule} holder")));
                mass.fill(&holder, &format!("{rule} waiter"), left)?;
                let what = if pause { "deadlines in a pause" } else { "deadlines" };
                if pause {
                    mass.client.run("CLIENT PAUSE 60000 WRITE");
                }
                let rest = end.saturating_duration_since(Instant::now());
                thread::sleep(rest.saturating_sub(Duration::from_millis(20)));
                mass.measure(what, 0, |_| {})
            });
        }
    }
}
