//! Short forms of the extended commands, and calls whose moment on the server's clock is known.

use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{
    Client, Reply, Server, Words, array, field, int, text, wait_for_children, wait_for_replica,
    words,
};

/// The algorithms without an ID whose capacity is the limit (`leaky` holds one permit).
pub const COUNTING: [&str; 4] = ["sliding", "bucket", "fixed", "counter"];

/// The algorithms of `RL.ACQUIRE`.
pub const ALGORITHMS: [&str; 5] = ["sliding", "bucket", "leaky", "fixed", "counter"];

/// A rule whose window does not end while a test runs.
pub fn long_rule(algorithm: &str, limit: u64) -> String {
    format!("WINDOW 10d LIMIT {limit} ALGO {algorithm}")
}

/// How many permits a limiter of this rule can give at once.
pub fn capacity(algorithm: &str, limit: u64) -> i64 {
    if algorithm == "leaky" { limit.min(1) as i64 } else { limit as i64 }
}

/// All algorithms.
pub const ALL: [&str; 6] = ["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"];

/// A rule whose window does not end while a test runs, with an ID where the algorithm needs one.
pub fn rule(algorithm: &str, limit: u64, options: &str) -> String {
    let id = if algorithm == "concurrency" { "ID me" } else { "" };
    format!("WINDOW 10d LIMIT {limit} ALGO {algorithm} {options} {id}")
}

/// The reply to `RL.ACQUIREX`. The keys are words of a line, the rules one argument.
pub fn acquirex(client: &mut Client, keys: &str, rules: impl AsRef<[u8]>) -> Reply {
    Reply::of(&client.run(words("RL.ACQUIREX").then(keys).arg(rules)))
}

/// The reply to `RL.PEEK`.
pub fn peek(client: &mut Client, keys: &str, rules: impl AsRef<[u8]>) -> Reply {
    Reply::of(&client.run(words("RL.PEEK").then(keys).arg(rules)))
}

/// Granted, limit, remaining, retry_after and key: the fields that do not depend on when permits were granted.
pub fn outcome(reply: &Reply) -> (i64, i64, i64, i64, i64) {
    (reply.granted, reply.limit, reply.remaining, reply.retry_after, reply.key)
}

/// A number of `RL.INFO`.
pub fn info(client: &mut Client, key: &str, name: &str) -> i64 {
    int(field(&client.run(format!("RL.INFO {key}")), name))
}

/// The reply with `WITHKEYS`, and its numbers for each key.
pub fn with_keys(value: &Value) -> (Reply, Vec<Vec<i64>>) {
    let [reply @ .., keys] = array(value) else { panic!("no fields: {value:?}") };
    let keys = array(keys).iter().map(|key| array(key).iter().map(int).collect()).collect();
    (Reply::of(&Value::Array(reply.to_vec())), keys)
}

fn time_ms(value: &Value) -> i64 {
    let parts: Vec<i64> =
        array(value).iter().map(|part| text(part).parse().expect("a number")).collect();
    parts[0] * 1000 + parts[1] / 1000
}

/// Runs calls in one transaction. Returns the replies, and between which milliseconds the calls ran.
pub fn timed<W: Into<Words>>(
    client: &mut Client,
    calls: impl IntoIterator<Item = W>,
) -> (Vec<Value>, RangeInclusive<i64>) {
    let mut commands = vec![words("MULTI"), words("TIME")];
    commands.extend(calls.into_iter().map(Into::into));
    commands.extend([words("TIME"), words("EXEC")]);
    let last = client.pipeline(commands).pop().expect("replies").expect("EXEC");
    let [begin, replies @ .., end] = array(&last) else { panic!("no replies: {last:?}") };
    (replies.to_vec(), time_ms(begin)..=time_ms(end))
}

/// Repeats calls until all of them run in one millisecond. Returns the replies and that millisecond. `reset` runs
/// before each attempt.
pub fn at_once(client: &mut Client, reset: &[&str], calls: &[&str]) -> (Vec<Value>, i64) {
    for _ in 0..1000 {
        for command in reset {
            client.run(*command);
        }
        let (replies, when) = timed(client, calls.iter().copied());
        if when.start() == when.end() {
            return (replies, *when.start());
        }
    }
    panic!("never in one millisecond: {calls:?}");
}

/// Sleeps until the server's clock shows at least this time.
pub fn sleep_until(client: &mut Client, time_ms: i64) {
    loop {
        let left = time_ms - client.time_ms();
        if left <= 0 {
            return;
        }
        thread::sleep(Duration::from_millis(left as u64));
    }
}

/// Asserts that both servers hold the same data.
pub fn assert_same_digest(primary: &Server, replica: &Server) {
    wait_for_replica(primary, replica);
    let digest = primary.client().text("DEBUG DIGEST");
    assert_ne!(digest, "0".repeat(40), "nothing to compare");
    assert_eq!(replica.client().text("DEBUG DIGEST"), digest);
}

/// Runs `check` on the data of `create` after a restart from an RDB file, and after crashes with an AOF of effects
/// and a rewritten one, with and without the RDB preamble.
pub fn survives(create: impl Fn(&mut Client), keys: &[&str], check: impl Fn(&mut Client)) {
    let mut server = Server::start();
    create(&mut server.client());
    let before = keys.iter().map(|key| server.client().stored(key)).collect::<Vec<_>>();
    server.restart();
    for (key, stored) in keys.iter().zip(&before) {
        assert_eq!(server.client().stored(key), *stored, "{key}, RDB");
    }
    check(&mut server.client());
    for preamble in ["yes", "no"] {
        let mut server = Server::builder()
            .conf("appendonly yes")
            .conf("appendfsync always")
            .conf(format!("aof-use-rdb-preamble {preamble}"))
            .start();
        create(&mut server.client());
        let before = keys.iter().map(|key| server.client().stored(key)).collect::<Vec<_>>();
        for rewritten in [false, true] {
            if rewritten {
                server.client().run("BGREWRITEAOF");
                wait_for_children(&mut server.client());
            }
            server.crash();
            for (key, stored) in keys.iter().zip(&before) {
                let case = format!("{key}, preamble {preamble}, rewritten {rewritten}");
                assert_eq!(server.client().stored(key), *stored, "{case}");
            }
        }
        check(&mut server.client());
    }
}
