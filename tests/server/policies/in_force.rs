//! `RL.POLICY`: numbers are replaced while the server runs, at once and for all clients.

use redis::Value;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use testkit::{Client, Reply, Server, array, field, int, text, wait_for, wait_for_replica, words};

use crate::calls::{COUNTING, acquirex, at_once, with_keys};
use crate::cluster::cluster;
use crate::policies::{
    call, create, digest, limit, names, numbered, set, set_for, set_ten_thousand,
};

/// The limit of each step (0: no policy), and how many permits the shared limiter has handed out by its end.
const STEPS: [(i64, i64); 6] = [(40, 40), (70, 70), (30, 70), (71, 71), (0, 71), (400, 400)];

/// Each answer obeys a step that had begun when it came and was not over when the call was sent. The limits tell the
/// steps apart; the application's own limit is 5.
#[test]
fn the_very_next_acquisition_obeys_while_clients_run() {
    const THREADS: usize = 20;
    let limit_of = |step: usize| if STEPS[step].0 == 0 { 5 } else { STEPS[step].0 };
    let server = Server::start();
    let mut operator = server.client();
    set(&mut operator, "api", STEPS[0].0, "");
    let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (granted, calls) = (AtomicI64::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for worker in 0..THREADS {
            let (begun, done, granted, calls, stop) = (&begun, &done, &granted, &calls, &stop);
            let mut client = server.client();
            scope.spawn(move || {
                let line = call("shared", "api");
                while !stop.load(Ordering::SeqCst) {
                    let first = done.load(Ordering::SeqCst);
                    let reply = Reply::of(&client.run(line.as_str()));
                    let last = begun.load(Ordering::SeqCst);
                    let allowed: Vec<i64> = (first..=last).map(limit_of).collect();
                    assert!(allowed.contains(&reply.limit), "{worker}: {reply:?}, not {allowed:?}");
                    granted.fetch_add(reply.granted, Ordering::SeqCst);
                    calls.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for (step, (limit, total)) in STEPS.into_iter().enumerate() {
            begun.store(step, Ordering::SeqCst);
            match limit {
                0 => assert_eq!(operator.int("RL.POLICY DEL api"), 1),
                limit => set(&mut operator, "api", limit, ""),
            }
            done.store(step, Ordering::SeqCst);
            let (seen, enough) = (calls.load(Ordering::SeqCst), 10 * THREADS);
            wait_for("the clients", || {
                let asked = calls.load(Ordering::SeqCst) - seen >= enough;
                (asked && granted.load(Ordering::SeqCst) >= total).then_some(())
            });
            // A raised limit gave what it added; a lowered one forgave nothing.
            assert_eq!(granted.load(Ordering::SeqCst), total, "step {step}");
        }
    });
    // In a pipeline, in a transaction and in a script, the very next call obeys.
    let policy = |n: i64| format!("RL.POLICY SET api WINDOW 10d LIMIT {n} ALGO sliding");
    let replies = operator.pipeline([policy(501), call("k", "api"), policy(502), call("k", "api")]);
    for (at, limit) in [(1, 501), (3, 502)] {
        assert_eq!(Reply::of(replies[at].as_ref().expect("a reply")).limit, limit);
    }
    let (replies, _) = at_once(&mut operator, &[], &[&policy(503), &call("k", "api")]);
    assert_eq!(Reply::of(&replies[1]).limit, 503);
    let script = "redis.call('RL.POLICY', 'DEL', 'api') return redis.call(unpack(ARGV))";
    let line = words("EVAL").arg(script).then("1 k").then(&call("k", "api"));
    assert_eq!(Reply::of(&operator.run(line)).limit, 5);
}

/// Ends the clients on a panic too.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// All numbers come from the policy, cost and ID from the call. Permits that were taken stay taken.
#[test]
fn every_number_is_replaced_and_permits_in_use_are_kept() {
    let server = Server::start();
    let mut client = server.client();
    for asked in COUNTING {
        for (policy, capacity, quota) in [
            ("WINDOW 9d LIMIT 20 ALGO sliding", 20, 20),
            ("WINDOW 9d LIMIT 20 ALGO bucket BURST 30", 30, 20),
            ("WINDOW 9d LIMIT 20 ALGO fixed OFFSET -1d", 20, 20),
            ("WINDOW 9d LIMIT 20 ALGO counter", 20, 20),
        ] {
            let case = format!("{asked} replaced by {policy}");
            client.run("FLUSHALL");
            let rule = format!("WINDOW 10d LIMIT 9 ALGO {asked} NAME n COST 2 WITHKEYS");
            let mut reply = || {
                let value = client.run(format!("RL.ACQUIREX k '{rule}'"));
                let (reply, keys) = with_keys(&value);
                (reply.limit, reply.remaining, keys[0][5], keys[0][6])
            };
            assert_eq!(reply(), (9, 7, 864_000_000, 9), "{case}");
            server.client().run(format!("RL.POLICY SET n {policy}"));
            assert_eq!(reply(), (capacity, capacity - 4, 777_600_000, quota), "{case}");
            // The present number of permits in use was rounded up at most once.
            assert_eq!(server.client().int("RL.POLICY DEL n"), 1);
            let (limit, remaining, window, quota) = reply();
            assert_eq!((limit, window, quota), (9, 864_000_000, 9), "{case}");
            assert!((2..=3).contains(&remaining), "{case}: {remaining}");
        }
    }
    // BLOCK, and LIMIT 0, which closes an endpoint.
    client.run("RL.POLICY SET login WINDOW 10d LIMIT 1 ALGO fixed BLOCK 1h");
    client.run("RL.POLICY SET closed WINDOW 10d LIMIT 0 ALGO fixed");
    let line = call("b", "login");
    assert!(Reply::of(&client.run(line.as_str())).is_grant());
    assert!(!Reply::of(&client.run(line.as_str())).is_grant());
    client.run("RL.POLICY DEL login");
    let reply = Reply::of(&client.run(line));
    assert!(!reply.is_grant() && reply.retry_after > 3_590_000, "{reply:?}: the block goes on");
    let reply = Reply::of(&client.run(call("c", "closed")));
    assert_eq!((reply.granted, reply.retry_after, reply.limit), (0, -1, 0));
    // A policy concerns only the rules with its name in a call of several, also in PEEK.
    set(&mut client, "two", 50, "");
    let rules = ["one", "two"].map(|name| format!("WINDOW 10d LIMIT 5 ALGO fixed NAME {name}"));
    for command in ["RL.ACQUIREX", "RL.PEEK"] {
        let line = format!("{command} x y '{} WITHKEYS'", rules.join(" "));
        let (_, keys) = with_keys(&client.run(line));
        assert_eq!([keys[0][1], keys[1][1]], [5, 50], "{command}");
    }
    assert_eq!(acquirex(&mut client, "z", "WINDOW 10d LIMIT 5 ALGO sliding").limit, 5);
    // Names are told apart by case.
    assert_eq!([limit(&mut client, "two"), limit(&mut client, "TWO")], [50, 5]);
}

/// Reservations leave a bucket in debt; a log has no debts.
#[test]
fn a_policy_of_another_algorithm_holds_its_limit_over_reservations() {
    for algorithm in ["sliding", "fixed", "counter"] {
        let server = Server::start();
        let mut client = server.client();
        client.run(format!("RL.POLICY SET n WINDOW 10d LIMIT 2 ALGO {algorithm}"));
        let rule = "WINDOW 10d LIMIT 2 ALGO bucket NAME n RESERVE 10d";
        let granted: i64 = (0..10).map(|_| acquirex(&mut client, "k", rule).granted).sum();
        assert_eq!(granted, 2, "{algorithm}");
    }
}

#[test]
fn a_policy_for_a_time_ends_by_itself() {
    let server = Server::start();
    let mut client = server.client();
    let left = |client: &mut Client| match client.run("RL.POLICY GET n") {
        Value::Nil => None,
        policy => Some(int(field(&policy, "for"))),
    };
    // No other policy is behind it.
    let begun = client.time_ms();
    set_for(&mut client, 7, 300);
    wait_for("the end of FOR", || (limit(&mut client, "n") == 5).then_some(()));
    assert!(client.time_ms() >= begun + 300, "it ended early");
    assert_eq!(names(&mut client), Vec::<String>::new());
    // A policy without an end is behind it, and is shown again.
    set(&mut client, "n", 8, "");
    assert_eq!(left(&mut client), Some(-1));
    let standing = digest(&mut client);
    set(&mut client, "n", 9, "FOR 1h");
    assert_eq!(limit(&mut client, "n"), 9);
    assert_ne!(digest(&mut client), standing);
    // A shorter time replaces a longer one.
    set_for(&mut client, 10, 100);
    set_for(&mut client, 11, 100);
    thread::sleep(Duration::from_millis(120));
    assert!([8, 9].contains(&limit(&mut client, "n")), "one of those set before");
    // A policy without an end replaces all others for good.
    set(&mut client, "n", 12, "FOR 50ms");
    set(&mut client, "n", 13, "");
    thread::sleep(Duration::from_millis(70));
    assert_eq!((limit(&mut client, "n"), left(&mut client)), (13, Some(-1)));
    // DEL takes all of it.
    set(&mut client, "n", 14, "FOR 1h");
    assert_eq!(client.int("RL.POLICY DEL n n other"), 1);
    assert_eq!((limit(&mut client, "n"), left(&mut client)), (5, None));
    assert_eq!(client.int("RL.POLICY DEL n"), 0);
}

/// A policy for a time ends "by itself, back to what was set before": here to a longer one whose time is not over.
#[test]
fn a_short_time_goes_back_to_the_longer_one_before_it() {
    let server = Server::start();
    let mut client = server.client();
    set(&mut client, "n", 8, "");
    set(&mut client, "n", 9, "FOR 1h");
    set_for(&mut client, 10, 60);
    thread::sleep(Duration::from_millis(80));
    assert_eq!(limit(&mut client, "n"), 9);
}

#[test]
fn what_ran_out_is_not_there_any_more() {
    let server = Server::start();
    let mut client = server.client();
    let empty = digest(&mut client);
    set(&mut client, "n", 7, "FOR 1h");
    assert_eq!(client.info_number("rl", "rl_policies"), 1);
    client.run("RL.POLICY DEL n");
    set_for(&mut client, 7, 20);
    thread::sleep(Duration::from_millis(40));
    assert_eq!(digest(&mut client), empty);
    assert_eq!(client.run("RL.POLICY GET n"), Value::Nil);
    assert_eq!(client.info_number("rl", "rl_policies"), 0);
    assert_eq!(client.int("RL.POLICY DEL n"), 0, "it was over already");
}

#[test]
fn the_digest_tells_nodes_apart() {
    let [primary, other] = [Server::start(), Server::start()];
    let replica = Server::builder().replica_of(&primary).conf("replica-read-only no").start();
    wait_for_replica(&primary, &replica);
    let (mut client, mut behind, mut other) = (primary.client(), replica.client(), other.client());
    let empty = digest(&mut client);
    assert_eq!([digest(&mut behind), digest(&mut other)], [empty.clone(), empty.clone()]);
    create(&mut client);
    wait_for_replica(&primary, &replica);
    let full = digest(&mut client);
    assert_ne!(full, empty);
    assert_eq!(digest(&mut behind), full);
    // A difference in any number changes the digest, and undoing it restores the digest.
    for policy in [
        "WINDOW 1h LIMIT 7 ALGO bucket BURST 70 BLOCK 5s",
        "WINDOW 1h LIMIT 7 ALGO bucket BURST 71 BLOCK 5s SHADOW",
        "WINDOW 1h LIMIT 7 ALGO bucket BURST 70 BLOCK 6s SHADOW",
        "WINDOW 2h LIMIT 7 ALGO bucket BURST 70 BLOCK 5s SHADOW",
        "WINDOW 1h LIMIT 8 ALGO bucket BURST 70 BLOCK 5s SHADOW",
        "WINDOW 1h LIMIT 7 ALGO sliding BLOCK 5s SHADOW",
        "WINDOW 1h LIMIT 7 ALGO bucket BURST 70 BLOCK 5s SHADOW FOR 1h",
    ] {
        behind.run(format!("RL.POLICY SET a {policy}"));
        assert_ne!(digest(&mut behind), full, "{policy}");
        behind.run("RL.POLICY SET a WINDOW 1h LIMIT 7 ALGO bucket BURST 70 BLOCK 5s SHADOW");
        assert_eq!(digest(&mut behind), full, "{policy}");
    }
    behind.run("RL.POLICY DEL a");
    assert_ne!(digest(&mut behind), full);
    // The order in which policies were set does not matter.
    for (client, order) in [(&mut client, ["x", "y", "z"]), (&mut other, ["z", "x", "y"])] {
        client.run("RL.POLICY DEL a b.B-_9 c d");
        order.iter().for_each(|name| set(client, name, 3, ""));
    }
    assert_eq!(digest(&mut client), digest(&mut other));
}

/// An error in the reply would be an outage.
#[test]
fn a_policy_for_the_other_kind_of_limiter_is_ignored_and_counted() {
    let server = Server::start();
    let mut client = server.client();
    client.run("RL.POLICY SET leases WINDOW 1h LIMIT 50 ALGO concurrency");
    set(&mut client, "permits", 50, "SHADOW");
    let lease = |name: &str| {
        format!("RL.ACQUIREX l 'WINDOW 1h LIMIT 3 ALGO concurrency NAME {name} ID me'")
    };
    let two = "WINDOW 1h LIMIT 5 ALGO fixed NAME leases";
    for (line, limit, mismatched) in [
        (call("k", "leases"), 5, 1),
        (lease("leases"), 50, 1),
        (lease("permits"), 3, 2),
        (call("k", "permits"), 50, 2),
        (call("k", "leases"), 5, 3),
        (format!("RL.ACQUIREX a b '{two} {two}'"), 5, 5),
    ] {
        assert_eq!(Reply::of(&client.run(line.as_str())).limit, limit, "{line}");
        assert_eq!(client.info_number("rl", "rl_policies_mismatched"), mismatched, "{line}");
    }
    assert_eq!(client.info_number("rl", "rl_errors"), 0);
}

#[test]
fn get_and_list_tell_all_numbers() {
    let server = Server::start();
    let (mut client, mut resp3) = (server.client(), server.client_resp3());
    create(&mut client);
    let names = ["algo", "window", "limit", "burst", "offset", "block", "shadow", "for"];
    let expected = [
        ("a", "bucket", [3_600_000, 7, 70, 0, 5000, 1, -1]),
        // OFFSET tells where in the day its windows begin.
        ("b.B-_9", "fixed", [86_400_000, 8, 8, 75_600_000, 0, 0, -1]),
        ("c", "concurrency", [3_600_000, 1, 1, 0, 0, 0, -1]),
        ("d", "sliding", [864_000_000, 10, 10, 0, 0, 0, 3_600_000]),
    ];
    let check = |policy: &Value, (name, algo, numbers): &(&str, &str, [i64; 7])| {
        let pairs: Vec<(Value, Value)> = match policy {
            Value::Map(pairs) => pairs.clone(),
            flat => array(flat).chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        };
        let found: Vec<String> = pairs.iter().map(|(name, _)| text(name)).collect();
        assert_eq!(found, names, "{name}");
        assert_eq!(text(&pairs[0].1), *algo, "{name}");
        let mut values: Vec<i64> = pairs[1..].iter().map(|(_, value)| int(value)).collect();
        if let Some(left) = values.last_mut().filter(|left| (3_590_000..3_600_000).contains(*left))
        {
            *left = 3_600_000;
        }
        assert_eq!(values, numbers, "{name}");
    };
    for (client, maps) in [(&mut client, false), (&mut resp3, true)] {
        let list = client.run("RL.POLICY LIST");
        assert_eq!(array(&list).len(), expected.len());
        for (pair, expected) in array(&list).iter().zip(&expected) {
            let [name, policy] = array(pair) else { panic!("not a pair: {pair:?}") };
            assert_eq!(text(name), expected.0);
            let got = client.run(format!("RL.POLICY GET {}", expected.0));
            for policy in [policy, &got] {
                assert_eq!(matches!(policy, Value::Map(_)), maps, "{policy:?}");
                check(policy, expected);
            }
        }
        assert_eq!(client.run("RL.POLICY GET missing"), Value::Nil);
        assert_eq!(client.info_number("rl", "rl_policies"), 4);
    }
    client.run("RL.POLICY DEL a b.B-_9 c d");
    assert_eq!(client.run("RL.POLICY LIST"), Value::Array(vec![]));
}

/// Modules name the categories of their commands from 7.2 on; before, users are given commands by
/// name.
fn has_categories(client: &mut Client) -> bool {
    let version = client.info("server", "redis_version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a number"));
    (parts.next(), parts.next()) >= (Some(7), Some(2))
}

#[test]
fn only_an_administrator_runs_it() {
    let server = Server::start();
    let mut admin = server.client();
    set(&mut admin, "n", 7, "");
    let lines = [
        "RL.POLICY SET n WINDOW 1h LIMIT 1 ALGO fixed",
        "RL.POLICY DEL n",
        "RL.POLICY GET n",
        "RL.POLICY LIST",
        "RL.TOP",
    ];
    let as_user = |rules: &str| {
        server.client().run(format!("ACL SETUSER u reset on nopass ~* {rules}"));
        let mut user = server.client();
        user.run("AUTH u x");
        user
    };
    let mut users = vec!["+@all -rl.policy -rl.top", "+rl.acquirex +rl.peek"];
    if has_categories(&mut admin) {
        users.extend(["+@all -@admin", "+@read +@write +@fast -@admin"]);
    }
    for rules in users {
        let mut user = as_user(rules);
        for line in lines {
            let error = user.error(line);
            assert!(error.starts_with("NOPERM "), "{rules}: {line}: {error}");
        }
        assert_eq!(Reply::of(&user.run(call("k", "n"))).limit, 7, "{rules}");
        assert_eq!(limit(&mut admin, "n"), 7);
    }
    // A user who may only look.
    let mut user = as_user("-@all +rl.policy|get +rl.policy|list");
    assert!(user.error(lines[0]).starts_with("NOPERM "));
    assert!(user.error(lines[1]).starts_with("NOPERM "));
    user.run(lines[2]);
    assert_eq!(names(&mut user), ["n"]);
    for (command, flags) in [
        ("rl.policy|set", vec!["admin", "module", "write"]),
        ("rl.policy|del", vec!["admin", "module", "write"]),
        ("rl.policy|get", vec!["admin", "module", "readonly"]),
        ("rl.policy|list", vec!["admin", "module", "readonly"]),
        ("rl.top", vec!["admin", "module", "readonly"]),
    ] {
        let info = admin.run(format!("COMMAND INFO {command}"));
        let found = testkit::sorted(&array(&array(&info)[0])[2]);
        assert_eq!(found, flags, "{command}");
    }
}

#[test]
fn each_primary_of_a_cluster_has_its_own() {
    let nodes = cluster();
    let mut clients: Vec<Client> = nodes.iter().map(Server::client).collect();
    set(&mut clients[1], "n", 7, "");
    let limits: Vec<Option<i64>> = clients
        .iter_mut()
        .map(|client| match client.run("RL.POLICY GET n") {
            Value::Nil => None,
            policy => Some(int(field(&policy, "limit"))),
        })
        .collect();
    assert_eq!(limits, [None, Some(7), None]);
    let digests: Vec<String> = clients.iter_mut().map(digest).collect();
    assert!(digests[0] == digests[2] && digests[0] != digests[1], "{digests:?}");
    for client in &mut clients {
        set(client, "n", 8, "");
    }
    let digests: Vec<String> = clients.iter_mut().map(digest).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
fn ten_thousand_policies_reach_a_replica() {
    let server = Server::start();
    let mut client = server.client();
    set_ten_thousand(&mut client);
    let replica = Server::builder().replica_of(&server).start();
    wait_for_replica(&server, &replica);
    assert_eq!(digest(&mut replica.client()), digest(&mut client));
    let peek = call("x", &numbered(9_999)).replace("ACQUIREX", "PEEK");
    assert_eq!(Reply::of(&client.run(peek)).limit, 2);
}

#[test]
fn a_name_has_64_policies_for_a_time_at_most() {
    let server = Server::start();
    let mut client = server.client();
    for i in 0..64 {
        set(&mut client, "n", 1, &format!("FOR {}h", 100 - i));
    }
    let one_more = "RL.POLICY SET n WINDOW 1m LIMIT 5 ALGO bucket FOR 1h";
    let refused = "ERR a name can have 64 policies with FOR at once, DEL it first";
    assert_eq!(client.error(one_more), refused);
    set(&mut client, "n", 1, "");
    client.run(one_more);
}
