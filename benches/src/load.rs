//! The load: redis-benchmark, pinned to the second core.

use std::error::Error;
use std::process::{Command, Stdio};

use crate::Options;

const CONNECTIONS: &str = "20";

/// Sends the command as often as the options say.
pub fn run(port: u16, command: &[&str], options: &Options) -> Result<(), Box<dyn Error>> {
    let mut benchmark = Command::new("taskset");
    benchmark.args(["-c", "1", "redis-benchmark", "-q", "-c", CONNECTIONS]);
    let numbers = [
        ("-p", u32::from(port)),
        ("-n", options.requests),
        ("-r", options.keys),
        ("-P", options.pipeline),
    ];
    for (flag, number) in numbers {
        benchmark.arg(flag).arg(number.to_string());
    }
    let status = benchmark.args(command).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err("redis-benchmark failed".into()) }
}
