//! What must hold, as ratios within one run.

use crate::cases::{self, acquire_name, acquirex_name};
use crate::cpu::find;
use crate::logs::LogBytes;
use crate::memory;
use crate::results::Results;

/// A promise and what became of it.
pub struct Target {
    /// What is compared.
    pub what: String,
    /// The most that it may be, or the least if `at_least`.
    pub bound: f64,
    /// Whether the bound is a lower one.
    pub at_least: bool,
    /// What was measured.
    pub measured: Option<f64>,
}

impl Target {
    /// Whether it is met, if it was measured.
    pub fn met(&self) -> Option<bool> {
        let measured = self.measured?;
        Some(if self.at_least { measured >= self.bound } else { measured <= self.bound })
    }
}

fn at_most(what: impl Into<String>, bound: f64, measured: Option<f64>) -> Target {
    Target { what: what.into(), bound, at_least: false, measured }
}

/// All targets, in the order of the promise.
pub fn targets(results: &Results) -> Vec<Target> {
    let mut targets = cpu_targets(results);
    for algorithm in ["bucket", "sliding"] {
        let rate = |name: &str| {
            let found = results.throughput.iter().find(|throughput| throughput.name == name);
            found.map(|throughput| throughput.rates[0])
        };
        targets.push(Target {
            what: format!("{algorithm} / INCR, throughput without pipelining"),
            bound: 0.95,
            at_least: true,
            measured: ratio(rate(&acquire_name(algorithm, 1, false)), rate(cases::INCR)),
        });
    }
    targets.extend(log_targets(results));
    targets
}

fn cpu_targets(results: &Results) -> Vec<Target> {
    let cpu = |name: &str| find(&results.main, name);
    let over = |name: &str, base: &str| ratio(cpu(name), cpu(base));
    let mut targets = Vec::new();
    for (algorithm, bound) in [("bucket", 1.15), ("sliding", 1.25)] {
        let name = acquire_name(algorithm, 1, false);
        let bases = [
            (cases::SET, bound),
            (cases::CELL, 0.6),
            (cases::LUA_LOG, 1.0 / 5.5),
            (cases::LUA_BUCKET, 1.0 / 4.8),
        ];
        for (base, bound) in bases {
            let what = format!("{algorithm} / {base}");
            targets.push(at_most(what, bound, over(&name, base)));
        }
    }
    for algorithm in ["bucket", "sliding"] {
        let name = acquire_name(algorithm, 1, true);
        for (base, bound) in [(cases::CELL_DENIED, 0.7), (cases::LUA_LOG_DENIED, 1.0 / 4.3)] {
            let what = format!("{algorithm} denied / {base}");
            targets.push(at_most(what, bound, over(&name, base)));
        }
    }
    for algorithm in ["bucket", "sliding"] {
        let three = acquire_name(algorithm, 3, false);
        let eight = acquire_name(algorithm, 8, false);
        let what = format!("{algorithm}, 3 keys / {}", cases::LUA_TWO_PHASE);
        targets.push(at_most(what, 1.0 / 13.0, over(&three, cases::LUA_TWO_PHASE)));
        let what = format!("{algorithm}, 8 keys / 3 keys");
        targets.push(at_most(what, 2.4, over(&eight, &three)));
    }
    let extended = acquirex_name("bucket", false);
    targets.push(at_most("RL.ACQUIREX bucket / SET PX", 1.08, over(&extended, cases::SET)));
    let three = acquire_name("bucket", 3, false);
    let what = "RL.ACQUIREX with 3 rules / RL.ACQUIRE, both 3 keys";
    targets.push(at_most(what, 1.0, over(cases::THREE_RULES, &three)));
    targets
}

fn log_targets(results: &Results) -> Vec<Target> {
    let logs = results.logs.as_ref();
    let grant = |permits| {
        let cost = logs?.grants.iter().find(|(number, _)| *number == permits);
        cost.map(|(_, cost)| cost.micros)
    };
    let expiry = logs.and_then(|logs| logs.expiry).filter(|(permits, _)| *permits == 10_000);
    let zset = |permits| {
        let weighed = |log: &&LogBytes| log.permits == permits && log.exact;
        let log = logs?.memory.iter().find(weighed)?;
        Some(log.bytes[0] as f64 / log.zset_bytes[0] as f64)
    };
    let bytes = |name: &str| memory::find(&results.memory, name);
    let cell = ratio(bytes(&acquire_name("bucket", 1, false)), bytes(cases::CELL));
    vec![
        at_most(
            "grant with 10,000 permits in the log / with 10",
            1.25,
            ratio(grant(10_000), grant(10)),
        ),
        at_most("expiring 10,000 entries in one call, µs", 100.0, expiry.map(|(_, micros)| micros)),
        at_most("bytes of a bucket / of CL.THROTTLE", 1.2, cell),
        at_most("bytes of a bucket / of CL.THROTTLE, better", 1.1, cell),
        at_most("bytes of a log of 1,000 permits / ZSET", 1.0 / 20.0, zset(1000)),
        at_most("bytes of a log of 10,000 permits / ZSET", 1.0 / 50.0, zset(10_000)),
    ]
}

fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    Some(value? / base?)
}
