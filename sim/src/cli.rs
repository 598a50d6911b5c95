//! The options of `rl-sim`.

use std::path::PathBuf;

use clap::Parser;
use jiff::tz::Offset;

use crate::address::IPV6_PREFIX;
use crate::formats::json::Keys;
use crate::formats::pattern::Pattern;
use crate::formats::{Format, Told};
use crate::rule::Simulated;
use crate::timestamp;

const EXAMPLES: &str = r#"Rules:
  A rule is what to count by, then a rule in the words of RL.ACQUIREX:

    ip|user|path|ip+path|key|global WINDOW ms LIMIT n ALGO algo [BURST n] [OFFSET ms] [BLOCK ms]
                                    [COST n]

  An access log has ip, user, path, ip+path and global; a CSV has key and global. Requests without
  a user are none of the business of a rule by user. A rule with a COST of its own takes that,
  another one what the line says, or 1.

Examples:
  rl-sim access.log --rule 'ip WINDOW 1m LIMIT 100 ALGO sliding'
  rl-sim access.log --together --rule 'ip WINDOW 1m LIMIT 100 ALGO sliding' \
      --rule 'global WINDOW 1s LIMIT 50 ALGO bucket BURST 100' --svg replay.svg
  rl-sim app.log -r 'ip WINDOW 1m LIMIT 100 ALGO sliding' \
      --log-format '$remote_addr - $remote_user [$time_local] "$request" $status $request_time'
  zcat access.log.*.gz | rl-sim --json --rule 'user WINDOW 1d LIMIT 5000 ALGO fixed'"#;

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

    /// How the log is written; found out from its first lines unless given
    #[arg(long, value_enum, conflicts_with_all = ["log_format", "json_keys"])]
    pub format: Option<Format>,

    /// The log_format of nginx or the LogFormat of Apache that wrote the log
    #[arg(long, value_name = "LINE", conflicts_with = "json_keys")]
    pub log_format: Option<Pattern>,

    /// Which keys of a JSON log mean what, such as time=ts,ip=client.ip,user=user.id,path=url; the
    /// fields forwarded and request can be told, too
    #[arg(long, value_name = "FIELD=KEY,...")]
    pub json_keys: Option<Keys>,

    /// Take the client's address from X-Forwarded-For, the Nth from the right: 1 is what the proxy
    /// in front of the server wrote
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub forwarded: Option<u8>,

    /// Count IPv6 clients by networks of this length, as the middlewares do; 128: by address
    #[arg(
        long,
        value_name = "BITS",
        default_value_t = IPV6_PREFIX,
        value_parser = clap::value_parser!(u8).range(1..=128)
    )]
    pub ipv6: u8,

    /// The zone of times that tell none, such as +02:00
    #[arg(long, value_name = "ZONE", value_parser = zone, allow_hyphen_values = true)]
    pub zone: Option<Offset>,

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
        default_value_t = rl_core::algorithm::sliding::DEFAULT_RESOLUTION,
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

impl Options {
    /// What was told of the log.
    pub fn told(&self) -> Told {
        Told {
            format: self.format,
            line: self.log_format.clone(),
            keys: self.json_keys.clone(),
            zone: self.zone,
            place: self.forwarded.map(usize::from),
        }
    }
}

fn zone(text: &str) -> Result<Offset, &'static str> {
    timestamp::offset(text.as_bytes()).ok_or("a zone is written as +02:00 or Z")
}
