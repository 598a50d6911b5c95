//! The module does not parse a string of rules again that it has parsed before, and remembers it right.

use testkit::{Client, Reply, Server, words};

use crate::calls::{acquirex, info, peek};
use crate::policies::{call, set};
use crate::waiting::{Waiter, no_waiters};

/// How many strings the module remembers at most.
const PLACES: i64 = 256;
/// How much memory one of them takes at most.
const ENTRY_BYTES: i64 = 4096;

fn parsed(client: &mut Client) -> i64 {
    client.info_number("rl", "rl_rules_parsed")
}

fn remembered(client: &mut Client) -> i64 {
    client.info_number("rl", "rl_rules_remembered")
}

/// How many strings were parsed during these calls.
fn parses(client: &mut Client, calls: impl FnOnce(&mut Client)) -> i64 {
    let before = parsed(client);
    calls(client);
    parsed(client) - before
}

#[test]
fn a_string_that_is_repeated_is_not_parsed_again() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!((parsed(&mut client), remembered(&mut client)), (0, 0));
    let rule = "WINDOW 10d LIMIT 5000 ALGO sliding NAME login";
    // A string is remembered when it comes for the second time.
    for (calls, parsed_so_far, remembered_now) in [(1, 1, 0), (1, 2, 1), (1000, 2, 1)] {
        for _ in 0..calls {
            assert!(acquirex(&mut client, "k", rule).is_grant());
        }
        assert_eq!((parsed(&mut client), remembered(&mut client)), (parsed_so_far, remembered_now));
    }
    // All of them count as calls.
    assert_eq!(info(&mut client, "k", "used"), 1002);
    assert_eq!(client.info("rl", "rl_name_login"), "granted=1002,denied=0,shadow_denied=0");
    // The keys do not matter, and each command remembers on its own.
    let other = parses(&mut client, |client| {
        acquirex(client, "a", rule);
        acquirex(client, "a b c", rule);
        client.error(format!("RL.ACQUIREX a a '{rule}'"));
    });
    assert_eq!(other, 0);
    let peeked = parses(&mut client, |client| {
        (0..10).for_each(|_| assert!(peek(client, "k", rule).is_grant()));
    });
    assert_eq!((peeked, remembered(&mut client)), (2, 2));
    // Commands that take each word as an argument neither use nor fill the memory.
    let none = parses(&mut client, |client| {
        client.run(format!("RL.ACQUIRE k {rule}").replace(" NAME login", ""));
        client.run("RL.REFUND k COST 1");
    });
    assert_eq!(none, 0);
    for statement in ["FLUSHALL", "SELECT 1", "CONFIG RESETSTAT", "RL.POLICY DEL login"] {
        client.run(statement);
        assert_eq!(
            parses(&mut client, |client| assert!(acquirex(client, "k", rule).is_grant())),
            0,
            "{statement}"
        );
    }
}

/// Only the same bytes are recognised, not other strings of the same meaning.
#[test]
fn only_equal_strings_are_the_same() {
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 10d LIMIT 5 ALGO sliding";
    (0..2).for_each(|_| assert!(acquirex(&mut client, "k", rule).is_grant()));
    for (other, limit) in [
        ("window 10d LIMIT 5 ALGO sliding", 5),
        ("WINDOW 10d LIMIT 5 ALGO sliding ", 5),
        (" WINDOW 10d LIMIT 5 ALGO sliding", 5),
        ("WINDOW 10d LIMIT 6 ALGO sliding", 6),
        ("WINDOW 10d LIMIT 5 ALGO slidin", 0),
        ("WINDOW 10d LIMIT 5 ALGO sliding\0", 0),
    ] {
        let reply = parses(&mut client, |client| {
            match client.call(words("RL.ACQUIREX fresh").arg(other)) {
                Ok(value) => assert_eq!(Reply::of(&value).limit, limit, "{other:?}"),
                Err(line) => assert!(limit == 0 && line.contains("ALGO"), "{line}"),
            }
        });
        assert_eq!(reply, 1, "{other:?}");
    }
    // Strings that one command takes and the other refuses.
    let timed = "WINDOW 10d LIMIT 5 ALGO sliding TIMEOUT 0";
    for _ in 0..4 {
        assert!(acquirex(&mut client, "t", timed).is_grant());
        let line = client.error(format!("RL.PEEK t '{timed}'"));
        assert_eq!(line, "ERR syntax error, TIMEOUT belongs to RL.ACQUIREX, not RL.PEEK");
    }
    // Strings with errors, long strings and those with many rules are parsed each time, with the same result.
    let many = format!("{rule} ").repeat(17);
    let keys = (0..17).map(|i| format!("k{i}")).collect::<Vec<_>>().join(" ");
    let long = format!("{rule}{}", " ".repeat(1024));
    let before = remembered(&mut client);
    let again = parses(&mut client, |client| {
        for used in 1..4 {
            assert_eq!(acquirex(client, &keys, &many).remaining, 5 - used);
            assert_eq!(acquirex(client, "long", &long).remaining, 5 - used);
            client.error("RL.ACQUIREX k 'WINDOW 10d LIMIT 5'");
        }
    });
    assert_eq!((again, remembered(&mut client)), (9, before));
}

/// The largest strings that can be remembered, each sent twice in a row so that it is.
#[test]
fn ten_thousand_strings_take_no_more_memory_than_there_is_for_them() {
    const STRINGS: usize = 10_000;
    let server = Server::start();
    let mut client = server.client();
    let name = "n".repeat(15);
    let keys = (0..16).map(|i| format!("k{i}")).collect::<Vec<_>>().join(" ");
    // Each string has a limit of its own, which the answer shows.
    let text = |i: usize| {
        let rule = format!("WINDOW 10d LIMIT {} ALGO concurrency NAME {name} ", i + 1);
        format!("{}ID {}", rule.repeat(16), "i".repeat(45))
    };
    assert!((950..=1024).contains(&text(STRINGS - 1).len()), "{}", text(STRINGS - 1).len());
    let call = |i: usize| words("RL.PEEK").then(&keys).arg(text(i));
    let fill = |client: &mut Client, from: usize| {
        for i in (from..from + STRINGS / 2).step_by(250) {
            let calls = (i..i + 250).flat_map(|i| [call(i), call(i)]);
            for (at, reply) in client.pipeline(calls).into_iter().enumerate() {
                let reply = Reply::of(&reply.expect("an answer"));
                assert_eq!(reply.limit, (i + at / 2 + 1) as i64, "{reply:?}");
            }
        }
    };
    let empty = client.info_number("rl", "rl_rules_memory");
    fill(&mut client, 0);
    let half = client.info_number("memory", "used_memory");
    fill(&mut client, STRINGS / 2);
    let grown = client.info_number("memory", "used_memory") - half;
    assert_eq!(parsed(&mut client), 2 * STRINGS as i64);
    let (count, bytes) = (remembered(&mut client), client.info_number("rl", "rl_rules_memory"));
    // This many strings leave hardly a place empty.
    assert!((PLACES * 9 / 10..=PLACES).contains(&count), "{count}");
    assert!((count * 2000..PLACES * ENTRY_BYTES).contains(&(bytes - empty)), "{bytes}, {empty}");
    assert!(grown < 200_000, "{grown} bytes for the second half");
    // Strings with costs and IDs that change with each call push out no others.
    let moved = parses(&mut client, |client| {
        for i in 0..1000 {
            client.run(words("RL.PEEK k").arg(format!("WINDOW 10d LIMIT 5 ALGO fixed COST {i}")));
            client.run(call(STRINGS - 1));
        }
    });
    assert_eq!(moved, 1000);
}

/// Policies and `rl.enforce` change what a call does, not what its string means.
#[test]
fn policies_come_and_go_and_leave_no_trace() {
    let server = Server::start();
    let mut client = server.client();
    let named = |client: &mut Client, key: &str| Reply::of(&client.run(call(key, "api")));
    (0..2).for_each(|_| assert!(named(&mut client, "warm").is_grant()));
    let nothing_parsed = parses(&mut client, |client| {
        for round in 0..5 {
            let key = format!("k{round}");
            assert_eq!(named(client, &key).limit, 5);
            set(client, "api", 70 + round, "");
            assert_eq!(named(client, &key).limit, 70 + round);
            client.run("RL.POLICY SET api WINDOW 1d LIMIT 0 ALGO fixed BLOCK 1h SHADOW");
            let reply = named(client, &key);
            assert_eq!((reply.granted, reply.limit), (1, 0), "only watched");
            client.run("RL.POLICY DEL api");
            assert_eq!(named(client, &key).limit, 5);
            // Calls are only watched while the configuration says so.
            client.run("CONFIG SET rl.enforce shadow");
            (0..5).for_each(|_| assert!(named(client, &key).is_grant()));
            client.run("CONFIG SET rl.enforce yes");
            assert!(!named(client, &key).is_grant());
            assert_eq!(info(client, &key, "window"), 864_000_000);
        }
    });
    assert_eq!(nothing_parsed, 0, "it was the remembered string");
}

/// Policies change within a script, between calls with the same string.
#[test]
fn scripts_see_the_string_as_it_is() {
    let server = Server::start();
    let mut client = server.client();
    let script = "local limits = {} \
        local function ask() limits[#limits + 1] = redis.call('RL.ACQUIREX', KEYS[1], ARGV[1])[2] end \
        local function set(n) redis.call('RL.POLICY', 'SET', 'api', 'WINDOW', '10d', 'LIMIT', n, \
            'ALGO', 'sliding') end \
        for i = 1, 3 do ask() set(50) ask() set(60) ask() redis.call('RL.POLICY', 'DEL', 'api') end \
        ask() return limits";
    let rule = "WINDOW 10d LIMIT 5 ALGO sliding NAME api";
    let eval = |key: &str| words("EVAL").arg(script).then("1").then(key).arg(rule);
    let expected = [[5, 50, 60].repeat(3), vec![5]].concat();
    for (key, parses_at_most) in [("first", 2), ("second", 0), ("third", 0)] {
        let count = parses(&mut client, |client| {
            let limits: Vec<i64> = redis::from_redis_value(client.run(eval(key))).expect("limits");
            assert_eq!(limits, expected);
        });
        assert_eq!(count, parses_at_most, "{key}");
    }
    assert_eq!(acquirex(&mut client, "k", rule).limit, 5);
}

/// The module looks at a waiter again and again, within the calls of others, by the string it came with.
#[test]
fn waiters_look_by_their_own_string() {
    let server = Server::start();
    let mut client = server.client();
    let lease =
        |id: &str| format!("WINDOW 10d LIMIT 1 ALGO concurrency NAME plan ID {id} TIMEOUT 10m");
    for pushed_out in [false, true] {
        assert!(acquirex(&mut client, "k", lease("holder")).is_grant());
        // No call waits within a transaction; after it the string of each is remembered.
        for id in ["a", "b", "c"] {
            let call = words("RL.ACQUIREX k").arg(lease(id));
            client.pipeline(["MULTI".into(), call.clone(), call, "EXEC".into()]);
        }
        let mut waiters = ["a", "b", "c"].map(|id| {
            let mut queued = None;
            let call = |_: &mut Client| {
                queued = Some(Waiter::queue(&server, format!("k '{}'", lease(id))));
            };
            assert_eq!(parses(&mut client, call), 0, "{id}");
            queued.expect("a waiter")
        });
        if pushed_out {
            for i in 0..5000 {
                let other = format!("WINDOW 10d LIMIT 9 ALGO fixed COST 0 NAME n{i}");
                client.pipeline([other.clone(), other].map(|other| words("RL.PEEK x").arg(other)));
            }
        }
        // Each is served by the numbers of its moment.
        client.run("RL.POLICY SET plan WINDOW 10d LIMIT 2 ALGO concurrency");
        assert_eq!(waiters[0].reply().limit, 2);
        client.run("RL.POLICY DEL plan");
        client.run("RL.RELEASE k ID holder");
        let [_, b, c] = &mut waiters;
        assert!(b.waits(&mut client) && c.waits(&mut client), "one is in use, of one again");
        client.run("RL.RELEASE k ID a");
        assert_eq!(b.reply().limit, 1);
        assert!(c.waits(&mut client));
        client.run("RL.RELEASE k ID b");
        assert_eq!(c.reply().limit, 1);
        client.run("RL.RELEASE k ID c");
        no_waiters(&mut client);
    }
}
