//! Slots move between the nodes of a cluster under load: no permit is given twice, and none is lost.
//!
//! No node dies here, so each call gets an answer and the count is exact: the limiters, wherever they are, hold what
//! the clients were granted. A client follows `MOVED` and `ASK`. `TRYAGAIN` is a legitimate answer as well: while a
//! slot moves key by key, a call on several keys of which one is absent cannot be served, whether that key is on the
//! other node or nowhere (a new or an expired limiter). Nothing was taken then, and the client asks again after a
//! millisecond. Atomic slot migration moves a slot as a whole, without `ASK` and `TRYAGAIN`.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{Client, Server, bytes_of, wait_for};

use crate::cluster::{cluster, slot_of};
use crate::load::{
    Acknowledged, ClusterRoute, Plan, Verdict, drain, info, judge, tags_in, under_load,
};

const THREADS: usize = 4;
/// The slots that move: `redis-cli` takes the first ones of a node.
const MOVING: i64 = 300;

struct Moving {
    nodes: Vec<Server>,
    ids: Vec<String>,
    plan: Plan,
}

impl Moving {
    fn new() -> Moving {
        let nodes = cluster();
        let mut client = nodes[0].client();
        // Some limiters in slots that move, and some in slots that stay.
        let mut tags = tags_in(&mut client, 0..=MOVING - 1, 6);
        tags.extend(tags_in(&mut client, 16_000..=16_383, 1));
        let ids = nodes.iter().map(|node| node.client().text("CLUSTER MYID")).collect();
        Moving { nodes, ids, plan: Plan::new(tags, 40, Acknowledged::Reply) }
    }

    fn route(&self) -> ClusterRoute {
        let ports: Vec<u16> = self.nodes.iter().map(Server::port).collect();
        ClusterRoute::new(&self.plan, &ports)
    }

    /// Waits until all nodes name the same owner for each slot, and no slot is moving.
    fn wait_for_agreement(&self) {
        let view = |node: &Server| {
            let text = node.client().text("CLUSTER NODES");
            let owned = |line: &str| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                format!("{} {}", fields[0], fields[8..].join(" "))
            };
            let mut lines: Vec<String> = text.lines().map(owned).collect();
            lines.sort();
            lines
        };
        wait_for("the nodes to agree", || {
            let first = view(&self.nodes[0]);
            let settled = first.iter().all(|line| !line.contains('['));
            (settled && self.nodes.iter().all(|node| view(node) == first)).then_some(())
        });
    }

    /// Whether a node says that it owns the slots that move.
    fn is_owner(&self, node: usize) -> bool {
        let text = self.nodes[node].client().text("CLUSTER NODES");
        let first = format!(" 0-{}", MOVING - 1);
        let own = text.lines().find(|line| line.contains("myself")).expect("its own line");
        // Node 0 has those that follow as well.
        own.contains(&first) || (node == 0 && own.contains(" 0-5460"))
    }

    /// Runs the load while the slots move round and come back, and checks the result.
    fn check(&self, title: &str, mut transfer: impl FnMut(usize, usize)) -> Verdict {
        let routes = (0..THREADS).map(|_| self.route()).collect();
        let mut logs = under_load(&self.plan, routes, |progress| {
            progress.wait_for_grants(200);
            for from in [0, 1, 2] {
                let to = (from + 1) % self.nodes.len();
                transfer(from, to);
                self.wait_for_agreement();
                assert!(self.is_owner(to), "the slots are not at node {to}");
                thread::sleep(Duration::from_millis(300));
            }
        });
        let mut route = self.route();
        let limiters = || self.plan.limiters().filter(|limiter| self.plan.rule(*limiter).is_long());
        let used: HashMap<_, _> = limiters()
            .map(|limiter| (limiter, info(&mut route, &self.plan, limiter).map(|i| i["used"])))
            .collect();
        let granted: Vec<_> = logs.iter().flat_map(|log| log.granted_limiters()).collect();
        for limiter in limiters() {
            let count = granted.iter().filter(|granted| **granted == limiter).count() as i64;
            let known = used[&limiter].unwrap_or(0);
            assert_eq!(known, count, "in use and granted of {}", self.plan.key(limiter));
        }
        logs.push(drain(&self.plan, &mut route));
        let verdict = judge(title, &self.plan, &logs, &mut route);
        assert!(verdict.excess <= 0, "{} above a limit", verdict.excess);
        assert_eq!(verdict.counts.unknown, 0, "calls without an answer");
        for limiter in limiters() {
            let (given, capacity) = (verdict.grants(limiter), self.plan.rule(limiter).capacity());
            assert_eq!(given, capacity, "grants of {}", self.plan.key(limiter));
        }
        self.check_keys();
        verdict
    }

    /// Asserts that each limiter with a long window exists once, at the node that owns its slot.
    fn check_keys(&self) {
        let mut found: HashMap<String, usize> = HashMap::new();
        for node in &self.nodes {
            let mut client = node.client();
            for key in client.keys() {
                // A node that does not own the slot would answer MOVED.
                client.run(format!("EXISTS {key}"));
                *found.entry(key).or_default() += 1;
            }
        }
        assert!(found.values().all(|count| *count == 1), "on several nodes: {found:?}");
        let long = |limiter| self.plan.rule(limiter).is_long();
        for limiter in self.plan.limiters() {
            let key = self.plan.key(limiter);
            assert!(!long(limiter) || found.contains_key(&key), "{key} is nowhere");
        }
    }
}

/// Moves a slot by hand, key by key and slowly, so that calls meet it in every state.
fn move_slowly(from: &Server, to: &Server, ids: [&str; 2], others: &[Server], slot: u16) {
    let (mut source, mut target) = (from.client(), to.client());
    target.run(format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[0]));
    source.run(format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[1]));
    loop {
        let keys = source.texts(format!("CLUSTER GETKEYSINSLOT {slot} 5"));
        if keys.is_empty() {
            break;
        }
        for key in keys {
            let moved = source.text(format!("MIGRATE 127.0.0.1 {} {key} 0 5000", to.port()));
            assert!(moved == "OK" || moved == "NOKEY", "{moved}");
            thread::sleep(Duration::from_millis(5));
        }
    }
    for client in [&mut target, &mut source] {
        client.run(format!("CLUSTER SETSLOT {slot} NODE {}", ids[1]));
    }
    for node in others {
        node.client().run(format!("CLUSTER SETSLOT {slot} NODE {}", ids[1]));
    }
}

#[test]
fn resharding_under_load_gives_no_permit_twice() {
    let moving = Moving::new();
    let verdict = moving.check("Resharding", |from, to| {
        let (source, target) = (&moving.nodes[from], &moving.nodes[to]);
        let ids = [moving.ids[from].as_str(), moving.ids[to].as_str()];
        let slot = slot_of(&mut source.client(), &moving.plan.tags()[0]);
        move_slowly(source, target, ids, &moving.nodes, slot);
        moving.wait_for_agreement();
        let address = format!("127.0.0.1:{}", source.port());
        // One of the keys has moved already.
        let slots = (MOVING - 1).to_string();
        let output = source.cli(&[
            "--cluster",
            "reshard",
            &address,
            "--cluster-from",
            ids[0],
            "--cluster-to",
            ids[1],
            "--cluster-slots",
            &slots,
            "--cluster-yes",
        ]);
        assert!(!output.contains("ERR"), "{output}");
    });
    let counts = verdict.counts;
    assert!(counts.moved > 0 && counts.ask > 0 && counts.try_again > 0, "{counts:?}");
}

/// The state of the newest migration, by the node that sends it.
fn migration(source: &mut Client) -> HashMap<String, String> {
    let Value::Array(jobs) = source.run("CLUSTER GETSLOTMIGRATIONS") else { panic!("no list") };
    let text = |value: &Value| {
        let text = bytes_of(value).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        text.unwrap_or_else(|| format!("{value:?}"))
    };
    let fields: Vec<String> = match jobs.first() {
        Some(Value::Array(fields)) => fields.iter().map(text).collect(),
        other => panic!("no migration: {other:?}"),
    };
    fields.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

#[test]
fn atomic_slot_migration_under_load_gives_no_permit_twice() {
    let moving = Moving::new();
    let known = moving.nodes[0].client().run("COMMAND INFO cluster|migrateslots");
    if matches!(&known, Value::Array(commands) if matches!(commands[..], [Value::Nil])) {
        println!("skipped: this server has no CLUSTER MIGRATESLOTS");
        return;
    }
    let last = MOVING - 1;
    let verdict = moving.check("Atomic slot migration", |from, to| {
        let mut source = moving.nodes[from].client();
        source.run(format!("CLUSTER MIGRATESLOTS SLOTSRANGE 0 {last} NODE {}", moving.ids[to]));
        wait_for("the migration", || {
            let job = migration(&mut source);
            let state = job["state"].as_str();
            assert!(!["failed", "cancelled"].contains(&state), "{job:?}");
            (state == "success").then_some(())
        });
    });
    let counts = verdict.counts;
    assert!(counts.moved > 0, "{counts:?}");
    assert_eq!((counts.ask, counts.try_again), (0, 0), "{counts:?}");
}
