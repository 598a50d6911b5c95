//! `RL.REFUND`, `RL.BLOCK`, `RL.EXEMPT` and `RL.INFO`: what operators and careful callers do to single limiters.

use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{
    Client, Random, Reply, Server, Words, acquire, field, int, text, wait_for_replica, words,
};

use crate::calls::{
    ALGORITHMS, COUNTING, acquirex, assert_same_digest, at_once, capacity, info, peek, rule,
    sleep_until, survives, timed,
};

const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn a_refund_gives_back_and_never_fills_above_full() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ALGORITHMS {
        let full = capacity(algorithm, 5);
        let refund = |n: i64| format!("RL.REFUND {algorithm} COST {n}");
        client.take(full.min(3), algorithm, &rule(algorithm, 5, ""));
        assert_eq!(client.int(refund(0)), 0, "{algorithm}");
        assert_eq!(client.int(refund(1)), 1, "{algorithm}");
        assert_eq!(info(&mut client, algorithm, "used"), full.min(3) - 1, "{algorithm}");
        for too_much in [100, 1_000_000_000_000] {
            client.take(1, algorithm, &rule(algorithm, 5, ""));
            assert_eq!(client.int(refund(too_much)), 1, "{algorithm}");
            assert_eq!(client.int(refund(1)), 0, "{algorithm}: it is full");
        }
        assert_eq!(info(&mut client, algorithm, "used"), 0, "{algorithm}");
        assert_eq!(client.drain(algorithm, &rule(algorithm, 5, "")), full, "{algorithm}");
        assert_eq!(client.int(refund(1)), 1, "{algorithm}");
        assert_eq!(client.drain(algorithm, &rule(algorithm, 5, "")), 1, "{algorithm}");
    }
}

#[test]
fn a_refund_counts_what_changed_and_skips_the_rest() {
    let server = Server::start();
    let mut client = server.client();
    for (key, algorithm) in [("a", "sliding"), ("b", "bucket"), ("leases", "concurrency")] {
        assert!(acquirex(&mut client, key, rule(algorithm, 5, "")).is_grant());
    }
    client.run("RL.EXEMPT held FOR 1h");
    let leases = client.stored("leases");
    for (keys, changed) in [
        ("leases", 0),
        ("missing", 0),
        ("held", 0),
        ("missing a leases held b", 2),
        ("a missing b", 0),
    ] {
        assert_eq!(client.int(format!("RL.REFUND {keys} COST 1")), changed, "{keys}");
    }
    assert_eq!(client.stored("leases"), leases);
    assert_eq!(client.int("EXISTS missing"), 0);
}

#[test]
fn sliding_gives_back_the_oldest_and_counter_the_newest() {
    let server = Server::start();
    let mut client = server.client();
    let call = |options: &str| format!("RL.ACQUIREX k '{}'", rule("sliding", 5, options));
    let (_, begin) = at_once(&mut client, &["DEL k"], &[&call("")]);
    sleep_until(&mut client, begin + 50);
    client.run(call("COST 3"));
    // Two permits are left, those that were taken last.
    assert_eq!(client.int("RL.REFUND k COST 2"), 1);
    let (replies, when) = timed(&mut client, ["RL.INFO k"]);
    assert_eq!(int(field(&replies[0], "used")), 2);
    assert_eq!(int(field(&replies[0], "entries")), 1);
    let reset_after = int(field(&replies[0], "reset_after"));
    assert!(reset_after >= begin + 50 + 864_000_000 - when.end(), "{replies:?}");
    // The counter gives back all permits of its present window before those of the previous one.
    let window = 400;
    let now = client.time_ms();
    sleep_until(&mut client, (now / window + 1) * window);
    let rule = "WINDOW 400ms LIMIT 1000 ALGO counter";
    assert!(acquirex(&mut client, "c", format!("{rule} COST 500")).is_grant());
    let now = client.time_ms();
    sleep_until(&mut client, (now / window + 1) * window);
    assert!(acquirex(&mut client, "c", format!("{rule} COST 100")).is_grant());
    let used = |client: &mut Client| {
        let (replies, when) = timed(client, ["RL.INFO c"]);
        (int(field(&replies[0], "used")), when)
    };
    assert_eq!(client.int("RL.REFUND c COST 100"), 1);
    let (used, when) = used(&mut client);
    let previous = |now: i64| (500 * (window - now.rem_euclid(window)) + window - 1) / window;
    if when.end() / window == now / window + 1 {
        assert!((previous(*when.end())..=previous(*when.start())).contains(&used), "{used}");
    }
}

#[test]
fn a_block_and_an_exemption_work_without_and_with_a_limiter() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"] {
        let full = if algorithm == "concurrency" { 3 } else { capacity(algorithm, 3) };
        for existing in [false, true] {
            let case = format!("{algorithm}, existing: {existing}");
            let once = rule(algorithm, 3, "");
            client.run("FLUSHALL");
            let mut used = 0;
            if existing {
                assert!(acquirex(&mut client, "k", &once).is_grant());
                used = 1;
            }
            assert_eq!(client.int("RL.BLOCK k FOR 0"), 0, "{case}");
            assert_eq!(client.int("EXISTS k"), used, "{case}");
            assert_eq!(client.int("RL.BLOCK k FOR 1h"), 1, "{case}");
            let before = client.text("DEBUG DIGEST");
            let reply = acquirex(&mut client, "k", &once);
            assert_eq!((reply.granted, reply.remaining, reply.key), (0, 0, 0), "{case}");
            assert!(reply.retry_after >= 3_590_000, "{case}: {reply:?}");
            assert!(reply.retry_after <= reply.reset_after, "{case}: {reply:?}");
            assert_eq!(client.text("DEBUG DIGEST"), before, "{case}");
            // A block beats an exemption, which takes effect when the block is lifted.
            assert_eq!(client.int("RL.EXEMPT k FOR 2h"), 1, "{case}");
            assert_eq!(acquirex(&mut client, "k", &once).granted, 0, "{case}");
            assert_eq!(client.int("RL.BLOCK k FOR 0"), 1, "{case}");
            assert_eq!(client.int("RL.BLOCK k FOR 0"), 0, "{case}");
            let before = client.text("DEBUG DIGEST");
            for cost in ["", "COST 1000", "COST 0", "UPTO 1000"] {
                let reply = acquirex(&mut client, "k", rule(algorithm, 3, cost));
                let granted = if cost == "UPTO 1000" { 1000 } else { 1 };
                assert_eq!((reply.granted, reply.limit), (granted, full), "{case} {cost}");
                assert_eq!((reply.remaining, reply.retry_after), (full, 0), "{case} {cost}");
            }
            if algorithm == "concurrency" {
                // The holder can renew its lease, so the lease was kept.
                assert_eq!(info(&mut client, "k", "used"), 1000, "{case}");
                assert_eq!(client.int("RL.RELEASE k ID me"), 1, "{case}");
                used = 0;
            } else {
                assert_eq!(client.text("DEBUG DIGEST"), before, "{case}: nothing counted");
            }
            assert_eq!(client.int("RL.EXEMPT k FOR 0"), 1, "{case}");
            assert_eq!(client.int("RL.EXEMPT k FOR 0"), 0, "{case}");
            // The permits that were in use still are.
            let reply = peek(&mut client, "k", rule(algorithm, 3, "COST 0"));
            assert_eq!(reply.remaining, full - used, "{case}");
        }
    }
    assert_eq!(client.int("RL.BLOCK x y z FOR 1h"), 3);
    assert_eq!(client.int("RL.BLOCK x new FOR 0"), 1);
    assert_eq!(client.int("EXISTS new"), 0);
}

#[test]
fn holds_end_by_themselves() {
    let server = Server::start();
    let mut client = server.client();
    let call = format!("RL.PEEK k '{}'", rule("sliding", 3, ""));
    let (replies, begin) = at_once(&mut client, &["DEL k"], &["RL.BLOCK k FOR 150ms", &call]);
    assert_eq!(Reply::of(&replies[1]).retry_after, 150);
    loop {
        let (replies, when) = timed(&mut client, [call.as_str()]);
        let reply = Reply::of(&replies[0]);
        if *when.start() >= begin + 150 {
            assert!(reply.is_grant(), "{reply:?}");
            break;
        }
        if *when.end() < begin + 150 {
            assert_eq!(reply.granted, 0);
            let left = begin + 150 - when.end()..=begin + 150 - when.start();
            assert!(left.contains(&reply.retry_after), "{reply:?}");
        }
        thread::sleep(Duration::from_millis(3));
    }
    // A full limiter under an exemption denies again when the exemption ends.
    client.take(3, "e", &rule("sliding", 3, ""));
    let calls = ["RL.EXEMPT e FOR 100ms".into(), acquire("e", &rule("sliding", 3, ""))];
    let granted = client.pipeline(calls).pop().expect("a reply").expect("an answer");
    assert!(Reply::of(&granted).is_grant());
    thread::sleep(Duration::from_millis(110));
    assert!(!client.acquire("e", &rule("sliding", 3, "")).is_grant());
}

#[test]
fn a_key_lives_as_long_as_its_holds() {
    let server = Server::start();
    let mut client = server.client();
    for hold in ["RL.BLOCK", "RL.EXEMPT"] {
        client.run("FLUSHALL");
        let lives = |client: &mut Client, key: &str, ms: i64| {
            let left = client.int(format!("PTTL {key}"));
            assert!((ms - 2_000..=ms).contains(&left), "{hold} {key}: {left}, not {ms}");
        };
        client.run(format!("{hold} alone FOR 1h"));
        lives(&mut client, "alone", 3_600_000);
        client.run(format!("{hold} alone FOR 2h"));
        lives(&mut client, "alone", 7_200_000);
        // The limiter is void, so the key goes soon.
        client.run(format!("{hold} alone FOR 0"));
        assert!(client.int("PTTL alone") <= 2_048);
        // One limiter lives longer than the hold, and one does not.
        client.take(1, "long", "WINDOW 8h LIMIT 3 ALGO sliding");
        let left = client.int("PTTL long");
        client.run(format!("{hold} long FOR 1h"));
        lives(&mut client, "long", left);
        client.take(1, "short", "WINDOW 1m LIMIT 3 ALGO sliding");
        client.run(format!("{hold} short FOR 1h"));
        lives(&mut client, "short", 3_600_000);
        client.run(format!("{hold} gone FOR 30ms"));
        thread::sleep(Duration::from_millis(40));
        assert_eq!(client.int("EXISTS gone"), 0);
    }
}

#[test]
fn a_key_lives_as_long_as_the_block_that_a_denial_began() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 1m LIMIT 1 ALGO sliding BLOCK 1h";
    assert!(acquirex(&mut client, "k", rule).is_grant());
    assert!(client.int("PTTL k") < 100_000);
    assert!(!acquirex(&mut client, "k", rule).is_grant());
    let left = client.int("PTTL k");
    assert!((3_598_000..=3_600_000).contains(&left), "{left}");
}

/// Commands on existing limiters go on without memory.
#[test]
fn a_full_server_refuses_only_what_is_new() {
    const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ["bucket", "leaky", "fixed", "counter"] {
        client.take(1, algorithm, &rule(algorithm, 5, ""));
    }
    assert!(acquirex(&mut client, "leases", rule("concurrency", 5, "")).is_grant());
    client.run("CONFIG SET maxmemory 1");
    for algorithm in ["bucket", "fixed", "counter"] {
        let reply = acquirex(&mut client, algorithm, format!("{} UPTO 3", rule(algorithm, 5, "")));
        assert_eq!(reply.granted, 3, "{algorithm}");
    }
    let mut same = |call: &str, changed| assert_eq!(client.int(call), changed, "{call}");
    same("RL.REFUND bucket fixed missing COST 1", 2);
    same("RL.BLOCK bucket counter FOR 1h", 2);
    same("RL.BLOCK missing bucket FOR 0", 1);
    same("RL.RELEASE leases ID me", 1);
    let mut fields = |key: &str| peek(&mut client, key, rule("bucket", 5, "")).granted;
    assert_eq!((fields("missing"), fields("bucket")), (1, 1));
    let before = client.text("DEBUG DIGEST");
    for call in [
        format!("RL.ACQUIREX missing '{}'", rule("bucket", 5, "")),
        format!("RL.ACQUIREX bucket missing '{}'", rule("bucket", 5, "")),
        "RL.BLOCK missing FOR 1h".into(),
        "RL.EXEMPT bucket missing FOR 1h".into(),
    ] {
        assert_eq!(client.error(call.as_str()), OOM, "{call}");
    }
    assert_eq!(client.text("DEBUG DIGEST"), before);
    // A call with COST 0 creates nothing.
    assert!(acquirex(&mut client, "missing", rule("bucket", 5, "COST 0")).is_grant());
    // A lease may take the place of one that ended; one more than there ever were needs memory.
    assert!(acquirex(&mut client, "leases", rule("concurrency", 5, "")).is_grant());
    let another = "RL.ACQUIREX leases 'WINDOW 10d LIMIT 5 ALGO concurrency ID another'";
    assert_eq!(client.error(another), OOM);
}

/// All writing commands in random order, with all options that matter.
#[test]
fn what_is_done_by_hand_is_replicated() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let chained = Server::builder().replica_of(&replica).start();
    wait_for_replica(&primary, &replica);
    wait_for_replica(&replica, &chained);
    let mut client = primary.client();
    let mut random = Random(5);
    for chunk in 0..20 {
        let mut call = || -> Words {
            let keys = random.pick(&["a", "b", "c", "a b", "d c a", "b c d a"]);
            let n = random.below(5);
            let call = match random.below(8) {
                0 => format!("RL.REFUND {keys} COST {n}"),
                1 => format!("RL.BLOCK {keys} FOR {}", random.pick(&["0", "1ms", "5ms", "1h"])),
                2 => format!("RL.EXEMPT {keys} FOR {}", random.pick(&["0", "1ms", "5ms", "1h"])),
                3 => format!("RL.RELEASE {keys} ID x"),
                _ => {
                    let window = random.pick(&["3ms", "1h", "10d"]);
                    let algorithm =
                        random.pick(&["sliding", "bucket", "leaky", "fixed", "counter"]);
                    let tail = random.pick(&["", "UPTO 3", "FORCE", "FORCE", "WITHKEYS"]);
                    let block = random.pick(&["", "", "BLOCK 4ms", "BLOCK 1h"]);
                    let rule = format!("WINDOW {window} LIMIT {n} ALGO {algorithm} {block}");
                    match random.below(6) {
                        0 => format!(
                            "RL.ACQUIREX {keys} 'WINDOW {window} LIMIT 9 ALGO concurrency ID x'"
                        ),
                        1 => format!(
                            "RL.ACQUIREX {keys} 'WINDOW {window} LIMIT 9 ALGO bucket RESERVE 1h'"
                        ),
                        _ => format!("RL.ACQUIREX {keys} '{rule} COST {} {tail}'", random.below(4)),
                    }
                }
            };
            words(&call)
        };
        let calls: Vec<Words> = (0..100).map(|_| call()).collect();
        for (reply, call) in client.pipeline(calls.clone()).into_iter().zip(calls) {
            reply.unwrap_or_else(|line| panic!("{line}: {:?}", call.lossy()));
        }
        thread::sleep(Duration::from_millis(4));
        if chunk % 5 == 4 {
            client.run("DEBUG SET-ACTIVE-EXPIRE 0");
            client.run("RL.BLOCK keeper FOR 1h");
            assert_same_digest(&primary, &replica);
            wait_for_replica(&replica, &chained);
            assert_same_digest(&replica, &chained);
            for key in client.keys() {
                let [ahead, behind] = [&primary, &replica]
                    .map(|server| server.client().int(format!("PEXPIRETIME {key}")));
                assert_eq!(ahead, behind, "{key}");
            }
            client.run("DEBUG SET-ACTIVE-EXPIRE 1");
        }
    }
}

#[test]
fn holds_and_refunds_survive() {
    let create = |client: &mut Client| {
        client.run("RL.BLOCK blocked both FOR 1h");
        client.run("RL.EXEMPT exempt both FOR 2h");
        client.take(3, "refunded", &rule("sliding", 5, ""));
        client.run("RL.EXEMPT refunded FOR 1h");
        client.run("RL.REFUND refunded COST 2");
        client.run("RL.EXEMPT refunded FOR 0");
        // The limiter is in debt.
        client.run(format!("RL.ACQUIREX debt '{}'", rule("bucket", 5, "COST 20 FORCE")));
    };
    survives(create, &["blocked", "exempt", "both", "refunded", "debt"], |client| {
        for (key, granted) in [("blocked", 0), ("both", 0), ("exempt", 1)] {
            assert_eq!(peek(client, key, rule("fixed", 3, "")).granted, granted);
        }
        assert_eq!(client.int("RL.BLOCK both FOR 0"), 1);
        assert_eq!(peek(client, "both", rule("fixed", 3, "COST 9")).granted, 1);
        assert_eq!(client.drain("refunded", &rule("sliding", 5, "")), 4);
        assert_eq!(info(client, "debt", "used"), 20);
    });
}

const FIELDS: [&str; 11] = [
    "algo",
    "window",
    "limit",
    "burst",
    "used",
    "remaining",
    "reset_after",
    "blocked_for",
    "exempt_for",
    "entries",
    "denied_recently",
];

/// The fields of `RL.INFO` in their order, from a flat array or a map.
fn fields(value: &Value) -> Vec<(Value, Value)> {
    match value {
        Value::Array(items) => {
            items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        }
        Value::Map(pairs) => pairs.clone(),
        value => panic!("no fields: {value:?}"),
    }
}

#[test]
fn info_tells_the_rule_and_the_state() {
    let server = Server::start();
    let (mut client, mut resp3) = (server.client(), server.client_resp3());
    for (key, call, algo, numbers) in [
        ("s", "RL.ACQUIREX s 'WINDOW 1h LIMIT 5 ALGO sliding COST 2'", "sliding", [5, 5, 2, 3, 1]),
        ("b", "RL.ACQUIREX b 'WINDOW 1h LIMIT 6 ALGO bucket BURST 9'", "bucket", [6, 9, 1, 8, 0]),
        ("l", "RL.ACQUIREX l 'WINDOW 1h LIMIT 6 ALGO leaky'", "bucket", [6, 1, 1, 0, 0]),
        (
            "f",
            "RL.ACQUIREX f 'WINDOW 1h LIMIT 7 ALGO fixed COST 9 FORCE'",
            "fixed",
            [7, 7, 9, 0, 0],
        ),
        ("c", "RL.ACQUIREX c 'WINDOW 1h LIMIT 8 ALGO counter'", "counter", [8, 8, 1, 7, 0]),
        (
            "h",
            "RL.ACQUIREX h 'WINDOW 1h LIMIT 9 ALGO concurrency COST 4 ID x'",
            "concurrency",
            [9, 9, 4, 5, 1],
        ),
        ("n", "RL.BLOCK n FOR 1h", "none", [0, 0, 0, 0, 0]),
        ("x", "RL.EXEMPT x FOR 1h", "none", [0, 0, 0, 0, 0]),
    ] {
        client.run(call);
        let (replies, _) = at_once(&mut client, &[], &[&format!("RL.INFO {key}")]);
        let flat = fields(&replies[0]);
        let map = resp3.run(format!("RL.INFO {key}"));
        assert!(matches!(replies[0], Value::Array(_)) && matches!(map, Value::Map(_)), "{map:?}");
        for named in [&flat, &fields(&map)] {
            let names: Vec<String> = named.iter().map(|(name, _)| text(name)).collect();
            assert_eq!(names, FIELDS, "{key}");
            assert_eq!(text(&named[0].1), algo, "{key}");
            let number = |at: usize| int(&named[at].1);
            assert_eq!(number(1), if algo == "none" { 0 } else { 3_600_000 }, "{key}");
            assert_eq!([2, 3, 4, 5, 9].map(number), numbers, "{key}");
            let held = [number(7) > 0, number(8) > 0];
            assert_eq!(held, [key == "n", key == "x"], "{key}");
        }
    }
    // Its times are those of RL.PEEK.
    for (key, rule) in [
        ("s", "WINDOW 1h LIMIT 5 ALGO sliding"),
        ("b", "WINDOW 1h LIMIT 6 ALGO bucket BURST 9"),
        ("l", "WINDOW 1h LIMIT 6 ALGO leaky"),
        ("f", "WINDOW 1h LIMIT 7 ALGO fixed"),
        ("c", "WINDOW 1h LIMIT 8 ALGO counter"),
        ("h", "WINDOW 1h LIMIT 9 ALGO concurrency"),
    ] {
        let look = format!("RL.PEEK {key} '{rule} COST 0'");
        let (replies, _) = at_once(&mut client, &[], &[&look, &format!("RL.INFO {key}")]);
        let (reply, fields) = (Reply::of(&replies[0]), &replies[1]);
        assert_eq!(int(field(fields, "remaining")), reply.remaining, "{key}");
        assert_eq!(int(field(fields, "reset_after")), reply.reset_after, "{key}");
        assert!(reply.reset_after > 0, "{key}");
    }
    assert_eq!(client.run("RL.INFO missing"), Value::Nil);
    assert_eq!(resp3.run("RL.INFO missing"), Value::Nil);
}

#[test]
fn info_counts_only_what_still_counts() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in COUNTING {
        client.take(3, algorithm, &format!("WINDOW 20ms LIMIT 5 ALGO {algorithm}"));
        let lease = format!("WINDOW 20ms LIMIT 50 ALGO concurrency ID {algorithm}");
        assert!(acquirex(&mut client, "h", lease).is_grant());
    }
    thread::sleep(Duration::from_millis(45));
    for key in [COUNTING.as_slice(), &["h"]].concat() {
        for (name, expected) in [("used", 0), ("reset_after", 0), ("entries", 0)] {
            assert_eq!(info(&mut client, key, name), expected, "{key} {name}");
        }
        assert!(info(&mut client, key, "remaining") >= 5, "{key}");
    }
    // Under an exemption all permits are there, under a block none.
    client.take(3, "e", &rule("sliding", 5, ""));
    for (hold, remaining) in [("RL.EXEMPT", 5), ("RL.BLOCK", 0)] {
        client.run(format!("{hold} e FOR 1h"));
        let numbers = ["used", "remaining"].map(|name| info(&mut client, "e", name));
        assert_eq!(numbers, [3, remaining], "{hold}");
    }
    // The limiter is blocked, exempt and full at once.
    client.take(3, "k", &rule("sliding", 3, ""));
    client.run("RL.BLOCK k FOR 20d");
    client.run("RL.EXEMPT k FOR 1h");
    let numbers = ["used", "remaining"].map(|name| info(&mut client, "k", name));
    assert_eq!(numbers, [3, 0]);
    let [blocked, exempt, reset] =
        ["blocked_for", "exempt_for", "reset_after"].map(|name| info(&mut client, "k", name));
    assert!((1_727_990_000..=1_728_000_000).contains(&blocked), "{blocked}");
    assert!((3_590_000..=3_600_000).contains(&exempt), "{exempt}");
    assert!((blocked - 1000..=blocked).contains(&reset), "{reset}");
}

#[test]
fn every_command_leaves_other_types_alone() {
    let server = Server::start();
    let mut client = server.client();
    let rule = rule("sliding", 5, "");
    client.take(1, "k", &rule);
    for create in ["SET x text", "RPUSH x 1", "HSET x f 1", "XADD x * f 1"] {
        client.run("DEL x");
        client.run(create);
        let before = client.text("DEBUG DIGEST");
        for keys in ["x", "k x missing", "missing x k"] {
            for call in [
                format!("RL.ACQUIRE {keys} {rule}"),
                format!("RL.ACQUIREX {keys} '{rule} FORCE'"),
                format!("RL.PEEK {keys} '{rule}'"),
                format!("RL.REFUND {keys} COST 1"),
                format!("RL.RELEASE {keys} ID x"),
                format!("RL.BLOCK {keys} FOR 1h"),
                format!("RL.EXEMPT {keys} FOR 0"),
            ] {
                assert_eq!(client.error(call.as_str()), WRONGTYPE, "{create}: {call}");
            }
        }
        assert_eq!(client.error("RL.INFO x"), WRONGTYPE);
        assert_eq!(client.text("DEBUG DIGEST"), before, "{create}");
    }
}
