//! The options of `rl-sim`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::input::Format;
use crate::rule::Simulated;

const EXAMPLES: &str = "\
Rules:
  A rule is what to count by, then a rule in the words of RL.ACQUIREX:

    ip|user|path|ip+path|key|global WINDOW ms LIMIT n ALGO algo [BURST n] [OFFSET ms] [BLOCK ms]
                                    [COST n]

  A combined log has ip, user, path, ip+path and global; a CSV has key and global. Requests without
  a user are none of the business of a rule by user. A rule with a COST of its own takes that,
  another one what the line says, or 1.

Examples:
  rl-sim access.log --rule 'ip WINDOW 1m LIMIT 100 ALGO sliding'
  rl-sim access.log --together --rule 'ip WINDOW 1m LIMIT 100 ALGO sliding' \\
      --rule 'global WINDOW 1s LIMIT 50 ALGO bucket BURST 100' --svg replay.svg
  zcat access.log.*.gz | rl-sim --json --rule 'user WINDOW 1d LIMIT 5000 ALGO fixed'";

/// Replays an access log against rate limits: who would have been refused, how often, for how long,
/// and which limit would refuse nobody.
#[derive(Debug, Parser)]
#[command(name = "rl-sim", version, after_help = EXAMPLES)]
pub struct Options {
    /// The access log, plain or gzip; stdin when it is left out or '-'
    #[arg(value_name = "LOG")]
    pub log: Option<PathBuf>,

    /// A rule to replay; may be given several times, each is judged on its own
    #[arg(short, long = "rule", value_name = "RULE", required = true)]
    pub rules: Vec<Simulated>,

    /// Replay all rules in one all-or-nothing call, too
    #[arg(short, long)]
    pub together: bool,

    /// How the log is written: combined (and common) of Apache and nginx, or a CSV of time,key or
    /// time,key,cost
    #[arg(long, value_enum, default_value_t = LogFormat::Auto)]
    pub format: LogFormat,

    /// How many of the keys refused most to show for each rule
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub top: usize,

    /// Spread requests whose time has no fraction of a second evenly over that second
    #[arg(long)]
    pub spread: bool,

    /// The server's rl.sliding-resolution
    #[arg(
        long,
        value_name = "N",
        default_value_t = rl_core::sliding::DEFAULT_RESOLUTION,
        value_parser = clap::value_parser!(u32).range(16..=65_536)
    )]
    pub resolution: u32,

    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,

    /// Draw demand against admitted over time
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Write 1 (granted) or 0 (refused) for each request, a line each in the order of the log: one
    /// digit a rule, or one for the call with --together
    #[arg(long, value_name = "FILE")]
    pub decisions: Option<PathBuf>,
}

/// The choice of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Find out from the first lines
    Auto,
    /// Common or combined, as Apache and nginx write them
    Combined,
    /// time,key or time,key,cost: epoch seconds with or without a fraction, epoch ms, or RFC 3339
    Csv,
}

impl LogFormat {
    /// The format, if it was chosen.
    pub fn chosen(self) -> Option<Format> {
        match self {
            LogFormat::Auto => None,
            LogFormat::Combined => Some(Format::Combined),
            LogFormat::Csv => Some(Format::Csv),
        }
    }
}
