//! The server's clock steps by an hour, in either direction: no client is denied for longer than a window, none gets
//! more than a fresh limiter would give, and a replica, whose clock does not step, agrees.
//!
//! A small library, `stepped_clock.c`, preloaded before libc, steps the clock.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use testkit::{Client, Reply, Server, wait_for, wait_for_replica};

use crate::calls::{acquirex, capacity, info, peek};

const HOUR_S: i64 = 3600;
const WINDOW_MS: i64 = 400;
const LIMIT: u64 = 5;
/// How much measuring from outside may add.
const MARGIN_MS: i64 = 60;
const ALGORITHMS: [&str; 6] = ["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"];

/// Builds the library that replaces the clock.
fn library() -> &'static Path {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let build = || {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stepped_clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/limits/stepped_clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&path).arg(source);
        assert!(compiler.status().expect("a C compiler").success(), "the library does not build");
        (dir, path)
    };
    &BUILT.get_or_init(build).1
}

/// A primary whose clock the test can step, and a replica whose clock it leaves alone.
pub struct Pair {
    pub primary: Server,
    replica: Server,
    file: PathBuf,
    offset_s: i64,
    _dir: TempDir,
}

impl Pair {
    pub fn start() -> Pair {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("clock");
        fs::write(&file, 0i64.to_ne_bytes()).expect("the clock");
        let primary = Server::builder()
            .env("LD_PRELOAD", library().display().to_string())
            .env("STEPPED_CLOCK", file.display().to_string())
            .start();
        let replica = Server::builder().replica_of(&primary).start();
        wait_for_replica(&primary, &replica);
        Pair { primary, replica, file, offset_s: 0, _dir: dir }
    }

    /// Steps the primary's clock, and waits until the module sees it: some servers read the clock only now and then.
    pub fn step(&mut self, client: &mut Client, by_s: i64) {
        self.offset_s += by_s;
        // The file is written in place, since the server has mapped it.
        let mut file = fs::File::options().write(true).open(&self.file).expect("the clock");
        file.write_all(&self.offset_s.to_ne_bytes()).expect("the clock");
        wait_for("the step", || {
            client.run("RL.BLOCK probe FOR 1d");
            let shown_ms = client.int("PEXPIRETIME probe") - 86_400_000;
            client.run("DEL probe");
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
            let off_ms = shown_ms - self.offset_s * 1000 - now.as_millis() as i64;
            (off_ms.abs() < 400).then_some(())
        });
    }

    fn assert_alike(&self) {
        let mut client = self.primary.client();
        client.run("DEBUG SET-ACTIVE-EXPIRE 0");
        wait_for_replica(&self.primary, &self.replica);
        let digest = client.text("DEBUG DIGEST");
        assert_eq!(self.replica.client().text("DEBUG DIGEST"), digest);
        client.run("DEBUG SET-ACTIVE-EXPIRE 1");
    }
}

/// A rule of this algorithm. Each call of `concurrency` holds a lease of its own.
fn rule(algorithm: &str, number: usize) -> String {
    let id = if algorithm == "concurrency" { format!("ID {number}") } else { String::new() };
    format!("WINDOW {WINDOW_MS} LIMIT {LIMIT} ALGO {algorithm} {id}")
}

/// Takes all permits there are, at most twice the capacity.
fn drain(client: &mut Client, algorithm: &str, ids: &mut usize) -> i64 {
    let most = 2 * capacity(algorithm, LIMIT);
    let mut granted = 0;
    while granted < most {
        *ids += 1;
        if !acquirex(client, algorithm, rule(algorithm, *ids)).is_grant() {
            break;
        }
        granted += 1;
    }
    granted
}

/// The most that a fresh limiter gives within this time.
fn most(algorithm: &str, within: Duration) -> i64 {
    let (full, limit) = (capacity(algorithm, LIMIT), LIMIT as i64);
    let refilled = within.as_millis() as i64 * limit / WINDOW_MS + 1;
    match algorithm {
        "bucket" | "leaky" => full + refilled,
        // A window may end in between.
        "fixed" => full * (2 + within.as_millis() as i64 / WINDOW_MS),
        _ => full * (1 + within.as_millis() as i64 / WINDOW_MS),
    }
}

/// Asserts that a denied caller who waits as long as it is told is granted soon enough.
fn waits_at_most(client: &mut Client, algorithm: &str, ids: &mut usize) {
    let windows = if algorithm == "counter" { 2 } else { 1 };
    let begun = Instant::now();
    loop {
        *ids += 1;
        let reply = acquirex(client, algorithm, rule(algorithm, *ids));
        if reply.is_grant() {
            break;
        }
        let wait = reply.retry_after;
        assert!((1..=windows * WINDOW_MS).contains(&wait), "{algorithm}: {reply:?}");
        thread::sleep(Duration::from_millis(wait as u64));
    }
    let waited = begun.elapsed().as_millis() as i64;
    assert!(waited <= windows * WINDOW_MS + MARGIN_MS, "{algorithm}: {waited} ms");
}

#[test]
fn a_step_blocks_nobody_for_long_and_mints_nothing() {
    let mut pair = Pair::start();
    let mut client = pair.primary.client();
    let mut ids = 0;
    for algorithm in ALGORITHMS {
        // A step back: permits in use stay in use, for no longer than before.
        let begun = Instant::now();
        let mut granted = drain(&mut client, algorithm, &mut ids);
        pair.step(&mut client, -HOUR_S);
        granted += drain(&mut client, algorithm, &mut ids);
        let most_granted = most(algorithm, begun.elapsed());
        assert!(granted <= most_granted, "{algorithm}: {granted} granted after a step back");
        waits_at_most(&mut client, algorithm, &mut ids);
        pair.assert_alike();
        // A step forward: the limiter is like a fresh one, and no better.
        let begun = Instant::now();
        pair.step(&mut client, HOUR_S);
        let granted = drain(&mut client, algorithm, &mut ids);
        let range = capacity(algorithm, LIMIT)..=most(algorithm, begun.elapsed());
        assert!(range.contains(&granted), "{algorithm}: {granted} granted after a step forward");
        pair.assert_alike();
        // Steps to and fro: each step back finds the limiter used up, and each step forward gives what a fresh one
        // has.
        for _ in 0..3 {
            let begun = Instant::now();
            pair.step(&mut client, HOUR_S);
            let mut granted = drain(&mut client, algorithm, &mut ids);
            pair.step(&mut client, -HOUR_S);
            granted += drain(&mut client, algorithm, &mut ids);
            let most_granted = most(algorithm, begun.elapsed());
            assert!(granted <= most_granted, "{algorithm}: {granted} granted to and fro");
        }
        waits_at_most(&mut client, algorithm, &mut ids);
        pair.assert_alike();
    }
}

#[test]
fn a_block_and_an_exemption_last_as_long_as_they_were_laid_for() {
    let mut pair = Pair::start();
    let mut client = pair.primary.client();
    let rule = "WINDOW 1d LIMIT 1 ALGO bucket BURST 3";
    let waits = |client: &mut Client, key: &str| peek(client, key, rule).retry_after;
    for by_s in [-HOUR_S, -HOUR_S, -1] {
        client.run("DEL held locked exempt");
        client.run("RL.BLOCK held FOR 400ms");
        // A lock-out by the rule itself.
        acquirex(&mut client, "locked", format!("{rule} BLOCK 400ms COST 3 FORCE"));
        client.run("RL.REFUND locked COST 3");
        client.run("RL.EXEMPT exempt FOR 400ms");
        let begun = Instant::now();
        pair.step(&mut client, by_s);
        for key in ["held", "locked"] {
            let wait = waits(&mut client, key);
            assert!(wait <= 400, "{key} is blocked for {wait} ms");
        }
        // The first call corrects times that lie ahead of the clock.
        assert!(acquirex(&mut client, "exempt", rule).is_grant());
        for key in ["held", "locked"] {
            let reply = acquirex(&mut client, key, rule);
            let early = begun.elapsed() < Duration::from_millis(300);
            assert!(!early || !reply.is_grant(), "{key}: the step lifted the block");
            if !reply.is_grant() {
                assert!(reply.retry_after <= 400, "{key}: {reply:?}");
            }
        }
        thread::sleep(Duration::from_millis(400 + MARGIN_MS as u64));
        for key in ["held", "locked"] {
            assert!(acquirex(&mut client, key, rule).is_grant(), "{key} is still blocked");
        }
        // The exemption is over: three permits and no more.
        let granted = (0..6).filter(|_| acquirex(&mut client, "exempt", rule).is_grant()).count();
        assert!(granted <= 3, "{granted} after the exemption");
        pair.assert_alike();
    }
    // After a step forward it is over.
    client.run("RL.BLOCK held FOR 30m");
    pair.step(&mut client, HOUR_S);
    assert_eq!(waits(&mut client, "held"), 0);
    pair.assert_alike();
}

#[test]
fn leases_end_a_window_after_they_were_taken_whatever_the_clock_does() {
    let mut pair = Pair::start();
    let mut client = pair.primary.client();
    let lease = |id: &str| format!("WINDOW 400ms LIMIT 2 ALGO concurrency ID {id}");
    let take = |client: &mut Client, id: &str| acquirex(client, "slots", lease(id));
    let deny = |reply: Reply| assert!(!reply.is_grant() && reply.retry_after <= 400, "{reply:?}");
    assert!(take(&mut client, "a").is_grant() && take(&mut client, "b").is_grant());
    let begun = Instant::now();
    pair.step(&mut client, -HOUR_S);
    let reply = take(&mut client, "c");
    if begun.elapsed() < Duration::from_millis(300) {
        deny(reply);
    }
    thread::sleep(Duration::from_millis(400 + MARGIN_MS as u64));
    assert!(take(&mut client, "c").is_grant(), "a lease outlived its window");
    pair.assert_alike();
    // A holder that renews its lease keeps it wherever the clock goes. After a step forward all leases have ended.
    for by_s in [-HOUR_S, HOUR_S] {
        assert!(take(&mut client, "c").is_grant());
        pair.step(&mut client, by_s);
        assert!(take(&mut client, "c").is_grant());
        assert!(info(&mut client, "slots", "used") <= 2);
        pair.assert_alike();
    }
    pair.step(&mut client, HOUR_S);
    assert_eq!(peek(&mut client, "slots", lease("d")).remaining, 1);
    pair.assert_alike();
}

/// A clock that was a day ahead leaves no key behind for a day: the first call corrects the TTL together with the
/// limiter, even when it is denied.
#[test]
fn a_ttl_steps_back_with_the_clock() {
    const DAY_S: i64 = 24 * HOUR_S;
    let mut pair = Pair::start();
    let mut client = pair.primary.client();
    let ids = |algorithm: &str| if algorithm == "concurrency" { " ID a" } else { "" };
    pair.step(&mut client, DAY_S);
    for algorithm in ALGORITHMS {
        let rule = format!("WINDOW 5s LIMIT 2 ALGO {algorithm}{}", ids(algorithm));
        assert!(acquirex(&mut client, algorithm, &rule).is_grant(), "{algorithm}");
        // A limiter in which nothing is left, and whose own state says that it is void.
        let refunded = format!("refunded:{algorithm}");
        acquirex(&mut client, &refunded, &rule);
        client.run(format!("RL.REFUND {refunded} COST 2"));
        client.run(format!("RL.RELEASE {refunded} ID a"));
        client.run(format!("RL.BLOCK blocked:{algorithm} FOR 5s"));
    }
    pair.step(&mut client, -DAY_S);
    for algorithm in ALGORITHMS {
        for (key, cost) in [(algorithm.to_owned(), 3), (format!("blocked:{algorithm}"), 1)] {
            let rule = format!("WINDOW 5s LIMIT 2 ALGO {algorithm} COST {cost}{}", ids(algorithm));
            assert!(!acquirex(&mut client, &key, rule).is_grant(), "{key}");
            let left = client.int(format!("PTTL {key}"));
            assert!((1..70_000).contains(&left), "{key}: {left}");
        }
        let key = format!("refunded:{algorithm}");
        let rule = format!("WINDOW 5s LIMIT 2 ALGO {algorithm}{}", ids(algorithm));
        acquirex(&mut client, &key, rule);
        let left = client.int(format!("PTTL {key}"));
        assert!((1..70_000).contains(&left), "{key}: {left}");
    }
    pair.assert_alike();
    let mut replica = pair.replica.client();
    for key in client.keys() {
        let expires_at = format!("PEXPIRETIME {key}");
        assert_eq!(replica.int(&*expires_at), client.int(&*expires_at), "{key}");
    }
}
