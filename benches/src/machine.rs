//! The machine that is measured on: which core is whose, and what the report tells of it.

use std::error::Error;
use std::fs::read_to_string;
use std::io;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

/// The core of the server.
pub const SERVER_CORE: &str = "0";
/// The core of everything that makes load: redis-benchmark, this program, a replica.
pub const CLIENT_CORE: &str = "1";

/// What the report tells of the machine.
pub struct Machine {
    /// The model of its processor.
    pub cpu: String,
    /// How many cores.
    pub cores: usize,
    /// Memory in GB.
    pub memory_gb: u64,
    /// The kernel's version.
    pub kernel: String,
}

impl Machine {
    /// This machine. Asks before the process is pinned.
    pub fn here() -> Machine {
        let cpus = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = field(&cpus, "model name").unwrap_or("unknown").to_owned();
        let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        // What follows the numbers is a builder's own name for it.
        let kernel = release.trim().split(['-', '+']).next().unwrap_or_default().to_owned();
        let cores = available_parallelism().map_or(0, |cores| cores.get());
        Machine { cpu, cores, memory_gb: memory_kb("MemTotal").unwrap_or(0) / 1_000_000, kernel }
    }
}

/// GB of memory that can be had.
pub fn available_gb() -> u64 {
    memory_kb("MemAvailable").unwrap_or(0) / 1_000_000
}

fn memory_kb(name: &str) -> Option<u64> {
    let info = read_to_string("/proc/meminfo").ok()?;
    field(&info, name)?.split(' ').next()?.parse().ok()
}

fn field<'a>(lines: &'a str, name: &str) -> Option<&'a str> {
    let line = lines.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// Pins this process, and what it starts, to the client's core, and checks that what it will start
/// is there.
pub fn prepare() -> Result<(), Box<dyn Error>> {
    for program in ["redis-server", "redis-benchmark"] {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).status().map_err(missing(program))?;
    }
    let mut pin = Command::new("taskset");
    pin.args(["-c", "-p", CLIENT_CORE, &std::process::id().to_string()]);
    let pinned = pin.stdout(Stdio::null()).status().map_err(missing("taskset"))?;
    if !pinned.success() {
        return Err("two cores are needed, one for the server and one for the load".into());
    }
    // Wakes sleepers of the latency test without the usual delay of 50 µs. A kernel that does not
    // let us makes all latencies longer by as much.
    let _ = std::fs::write("/proc/self/timerslack_ns", "1000");
    Ok(())
}

/// Says what to install when a program cannot be started.
pub fn missing(program: &'static str) -> impl Fn(io::Error) -> String {
    let package = match program {
        "redis-server" => "redis-server",
        "redis-benchmark" => "redis-tools",
        _ => "util-linux",
    };
    move |error| format!("cannot start {program} (Debian and Ubuntu: package {package}): {error}")
}
