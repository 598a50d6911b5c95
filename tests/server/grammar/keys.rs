//! What stands before the rules: keys, how many there are, and what is refused as a key. No refusal changes anything.

use testkit::{Reply, Server, words};

use crate::calls::acquirex;
use crate::grammar::{FORMS, RULE, WORDS, with_refusals};

const NOT_QUOTED: &str =
    "ERR the rules are one argument, in quotes: 'WINDOW 1s LIMIT 5 ALGO bucket'";
const CLOSED: &str = "WINDOW 1s LIMIT 0 ALGO bucket";

/// Commands of the form `key [key ...] WORD value`.
const BY_HAND: [(&str, &str); 4] = [
    ("RL.REFUND", "COST 1"),
    ("RL.RELEASE", "ID x"),
    ("RL.BLOCK", "FOR 1h"),
    ("RL.EXEMPT", "FOR 1h"),
];

/// A command refuses a key that its caller may have meant as an option.
#[test]
fn option_words_are_no_keys_where_they_could_be_options() {
    let spellings = |word: &str| [word.to_owned(), word.to_lowercase()];
    with_refusals(100, |refusals| {
        for spelled in WORDS.into_iter().flat_map(spellings) {
            let word = spelled.to_uppercase();
            let line = match word.as_str() {
                "WINDOW" | "LIMIT" | "ALGO" => format!(
                    "ERR '{word}' is an option, not a key: RL.ACQUIRE takes WINDOW, LIMIT and ALGO once each, after the keys"
                ),
                _ => format!(
                    "ERR '{word}' is an option of RL.ACQUIREX, not a key: RL.ACQUIRE takes only WINDOW, LIMIT and ALGO"
                ),
            };
            for keys in [spelled.clone(), format!("k {spelled} q"), format!("k {spelled}")] {
                refusals.refuse(&format!("RL.ACQUIRE {keys} {RULE}"), &line);
            }
        }
        for (command, tail) in BY_HAND {
            let word = tail.split(' ').next().expect("a word");
            let line = format!(
                "ERR '{word}' is an option, not a key: the keys come first, then one option with its value"
            );
            for spelled in spellings(word) {
                for keys in [spelled.clone(), format!("k {spelled} q"), format!("k {spelled}")] {
                    refusals.refuse(&format!("{command} {keys} {tail}"), &line);
                }
            }
        }
        for (form, spelled) in FORMS.into_iter().flat_map(|f| spellings("WINDOW").map(|w| (f, w))) {
            for keys in [spelled.clone(), format!("k {spelled} q"), format!("k {spelled}")] {
                refusals.refuse(&format!("{form} {keys} '{RULE}'"), NOT_QUOTED);
            }
        }
    });
}

/// Commands whose keys stand at fixed places take any word as a key.
#[test]
fn other_option_words_are_keys() {
    let server = Server::start();
    let mut client = server.client();
    let keys = |but: &str| {
        WORDS
            .map(str::to_lowercase)
            .into_iter()
            .chain(WORDS.map(String::from))
            .filter(|word| !word.eq_ignore_ascii_case(but))
            .collect::<Vec<_>>()
    };
    let of_rules = keys("WINDOW");
    let count = of_rules.len() as i64;
    let rule = "WINDOW 10d LIMIT 9 ALGO concurrency ID x";
    let all = of_rules.join(" ");
    assert!(acquirex(&mut client, &all, rule).is_grant());
    assert_eq!((client.int("DBSIZE"), client.keys().len()), (count, of_rules.len()));
    let reply = Reply::of(&client.run(format!("RL.PEEK {all} 'WINDOW 10d LIMIT 1 ALGO fixed'")));
    assert_eq!((reply.granted, reply.limit), (0, 1), "each has one in use");
    for (command, tail) in BY_HAND {
        let word = tail.split(' ').next().expect("a word");
        // WINDOW has no limiter.
        let known = keys(word).iter().filter(|key| of_rules.contains(key)).count() as i64;
        let changed = match command {
            "RL.REFUND" => 0,
            "RL.RELEASE" => known,
            _ => known + 2,
        };
        assert_eq!(client.int(format!("{command} {} {tail}", keys(word).join(" "))), changed);
    }
}

/// An option among the keys of RL.ACQUIRE never becomes a limiter that all callers share, nor is it dropped.
#[test]
fn misplaced_options_do_not_slip_through() {
    with_refusals(20, |refusals| {
        for pair in [
            "COST 5",
            "BURST 5",
            "OFFSET 1s",
            "BLOCK 1h",
            "NAME n",
            "UPTO 5",
            "ID x",
            "XX",
            "RESERVE 1s",
            "FORCE",
            "WITHKEYS",
        ] {
            let word = pair.split(' ').next().expect("a word");
            let line = format!(
                "ERR '{word}' is an option of RL.ACQUIREX, not a key: RL.ACQUIRE takes only WINDOW, LIMIT and ALGO"
            );
            for pair in [pair.to_owned(), pair.to_lowercase()] {
                refusals.refuse(&format!("RL.ACQUIRE k {pair} {RULE}"), &line);
            }
        }
        // In quotes the text is a key like any other, and so is a word that only begins like an option.
        for key in ["k COST 5", "COSTS", "COST ", "WINDOW ", "WINDOW\0", "IDS", "WINDOW 1s"] {
            for command in
                [words("RL.ACQUIRE").arg(key).then(CLOSED), words("RL.PEEK").arg(key).arg(CLOSED)]
            {
                let reply = Reply::of(&refusals.client.run(command));
                assert_eq!(reply.retry_after, -1, "{key:?}");
            }
        }
    });
}

/// A first attempt as users type it. Whatever the words are, the server takes WINDOW for a key.
#[test]
fn words_typed_as_arguments_are_told_how_rules_are_written() {
    with_refusals(50, |refusals| {
        for form in FORMS {
            for rules in [
                RULE,
                "window 1s limit 1 algo bucket",
                "WINDOW 1s LIMIT 5 ALGO sliding COST 2",
                "WINDOW 1s LIMIT 5 ALGO sliding WITHKEYS",
                "WINDOW 1s LIMIT 5 ALGO concurrency ID x TIMEOUT 5s",
                "WINDOW 1s LIMIT 5 ALGO bucket WINDOW 1m LIMIT 5 ALGO bucket",
                "LIMIT 5 WINDOW 1s ALGO bucket",
                "WINDOW 1s",
                "'WINDOW' '1s LIMIT 5 ALGO bucket'",
                "'WINDOW 1s' WINDOW '1s LIMIT 5 ALGO bucket'",
            ] {
                for keys in ["k", "a b c", ""] {
                    refusals.refuse(&format!("{form} {keys} {rules}"), NOT_QUOTED);
                }
            }
            // Without WINDOW the last word should be the rules.
            let line = "ERR syntax error, expected a rule that starts with WINDOW after the keys";
            for rules in ["LIMIT 5 ALGO bucket", "x", "''", "'  '", "'LIMIT 5'"] {
                refusals.refuse(&format!("{form} k {rules}"), line);
            }
            refusals.refuse(&format!("{form} k WINDOW"), "ERR syntax error, WINDOW has no value");
        }
    });
}

#[test]
fn keys_named_twice() {
    with_refusals(18, |refusals| {
        let quoted = format!("'{RULE}'");
        let ours = [("RL.ACQUIRE", RULE), ("RL.ACQUIREX", &quoted), ("RL.PEEK", &quoted)];
        for (command, tail) in ours.into_iter().chain(BY_HAND) {
            for (keys, key) in [("k k", "k"), ("a b k b", "b"), ("1 2 3 4 5 6 7 8 9 10 3", "3")] {
                let line = format!(
                    "ERR key '{key}' is named twice, give each limit a key of its own, such as k:1s and k:1h"
                );
                refusals.refuse(&format!("{command} {keys} {tail}"), &line);
            }
            let many = (0..1025).map(|i| format!("key{i}")).collect::<Vec<_>>().join(" ");
            refusals.refuse(&format!("{command} {many} {tail}"), "ERR at most 1024 keys, got 1025");
        }
    });
}

#[test]
fn wrong_numbers_of_arguments() {
    with_refusals(16, |refusals| {
        for (command, too_few) in [
            ("rl.acquire", vec!["", "k", "k WINDOW 1s LIMIT 1 ALGO"]),
            ("rl.acquirex", vec!["", "k", "'WINDOW 1s LIMIT 1 ALGO bucket'"]),
            ("rl.peek", vec!["", "k", "'WINDOW 1s LIMIT 1 ALGO bucket'"]),
            ("rl.refund", vec!["", "k", "k COST"]),
            ("rl.release", vec!["", "k", "k ID"]),
            ("rl.block", vec!["", "k", "k FOR"]),
            ("rl.exempt", vec!["", "k", "k FOR"]),
            ("rl.info", vec!["", "k q"]),
        ] {
            for few in too_few {
                let line = format!("ERR wrong number of arguments for '{command}' command");
                refusals.refuse(&format!("{} {few}", command.to_uppercase()), &line);
            }
        }
    });
}
