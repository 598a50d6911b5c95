//! How servers and clients find the keys of each command and what they are used for: slots, `COMMAND GETKEYS`,
//! `COMMAND DOCS` and access control.

use crate::cluster::{CROSSSLOT, cluster, owner, slot_of};
use crate::harness::{Client, Server, words};
use crate::metadata::{array, field, int, sorted, text};

const RULE: &str = "WINDOW 10d LIMIT 3 ALGO sliding";

/// What follows the keys of each command with several, and whether it writes.
const COMMANDS: [(&str, &str, bool); 8] = [
    ("RL.ACQUIRE", RULE, true),
    ("RL.ACQUIREX", "WINDOW 10d LIMIT 3 ALGO sliding COST 2 UPTO 3 WITHKEYS", true),
    ("RL.PEEK", "WINDOW 10d LIMIT 3 ALGO sliding COST 2 UPTO 3", false),
    ("RL.REFUND", "COST 1", true),
    ("RL.RELEASE", "ID x", true),
    ("RL.BLOCK", "FOR 1h", true),
    ("RL.EXEMPT", "FOR 0", true),
    // Values that look like words and keys.
    ("RL.ACQUIREX", "WINDOW 1h LIMIT 3 ALGO concurrency NAME key0 ID window", true),
];

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
            for keys in [format!("{tag}:a"), format!("{tag}:a {tag}:b {tag}:c")] {
                let call = format!("{command} {keys} {tail}");
                clients[here].run(call.as_str());
                assert_eq!(clients[there].error(call.as_str()), moved, "{call}");
            }
            for keys in [format!("{tag}:a other"), format!("{tag}:a {tag}:b {tag}:c other")] {
                let call = format!("{command} {keys} {tail}");
                for client in &mut clients {
                    assert_eq!(client.error(call.as_str()), CROSSSLOT, "{call}");
                }
            }
            clients[here].run(format!("DEL {tag}:a {tag}:b {tag}:c"));
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
        client.run(format!("{command} {{t}}a {{t}}b {tail}"));
        let before = client.text("DEBUG DIGEST");
        assert_eq!(client.error(format!("{command} {{t}}a b {tail}")), CROSSSLOT, "{command}");
        assert_eq!(client.text("DEBUG DIGEST"), before, "{command}");
    }
}

#[test]
fn command_getkeys_finds_exactly_the_keys() {
    let server = Server::start();
    let mut client = server.client();
    for (command, tail, writes) in COMMANDS {
        for count in [1, 2, 50] {
            let keys: Vec<String> = (0..count).map(|i| format!("key{i}")).collect();
            let call = format!("{command} {} {tail}", keys.join(" "));
            assert_eq!(client.texts(format!("COMMAND GETKEYS {call}")), keys, "{call}");
            let reply = client.run(format!("COMMAND GETKEYSANDFLAGS {call}"));
            for (found, key) in array(&reply).iter().zip(&keys) {
                let [name, flags] = array(found) else { panic!("no pair: {found:?}") };
                assert_eq!(text(name), *key);
                let expected: &[&str] =
                    if writes { &["RW", "access", "update"] } else { &["RO", "access"] };
                assert_eq!(sorted(flags), expected, "{call}");
            }
        }
        // A rule for each key.
        if tail.starts_with("WINDOW 10d") && command != "RL.ACQUIRE" {
            let rules = [RULE; 3].join(" ");
            let call = format!("COMMAND GETKEYS {command} a b c {rules} WITHKEYS");
            assert_eq!(client.texts(call), ["a", "b", "c"]);
        }
    }
    assert_eq!(client.texts("COMMAND GETKEYS RL.INFO k"), ["k"]);
    // Without a rule there are none to find; the call itself is refused.
    for command in ["RL.ACQUIREX", "RL.PEEK"] {
        client.error(format!("COMMAND GETKEYS {command} a b c d e f g"));
        assert!(
            client
                .call(format!("COMMAND GETKEYS {command} WINDOW WINDOW 1s LIMIT 1 ALGO fixed"))
                .is_ok()
        );
    }
}

/// What a client is told about a command.
struct Told {
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    keys: [i64; 3],
    arguments: &'static [&'static str],
    tokens: &'static [&'static str],
}

const WRITE: &[&str] = &["fast", "module", "write"];

const TOLD: [Told; 8] = [
    Told {
        name: "rl.acquire",
        arity: -8,
        flags: WRITE,
        keys: [1, -7, 1],
        arguments: &["key", "window", "limit", "algo"],
        tokens: &["", "WINDOW", "LIMIT", "ALGO"],
    },
    Told {
        name: "rl.acquirex",
        arity: -8,
        flags: &["blocking", "module", "movablekeys", "write"],
        keys: [1, 1, 1],
        arguments: &["key", "rule", "upto", "id", "reserve", "timeout", "force", "withkeys"],
        tokens: &["", "", "UPTO", "ID", "RESERVE", "TIMEOUT", "FORCE", "WITHKEYS"],
    },
    Told {
        name: "rl.peek",
        arity: -8,
        flags: &["module", "movablekeys", "readonly"],
        keys: [1, 1, 1],
        arguments: &["key", "rule", "upto", "id", "withkeys"],
        tokens: &["", "", "UPTO", "ID", "WITHKEYS"],
    },
    Told {
        name: "rl.refund",
        arity: -4,
        flags: WRITE,
        keys: [1, -3, 1],
        arguments: &["key", "cost"],
        tokens: &["", "COST"],
    },
    Told {
        name: "rl.release",
        arity: -4,
        flags: WRITE,
        keys: [1, -3, 1],
        arguments: &["key", "id"],
        tokens: &["", "ID"],
    },
    Told {
        name: "rl.block",
        arity: -4,
        flags: WRITE,
        keys: [1, -3, 1],
        arguments: &["key", "duration"],
        tokens: &["", "FOR"],
    },
    Told {
        name: "rl.exempt",
        arity: -4,
        flags: WRITE,
        keys: [1, -3, 1],
        arguments: &["key", "duration"],
        tokens: &["", "FOR"],
    },
    Told {
        name: "rl.info",
        arity: 2,
        flags: &["fast", "module", "readonly"],
        keys: [1, 1, 1],
        arguments: &["key"],
        tokens: &[""],
    },
];

/// The text of a field in a flat array, empty when there is none.
fn text_or_empty(map: &redis::Value, name: &str) -> String {
    let pairs = array(map).chunks(2);
    pairs
        .filter(|pair| text(&pair[0]) == name)
        .map(|pair| text(&pair[1]))
        .next()
        .unwrap_or_default()
}

#[test]
fn every_command_is_described() {
    let server = Server::start();
    let mut client = server.client();
    for told in TOLD {
        let name = told.name;
        let reply = client.run(format!("COMMAND INFO {name}"));
        let info = array(&array(&reply)[0]);
        assert_eq!((text(&info[0]).as_str(), int(&info[1])), (name, told.arity));
        assert_eq!(sorted(&info[2]), told.flags, "{name}");
        assert_eq!([3, 4, 5].map(|at| int(&info[at])), told.keys, "{name}");
        let [spec] = array(&info[8]) else { panic!("{name}: not one key specification") };
        let of_keys = sorted(field(spec, "flags"));
        let writes = told.flags.contains(&"write");
        assert!(
            of_keys.contains(&if writes { "RW" } else { "RO" }.to_owned()),
            "{name}: {of_keys:?}"
        );
        let movable = told.flags.contains(&"movablekeys");
        assert_eq!(of_keys.contains(&"incomplete".to_owned()), movable, "{name}: {of_keys:?}");

        let reply = client.run(format!("COMMAND DOCS {name}"));
        let docs = field(&reply, name);
        for (entry, least) in [("summary", 20), ("complexity", 4), ("since", 5)] {
            assert!(text(field(docs, entry)).len() >= least, "{name} {entry}: {docs:?}");
        }
        assert_eq!(text(field(docs, "module")), "rl");
        let arguments = array(field(docs, "arguments"));
        let names: Vec<String> = arguments.iter().map(|arg| text(field(arg, "name"))).collect();
        let tokens: Vec<String> = arguments.iter().map(|arg| text_or_empty(arg, "token")).collect();
        assert_eq!(
            (names, tokens),
            (
                told.arguments.iter().map(|s| s.to_string()).collect(),
                told.tokens.iter().map(|s| s.to_string()).collect()
            ),
            "{name}"
        );
        // What can be left out is marked so, and only that.
        for (argument, name) in arguments.iter().zip(told.arguments) {
            let optional = ["upto", "reserve", "timeout", "force", "withkeys"].contains(name)
                || (*name == "id" && movable);
            let pairs = array(argument).chunks(2);
            let flags =
                pairs.filter(|pair| text(&pair[0]) == "flags").flat_map(|pair| sorted(&pair[1]));
            let flags: Vec<String> = flags.collect();
            assert_eq!(flags.contains(&"optional".to_owned()), optional, "{name}: {flags:?}");
        }
        if let Some(at) = told.arguments.iter().position(|name| *name == "rule") {
            let parts: Vec<String> = array(field(&arguments[at], "arguments"))
                .iter()
                .map(|part| text(field(part, "token")))
                .collect();
            assert_eq!(
                parts,
                ["WINDOW", "LIMIT", "ALGO", "BURST", "OFFSET", "BLOCK", "COST", "NAME"]
            );
        }
    }
}

#[test]
fn a_user_who_may_only_read_keys_may_peek_but_not_acquire() {
    let server = Server::start();
    let mut admin = server.client();
    admin.run("ACL SETUSER reader on >secret %R~app:* ~own:* +@all -@admin -@dangerous");
    let mut client = server.client();
    client.run("AUTH reader secret");
    let may = |line: &Result<redis::Value, String>| match line {
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
    // Not from a script either.
    let script = "return redis.call(unpack(ARGV))";
    for (command, keys, allowed) in [
        ("RL.PEEK", "app:a", true),
        ("RL.PEEK", "own:a other", false),
        ("RL.ACQUIREX", "own:a app:a", false),
    ] {
        let call = words("EVAL").arg(script).then("0").then(command).then(keys).then(RULE);
        assert_eq!(client.call(call).is_ok(), allowed, "{command} {keys}");
    }
    assert_eq!(admin.keys(), Vec::<String>::new());
}
