//! `RL.PEEK` gives the answer that `RL.ACQUIREX` would give at the same moment, and leaves no trace.

use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{Client, Random, Reply, Server, Words, array, int, wait_for_replica, words};

use crate::calls::{acquirex, peek, rule};

/// Runs the same call as both commands, between two looks at the clock. If both show the same millisecond, both
/// commands saw the same time.
const BOTH: &str = "\
    local function now() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end \
    local begun = now() \
    local peek = redis.call('RL.PEEK', unpack(ARGV)) \
    local acquire = redis.call('RL.ACQUIREX', unpack(ARGV)) \
    return {now() == begun and 1 or 0, peek, acquire}";

/// Rules, options and keys that both commands take.
fn random_call(random: &mut Random) -> Words {
    const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let count = 1 + random.below(3);
    let first = random.below(KEYS.len());
    let keys: Vec<&str> = (0..count).map(|i| KEYS[(first + i) % KEYS.len()]).collect();
    let rules = if random.one_in(2) { 1 } else { count };
    let mut leases = false;
    let mut line = String::new();
    for _ in 0..rules {
        let window = random.pick(&["1ms", "7ms", "40ms", "300ms", "2s", "1h", "1d"]);
        let limit = random.pick(&["0", "1", "3", "7", "20", "100", "5000", "1000000000000"]);
        let algorithm =
            random.pick(&["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"]);
        leases |= algorithm == "concurrency";
        line += &format!(" WINDOW {window} LIMIT {limit} ALGO {algorithm}");
        match (algorithm, random.below(3)) {
            ("bucket", 0) => line += random.pick(&[" BURST 1", " BURST 4", " BURST 30"]),
            ("fixed", 0) => line += random.pick(&[" OFFSET 3ms", " OFFSET -1h"]),
            _ => {}
        }
        line += random.pick(&["", "", "", " COST 0", " COST 2", " COST 5"]);
        line += random.pick(&["", "", "", " BLOCK 2ms", " BLOCK 50ms", " NAME n"]);
    }
    line += random.pick(&["", "", " UPTO 1", " UPTO 3", " UPTO 50"]);
    line += random.pick(&["", " WITHKEYS"]);
    if leases {
        line += random.pick(&[" ID x", " ID y", " ID z"]);
    }
    words(&keys.join(" ")).arg(line)
}

/// Other commands that change the limiters.
fn random_disturbance(random: &mut Random) -> String {
    let key = random.pick(&["a", "b", "c", "d", "e", "f"]);
    match random.below(6) {
        0 => format!("RL.REFUND {key} COST 3"),
        1 => format!("RL.RELEASE {key} ID x"),
        2 => format!("RL.BLOCK {key} FOR {}", random.pick(&["0", "0", "3ms"])),
        3 => format!("RL.EXEMPT {key} FOR {}", random.pick(&["0", "0", "3ms"])),
        4 => format!("DEL {key}"),
        _ => format!("RL.ACQUIREX {key} 'WINDOW 50ms LIMIT 5 ALGO bucket COST 8 FORCE'"),
    }
}

#[test]
fn it_tells_what_acquirex_then_does() {
    const CASES: usize = 10_000;
    const SEED: u64 = 42;
    let server = Server::start();
    let mut client = server.client();
    let script = client.text(words("SCRIPT LOAD").arg(BOTH));
    let mut random = Random(SEED);
    let (mut compared, mut discarded, mut granted, mut partial) = (0, 0, 0, 0);
    while compared < CASES {
        let calls: Vec<Words> = (0..100).map(|_| random_call(&mut random)).collect();
        let mut commands = Vec::new();
        for call in &calls {
            commands.push(random_disturbance(&mut random).as_str().into());
            commands.push(words("EVALSHA").arg(&script).then("0").append(call.clone()));
        }
        for (reply, call) in client.pipeline(commands).into_iter().skip(1).step_by(2).zip(&calls) {
            let reply = reply.unwrap_or_else(|line| panic!("{line}: {:?}", call.lossy()));
            let [same_time, peek, acquire] = array(&reply) else { panic!("{reply:?}") };
            if int(same_time) == 0 {
                discarded += 1;
                continue;
            }
            assert_eq!(peek, acquire, "case {compared}, seed {SEED}: {:?}", call.lossy());
            compared += 1;
            let n = int(&array(acquire)[0]);
            granted += usize::from(n > 0);
            partial += usize::from(n > 1);
        }
    }
    let counts = format!("{granted} granted, {partial} of them batches, {discarded} discarded");
    assert!((CASES / 8..CASES * 7 / 8).contains(&granted) && partial > CASES / 40, "{counts}");
    assert!(discarded < CASES, "{counts}");
}

/// Limiters of all kinds, some blocked or exempt, some void but not expired yet.
fn create(client: &mut Client) {
    for algorithm in ["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"] {
        assert!(acquirex(client, algorithm, rule(algorithm, 3, "")).is_grant());
        let void = rule(algorithm, 3, "").replace("10d", "1ms");
        assert!(acquirex(client, &format!("void:{algorithm}"), void).is_grant());
    }
    client.run("RL.BLOCK blocked FOR 1h");
    client.run("RL.EXEMPT exempt FOR 1h");
    client.run(format!("RL.ACQUIREX debt '{}'", rule("bucket", 3, "COST 9 FORCE")));
}

const KEYS: [&str; 16] = [
    "sliding",
    "bucket",
    "leaky",
    "fixed",
    "counter",
    "concurrency",
    "void:sliding",
    "void:bucket",
    "void:leaky",
    "void:fixed",
    "void:counter",
    "void:concurrency",
    "blocked",
    "exempt",
    "debt",
    "missing",
];

#[test]
fn it_changes_nothing() {
    let server = Server::builder().conf("appendonly yes").start();
    let mut client = server.client();
    create(&mut client);
    client.run("DEBUG SET-ACTIVE-EXPIRE 0");
    let traces = |client: &mut Client| {
        let changes = client.info_number("persistence", "rdb_changes_since_last_save");
        let aof = client.info_number("persistence", "aof_current_size");
        let offset = client.info_number("replication", "master_repl_offset");
        (changes, aof, offset, client.text("DEBUG DIGEST"), KEYS.map(|key| client.stored(key)))
    };
    // Looking at a key may expire it, so look once before.
    traces(&mut client);
    let before = traces(&mut client);
    let (mut granted, mut denied) = (0, 0);
    for algorithm in ["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"] {
        for limit in [0, 1, 2, 100] {
            for options in ["", "COST 0", "COST 2", "COST 1000", "BLOCK 1h", "COST 3 BLOCK 1h"] {
                let rule = rule(algorithm, limit, options);
                for key in KEYS {
                    let reply = peek(&mut client, key, &rule);
                    if reply.is_grant() { granted += 1 } else { denied += 1 }
                }
                peek(&mut client, &KEYS.join(" "), &rule);
            }
        }
    }
    assert!(granted > 300 && denied > 300, "{granted} granted, {denied} denied");
    assert_eq!(traces(&mut client), before);
}

#[test]
fn the_id_may_be_left_out() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 10d LIMIT 1 ALGO concurrency";
    assert_eq!(peek(&mut client, "k", rule).granted, 1);
    assert!(acquirex(&mut client, "k", format!("{rule} ID me")).is_grant());
    for (id, granted) in [("", 0), ("ID other", 0), ("ID me", 1)] {
        assert_eq!(peek(&mut client, "k", format!("{rule} {id}")).granted, granted, "{id}");
    }
}

#[test]
fn it_runs_on_read_only_replicas_and_in_read_only_scripts_and_functions() {
    const LIBRARY: &str = "#!lua name=limits\n\
        redis.register_function{function_name='look', flags={'no-writes'}, \
        callback=function(keys, args) return redis.call('RL.PEEK', keys[1], args[1]) end}\n\
        redis.register_function{function_name='grab', flags={'no-writes'}, \
        callback=function(keys, args) return redis.call('RL.ACQUIREX', keys[1], args[1]) end}";
    let primary = Server::start();
    let mut client = primary.client();
    create(&mut client);
    client.run(words("FUNCTION LOAD").arg(LIBRARY));
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut behind = replica.client();
    let rule = "WINDOW 10d LIMIT 3 ALGO sliding";
    let script = |name: &str| format!("return redis.call('{name}', KEYS[1], ARGV[1])");
    for client in [&mut client, &mut behind] {
        let fields = |value: &Value| {
            let Reply { granted, limit, remaining, retry_after, key, .. } = Reply::of(value);
            (granted, limit, remaining, retry_after, key)
        };
        for call in [
            words("RL.PEEK sliding").arg(rule),
            words("EVAL_RO").arg(script("RL.PEEK")).then("1 sliding").arg(rule),
            words("FCALL_RO look 1 sliding").arg(rule),
            words("EVAL").arg(script("RL.PEEK")).then("1 sliding").arg(rule),
        ] {
            assert_eq!(fields(&client.run(call.clone())), (1, 3, 1, 0, 0), "{:?}", call.lossy());
        }
        assert_eq!(int(&array(&client.run("RL.INFO sliding"))[9]), 1);
        for call in [
            words("EVAL_RO").arg(script("RL.ACQUIREX")).then("1 sliding").arg(rule),
            words("FCALL_RO grab 1 sliding").arg(rule),
        ] {
            let line = client.error(call);
            assert!(
                line.contains("Write commands are not allowed from read-only scripts"),
                "{line}"
            );
        }
    }
    let line = "READONLY You can't write against a read only replica.";
    for call in [
        format!("RL.ACQUIREX sliding '{rule}'"),
        format!("RL.ACQUIRE sliding {rule}"),
        "RL.REFUND sliding COST 1".into(),
        "RL.RELEASE concurrency ID me".into(),
        "RL.BLOCK sliding FOR 1h".into(),
        "RL.EXEMPT sliding FOR 1h".into(),
    ] {
        assert_eq!(behind.error(call.as_str()), line, "{call}");
    }
    // A void limiter that the primary has not expired yet.
    thread::sleep(Duration::from_millis(5));
    assert_eq!(peek(&mut behind, "void:sliding", format!("{rule} UPTO 9")).granted, 3);
}
