//! `RL.POLICY`: what it refuses, and in which words.

use testkit::{Server, Words, words};

use super::kept::{assert_same, snapshot};
use crate::policies::{create, digest, names};

const RULE: &str = "WINDOW 1h LIMIT 5 ALGO fixed";
const NAME_EXPECTED: &str = "NAME must be 1 to 64 letters, digits, '_', '.' or '-' and no option";

const HIGH: &str = "315360000000 ms";

/// Each call is refused with exactly this error, is counted, and changes nothing.
fn assert_refused<'a>(cases: impl IntoIterator<Item = (Words, &'a str)>) {
    let server = Server::start();
    let mut client = server.client();
    let (empty, mut errors) = (digest(&mut client), 0);
    for (line, error) in cases {
        let shown = line.lossy();
        let answer = client.error(line.behind("RL.POLICY SET"));
        assert_eq!(answer, format!("ERR {error}"), "{shown:?}");
        errors += 1;
    }
    assert_eq!(client.info_number("rl", "rl_errors"), errors);
    assert_eq!(digest(&mut client), empty);
}

#[test]
fn options_are_refused_by_whole_lines() {
    let twice = |word: &str| format!("syntax error, {word} is given twice");
    let expected =
        "syntax error, expected WINDOW, LIMIT, ALGO, BURST, OFFSET, BLOCK, SHADOW or FOR";
    let mut cases: Vec<(String, String)> = [
        ("COST 1", "syntax error, COST belongs to the rule of a call, not to a policy"),
        ("NAME x", "syntax error, NAME belongs to the rule of a call, not to a policy"),
        ("COST", "syntax error, COST belongs to the rule of a call, not to a policy"),
        ("BURST 5", "BURST goes with ALGO bucket only"),
        ("FOR 0", &format!("FOR must be 1 to {HIGH}, got '0'")),
        ("FOR -1", &format!("FOR must be 1 to {HIGH}, got '-1'")),
        ("FOR 3651d", &format!("FOR must be 1 to {HIGH}, got '3651d'")),
        ("BLOCK 0", &format!("BLOCK must be 1 to {HIGH}, got '0'")),
        ("OFFSET 1w", &format!("OFFSET must be -315360000000 to {HIGH}, got '1w'")),
        ("SHADOW yes", &format!("{expected}, got 'yes'")),
        ("UPTO 3", &format!("{expected}, got 'UPTO'")),
        ("TIMEOUT 3", &format!("{expected}, got 'TIMEOUT'")),
        ("RESERVE 3", &format!("{expected}, got 'RESERVE'")),
        ("ID x", &format!("{expected}, got 'ID'")),
        ("FORCE", &format!("{expected}, got 'FORCE'")),
        ("WITHKEYS", &format!("{expected}, got 'WITHKEYS'")),
        ("COUNT 3", &format!("{expected}, got 'COUNT'")),
        ("SHADOW SHADOW", &twice("SHADOW")),
    ]
    .map(|(tail, error)| (format!("n {RULE} {tail}"), error.to_string()))
    .to_vec();
    for (word, value) in [
        ("WINDOW", "2h"),
        ("LIMIT", "6"),
        ("ALGO", "fixed"),
        ("OFFSET", "1h"),
        ("BLOCK", "1h"),
        ("FOR", "1h"),
    ] {
        cases.push((format!("n {RULE} {word}"), format!("syntax error, {word} has no value")));
        let once = if RULE.contains(word) { "" } else { &format!("{word} {value}") };
        cases.push((format!("n {RULE} {once} {word} {value}"), twice(word)));
    }
    cases.push(("n WINDOW 1h LIMIT 5 ALGO bucket BURST 5 BURST 6".into(), twice("BURST")));
    assert_refused(cases.iter().map(|(line, error)| (words(line), error.as_str())));
}

#[test]
fn rules_and_names_are_refused_by_whole_lines() {
    let name = |got: &str| format!("{NAME_EXPECTED}, got '{got}'");
    assert_refused([
        ("n WINDOW 1h LIMIT 5 SHADOW FOR 1h", "syntax error, rule 1 has no ALGO"),
        ("n WINDOW 1h ALGO fixed FOR 1h", "syntax error, rule 1 has no LIMIT"),
        ("n LIMIT 5 ALGO fixed FOR 1h", "syntax error, rule 1 has no WINDOW"),
        ("n WINDOW 0 LIMIT 5 ALGO fixed", &format!("WINDOW must be 1 to {HIGH}, got '0'")),
        ("n WINDOW 1h LIMIT -1 ALGO fixed", "LIMIT must be 0 to 1000000000000, got '-1'"),
        (
            "n WINDOW 1h LIMIT 1000000000001 ALGO fixed",
            "LIMIT must be 0 to 1000000000000, got '1000000000001'",
        ),
        ("n WINDOW 1h LIMIT 05 ALGO fixed", "LIMIT must be 0 to 1000000000000, got '05'"),
        ("n WINDOW 1h LIMIT 5 ALGO bucket BURST 0", "BURST must be 1 to 1000000000000, got '0'"),
        ("n WINDOW 1h LIMIT 5 ALGO leaky BURST 5", "BURST does not go with ALGO leaky"),
        ("n WINDOW 1h LIMIT 5 ALGO sliding OFFSET 5", "OFFSET goes with ALGO fixed only"),
        ("n WINDOW 1h LIMIT 5 ALGO leaky OFFSET 5", "OFFSET goes with ALGO fixed only"),
        (
            "n WINDOW 1h LIMIT 5 ALGO gcra",
            "unknown ALGO 'gcra', expected sliding, bucket, leaky, fixed, counter or concurrency",
        ),
        ("WINDOW 1h LIMIT 5 ALGO fixed FOR 1h", &name("WINDOW")),
        ("a/b WINDOW 1h LIMIT 5 ALGO fixed", &name("a/b")),
        ("shadow WINDOW 1h LIMIT 5 ALGO fixed", &name("shadow")),
    ].map(|(line, error)| (words(line), error)));
    // The server shows at most 64 bytes.
    let long = "n".repeat(65);
    let names: [(&[u8], &str); 4] =
        [(b"", ""), (long.as_bytes(), &long[..64]), (b"a b", "a b"), (b"\xff", "\\xff")];
    let names = names.map(|(bytes, shown)| (words("").arg(bytes).then(RULE), name(shown)));
    assert_refused(names.iter().map(|(line, error)| (line.clone(), error.as_str())));
}

#[test]
fn the_server_refuses_what_has_too_few_words() {
    let server = Server::start();
    let mut client = server.client();
    for (line, command) in [
        ("RL.POLICY", "rl.policy"),
        ("RL.POLICY SET", "rl.policy|set"),
        ("RL.POLICY SET n WINDOW 1h LIMIT 5 ALGO", "rl.policy|set"),
        ("RL.POLICY GET", "rl.policy|get"),
        ("RL.POLICY GET a b", "rl.policy|get"),
        ("RL.POLICY DEL", "rl.policy|del"),
        ("RL.POLICY LIST x", "rl.policy|list"),
    ] {
        let error = format!("ERR wrong number of arguments for '{command}' command");
        assert_eq!(client.error(line), error, "{line}");
    }
    assert_eq!(
        client.error("RL.POLICY FLUSH"),
        "ERR unknown subcommand 'FLUSH'. Try RL.POLICY HELP."
    );
    // Accepted: the longest name, all characters of a name, words in any case and order.
    let name = format!("AZaz09_.-{}", "n".repeat(55));
    client.run(format!("rl.policy set {name} shadow algo FIXED for 1h limit 5 window 1h"));
    assert_eq!(names(&mut client), [name]);
}

#[test]
fn a_replicated_policy_is_not_for_clients_and_a_damaged_one_is_skipped() {
    let mut server = Server::builder().conf("appendonly yes").conf("appendfsync always").start();
    let mut client = server.client();
    let not_for_clients = "ERR this command is sent by a primary to its replicas, not by clients";
    for line in ["RL._POLICY", "RL._POLICY x", "RL._POLICY x y"] {
        assert_eq!(client.error(line), not_for_clients, "{line}");
    }
    create(&mut client);
    let before = snapshot(&mut client);
    server.crash_and(|server| {
        let dir = std::fs::read_dir(server.file("appendonlydir")).expect("the directory");
        let mut paths = dir.map(|entry| entry.expect("an entry").path());
        let path = paths.find(|path| path.to_string_lossy().ends_with(".incr.aof"));
        let mut aof = std::fs::read(path.as_ref().expect("an AOF")).expect("the AOF");
        for blob in [&b""[..], b"\x63", b"\x01\x01", b"\x01\xff\xff\xff\xff\xff\xff", b"%s%n"] {
            aof.extend(redis::pack_command(&[b"RL._POLICY".to_vec(), blob.to_vec()]));
        }
        aof.extend(redis::pack_command(&[b"RL._POLICY".to_vec()]));
        std::fs::write(path.expect("an AOF"), aof).expect("a write");
    });
    assert_same(&before, &mut server.client(), "behind damaged ones");
    assert!(server.log().contains("policies skipped: "), "nothing in the log");
}
