//! Puts many limiters under load from several threads, and checks the clients' own logs against the promises of the
//! rules.
//!
//! # When a grant happened
//!
//! Client and server share a clock here, and the server decides in whole milliseconds of it. A client notes the
//! millisecond before it sends a call and the one after it has read the reply, both rounded down as the server does.
//! The server's own millisecond lies between the two, so a grant counts in a window only when both are inside: it was
//! certainly granted there, and no allowance for rounding is needed. A reported overrun is real; an overrun by fewer
//! grants than are under way at the edges of a window may go unnoticed.
//!
//! # Which grants a failover lost
//!
//! Replication is asynchronous: no other node knows what a primary acknowledged but did not send on before it died.
//! To count these grants, an `INCR` of a ledger follows each call in the same pipeline. A ledger is a plain key in
//! the slot of the call's limiters. It belongs to one thread and one connection, so it counts the calls of one
//! sequence. A replica has a prefix of what its primary did. So if the ledger that survived says `n`, the new primary
//! knows the calls up to `n` of that sequence, and a grant with a higher number is lost. (If the cut went between a
//! call and its `INCR`, one known grant of a thread counts as lost: the number is never too small.) After an error a
//! thread starts a new ledger, so the old one stays as the new primary inherited it, and can be read at the end.
//!
//! A client does not act upon a grant that was not acknowledged (no reply, or no replica confirmed it). Such a grant
//! takes room and counts nowhere.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::time::Duration;

use redis::Value;
use testkit::{Client, Random, Server, Words, acquire, bytes_of, wait_for, words};

use crate::calls::{ALGORITHMS, capacity};

pub mod anything;
mod io_threads;
mod soak;
mod verdict;
mod worker;

pub use verdict::*;
pub use worker::*;

/// Limiters of one rule and one hash tag.
const KEYS: usize = 3;
/// Longer than any test runs: what was granted before a failover counts after it.
const LONG_MS: i64 = 10 * 24 * 3600 * 1000;
/// So short that permits come back while a test runs.
const SHORT_MS: i64 = 3_000;
/// How long a thread rests between two calls.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a failover may take. It is a matter of seconds, unless a vote has to be repeated.
pub const OUTAGE: Duration = Duration::from_secs(60);
/// How long to wait for a replica, in ms.
const CONFIRM_MS: u64 = 50;

// ---------------------------------------------------------------------------------------- promises

/// A rule of `RL.ACQUIRE`.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    algorithm: &'static str,
    window_ms: i64,
    limit: i64,
}

/// Something happened at some moment between these two, both included. In ms.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    from_ms: i64,
    to_ms: i64,
}

/// How many spans lie between two moments, both included.
fn within(spans: &[Span], from_ms: i64, to_ms: i64) -> i64 {
    spans.iter().filter(|span| span.from_ms >= from_ms && span.to_ms <= to_ms).count() as i64
}

impl Rule {
    fn text(&self) -> String {
        let Rule { algorithm, window_ms, limit } = self;
        format!("WINDOW {window_ms} LIMIT {limit} ALGO {algorithm}")
    }

    /// How many permits can be free at most.
    pub fn capacity(&self) -> i64 {
        capacity(self.algorithm, self.limit as u64)
    }

    /// Whether its window outlives the test.
    pub fn is_long(&self) -> bool {
        self.window_ms == LONG_MS
    }

    /// The largest number of grants in any window.
    fn most_in_a_window(&self, spans: &[Span]) -> i64 {
        let starting = |span: &Span| within(spans, span.from_ms, span.from_ms + self.window_ms - 1);
        spans.iter().map(starting).max().unwrap_or(0)
    }

    /// By how many grants the worst moment exceeds the promise of the algorithm; 0 or less when the promise was kept.
    fn excess(&self, spans: &[Span]) -> i64 {
        let (window_ms, limit) = (self.window_ms, self.limit);
        let aligned = |k: i64| (k * window_ms, (k + 1) * window_ms - 1);
        let windows: BTreeSet<i64> =
            spans.iter().map(|span| span.from_ms.div_euclid(window_ms)).collect();
        let worst = match self.algorithm {
            // Any window.
            "sliding" => Some(self.most_in_a_window(spans) - limit),
            // Each window of the epoch.
            "fixed" => windows
                .iter()
                .map(|&k| {
                    let (first_ms, last_ms) = aligned(k);
                    within(spans, first_ms, last_ms) - limit
                })
                .max(),
            // previous * (window - elapsed) / window + current, at each moment of each window.
            "counter" => windows
                .iter()
                .flat_map(|&k| {
                    let (before, (first_ms, last_ms)) = (aligned(k - 1), aligned(k));
                    let previous = within(spans, before.0, before.1);
                    let inside = move |span: &&Span| (first_ms..=last_ms).contains(&span.to_ms);
                    spans.iter().filter(inside).map(move |span| {
                        let current = within(spans, first_ms, span.to_ms);
                        let share = previous * (window_ms - (span.to_ms - first_ms));
                        // Rounded up: the smallest number of extra grants that explains it.
                        let over = share + (current - limit) * window_ms;
                        -(-over).div_euclid(window_ms)
                    })
                })
                .max(),
            // From any moment to any other: a full bucket, what flows in meanwhile, and what the millisecond in which
            // it became full kept beyond the cap.
            "bucket" | "leaky" => spans
                .iter()
                .flat_map(|first| {
                    spans.iter().filter(|last| last.to_ms >= first.from_ms).map(|last| {
                        let elapsed_ms = last.to_ms - first.from_ms;
                        let credits = self.capacity() * window_ms + limit * (elapsed_ms + 1) - 1;
                        within(spans, first.from_ms, last.to_ms) - credits / window_ms
                    })
                })
                .max(),
            other => panic!("no promise is known of {other}"),
        };
        worst.unwrap_or(-limit)
    }
}

// ---------------------------------------------------------------------------------------- plans

/// When a call counts as acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// With its reply. No ledger is kept: no node dies.
    Reply,
    /// With its reply, which a failover may belie: a ledger counts the calls.
    CountedReply,
    /// When `WAIT 1` says after the call and its ledger that a replica has both.
    Replica,
}

/// What the threads call: limiters of each algorithm, with a short and a long window, under each hash tag.
pub struct Plan {
    rules: Vec<Rule>,
    tags: Vec<String>,
    acknowledged: Acknowledged,
}

/// One call: some keys of one rule and one hash tag.
#[derive(Clone, Debug)]
struct Call {
    tag: usize,
    rule: usize,
    keys: Vec<usize>,
}

/// A limiter of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limiter {
    tag: usize,
    rule: usize,
    key: usize,
}

impl Plan {
    /// A plan for these hash tags. Long windows hold `limit` permits.
    pub fn new(tags: Vec<String>, limit: i64, acknowledged: Acknowledged) -> Plan {
        let rules = |algorithm| {
            let short = Rule { algorithm, window_ms: SHORT_MS, limit: 30 };
            [short, Rule { algorithm, window_ms: LONG_MS, limit }]
        };
        Plan { rules: ALGORITHMS.into_iter().flat_map(rules).collect(), tags, acknowledged }
    }

    /// All limiters.
    pub fn limiters(&self) -> impl Iterator<Item = Limiter> {
        let (rules, tags) = (self.rules.len(), self.tags.len());
        (0..tags * rules * KEYS).map(move |i| Limiter {
            tag: i / KEYS / rules,
            rule: i / KEYS % rules,
            key: i % KEYS,
        })
    }

    /// A limiter's rule.
    pub fn rule(&self, limiter: Limiter) -> &Rule {
        &self.rules[limiter.rule]
    }

    /// A limiter's key.
    pub fn key(&self, limiter: Limiter) -> String {
        let Rule { algorithm, window_ms, .. } = self.rule(limiter);
        format!("{}:{algorithm}:{window_ms}:{}", self.tags[limiter.tag], limiter.key)
    }

    /// The hash tags.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    fn pick(&self, random: &mut Random) -> Call {
        let first = random.below(KEYS);
        let count = 1 + random.below(KEYS);
        Call {
            tag: random.below(self.tags.len()),
            rule: random.below(self.rules.len()),
            keys: (0..count).map(|i| (first + i) % KEYS).collect(),
        }
    }

    fn command(&self, call: &Call) -> Words {
        let keys: Vec<String> = call.limiters().map(|limiter| self.key(limiter)).collect();
        acquire(&keys.join(" "), &self.rules[call.rule].text())
    }
}

impl Call {
    fn limiters(&self) -> impl Iterator<Item = Limiter> {
        let Call { tag, rule, .. } = *self;
        self.keys.iter().map(move |&key| Limiter { tag, rule, key })
    }
}

// ---------------------------------------------------------------------------------------- routes

/// How a thread finds the primary for a hash tag.
pub trait Route: Send {
    /// A connection to it; `None` when there is none just now.
    fn client(&mut self, tag: usize) -> Option<&mut Client>;

    /// The connection broke, or the node is not what it was.
    fn lost(&mut self, tag: usize);

    /// The tag's slot is at that port.
    fn moved(&mut self, _tag: usize, _port: u16) {
        panic!("this is no cluster");
    }

    /// A connection to that node.
    fn at(&mut self, _port: u16) -> Option<&mut Client> {
        panic!("this is no cluster");
    }
}

/// A minimal client of a cluster: it remembers where the slot of each tag is, and learns it from `MOVED`.
pub struct ClusterRoute {
    nodes: Vec<u16>,
    owners: Vec<u16>,
    connections: HashMap<u16, Client>,
}

impl ClusterRoute {
    /// For a plan, on a cluster that has these nodes.
    pub fn new(plan: &Plan, nodes: &[u16]) -> ClusterRoute {
        ClusterRoute {
            nodes: nodes.to_vec(),
            owners: vec![nodes[0]; plan.tags.len()],
            connections: HashMap::new(),
        }
    }
}

impl Route for ClusterRoute {
    fn client(&mut self, tag: usize) -> Option<&mut Client> {
        let port = self.owners[tag];
        if self.at(port).is_none() {
            self.lost(tag);
        }
        self.connections.get_mut(&port)
    }

    fn lost(&mut self, tag: usize) {
        // Any other node can tell where the slot is.
        let port = self.owners[tag];
        self.connections.remove(&port);
        let i = self.nodes.iter().position(|&node| node == port).expect("a known node");
        self.owners[tag] = self.nodes[(i + 1) % self.nodes.len()];
    }

    fn moved(&mut self, tag: usize, port: u16) {
        self.owners[tag] = port;
    }

    fn at(&mut self, port: u16) -> Option<&mut Client> {
        match self.connections.entry(port) {
            Entry::Occupied(entry) => Some(entry.into_mut()),
            Entry::Vacant(entry) => Some(entry.insert(Client::at(port).ok()?)),
        }
    }
}

/// Hash tags whose slots are in a range, each in a slot of its own.
pub fn tags_in(client: &mut Client, slots: RangeInclusive<i64>, count: usize) -> Vec<String> {
    let tags: Vec<String> = (0..4000).map(|i| format!("{{t{i}}}")).collect();
    let replies = client.pipeline(tags.iter().map(|tag| words("CLUSTER KEYSLOT").arg(tag)));
    let mut found = HashMap::new();
    for (tag, reply) in tags.into_iter().zip(replies) {
        match reply {
            Ok(Value::Int(slot)) if slots.contains(&slot) && found.len() < count => {
                found.entry(slot).or_insert(tag);
            }
            _ => {}
        }
    }
    assert_eq!(found.len(), count, "hash tags in {slots:?}");
    found.into_values().collect()
}

/// The port in `MOVED 3999 127.0.0.1:6381`.
fn port_in(line: &str) -> u16 {
    let port = line.rsplit(':').next().and_then(|port| port.parse().ok());
    port.unwrap_or_else(|| panic!("no port in {line}"))
}

/// What an error says about the call.
enum Refusal {
    /// It took nothing: ask again.
    Again,
    /// It took nothing: ask that node for good.
    Moved(u16),
    /// It took nothing: ask that node this once.
    Ask(u16),
    /// It took nothing: the node cannot, at the moment.
    Away,
    /// Nobody can tell.
    Unknown,
}

fn refusal(line: &str) -> Refusal {
    match line.split([' ', ':']).next() {
        // In the course of resharding some of the keys are here and some there, or absent, which looks the same. It
        // ends when the slot has moved, in a few milliseconds.
        Some("TRYAGAIN") => Refusal::Again,
        Some("MOVED") => Refusal::Moved(port_in(line)),
        Some("ASK") => Refusal::Ask(port_in(line)),
        Some("CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY") => Refusal::Away,
        _ if line.starts_with("no reply") || line.starts_with("not sent") => Refusal::Unknown,
        _ => panic!("unexpected error: {line}"),
    }
}

/// Runs a command that changes nothing, at the primary for a tag.
pub fn query(route: &mut dyn Route, tag: usize, command: &Words) -> Value {
    wait_for("an answer", || {
        match route.client(tag)?.call(command.clone()) {
            Ok(value) => return Some(value),
            Err(line) => match refusal(&line) {
                Refusal::Moved(port) => route.moved(tag, port),
                _ => route.lost(tag),
            },
        }
        None
    })
}

/// `RL.INFO` as a map of its numbers; `None` for a missing key.
pub fn info(route: &mut dyn Route, plan: &Plan, limiter: Limiter) -> Option<HashMap<String, i64>> {
    let command = words("RL.INFO").then(&plan.key(limiter));
    let Value::Array(fields) = query(route, limiter.tag, &command) else { return None };
    let pair = |pair: &[Value]| match pair {
        [name, Value::Int(number)] => Some((String::from_utf8(bytes_of(name)?).ok()?, *number)),
        _ => None,
    };
    Some(fields.chunks(2).filter_map(pair).collect())
}

/// Waits until this many replicas of an empty primary count in `WAIT`: each must report first, which takes up to a
/// second.
pub fn wait_for_confirmations(primary: &Server, replicas: i64) {
    let mut client = primary.client();
    // A write that needs no key: a node of a cluster takes it whatever its slots are.
    client.run("FLUSHALL");
    let wait = format!("WAIT {replicas} 100");
    wait_for("replicas that confirm", || (client.int(wait.as_str()) >= replicas).then_some(()));
}

/// Whether a server, perhaps just started or cutting its clients off, has become a replica and is in contact.
pub fn is_following(server: &Server) -> bool {
    let info = Client::at(server.port()).and_then(|mut client| client.call("INFO replication"));
    let text = info.ok().as_ref().and_then(bytes_of).unwrap_or_default();
    String::from_utf8_lossy(&text).contains("master_link_status:up")
}
