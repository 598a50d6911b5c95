//! The server saves by itself when its save points say so, though it is not told of every change.

use testkit::{Client, Server, acquire, wait_for, wait_for_children};

fn changes(client: &mut Client) -> i64 {
    client.info_number("persistence", "rdb_changes_since_last_save")
}

fn saves(client: &mut Client) -> i64 {
    client.info_number("persistence", "rdb_saves")
}

/// Makes calls that are granted while nobody listens, so that changes are only counted.
fn change(client: &mut Client, times: i64) {
    wait_for("nobody to listen", || (client.info("rl", "rl_propagates") == "0").then_some(()));
    for _ in 0..times / 500 {
        let calls = (0..500).map(|_| acquire("k", "WINDOW 1h LIMIT 1000000 ALGO bucket"));
        client.pipeline(calls).into_iter().for_each(|reply| drop(reply.expect("a reply")));
    }
}

/// Asserts that a save follows this number of changes, and none follows fewer.
fn assert_saves_at(client: &mut Client, needed: i64) {
    let before = saves(client);
    change(client, needed - 500);
    assert!(changes(client) < needed, "{}", changes(client));
    assert_eq!(saves(client), before);
    change(client, 1000);
    wait_for("a save", || (saves(client) > before).then_some(()));
    wait_for_children(client);
}

#[test]
fn the_server_saves_when_it_was_told_to() {
    // Changes are counted one by one up to 10,000, and beyond if a save point asks for more.
    for needed in [5000, 25_000] {
        let conf = format!("save 3600 1 1 {needed}");
        let server = Server::builder().conf(conf).start();
        let mut client = server.client();
        // The server's count begins anew with each save.
        (0..2).for_each(|_| assert_saves_at(&mut client, needed));
    }
}

#[test]
fn a_save_point_that_is_added_counts_what_was_before() {
    let server = Server::start();
    let mut client = server.client();
    change(&mut client, 40_000);
    let counted = changes(&mut client);
    assert!((10_000..40_000).contains(&counted), "{counted}: all are counted, or too few");
    let before = saves(&mut client);
    client.run("CONFIG SET save '1 50000'");
    change(&mut client, 9000);
    assert_eq!(saves(&mut client), before);
    change(&mut client, 2000);
    wait_for("a save", || (saves(&mut client) > before).then_some(()));
}
