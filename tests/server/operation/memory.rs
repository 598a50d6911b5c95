//! A server without memory left: existing limiters go on, calls with a new one are refused as a whole.

use std::thread;
use std::time::Duration;

use testkit::{Client, Reply, Server, acquire, wait_for_replica};

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const BUCKET: &str = "WINDOW 10d LIMIT 20 ALGO bucket";
const SLIDING: &str = "WINDOW 10d LIMIT 20 ALGO sliding";
/// A limit above the resolution: grants of some minutes share an entry.
const STEPPED: &str = "WINDOW 10d LIMIT 10000 ALGO sliding";

fn fill(client: &mut Client) {
    client.run("CONFIG SET maxmemory-policy noeviction");
    client.run("CONFIG SET maxmemory 1");
    assert_eq!(client.error("SET text x"), OOM);
}

#[test]
fn existing_limiters_go_on_and_new_ones_do_not_begin() {
    let server = Server::start();
    let mut client = server.client();
    for algorithm in ["bucket", "leaky", "fixed", "counter"] {
        client.take(1, algorithm, &format!("WINDOW 10d LIMIT 20 ALGO {algorithm}"));
    }
    client.take(1, "stepped", STEPPED);
    client.take(1, "sliding", SLIDING);
    fill(&mut client);
    for algorithm in ["bucket", "fixed", "counter"] {
        let rule = format!("WINDOW 10d LIMIT 20 ALGO {algorithm}");
        assert_eq!(client.drain(algorithm, &rule), 19, "{algorithm}");
    }
    assert!(!client.acquire("leaky", "WINDOW 10d LIMIT 20 ALGO leaky").is_grant());
    client.take(50, "stepped", STEPPED);

    // A log goes on while it has room for entries.
    let mut entries = 0;
    while let Ok(reply) = client.call(acquire("sliding", SLIDING)) {
        assert!(Reply::of(&reply).is_grant());
        entries += 1;
        assert!(entries < 10, "a log that never grows");
        // The next call must not fall into the millisecond of the last grant.
        thread::sleep(Duration::from_millis(2));
    }

    let before = (client.text("DEBUG DIGEST"), client.int("DBSIZE"));
    for (keys, rule) in [
        ("new", BUCKET),
        ("new", SLIDING),
        ("stepped new", STEPPED),
        ("new stepped", STEPPED),
        // A log that would grow by an entry.
        ("sliding", SLIDING),
    ] {
        assert_eq!(client.error(acquire(keys, rule)), OOM, "{keys}");
        assert_eq!((client.text("DEBUG DIGEST"), client.int("DBSIZE")), before, "{keys}");
    }
    // Denials need no memory, not even on a new key.
    assert!(!client.acquire("new bucket", BUCKET).is_grant());
    assert!(!client.acquire("new", "WINDOW 10d LIMIT 0 ALGO sliding").is_grant());
    assert_eq!((client.text("DEBUG DIGEST"), client.int("DBSIZE")), before);

    client.run("CONFIG SET maxmemory 0");
    assert_eq!(client.drain("sliding", SLIDING), 19 - entries);
    assert_eq!(client.drain("new", BUCKET), 20);
}

#[test]
fn a_grant_in_the_millisecond_of_the_last_one_needs_no_memory() {
    let server = Server::start();
    let mut client = server.client();
    client.run("CONFIG SET maxmemory-policy noeviction");
    let rule = "WINDOW 10d LIMIT 4000 ALGO sliding";
    // Calls that are sent together mostly fall into the same millisecond.
    let mut granted = 0;
    for i in 0..200 {
        let (first, second) = (acquire(&format!("k{i}"), rule), acquire(&format!("k{i}"), rule));
        let replies = client.pipeline([
            first,
            "CONFIG SET maxmemory 1".into(),
            second,
            "CONFIG SET maxmemory 0".into(),
        ]);
        match &replies[2] {
            Ok(_) => granted += 1,
            Err(line) => assert_eq!(line, OOM),
        }
    }
    assert!(granted > 0, "none of 200 was granted");
}

#[test]
fn replicas_take_effects_without_memory() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    wait_for_replica(&primary, &replica);
    replica.client().run("CONFIG SET maxmemory 1");
    let mut client = primary.client();
    client.take(5, "bucket", BUCKET);
    client.take(5, "sliding", SLIDING);
    wait_for_replica(&primary, &replica);
    assert_eq!(replica.client().text("DEBUG DIGEST"), client.text("DEBUG DIGEST"));
}
