//! Many random calls of everything on a primary with a replica: both stay alike, and nothing is left in memory.
//!
//! `RL_SOAK_CALLS=1000000` is the long run, `RL_SOAK_SEED` another one.

use std::env;
use std::time::Instant;

use testkit::{Client, Server, wait_for, wait_for_replica};

use crate::load::anything::{Anything, assert_alike};

/// How much two equal states may differ: by fragmentation, and by what the server itself keeps, such as buffers of
/// clients.
const SLACK_BYTES: i64 = 400_000;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Empties a server, and returns the memory that it still uses.
fn emptied(primary: &Server, replica: &Server) -> [i64; 2] {
    let mut client = primary.client();
    client.run("FLUSHALL ASYNC");
    client.run("RL.POLICY DEL gold free a.b-c_d x");
    client.run("SCRIPT FLUSH SYNC");
    wait_for_replica(primary, replica);
    [primary, replica].map(|server| {
        let mut client = server.client();
        assert_eq!(client.int("DBSIZE"), 0);
        wait_for("the lazy free", || {
            (client.info_number("memory", "lazyfree_pending_objects") == 0).then_some(())
        });
        assert_eq!(client.info_number("rl", "rl_limiters"), 0);
        // The hash tables and the buffers shrink in the background.
        let mut last = i64::MAX;
        wait_for("the memory", || {
            std::thread::sleep(std::time::Duration::from_millis(150));
            let used = memory(&mut client);
            let steady = (used - last).abs() < 20_000;
            last = used;
            steady.then_some(used)
        })
    })
}

/// Memory in use, without the replication backlog.
fn memory(client: &mut Client) -> i64 {
    client.info_number("memory", "used_memory")
        - client.info_number("memory", "mem_replication_backlog")
}

#[test]
fn random_calls_leave_both_alike_and_nothing_behind() {
    let calls = number("RL_SOAK_CALLS", 60_000) as usize;
    let seed = number("RL_SOAK_SEED", 1);
    println!("{calls} calls of seed {seed}");
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    let mut anything = Anything::new(seed);
    let mut client = primary.client();
    // After this many calls everything that grows only once has grown.
    anything.run(&mut client, calls.min(200_000) / 4);
    let before = emptied(&primary, &replica);
    let begun = Instant::now();
    const ROUNDS: usize = 5;
    for _ in 0..ROUNDS {
        anything.run(&mut client, calls / ROUNDS);
        assert_alike(&primary, &replica);
    }
    println!("{:?}", begun.elapsed());
    let after = emptied(&primary, &replica);
    println!("memory {before:?}, then {after:?}");
    for (before, after) in before.into_iter().zip(after) {
        assert!(after - before < SLACK_BYTES, "seed {seed}: {before} bytes, then {after}");
    }
    assert_eq!(primary.client().info_number("stats", "sync_full"), 1);
}
