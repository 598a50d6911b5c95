//! The load: redis-benchmark, on the client's core.

use std::error::Error;
use std::process::{Command, Stdio};

use crate::machine::missing;

/// How much load, and from how many connections.
#[derive(Clone, Copy)]
pub struct Load {
    /// How many connections.
    pub connections: u32,
    /// Commands in flight on each.
    pub pipeline: u32,
    /// How many random keys.
    pub keys: u32,
    /// How many commands in all.
    pub requests: u32,
}

/// Sends the command as often as the load says. Returns commands a second.
pub fn run(port: u16, command: &[String], load: Load) -> Result<f64, Box<dyn Error>> {
    let mut benchmark = Command::new("redis-benchmark");
    benchmark.arg("--csv");
    let numbers = [
        ("-p", u32::from(port)),
        ("-c", load.connections),
        ("-n", load.requests),
        ("-r", load.keys),
        ("-P", load.pipeline),
    ];
    for (flag, number) in numbers {
        benchmark.arg(flag).arg(number.to_string());
    }
    let output = benchmark.args(command).stderr(Stdio::inherit()).output();
    let output = output.map_err(missing("redis-benchmark"))?;
    if !output.status.success() {
        return Err(format!("redis-benchmark failed on {}", command.join(" ")).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    throughput(&text).ok_or_else(|| format!("redis-benchmark said: {text}").into())
}

/// The second field of the last line. The first is the command, whatever its arguments are.
fn throughput(csv: &str) -> Option<f64> {
    let line = csv.trim_end().lines().last()?;
    let fields: Vec<&str> = line.rsplit(',').collect();
    // Seven numbers follow the command's name.
    fields.get(6)?.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_throughput_is_found_behind_any_command() {
        let csv =
            "\"test\",\"rps\",...\n\"SET a, b\",\"1234.50\",\"1\",\"2\",\"3\",\"4\",\"5\",\"6\"\n";
        assert_eq!(super::throughput(csv), Some(1234.5));
    }
}
