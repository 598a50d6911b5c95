//! The commands that are measured. `__rand_int__` is replaced by a random key number, at each of
//! its places by another one.
//!
//! Windows are long enough for no key to expire between two rounds, and limits high enough to grant
//! all that a run asks for. Sliding logs, in the module as in sorted sets, are filled with about
//! [`LOG_PERMITS`] before anything is measured, as they would be in use.

use crate::scripts::Scripts;

/// A command under load.
#[derive(Clone)]
pub struct Case {
    /// The name in the report.
    pub name: String,
    /// The command, for redis-benchmark.
    pub command: Vec<String>,
    /// What the reply's first number is once every key has been asked for: how a limiter says that
    /// it granted or denied. `None` for other commands.
    pub answer: Option<i64>,
    /// Whether what it takes is over before the next round. Then the load also runs before each
    /// measurement, to find the keys as they are in use.
    pub is_short_lived: bool,
}

/// The yardstick.
pub const SET: &str = "SET PX";
/// A read.
pub const GET: &str = "GET";
/// A change of nothing but the time to live.
pub const EXPIRE: &str = "EXPIRE";
/// The cheapest write.
pub const INCR: &str = "INCR";
/// The peer, granted.
pub const CELL: &str = "CL.THROTTLE";
/// The peer, denied.
pub const CELL_DENIED: &str = "CL.THROTTLE denied";
/// A token bucket in Lua.
pub const LUA_BUCKET: &str = "Lua bucket in a hash";
/// A sliding log in Lua.
pub const LUA_LOG: &str = "Lua log in a ZSET";
/// The same, denied.
pub const LUA_LOG_DENIED: &str = "Lua log in a ZSET denied";
/// Three sliding limits in Lua, all or nothing.
pub const LUA_TWO_PHASE: &str = "Lua two-phase, 3 keys";
/// A lease that is taken, while others of its limiter live and end.
pub const NEW_LEASE: &str = "RL.ACQUIREX concurrency, new lease";
/// In the place of a random number.
pub const RANDOM: &str = "__rand_int__";

/// Permits that a sliding log holds when the first round that counts begins: half of a limit of 100.
pub const LOG_PERMITS: u32 = 50;

impl Case {
    /// Whether each call makes a log longer.
    pub fn fills_a_log(&self) -> bool {
        let named = |arg: &String| arg.split(' ').any(|word| word == "sliding");
        let sliding = self.answer == Some(1) && self.command.iter().any(named);
        sliding || self.name == LUA_LOG || self.name == LUA_TWO_PHASE
    }
}

/// What RL.ACQUIRE can be asked for.
pub const ALGORITHMS: &[&str] = &["bucket", "leaky", "sliding", "fixed", "counter", "concurrency"];

/// The name of a case of RL.ACQUIRE.
pub fn acquire_name(algorithm: &str, keys: usize, denied: bool) -> String {
    let command = if algorithm == "concurrency" { "RL.ACQUIREX" } else { "RL.ACQUIRE" };
    let keys = if keys == 1 { String::new() } else { format!(", {keys} keys") };
    format!("{command} {algorithm}{keys}{}", if denied { " denied" } else { "" })
}

/// RL.ACQUIRE over a number of keys, or RL.ACQUIREX where it takes an ID.
pub fn acquire(algorithm: &str, keys: usize, denied: bool) -> Case {
    let concurrency = algorithm == "concurrency";
    let mut command = vec![if concurrency { "RL.ACQUIREX" } else { "RL.ACQUIRE" }.to_owned()];
    let prefix = if denied { "d" } else { "g" };
    command.extend((1..=keys).map(|key| format!("{algorithm}:{prefix}{key}:{RANDOM}")));
    let (window, limit) = match (algorithm, denied) {
        (_, true) => ("1d", "1"),
        ("bucket", _) => ("40h", "20000"),
        ("sliding", _) => ("10m", "4000"),
        // It holds one permit, back a millisecond later: a few calls are denied all the same.
        ("leaky", _) => ("1d", "86400000"),
        _ => ("1h", "1000000"),
    };
    let rule = format!("WINDOW {window} LIMIT {limit} ALGO {algorithm}");
    if concurrency {
        // Granted: one holder who renews its lease. Denied: somebody else holds it.
        let id = if denied { RANDOM } else { "holder" };
        command.push(format!("{rule} ID {id}"));
    } else {
        command.extend(rule.split(' ').map(str::to_owned));
    }
    let answer = Some(i64::from(!denied));
    Case { name: acquire_name(algorithm, keys, denied), command, answer, is_short_lived: false }
}

/// The name of a case of RL.ACQUIREX.
pub fn acquirex_name(algorithm: &str, keys: usize, denied: bool) -> String {
    acquire_name(algorithm, keys, denied).replace("RL.ACQUIRE ", "RL.ACQUIREX ")
}

/// RL.ACQUIREX with one rule. It repeats, as an application repeats it.
pub fn acquirex(algorithm: &str, keys: usize, denied: bool) -> Case {
    let case = acquire(algorithm, keys, denied);
    let rule = case.command.get(1 + keys..).unwrap_or_default().join(" ");
    let mut command = vec!["RL.ACQUIREX".to_owned()];
    command.extend(case.command.iter().skip(1).take(keys).map(|key| format!("x{key}")));
    command.push(rule);
    Case { name: acquirex_name(algorithm, keys, denied), command, ..case }
}

/// The name of a case with a rule for each key.
pub fn rules_name(keys: usize, denied: bool) -> String {
    format!("RL.ACQUIREX {keys} rules, {keys} keys{}", if denied { " denied" } else { "" })
}

/// RL.ACQUIREX with a rule for each key.
fn rules(keys: usize, denied: bool) -> Case {
    let outcome = if denied { "d" } else { "g" };
    let rule = |key: usize| match denied {
        true => format!("WINDOW {key}d LIMIT 1 ALGO bucket"),
        false => format!("WINDOW {}h LIMIT {} ALGO bucket", 40 * key, 20_000 * key),
    };
    let mut command = vec!["RL.ACQUIREX".to_owned()];
    command.extend((1..=keys).map(|key| format!("r{keys}{outcome}{key}:{RANDOM}")));
    command.push((1..=keys).map(rule).collect::<Vec<_>>().join(" "));
    let answer = Some(i64::from(!denied));
    Case { name: rules_name(keys, denied), command, answer, is_short_lived: false }
}

/// Leases that end after a moment. Each limiter holds a few.
fn new_lease() -> Case {
    let mut case = other(NEW_LEASE, Some(1), "RL.ACQUIREX lease:__rand_int__");
    let rule = "WINDOW 100 LIMIT 1000000 ALGO concurrency ID __rand_int__";
    case.command.push(rule.to_owned());
    Case { is_short_lived: true, ..case }
}

/// The name of a case whose calls all go to one key.
pub fn hot_name(name: &str) -> String {
    format!("{name}, one hot key")
}

/// A case of one key, with all calls to the same.
fn hot(case: &Case) -> Case {
    let command = case.command.iter().map(|arg| arg.replace(RANDOM, "hot")).collect();
    Case { name: hot_name(&case.name), command, ..case.clone() }
}

/// A case of another command, its arguments separated by spaces.
fn other(name: &str, answer: Option<i64>, command: &str) -> Case {
    let command = command.split(' ').map(str::to_owned).collect();
    Case { name: name.to_owned(), command, answer, is_short_lived: false }
}

fn ping() -> Case {
    other("PING", None, "PING")
}

/// The cheapest write.
pub fn incr() -> Case {
    other(INCR, None, "INCR incr:__rand_int__")
}

/// The yardstick.
pub fn set() -> Case {
    other(SET, None, "SET set:__rand_int__ v PX 3600000")
}

/// What other applications on the same server do most.
pub fn others() -> Vec<Case> {
    // After the first, which creates the keys.
    vec![
        set(),
        other(GET, None, "GET set:__rand_int__"),
        other(EXPIRE, None, "EXPIRE set:__rand_int__ 3600"),
    ]
}

/// redis-cell, granted.
pub fn cell() -> Case {
    other(CELL, Some(0), "CL.THROTTLE cell:__rand_int__ 19999 20000 144000")
}

/// A token bucket in Lua, by the server's clock.
pub fn lua_bucket(scripts: &Scripts) -> Case {
    let sha = &scripts.bucket;
    other(LUA_BUCKET, Some(1), &format!("EVALSHA {sha} 1 lb:__rand_int__ 20000 0.13889"))
}

/// Everything that the targets compare.
pub fn main_cases(scripts: &Scripts) -> Vec<Case> {
    let Scripts { window, bucket, log, two_phase } = scripts;
    let mut cases = vec![ping(), incr(), set()];
    let both = [acquire, acquirex];
    for make in both {
        for algorithm in ["bucket", "sliding"] {
            cases.extend([1, 3, 8].map(|keys| make(algorithm, keys, false)));
        }
    }
    cases.extend([3, 8].map(|keys| rules(keys, false)));
    cases.extend([acquirex("concurrency", 1, false), new_lease()]);
    cases.extend([
        cell(),
        other(
            "Lua INCR + EXPIRE",
            Some(1),
            &format!("EVALSHA {window} 1 lw:{RANDOM} 1000000 3600000"),
        ),
        lua_bucket(scripts),
        other(
            "Lua bucket, caller's clock",
            Some(1),
            &format!("EVALSHA {bucket} 1 lc:{RANDOM} 20000 0.13889 1700000000.123"),
        ),
        other(LUA_LOG, Some(1), &format!("EVALSHA {log} 1 ll:{RANDOM} 4000 600000")),
        other(
            LUA_TWO_PHASE,
            Some(1),
            &format!("EVALSHA {two_phase} 3 t1:{RANDOM} t2:{RANDOM} t3:{RANDOM} 4000 600000"),
        ),
    ]);
    for make in both {
        for algorithm in ["bucket", "sliding"] {
            let denied = make(algorithm, 1, true);
            let hot = hot(&denied);
            cases.extend([denied, hot, make(algorithm, 3, true)]);
        }
    }
    let cell_denied = other(CELL_DENIED, Some(1), "CL.THROTTLE celld:__rand_int__ 0 1 86400");
    let cell_hot = hot(&cell_denied);
    cases.extend([
        rules(3, true),
        acquirex("concurrency", 1, true),
        cell_denied,
        cell_hot,
        other(
            "Lua bucket in a hash denied",
            Some(0),
            &format!("EVALSHA {bucket} 1 lbd:{RANDOM} 1 0.00001"),
        ),
        other(LUA_LOG_DENIED, Some(0), &format!("EVALSHA {log} 1 lld:{RANDOM} 1 86400000")),
    ]);
    cases
}

/// Each algorithm, granted and denied, over 1, 2, 3 and 8 keys, beside the yardstick.
pub fn algorithm_cases(keys: &[usize]) -> Vec<Case> {
    let mut cases = vec![set()];
    for algorithm in ALGORITHMS {
        for denied in [false, true] {
            cases.extend(keys.iter().map(|keys| acquire(algorithm, *keys, denied)));
        }
    }
    cases
}

/// What throughput and latency are measured of.
pub fn few_cases(scripts: &Scripts) -> Vec<Case> {
    let limiters = ["bucket", "sliding"].map(|algorithm| acquire(algorithm, 1, false));
    let mut cases = vec![incr(), set()];
    cases.extend(limiters);
    cases.extend([cell(), lua_bucket(scripts)]);
    cases
}

/// Kinds of keys whose memory is measured.
pub fn memory_cases(scripts: &Scripts) -> Vec<Case> {
    let mut cases = vec![set()];
    cases.extend(ALGORITHMS.iter().map(|algorithm| acquire(algorithm, 1, false)));
    cases.extend([cell(), lua_bucket(scripts)]);
    for case in &mut cases {
        for arg in case.command.iter_mut().filter(|arg| arg.contains(RANDOM)) {
            // Names of one length.
            *arg = format!("key:{RANDOM}");
        }
    }
    cases
}
