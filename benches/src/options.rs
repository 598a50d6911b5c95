//! What to measure, and how long.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::cpu::Effort;

/// Measures redis-rl against plain commands, redis-cell and Lua, side by side in one run.
#[derive(Parser)]
pub struct Options {
    /// Only to see that everything works: a minute, numbers not to be quoted.
    #[arg(long)]
    pub quick: bool,
    /// Writes benchmarks.md and its pictures into this folder; otherwise the page is only printed.
    #[arg(long, value_name = "FOLDER")]
    pub report: Option<PathBuf>,
    /// Only these parts.
    #[arg(long, value_delimiter = ',', value_enum)]
    pub parts: Vec<Part>,
    /// In the CPU tables, only the cases whose name contains one of these words.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Rounds to take the median of; one more is run first, to create the keys [default: 9].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=30))]
    rounds: Option<u16>,
    /// Requests of each command in each round, at most [default: 120000].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    requests: Option<u32>,
    /// Random keys.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub keys: u32,
    /// Commands in flight on each of the 20 connections.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pipeline: u32,
    /// The folder with the modules.
    #[arg(long, default_value = "target/release")]
    pub modules: PathBuf,
    /// The folder with other servers, as scripts/servers fills it.
    #[arg(long, default_value = "target/servers")]
    pub servers: PathBuf,
}

/// A part of the run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Server CPU per command of what the targets compare.
    Cpu,
    /// Server CPU of each algorithm, granted and denied, over 1 to 8 keys.
    Algorithms,
    /// Server CPU with an AOF and with a replica.
    Durable,
    /// Server CPU on other servers.
    Servers,
    /// Server CPU of other applications' commands.
    Others,
    /// The single calls that hold the server longest.
    Longest,
    /// Commands a second.
    Throughput,
    /// Latency under a fixed load.
    Latency,
    /// Bytes a key, and of leases.
    Memory,
    /// One sliding limiter with few and with many permits.
    Logs,
    /// Cost against keys in a call, keys in the database, clients.
    Growth,
}

impl Options {
    /// Whether to run a part.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// Whether to run a case.
    pub fn wants_case(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }

    /// How long to measure CPU.
    pub fn effort(&self) -> Effort {
        let (rounds, micros) = if self.quick { (2, 20_000.0) } else { (9, 100_000.0) };
        Effort { rounds: self.rounds.map_or(rounds, usize::from), micros }
    }

    /// The same for what is not compared by a target.
    pub fn less_effort(&self) -> Effort {
        let effort = self.effort();
        Effort { rounds: (effort.rounds / 2).max(1), ..effort }
    }

    /// Requests of the first round, the most of later ones.
    pub fn requests(&self) -> u32 {
        self.requests.unwrap_or(if self.quick { 30_000 } else { 120_000 })
    }

    /// How long latency is measured for in a round.
    pub fn latency_round(&self) -> Duration {
        if self.quick { Duration::from_millis(200) } else { Duration::from_secs(1) }
    }

    /// One of two, the first in a quick run.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}
