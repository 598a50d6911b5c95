//! Redis Cluster: how calls are routed, what happens while slots move, and who takes over.

use testkit::{Client, Server, wait_for};

mod failover;
mod hash_tags;
mod reshard;
mod routing;

pub const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

const RANGES: [(u16, u16); 3] = [(0, 5460), (5461, 10_922), (10_923, 16_383)];

/// Three primaries that share the slots.
pub fn cluster() -> Vec<Server> {
    let nodes: Vec<Server> =
        RANGES.iter().map(|_| Server::builder().cluster_node().start()).collect();
    for (i, (node, (first, last))) in nodes.iter().zip(RANGES).enumerate() {
        let mut client = node.client();
        client.run(format!("CLUSTER SET-CONFIG-EPOCH {}", i + 1));
        client.run(format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
        for other in &nodes[..i] {
            client.run(format!("CLUSTER MEET 127.0.0.1 {} {}", other.port(), other.bus_port()));
        }
    }
    for node in &nodes {
        let mut client = node.client();
        wait_for("the cluster", || {
            let info = client.text("CLUSTER INFO");
            let ready = info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3");
            ready.then_some(())
        });
    }
    nodes
}

pub fn slot_of(client: &mut Client, key: &str) -> u16 {
    client.int(format!("CLUSTER KEYSLOT {key}")) as u16
}

pub fn owner(slot: u16) -> usize {
    RANGES.iter().position(|(first, last)| (*first..=*last).contains(&slot)).expect("an owner")
}
