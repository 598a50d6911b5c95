//! No single call holds the server up, however much a limiter or the module holds: 5 ms at most, unless the answer
//! itself is what takes the time. `docs/operations.md` has the numbers.
//!
//! The tests take the server's own time for a call (`INFO commandstats`), the least of several: a busy machine makes
//! it longer, never shorter.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Server, Words, args, array, wait_for, words};

use super::{LONGEST_PING, Pings, within_bounds};

use crate::calls::{info, sleep_until};
use crate::policies;

/// The longest that any call may take.
const LONGEST: Duration = Duration::from_millis(5);
/// The longest that an ordinary call may take.
const SHORT: Duration = Duration::from_micros(300);
/// Leases of a limiter, names of policies and of rules.
const MANY: usize = 100_000;
/// How often a call is measured.
const TRIES: usize = 5;
/// How often, and for how long, it is measured again while it is beyond its bound.
const MOST_TRIES: usize = 50;
const PATIENCE: Duration = Duration::from_secs(5);

/// A lease of one limiter.
fn lease(key: &str, window: &str, id: &str, cost: usize) -> Words {
    let rule = format!("WINDOW {window} LIMIT {MANY} ALGO concurrency COST {cost} ID {id}");
    words("RL.ACQUIREX").arg(key).arg(rule)
}

/// A call under a rule with a name.
fn named(name: &str) -> Words {
    words("RL.ACQUIREX k").arg(format!("WINDOW 10d LIMIT 5 ALGO fixed NAME {name}"))
}

fn name(i: usize) -> String {
    format!("name-{i}")
}

fn set_policy(name: &str, options: &str) -> Words {
    words(&format!("RL.POLICY SET {name} WINDOW 1m LIMIT 5 ALGO bucket {options}"))
}

/// Runs commands, all of which succeed.
fn run_all(client: &mut Client, mut commands: impl Iterator<Item = Words>) {
    loop {
        let some: Vec<Words> = commands.by_ref().take(1000).collect();
        if some.is_empty() {
            return;
        }
        for reply in client.pipeline(some) {
            reply.expect("a reply");
        }
    }
}

/// How long a command took, which the server's statistics know by this name.
fn took(client: &mut Client, known_as: &str, command: impl Into<Words>) -> Duration {
    client.run("CONFIG RESETSTAT");
    client.run(command);
    let stats = client.info("commandstats", &format!("cmdstat_{known_as}"));
    Duration::from_micros(stat(&stats, "usec") as u64)
}

/// A number of a line of `INFO commandstats`.
fn stat(stats: &str, name: &str) -> f64 {
    let value = |pair: &str| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    stats.split(',').find_map(value).unwrap_or_else(|| panic!("no {name}: {stats:?}"))
}

/// Asserts that the least of some measurements is below a bound.
fn check(what: &str, most: Duration, mut measure: impl FnMut(usize) -> Duration) {
    let begun = Instant::now();
    let mut least = Duration::MAX;
    for i in 0..MOST_TRIES {
        if i >= TRIES && (least <= most || begun.elapsed() > PATIENCE) {
            break;
        }
        least = least.min(measure(i));
    }
    eprintln!("{what}: {least:?}");
    assert!(least <= most, "{what} took {least:?}, at most {most:?} are allowed");
}

/// Two limiters with this many leases that have ended; one also has a lease that lives.
#[test]
fn a_call_on_many_leases() {
    let server = Server::start();
    let mut client = server.client();
    let client = &mut client;
    run_all(client, (1..MANY).map(|i| lease("some", "5s", &format!("holder:{i}"), 1)));
    client.run(lease("some", "1h", "last", 1));
    assert_eq!(client.int("COPY some all"), 1);
    assert_eq!(client.int("RL.RELEASE all ID last"), 1);
    let denied = || lease("some", "1h", "other", MANY);
    check("a denial", SHORT, |_| took(client, "rl.acquirex", denied()));
    check("a renewal", SHORT, |_| took(client, "rl.acquirex", lease("some", "1h", "last", 1)));
    check("RL.INFO", SHORT, |_| took(client, "rl.info", "RL.INFO some"));
    check("MEMORY USAGE", SHORT, |_| took(client, "memory|usage", "MEMORY USAGE some"));
    // The answer has 2 MB, and the server computes a checksum of it.
    check("DUMP", 8 * LONGEST, |_| took(client, "dump", "DUMP some"));
    check("COPY", 2 * LONGEST, |_| {
        client.run("DEL copy");
        took(client, "copy", "COPY some copy")
    });
    check("DEL", LONGEST, |_| {
        client.run("COPY some copy REPLACE");
        took(client, "del", "DEL copy")
    });
    // Keys outlive their leases by a second at least.
    wait_for("the leases to end", || (info(client, "some", "used") == 1).then_some(()));
    client.run("PERSIST all");
    check("a denial, all but one ended", SHORT, |_| took(client, "rl.acquirex", denied()));
    for (key, window, what) in [
        ("some", "1h", "a grant after all but one ended"),
        ("all", "5s", "a grant after all ended"),
        ("all", "6s", "a grant under another rule after all ended"),
    ] {
        check(what, LONGEST, |i| {
            assert_eq!(client.int(format!("COPY {key} copy REPLACE")), 1);
            assert_eq!(info(client, "copy", "used"), i64::from(key == "some"));
            took(client, "rl.acquirex", lease("copy", window, &format!("new:{i}"), 1))
        });
    }
}

#[test]
fn a_call_with_many_policies() {
    let server = Server::start();
    let mut client = server.client();
    let client = &mut client;
    let used = |client: &mut Client| client.info_number("memory", "used_memory");
    client.run(named("n"));
    let before = used(client);
    run_all(client, (0..MANY).map(|i| set_policy(&name(i), "")));
    let taken = used(client) - before;
    check("INFO", LONGEST, |_| took(client, "info", "INFO rl"));
    check("SET", SHORT, |i| took(client, "rl.policy|set", set_policy(&name(i), "FOR 1h")));
    check("GET", SHORT, |i| took(client, "rl.policy|get", format!("RL.POLICY GET {}", name(i))));
    check("DEL", SHORT, |i| took(client, "rl.policy|del", format!("RL.POLICY DEL {}", name(i))));
    check("DEL of 1000", LONGEST, |i| {
        let names = (1000 + 1000 * i..2000 + 1000 * i).map(name);
        took(client, "rl.policy|del", args(names).behind("RL.POLICY DEL"))
    });
    // 18 elements each.
    check("LIST", 40 * LONGEST, |_| took(client, "rl.policy|list", "RL.POLICY LIST"));
    run_all(client, (0..MANY).map(|i| words(&format!("RL.POLICY DEL {}", name(i)))));
    let left = used(client) - before;
    eprintln!("{taken} bytes for {MANY} policies, {left} when they are gone");
    assert!(left < taken / 10, "{left} of {taken} bytes are left");
}

/// A hundred thousand policies run out at the same time: commands stop showing them at once, and their memory is
/// freed bit by bit.
#[test]
fn many_policies_that_run_out() {
    let server = Server::start();
    let mut client = server.client();
    let used = |client: &mut Client| client.info_number("memory", "used_memory");
    let nothing = client.info("rl", "rl_policies_digest");
    within_bounds(|| {
        let empty = used(&mut client);
        let end_ms = set_all_for_a_time(&mut client);
        assert_ne!(client.info("rl", "rl_policies_digest"), nothing);
        let taken = used(&mut client) - empty;
        let pings = Pings::start(&server);
        sleep_until(&mut client, end_ms + 100);
        let longest = pings.longest();
        assert_eq!(client.info("rl", "rl_policies_digest"), nothing);
        assert_eq!(client.info_number("rl", "rl_policies"), 0);
        assert_eq!(array(&client.run("RL.POLICY LIST")).len(), 0);
        let pings = Pings::start(&server);
        let begun = Instant::now();
        wait_for("their memory", || {
            thread::sleep(Duration::from_millis(200));
            (used(&mut client) - empty < taken / 4).then_some(())
        });
        let longest = longest.max(pings.longest());
        let found = format!("PING {longest:?}, gone in {:?}", begun.elapsed());
        eprintln!("{found}");
        if longest < LONGEST_PING { Ok(()) } else { Err(found) }
    });
}

/// All of them end at about the same time, which is returned.
fn set_all_for_a_time(client: &mut Client) -> i64 {
    let end_ms = client.time_ms() + 3000;
    for i in (0..MANY).step_by(1000) {
        let for_ms = (end_ms - client.time_ms()).max(1);
        let some = (i..i + 1000).map(|i| set_policy(&name(i), &format!("FOR {for_ms}")));
        run_all(client, some);
    }
    end_ms
}

#[test]
fn a_call_with_as_many_policies_for_a_time_as_a_name_can_have() {
    let server = Server::start();
    let mut client = server.client();
    for i in 0..64 {
        client.run(set_policy("n", &format!("FOR {}h", 100 - i)));
    }
    check("SET on all of them", SHORT, |_| {
        took(&mut client, "rl.policy|set", set_policy("n", "FOR 37h"))
    });
}

#[test]
fn ten_thousand_policies_cost_a_call_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let cost = |client: &mut Client, number: fn(usize) -> usize| {
        (0..10)
            .map(|_| {
                client.run("CONFIG RESETSTAT");
                let calls = (0..2000).map(|i| policies::call("k", &policies::numbered(number(i))));
                run_all(client, calls.map(Words::from));
                client.info("commandstats", "cmdstat_rl.acquirex")
            })
            .map(|stats| stat(&stats, "usec_per_call"))
            .fold(f64::MAX, f64::min)
    };
    policies::set(&mut client, &policies::numbered(0), 2, "");
    let before = cost(&mut client, |_| 0);
    policies::set_ten_thousand(&mut client);
    let same = cost(&mut client, |_| 0);
    let spread = cost(&mut client, |i| i * 5);
    eprintln!("a call: {before} µs with one policy, then {same} µs, {spread} µs over all names");
    assert!(same < 2.0 * before + 0.5, "{before} µs with one policy, {same} with many");
    assert!(spread < 3.0 * before + 1.0, "{before} µs with one policy, {spread} over all names");
}

/// A megabyte of anything is read once, from the front.
#[test]
fn a_call_with_a_long_argument() {
    const MEGABYTE: usize = 1 << 20;
    let server = Server::start();
    let mut client = server.client();
    let rule = "WINDOW 10d LIMIT 5 ALGO fixed";
    for rules in [
        " ".repeat(MEGABYTE),
        "x ".repeat(MEGABYTE / 2),
        "WINDOW ".repeat(MEGABYTE / 7),
        format!("{rule} NAME {}", "n".repeat(MEGABYTE)),
        format!("{rule} ").repeat(MEGABYTE / rule.len()),
        format!("{rule} {}", "COST 1 ".repeat(MEGABYTE / 7)),
    ] {
        check(&format!("{:?}", &rules[..60]), LONGEST, |_| {
            client.run("CONFIG RESETSTAT");
            client.error(words("RL.ACQUIREX k").arg(&rules));
            let stats = client.info("commandstats", "cmdstat_rl.acquirex");
            Duration::from_micros(stat(&stats, "usec") as u64)
        });
    }
}

#[test]
fn a_call_with_many_names() {
    let server = Server::builder().conf("rl.max-names 100000").start();
    let mut client = server.client();
    let client = &mut client;
    run_all(client, (0..MANY - MOST_TRIES).map(|i| named(&name(i))));
    check("a call under a new name", SHORT, |i| {
        took(client, "rl.acquirex", named(&name(MANY - 1 - i)))
    });
    // A line each, 6 MB.
    check("INFO", 30 * LONGEST, |_| took(client, "info", "INFO rl"));
}

#[test]
fn the_keys_denied_most_among_many() {
    let server =
        Server::builder().conf("rl.top-capacity 65536").conf("rl.top-period 86400000").start();
    let mut client = server.client();
    let client = &mut client;
    let deny = |client: &mut Client, keys: Range<usize>| {
        let call = |i| words(&format!("RL.ACQUIRE key:{i} WINDOW 1d LIMIT 0 ALGO fixed"));
        run_all(client, keys.map(call));
    };
    let mut begun_ms = client.time_ms();
    deny(client, 0..70_000);
    check("RL.TOP", LONGEST, |_| took(client, "rl.top", "RL.TOP"));
    check("RL.TOP of all", 20 * LONGEST, |_| took(client, "rl.top", "RL.TOP COUNT 65536"));
    // Denies keys in one period, and lets it end.
    let mut next_period = |client: &mut Client, keys: Range<usize>| {
        deny(client, keys);
        sleep_until(client, begun_ms + 1600);
        let period_ms = (client.time_ms() - begun_ms) * 2 / 3;
        client.run(format!("CONFIG SET rl.top-period {period_ms}"));
        let took = took(client, "rl.top", "RL.TOP");
        client.run("CONFIG SET rl.top-period 86400000");
        begun_ms += period_ms;
        took
    };
    check("RL.TOP when a period ends", LONGEST, |_| next_period(client, 0..60_000));
    // Each key is denied once, and the two periods have different keys.
    deny(client, 60_000..120_000);
    assert_eq!(client.info_number("rl", "rl_top_tracked"), 120_000);
    // RL.TOP has to look at all of them.
    check("RL.TOP of keys that are alike", 2 * LONGEST, |_| took(client, "rl.top", "RL.TOP"));
    let mut capacity = 65_536;
    check("RL.TOP after another capacity", LONGEST, |_| {
        deny(client, 0..60_000);
        capacity -= 1;
        client.run(format!("CONFIG SET rl.top-capacity {capacity}"));
        took(client, "rl.top", "RL.TOP")
    });
}
