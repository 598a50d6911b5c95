//! What survives: RDB files, the AOF, copies of keys, and how long a key lives.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use testkit::{Client, Random, Reply, Server, Stored, acquire, wait_for, wait_for_children, words};

use crate::calls::{ALGORITHMS, capacity, long_rule};

const LIMIT: u64 = 5;

/// A limiter of each algorithm. All but the leaky one have permits left.
struct Limiters(Vec<(&'static str, Stored)>);

impl Limiters {
    fn create(client: &mut Client) -> Limiters {
        let create = |algorithm| {
            client.take(capacity(algorithm, LIMIT).min(3), algorithm, &long_rule(algorithm, LIMIT));
            (algorithm, client.stored(algorithm))
        };
        Limiters(ALGORITHMS.into_iter().map(create).collect())
    }

    /// Takes another permit from each limiter that has one.
    fn take_one(&mut self, client: &mut Client) {
        for (algorithm, stored) in &mut self.0 {
            client.acquire(algorithm, &long_rule(algorithm, LIMIT));
            *stored = client.stored(algorithm);
        }
    }

    /// Asserts that everything is stored as before, and that as many permits are left.
    fn check(&self, client: &mut Client, left: i64) {
        for (algorithm, stored) in &self.0 {
            assert_eq!(client.stored(algorithm), *stored, "{algorithm}");
        }
        for algorithm in ALGORITHMS {
            let left = if algorithm == "leaky" { 0 } else { left };
            assert_eq!(client.drain(algorithm, &long_rule(algorithm, LIMIT)), left, "{algorithm}");
        }
    }
}

#[test]
fn a_saved_limiter_holds_after_a_restart() {
    let mut server = Server::start();
    let limiters = Limiters::create(&mut server.client());
    server.client().run("SAVE");
    server.crash();
    limiters.check(&mut server.client(), 2);
    server.restart();
    for algorithm in ALGORITHMS {
        assert_eq!(
            server.client().drain(algorithm, &long_rule(algorithm, LIMIT)),
            0,
            "{algorithm}"
        );
    }
}

#[test]
fn a_limiter_in_an_aof_holds_after_a_crash() {
    for preamble in ["yes", "no"] {
        let mut server = Server::builder()
            .conf("appendonly yes")
            .conf("appendfsync always")
            .conf(format!("aof-use-rdb-preamble {preamble}"))
            .start();
        let mut limiters = Limiters::create(&mut server.client());
        server.crash();
        // The AOF holds effects, then it is rewritten, then it is rewritten with effects after it.
        limiters.take_one(&mut server.client());
        server.client().run("BGREWRITEAOF");
        wait_for_children(&mut server.client());
        server.crash();
        for (algorithm, stored) in &limiters.0 {
            assert_eq!(server.client().stored(algorithm), *stored, "{algorithm}, {preamble}");
        }
        limiters.take_one(&mut server.client());
        server.crash();
        limiters.check(&mut server.client(), 0);
    }
}

#[test]
fn dump_and_restore() {
    let server = Server::start();
    let mut client = server.client();
    let limiters = Limiters::create(&mut client);
    for (algorithm, stored) in &limiters.0 {
        let rule = long_rule(algorithm, LIMIT);
        let left = if *algorithm == "leaky" { 0 } else { 2 };
        let dump = stored.dump.as_ref().expect("a dump");
        let restore = |key: &str, ttl: &str| words(&format!("RESTORE {key} {ttl}")).arg(dump);
        client.run(restore("forever", "0"));
        assert_eq!(client.int("PTTL forever"), -1);
        assert_eq!(client.drain("forever", &rule), left, "{algorithm}");
        client.run(restore("timed", &stored.expires_at.to_string()).then("ABSTTL"));
        assert_eq!(client.stored("timed"), *stored, "{algorithm}");
        // RESTORE replaces a limiter that is used up, one of another algorithm, and a key of another type.
        client.drain("timed", &rule);
        client.take(1, "other", "WINDOW 10d LIMIT 1000 ALGO counter");
        client.run("SET text x");
        for key in ["timed", "other", "text"] {
            client.run(restore(key, "100000").then("REPLACE"));
            assert_eq!(client.drain(key, &rule), left, "{algorithm} over {key}");
        }
        client.run("DEL forever timed other text");
    }
}

#[test]
fn damaged_dumps_are_refused_or_harmless() {
    let server = Server::start();
    let mut client = server.client();
    let limiters = Limiters::create(&mut client);
    // The server skips the checksum, so the damage reaches the module.
    client.run("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    let mut random = Random(11);
    let (mut refused, mut restored) = (0, 0);
    for (algorithm, stored) in &limiters.0 {
        let dump = stored.dump.as_ref().expect("a dump");
        // A type byte, the type's id, an opcode and a length; at the end a mark, a version and a checksum.
        let blob = 12..dump.len() - 11;
        for _ in 0..400 {
            let mut damaged = dump.clone();
            for _ in 0..=random.below(3) {
                let at = blob.start + random.below(blob.len());
                damaged[at] =
                    if random.one_in(2) { random.number() as u8 } else { damaged[at] ^ 1 };
            }
            match client.call(words("RESTORE damaged 0").arg(&damaged)) {
                Err(line) => {
                    assert_eq!(line, "ERR Bad data format");
                    refused += 1;
                }
                Ok(_) => {
                    restored += 1;
                    for ask in ALGORITHMS.into_iter().chain([*algorithm]) {
                        let reply = client.acquire("damaged", &long_rule(ask, LIMIT));
                        assert!((0..=LIMIT as i64).contains(&reply.remaining), "{reply:?}");
                    }
                    client.run("DUMP damaged");
                    client.run("DEL damaged");
                }
            }
        }
    }
    assert!(refused > 0 && restored > 0, "{refused} refused, {restored} restored");
    assert!(server.log().contains("limiter refused: "), "no word in the log");
}

#[test]
fn copies_are_limiters_of_their_own_and_keep_the_ttl() {
    let server = Server::start();
    let mut client = server.client();
    let limiters = Limiters::create(&mut client);
    for (algorithm, stored) in &limiters.0 {
        let rule = long_rule(algorithm, LIMIT);
        let left = if *algorithm == "leaky" { 0 } else { 2 };
        assert_eq!(client.int(format!("COPY {algorithm} copy")), 1);
        assert_eq!(client.stored("copy"), *stored, "{algorithm}");
        assert_eq!(client.drain("copy", &rule), left, "{algorithm}");
        assert_eq!(client.stored(algorithm), *stored, "{algorithm}: the copy is not its own");

        client.run(format!("RENAME {algorithm} renamed"));
        assert_eq!(client.int(format!("EXISTS {algorithm}")), 0);
        assert_eq!(client.int("MOVE renamed 5"), 1);
        client.run("SELECT 5");
        assert_eq!(client.stored("renamed"), *stored, "{algorithm}");
        assert_eq!(client.drain("renamed", &rule), left, "{algorithm}");
        client.run("DEL renamed");
        client.run("SELECT 0");
        client.run("DEL copy");
    }
}

#[test]
fn one_grant_is_a_change_for_the_save_points() {
    let server = Server::builder().conf("save 1 1").start();
    let mut client = server.client();
    client.take(1, "k", &long_rule("bucket", LIMIT));
    wait_for("the save", || server.file("dump.rdb").exists().then_some(()));
    wait_for_children(&mut client);
    assert_eq!(client.info_number("persistence", "rdb_changes_since_last_save"), 0);
}

/// Lets the logs of some keys grow for a while, by an entry a millisecond.
fn grow(client: &mut Client, keys: &str, lasting: Duration) {
    let begun = Instant::now();
    for _ in (0..).take_while(|i| *i < 60 || begun.elapsed() < lasting) {
        for reply in client.pipeline((0..20).map(|_| acquire(keys, &long_rule("sliding", 60_000))))
        {
            assert!(Reply::of(&reply.expect("a reply")).is_grant());
        }
    }
}

#[test]
fn the_server_knows_the_type_and_its_size() {
    let server = Server::builder().module_args("sliding-resolution 65536").start();
    let mut client = server.client();
    let keys: Vec<String> = (0..10).map(|i| format!("log{i}")).collect();
    let all = keys.join(" ");
    client.acquire(&all, &long_rule("sliding", 60_000));
    let small = client.int("MEMORY USAGE log0");
    grow(&mut client, &all, Duration::from_millis(400));
    let big = client.int("MEMORY USAGE log0");
    assert!(small > 0 && big > small + 200, "{small} bytes, then {big}");

    let digest = |client: &mut Client| client.texts("DEBUG DIGEST-VALUE log0 log1");
    let equal = digest(&mut client);
    assert_eq!(equal[0], equal[1], "logs that grew together");
    client.take(1, "log0", &long_rule("sliding", 60_000));
    let [log0, log1] = &digest(&mut client)[..] else { panic!("not two digests") };
    assert_ne!(*log0, equal[0], "a grant changed it");
    assert_eq!(*log1, equal[1]);

    client.run("SET text x");
    assert_eq!(client.text("TYPE log0"), "rl-limit1");
    let Value::Array(scan) = client.run("SCAN 0 COUNT 1000 TYPE rl-limit1") else {
        panic!("no scan")
    };
    let mut found: Vec<String> = redis::from_redis_value(scan[1].clone()).expect("keys");
    found.sort();
    assert_eq!(found, keys);
    assert!(client.int("OBJECT IDLETIME log0") < 5);
    client.run("CONFIG SET maxmemory-policy allkeys-lfu");
    client.acquire("log0", &long_rule("sliding", 60_000));
    assert!(client.int("OBJECT FREQ log0") > 0);
    client.run("CONFIG SET maxmemory-policy noeviction");

    const COPIES: usize = 4000;
    client.run("FLUSHALL");
    let empty = client.info_number("memory", "used_memory");
    client.acquire("log0", &long_rule("sliding", 60_000));
    grow(&mut client, "log0", Duration::from_millis(200));
    let big = client.int("MEMORY USAGE log0");
    for reply in client.pipeline((1..COPIES).map(|i| format!("COPY log0 log{i}"))) {
        assert_eq!(reply, Ok(Value::Int(1)));
    }
    // The size that the type tells is about what the server's allocator handed out.
    let used = client.info_number("memory", "used_memory") - empty;
    let said = big * COPIES as i64;
    assert!((said / 2..said * 2).contains(&used), "{used} bytes, by MEMORY USAGE {said}");
    let half: Vec<String> = (0..COPIES / 2).map(|i| format!("log{i}")).collect();
    assert_eq!(client.int(format!("UNLINK {}", half.join(" "))), half.len() as i64);
    client.run("FLUSHALL ASYNC");
    assert_eq!(client.int("DBSIZE"), 0);
    wait_for("the memory", || {
        (client.info_number("memory", "used_memory") - empty < used / 4).then_some(())
    });
}

#[test]
fn a_key_lives_until_its_limiter_is_void_and_some() {
    let server = Server::start();
    let mut client = server.client();
    // At the second multiple of a power of two: a sixteenth of the window or more, and a second or more.
    let expiry = |void_at: i64, step_ms: i64| (void_at / step_ms + 2) * step_ms;
    for (algorithm, window_ms, void_after_ms, step_ms) in [
        ("sliding", 4_000, 4_000, 1024),
        ("sliding", 80_000, 80_000, 8192),
        // One of ten permits comes back in a tenth of the window.
        ("bucket", 80_000, 8_000, 8192),
        ("leaky", 80_000, 8_000, 8192),
    ] {
        let key = format!("{algorithm}:{window_ms}");
        let rule = format!("WINDOW {window_ms} LIMIT 10 ALGO {algorithm}");
        let earliest = expiry(client.time_ms() + void_after_ms, step_ms);
        client.take(1, &key, &rule);
        let latest = expiry(client.time_ms() + void_after_ms, step_ms);
        let expires_at = client.int(format!("PEXPIRETIME {key}"));
        assert!((earliest..=latest).contains(&expires_at), "{key}: {expires_at} not {earliest}");
    }
    for (algorithm, windows) in [("fixed", 1), ("counter", 2)] {
        const WINDOW_MS: i64 = 80_000;
        let now = client.time_ms();
        client.take(1, algorithm, &format!("WINDOW {WINDOW_MS} LIMIT 10 ALGO {algorithm}"));
        let expires_at = client.int(format!("PEXPIRETIME {algorithm}"));
        // Void at the end of a window, unless one ended just now.
        let void_at = (now / WINDOW_MS + windows) * WINDOW_MS;
        let possible = [void_at, void_at + WINDOW_MS].map(|void_at| expiry(void_at, 8192));
        assert!(possible.contains(&expires_at), "{algorithm}: {expires_at} not {possible:?}");
    }
}

#[test]
fn a_steady_stream_moves_the_ttl_rarely() {
    let server = Server::start();
    let mut client = server.client();
    let (mut grants, mut ttls) = (0, HashSet::new());
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) || grants <= 300 {
        let void_at = client.time_ms() + 300;
        grants += client.acquire("k", "WINDOW 300ms LIMIT 1000000 ALGO sliding").granted;
        let expires_at = client.int("PEXPIRETIME k");
        assert!(expires_at > void_at + 1000, "{expires_at}: the key could go before its limiter");
        ttls.insert(expires_at);
    }
    // The first, and one each time that another 1,024 ms of epoch time are reached.
    let most = 2 + begun.elapsed().as_millis() as usize / 1024;
    assert!((2..=most).contains(&ttls.len()), "moved {} times in {grants} grants", ttls.len());
}

#[test]
fn what_a_user_did_to_the_ttl_stands_until_the_limiter_outlives_it() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 1h LIMIT 100 ALGO sliding";
    client.take(1, "persisted expiring", rule);
    client.run("PERSIST persisted");
    client.run("PEXPIRE expiring 5000000000");
    let expires_at = client.int("PEXPIRETIME expiring");
    client.take(5, "persisted expiring", rule);
    assert_eq!(client.int("PEXPIRETIME persisted"), -1);
    assert_eq!(client.int("PEXPIRETIME expiring"), expires_at);

    // The TTL follows a short window every 1,024 ms of epoch time.
    let rule = "WINDOW 100ms LIMIT 1000000 ALGO sliding";
    let step = |client: &mut Client| (client.time_ms() + 100) / 1024;
    let begun = step(&mut client);
    wait_for("the next step", || (step(&mut client) > begun).then_some(()));
    client.take(1, "short", rule);
    client.run("PERSIST short");
    client.take(1, "short", rule);
    assert_eq!(client.int("PEXPIRETIME short"), -1);
    wait_for("the TTL", || {
        thread::sleep(Duration::from_millis(10));
        client.take(1, "short", rule);
        (client.int("PEXPIRETIME short") > 0).then_some(())
    });
    assert!(step(&mut client) > begun + 1, "moved too early");
}

#[test]
fn an_expired_limiter_is_a_fresh_one() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ["sliding", "bucket", "fixed", "counter"] {
        let rule = long_rule(algorithm, LIMIT);
        assert_eq!(client.drain(algorithm, &rule), 5, "{algorithm}");
        client.run(format!("PEXPIRE {algorithm} 1"));
        thread::sleep(Duration::from_millis(3));
        let reply = client.acquire(algorithm, &rule);
        assert_eq!((reply.granted, reply.remaining), (1, 4), "{algorithm}");
        assert!(client.int(format!("PTTL {algorithm}")) > 1000, "{algorithm}");
        client.run(format!("DEL {algorithm}"));
        assert_eq!(client.drain(algorithm, &rule), 5, "{algorithm}");
    }
}
