//! What the server tells about the commands, and what follows from it: routing and access control.

use redis::Value;
use testkit::{Client, Reply, Server, acquire, array, field, int, line_of, sorted, text, words};

use crate::calls::ALL;
use crate::grammar::WORDS;

const RULE: &str = "WINDOW 10d LIMIT 3 ALGO sliding";
const NOT_FOR_CLIENTS: &str =
    "ERR this command is sent by a primary to its replicas, not by clients";

/// An effect that is well-formed and would create a key.
const EFFECT: &[u8] = b"\x01\x00";

#[test]
fn command_info() {
    let server = Server::start();
    let reply = server.client().run("COMMAND INFO rl.acquire rl._effect");
    let [acquire, effect] = array(&reply) else { panic!("not two commands: {reply:?}") };
    for (command, name, arity, flags, keys) in [
        (acquire, "rl.acquire", -8, vec!["fast", "module", "write"], (1, -7, 1)),
        (effect, "rl._effect", -1, vec!["module", "write"], (1, -1, 2)),
    ] {
        let command = array(command);
        assert_eq!(text(&command[0]), name);
        assert_eq!(int(&command[1]), arity, "{name}");
        assert_eq!(sorted(&command[2]), flags, "{name}");
        let range = (int(&command[3]), int(&command[4]), int(&command[5]));
        assert_eq!(range, keys, "{name}");
        let [spec] = array(&command[8]) else { panic!("{name}: not one key specification") };
        let mut of_keys = sorted(field(spec, "flags"));
        of_keys.retain(|flag| ["RW", "access", "update"].contains(&flag.as_str()));
        assert_eq!(of_keys.first().map(String::as_str), Some("RW"), "{name}");
        let begin = field(spec, "begin_search");
        assert_eq!(text(field(begin, "type")), "index");
        assert_eq!(int(field(field(begin, "spec"), "index")), 1);
        let find = field(spec, "find_keys");
        assert_eq!(text(field(find, "type")), "range");
        // Counted from the first key; negative: from the end.
        assert_eq!(int(field(field(find, "spec"), "lastkey")), i64::from(keys.1 as i32), "{name}");
        assert_eq!(int(field(field(find, "spec"), "keystep")), keys.2, "{name}");
        assert_eq!(int(field(field(find, "spec"), "limit")), 0);
    }
}

#[test]
fn command_docs() {
    let server = Server::start();
    let reply = server.client().run("COMMAND DOCS rl.acquire");
    let docs = field(&reply, "rl.acquire");
    assert!(text(field(docs, "summary")).starts_with("Takes a permit"), "{docs:?}");
    assert_eq!(text(field(docs, "since")), "0.1.0");
    assert_eq!(text(field(docs, "group")), "module");
    assert_eq!(text(field(docs, "complexity")), "O(N) with N the number of keys");
    assert_eq!(text(field(docs, "module")), "rl");
    let arguments = array(field(docs, "arguments"));
    let shape = |argument: &Value| (text(field(argument, "name")), text(field(argument, "type")));
    let [key, window, limit, algo] = arguments else { panic!("not four: {arguments:?}") };
    assert_eq!(shape(key), ("key".into(), "key".into()));
    assert_eq!(sorted(field(key, "flags")), ["multiple"]);
    assert_eq!(int(field(key, "key_spec_index")), 0);
    for (argument, name, token, kind) in [
        (window, "window", "WINDOW", "integer"),
        (limit, "limit", "LIMIT", "integer"),
        (algo, "algo", "ALGO", "oneof"),
    ] {
        assert_eq!(shape(argument), (name.into(), kind.into()));
        assert_eq!(text(field(argument, "token")), token);
    }
    let choices: Vec<String> = array(field(algo, "arguments"))
        .iter()
        .map(|choice| {
            assert_eq!(text(field(choice, "type")), "pure-token");
            text(field(choice, "token"))
        })
        .collect();
    assert_eq!(choices, ["sliding", "bucket", "leaky", "fixed", "counter"]);
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
        arity: -3,
        flags: &["blocking", "module", "write"],
        keys: [1, -2, 1],
        arguments: &["key", "rules"],
        tokens: &["", ""],
    },
    Told {
        name: "rl.peek",
        arity: -3,
        flags: &["module", "readonly"],
        keys: [1, -2, 1],
        arguments: &["key", "rules"],
        tokens: &["", ""],
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
fn text_or_empty(map: &Value, name: &str) -> String {
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
        // No argument can be left out.
        for argument in arguments {
            let pairs = array(argument).chunks(2);
            let flags =
                pairs.filter(|pair| text(&pair[0]) == "flags").flat_map(|pair| sorted(&pair[1]));
            assert!(!flags.clone().any(|flag| flag == "optional"), "{name}: {argument:?}");
        }
    }
}

/// Rules are one argument, and its summary says what may stand in it.
#[test]
fn the_summary_of_rules_has_every_word() {
    let server = Server::start();
    let mut client = server.client();
    let mut summary = |name: &str| {
        let reply = client.run(format!("COMMAND DOCS {name}"));
        let arguments = array(field(field(&reply, name), "arguments"));
        let [_, rules] = arguments else { panic!("not two arguments: {arguments:?}") };
        assert_eq!(
            (text(field(rules, "name")), text(field(rules, "type"))),
            ("rules".into(), "string".into())
        );
        text(field(rules, "summary"))
    };
    let (acquirex, peek) = (summary("rl.acquirex"), summary("rl.peek"));
    let has = |summary: &str, word: &str| {
        summary.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == word)
    };
    let in_peek = ["UPTO", "ID", "WITHKEYS"];
    for word in WORDS.into_iter().filter(|word| !["FOR", "SHADOW", "COUNT"].contains(word)) {
        assert!(has(&acquirex, word), "{word}: {acquirex}");
        let of_calls = ["XX", "RESERVE", "TIMEOUT", "FORCE"].contains(&word);
        assert!(!of_calls || !has(&peek, word), "{word}: {peek}");
        assert!(!in_peek.contains(&word) || has(&peek, word), "{word}: {peek}");
    }
    for algorithm in ALL {
        assert!(has(&acquirex, algorithm), "{algorithm}: {acquirex}");
    }
}

/// A cluster node with I/O threads asks a module about movable keys from its threads, and crashes. With a range the
/// server finds the keys by itself, for clients of any age.
#[test]
fn the_keys_of_every_command_stand_at_fixed_places() {
    let server = Server::builder().module_args("cl-throttle yes").start();
    let mut client = server.client();
    let names = client.texts("COMMAND LIST FILTERBY MODULE rl");
    assert_eq!(names.len(), 18, "{names:?}");
    let mut with_keys = 0;
    for name in names {
        let reply = client.run(format!("COMMAND INFO {name}"));
        let info = array(&array(&reply)[0]);
        assert_eq!(text(&info[0]), name);
        let flags = sorted(&info[2]);
        assert!(
            !flags.iter().any(|flag| flag.contains("movable") || flag.contains("getkeys")),
            "{name}: {flags:?}"
        );
        let range = [3, 4, 5].map(|at| int(&info[at]));
        let specs = array(&info[8]);
        assert!(specs.len() <= 1, "{name}: {specs:?}");
        let Some(spec) = specs.first() else {
            assert_eq!(range, [0, 0, 0], "{name}");
            continue;
        };
        with_keys += 1;
        let flags = sorted(field(spec, "flags"));
        for flag in ["incomplete", "variable_flags", "not_key"] {
            assert!(!flags.iter().any(|known| known == flag), "{name}: {flags:?}");
        }
        let (begin, find) = (field(spec, "begin_search"), field(spec, "find_keys"));
        assert_eq!(
            (text(field(begin, "type")), text(field(find, "type"))),
            ("index".into(), "range".into())
        );
        let first = int(field(field(begin, "spec"), "index"));
        let (last, step) =
            ["lastkey", "keystep"].map(|part| int(field(field(find, "spec"), part))).into();
        // Counted from the first key, unless from the end.
        let last = if last < 0 { last } else { first + last };
        assert_eq!(range, [first, last, step], "{name}");
        assert!(first > 0 && step > 0, "{name}: {range:?}");
    }
    assert_eq!(with_keys, 10);
}

/// A client that may only acquire permits, and only under `app`.
fn limited(server: &Server) -> Client {
    server.client().run("ACL SETUSER app on >secret ~app:* +rl.acquire +multi +exec +eval");
    let mut client = server.client();
    client.run("AUTH app secret");
    client
}

/// Redis reworded these lines in 7.2.
fn is_no_permission_for_keys(line: &str) -> bool {
    [
        "NOPERM this user has no permissions to access one of the keys used as arguments",
        "NOPERM No permissions to access a key",
    ]
    .contains(&line)
}

#[test]
fn a_user_limits_only_under_its_own_keys() {
    let server = Server::start();
    let mut client = limited(&server);
    assert_eq!(client.acquire("app:a app:b", RULE).remaining, 2);
    for keys in ["other", "app:a other", "other app:a", "app:a app:b ap"] {
        let line = client.error(acquire(keys, RULE));
        assert!(is_no_permission_for_keys(&line), "{keys}: {line}");
    }
    client.run("MULTI");
    let line = client.error(acquire("app:a other", RULE));
    assert!(is_no_permission_for_keys(&line), "{line}");
    assert_eq!(client.error("EXEC"), "EXECABORT Transaction discarded because of previous errors.");
    let script = "return redis.pcall('RL.ACQUIRE', 'app:a', 'other', 'WINDOW', '1d', 'LIMIT', 9, 'ALGO', 'fixed')";
    let line = client.error(words("EVAL").arg(script).then("0"));
    assert!(
        line.contains("No permissions to access a key") || line.contains("can't access"),
        "{line}"
    );
    // None of these calls changed anything.
    assert_eq!(client.acquire("app:a app:b", RULE).remaining, 1);
    assert_eq!(server.client().keys(), ["app:a", "app:b"]);
    let line = client.error("RL._EFFECT app:a x");
    assert!(line.starts_with("NOPERM "), "{line}");
}

#[test]
fn effects_are_not_for_clients() {
    let server = Server::start();
    let mut client = server.client();
    let effect = || words("RL._EFFECT k").arg(EFFECT);
    assert_eq!(client.error(effect()), NOT_FOR_CLIENTS);
    for malformed in ["RL._EFFECT", "RL._EFFECT k", "RL._EFFECT k x", "RL._EFFECT k x k"] {
        assert_eq!(client.error(malformed), NOT_FOR_CLIENTS);
    }
    client.run("MULTI");
    client.run(acquire("granted", RULE));
    client.run(effect());
    let Value::Array(replies) = client.run("EXEC") else { panic!("no array") };
    assert!(Reply::of(&replies[0]).is_grant());
    let Value::ServerError(error) = &replies[1] else { panic!("no error: {:?}", replies[1]) };
    assert_eq!(line_of(error), NOT_FOR_CLIENTS);
    let script = "redis.call('RL.ACQUIRE', KEYS[2], unpack(ARGV, 2)) \
        return redis.pcall('RL._EFFECT', KEYS[1], ARGV[1])";
    let call = words("EVAL").arg(script).then("2 k granted").arg(EFFECT).then(RULE);
    assert_eq!(client.error(call), NOT_FOR_CLIENTS);
    assert_eq!(client.keys(), ["granted"]);
    assert_eq!(client.drain("granted", RULE), 1);
}
