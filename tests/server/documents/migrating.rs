//! `docs/migrating.md`: its snippets run, and of the same requests the old limiter and the new one let the same
//! number through.
//!
//! Scripts run as the document has them, redis-cell as its crate. Java libraries: see `migrating_java`.

use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{Client, Server, Words, args, array, int, text, words};

use crate::calls::{acquirex, peek, sleep_until, timed};
use crate::commands::throttle::redis_cell;
use crate::documents::read;

const DOCUMENT: &str = "docs/migrating.md";

/// How many requests come at once.
pub const BURST: usize = 20;

/// A test may begin in any millisecond of a second.
pub const AT_ANY_TIME: RangeInclusive<i64> = 0..=999;

/// How late a request may be. This much makes no difference at any moment of these tests.
const LATE_MS: i64 = 40;

// ----------------------------------------------------------------------------------- the document

/// The part below a heading.
pub fn section(heading: &str) -> String {
    let document = read(DOCUMENT);
    let (_, part) = document.split_once(&format!("\n## {heading}\n")).expect(heading);
    part.split("\n## ").next().expect("a part").to_owned()
}

/// The fenced blocks of a text: language and contents.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("\n```").skip(1).step_by(2);
    parts.map(|block| block.split_once('\n').expect("a line")).collect()
}

/// The block in this language.
pub fn block<'a>(section: &'a str, language: &str) -> &'a str {
    let found = blocks(section).into_iter().find(|(of, _)| *of == language);
    found.expect(language).1
}

/// The calls after a prompt.
pub fn calls(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("> ")).collect()
}

/// Code within the text, outside blocks.
pub fn spans(text: &str) -> Vec<String> {
    let outside: String = text.split("\n```").step_by(2).collect();
    let spans = outside.split('`').skip(1).step_by(2);
    spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The old call of a section about a script, and the new one; with `in_a_second`, in a window of a second instead of
/// the one shown.
fn script(heading: &str, in_a_second: bool) -> [Words; 2] {
    let section = section(heading);
    let spans = spans(&section);
    let called = spans.iter().find_map(|span| span.strip_prefix("EVAL script "));
    let mut lines = [called.expect("how it is called"), calls(&section)[0]].map(str::to_owned);
    if in_a_second {
        lines = lines.map(|line| line.replace("60000", "1000"));
    }
    let [old, new] = lines;
    [words("EVAL").arg(block(&section, "lua")).then(&old), words(&new)]
}

// --------------------------------------------------------------------------------------- requests

/// Whether a request passed, by the answer of a script, a command, or (five integers) redis-cell.
fn passed(reply: &Value) -> bool {
    match reply {
        Value::Int(answer) => *answer == 1,
        Value::Array(fields) if fields.len() == 5 => int(&fields[0]) == 0,
        Value::Array(fields) => int(&fields[0]) == 1,
        other => panic!("no answer: {other:?}"),
    }
}

/// Sends a burst of each call in turn. Returns how many passed, and when.
fn burst<const N: usize>(
    client: &mut Client,
    calls: &[Words; N],
) -> ([usize; N], RangeInclusive<i64>) {
    let requests = (0..BURST).flat_map(|_| calls.iter().cloned());
    let (replies, when) = timed(client, requests);
    let mut count = [0; N];
    for (i, reply) in replies.iter().enumerate() {
        count[i % N] += usize::from(passed(reply));
    }
    (count, when)
}

/// Sends bursts to a fresh server: the first in a millisecond whose part of a second is in `begin`, the others as
/// many ms after it as `later` says. Returns how many of each passed, and when. Starts anew when the machine was too
/// slow.
pub fn play<const N: usize>(
    client: &mut Client,
    calls: &[Words; N],
    begin: RangeInclusive<i64>,
    later: &[i64],
) -> (Vec<[usize; N]>, Vec<i64>) {
    'anew: for _ in 0..100 {
        client.run("FLUSHALL");
        let now_ms = client.time_ms();
        let to_go = (begin.start() - now_ms).rem_euclid(1000);
        if !begin.contains(&(now_ms % 1000)) {
            sleep_until(client, now_ms + to_go);
        }
        let (first, when) = burst(client, calls);
        let start_ms = *when.start();
        if when.start() != when.end() || !begin.contains(&(start_ms % 1000)) {
            continue;
        }
        let (mut counts, mut times) = (vec![first], vec![start_ms]);
        for after_ms in later {
            sleep_until(client, start_ms + after_ms);
            let (count, when) = burst(client, calls);
            if *when.end() > start_ms + after_ms + LATE_MS {
                continue 'anew;
            }
            counts.push(count);
            times.push(*when.start());
        }
        return (counts, times);
    }
    panic!("the machine is too slow");
}

// ---------------------------------------------------------------------------------------- scripts

#[test]
fn of_a_burst_the_scripts_let_as_many_through_as_the_calls() {
    let server = Server::start();
    let mut client = server.client();
    for (heading, expected) in [
        ("From a sliding log in a sorted set", 5),
        ("From a token bucket in a hash", 7),
        ("From INCR and EXPIRE", 5),
    ] {
        let both = script(heading, false);
        let (counts, _) = play(&mut client, &both, AT_ANY_TIME, &[]);
        assert_eq!(counts, [[expected; 2]], "{heading}");
        // The old key is of another type.
        let key = text(&array(&client.run("KEYS *:u7"))[0]);
        let [_, new] = both.map(|call| call.lossy());
        let error = client.error(args([&new[..1], &[key], &new[2..]].concat()));
        assert!(error.starts_with("WRONGTYPE "), "{heading}: {error}");
    }
}

#[test]
fn permits_come_back_when_they_did() {
    let server = Server::start();
    let mut client = server.client();
    let log = script("From a sliding log in a sorted set", true);
    let (counts, _) = play(&mut client, &log, AT_ANY_TIME, &[500, 1000, 1500]);
    assert_eq!(counts, [[5; 2], [0; 2], [5; 2], [0; 2]]);
    // 7 of 2 tokens each leave 1 of 15, and 10 come back in a second.
    let bucket = script("From a token bucket in a hash", true);
    let (counts, _) = play(&mut client, &bucket, AT_ANY_TIME, &[350, 950]);
    assert_eq!(counts, [[7; 2], [2; 2], [3; 2]]);
}

#[test]
fn a_higher_capacity_counts_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let [old, new] = script("From a token bucket in a hash", false).map(|call| call.lossy());
    let lua = section("From a token bucket in a hash");
    let lua = block(&lua, "lua");
    assert_eq!(old[4..], ["15", "10", "2"]);
    assert_eq!(new[2..], ["WINDOW 1s LIMIT 10 ALGO bucket BURST 15 COST 2"]);
    let mut old = |capacity: &str, cost: &str| {
        int(&client.run(words("EVAL").arg(lua).then(&format!("1 old {capacity} 10 {cost}")))) == 1
    };
    assert!(old("15", "10"));
    assert!(!old("30", "8") && old("30", "5"), "the script has kept its 5");
    let rule = "WINDOW 1s LIMIT 10 ALGO bucket";
    acquirex(&mut client, "new", format!("{rule} BURST 15 COST 10"));
    let raised = peek(&mut client, "new", format!("{rule} BURST 30 COST 0"));
    assert!((20..25).contains(&raised.remaining), "{raised:?}");
}

#[test]
fn windows_begin_with_the_clock() {
    let server = Server::start();
    let mut client = server.client();
    let [old, new] = script("From INCR and EXPIRE", true);
    let by_clock = words("EVAL").arg(
        "local key = KEYS[1] .. ':' .. redis.call('TIME')[1]
        return redis.call('INCR', key) <= tonumber(ARGV[1]) and 1 or 0",
    );
    let all = [old, new, by_clock.then("1 count:u7 5")];
    let (counts, _) = play(&mut client, &all, 600..=620, &[500, 1060]);
    assert_eq!(counts, [[5, 5, 5], [0, 5, 5], [5, 0, 0]]);
    // A limiter whose TTL was lost blocks nobody.
    let call = "RL.ACQUIRE k WINDOW 50 LIMIT 1 ALGO fixed";
    client.run(call);
    client.run("PERSIST k");
    thread::sleep(Duration::from_millis(100));
    assert!(passed(&client.run(call)));
}

// ------------------------------------------------------------------------------------- redis-cell

#[test]
fn redis_cell_and_its_successors_let_as_many_through() {
    let cell = format!("loadmodule \"{}\"", redis_cell().display());
    if Server::builder().without_module().conf(&cell).try_start().is_err() {
        println!("redis-cell does not load into this server");
        return;
    }
    let together = Server::builder().conf(&cell).start();
    let mut client = together.client();
    let section = section("From redis-cell");
    let [same_call, new_call, short_call] = calls(&section)[..] else { panic!("not three calls") };
    let (counts, _) = play(&mut client, &[same_call, new_call].map(words), AT_ANY_TIME, &[2500]);
    assert_eq!(counts, [[16; 2], [1; 2]]);
    let long_call = spans(&section).into_iter().find(|span| span.starts_with("CL.THROTTLE key "));
    let both = [words(&long_call.expect("a long call")), words(short_call)];
    let (counts, _) = play(&mut client, &both, AT_ANY_TIME, &[1]);
    assert_eq!(counts, [[20; 2], [10; 2]]);
    // Its keys are strings, which expire when its bucket is full.
    client.run("CL.THROTTLE old 15 30 60 10");
    assert_eq!(client.text("TYPE old"), "string");
    assert!((19_000..=20_000).contains(&client.int("PTTL old")));
    assert!(
        client.error("RL.ACQUIRE old WINDOW 1m LIMIT 30 ALGO bucket").starts_with("WRONGTYPE ")
    );
}

#[test]
fn the_calls_of_redis_cell_let_as_many_through_here() {
    let server = Server::builder().module_args("cl-throttle yes").start();
    let mut client = server.client();
    let section = section("From redis-cell");
    let both = [calls(&section)[0], calls(&section)[1]].map(words);
    let (counts, _) = play(&mut client, &both, AT_ANY_TIME, &[2500]);
    assert_eq!(counts, [[16; 2], [1; 2]]);
    client.run("CONFIG SET rl.enforce shadow");
    let (counts, _) = play(&mut client, &both, AT_ANY_TIME, &[]);
    assert_eq!(counts, [[BURST; 2]]);
    assert!(client.info_number("rl", "rl_shadow_denied") >= 8);
}

// -------------------------------------------------------------------------------------- the rest

#[test]
fn both_run_for_a_while_and_then_the_new_one() {
    let server = Server::start();
    let mut client = server.client();
    let section = section("Running both for a while");
    let [watch, ask] = calls(&section)[..] else { panic!("not two calls") };
    client.run(watch);
    for _ in 0..BURST {
        assert!(passed(&client.run(ask)));
    }
    assert_eq!(client.info("rl", "rl_name_api"), "granted=5,denied=0,shadow_denied=15");
    let switch = spans(&section).into_iter().find(|span| span.starts_with("RL.POLICY DEL"));
    client.run(switch.expect("how to switch"));
    assert!(!passed(&client.run(ask)), "permits were taken");
    client.run(watch);
    assert!(passed(&client.run(ask)));
}

/// No snippet is left out: blocks are of the kinds above, and rules and calls within the text are correct.
#[test]
fn every_snippet_runs() {
    let document = read(DOCUMENT);
    let mut languages: Vec<&str> =
        blocks(&document).into_iter().map(|(language, _)| language).collect();
    languages.retain(|language| !language.is_empty());
    languages.sort_unstable();
    assert_eq!(languages, ["java", "java", "lua", "lua", "lua", "yaml"]);
    let server = Server::start();
    let mut client = server.client();
    let (mut rules, mut commands) = (0, 0);
    for span in spans(&document) {
        let first = span.split(' ').next().unwrap_or_default();
        let is_call = ["RL.", "CONFIG", "DEL"].iter().any(|word| first.starts_with(word));
        if first == "WINDOW" && span.contains("ALGO") {
            assert!(peek(&mut client, "k", &span).is_grant(), "{span}");
            rules += 1;
        } else if is_call && span.contains(' ') {
            client.run(span.replace(" n", " 1"));
            commands += 1;
        }
    }
    assert!(rules >= 6 && commands >= 5, "{rules} rules, {commands} commands");
}
