//! The single calls that hold the server longest, with as much in the module as it can be told to
//! keep.
//!
//! A call's time is the server's own (`INFO commandstats`). Where no call does the work, it is the
//! longest that a PING of another client took.

use std::error::Error;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Words, args, words};

use crate::server::{OURS, Server, Setup};
use crate::stats::median;
use crate::table::whole;
use crate::waiters::{WAITERS, Waiters};

/// Names of policies that are deleted in one call.
const DELETED: usize = 1000;
/// Keys of the largest call.
const KEYS: usize = 1024;
/// How much is sent at once.
const BATCH: usize = 1000;

/// A call, or what happens by itself.
pub struct Call {
    /// What it is.
    pub what: String,
    /// What it is done to.
    pub on: String,
    /// How long it holds the server, in µs.
    pub micros: f64,
}

/// Calls whose own data is what takes the time.
const BULK: [&str; 6] = ["RL.POLICY LIST", "INFO rl", "RL.TOP COUNT", "DUMP", "RESTORE", "COPY"];

impl Call {
    /// Whether it answers, copies or reads as much as there is.
    pub fn is_bulk(&self) -> bool {
        BULK.iter().any(|what| self.what.starts_with(what))
    }
}

/// Measures all of them with so much of everything, each so many times. The longest comes first.
pub fn measure(setup: &Setup, many: usize, tries: usize) -> Result<Vec<Call>, Box<dyn Error>> {
    let mut found = Vec::new();
    for part in [leases, policies, arguments, names, top, waiters] {
        let mut server = Server::start(&Setup { libraries: &[OURS], ..setup.clone() })?;
        let client = server.client();
        part(&mut server, &mut Bench { client, many, tries, found: &mut found })?;
    }
    found.sort_by(|a, b| b.micros.total_cmp(&a.micros));
    Ok(found)
}

/// Runs commands, all of which succeed.
fn run_all(client: &mut Client, mut commands: impl Iterator<Item = Words>) -> Result<(), String> {
    loop {
        let some: Vec<Words> = commands.by_ref().take(BATCH).collect();
        if some.is_empty() {
            return Ok(());
        }
        client.pipeline(some).into_iter().collect::<Result<Vec<_>, _>>()?;
    }
}

struct Bench<'a> {
    client: Client,
    many: usize,
    tries: usize,
    found: &'a mut Vec<Call>,
}

impl Bench<'_> {
    /// Times a command, which the server's statistics know by this name. `command` may set something
    /// up, which is not timed.
    fn time(
        &mut self,
        what: &str,
        on: &str,
        known_as: &str,
        mut command: impl FnMut(&mut Client, usize) -> Words,
    ) -> Result<(), Box<dyn Error>> {
        let mut times = Vec::new();
        for turn in 0..self.tries {
            let command = command(&mut self.client, turn);
            self.client.run("CONFIG RESETSTAT");
            // Some are answered by an error, which takes its time, too.
            let _ = self.client.call(command);
            let stats = self.client.info("commandstats", &format!("cmdstat_{known_as}"));
            let micros = stats.split(',').find_map(|pair| pair.strip_prefix("usec="));
            times.push(micros.ok_or_else(|| format!("{what}: not called"))?.parse()?);
        }
        self.add(what, on, median(&mut times));
        Ok(())
    }

    fn add(&mut self, what: &str, on: &str, micros: f64) {
        self.found.push(Call { what: what.into(), on: on.into(), micros });
    }

    /// The longest PING of another client in so long a time. Neither the time of other processes
    /// counts nor what the server did while this one slept.
    fn longest_ping(&mut self, time: Duration) -> Result<f64, Box<dyn Error>> {
        let pid = self.client.info("server", "process_id");
        let clock = format!("/proc/{pid}/task/{pid}/schedstat");
        let worked = || -> Result<Duration, Box<dyn Error>> {
            let text = fs::read_to_string(&clock)?;
            let nanos = text.split(' ').next().unwrap_or_default().parse()?;
            Ok(Duration::from_nanos(nanos))
        };
        let (begun, mut longest) = (Instant::now(), Duration::ZERO);
        while begun.elapsed() < time {
            let (sent, before) = (Instant::now(), worked()?);
            self.client.run("PING");
            let took = sent.elapsed();
            longest = longest.max(took.min(worked()?.saturating_sub(before)));
            thread::sleep(Duration::from_micros(300));
        }
        Ok(longest.as_secs_f64() * 1e6)
    }
}

/// How long something lasts that is to end once all of it is there and was looked at.
fn soon(many: usize) -> Duration {
    Duration::from_secs(1) + many as u32 * Duration::from_micros(40)
}

fn number(many: usize) -> String {
    whole(many as f64)
}

fn name(number: usize) -> String {
    format!("name-{number}")
}

fn leases(_: &mut Server, bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let many = bench.many;
    let lease = |key: &str, window: &str, id: &str, cost: usize| {
        let rule = format!("WINDOW {window} LIMIT {many} ALGO concurrency COST {cost} ID {id}");
        words("RL.ACQUIREX").arg(key).arg(rule)
    };
    let window = format!("{}", soon(many).as_millis());
    run_all(
        &mut bench.client,
        (1..many).map(|i| lease("some", &window, &format!("holder:{i}"), 1)),
    )?;
    bench.client.run(lease("some", "1h", "last", 1));
    bench.client.run("COPY some all");
    bench.client.run("RL.RELEASE all ID last");
    let on = format!("{} leases", number(many));
    let fresh = |client: &mut Client| drop(client.run("COPY some copy REPLACE"));
    let denial = |_: &mut Client, _| lease("some", "1h", "other", many);
    bench.time("a denial", &on, "rl.acquirex", denial)?;
    let renewal = |_: &mut Client, _| lease("some", "1h", "last", 1);
    bench.time("a lease renewed", &on, "rl.acquirex", renewal)?;
    bench.time("RL.INFO", &on, "rl.info", |_, _| words("RL.INFO some"))?;
    bench.time("DUMP", &on, "dump", |_, _| words("DUMP some"))?;
    let dump = bench.client.bytes("DUMP some");
    bench.time("RESTORE", &on, "restore", |_, _| {
        words("RESTORE restored 0").arg(&dump).arg("REPLACE")
    })?;
    bench.time("COPY", &on, "copy", |client, _| {
        client.run("DEL copy");
        words("COPY some copy")
    })?;
    bench.time("DEL", &on, "del", |client, _| {
        fresh(client);
        words("DEL copy")
    })?;
    bench.client.run("PERSIST all");
    thread::sleep(soon(many));
    for (key, ended) in [("some", "all but one have ended"), ("all", "all have ended")] {
        let on = format!("{on}, {ended}");
        bench.time("a grant", &on, "rl.acquirex", |client, turn| {
            client.run(format!("COPY {key} copy REPLACE"));
            lease("copy", "1h", &format!("new:{turn}"), 1)
        })?;
    }
    Ok(())
}

fn set_policy(name: &str, options: &str) -> Words {
    words(&format!("RL.POLICY SET {name} WINDOW 1m LIMIT 5 ALGO bucket {options}"))
}

fn policies(_: &mut Server, bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let many = bench.many;
    run_all(&mut bench.client, (0..many).map(|i| set_policy(&name(i), "")))?;
    let on = format!("{} policies", number(many));
    bench.time("RL.POLICY LIST", &on, "rl.policy|list", |_, _| words("RL.POLICY LIST"))?;
    bench.time("INFO rl", &on, "info", |_, _| words("INFO rl"))?;
    bench.time("RL.POLICY SET", &on, "rl.policy|set", |_, i| set_policy(&name(i), "FOR 1h"))?;
    bench.time(
        &format!("RL.POLICY DEL of {}", number(DELETED)),
        &on,
        "rl.policy|del",
        |_, turn| args((turn * DELETED..(turn + 1) * DELETED).map(name)).behind("RL.POLICY DEL"),
    )?;
    let end_ms = bench.client.time_ms() + soon(many).as_millis() as i64;
    for from in (0..many).step_by(BATCH) {
        let for_ms = (end_ms - bench.client.time_ms()).max(1);
        run_all(
            &mut bench.client,
            (from..from + BATCH).map(|i| set_policy(&name(i), &format!("FOR {for_ms}"))),
        )?;
    }
    let left_ms = u64::try_from(end_ms - bench.client.time_ms()).unwrap_or(0);
    let longest = bench.longest_ping(Duration::from_millis(left_ms) + soon(many))?;
    bench.add("PING of another client", &format!("{on} run out"), longest);
    Ok(())
}

fn arguments(_: &mut Server, bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    const MEGABYTE: usize = 1 << 20;
    let rule = "WINDOW 10d LIMIT 5 ALGO fixed ";
    for (on, text) in [
        ("1 MB of white space", " ".repeat(MEGABYTE)),
        ("1 MB of rules", rule.repeat(MEGABYTE / rule.len())),
        ("a NAME of 1 MB", format!("{rule}NAME {}", "n".repeat(MEGABYTE))),
        ("1 MB of COST 1", format!("{rule}{}", "COST 1 ".repeat(MEGABYTE / 7))),
    ] {
        bench.time("an error", on, "rl.acquirex", |_, _| words("RL.ACQUIREX k").arg(&text))?;
    }
    let on = format!("{} keys", number(KEYS));
    let call = |turn: usize| {
        args((0..KEYS).map(|i| format!("{turn}:{i}"))).behind("RL.ACQUIREX").arg(rule)
    };
    bench.time("a grant", &format!("{on}, all new"), "rl.acquirex", |_, turn| call(turn))?;
    bench.time("a grant", &on, "rl.acquirex", |_, turn| call(turn))?;
    Ok(())
}

fn names(_: &mut Server, bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let many = bench.many;
    bench.client.run(format!("CONFIG SET rl.max-names {many}"));
    let named =
        |i| words("RL.ACQUIREX k").arg(format!("WINDOW 10d LIMIT 5 ALGO fixed NAME {}", name(i)));
    run_all(&mut bench.client, (bench.tries..many).map(named))?;
    let on = format!("{} names", number(many));
    bench.time("a call under a new name", &on, "rl.acquirex", |_, turn| named(turn))?;
    bench.time("INFO rl", &on, "info", |_, _| words("INFO rl"))
}

fn top(_: &mut Server, bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let capacity = bench.many.min(65_536);
    let config = |client: &mut Client, name: &str, value: usize| {
        client.run(format!("CONFIG SET rl.top-{name} {value}"));
    };
    config(&mut bench.client, "capacity", capacity);
    config(&mut bench.client, "period", 86_400_000);
    let deny = |client: &mut Client| {
        let call = |i| words(&format!("RL.ACQUIRE key:{i} WINDOW 1d LIMIT 0 ALGO fixed"));
        run_all(client, (0..capacity).map(call))
    };
    deny(&mut bench.client)?;
    let on = format!("{} keys denied", number(capacity));
    bench.time("RL.TOP", &on, "rl.top", |_, _| words("RL.TOP"))?;
    let all = format!("RL.TOP COUNT {capacity}");
    bench.time(&all, &on, "rl.top", |_, _| words(&all))?;
    // It forgets them, once for each capacity.
    let mut denied = Ok(());
    let changed = format!("{on}, then another capacity");
    bench.time("RL.TOP", &changed, "rl.top", |client, turn| {
        denied = denied.clone().and(deny(client));
        config(client, "capacity", capacity - 1 - turn);
        words("RL.TOP")
    })?;
    Ok(denied?)
}

fn waiters(server: &mut Server, bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let _waiters = Waiters::come(server)?;
    bench.client.run(Waiters::LET_IN);
    let longest = bench.longest_ping(Duration::from_millis(500))?;
    bench.add(
        "PING of another client",
        &format!("{} waiters are let in at once", number(WAITERS as usize)),
        longest,
    );
    Ok(())
}
