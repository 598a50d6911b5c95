//! `RL.POLICY`: policies in force, how they are kept, what is refused, and policies that only watch.

mod grammar;
mod in_force;
mod kept;
mod shadow;

use redis::Value;
use testkit::{Client, Reply, array, field, int, text};

use crate::calls::timed;

/// The call of an application.
pub fn call(key: &str, name: &str) -> String {
    format!("RL.ACQUIREX {key} 'WINDOW 10d LIMIT 5 ALGO sliding NAME {name}'")
}

/// Sets a policy with this limit.
pub fn set(client: &mut Client, name: &str, limit: i64, options: &str) {
    client.run(format!("RL.POLICY SET {name} WINDOW 10d LIMIT {limit} ALGO sliding {options}"));
}

/// The limit in force for a name, according to a call and to RL.POLICY GET.
pub fn limit(client: &mut Client, name: &str) -> i64 {
    let peek = |client: &mut Client| {
        Reply::of(&client.run(call("fresh", name).replace("ACQUIREX", "PEEK"))).limit
    };
    loop {
        let (asked, got) = (peek(client), client.run(format!("RL.POLICY GET {name}")));
        // A policy for a time may have ended in between.
        if peek(client) == asked {
            assert_eq!(asked, if got == Value::Nil { 5 } else { int(field(&got, "limit")) });
            return asked;
        }
    }
}

/// Sets a policy for a time, and looks at once.
pub fn set_for(client: &mut Client, limit: i64, for_ms: i64) {
    let set = format!("RL.POLICY SET n WINDOW 10d LIMIT {limit} ALGO sliding FOR {for_ms}");
    let peek = call("fresh", "n").replace("ACQUIREX", "PEEK");
    let (replies, when) = timed(client, [set.as_str(), &peek, "RL.POLICY GET n"]);
    if when.end() - when.start() < for_ms {
        assert_eq!(Reply::of(&replies[1]).limit, limit);
        assert_eq!(int(field(&replies[2], "limit")), limit);
        assert!((1..=for_ms).contains(&int(field(&replies[2], "for"))), "{replies:?}");
    }
}

pub fn digest(client: &mut Client) -> String {
    let digest = client.info("rl", "rl_policies_digest");
    assert_eq!(digest.len(), 16, "{digest}");
    digest
}

/// The names that have a policy in force.
pub fn names(client: &mut Client) -> Vec<String> {
    array(&client.run("RL.POLICY LIST")).iter().map(|pair| text(&array(pair)[0])).collect()
}

/// Some policies of all kinds.
pub fn create(client: &mut Client) {
    client.run("RL.POLICY SET a WINDOW 1h LIMIT 7 ALGO bucket BURST 70 BLOCK 5s SHADOW");
    client.run("RL.POLICY SET b.B-_9 WINDOW 1d LIMIT 8 ALGO fixed OFFSET -3h");
    client.run("RL.POLICY SET c WINDOW 1h LIMIT 1 ALGO concurrency");
    set(client, "d", 9, "");
    set(client, "d", 12, "FOR 2h");
    set(client, "d", 10, "FOR 1h");
    set(client, "gone", 11, "");
    client.run("RL.POLICY DEL gone");
}

/// Sets policies for ten thousand names.
pub fn set_ten_thousand(client: &mut Client) {
    let set = |i| format!("RL.POLICY SET {} WINDOW {}s LIMIT 2 ALGO sliding", numbered(i), i + 1);
    for reply in client.pipeline((0..10_000).map(set)) {
        reply.expect("OK");
    }
    assert_eq!(client.info_number("rl", "rl_policies"), 10_000);
}

/// The name of one of them.
pub fn numbered(i: usize) -> String {
    format!("policy-number-{i}")
}
