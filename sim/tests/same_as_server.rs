//! The simulator and the module grant the same calls at the same times.
//!
//! Calls go to a server in real time, each in a script that also asks for the server's clock. The
//! times become a log, which the simulator replays: its decisions must be those of the server, line
//! by line.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use redis::{Connection, Script};
use tempfile::TempDir;
use testkit::{Random, Server};

/// Calls to each rule.
const CALLS: usize = 250;

/// How often a run is done anew when a call and its time were a millisecond apart.
const ATTEMPTS: usize = 10;

/// Rules with which a few calls in some ms make a difference, each with the name of a limiter.
const RULES: [&str; 8] = [
    "WINDOW 50ms LIMIT 5 ALGO sliding",
    "WINDOW 40ms LIMIT 4 ALGO bucket",
    "WINDOW 70ms LIMIT 3 ALGO bucket BURST 9",
    "WINDOW 30ms LIMIT 7 ALGO leaky",
    "WINDOW 60ms LIMIT 6 ALGO fixed OFFSET 13ms",
    "WINDOW 45ms LIMIT 5 ALGO counter",
    "WINDOW 20ms LIMIT 3 ALGO sliding BLOCK 35ms",
    "WINDOW 25ms LIMIT 12 ALGO counter COST 3",
];

/// Runs the call of its arguments, and tells seconds, microseconds, whether it was granted, and the
/// time afterwards. Servers before 7.2 do not stop the clock for a script: there the call is made
/// early in a millisecond, and the two times tell whether it was still the same after it.
const SCRIPT: &str = "
    local before = redis.call('TIME')
    for i = 1, 2000 do
        if tonumber(before[2]) % 1000 < 500 then break end
        before = redis.call('TIME')
    end
    local reply = redis.call('RL.ACQUIREX', unpack(ARGV))
    local after = redis.call('TIME')
    return {before[1], before[2], tostring(reply[1]), after[1], after[2]}";

/// A call that was made.
struct Call {
    /// A line of the log.
    line: String,
    granted: bool,
}

/// Makes one call of these arguments; `None` when it is not known in which millisecond.
fn call(connection: &mut Connection, args: &[String], key: &str, cost: u64) -> Option<Call> {
    let script = Script::new(SCRIPT);
    let mut invocation = script.prepare_invoke();
    for arg in args {
        invocation.arg(arg);
    }
    let reply: [String; 5] = invocation.invoke(connection).expect("a reply");
    let number = |i: usize| reply[i].parse::<i64>().expect("a number");
    let (before, after) = ((number(0), number(1) / 1000), (number(3), number(4) / 1000));
    (before == after).then(|| Call {
        line: format!("{}.{:06},{key},{cost}\n", number(0), number(1)),
        granted: number(2) > 0,
    })
}

/// Makes calls with random gaps. Each of `lists` is, for a key and a cost, the arguments of a call;
/// returns what became of the calls, list by list.
fn calls(
    connection: &mut Connection,
    lists: usize,
    args: impl Fn(usize, &str, u64) -> Vec<String>,
) -> Option<Vec<Vec<Call>>> {
    let mut random = Random(7);
    let mut made: Vec<Vec<Call>> = (0..lists).map(|_| Vec::new()).collect();
    for _ in 0..CALLS {
        match random.below(10) {
            0 => thread::sleep(Duration::from_millis(random.below(60) as u64)),
            1..5 => thread::sleep(Duration::from_micros(random.below(6000) as u64)),
            _ => {}
        }
        for (list, made) in made.iter_mut().enumerate() {
            let key = random.pick(&["a", "a", "b"]);
            let cost = 1 + u64::from(random.one_in(4));
            made.push(call(connection, &args(list, key, cost), key, cost)?);
        }
    }
    Some(made)
}

/// Makes all calls, anew if need be, on limiters whose names begin with the number of the attempt.
fn attempts(
    lists: usize,
    args: impl Fn(usize, usize, &str, u64) -> Vec<String>,
) -> (Vec<Vec<Call>>, TempDir) {
    let server = Server::start();
    let mut connection = server.connection();
    let made = (0..ATTEMPTS).find_map(|attempt| {
        calls(&mut connection, lists, |list, key, cost| args(attempt, list, key, cost))
    });
    let dir = tempfile::tempdir().expect("a directory");
    (made.expect("calls whose times are known"), dir)
}

/// What the simulator decides about these calls.
fn simulated(dir: &Path, calls: &[Call], args: &[String]) -> Vec<bool> {
    let (log, decisions) = (dir.join("calls.csv"), dir.join("decisions"));
    let lines: String = calls.iter().map(|call| call.line.as_str()).collect();
    fs::write(&log, lines).expect("a log");
    let output = Command::new(env!("CARGO_BIN_EXE_rl-sim"))
        .arg(&log)
        .arg("--decisions")
        .arg(&decisions)
        .args(args)
        .output()
        .expect("the simulator");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let decisions = fs::read_to_string(decisions).expect("decisions");
    decisions.lines().map(|line| line == "1").collect()
}

fn assert_same(dir: &Path, calls: &[Call], args: &[String]) {
    let granted: Vec<bool> = calls.iter().map(|call| call.granted).collect();
    let refused = granted.iter().filter(|granted| !**granted).count();
    assert!(refused > 10 && refused < CALLS - 10, "{refused} refusals prove little: {args:?}");
    let simulated = simulated(dir, calls, args);
    assert_eq!(simulated.len(), granted.len());
    for (i, call) in calls.iter().enumerate() {
        assert_eq!(simulated[i], granted[i], "call {i} of {args:?}: {}", call.line);
    }
}

/// A rule as a call asks it: a cost of its own wins over the one of the log.
fn rule(rule: &str, cost: u64) -> String {
    if rule.contains("COST") { rule.into() } else { format!("{rule} COST {cost}") }
}

#[test]
fn each_rule_on_its_own_grants_what_the_server_grants() {
    let (made, dir) = attempts(RULES.len(), |attempt, list, key, cost| {
        vec![format!("{attempt}:{list}:{key}"), rule(RULES[list], cost)]
    });
    for (calls, rule) in made.iter().zip(RULES) {
        assert_same(dir.path(), calls, &["--rule".into(), format!("key {rule}")]);
    }
}

#[test]
fn all_rules_in_one_call_grant_what_the_server_grants() {
    let rules = [RULES[0], RULES[2], "WINDOW 80ms LIMIT 25 ALGO counter"];
    let (made, dir) = attempts(1, |attempt, _, key, cost| {
        vec![
            format!("{attempt}:sliding:{key}"),
            format!("{attempt}:bucket:{key}"),
            format!("{attempt}:all"),
            rules.map(|text| rule(text, cost)).join(" "),
        ]
    });
    let by = ["key", "key", "global"];
    let mut args = vec![String::from("--together")];
    for (by, rule) in by.iter().zip(rules) {
        args.extend(["--rule".into(), format!("{by} {rule}")]);
    }
    assert_same(dir.path(), &made[0], &args);
}
