//! What the commands refuse: every mistake with every option, and the error that answers it. No refusal changes
//! anything.

use testkit::{Server, args};

use crate::grammar::{FORMS, RULE, WORDS, with_refusals};

const PLACE: &str = "to a rule, before UPTO, ID, XX, RESERVE, TIMEOUT, FORCE and WITHKEYS";
const NOT_IN_PEEK: [&str; 4] = ["XX", "RESERVE", "FORCE", "TIMEOUT"];

/// An option of a rule or of a call: where it can stand, and what its value may be.
struct Choice {
    word: &'static str,
    /// A rule that the option fits, without the option.
    rule: &'static str,
    /// A good value.
    value: &'static str,
    /// Values that are refused, and how the error goes on after the word.
    bad: &'static [&'static str],
    must_be: &'static str,
}

const COUNT: &[&str] =
    &["-1", "1000000000001", "x", "1.5", "007", "+1", "99999999999999999999", "1s"];
const POSITIVE: &[&str] = &["0", "-1", "1000000000001", "x", "1e3", "01", "9223372036854775808"];
const DURATION: &[&str] =
    &["-1", "315360000001", "3651d", "x", "1w", "1S", "-0", "9223372036854775807d"];
const SPAN: &[&str] = &["0", "0s", "-1", "315360000001", "3651d", "x", "ms", "1.5s"];
const OFFSETS: &[&str] = &["-315360000001", "315360000001", "-3651d", "3651d", "x", "--1", "-0"];

const OF_RULES: &[Choice] = &[
    Choice {
        word: "WINDOW",
        rule: "LIMIT 1 ALGO bucket",
        value: "1s",
        bad: SPAN,
        must_be: "1 to 315360000000 ms",
    },
    Choice {
        word: "LIMIT",
        rule: "WINDOW 1s ALGO bucket",
        value: "1",
        bad: COUNT,
        must_be: "0 to 1000000000000",
    },
    Choice { word: "BURST", rule: RULE, value: "1", bad: POSITIVE, must_be: "1 to 1000000000000" },
    Choice { word: "COST", rule: RULE, value: "1", bad: COUNT, must_be: "0 to 1000000000000" },
    Choice { word: "BLOCK", rule: RULE, value: "1s", bad: SPAN, must_be: "1 to 315360000000 ms" },
    Choice {
        word: "OFFSET",
        rule: "WINDOW 1s LIMIT 1 ALGO fixed",
        value: "-8h",
        bad: OFFSETS,
        must_be: "-315360000000 to 315360000000 ms",
    },
    Choice {
        word: "NAME",
        rule: RULE,
        value: "a.b-c_1",
        bad: &[
            "a:b",
            "a/b",
            "é",
            "12345678901234567890123456789012345678901234567890123456789012345",
        ],
        must_be: "1 to 64 letters, digits, '_', '.' or '-' and no option",
    },
];

const OF_CALLS: &[Choice] = &[
    Choice { word: "UPTO", rule: RULE, value: "1", bad: POSITIVE, must_be: "1 to 1000000000000" },
    Choice {
        word: "RESERVE",
        rule: RULE,
        value: "1s",
        bad: DURATION,
        must_be: "0 to 315360000000 ms",
    },
];

/// The commands in which a rule or a call can have this option.
fn forms_with(word: &str) -> &'static [&'static str] {
    if NOT_IN_PEEK.contains(&word) { &FORMS[..1] } else { &FORMS }
}

/// The lines that answer a value that is refused.
fn must_be(choice: &Choice, got: &str) -> String {
    let shown: String =
        got.bytes().take(64).flat_map(std::ascii::escape_default).map(char::from).collect();
    format!("ERR {} must be {}, got '{shown}'", choice.word, choice.must_be)
}

/// Runs what must be refused, and checks in the end that nothing changed.
#[test]
fn values_out_of_range() {
    with_refusals(150, |refusals| {
        for choice in OF_RULES.iter().chain(OF_CALLS) {
            for form in forms_with(choice.word) {
                for bad in choice.bad {
                    let pair = format!("{} {bad}", choice.word);
                    let call = match choice.word {
                        "WINDOW" => format!("{form} k '{pair} {}'", choice.rule),
                        _ => format!("{form} k '{} {pair}'", choice.rule),
                    };
                    refusals.refuse(&call, &must_be(choice, bad));
                }
            }
        }
        for form in FORMS {
            for algorithm in ["x", "slidin", "slidingg", "gcra", "fixed,"] {
                let line = format!(
                    "ERR unknown ALGO '{algorithm}', expected sliding, bucket, leaky, fixed, counter or concurrency"
                );
                refusals.refuse(&format!("{form} k 'WINDOW 1s LIMIT 1 ALGO {algorithm}'"), &line);
            }
        }
        for (command, word) in [("RL.BLOCK", "FOR"), ("RL.EXEMPT", "FOR")] {
            for bad in DURATION {
                let line = format!("ERR {word} must be 0 to 315360000000 ms, got '{bad}'");
                refusals.refuse(&format!("{command} k {word} {bad}"), &line);
            }
        }
        for bad in COUNT {
            let line = format!("ERR COST must be 0 to 1000000000000, got '{bad}'");
            refusals.refuse(&format!("RL.REFUND k COST {bad}"), &line);
        }
    });
}

#[test]
fn empty_and_long_texts() {
    let server = Server::start();
    let mut client = server.client();
    let leases = "WINDOW 1s LIMIT 1 ALGO concurrency ID";
    let long = "i".repeat(256);
    let refused =
        |got: &str| format!("ERR ID must be 1 to 255 bytes without white space, got '{got}'");
    assert_eq!(client.error("RL.RELEASE k ID ''"), refused(""));
    assert_eq!(client.error(format!("RL.RELEASE k ID {long}")), refused(&long[..64]));
    for form in FORMS {
        assert_eq!(client.error(format!("{form} k '{leases} {long}'")), refused(&long[..64]));
        // Two spaces hold no word between them, so the next word is the value.
        let line = client.error(format!("{form} k 'WINDOW  LIMIT 1 ALGO bucket'"));
        assert_eq!(line, "ERR WINDOW must be 1 to 315360000000 ms, got 'LIMIT'");
        for choice in OF_CALLS.iter().chain(OF_RULES).filter(|c| c.word != "WINDOW") {
            if forms_with(choice.word).contains(&form) {
                let line = client.error(format!("{form} k '{} {} '", choice.rule, choice.word));
                assert_eq!(line, format!("ERR syntax error, {} has no value", choice.word));
            }
        }
    }
    assert_eq!(client.int("DBSIZE"), 0);
}

#[test]
fn options_given_twice() {
    with_refusals(28, |refusals| {
        for form in FORMS {
            for Choice { word, rule, value, .. } in OF_RULES {
                let pair = format!("{word} {value}");
                // A second WINDOW starts a second rule.
                if *word == "WINDOW" {
                    let line = "ERR syntax error, rule 1 has no LIMIT";
                    refusals.refuse(&format!("{form} k '{pair} {pair} {rule}'"), line);
                    continue;
                }
                let line = format!("ERR syntax error, {word} is given twice");
                refusals.refuse(&format!("{form} k '{rule} {pair} {pair}'"), &line);
                // The second one stands apart, in other case, or with another value.
                let lower = word.to_lowercase();
                refusals
                    .refuse(&format!("{form} k '{rule} {pair} WITHKEYS {pair}'"), &misplaced(word));
                let again = format!("{form} k 'WINDOW 1s {pair} ALGO fixed {lower} {value}'");
                refusals.refuse(&again, &line);
            }
            refusals.refuse(
                &format!("{form} k '{RULE} ALGO sliding'"),
                "ERR syntax error, ALGO is given twice",
            );
            let leases = "WINDOW 1s LIMIT 1 ALGO concurrency";
            for (rule, option) in [
                (RULE, "UPTO 1"),
                (leases, "ID x"),
                (leases, "XX"),
                (RULE, "RESERVE 1s"),
                (RULE, "FORCE"),
                (RULE, "WITHKEYS"),
            ] {
                let word = option.split(' ').next().expect("a word");
                if !forms_with(word).contains(&form) {
                    continue;
                }
                let line = format!("ERR syntax error, {word} is given twice");
                refusals.refuse(&format!("{form} k '{rule} {option} {option}'"), &line);
                let between = if word == "WITHKEYS" { "UPTO 1" } else { "WITHKEYS" };
                let again = option.to_lowercase();
                refusals.refuse(&format!("{form} k '{rule} {option} {between} {again}'"), &line);
            }
        }
    });
}

fn misplaced(word: &str) -> String {
    format!("ERR syntax error, {word} belongs {PLACE}")
}

#[test]
fn options_without_a_value() {
    with_refusals(25, |refusals| {
        for form in FORMS {
            for word in ["LIMIT", "ALGO", "BURST", "OFFSET", "BLOCK", "COST", "NAME"] {
                let rest = match word {
                    "LIMIT" => "ALGO fixed COST 1",
                    "ALGO" => "LIMIT 1 COST 1",
                    _ => "LIMIT 1 ALGO fixed",
                };
                let line = format!("ERR syntax error, {word} has no value");
                refusals.refuse(&format!("{form} k 'WINDOW 1s {rest} {word}'"), &line);
            }
            let line = "ERR syntax error, WINDOW has no value";
            refusals.refuse(&format!("{form} k '{RULE} WINDOW'"), line);
            for word in ["UPTO", "ID", "RESERVE"] {
                if forms_with(word).contains(&form) {
                    let line = format!("ERR syntax error, {word} has no value");
                    refusals.refuse(&format!("{form} k '{RULE} {word}'"), &line);
                }
            }
            // The next word is taken for the value, and shown.
            refusals.refuse(
                &format!("{form} k '{RULE} COST UPTO 5'"),
                "ERR COST must be 0 to 1000000000000, got 'UPTO'",
            );
            refusals.refuse(
                &format!("{form} k '{RULE} UPTO WITHKEYS'"),
                "ERR UPTO must be 1 to 1000000000000, got 'WITHKEYS'",
            );
            for word in ["UPTO", "window", "Cost"] {
                let names =
                    "ERR NAME must be 1 to 64 letters, digits, '_', '.' or '-' and no option, got";
                refusals.refuse(
                    &format!("{form} k '{RULE} NAME {word} 5'"),
                    &format!("{names} '{word}'"),
                );
            }
            for (rule, missing) in [
                ("WINDOW 1s LIMIT 1 COST 1 UPTO 2", "rule 1 has no ALGO"),
                ("WINDOW 1s ALGO bucket COST 1", "rule 1 has no LIMIT"),
                ("WINDOW 1s LIMIT 1 ALGO bucket WINDOW 1s ALGO bucket", "rule 2 has no LIMIT"),
                ("WINDOW 1s LIMIT 1 ALGO bucket WINDOW 1s LIMIT 5 BURST 1", "rule 2 has no ALGO"),
            ] {
                refusals.refuse(
                    &format!("{form} k q '{rule}'"),
                    &format!("ERR syntax error, {missing}"),
                );
            }
        }
    });
}

#[test]
fn options_out_of_place() {
    with_refusals(50, |refusals| {
        for Choice { word, value, .. } in OF_RULES {
            for form in FORMS {
                for before in ["UPTO 2", "WITHKEYS"] {
                    let call = format!("{form} k '{RULE} {before} {word} {value}'");
                    refusals.refuse(&call, &misplaced(word));
                }
            }
        }
        for word in NOT_IN_PEEK {
            let line = format!("ERR syntax error, {word} belongs to RL.ACQUIREX, not RL.PEEK");
            refusals.refuse(&format!("RL.PEEK k '{RULE} {word} 5'"), &line);
            refusals.refuse(&format!("RL.PEEK k '{RULE} WITHKEYS {word}'"), &line);
        }
        for (form, expected) in [
            ("RL.ACQUIREX", "a rule or UPTO, ID, XX, RESERVE, TIMEOUT, FORCE or WITHKEYS"),
            ("RL.PEEK", "a rule or UPTO, ID or WITHKEYS"),
        ] {
            for word in ["x", "FOR", "SHADOW", "KEYS", "WINDOWS", "5"] {
                let line = format!("ERR syntax error, expected {expected}, got '{word}'");
                refusals.refuse(&format!("{form} k '{RULE} {word} 5'"), &line);
                refusals.refuse(&format!("{form} k '{RULE} WITHKEYS {word}'"), &line);
            }
            // An option of the call ends the rule.
            refusals.refuse(
                &format!("{form} k 'WINDOW 1s LIMIT 1 WITHKEYS ALGO bucket'"),
                "ERR syntax error, rule 1 has no ALGO",
            );
            refusals.refuse(
                &format!("{form} a b c d e f g h"),
                "ERR syntax error, expected a rule that starts with WINDOW after the keys",
            );
        }
        refusals.refuse(
            &format!("RL.ACQUIREX k '{RULE} TIMEOUT 5s FORCE'"),
            "ERR FORCE does not go with TIMEOUT",
        );
        refusals.refuse(
            &format!("RL.ACQUIREX k '{RULE} TIMEOUT'"),
            "ERR syntax error, TIMEOUT has no value",
        );
        for (command, word) in
            [("RL.REFUND", "COST"), ("RL.RELEASE", "ID"), ("RL.BLOCK", "FOR"), ("RL.EXEMPT", "FOR")]
        {
            for wrong in WORDS.iter().filter(|other| **other != word).chain(&["x", "", "COSTS"]) {
                let call = args([command, "k", wrong, "1"]);
                let line = format!("ERR syntax error, expected {word}, got '{wrong}'");
                assert_eq!(refusals.client.error(call), line);
            }
            let line = format!("ERR syntax error, expected {word}, got '1'");
            refusals.refuse(&format!("{command} k {word} 1 2"), &line);
            let line = format!(
                "ERR '{word}' is an option, not a key: the keys come first, then one option with its value"
            );
            refusals.refuse(&format!("{command} k {word} 1 {word} 1"), &line);
        }
    });
}

#[test]
fn options_that_do_not_fit() {
    let fits = |word: &str, with: &str| format!("ERR {word} does not go with {with}");
    with_refusals(40, |refusals| {
        for form in FORMS {
            for algorithm in ["sliding", "leaky", "fixed", "counter", "concurrency"] {
                let line = match algorithm {
                    "leaky" => fits("BURST", "ALGO leaky"),
                    _ => "ERR BURST goes with ALGO bucket only".into(),
                };
                let id = if algorithm == "concurrency" { "ID x" } else { "" };
                let rule = format!("WINDOW 1s LIMIT 1 ALGO {algorithm}");
                refusals.refuse(&format!("{form} k '{rule} BURST 1 {id}'"), &line);
            }
            for algorithm in ["sliding", "leaky", "bucket", "counter", "concurrency"] {
                let call = format!("{form} k 'WINDOW 1s LIMIT 1 ALGO {algorithm} OFFSET 0'");
                refusals.refuse(&call, "ERR OFFSET goes with ALGO fixed only");
            }
            for algorithm in ["sliding", "leaky", "bucket", "fixed", "counter"] {
                let call = format!("{form} k 'WINDOW 1s LIMIT 1 ALGO {algorithm} ID x'");
                refusals.refuse(&call, &fits("ID", "an ALGO other than concurrency"));
            }
            for (cost, upto) in
                [("2", "500000000001"), ("1000000000000", "1000000000000"), ("1000001", "1000000")]
            {
                let call = format!("{form} k '{RULE} COST {cost} UPTO {upto}'");
                refusals.refuse(&call, "ERR COST times UPTO must be at most 1000000000000");
            }
        }
        let leases = "WINDOW 1s LIMIT 1 ALGO concurrency";
        for algorithm in ["sliding", "fixed", "counter", "concurrency"] {
            let id = if algorithm == "concurrency" { "ID x" } else { "" };
            let line = fits("RESERVE", "an ALGO other than bucket and leaky");
            for rules in ["", RULE] {
                let keys = if rules.is_empty() { "k" } else { "k q" };
                let call = format!(
                    "RL.ACQUIREX {keys} '{rules} WINDOW 1s LIMIT 1 ALGO {algorithm} RESERVE 0 {id}'"
                );
                refusals.refuse(&call, &line);
            }
        }
        for (rules, line) in [
            (leases.to_owned(), "ERR ID is required with ALGO concurrency".into()),
            (format!("{RULE} {leases}"), "ERR ID is required with ALGO concurrency".into()),
            (format!("{leases} XX"), "ERR ID is required with ALGO concurrency".into()),
            (format!("{RULE} XX"), fits("XX", "an ALGO other than concurrency")),
            (format!("{leases} {RULE} ID x XX"), fits("XX", "an ALGO other than concurrency")),
            (format!("{leases} ID x XX FORCE"), fits("FORCE", "ALGO concurrency")),
            (format!("{leases} ID x FORCE"), fits("FORCE", "ALGO concurrency")),
            (format!("{RULE} FORCE UPTO 1"), fits("FORCE", "UPTO")),
            (format!("{RULE} UPTO 5 FORCE"), fits("FORCE", "UPTO")),
            (format!("{RULE} RESERVE 0 FORCE"), fits("FORCE", "RESERVE")),
            (format!("{RULE} FORCE RESERVE 5s"), fits("FORCE", "RESERVE")),
        ] {
            refusals.refuse(&format!("RL.ACQUIREX k q '{rules}'"), &line);
        }
        refusals.refuse(
            &format!("RL.ACQUIRE k {leases}"),
            "ERR ALGO concurrency needs an ID, which RL.ACQUIRE does not have: use RL.ACQUIREX",
        );
    });
}
