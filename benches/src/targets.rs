//! What must hold, as ratios within one run.

use crate::cases::{self, SET, acquire_name, acquirex_name, hot_name, rules_name};
use crate::cpu::{Cost, find};
use crate::logs::LogBytes;
use crate::memory;
use crate::others::{STATES, State};
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
    let mut targets = own_targets(results);
    targets.extend(peer_targets(results));
    targets.extend(other_targets(results));
    for algorithm in ["bucket", "sliding"] {
        let rate = |name: &str| {
            let found = results.throughput.iter().find(|throughput| throughput.name == name);
            found.map(|throughput| throughput.rates[0])
        };
        targets.push(Target {
            what: format!("RL.ACQUIRE {algorithm} / INCR, throughput without pipelining"),
            bound: 0.95,
            at_least: true,
            measured: ratio(rate(&acquire_name(algorithm, 1, false)), rate(cases::INCR)),
        });
    }
    targets.extend(log_targets(results));
    targets.extend(lease_targets(results));
    targets
}

/// A ratio of two costs of one table.
fn over(costs: &[Cost], name: &str, base: &str, bound: f64, when: &str) -> Target {
    at_most(format!("{name} / {base}{when}"), bound, ratio(find(costs, name), find(costs, base)))
}

/// Against `SET PX`, and of more keys against fewer.
fn own_targets(results: &Results) -> Vec<Target> {
    let main = |name: &str, bound: f64| over(&results.main, name, SET, bound, "");
    let mut targets = Vec::new();
    for (algorithm, extended, plain) in [("bucket", 1.0, 1.1), ("sliding", 1.25, 1.35)] {
        targets.push(main(&acquirex_name(algorithm, 1, false), extended));
        targets.push(main(&acquire_name(algorithm, 1, false), plain));
    }
    for (costs, when) in [(&results.aof, ", AOF"), (&results.replica, ", replica")] {
        for (algorithm, bound) in [("bucket", 1.15), ("sliding", 1.3)] {
            let name = acquirex_name(algorithm, 1, false);
            targets.push(over(costs, &name, SET, bound, when));
        }
    }
    for algorithm in ["bucket", "sliding"] {
        let denied = acquirex_name(algorithm, 1, true);
        targets.push(main(&denied, 1.0));
        targets.push(main(&hot_name(&denied), 0.9));
    }
    targets.push(main(&rules_name(3, false), 2.2));
    targets.push(main(&rules_name(3, true), 1.8));
    targets.push(main(cases::NEW_LEASE, 1.8));
    targets.push(main(&acquirex_name("concurrency", 1, false), 1.8));
    let rules = [rules_name(8, false), rules_name(3, false)];
    let rule = ["bucket", "sliding"]
        .map(|algorithm| [8, 3].map(|keys| acquire_name(algorithm, keys, false)));
    let more = [rules].into_iter().chain(rule);
    targets.extend(more.map(|[eight, three]| over(&results.main, &eight, &three, 2.4, "")));
    targets
}

/// Against redis-cell and Lua.
fn peer_targets(results: &Results) -> Vec<Target> {
    let main = |name: &str, base: &str, bound: f64| over(&results.main, name, base, bound, "");
    let mut targets = Vec::new();
    for algorithm in ["bucket", "sliding"] {
        let granted = acquire_name(algorithm, 1, false);
        targets.push(main(&granted, cases::CELL, 0.6));
        targets.push(main(&granted, cases::LUA_LOG, 1.0 / 5.5));
        targets.push(main(&granted, cases::LUA_BUCKET, 1.0 / 4.8));
    }
    for algorithm in ["bucket", "sliding"] {
        let denied = acquirex_name(algorithm, 1, true);
        targets.push(main(&denied, cases::CELL_DENIED, 0.7));
        targets.push(main(&denied, cases::LUA_LOG_DENIED, 1.0 / 4.3));
    }
    for algorithm in ["bucket", "sliding"] {
        let three = acquire_name(algorithm, 3, false);
        targets.push(main(&three, cases::LUA_TWO_PHASE, 1.0 / 13.0));
    }
    targets
}

/// What others notice of the module.
fn other_targets(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for name in [SET, cases::GET, cases::EXPIRE] {
        let tax = results.others.iter().find(|tax| tax.name == name);
        for state in STATES.into_iter().filter(|state| *state != State::Absent) {
            let what = format!("{name}, {} / without the module", state.name());
            targets.push(at_most(what, 1.01, tax.and_then(|tax| tax.in_state(state))));
        }
    }
    let own = results.longest.iter().filter(|call| !call.is_bulk()).map(|call| call.micros);
    let longest = own.max_by(f64::total_cmp);
    targets.push(at_most("longest call that does not answer or copy as much, µs", 5000.0, longest));
    targets
}

fn lease_targets(results: &Results) -> Vec<Target> {
    let each = |leases: u32| {
        let found = results.leases.iter().find(|weighed| weighed.leases == leases);
        found.map(|weighed| weighed.bytes / f64::from(leases))
    };
    vec![
        at_most("bytes of a concurrency limiter with 1 lease", 400.0, each(1)),
        at_most("bytes with 10 leases", 1024.0, each(10).map(|each| 10.0 * each)),
        at_most("bytes of each of 100,000 leases", 150.0, each(100_000)),
    ]
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
