//! Redis Cluster: a call may use several keys of one hash tag, and a limiter moves with its slot.

use redis::Value;
use testkit::{Client, Reply, Server, acquire, words};

use crate::cluster::{CROSSSLOT, cluster, owner, slot_of};

const RULE: &str = "WINDOW 10d LIMIT 3 ALGO sliding";
#[test]
fn calls_go_to_the_node_of_their_hash_tag() {
    let nodes = cluster();
    let mut clients: Vec<Client> = nodes.iter().map(Server::client).collect();
    for tag in ["{alice}", "{bob}", "{carol}", "{dave}"] {
        let slot = slot_of(&mut clients[0], tag);
        let owner = owner(slot);
        let keys = format!("{tag}:ip {tag}:user {tag}:tenant");
        let moved = format!("MOVED {slot} 127.0.0.1:{}", nodes[owner].port());
        for (i, client) in clients.iter_mut().enumerate() {
            if i == owner {
                client.take(3, &keys, RULE);
                assert!(!client.acquire(&keys, RULE).is_grant());
                assert_eq!(client.error(acquire(&format!("{tag}:ip other"), RULE)), CROSSSLOT);
                client.run("MULTI");
                assert_eq!(client.error(acquire(&format!("{tag}:new other"), RULE)), CROSSSLOT);
                client.run("DISCARD");
                let script = "return redis.pcall('RL.ACQUIRE', KEYS[1], 'other', unpack(ARGV))";
                let call = words("EVAL").arg(script).then(&format!("1 {tag}:new")).then(RULE);
                let line = client.error(call);
                // Each server words this error in its own way.
                let foreign = line.contains("ttempted to access") || line == CROSSSLOT;
                assert!(foreign, "{line}");
                assert_eq!(client.int(format!("EXISTS {tag}:new")), 0);
            } else {
                assert_eq!(client.error(acquire(&keys, RULE)), moved);
                assert_eq!(client.error(acquire(&format!("{tag}:ip"), RULE)), moved);
            }
        }
    }
    assert!(
        nodes[0]
            .cli(&[
                "-c",
                "RL.ACQUIRE",
                "{alice}:ip",
                "WINDOW",
                "10d",
                "LIMIT",
                "5",
                "ALGO",
                "sliding"
            ])
            .starts_with("1\n")
    );
}

#[test]
fn a_limiter_moves_with_its_slot() {
    let nodes = cluster();
    let mut clients: Vec<Client> = nodes.iter().map(Server::client).collect();
    let slot = slot_of(&mut clients[0], "{tag}");
    let from = owner(slot);
    let to = (from + 1) % nodes.len();
    let ids: Vec<String> = clients.iter_mut().map(|client| client.text("CLUSTER MYID")).collect();
    let (here, there) = ("{tag}:a {tag}:b", "{tag}:a {tag}:new");
    clients[from].take(2, here, RULE);
    let before = clients[from].stored("{tag}:a");

    clients[to].run(format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[from]));
    clients[from].run(format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[to]));
    // Both keys are still here; then one is absent, and may have moved.
    clients[from].take(1, here, RULE);
    let line = clients[from].error(acquire(there, RULE));
    assert_eq!(line, "TRYAGAIN Multiple keys request during rehashing of slot");
    let line = clients[from].error(acquire("{tag}:new", RULE));
    assert_eq!(line, format!("ASK {slot} 127.0.0.1:{}", nodes[to].port()));
    let port = nodes[to].port();
    let moved = clients[from].text(format!("MIGRATE 127.0.0.1 {port} {{tag}}:a 0 5000"));
    assert_eq!(moved, "OK");
    let line = clients[from].error(acquire(here, RULE));
    assert_eq!(line, "TRYAGAIN Multiple keys request during rehashing of slot");
    let moved = clients[from].text(format!("MIGRATE 127.0.0.1 {port} {{tag}}:b 0 5000"));
    assert_eq!(moved, "OK");
    clients[to].run("ASKING");
    let reply = Reply::of(&clients[to].run(acquire(here, RULE)));
    assert_eq!((reply.granted, reply.remaining), (0, 0));
    for i in [to, from] {
        clients[i].run(format!("CLUSTER SETSLOT {slot} NODE {}", ids[to]));
    }
    assert_eq!(
        clients[from].error(acquire(here, RULE)),
        format!("MOVED {slot} 127.0.0.1:{}", nodes[to].port())
    );
    assert_eq!(clients[to].drain("{tag}:a", "WINDOW 10d LIMIT 5 ALGO sliding"), 2);
    // MIGRATE sends the remaining TTL, which may be off by the time it took.
    let expires_at = clients[to].int("PEXPIRETIME {tag}:a");
    assert!((expires_at - before.expires_at).abs() < 2_000, "{expires_at}, was {before:?}");
}

#[test]
fn a_single_server_can_insist_on_one_slot_too() {
    let server = Server::builder().conf("rl.slot-validation always").start();
    let mut client = server.client();
    client.take(1, "alone", RULE);
    client.take(1, "{tag}:a {tag}:b x{tag}", RULE);
    let before = client.text("DEBUG DIGEST");
    for keys in ["a b", "{tag}:a a", "a {tag}:a {tag}:b", "{}a {}b", "{tag {tag}"] {
        assert_eq!(client.error(acquire(keys, RULE)), CROSSSLOT, "{keys}");
    }
    client.run("MULTI");
    client.run(acquire("a b", RULE));
    let Value::Array(replies) = client.run("EXEC") else { panic!("no array") };
    assert!(matches!(replies[..], [Value::ServerError(_)]), "{replies:?}");
    assert_eq!(client.text("DEBUG DIGEST"), before);
    client.run("CONFIG SET rl.slot-validation cluster");
    client.take(1, "a b", RULE);
}
