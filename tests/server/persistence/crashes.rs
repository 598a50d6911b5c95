//! Servers die at a random moment, and files are cut or damaged.

use std::collections::HashMap;
use std::fs;
use std::iter;
use std::ops::Range;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{Client, Random, Reply, Server, Words, acquire, bytes_of, wait_for, words};

use crate::calls::{ALGORITHMS, capacity, info, long_rule};

const LIMIT: u64 = 3000;

// ------------------------------------------------------------------------------------------ crashes

/// What a client knows of each key: permits that it was told of, and permits of calls without an answer.
#[derive(Default)]
struct Log(HashMap<String, (i64, i64)>);

impl Log {
    fn add(&mut self, keys: &str, reply: &Result<Value, String>) {
        for key in keys.split(' ') {
            let (told, unanswered) = self.0.entry(key.into()).or_default();
            match reply {
                Ok(value) => *told += Reply::of(value).granted,
                Err(_) => *unanswered += 1,
            }
        }
    }

    fn merge(&mut self, other: Log) {
        for (key, (told, unanswered)) in other.0 {
            let sum = self.0.entry(key).or_default();
            *sum = (sum.0 + told, sum.1 + unanswered);
        }
    }
}

/// A call on one of the keys, or on two of the same algorithm.
fn random_keys(random: &mut Random) -> (&'static str, String) {
    let algorithm = random.pick(&ALGORITHMS);
    let keys = match random.below(4) {
        0 => format!("{algorithm}:a {algorithm}:b"),
        1 => format!("{algorithm}:b"),
        _ => format!("{algorithm}:a"),
    };
    (algorithm, keys)
}

/// Sends pipelines of calls until the server is gone.
fn load(mut client: Client, seed: u64) -> Log {
    let (mut random, mut log) = (Random(seed), Log::default());
    loop {
        let calls: Vec<(String, Words)> = (0..1 + random.below(8))
            .map(|_| {
                let (algorithm, keys) = random_keys(&mut random);
                let call = acquire(&keys, &long_rule(algorithm, LIMIT));
                (keys, call)
            })
            .collect();
        let commands: Vec<Words> = calls.iter().map(|(_, call)| call.clone()).collect();
        if client.try_send(&commands).is_err() {
            // A part of what was not sent completely may have arrived.
            calls.iter().for_each(|(keys, _)| log.add(keys, &Err(String::new())));
            return log;
        }
        let replies: Vec<_> = calls.iter().map(|_| client.receive()).collect();
        for ((keys, _), reply) in calls.iter().zip(&replies) {
            log.add(keys, reply);
        }
        if replies.iter().any(Result::is_err) {
            return log;
        }
    }
}

/// Kills a server under load a few times. Returns the server and what the clients know.
fn killed_under_load(fsync: &str, seed: u64, check: impl Fn(&mut Client, &Log)) -> (Server, Log) {
    let mut random = Random(seed);
    let mut server = Server::builder()
        .conf("appendonly yes")
        .conf(format!("appendfsync {fsync}"))
        .conf("aof-use-rdb-preamble no")
        .start();
    let mut log = Log::default();
    for round in 0..5 {
        let clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
        let delay = Duration::from_micros(20_000 + random.number() % 120_000);
        thread::scope(|scope| {
            let seeds = clients.into_iter().map(|client| (client, random.number()));
            let threads: Vec<_> =
                seeds.map(|(client, seed)| scope.spawn(move || load(client, seed))).collect();
            if round % 2 == 1 {
                server.client().run("BGREWRITEAOF");
            }
            let mut client = server.client();
            // Enough grants, or a sign that there are no more.
            wait_for("some answers", || {
                let mut more = |name| client.info_number("rl", name) > 150;
                (more("rl_granted") || more("rl_denied")).then_some(())
            });
            thread::sleep(delay);
            server.kill();
            threads.into_iter().for_each(|thread| log.merge(thread.join().expect("a client")));
        });
        // A child of the dead server may go on rewriting, which does no harm.
        server.try_respawn().unwrap_or_else(|log| panic!("round {round}, seed {seed}:\n{log}"));
        check(&mut server.client(), &log);
    }
    (server, log)
}

/// The permits in use under a key; 0 without a limiter.
fn used(client: &mut Client, key: &str) -> i64 {
    if client.int(format!("EXISTS {key}")) == 0 { 0 } else { info(client, key, "used") }
}

/// The permits that survived and those that are left add up to the limit, no more and no less.
fn assert_limit_holds(client: &mut Client, log: &Log) {
    for key in log.0.keys() {
        let algorithm = key.split(':').next().expect("an algorithm");
        let used = used(client, key);
        let left = client.drain(key, &long_rule(algorithm, LIMIT));
        assert_eq!(used + left, capacity(algorithm, LIMIT), "{key}");
    }
}

#[test]
fn every_permit_that_was_told_of_is_counted_after_a_kill() {
    const SEED: u64 = 77;
    let (server, log) = killed_under_load("always", SEED, |client, log| {
        for (key, (told, unanswered)) in &log.0 {
            let used = used(client, key);
            assert!(used >= *told, "{key}, seed {SEED}: {told} were told of, {used} are counted");
            assert!(used <= told + unanswered, "{key}: {used} of {told} and {unanswered}");
        }
    });
    let told: i64 = log.0.values().map(|(told, _)| told).sum();
    assert!(told > 500, "only {told}");
    assert_limit_holds(&mut server.client(), &log);
}

#[test]
fn what_survives_a_kill_without_fsync_holds_the_limit() {
    let (server, log) = killed_under_load("everysec", 78, |client, log| {
        for (key, (told, unanswered)) in &log.0 {
            assert!(used(client, key) <= told + unanswered, "{key}");
        }
    });
    assert_limit_holds(&mut server.client(), &log);
}

// ---------------------------------------------------------------------------------------- cut files

/// The incremental part of the AOF.
fn incremental(server: &Server) -> PathBuf {
    let dir = fs::read_dir(server.file("appendonlydir")).expect("the directory of the AOF");
    dir.map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .expect("an incremental AOF")
}

/// The number behind a mark such as `*`, and what comes after its line.
fn count(bytes: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    let rest = bytes.get(end + 2..)?;
    let number = std::str::from_utf8(bytes.strip_prefix(&[mark])?.get(..end - 1)?).ok()?;
    Some((number.parse().ok()?, rest))
}

/// The next whole command of an AOF, and what comes after it.
fn command(bytes: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let (arguments, mut rest) = count(bytes, b'*')?;
    let mut command = Vec::new();
    for _ in 0..arguments {
        let (len, text) = count(rest, b'$')?;
        command.push(text.get(..len)?);
        rest = text.get(len + 2..)?;
    }
    Some((command, rest))
}

/// How many complete effects on each key an AOF has, without those of transactions that have no end.
fn effects(mut aof: &[u8]) -> HashMap<String, i64> {
    let mut whole = HashMap::new();
    let mut pending: Option<Vec<String>> = None;
    while let Some((arguments, rest)) = command(aof) {
        aof = rest;
        let keys = arguments.iter().skip(1).step_by(2);
        let keys: Vec<String> = keys.map(|key| String::from_utf8_lossy(key).into()).collect();
        let done = match arguments[0].to_ascii_uppercase().as_slice() {
            b"MULTI" => {
                pending = Some(Vec::new());
                continue;
            }
            b"EXEC" => pending.take().unwrap_or_default(),
            b"RL._EFFECT" => match &mut pending {
                Some(pending) => {
                    pending.extend(keys);
                    continue;
                }
                None => keys,
            },
            _ => continue,
        };
        for key in done {
            *whole.entry(key).or_default() += 1;
        }
    }
    whole
}

#[test]
fn a_truncated_aof_holds_what_is_whole_in_it() {
    const SEED: u64 = 79;
    let mut random = Random(SEED);
    let builder = Server::builder().conf("appendonly yes").conf("appendfsync always");
    let mut server = builder.clone().conf("aof-load-truncated yes").start();
    let mut client = server.client();
    for i in 0..60 {
        let (algorithm, keys) = random_keys(&mut random);
        let call = acquire(&keys, &long_rule(algorithm, LIMIT));
        if i % 5 == 0 {
            client.pipeline([words("MULTI"), call.clone(), call, words("EXEC")]);
        } else {
            client.run(call);
        }
    }
    server.kill();
    let path = incremental(&server);
    let aof = fs::read(&path).expect("the AOF");
    assert!(effects(&aof).len() >= 9, "{:?}", effects(&aof));
    let edges = [0, aof.len() - 1, aof.len()];
    for cut in (0..14).map(|_| random.below(aof.len())).chain(edges) {
        fs::write(&path, &aof[..cut]).expect("the AOF");
        server.try_respawn().unwrap_or_else(|log| panic!("cut at {cut}, seed {SEED}:\n{log}"));
        let mut client = server.client();
        let expected = effects(&aof[..cut]);
        for key in ALGORITHMS.iter().flat_map(|name| [format!("{name}:a"), format!("{name}:b")]) {
            let expected = expected.get(&key).copied().unwrap_or(0);
            assert_eq!(used(&mut client, &key), expected, "{key} cut at {cut}, seed {SEED}");
        }
        server.kill();
    }
    // With `aof-load-truncated no` the server does not start.
    let mut strict = builder.conf("aof-load-truncated no").start();
    strict.kill();
    fs::write(incremental(&strict), &aof[..aof.len() - 1]).expect("the AOF");
    assert!(strict.try_respawn().is_err());
}

// ------------------------------------------------------------------------------------- damaged files

/// The position of these bytes in a file.
fn find(file: &[u8], bytes: &[u8]) -> Range<usize> {
    let at = file.windows(bytes.len()).position(|window| window == bytes).expect("in the file");
    at..at + bytes.len()
}

#[test]
fn a_damaged_rdb_is_refused_or_harmless() {
    const SEED: u64 = 80;
    let mut random = Random(SEED);
    let builder = Server::builder().conf("rdbchecksum no").conf("rdbcompression no");
    let mut server = builder.start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        client.take(capacity(algorithm, 9).min(3), algorithm, &long_rule(algorithm, 9));
    }
    client.run("RL.ACQUIREX leases 'WINDOW 10d LIMIT 9 ALGO concurrency ID somebody'");
    client.run("RL.BLOCK leases FOR 1d");
    client.run("RL.POLICY SET damaged WINDOW 10d LIMIT 9 ALGO bucket BURST 20 BLOCK 1h FOR 2d");
    let keys = ALGORITHMS.into_iter().chain(["leases"]);
    let dumps = keys.clone().map(|key| bytes_of(&client.run(format!("DUMP {key}"))));
    let dumps: Vec<Vec<u8>> = dumps.map(|dump| dump.expect("a dump")).collect();
    client.run("SAVE");
    server.kill();
    let path = server.file("dump.rdb");
    let rdb = fs::read(&path).expect("the RDB");
    // Behind the type and its ID, up to the version and checksum of the dump.
    let values = dumps.iter().map(|dump| find(&rdb, &dump[10..dump.len() - 10]));
    let name = find(&rdb, b"\x07damaged");
    let ranges: Vec<Range<usize>> =
        values.chain(iter::once(name.start - 1..name.end + 34)).collect();
    let (mut refused, mut started) = (0, 0);
    for i in 0..45 {
        let range = &ranges[i % ranges.len()];
        let mut damaged = rdb.clone();
        let at = range.start + random.below(range.len());
        damaged[at] ^= 1 << random.below(8);
        fs::write(&path, &damaged).expect("the RDB");
        match server.try_respawn() {
            Ok(()) => {
                let mut client = server.client();
                for key in keys.clone() {
                    for algorithm in ALGORITHMS {
                        let reply = client.acquire(key, &long_rule(algorithm, 9));
                        assert!((0..=9).contains(&reply.remaining), "{reply:?}");
                    }
                    client.call(format!("RL.INFO {key}")).expect("an answer");
                }
                client.run("RL.POLICY LIST");
                client.run("RL.PEEK k 'WINDOW 1s LIMIT 1 ALGO bucket NAME damaged'");
                client.run("SAVE");
                started += 1;
                server.kill();
            }
            Err(log) => {
                assert!(!log.contains("internal error"), "byte {at}, seed {SEED}:\n{log}");
                refused += 1;
            }
        }
    }
    assert!(refused > 5 && started > 5, "{refused} refused, {started} started");
    let log = server.log();
    assert!(log.contains("limiter refused: ") && log.contains("policies refused: "), "{log}");
}
