//! How servers and clients find the keys of each command, for slots, `COMMAND GETKEYS`, access control and
//! client-side caching. Each key of a call must be found, wherever it stands.

use std::collections::BTreeSet;

use redis::{PushKind, Value};
use testkit::{Client, Server, acquire, array, bytes_of, sorted, text, words};

use crate::cluster::{CROSSSLOT, cluster, owner, slot_of};

const RULE: &str = "WINDOW 10d LIMIT 3 ALGO sliding";
const TRYAGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";

/// The number of keys of a long call.
const MANY: usize = 50;

/// For each command with several keys: the words after the keys, and whether it writes.
const COMMANDS: [(&str, &str, bool); 8] = [
    ("RL.ACQUIRE", RULE, true),
    ("RL.ACQUIREX", "'WINDOW 10d LIMIT 3 ALGO sliding COST 2 UPTO 3 WITHKEYS'", true),
    ("RL.PEEK", "'WINDOW 10d LIMIT 3 ALGO sliding COST 2 UPTO 3'", false),
    ("RL.REFUND", "COST 1", true),
    ("RL.RELEASE", "ID x", true),
    ("RL.BLOCK", "FOR 1h", true),
    ("RL.EXEMPT", "FOR 0", true),
    // Names that look like option words and keys.
    ("RL.ACQUIREX", "'WINDOW 1h LIMIT 3 ALGO concurrency NAME key0 ID window'", true),
];

/// This many keys with a common hash tag.
fn keys(tag: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{tag}:{i}")).collect()
}

/// The same keys, joined, with another key in each place in turn.
fn with_another(keys: &[String], other: &str) -> Vec<String> {
    let with = |i: usize| {
        let mut keys = keys.to_vec();
        keys[i] = other.to_owned();
        keys.join(" ")
    };
    (0..keys.len()).map(with).collect()
}

#[test]
fn a_cluster_routes_every_command_by_its_keys() {
    let nodes = cluster();
    let mut clients: Vec<Client> = nodes.iter().map(Server::client).collect();
    for (command, tail, _) in COMMANDS {
        for tag in ["{alice}", "{bob}"] {
            let slot = slot_of(&mut clients[0], tag);
            let here = owner(slot);
            let there = (here + 1) % nodes.len();
            let moved = format!("MOVED {slot} 127.0.0.1:{}", nodes[here].port());
            for count in [1, 2, MANY] {
                let keys = keys(tag, count);
                let call = format!("{command} {} {tail}", keys.join(" "));
                clients[here].run(call.as_str());
                assert_eq!(clients[there].error(call.as_str()), moved, "{call}");
                clients[here].run(format!("DEL {}", keys.join(" ")));
                for keys in with_another(&keys, "other").iter().filter(|_| count > 1) {
                    let call = format!("{command} {keys} {tail}");
                    assert_eq!(clients[here].error(call.as_str()), CROSSSLOT, "{call}");
                    assert_eq!(clients[there].error(call.as_str()), CROSSSLOT, "{call}");
                }
            }
        }
    }
    let slot = slot_of(&mut clients[0], "alone");
    let moved = format!("MOVED {slot} 127.0.0.1:{}", nodes[owner(slot)].port());
    let there = (owner(slot) + 1) % nodes.len();
    assert_eq!(clients[there].error("RL.INFO alone"), moved);
    for client in &mut clients {
        assert_eq!(client.int("DBSIZE"), 0, "nothing is left of what was refused");
    }
}

#[test]
fn a_single_server_that_insists_on_one_slot_refuses_every_command() {
    let server = Server::builder().module_args("slot-validation always").start();
    let mut client = server.client();
    for (command, tail, _) in COMMANDS {
        let keys = keys("{t}", MANY);
        client.run(format!("{command} {} {tail}", keys.join(" ")));
        let before = client.text("DEBUG DIGEST");
        for keys in with_another(&keys, "other") {
            let call = format!("{command} {keys} {tail}");
            assert_eq!(client.error(call.as_str()), CROSSSLOT, "{call}");
        }
        assert_eq!(client.text("DEBUG DIGEST"), before, "{command}");
    }
}

#[test]
fn command_getkeys_finds_exactly_the_keys() {
    let server = Server::builder().module_args("cl-throttle yes").start();
    let mut client = server.client();
    for (command, tail, writes) in COMMANDS {
        for count in [1, 2, MANY] {
            let keys = keys("key", count);
            let call = format!("{command} {} {tail}", keys.join(" "));
            assert_eq!(client.texts(format!("COMMAND GETKEYS {call}")), keys, "{call}");
            let reply = client.run(format!("COMMAND GETKEYSANDFLAGS {call}"));
            assert_eq!(array(&reply).len(), count, "{call}");
            for (found, key) in array(&reply).iter().zip(&keys) {
                let [name, flags] = array(found) else { panic!("no pair: {found:?}") };
                assert_eq!(text(name), *key);
                let expected: &[&str] =
                    if writes { &["RW", "access", "update"] } else { &["RO", "access"] };
                assert_eq!(sorted(flags), expected, "{call}");
            }
        }
        // A rule for each key.
        if tail.starts_with('\'') {
            let rules = [RULE; 3].join(" ");
            let call = format!("COMMAND GETKEYS {command} a b c '{rules} WITHKEYS'");
            assert_eq!(client.texts(call), ["a", "b", "c"]);
        }
    }
    for call in ["RL.INFO k", "CL.THROTTLE k 1 2 3", "CL.THROTTLE k 1 2 3 4"] {
        assert_eq!(client.texts(format!("COMMAND GETKEYS {call}")), ["k"]);
    }
    assert_eq!(client.texts("COMMAND GETKEYS RL._EFFECT a blob b blob c blob"), ["a", "b", "c"]);
    // Rules split into several arguments: all words but the last are taken for keys, and the call is refused.
    for command in ["RL.ACQUIREX", "RL.PEEK"] {
        let call = format!("COMMAND GETKEYS {command} k WINDOW 1s LIMIT 1 ALGO fixed");
        assert_eq!(client.texts(call), ["k", "WINDOW", "1s", "LIMIT", "1", "ALGO"]);
    }
}

#[test]
fn a_user_who_may_only_read_keys_may_peek_but_not_acquire() {
    let server = Server::start();
    let mut admin = server.client();
    admin.run("ACL SETUSER reader on >secret %R~app:* ~own:* +@all -@admin -@dangerous");
    let mut client = server.client();
    client.run("AUTH reader secret");
    let may = |line: &Result<Value, String>| match line {
        Ok(_) => true,
        Err(line) => {
            assert!(line.starts_with("NOPERM"), "{line}");
            false
        }
    };
    for (command, tail, writes) in COMMANDS {
        for (keys, allowed) in [
            ("app:a", !writes),
            ("app:a app:b", !writes),
            ("own:a app:b", !writes),
            ("app:a own:b", !writes),
            ("own:a own:b", true),
            ("app:a other", false),
            ("own:a other", false),
            ("other", false),
        ] {
            let call = format!("{command} {keys} {tail}");
            assert_eq!(may(&client.call(call.as_str())), allowed, "{call}");
            let dry = format!("ACL DRYRUN reader {call}");
            assert_eq!(admin.text(dry) == "OK", allowed, "{call}");
        }
        admin.run("DEL own:a own:b");
    }
    assert!(may(&client.call("RL.INFO app:a")));
    assert!(!may(&client.call("RL.INFO other")));
    // Nor does a script reach them.
    let script = "return redis.call(unpack(ARGV))";
    for (command, keys, allowed) in [
        ("RL.PEEK", "app:a", true),
        ("RL.PEEK", "own:a other", false),
        ("RL.ACQUIREX", "own:a app:a", false),
    ] {
        let call = words("EVAL").arg(script).then("0").then(command).then(keys).arg(RULE);
        assert_eq!(client.call(call).is_ok(), allowed, "{command} {keys}");
    }
    assert_eq!(admin.keys(), Vec::<String>::new());
}

#[test]
fn a_key_of_somebody_else_is_refused_in_each_place() {
    let server = Server::start();
    let mut admin = server.client();
    admin.run("ACL SETUSER app on >secret ~app:* +@all -@admin -@dangerous");
    let mut client = server.client();
    client.run("AUTH app secret");
    for (command, tail, _) in COMMANDS {
        for count in [1, 2, MANY] {
            let keys = keys("app", count);
            let call = format!("{command} {} {tail}", keys.join(" "));
            client.run(call.as_str());
            let before = admin.text("DEBUG DIGEST");
            for keys in with_another(&keys, "other") {
                let call = format!("{command} {keys} {tail}");
                let line = client.error(call.as_str());
                assert!(line.starts_with("NOPERM"), "{call}: {line}");
                assert_ne!(admin.text(format!("ACL DRYRUN app {call}")), "OK", "{call}");
            }
            assert_eq!(admin.text("DEBUG DIGEST"), before, "{command}");
            admin.run("FLUSHALL");
        }
    }
    // The rules are never a key, whatever their text.
    client.run("RL.ACQUIREX app:k 'WINDOW 10d LIMIT 3 ALGO sliding NAME other'");
}

/// The keys in the invalidation messages that a client got since it was last asked.
fn invalidated(reader: &mut Client) -> BTreeSet<String> {
    let pushes = reader.pushes();
    let keys = pushes.iter().flat_map(|push| {
        assert_eq!(push.kind, PushKind::Invalidate);
        let Some(Value::Array(keys)) = push.data.first() else { panic!("no keys: {push:?}") };
        keys.iter().map(|key| String::from_utf8_lossy(&bytes_of(key).expect("a key")).into_owned())
    });
    keys.collect()
}

/// Client-side caching: a change of any key invalidates what a client read of it.
#[test]
fn each_key_that_was_read_is_tracked_and_each_that_is_written_is_told() {
    let server = Server::start();
    let (mut reader, mut writer) = (server.client_resp3(), server.client());
    reader.run("CLIENT TRACKING ON");
    let all = keys("k", MANY);
    let set: BTreeSet<String> = all.iter().cloned().collect();
    let joined = all.join(" ");
    let peek = format!("RL.PEEK {joined} '{RULE}'");
    reader.run(peek.as_str());
    for key in &all {
        writer.run(acquire(key, RULE));
        assert_eq!(invalidated(&mut reader), BTreeSet::from([key.clone()]));
    }
    // The rules are not among the keys that were read.
    reader.run(peek.as_str());
    writer.run(words("SET").arg(RULE).arg("x"));
    assert_eq!(invalidated(&mut reader), BTreeSet::new());
    for call in [
        format!("RL.ACQUIRE {joined} {RULE}"),
        format!("RL.ACQUIREX {joined} '{RULE}'"),
        format!("RL.REFUND {joined} COST 1"),
        format!("RL.BLOCK {joined} FOR 1h"),
        format!("RL.EXEMPT {joined} FOR 1h"),
        format!("DEL {joined}"),
        format!("RL.ACQUIREX {joined} 'WINDOW 1h LIMIT 3 ALGO concurrency ID x'"),
        format!("RL.RELEASE {joined} ID x"),
    ] {
        reader.run(peek.as_str());
        writer.run(call.as_str());
        assert_eq!(invalidated(&mut reader), set, "{call}");
    }
}

/// While a slot moves key by key, a call for several keys needs all of them on one side.
#[test]
fn a_slot_on_its_way_answers_by_each_key() {
    let nodes = cluster();
    let mut clients: Vec<Client> = nodes.iter().map(Server::client).collect();
    let slot = slot_of(&mut clients[0], "{tag}");
    let from = owner(slot);
    let to = (from + 1) % nodes.len();
    let ids: Vec<String> = clients.iter_mut().map(|client| client.text("CLUSTER MYID")).collect();
    let present = keys("{tag}", MANY);
    clients[from].run(acquire(&present.join(" "), "WINDOW 10d LIMIT 99 ALGO sliding"));
    clients[to].run(format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[from]));
    clients[from].run(format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[to]));
    let ask = format!("ASK {slot} 127.0.0.1:{}", nodes[to].port());
    let moved = format!("MOVED {slot} 127.0.0.1:{}", nodes[from].port());
    for (command, tail, _) in COMMANDS {
        let call = |keys: &str| format!("{command} {keys} {tail}");
        clients[from].run(call(&present.join(" ")));
        for keys in with_another(&present, "{tag}:absent") {
            assert_eq!(clients[from].error(call(&keys)), TRYAGAIN, "{}", call(&keys));
        }
        let absent = ["{tag}:absent", "{tag}:gone"];
        assert_eq!(clients[from].error(call(absent[0])), ask, "{command}");
        assert_eq!(clients[from].error(call(&absent.join(" "))), ask, "{command}");
        // The importing node serves only clients that sent ASKING, and only calls whose keys are all there.
        assert_eq!(clients[to].error(call(absent[0])), moved, "{command}");
        clients[to].run("ASKING");
        assert_eq!(clients[to].error(call(&absent.join(" "))), TRYAGAIN, "{command}");
        clients[to].run("ASKING");
        clients[to].run(call(absent[0]));
    }
}
