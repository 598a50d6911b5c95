//! A server of one's own for each test, and a client that shows replies and errors whole.
//!
//! A server lives in a directory of its own, listens on 127.0.0.1 only, and dies with its [`Server`], on
//! a panic too. A test that passed fails all the same when the log holds a panic or a crash report.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

mod client;
mod server;
mod values;

pub use client::*;
pub use server::*;
pub use values::*;

/// How long anything may take before the test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The words put before the server's command, such as those of a memory checker.
fn wrapper() -> Vec<String> {
    let words = env::var("RL_TEST_WRAPPER").unwrap_or_default();
    words.split_whitespace().map(str::to_owned).collect()
}

/// [`PATIENCE`], more of it where a wrapper slows the server down.
fn patience() -> Duration {
    if wrapper().is_empty() { PATIENCE } else { 10 * PATIENCE }
}

/// The algorithms of `RL.ACQUIRE`.
pub const ALGORITHMS: [&str; 5] = ["sliding", "bucket", "leaky", "fixed", "counter"];

/// A rule whose window does not end while a test runs.
pub fn long_rule(algorithm: &str, limit: u64) -> String {
    format!("WINDOW 10d LIMIT {limit} ALGO {algorithm}")
}

/// The most permits that a limiter of this rule can hold free.
pub fn capacity(algorithm: &str, limit: u64) -> i64 {
    if algorithm == "leaky" { limit.min(1) as i64 } else { limit as i64 }
}

/// Polls until `check` gives a value.
pub fn wait_for<T>(what: &str, check: impl FnMut() -> Option<T>) -> T {
    wait_up_to(patience(), what, check)
}

/// Polls until `check` gives a value, with a patience of its own.
pub fn wait_up_to<T>(limit: Duration, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(begun.elapsed() < limit, "gave up waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

pub fn program(variable: &str, default: &str) -> String {
    env::var(variable).unwrap_or_else(|_| default.into())
}

/// The module. It is built here unless `RL_TEST_MODULE` names one: a test target does not depend on a library that
/// it cannot link, so cargo would leave an old one in place, or none.
pub fn module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| env::var_os("RL_TEST_MODULE").map_or_else(build_module, PathBuf::from))
}

/// Builds the module with the profile of the tests, which are in `<target>/<profile>/deps`.
fn build_module() -> PathBuf {
    let test = env::current_exe().expect("the path of the test");
    let directory = test.ancestors().nth(2).expect("a directory of the profile");
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(program("CARGO", "cargo"))
        .args(["build", "--quiet", "--lib", "--package", "redis-rl", "--profile", profile])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .arg("--target-dir")
        .arg(directory.parent().expect("the target directory"))
        .status()
        .expect("cargo");
    assert!(status.success(), "the module does not build");
    directory.join("libredis_rl.so")
}

/// Waits until a replica has applied all that its primary sent.
pub fn wait_for_replica(primary: &Server, replica: &Server) {
    let (mut ahead, mut behind) = (primary.client(), replica.client());
    wait_for("the replica", || {
        let up = behind.info("replication", "master_link_status") == "up";
        let sent = ahead.info_number("replication", "master_repl_offset");
        (up && behind.info_number("replication", "slave_repl_offset") == sent).then_some(())
    });
}

/// Waits until no child of the server saves or rewrites any more, and the last one succeeded.
pub fn wait_for_children(client: &mut Client) {
    wait_for("the saving child", || {
        let field = |client: &mut Client, name| client.info("persistence", name);
        let idle = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .all(|name| field(client, name) == "0");
        idle.then_some(())
    });
    assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "ok");
    assert_eq!(client.info("persistence", "aof_last_bgrewrite_status"), "ok");
}

/// A small generator of random numbers (SplitMix64), the same on each run.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Random bytes, up to so many.
    pub fn bytes(&mut self, up_to: usize) -> Vec<u8> {
        (0..self.below(up_to + 1)).map(|_| self.next() as u8).collect()
    }
}
