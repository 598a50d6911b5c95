//! `RL.TOP`: the keys denied most, as the paper on the Space-Saving algorithm promises. Only denials count.
//!
//! `RL_TOP_DENIALS` is the length of the stream, by default 200,000; its keys are as many.

use std::collections::HashMap;
use std::env;
use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{
    Client, Random, Server, Words, acquire, array, bytes_of, int, wait_for_replica, words,
};

use crate::calls::{info, rule, sleep_until, timed};

/// A call that is always denied.
const CLOSED: &str = "WINDOW 1d LIMIT 0 ALGO fixed";

/// A line of the answer: key, database, count and error.
#[derive(Debug, PartialEq)]
struct Line(Vec<u8>, i64, u64, u64);

fn top(client: &mut Client, tail: &str) -> Vec<Line> {
    let value = client.run(format!("RL.TOP {tail}"));
    let line = |value: &Value| {
        let [key, db, count, error] = array(value) else { panic!("not four: {value:?}") };
        let key = bytes_of(key).expect("a key");
        Line(key, int(db), int(count) as u64, int(error) as u64)
    };
    array(&value).iter().map(line).collect()
}

/// Key, count and error of keys in database 0.
fn brief(lines: Vec<Line>) -> Vec<(String, u64, u64)> {
    let text = |key| String::from_utf8(key).expect("UTF-8");
    lines.into_iter().map(|Line(key, _, count, error)| (text(key), count, error)).collect()
}

fn counts(expected: &[(&str, u64)]) -> Vec<(String, u64, u64)> {
    expected.iter().map(|(key, count)| (key.to_string(), *count, 0)).collect()
}

fn deny(client: &mut Client, key: &str, times: usize) {
    for reply in client.pipeline((0..times).map(|_| acquire(key, CLOSED))) {
        reply.expect("a denial");
    }
}

/// A server whose period does not end while a test runs.
fn unhurried() -> Server {
    Server::builder().conf("rl.top-period 86400000").start()
}

/// Denies keys of a Zipf distribution (exponent 1), and counts the denials. Rank `i` is key `i * stride`, so the
/// frequent keys of two streams differ.
fn deny_zipf(client: &mut Client, length: usize, stride: usize, truth: &mut HashMap<Vec<u8>, u64>) {
    let mut sums = Vec::with_capacity(length);
    let mut sum = 0.0;
    for rank in 1..=length {
        sum += 1.0 / rank as f64;
        sums.push(sum);
    }
    let mut random = Random(stride as u64);
    let mut left = length;
    while left > 0 {
        let chunk = left.min(1000);
        let calls: Vec<Words> = (0..chunk)
            .map(|_| {
                let at = (random.number() >> 11) as f64 / (1u64 << 53) as f64 * sum;
                let rank = sums.partition_point(|sum| *sum < at);
                let key = format!("user:{}", (rank * stride) % length);
                *truth.entry(key.clone().into_bytes()).or_default() += 1;
                acquire(&key, CLOSED)
            })
            .collect();
        for reply in client.pipeline(calls) {
            reply.expect("a denial");
        }
        left -= chunk;
    }
}

/// Asserts the promises for streams whose lengths add up to `denials`.
fn check(lines: &[Line], truth: &HashMap<Vec<u8>, u64>, denials: usize, capacity: usize) {
    let bound = (denials / capacity) as u64;
    for Line(key, db, count, error) in lines {
        let occurred = truth.get(key).copied().unwrap_or_default();
        let case = format!("{}: {count}, error {error}", key.escape_ascii());
        assert!(*count >= occurred, "{case}, but it was {occurred}");
        assert!(count - error <= occurred, "{case}, but it was {occurred}");
        assert!(*error <= bound, "{case}, above {bound}");
        assert_eq!(*db, 0);
    }
    assert!(lines.windows(2).all(|pair| pair[0].2 >= pair[1].2), "not in order");
    let mut frequent = 0;
    for (key, occurred) in truth.iter().filter(|(_, occurred)| **occurred > bound) {
        let listed = lines.iter().any(|line| line.0 == *key);
        assert!(listed, "{} occurred {occurred} times", key.escape_ascii());
        frequent += 1;
    }
    assert!(frequent > 10, "only {frequent} frequent keys");
}

#[test]
fn a_zipf_stream_is_counted_as_the_paper_promises() {
    const CAPACITY: usize = 256;
    let length = env::var("RL_TOP_DENIALS").map_or(200_000, |n| n.parse().expect("a number"));
    let server = unhurried();
    let mut client = server.client();
    assert_eq!(client.config("rl.top-capacity"), CAPACITY.to_string());
    let (begin, mut truth) = (client.time_ms(), HashMap::new());
    deny_zipf(&mut client, length, 1, &mut truth);
    let lines = top(&mut client, "COUNT 1000000");
    assert_eq!(lines.len(), CAPACITY);
    check(&lines, &truth, length, CAPACITY);
    assert_eq!(client.info_number("rl", "rl_top_tracked"), CAPACITY as i64);
    for count in [1, 7, 10] {
        assert_eq!(top(&mut client, &format!("COUNT {count}")), lines[..count], "{count}");
    }
    assert_eq!(top(&mut client, ""), lines[..10], "by default");
    // RL.INFO tells the same count.
    let Line(key, _, count, _) = &lines[0];
    let key = String::from_utf8_lossy(key);
    client.run(format!("RL.BLOCK {key} FOR 1h"));
    assert_eq!(info(&mut client, &key, "denied_recently"), *count as i64);
    // The period turns over once, and another stream follows.
    sleep_until(&mut client, begin + 1600);
    let period = (client.time_ms() - begin) * 2 / 3;
    client.run(format!("CONFIG SET rl.top-period {period}"));
    client.run("RL.TOP COUNT 1");
    client.run("CONFIG SET rl.top-period 86400000");
    assert_eq!(top(&mut client, "COUNT 1000000"), lines, "a period is remembered for one more");
    deny_zipf(&mut client, length, 7919, &mut truth);
    let lines = top(&mut client, "COUNT 1000000");
    assert!(lines.len() > CAPACITY && lines.len() <= 2 * CAPACITY, "{}", lines.len());
    check(&lines, &truth, 2 * length, CAPACITY);
    assert_eq!(client.info_number("rl", "rl_top_tracked"), 2 * CAPACITY as i64);
}

#[test]
fn only_denials_count_and_only_the_keys_that_denied() {
    let server = unhurried();
    let replica = Server::builder().replica_of(&server).start();
    wait_for_replica(&server, &replica);
    let mut client = server.client();
    client.run("RL.POLICY SET quiet WINDOW 1d LIMIT 0 ALGO fixed SHADOW");
    client.take(3, "granted", &rule("sliding", 3, ""));
    let quiet = "WINDOW 1d LIMIT 9 ALGO fixed NAME quiet";
    for line in [
        format!("RL.PEEK granted '{CLOSED}'"),
        format!("RL.ACQUIREX watched '{quiet}'"),
        format!("RL.ACQUIREX part '{} UPTO 10'", rule("fixed", 3, "")),
        "RL.REFUND part COST 1".into(),
        "RL.RELEASE part ID x".into(),
        "RL.BLOCK held FOR 1h".into(),
        "RL.INFO granted".into(),
    ] {
        client.run(line);
    }
    client.error(acquire("granted granted", CLOSED));
    assert_eq!(top(&mut client, ""), []);
    assert_eq!(client.info_number("rl", "rl_top_tracked"), 0);
    // Of four keys, one has room, one is shadowed and two deny.
    let open = "WINDOW 1d LIMIT 9 ALGO fixed";
    client.run(format!("RL.ACQUIREX room watched a b '{open} {quiet} {CLOSED} {CLOSED}'"));
    deny(&mut client, "b", 1);
    client.run(acquire("held", open));
    client.run(format!("RL.ACQUIREX forced '{} COST 4 FORCE'", rule("fixed", 3, "")));
    let expected = counts(&[("b", 2), ("a", 1), ("forced", 1), ("held", 1)]);
    assert_eq!(brief(top(&mut client, "")), expected);
    assert_eq!(client.info_number("rl", "rl_top_tracked"), 4);
    // The replica heard nothing of it: it refuses calls, and answers about its own denials.
    wait_for_replica(&server, &replica);
    let mut behind = replica.client();
    behind.run(format!("RL.PEEK a '{CLOSED}'"));
    behind.error(acquire("a", CLOSED));
    assert_eq!(top(&mut behind, ""), []);
    assert_eq!(info(&mut behind, "held", "denied_recently"), 0);
    assert_eq!(info(&mut client, "held", "denied_recently"), 1);
    assert_eq!(info(&mut client, "granted", "denied_recently"), 0);
}

#[test]
fn keys_are_told_apart_by_database_and_cut_at_128_bytes() {
    let server = unhurried();
    let mut client = server.client();
    let long = [b'x'; 128];
    let (one, two) = ([&long[..], b"1"].concat(), [&long[..], b"2"].concat());
    let call = |key: &[u8]| words("RL.ACQUIRE").arg(key).then(CLOSED);
    for key in [&b"k"[..], b"\x00\xff\r\n", &one, &two, &long] {
        client.run(call(key));
    }
    client.run("SELECT 3");
    client.run(call(b"k"));
    client.run(call(b"k"));
    client.run(call(&long[..127]));
    let expected = [
        Line(long.to_vec(), 0, 3, 0),
        Line(b"k".to_vec(), 3, 2, 0),
        Line(b"\x00\xff\r\n".to_vec(), 0, 1, 0),
        Line(b"k".to_vec(), 0, 1, 0),
        Line(long[..127].to_vec(), 3, 1, 0),
    ];
    assert_eq!(top(&mut client, ""), expected);
    client.run("RL.BLOCK k FOR 1h");
    assert_eq!(info(&mut client, "k", "denied_recently"), 2);
}

/// The server's time at which calls began and ended.
fn deny_at(client: &mut Client, key: &str) -> (i64, i64) {
    let (_, when) = timed(client, [acquire(key, CLOSED)]);
    (*when.start(), *when.end())
}

#[test]
fn a_period_turns_over_and_is_remembered_for_one_more() {
    const PERIOD: i64 = 1000;
    let server = Server::builder().conf(format!("rl.top-period {PERIOD}")).start();
    let mut client = server.client();
    let (begin, end) = deny_at(&mut client, "a");
    assert_eq!(brief(top(&mut client, "")), counts(&[("a", 1)]));
    sleep_until(&mut client, end + PERIOD + 10);
    let (_, late) = deny_at(&mut client, "b");
    let both = brief(top(&mut client, ""));
    // If the machine stood still for a period there is nothing to compare.
    if client.time_ms() < begin + 2 * PERIOD {
        assert_eq!(both, counts(&[("a", 1), ("b", 1)]));
    }
    sleep_until(&mut client, end + 2 * PERIOD + 10);
    let one = brief(top(&mut client, ""));
    if client.time_ms() < begin + 3 * PERIOD {
        assert_eq!(one, counts(&[("b", 1)]));
    }
    // After two periods without a call INFO shows that nothing is counted.
    sleep_until(&mut client, late + 2 * PERIOD + 10);
    assert_eq!(client.info_number("rl", "rl_top_tracked"), 0, "INFO after two periods");
    assert_eq!(top(&mut client, ""), []);
}

#[test]
fn the_capacity_can_be_changed_and_turned_off() {
    let server = unhurried();
    let mut client = server.client();
    client.run("RL.BLOCK a FOR 1h");
    deny(&mut client, "a", 3);
    assert_eq!(info(&mut client, "a", "denied_recently"), 3);
    client.run("CONFIG SET rl.top-capacity 0");
    for _ in 0..2 {
        assert_eq!(client.info_number("rl", "rl_top_tracked"), 0, "INFO of no capacity");
        assert_eq!(top(&mut client, ""), []);
        assert_eq!(info(&mut client, "a", "denied_recently"), 0);
        deny(&mut client, "a", 3);
    }
    // All of these were denied, and counted as calls.
    assert_eq!(client.info_number("rl", "rl_denied"), 9);
    client.run("CONFIG SET rl.top-capacity 2");
    deny(&mut client, "a", 5);
    deny(&mut client, "b", 2);
    deny(&mut client, "c", 1);
    // The third key takes the place of the one counted least, with its count as the error.
    let expected = [("a".to_string(), 5, 0), ("c".to_string(), 3, 2)];
    assert_eq!(brief(top(&mut client, "")), expected);
    assert_eq!(client.info_number("rl", "rl_top_tracked"), 2);
    let off = Server::builder().module_args("top-capacity 0").start();
    let mut client = off.client();
    deny(&mut client, "a", 3);
    assert_eq!(top(&mut client, "COUNT 5"), []);
}

/// Counting goes on while keys come and go: it is about calls, not about limiters.
#[test]
fn flushing_and_a_restart() {
    let mut server = unhurried();
    let mut client = server.client();
    deny(&mut client, "a", 3);
    client.run("FLUSHALL");
    assert_eq!(brief(top(&mut client, "")), counts(&[("a", 3)]));
    thread::sleep(Duration::from_millis(5));
    server.restart();
    assert_eq!(top(&mut server.client(), ""), []);
}

#[test]
fn errors_are_whole_lines() {
    let server = Server::start();
    let mut client = server.client();
    for (line, error) in [
        ("RL.TOP COUNT", "ERR syntax error, COUNT has no value"),
        ("RL.TOP COUNT 0", "ERR COUNT must be 1 to 1000000000000, got '0'"),
        ("RL.TOP COUNT -1", "ERR COUNT must be 1 to 1000000000000, got '-1'"),
        ("RL.TOP COUNT x", "ERR COUNT must be 1 to 1000000000000, got 'x'"),
        ("RL.TOP 5", "ERR syntax error, expected COUNT, got '5'"),
        ("RL.TOP COUNT 5 6", "ERR syntax error, expected nothing more, got '6'"),
        ("RL.TOP COUNT 5 COUNT 5", "ERR syntax error, expected nothing more, got 'COUNT'"),
    ] {
        assert_eq!(client.error(line), error, "{line}");
    }
    assert_eq!(top(&mut client, "count 1000000000000"), []);
}
