//! A hundred connections send a mix of all the module's commands to a cluster node with I/O threads.
//!
//! If keys were movable, such a node would ask the module for them from its threads. The server's code is not safe
//! for that: with an AOF or a replica it crashed within a second or two. So no command has movable keys, and under
//! this load one would show. `RL_IO_THREADS_SECONDS` says how long it lasts for each configuration, by default 2.
//!
//! Half of the calls take permits that time does not give back, and return them later. The test counts for each
//! limiter what the clients have: up after the answer of a grant, down before permits are returned. So the count is
//! never above what the server gave, and a count above LIMIT is an overrun. At the end both are equal. The other half
//! of the calls is everything else.

use std::env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use testkit::{Builder, Client, Random, Server, Words, wait_for, words};

use crate::calls::{self, ALGORITHMS, assert_same_digest, capacity};
use crate::load::is_following;

const CONNECTIONS: usize = 100;
/// How many calls a connection sends in one go.
const DEPTH: usize = 16;
/// Few enough to run out.
const LIMIT: u64 = 60;
/// Limiters that share a rule.
const PAIR: usize = 2;
const TAGS: [&str; 3] = ["{a}", "{b}", "{c}"];

fn duration() -> Duration {
    let seconds = env::var("RL_IO_THREADS_SECONDS").unwrap_or("2".into());
    Duration::from_secs_f64(seconds.parse().expect("a number in RL_IO_THREADS_SECONDS"))
}

// ---------------------------------------------------------------------------------------- what is counted

/// A limiter whose permits come back by hand only.
struct Limiter {
    key: String,
    rule: String,
    is_leased: bool,
    capacity: i64,
    /// Permits that the clients have and know of.
    taken: AtomicI64,
}

impl Limiter {
    fn new(tag: &str, algorithm: &str, number: usize) -> Limiter {
        Limiter {
            key: format!("{tag}:{algorithm}:{number}"),
            rule: format!("WINDOW 3650d LIMIT {LIMIT} ALGO {algorithm}"),
            is_leased: algorithm == "concurrency",
            capacity: capacity(algorithm, LIMIT),
            taken: AtomicI64::new(0),
        }
    }

    fn took(&self, permits: i64) {
        let taken = self.taken.fetch_add(permits, Ordering::SeqCst) + permits;
        assert!(taken <= self.capacity, "{taken} permits of {} are taken", self.key);
    }
}

/// The limiters of one hash tag: pairs of the same rule, one pair after the other.
fn limiters(tag: &str) -> Vec<Limiter> {
    let algorithms = ALGORITHMS.into_iter().chain(["concurrency"]);
    let pair = |algorithm| (0..PAIR).map(move |number| Limiter::new(tag, algorithm, number));
    algorithms.flat_map(pair).collect()
}

/// What the answer to a call means.
enum Meaning<'a> {
    /// Permits were taken from these limiters, this many for each acquisition.
    Take(Grant<'a>),
    /// This many limiters changed.
    GiveBack(usize),
    /// The test does not count it.
    Other,
}

/// Permits that a connection has from each of these limiters.
struct Grant<'a> {
    limiters: Vec<&'a Limiter>,
    permits: i64,
    /// The name of the lease, where there is one among them.
    id: String,
}

/// One of the hundred connections.
struct Connection<'a> {
    client: Client,
    random: Random,
    name: usize,
    /// Whether its calls wait. Few do: Redis 8 stops an I/O thread for each client that begins to wait.
    waits: bool,
    limiters: &'a [Vec<Limiter>],
    grants: Vec<Grant<'a>>,
    leases: usize,
}

type Call<'a> = (Words, Meaning<'a>);

fn keys(limiters: &[&Limiter]) -> Words {
    limiters.iter().fold(words(""), |words, limiter| words.arg(&limiter.key))
}

impl<'a> Connection<'a> {
    fn new(client: Client, name: usize, limiters: &'a [Vec<Limiter>]) -> Connection<'a> {
        let random = Random(name as u64);
        let waits = name < CONNECTIONS / 5;
        Connection { client, random, name, waits, limiters, grants: Vec::new(), leases: 0 }
    }

    /// Calls that are sent together.
    fn batch(&mut self) -> Vec<Call<'a>> {
        let mut calls = Vec::new();
        while calls.len() < DEPTH {
            match self.random.below(8) {
                0 => calls.push(self.acquire()),
                1 | 2 => calls.push(self.acquirex()),
                3 => calls.extend(self.give_back()),
                _ => calls.push((other(&mut self.random, self.waits), Meaning::Other)),
            }
        }
        calls
    }

    /// `RL.ACQUIRE` on one or both of a pair.
    fn acquire(&mut self) -> Call<'a> {
        let spent = &self.limiters[self.random.below(TAGS.len())][..ALGORITHMS.len() * PAIR];
        let pair = spent.chunks(PAIR).nth(self.random.below(ALGORITHMS.len())).expect("a pair");
        let limiters: Vec<_> = pair[self.random.below(PAIR)..].iter().collect();
        let call = keys(&limiters).behind("RL.ACQUIRE").then(&limiters[0].rule);
        (call, Meaning::Take(Grant { limiters, permits: 1, id: String::new() }))
    }

    /// `RL.ACQUIREX` on some limiters, with a rule for each.
    fn acquirex(&mut self) -> Call<'a> {
        let random = &mut self.random;
        let all = &self.limiters[random.below(TAGS.len())];
        let (first, step) = (random.below(all.len()), 1 + random.below(3));
        let limiters: Vec<_> =
            (0..1 + random.below(3)).map(|i| &all[(first + i * step) % all.len()]).collect();
        let permits = 1 + i64::from(random.one_in(4));
        let rule = |limiter: &&Limiter| format!("{} COST {permits} ", limiter.rule);
        let mut rules: String = limiters.iter().map(rule).collect();
        self.leases += 1;
        let id = format!("{}-{}", self.name, self.leases);
        if limiters.iter().any(|limiter| limiter.is_leased) {
            rules += &format!("ID {id} ");
        }
        rules += if self.waits {
            random.pick(&["TIMEOUT 5", "TIMEOUT 20 WITHKEYS"])
        } else {
            random.pick(&["", "UPTO 3", "WITHKEYS"])
        };
        let call = keys(&limiters).behind("RL.ACQUIREX").arg(rules);
        (call, Meaning::Take(Grant { limiters, permits, id }))
    }

    /// `RL.REFUND` and `RL.RELEASE` of what one call took.
    fn give_back(&mut self) -> Vec<Call<'a>> {
        if self.grants.is_empty() {
            return Vec::new();
        }
        let Grant { limiters, permits, id } =
            self.grants.swap_remove(self.random.below(self.grants.len()));
        for limiter in &limiters {
            limiter.taken.fetch_sub(permits, Ordering::SeqCst);
        }
        let (leased, spent): (Vec<_>, Vec<_>) =
            limiters.into_iter().partition(|limiter| limiter.is_leased);
        let refund = keys(&spent).behind("RL.REFUND").then(&format!("COST {permits}"));
        let release = keys(&leased).behind("RL.RELEASE").then(&format!("ID {id}"));
        [(spent.len(), refund), (leased.len(), release)]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, call)| (call, Meaning::GiveBack(count)))
            .collect()
    }

    /// Sends calls together, and counts what their answers mean.
    fn exchange(&mut self, calls: Vec<Call<'a>>) -> Result<(), String> {
        let (commands, meanings): (Vec<Words>, Vec<Meaning>) = calls.into_iter().unzip();
        self.client.try_send(&commands)?;
        for (command, meaning) in commands.iter().zip(meanings) {
            let answer = self.client.receive();
            let answer = answer.map_err(|line| format!("{line}, to {:?}", command.lossy()))?;
            match meaning {
                Meaning::Take(grant) => self.take(grant, &answer),
                Meaning::GiveBack(count) => {
                    assert_eq!(answer, Value::Int(count as i64), "{:?}", command.lossy());
                }
                Meaning::Other => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, grant: Grant<'a>, answer: &Value) {
        let Value::Array(fields) = answer else { panic!("no fields: {answer:?}") };
        let Some(Value::Int(granted)) = fields.first() else { panic!("no number: {answer:?}") };
        if *granted > 0 {
            let permits = grant.permits * granted;
            grant.limiters.iter().for_each(|limiter| limiter.took(permits));
            self.grants.push(Grant { permits, ..grant });
        }
    }
}

/// Any call of any command, with any option, with a policy, mostly on limiters of its own.
fn other(random: &mut Random, waits: bool) -> Words {
    let tag = random.pick(&TAGS);
    let key = format!("{tag}:any:{}", random.below(4));
    let (algorithm, id) = (random.pick(&ALGORITHMS), random.below(20));
    let counted = format!("{tag}:{algorithm}:0");
    let acquirex =
        |rules: &str| words("RL.ACQUIREX").arg(&key).arg(format!("{tag}:other")).arg(rules);
    let short = "WINDOW 20ms LIMIT 4 ALGO";
    let wait = if waits { "TIMEOUT 10" } else { "" };
    match random.below(24) {
        0 => words(&format!("RL.ACQUIRE {key} {short} {algorithm}")),
        1 => words(&format!("CL.THROTTLE {key} 4 100 1 2")),
        2 => acquirex(&format!("{short} {algorithm} NAME plan {wait}")),
        3 => acquirex(&format!("{short} {algorithm} BLOCK 3 {short} sliding COST 2 WITHKEYS")),
        4 => acquirex(&format!("{short} bucket BURST 9 COST 2 RESERVE 10")),
        5 => acquirex(&format!("{short} fixed OFFSET -3 COST 3 FORCE")),
        6 => acquirex(&format!("{short} counter UPTO 3 {wait}")),
        7 => acquirex(&format!("{short} concurrency ID {id} {wait}")),
        8 | 9 => words("RL.PEEK").arg(&key).arg(format!("{short} {algorithm} UPTO 2 WITHKEYS")),
        10 | 11 => words("RL.PEEK").arg(&counted).arg(format!("{short} {algorithm} COST 0")),
        12 => words(&format!("RL.REFUND {key} {tag}:other COST 2")),
        13 => words(&format!("RL.RELEASE {key} {tag}:other ID {id}")),
        14 => words(&format!("RL.BLOCK {key} {tag}:other FOR {}", random.below(4))),
        15 => words(&format!("RL.BLOCK {counted} FOR 2")),
        16 => words(&format!("RL.EXEMPT {key} {tag}:other FOR {}", random.below(4))),
        17 => words(&format!("RL.INFO {key}")),
        18 => words(&format!("RL.INFO {counted}")),
        19 => words(&format!("RL.POLICY SET plan {short} {algorithm} FOR 5")),
        20 => words(&format!("RL.POLICY SET plan {short} bucket BURST 6 BLOCK 2 SHADOW")),
        21 => words(random.pick(&["RL.POLICY GET plan", "RL.POLICY DEL plan"])),
        22 => words(random.pick(&["RL.POLICY LIST", "RL.POLICY HELP"])),
        _ => words("RL.TOP COUNT 3"),
    }
}

// ---------------------------------------------------------------------------------------- the nodes

/// A node with I/O threads, if this server has them.
fn node() -> Builder {
    let probe = Server::builder().without_module().start();
    let mut client = probe.client();
    ["io-threads 2", "io-threads-do-reads yes"]
        .into_iter()
        .filter(|line| {
            let name = line.split(' ').next().expect("a name");
            !client.texts(format!("CONFIG GET {name}")).is_empty()
        })
        .fold(Server::builder().cluster_node().module_args("cl-throttle yes"), Builder::conf)
}

/// A primary of all slots.
fn primary(node: Builder) -> Server {
    let primary = node.start();
    let mut client = primary.client();
    client.run("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_for("the cluster", || {
        client.text("CLUSTER INFO").contains("cluster_state:ok").then_some(())
    });
    primary
}

fn replica(node: Builder, primary: &Server) -> Server {
    let replica = node.start();
    let mut client = replica.client();
    client.run(format!("CLUSTER MEET 127.0.0.1 {} {}", primary.port(), primary.bus_port()));
    let id = primary.client().text("CLUSTER MYID");
    wait_for("the primary to be known", || client.call(format!("CLUSTER REPLICATE {id}")).ok());
    wait_for("the replica", || is_following(&replica).then_some(()));
    replica
}

/// The lines of a log that tell of a crash.
fn crash(server: &Server) -> String {
    let log = server.log();
    let report = log.lines().skip_while(|line| !line.contains("BUG REPORT START"));
    report.take(4).collect::<Vec<_>>().join("\n")
}

/// Runs the load until the time is up or the node is gone.
fn load(primary: &Server, limiters: &[Vec<Limiter>]) {
    let connect = |name| Connection::new(primary.client(), name, limiters);
    let connections: Vec<Connection> = (0..CONNECTIONS).map(connect).collect();
    let (begun, failure) = (Instant::now(), OnceLock::new());
    let end = begun + duration();
    let run = &|mut connection: Connection| {
        let mut calls = 0;
        while Instant::now() < end && failure.get().is_none() {
            let batch = connection.batch();
            calls += batch.len();
            if let Err(line) = connection.exchange(batch) {
                // Only the first failure is of interest.
                let _ = failure.set(format!("after {:?}: {line}", begun.elapsed()));
            }
        }
        calls
    };
    let calls: usize = thread::scope(|scope| {
        let start = |connection| scope.spawn(move || run(connection));
        let threads: Vec<_> = connections.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a connection")).sum()
    });
    if let Some(line) = failure.get() {
        panic!("{line}\n{}", crash(primary));
    }
    eprintln!("{calls} calls in {:?}", begun.elapsed());
}

/// Asserts that each command of the module was called and none failed, that clients waited with and without success,
/// and that threads read the calls.
fn assert_all_was_called(client: &mut Client) {
    let commands = client.texts("COMMAND LIST FILTERBY MODULE rl");
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands.iter().filter(|command| !command.starts_with("rl._")) {
        // A command with subcommands is not called itself.
        let is_called = !commands.iter().any(|other| other.starts_with(&format!("{command}|")));
        let figures = client.info("commandstats", &format!("cmdstat_{command}"));
        assert!(!is_called || figures.contains("failed_calls=0"), "{command}: {figures:?}");
    }
    for name in ["rl_granted", "rl_denied", "rl_waits_granted", "rl_waits_timed_out"] {
        assert!(client.info_number("rl", name) > 0, "{name}");
    }
    if client.call("CONFIG GET io-threads").is_ok_and(|pair| pair != Value::Array(Vec::new())) {
        assert!(client.info_number("stats", "io_threaded_reads_processed") > 0, "no threads");
    }
}

/// Asserts that limiters have in use what the clients have.
fn assert_exact(client: &mut Client, limiters: &[Vec<Limiter>]) {
    for limiter in limiters.iter().flatten() {
        let used = calls::info(client, &limiter.key, "used");
        assert_eq!(used, limiter.taken.load(Ordering::SeqCst), "{}", limiter.key);
    }
}

fn lives(with_aof: bool, with_replica: bool) {
    let mut node = node();
    if with_aof {
        node = node.conf("appendonly yes");
    }
    let primary = primary(node.clone());
    let replica = with_replica.then(|| replica(node, &primary));
    let mut client = primary.client();
    let run = client.info("server", "run_id");
    let limiters: Vec<Vec<Limiter>> = TAGS.iter().map(|tag| limiters(tag)).collect();
    load(&primary, &limiters);
    assert_eq!(client.info("server", "run_id"), run);
    assert_all_was_called(&mut client);
    assert_exact(&mut client, &limiters);
    if let Some(replica) = &replica {
        // Keys would go on expiring during the comparison.
        client.run("DEBUG SET-ACTIVE-EXPIRE 0");
        assert_same_digest(&primary, replica);
        let mut behind = replica.client();
        let digest = |client: &mut Client| client.info("rl", "rl_policies_digest");
        wait_for("the same policies", || {
            (digest(&mut client) == digest(&mut behind)).then_some(())
        });
    }
    if with_aof {
        // The server forgets everything and reads the file.
        client.run("DEBUG LOADAOF");
        assert_exact(&mut client, &limiters);
    }
}

#[test]
fn a_node_lives_without_aof_and_replica() {
    lives(false, false);
}

#[test]
fn a_node_lives_with_an_aof() {
    lives(true, false);
}

#[test]
fn a_node_lives_with_a_replica() {
    lives(false, true);
}

#[test]
fn a_node_lives_with_an_aof_and_a_replica() {
    lives(true, true);
}
