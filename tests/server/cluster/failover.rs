//! A Redis Cluster of three primaries and three replicas: a primary dies under load, its replica takes over, and the
//! limits hold.
//!
//! As in `replication::failover`, the primary loses its replica some grants before it dies.

use std::thread;
use std::time::Duration;

use testkit::{Server, wait_for, wait_for_replica, wait_up_to};

use crate::load::{
    Acknowledged, ClusterRoute, OUTAGE, Plan, Verdict, drain, is_following, judge, tags_in,
    under_load, wait_for_confirmations,
};
use crate::replication::failover::cut_off_replicas;

const THREADS: usize = 4;

fn is_primary(server: &Server) -> bool {
    server.client().info("replication", "role") == "master"
}

/// Six nodes, made a cluster by `redis-cli --cluster create`.
fn cluster_with_replicas() -> Vec<Server> {
    let node = || Server::builder().cluster_node().conf("cluster-node-timeout 1500").start();
    let nodes: Vec<Server> = (0..6).map(|_| node()).collect();
    let address = |node: &Server| format!("127.0.0.1:{}@{}", node.port(), node.bus_port());
    let addresses: Vec<String> = nodes.iter().map(address).collect();
    let mut args = vec!["--cluster", "create"];
    args.extend(addresses.iter().map(String::as_str));
    args.extend(["--cluster-replicas", "1", "--cluster-yes"]);
    let output = nodes[0].cli(&args);
    assert!(output.contains("[OK] All 16384 slots covered"), "{output}");
    wait_for("the cluster and its replicas", || {
        let knows_all = |node: &Server| {
            let mut client = node.client();
            let info = client.text("CLUSTER INFO");
            let table = client.text("CLUSTER NODES");
            info.contains("cluster_state:ok")
                && table.lines().count() == 6
                && table.lines().filter(|line| line.contains("slave")).count() == 3
        };
        let replicas = nodes.iter().filter(|node| is_following(node)).count();
        (replicas == 3 && nodes.iter().all(knows_all)).then_some(())
    });
    for primary in nodes.iter().filter(|node| is_primary(node)) {
        wait_for_confirmations(primary, 1);
    }
    nodes
}

fn fail_over(title: &str, acknowledged: Acknowledged) -> Verdict {
    let mut nodes = cluster_with_replicas();
    let ports: Vec<u16> = nodes.iter().map(Server::port).collect();
    // Two hash tags in each third of the slots, so that each primary has some limiters.
    let thirds = [0..=5460, 5461..=10_922, 10_923..=16_383];
    let tags: Vec<String> =
        thirds.into_iter().flat_map(|slots| tags_in(&mut nodes[0].client(), slots, 2)).collect();
    let plan = Plan::new(tags, 40, acknowledged);
    let routes = (0..THREADS).map(|_| ClusterRoute::new(&plan, &ports)).collect();
    let mut logs = under_load(&plan, routes, |progress| {
        thread::sleep(Duration::from_millis(1500));
        let dying = nodes.iter().position(is_primary).expect("a primary");
        let port = ports[dying].to_string();
        let replica = nodes
            .iter()
            .position(|node| node.client().info("replication", "master_port") == port)
            .expect("its replica");
        cut_off_replicas(&mut nodes[dying].client());
        match acknowledged {
            Acknowledged::Replica => thread::sleep(Duration::from_millis(300)),
            _ => progress.wait_for_grants(60),
        }
        let mut promoted = nodes[replica].client();
        // The old primary comes back empty, as a replica of its successor.
        nodes[dying].crash_and(|_| {
            wait_up_to(OUTAGE, "the failover", || {
                let info = promoted.text("CLUSTER INFO");
                let role = promoted.info("replication", "role");
                (role == "master" && info.contains("cluster_state:ok")).then_some(())
            });
        });
        wait_for("the old primary to follow the new one", || {
            is_following(&nodes[dying]).then_some(())
        });
        wait_for_replica(&nodes[replica], &nodes[dying]);
        thread::sleep(Duration::from_millis(1500));
    });
    let mut route = ClusterRoute::new(&plan, &ports);
    logs.push(drain(&plan, &mut route));
    judge(title, &plan, &logs, &mut route)
}

#[test]
fn a_cluster_failover_exceeds_a_limit_by_no_more_than_it_lost() {
    let verdict = fail_over("Cluster", Acknowledged::CountedReply);
    assert!(verdict.lost > 0, "the failover lost nothing, so nothing was shown");
}

#[test]
fn a_cluster_failover_exceeds_no_limit_when_a_replica_has_each_grant() {
    let verdict = fail_over("Cluster, WAIT 1", Acknowledged::Replica);
    assert_eq!(verdict.lost, 0, "acknowledged grants that the new primary does not know");
    assert!(verdict.excess <= 0, "{} above a limit", verdict.excess);
    assert!(verdict.counts.unconfirmed > 0, "the cut was not felt");
}
