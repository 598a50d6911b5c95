//! This version reads what an earlier one wrote: an RDB file and the files of an AOF, kept in `tests/fixtures`.
//!
//! `RL_WRITE_FIXTURES=folder cargo test --test server fixture` writes them anew with the present version, see the
//! README there.

use std::env;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::{Client, Server, field, int, text, wait_for_children};

use crate::calls::{acquirex, info, peek};

/// The longest window there is, so that the files are of use as long as possible.
const WINDOW: &str = "WINDOW 3650d";

/// A key, the rule of its limiter, and how many permits of how many were taken.
struct Case {
    key: &'static str,
    rule: &'static str,
    taken: i64,
    full: i64,
}

const fn case(key: &'static str, rule: &'static str, taken: i64, full: i64) -> Case {
    Case { key, rule, taken, full }
}

/// A bucket of LIMIT 1 gives nothing back for ten years.
const CASES: [Case; 6] = [
    case("sliding", "LIMIT 9 ALGO sliding", 4, 9),
    case("stepped", "LIMIT 100000 ALGO sliding", 7, 100_000),
    case("bucket", "LIMIT 1 ALGO bucket BURST 9", 4, 9),
    case("leaky", "LIMIT 1 ALGO leaky", 1, 1),
    case("fixed", "LIMIT 9 ALGO fixed", 4, 9),
    case("counter", "LIMIT 9 ALGO counter", 4, 9),
];

/// December 2029: windows of ten years begin anew, and the permits of a counter fade.
const COUNTER_FADES_S: u64 = 315_360_000 * 6;
/// December 2035: the window of the `fixed` one ends.
const VOID_S: u64 = 2_081_000_000;

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs()
}

/// See `tests/fixtures/README.md`.
const FOLDERS: [&str; 1] = ["v0.1.0"];

/// OFFSET moves the windows of `fixed` so that one begins about when the files were made, in 2026.
fn rule_of(case: &Case) -> String {
    let offset = if case.key == "fixed" { "OFFSET 2190d" } else { "" };
    format!("{WINDOW} {} {offset}", case.rule)
}

fn create(client: &mut Client) {
    for case in &CASES {
        for _ in 0..case.taken {
            assert!(acquirex(client, case.key, rule_of(case)).is_grant(), "{}", case.key);
        }
    }
    for id in ["one", "two"] {
        acquirex(client, "leases", format!("{WINDOW} LIMIT 3 ALGO concurrency COST 1 ID {id}"));
    }
    acquirex(client, "debt", format!("{WINDOW} LIMIT 1 ALGO bucket BURST 2 COST 5 FORCE"));
    acquirex(client, "locked", format!("{WINDOW} LIMIT 1 ALGO bucket BLOCK 3650d COST 1 FORCE"));
    client.run("RL.BLOCK blocked FOR 3650d");
    client.run("RL.EXEMPT exempt FOR 3650d");
    client.run("RL.POLICY SET standing WINDOW 1h LIMIT 7 ALGO sliding BLOCK 1m");
    client.run("RL.POLICY SET temporary WINDOW 2h LIMIT 8 ALGO fixed OFFSET 1h");
    client.run("RL.POLICY SET temporary WINDOW 1h LIMIT 3 ALGO bucket BURST 4 SHADOW FOR 3650d");
    client.run("SET text x");
}

fn check(client: &mut Client) {
    assert_eq!(client.int("DBSIZE"), CASES.len() as i64 + 6);
    for case in &CASES {
        if case.key == "counter" && now_s() >= COUNTER_FADES_S {
            continue;
        }
        assert_eq!(info(client, case.key, "used"), case.taken, "{}", case.key);
        let all = format!("{} UPTO 200000", rule_of(case));
        assert_eq!(acquirex(client, case.key, all).granted, case.full - case.taken, "{}", case.key);
    }
    let lease = |id: &str| format!("{WINDOW} LIMIT 3 ALGO concurrency ID {id}");
    assert_eq!(info(client, "leases", "entries"), 2);
    assert!(acquirex(client, "leases", lease("three")).is_grant());
    assert!(!acquirex(client, "leases", lease("four")).is_grant());
    assert_eq!(client.int("RL.RELEASE leases ID one"), 1);
    assert_eq!(info(client, "debt", "used"), 5);
    const YEAR_MS: i64 = 365 * 86_400_000;
    for key in ["locked", "blocked"] {
        let reply = peek(client, key, "WINDOW 1s LIMIT 3 ALGO bucket");
        assert!(!reply.is_grant() && reply.retry_after > YEAR_MS / 10, "{key}: {reply:?}");
    }
    assert!(info(client, "exempt", "exempt_for") > YEAR_MS / 10);
    assert!(
        (0..5).all(|_| acquirex(client, "exempt", "WINDOW 1d LIMIT 1 ALGO sliding").is_grant())
    );
    for (name, algorithm, numbers) in [
        (
            "standing",
            "sliding",
            [("limit", 7), ("window", 3_600_000), ("block", 60_000), ("shadow", 0)],
        ),
        ("temporary", "bucket", [("limit", 3), ("window", 3_600_000), ("burst", 4), ("shadow", 1)]),
    ] {
        let policy = client.run(format!("RL.POLICY GET {name}"));
        assert_eq!(text(field(&policy, "algo")), algorithm, "{name}");
        for (field_name, number) in numbers {
            assert_eq!(int(field(&policy, field_name)), number, "{field_name} of {name}");
        }
    }
    assert_eq!(client.text("GET text"), "x");
    for key in client.keys().iter().filter(|key| *key != "text") {
        assert!(client.int(format!("PTTL {key}")) > YEAR_MS / 10, "{key}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the files").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// Writes both kinds of files. The AOF has a base, with or without the RDB preamble, and effects after it.
fn write(folder: &Path) {
    let server = Server::start();
    create(&mut server.client());
    server.client().run("SAVE");
    fs::create_dir_all(folder).expect("a folder");
    fs::copy(server.file("dump.rdb"), folder.join("dump.rdb")).expect("a copy");
    for preamble in ["yes", "no"] {
        let server = Server::builder()
            .conf("appendonly yes")
            .conf("appendfsync always")
            .conf(format!("aof-use-rdb-preamble {preamble}"))
            .start();
        let mut client = server.client();
        if preamble == "no" {
            // The base holds a part: what `create` does not change afterwards.
            client.run("RL.BLOCK blocked FOR 3650d");
            acquirex(
                &mut client,
                "leases",
                format!("{WINDOW} LIMIT 3 ALGO concurrency COST 1 ID one"),
            );
            client.run("BGREWRITEAOF");
            wait_for_children(&mut client);
        }
        create(&mut client);
        copy(&server.file("appendonlydir"), &folder.join(format!("aof-preamble-{preamble}")));
    }
}

#[test]
fn what_an_earlier_version_wrote_is_read() {
    if let Some(folder) = env::var_os("RL_WRITE_FIXTURES") {
        write(Path::new(&folder));
        println!("written");
        return;
    }
    assert!(now_s() < VOID_S, "the permits in the fixtures have come back: write new ones");
    for folder in FOLDERS {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder));
    }
}

fn read(folder: &Path) {
    let mut server = Server::start();
    server.crash_and(|server| {
        fs::copy(folder.join("dump.rdb"), server.file("dump.rdb")).expect("a copy");
    });
    check(&mut server.client());
    for preamble in ["yes", "no"] {
        let mut server = Server::builder()
            .conf("appendonly yes")
            .conf(format!("aof-use-rdb-preamble {preamble}"))
            .start();
        server.crash_and(|server| {
            let aof = server.file("appendonlydir");
            fs::remove_dir_all(&aof).expect("the AOF of an empty server");
            copy(&folder.join(format!("aof-preamble-{preamble}")), &aof);
        });
        check(&mut server.client());
    }
}
