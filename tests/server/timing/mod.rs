//! Tests of how long something takes. `make test-timing` runs them one at a time with the release module, which the
//! promises are about; `make test` does so after the other tests.
//!
//! A shared machine can stand still for longer than any of them allows. So each takes the least of several
//! measurements where it can set its state up again, and `scripts/test-timing` repeats those that failed. No other
//! tests belong here: a race that fails once in two runs must be seen.

mod long_calls;
mod waiting;
mod waiting_load;
mod waiting_mass;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use testkit::{Client, Server};

/// How long the module holds up other clients at most.
const LONGEST_PING: Duration = Duration::from_millis(5);

/// How often something is measured at most.
const TRIES: usize = 3;

/// Measures from the beginning, up to [`TRIES`] times, until the result is within its bounds: a busy machine makes it
/// longer, never shorter.
fn within_bounds(mut measure: impl FnMut() -> Result<(), String>) {
    let mut found = Vec::new();
    while found.len() < TRIES {
        match measure() {
            Ok(()) => return,
            Err(measured) => found.push(measured),
        }
    }
    panic!("{TRIES} times beyond the bounds:\n{}", found.join("\n"));
}

/// CPU time of the server's main thread, as the server tells it.
fn cpu(client: &mut Client) -> Duration {
    let mut field = |name| client.info("cpu", name).parse::<f64>().expect("a number");
    Duration::from_secs_f64(field("used_cpu_user_main_thread") + field("used_cpu_sys_main_thread"))
}

/// CPU time of a server's main thread, as the kernel tells it.
#[derive(Clone)]
struct ServerClock(String);

impl ServerClock {
    fn of(server: &Server) -> ServerClock {
        let pid = server.client().info("server", "process_id");
        ServerClock(format!("/proc/{pid}/task/{pid}/schedstat"))
    }

    fn read(&self) -> Duration {
        let text = fs::read_to_string(&self.0).expect("the server's statistics");
        Duration::from_nanos(
            text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number"),
        )
    }
}

/// Another client, which sends one PING after the other.
struct Pings {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Pings {
    fn start(server: &Server) -> Pings {
        let stop = Arc::new(AtomicBool::new(false));
        let (clock, mut client) = (ServerClock::of(server), server.client());
        let thread = thread::spawn({
            let stop = stop.clone();
            move || {
                let mut longest = Duration::ZERO;
                while !stop.load(Ordering::Relaxed) {
                    let (begun, worked) = (Instant::now(), clock.read());
                    client.run("PING");
                    // This leaves out both the time of other processes and the server's work while this process
                    // slept.
                    longest = longest.max(begun.elapsed().min(clock.read() - worked));
                    thread::sleep(Duration::from_micros(300));
                }
                longest
            }
        });
        Pings { stop, thread }
    }

    /// How long the longest took.
    fn longest(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}
