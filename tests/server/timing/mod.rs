//! Tests of how long something takes. `make test-timing` runs them with the release module, which the promises are about, one
//! at a time; `make test` does so after the other tests.
//!
//! A shared machine can stand still for longer than any of them allows, so each takes the least of several measurements
//! where its state can be set up again, and the script repeats those that failed. A test of anything else does not belong
//! here: what fails once in two must be seen.

mod long_calls;
mod waiting;
mod waiting_load;
mod waiting_mass;

use std::time::Duration;

use crate::harness::Client;

/// How often something is measured at most.
const TRIES: usize = 3;

/// Measures something, each time from the beginning, until it is within its bounds: a machine that is busy with something
/// else makes it longer, never shorter.
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

/// How long the server's main thread was at work.
fn cpu(client: &mut Client) -> Duration {
    let mut field = |name| client.info("cpu", name).parse::<f64>().expect("a number");
    Duration::from_secs_f64(field("used_cpu_user_main_thread") + field("used_cpu_sys_main_thread"))
}
