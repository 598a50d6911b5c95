//! Transcripts in the documents run as written, and the errors they list exist.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use testkit::{Server, words};

use crate::documents::{Step, read, transcripts};

/// Whether a line of a reply matches the document. An integer above 1000 may be a time of which some has passed: it
/// matches from 1000 less up to the number, rounded up to a whole second, since some time had passed for the writer
/// of the document too.
fn matches(expected: &str, got: &str) -> bool {
    const MARK: &str = "(integer) ";
    let number = |line: &str| {
        let (before, number) = line.split_once(MARK)?;
        Some((before.to_owned(), number.parse::<i64>().ok()?))
    };
    match (number(expected), number(got)) {
        (Some((before, expected)), Some((before_got, got))) if expected > 1000 => {
            let highest = (expected + 999) / 1000 * 1000;
            before == before_got && (expected - 1000..=highest).contains(&got)
        }
        _ => expected == got,
    }
}

#[test]
fn transcripts_run_as_they_are_written() {
    let mut wrong = Vec::new();
    for (document, steps_at_least, replies_at_least) in [
        ("README.md", 3, 3),
        ("docs/commands.md", 8, 8),
        ("docs/choosing.md", 10, 0),
        ("docs/migrating.md", 12, 10),
    ] {
        let server = Server::builder().module_args("cl-throttle yes").start();
        let steps = transcripts(document);
        assert!(steps.len() >= steps_at_least, "{document}: only {} calls", steps.len());
        let with_reply = steps.iter().filter(|step| !step.expected.is_empty()).count();
        assert!(with_reply >= replies_at_least, "{document}: only {with_reply} replies");
        for Step { call, expected } in steps {
            let args = words("--no-raw").then(&call).lossy();
            let output = server.cli(&args.iter().map(String::as_str).collect::<Vec<_>>());
            let got: Vec<&str> = output.lines().collect();
            let same = match expected[..] {
                // A recipe without a reply must succeed.
                [] => {
                    let first = got.first().map(|line| line.trim_start_matches("1) "));
                    first
                        .is_some_and(|line| line.starts_with("(integer) ") && line != "(integer) 0")
                }
                _ => {
                    let mut lines = expected.iter().zip(&got);
                    expected.len() == got.len()
                        && lines.all(|(expected, got)| matches(expected, got))
                }
            };
            if !same {
                let expected = expected.join("\n");
                wrong.push(format!("{document}: {call}\nexpected\n{expected}\ngot\n{output}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn numbers_match_by_the_rule() {
    for (expected, got, same) in [
        ("1) (integer) 5", "1) (integer) 5", true),
        ("1) (integer) 5", "1) (integer) 4", false),
        ("1) (integer) 5", "2) (integer) 5", false),
        ("1) (integer) 1000", "1) (integer) 999", false),
        ("5) (integer) 60000", "5) (integer) 59000", true),
        ("5) (integer) 60000", "5) (integer) 58999", false),
        ("5) (integer) 60000", "5) (integer) 60001", false),
        ("5) (integer) 59990", "5) (integer) 60000", true),
        ("5) (integer) 59990", "5) (integer) 60001", false),
        ("5) (integer) 59990", "5) (nil)", false),
        (" 2) \"sliding\"", " 2) \"bucket\"", false),
    ] {
        assert_eq!(matches(expected, got), same, "{expected} and {got}");
    }
}

/// Links between the documents have targets, and no placeholder is left.
#[test]
fn links_and_numbers_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).expect("docs").flatten();
    let pages = docs.map(|entry| entry.path()).chain(
        ["README.md", "CONTRIBUTING.md", "monitoring/README.md"].map(|page| root.join(page)),
    );
    for page in pages.filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(&page).expect("a page");
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            let is_outside = target.contains("://") || target.is_empty();
            let found = is_outside || page.with_file_name(target).exists();
            assert!(found, "{} links to {target:?}", page.display());
        }
        for mark in ["CPU_", "MEM_", "KEY_", "TODO"] {
            assert!(!text.contains(mark), "{mark} is left in {}", page.display());
        }
    }
}

/// Commands in the text, shown without replies, run as they stand.
#[test]
fn the_commands_for_operators_run() {
    let server = Server::start();
    let mut client = server.client();
    let text = read("docs/operations.md");
    let calls: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .map(|line| line.split(" #").next().unwrap_or_default().trim_end())
        .filter(|line| ["ACL ", "INFO ", "RL."].iter().any(|word| line.starts_with(word)))
        .collect();
    assert!(calls.len() >= 9, "only {calls:?}");
    for call in calls {
        client.run(call);
    }
    // The users that the page creates can do what it says, and no more.
    client.run("AUTH app secret");
    client.take(1, "rl:k", RULE);
    assert!(client.error("RL.BLOCK rl:k FOR 1d").starts_with("NOPERM"));
    client.run("AUTH viewer secret");
    client.run("RL.INFO rl:k");
    assert!(client.error(format!("RL.ACQUIRE rl:k {RULE}")).starts_with("NOPERM"));
}

const RULE: &str = "WINDOW 1s LIMIT 1 ALGO bucket";

/// Calls with one mistake each. Words and keys are those of the document.
fn wrong_calls() -> Vec<String> {
    let mut calls: Vec<String> = [
        "RL.ACQUIRE k",
        "RL.ACQUIRE k x 1s LIMIT 1 ALGO bucket",
        "RL.ACQUIREX a b c d e f g",
        "RL.ACQUIREX k WINDOW 1s LIMIT 1 ALGO bucket",
        "RL.ACQUIREX k q 'WINDOW 1s LIMIT 1 ALGO bucket WINDOW 1s ALGO bucket'",
        "RL.ACQUIREX k 'WINDOW 1s LIMIT 1 ALGO bucket LIMIT 2'",
        "RL.ACQUIREX k 'WINDOW x LIMIT 1 ALGO bucket'",
        "RL.ACQUIREX k 'WINDOW 1s LIMIT 1 ALGO x'",
        "RL.ACQUIRE k WINDOW 1s LIMIT 1 ALGO concurrency",
        "RL.ACQUIREX k 'WINDOW 1s LIMIT 1 ALGO fixed BURST 1'",
        "RL.ACQUIREX k 'WINDOW 1s LIMIT 1 ALGO bucket OFFSET 1'",
        "RL.ACQUIREX k 'WINDOW 1s LIMIT 1 ALGO concurrency'",
        "RL.RELEASE text ID x",
        "RL.RELEASE k ID 'a b'",
        "RL.REFUND k COST q COST 1",
        "RL.RELEASE k ID q ID x",
        "RL.BLOCK k FOR q FOR 1s",
        "CL.THROTTLE k x 1 1",
    ]
    .map(String::from)
    .to_vec();
    let tails = [
        ("RL.ACQUIREX", "x"),
        ("RL.ACQUIREX", "UPTO"),
        ("RL.ACQUIREX", "XX"),
        ("RL.ACQUIREX", "WITHKEYS COST 5"),
        ("RL.PEEK", "FORCE"),
        ("RL.PEEK", "RESERVE 5s"),
        ("RL.ACQUIREX", "NAME"),
        ("RL.ACQUIREX", "NAME a:b"),
        ("RL.ACQUIREX", "FORCE UPTO 5"),
        ("RL.ACQUIREX", "COST 1000000000000 UPTO 5"),
    ];
    calls.extend(tails.map(|(command, tail)| format!("{command} k '{RULE} {tail}'")));
    calls.push(format!("RL.ACQUIREX k '{}'", format!("{RULE} ").repeat(1025)));
    let many = (0..1025).map(|i| format!("k{i}")).collect::<Vec<_>>().join(" ");
    for keys in ["k COST 5", "k k", "a b", "k WINDOW 1s", &many] {
        calls.push(format!("RL.ACQUIRE {keys} {RULE}"));
    }
    calls.push(format!("RL.ACQUIREX a b c '{RULE} {RULE}'"));
    calls
}

#[test]
fn the_errors_that_are_listed_exist() {
    let server =
        Server::builder().conf("rl.slot-validation always").conf("rl.cl-throttle yes").start();
    let mut client = server.client();
    client.run("SET text x");
    let mut lines: HashSet<String> =
        wrong_calls().into_iter().filter_map(|call| client.call(call.as_str()).err()).collect();
    for i in 0..64 {
        client.run(format!("RL.POLICY SET n {RULE} FOR {}h", 100 - i));
    }
    lines.insert(client.error(format!("RL.POLICY SET n {RULE} FOR 1000")));
    client.run("CONFIG SET maxmemory 1");
    lines.insert(client.error(format!("RL.ACQUIRE k {RULE}")));
    client.run("CONFIG SET maxmemory 0");
    let text = read("docs/commands.md");
    let listed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(error, _)| error)
        .filter(|error| {
            let code = error.split(' ').next().unwrap_or_default();
            let is_code = code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
            is_code && error.contains(' ') && !error.ends_with("...")
        })
        .collect();
    assert!(listed.len() >= 25, "only {}: {listed:?}", listed.len());
    for error in &listed {
        // The values in the document are examples.
        let same = |line: &String| {
            let known = |text: &str| text.rsplit_once(", got '").map(|(known, _)| known.to_owned());
            line == error || (known(error).is_some() && known(line) == known(error))
        };
        assert!(lines.iter().any(same), "no call of this test answers: {error}");
    }
}
