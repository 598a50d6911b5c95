//! `INFO rl`: its counters are exactly what the clients saw.
//!
//! `RL_METRICS_CALLS` is the number of calls of the long run, by default 100,000.

use std::collections::BTreeMap;
use std::env;
use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{
    Client, Random, Reply, Server, array, wait_for, wait_for_children, wait_for_replica, words,
};

use crate::calls::{ALGORITHMS, rule, with_keys};

/// `granted`, `denied` and `shadow_denied`.
type Outcomes = [u64; 3];

/// The counters, by the names of their fields.
#[derive(Clone, Debug, Default, PartialEq)]
struct Tally {
    calls: Outcomes,
    errors: u64,
    limiters: BTreeMap<String, Outcomes>,
}

impl Tally {
    /// What `INFO rl` says, without the fields that are zero.
    fn of(client: &mut Client) -> Tally {
        let mut tally = Tally::default();
        let text = match client.run("INFO rl") {
            Value::VerbatimString { text, .. } => text,
            value => testkit::text(&value),
        };
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let name = name.strip_prefix("rl_").expect("a field of the module");
            let number = || value.parse().expect("a number");
            match name {
                "granted" => tally.calls[0] = number(),
                "denied" => tally.calls[1] = number(),
                "shadow_denied" => tally.calls[2] = number(),
                "errors" => tally.errors = number(),
                _ if value.starts_with("granted=") => {
                    let outcomes = outcomes(value);
                    if outcomes != [0; 3] {
                        tally.limiters.insert(name.into(), outcomes);
                    }
                }
                _ => {}
            }
        }
        tally
    }

    fn add(&mut self, other: &Tally) {
        let add = |to: &mut Outcomes, more: &Outcomes| (0..3).for_each(|i| to[i] += more[i]);
        add(&mut self.calls, &other.calls);
        self.errors += other.errors;
        for (name, more) in &other.limiters {
            add(self.limiters.entry(name.clone()).or_default(), more);
        }
    }

    /// Counts the answer of a call, and for each of its limiters whether it had room.
    fn count(&mut self, granted: bool, limiters: &[(&Rule, bool)]) {
        self.calls[usize::from(!granted)] += 1;
        for (rule, room) in limiters {
            let at = match (room, rule.shadow) {
                (true, _) if granted => 0,
                (true, _) => continue,
                (false, false) => 1,
                (false, true) => 2,
            };
            self.calls[2] += u64::from(at == 2);
            let name = rule.name.map(|name| format!("name_{name}"));
            for field in name.into_iter().chain([format!("algo_{}", rule.counted_as)]) {
                self.limiters.entry(field).or_default()[at] += 1;
            }
        }
    }
}

fn outcomes(value: &str) -> Outcomes {
    let mut parts = value.split(',');
    let outcomes = ["granted=", "denied=", "shadow_denied="].map(|field| {
        let part = parts.next().expect("three parts");
        part.strip_prefix(field).expect(field).parse().expect("a number")
    });
    assert_eq!(parts.next(), None);
    outcomes
}

/// A rule of a call, and what its policy does to it.
struct Rule {
    text: String,
    algorithm: &'static str,
    counted_as: &'static str,
    name: Option<&'static str>,
    shadow: bool,
}

/// The policies of the test, which rules of concurrency ignore.
const POLICIES: [(&str, &str, &str); 2] = [
    ("quiet", "WINDOW 30ms LIMIT 2 ALGO counter SHADOW", "counter"),
    ("moved", "WINDOW 10d LIMIT 300 ALGO bucket BURST 9", "bucket"),
];

impl Rule {
    fn random(random: &mut Random, algorithms: &[&'static str]) -> Rule {
        let algorithm = algorithms[random.below(algorithms.len())];
        let name =
            [None, Some("login"), Some("api.v1"), Some("quiet"), Some("moved"), Some("x_-9")];
        let name = name[random.below(6)];
        let policy = POLICIES.iter().find(|policy| Some(policy.0) == name);
        let policy = policy.filter(|_| algorithm != "concurrency");
        let own = if algorithm == "leaky" { "bucket" } else { algorithm };
        let window = random.pick(&["20ms", "300ms", "10d", "10d"]);
        let limit = random.pick(&["0", "1", "5", "400", "100000"]);
        Rule {
            text: format!("WINDOW {window} LIMIT {limit} ALGO {algorithm}"),
            algorithm,
            counted_as: policy.map_or(own, |policy| policy.2),
            name,
            shadow: policy.is_some_and(|policy| policy.1.ends_with("SHADOW")),
        }
    }

    fn named(&self) -> String {
        match self.name {
            Some(name) => format!("{} NAME {name}", self.text),
            None => self.text.clone(),
        }
    }
}

const ALL: [&str; 6] = ["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"];

/// Calls that the module itself answers by an error.
const ERRORS: [(&str, &str); 7] = [
    ("RL.ACQUIRE text WINDOW 1s LIMIT 5 ALGO fixed", "WRONGTYPE "),
    ("RL.ACQUIRE k WINDOW 1s LIMIT x ALGO fixed", "ERR LIMIT must be "),
    ("RL.ACQUIREX k l k 'WINDOW 1s LIMIT 5 ALGO fixed NAME login'", "ERR key 'k' is named twice"),
    ("RL.PEEK k 'WINDOW 1s LIMIT 5 ALGO fixed FORCE'", "ERR "),
    ("RL.BLOCK k FOR soon", "ERR FOR must be "),
    ("RL.POLICY SET n WINDOW 1s LIMIT 5 ALGO fixed NAME x", "ERR syntax error, NAME "),
    ("RL.INFO text", "WRONGTYPE "),
];

/// One client: its calls on keys that it shares with the others, and the answers it saw.
struct Traffic {
    random: Random,
    seen: Tally,
}

impl Traffic {
    fn keys(&mut self) -> Vec<String> {
        let first = self.random.below(30);
        (0..=self.random.below(3)).map(|i| format!("k{}", (first + i * 7) % 30)).collect()
    }

    /// A transaction of one counted call, with a look before it when the answer does not tell which
    /// limiters had room.
    fn step(&mut self, client: &mut Client) {
        let keys = self.keys();
        match self.random.below(20) {
            0 => {
                let (line, error) = ERRORS[self.random.below(ERRORS.len())];
                let answer = client.error(line);
                assert!(answer.starts_with(error), "{line}: {answer}");
                self.seen.errors += 1;
            }
            1 => {
                let rule = Rule::random(&mut self.random, &ALGORITHMS);
                client.run(format!("RL.PEEK {} '{} UPTO 3'", keys.join(" "), rule.named()));
            }
            2..6 => {
                let mut rule = Rule::random(&mut self.random, &ALGORITHMS);
                // RL.ACQUIRE has no names, so policies do not apply.
                (rule.name, rule.shadow) = (None, false);
                rule.counted_as = if rule.algorithm == "leaky" { "bucket" } else { rule.algorithm };
                let text = &rule.text;
                let reply = Reply::of(&client.run(format!("RL.ACQUIRE {} {text}", keys[0])));
                self.seen.count(reply.is_grant(), &[(&rule, reply.is_grant())]);
            }
            _ => self.extended(client, &keys),
        }
    }

    fn extended(&mut self, client: &mut Client, keys: &[String]) {
        let random = &mut self.random;
        let tail = ["", "", "UPTO 3", "UPTO 900", "FORCE", "RESERVE 50ms"][random.below(6)];
        let algorithms = match tail {
            "FORCE" => &ALL[..5],
            "RESERVE 50ms" => &ALL[1..3],
            _ => &ALL[..],
        };
        let count = if random.one_in(2) { 1 } else { keys.len() };
        let rules: Vec<Rule> = (0..count).map(|_| Rule::random(random, algorithms)).collect();
        let mut text = String::new();
        for rule in &rules {
            let cost = random.pick(&["", "COST 2", "COST 0", "COST 500"]);
            text = format!("{text} {} {cost}", rule.named());
        }
        if rules.iter().any(|rule| rule.algorithm == "concurrency") {
            text = format!("{text} ID {}", random.below(9));
        }
        let call = words("RL.ACQUIREX").then(&keys.join(" "));
        let (reply, shown) = with_keys(&client.run(call.arg(format!("{text} {tail} WITHKEYS"))));
        assert_eq!(shown.len(), keys.len());
        let limiters: Vec<(&Rule, bool)> = shown
            .iter()
            .enumerate()
            .map(|(i, key)| (rules.get(i).unwrap_or(&rules[0]), key[0] > 0))
            .collect();
        self.seen.count(reply.is_grant(), &limiters);
    }
}

#[test]
fn counters_are_what_the_clients_saw() {
    const THREADS: usize = 8;
    let calls =
        env::var("RL_METRICS_CALLS").map_or(100_000, |calls| calls.parse().expect("a number"));
    let server = Server::start();
    let mut client = server.client();
    client.run("SET text x");
    for (name, numbers, _) in POLICIES {
        client.run(format!("RL.POLICY SET {name} {numbers}"));
    }
    let mut seen = Tally::default();
    thread::scope(|scope| {
        let threads = (0..THREADS).map(|seed| {
            let mut client = server.client();
            scope.spawn(move || {
                let mut traffic = Traffic { random: Random(seed as u64), seen: Tally::default() };
                (0..calls / THREADS).for_each(|_| traffic.step(&mut client));
                traffic.seen
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            seen.add(&thread.join().expect("the traffic"));
        }
    });
    assert_eq!(Tally::of(&mut client), seen);
    // Counters of 0 would prove nothing.
    assert!(seen.errors > 100 && seen.calls.iter().all(|n| *n > 100), "{seen:?}");
    for field in ["algo_sliding", "algo_bucket", "algo_fixed", "algo_concurrency", "name_login"] {
        let [granted, denied, _] = seen.limiters[field];
        assert!(granted > 50 && denied > 50, "{field}: {seen:?}");
    }
    assert!(seen.limiters["name_quiet"][2] > 100, "{seen:?}");
    // Commands that only show statistics, or reset others, change nothing.
    for line in ["CONFIG RESETSTAT", "FLUSHALL", "RL.TOP", "RL.POLICY LIST", "RL.REFUND k0 COST 1"]
    {
        client.run(line);
    }
    assert_eq!(Tally::of(&mut client), seen);
}

/// How each limiter of one call is counted.
#[test]
fn a_call_is_counted_once_and_each_limiter_for_itself() {
    let server = Server::start();
    let mut client = server.client();
    client.run("RL.POLICY SET s WINDOW 10d LIMIT 1 ALGO fixed SHADOW");
    let line = |limits: [u64; 3]| {
        let [a, b, _] = limits;
        format!(
            "RL.ACQUIREX a b c 'WINDOW 10d LIMIT {a} ALGO sliding NAME a \
            WINDOW 10d LIMIT {b} ALGO bucket NAME b WINDOW 10d LIMIT 1 ALGO sliding NAME s'"
        )
    };
    for (limits, calls, a, b, s) in [
        ([9, 9, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]),
        ([9, 9, 1], [2, 0, 1], [2, 0, 0], [2, 0, 0], [1, 0, 1]),
        // One limiter denies, so the room in the other was of no use.
        ([0, 9, 1], [2, 1, 2], [2, 1, 0], [2, 0, 0], [1, 0, 2]),
        ([0, 0, 1], [2, 2, 3], [2, 2, 0], [2, 1, 0], [1, 0, 3]),
    ] {
        client.run(line(limits));
        let tally = Tally::of(&mut client);
        assert_eq!(tally.calls, calls, "{limits:?}");
        for (field, outcomes) in [("name_a", a), ("name_b", b), ("name_s", s), ("algo_fixed", s)] {
            assert_eq!(tally.limiters[field], outcomes, "{field}, {limits:?}");
        }
    }
    // A batch is one call; a name that several limiters share counts each.
    client.run("RL.ACQUIREX x y z 'WINDOW 10d LIMIT 9 ALGO fixed NAME all UPTO 5'");
    assert_eq!(Tally::of(&mut client).limiters["name_all"], [3, 0, 0]);
    assert_eq!(Tally::of(&mut client).calls, [3, 2, 3]);
    // A call without memory counts as an error, and as nothing else.
    let before = Tally::of(&mut client);
    client.run("CONFIG SET maxmemory 1");
    let error = client.error("RL.ACQUIRE new WINDOW 10d LIMIT 9 ALGO fixed");
    assert!(error.starts_with("OOM "), "{error}");
    assert_eq!(Tally::of(&mut client), Tally { errors: before.errors + 1, ..before });
}

#[test]
fn names_beyond_the_highest_number_share_a_line() {
    for (case, server) in [
        ("CONFIG SET", Server::start()),
        ("redis.conf", Server::builder().conf("rl.max-names 3").start()),
    ] {
        let mut client = server.client();
        client.run("CONFIG SET rl.max-names 3");
        let line = |name: &str, limit: u64| {
            format!("RL.ACQUIREX k 'WINDOW 10d LIMIT {limit} ALGO counter NAME {name}'")
        };
        for i in 0..10 {
            client.run(line(&format!("n{i}"), 99));
        }
        client.run(line("n1", 99));
        client.run(line("n9", 0));
        let expected = |fields: &[(&str, Outcomes)]| -> BTreeMap<String, Outcomes> {
            fields.iter().map(|(name, outcomes)| (name.to_string(), *outcomes)).collect()
        };
        let mut fields = expected(&[
            ("algo_counter", [11, 1, 0]),
            ("name_n0", [1, 0, 0]),
            ("name_n1", [2, 0, 0]),
            ("name_n2", [1, 0, 0]),
            ("other_names", [7, 1, 0]),
        ]);
        assert_eq!(Tally::of(&mut client).limiters, fields, "{case}");
        // Known names are counted on when the number is lowered; new ones are added when it is raised.
        client.run("CONFIG SET rl.max-names 0");
        client.run(line("n2", 99));
        client.run("CONFIG SET rl.max-names 4");
        client.run(line("n9", 99));
        client.run(line("n8", 99));
        fields.extend(expected(&[
            ("algo_counter", [14, 1, 0]),
            ("name_n2", [2, 0, 0]),
            ("name_n9", [1, 0, 0]),
            ("other_names", [8, 1, 0]),
        ]));
        assert_eq!(Tally::of(&mut client).limiters, fields, "{case}");
        // Rules without a name, and PEEK, count under no name.
        client.run("RL.ACQUIREX k 'WINDOW 10d LIMIT 99 ALGO counter'");
        client.run(line("n7", 99).replace("ACQUIREX", "PEEK"));
        fields.extend(expected(&[("algo_counter", [15, 1, 0])]));
        assert_eq!(Tally::of(&mut client).limiters, fields, "{case}");
    }
}

fn limiters(client: &mut Client) -> i64 {
    client.info_number("rl", "rl_limiters")
}

/// Asserts that `INFO` and the key space tell this number of limiters.
fn expect(client: &mut Client, step: &str, expected: i64) {
    // The server may free in the background.
    wait_for(step, || (limiters(client) == expected).then_some(()));
    let keys = |db| {
        client.run(format!("SELECT {db}"));
        array(&array(&client.run("SCAN 0 COUNT 1000 TYPE rl-limit1"))[1]).len()
    };
    assert_eq!((0..3).map(keys).sum::<usize>() as i64, expected, "{step}");
    client.run("SELECT 0");
}

#[test]
fn the_number_of_limiters_follows_the_keys() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        client.take(1, algorithm, &rule(algorithm, 5, ""));
        client.take(i64::from(algorithm != "leaky"), algorithm, &rule(algorithm, 5, ""));
    }
    expect(&mut client, "created", 5);
    client.run("RL.ACQUIREX a b c 'WINDOW 10d LIMIT 9 ALGO concurrency ID x'");
    client.run("RL.BLOCK held a FOR 1h");
    expect(&mut client, "more created", 9);
    for line in [
        "RL.ACQUIRE denied WINDOW 10d LIMIT 0 ALGO fixed",
        "RL.PEEK peeked 'WINDOW 10d LIMIT 9 ALGO fixed'",
        "RL.ACQUIREX free 'WINDOW 10d LIMIT 9 ALGO fixed COST 0'",
        "RL.REFUND missing COST 1",
    ] {
        client.run(line);
    }
    expect(&mut client, "nothing created", 9);
    client.run("DEL a missing");
    client.run("UNLINK b");
    expect(&mut client, "deleted", 7);
    client.run("COPY c c2");
    client.run("COPY c fixed REPLACE");
    client.run("COPY c c DB 1");
    expect(&mut client, "copied", 9);
    client.run("RENAME c2 c3");
    client.run("RENAME c3 counter");
    client.run("MOVE counter 2");
    expect(&mut client, "renamed over another and moved", 8);
    let dump = client.bytes("DUMP sliding");
    for (key, options) in [("r1", ""), ("r1", "REPLACE"), ("sliding", "REPLACE")] {
        client.run(words("RESTORE").then(key).then("0").arg(&dump).then(options));
    }
    expect(&mut client, "restored", 9);
    client.take(1, "short", "WINDOW 20ms LIMIT 5 ALGO sliding");
    client.run("PEXPIRE short 30");
    thread::sleep(Duration::from_millis(40));
    expect(&mut client, "expired", 9);
    client.run("SET r1 text");
    expect(&mut client, "overwritten by another type", 8);
    client.run("SWAPDB 0 1");
    client.run("SWAPDB 0 1");
    expect(&mut client, "swapped", 8);
}

#[test]
fn the_number_of_limiters_is_right_after_loading_and_flushing() {
    let mut server = Server::builder().conf("appendonly yes").start();
    let mut client = server.client();
    client.take(1, "a b c d e f", &rule("sliding", 5, ""));
    client.run("COPY a a DB 1");
    client.run("RL.ACQUIREX a b 'WINDOW 10d LIMIT 9 ALGO concurrency NAME n ID x'");
    let replica = Server::builder().replica_of(&server).start();
    wait_for_replica(&server, &replica);
    expect(&mut replica.client(), "replicated", 7);
    client.run("DEBUG RELOAD");
    expect(&mut client, "reloaded", 7);
    client.run("BGREWRITEAOF");
    wait_for_children(&mut client);
    client.run("DEL b");
    server.restart();
    let mut client = server.client();
    expect(&mut client, "restarted", 6);
    assert_eq!(Tally::of(&mut client), Tally::default(), "loading grants nothing");
    client.run("SELECT 1");
    client.run("FLUSHDB");
    expect(&mut client, "one database flushed", 5);
    wait_for_replica(&server, &replica);
    expect(&mut replica.client(), "replicated", 5);
    for flush in ["FLUSHALL ASYNC", "FLUSHALL SYNC"] {
        client.run(flush);
        expect(&mut client, flush, 0);
        client.take(2, "a b c", &rule("sliding", 5, ""));
        expect(&mut client, "created again", 3);
    }
    wait_for_replica(&server, &replica);
    expect(&mut replica.client(), "replicated", 3);
    assert_eq!(Tally::of(&mut replica.client()), Tally::default(), "a replica grants nothing");
    assert_eq!(Tally::of(&mut client).calls, [4, 0, 0]);
}
