//! Rules and options in one argument: what separates words, and any bytes of any length.

use redis::Value;
use testkit::{Random, Reply, Server, Words, line_of, words};

use crate::calls::{acquirex, info, peek};
use crate::grammar::FORMS;

const RULE: &str = "WINDOW 10d LIMIT 5 ALGO sliding COST 2";

/// These four separate words, alone or together.
const SPACES: [&str; 10] =
    [" ", "\t", "\r", "\n", "\r\n", "\n\r\t ", "  ", "\t\t\t", " \n ", "\n\n"];

/// Other white space in ASCII and UTF-8, and characters that only look like white space.
const OTHERS: [&str; 12] = [
    "\u{b}", "\u{c}", "\0", "\u{1c}", "\u{85}", "\u{a0}", "\u{1680}", "\u{2003}", "\u{2028}",
    "\u{3000}", "\u{feff}", "\u{8}",
];

#[test]
fn spaces_tabs_and_line_ends_separate_words() {
    let server = Server::start();
    let mut client = server.client();
    let two = format!("{RULE} WINDOW 1d LIMIT 9 ALGO bucket UPTO 2 WITHKEYS");
    for form in FORMS {
        let call = |rules: &str| words(form).then("a b").arg(rules);
        client.run("FLUSHALL");
        let expected = client.run(call(&two));
        for space in SPACES {
            let spaced = two.replace(' ', space);
            for rules in [
                spaced.clone(),
                format!("{space}{spaced}"),
                format!("{spaced}{space}"),
                format!("{space}{}{space}", spaced.to_lowercase()),
            ] {
                client.run("FLUSHALL");
                assert_eq!(client.run(call(&rules)), expected, "{form} {rules:?}");
            }
        }
    }
}

#[test]
fn no_other_byte_separates_words() {
    let server = Server::start();
    let mut client = server.client();
    for form in FORMS {
        for byte in (0..=255).filter(|byte| !b" \t\r\n".contains(byte)) {
            let rules = [&b"WINDOW"[..], &[byte], b"10d LIMIT 5 ALGO sliding"].concat();
            let line = "ERR syntax error, expected a rule that starts with WINDOW after the keys";
            assert_eq!(client.error(words(form).then("k").arg(rules)), line, "{form}, byte {byte}");
        }
    }
}

/// Such a character is part of a word, and refused wherever it stands.
#[test]
fn other_white_space_is_part_of_a_word() {
    let server = Server::start();
    let mut client = server.client();
    let shown = |text: &str| text.as_bytes().escape_ascii().to_string();
    for form in FORMS {
        let mut refuse = |rules: &str, line: &str| {
            let got = client.error(words(form).then("k").arg(rules));
            assert_eq!(got, format!("ERR {line}"), "{form} {rules:?}");
        };
        for other in OTHERS {
            let seen = shown(other);
            let no_rule = "syntax error, expected a rule that starts with WINDOW after the keys";
            let window = format!("WINDOW must be 1 to 315360000000 ms, got '10d{seen}'");
            let limit = format!("LIMIT must be 0 to 1000000000000, got '{seen}5'");
            for (from, to, line) in [
                ("WINDOW 10d", format!("WINDOW{other}10d"), no_rule),
                ("WINDOW", format!("{other}WINDOW"), no_rule),
                ("WINDOW", format!("{other} WINDOW"), no_rule),
                ("10d", format!("10d{other}"), &window),
                ("LIMIT 5", format!("LIMIT {other}5"), &limit),
            ] {
                refuse(&RULE.replace(from, &to), line);
            }
            let options = if form == "RL.PEEK" {
                "a rule or UPTO, ID or WITHKEYS"
            } else {
                "a rule or UPTO, ID, XX, RESERVE, TIMEOUT, FORCE or WITHKEYS"
            };
            for (tail, got) in [
                (format!("{other}COST 2"), format!("{seen}COST")),
                (other.to_string(), seen.clone()),
                (format!("WITHKEYS{other}"), format!("WITHKEYS{seen}")),
                (format!("WITHKEYS {other}"), seen.clone()),
            ] {
                let line = format!("syntax error, expected {options}, got '{got}'");
                refuse(&format!("WINDOW 10d LIMIT 5 ALGO sliding {tail}"), &line);
            }
            let algorithms = "expected sliding, bucket, leaky, fixed, counter or concurrency";
            let line = format!("unknown ALGO 'sliding{seen}', {algorithms}");
            refuse(&format!("WINDOW 10d LIMIT 5 ALGO sliding{other}"), &line);
        }
    }
    assert_eq!(client.int("DBSIZE"), 0);
}

#[test]
fn as_many_rules_as_there_can_be_keys() {
    let server = Server::start();
    let mut client = server.client();
    let rules = |count: usize| {
        let rule =
            |i: usize| format!("WINDOW 10d LIMIT {} ALGO bucket\n", 5000usize.saturating_sub(i));
        (0..count).map(rule).collect::<String>()
    };
    let keys = |count: usize| (0..count).map(|i| format!("k{i}")).collect::<Vec<_>>().join(" ");
    // Each key has a rule of its own: the last one binds, having the lowest limit.
    let reply = acquirex(&mut client, &keys(1024), rules(1024));
    assert_eq!((reply.granted, reply.limit, reply.remaining, reply.key), (1, 3977, 3976, 1023));
    let reply = peek(&mut client, &keys(1024), rules(1024));
    assert_eq!((reply.limit, reply.remaining, reply.key), (3977, 3975, 1023));
    assert_eq!(
        [0, 1, 1023].map(|i| info(&mut client, &format!("k{i}"), "limit")),
        [5000, 4999, 3977]
    );
    let before = client.text("DEBUG DIGEST");
    for form in FORMS {
        let mut error = |keys: &str, rules: &str| client.error(words(form).then(keys).arg(rules));
        assert_eq!(error("k0", &rules(1024)), "ERR 1 key needs 1 rule, got 1024");
        let line = "ERR 1024 keys need 1 or 1024 rules, got 1023";
        assert_eq!(error(&keys(1024), &rules(1023)), line);
        for too_many in [
            rules(1025),
            rules(1024) + "WINDOW",
            rules(1024) + "WINDOW x LIMIT y",
            rules(1025) + "nonsense",
            rules(20_000),
        ] {
            for count in [1, 2, 1024] {
                assert_eq!(error(&keys(count), &too_many), "ERR at most 1024 rules");
            }
        }
        // Too many keys are refused before the rules are read.
        assert_eq!(error(&keys(1025), &rules(1)), "ERR at most 1024 keys, got 1025");
    }
    assert_eq!(client.text("DEBUG DIGEST"), before);
}

/// An error shows only the beginning of a megabyte.
#[test]
fn long_arguments_are_shown_cut() {
    const MEGABYTE: usize = 1 << 20;
    let server = Server::start();
    let mut client = server.client();
    let no_rule = "ERR syntax error, expected a rule that starts with WINDOW after the keys";
    let cut = |text: &str| text.repeat(64);
    for (rules, line) in [
        (" ".repeat(MEGABYTE), no_rule.to_owned()),
        ("\0".repeat(MEGABYTE), no_rule.into()),
        ("x ".repeat(MEGABYTE / 2), no_rule.into()),
        ("WINDOW".repeat(MEGABYTE / 6), no_rule.into()),
        (
            "WINDOW ".repeat(MEGABYTE / 7),
            "ERR WINDOW must be 1 to 315360000000 ms, got 'WINDOW'".into(),
        ),
        (
            format!("WINDOW {}", "1".repeat(MEGABYTE)),
            format!("ERR WINDOW must be 1 to 315360000000 ms, got '{}'", cut("1")),
        ),
        (
            format!("{RULE} NAME {}", "n".repeat(MEGABYTE)),
            format!(
                "ERR NAME must be 1 to 64 letters, digits, '_', '.' or '-' and no option, got '{}'",
                cut("n")
            ),
        ),
        (
            format!("WINDOW 1d LIMIT 5 ALGO concurrency ID {}", "\0".repeat(MEGABYTE)),
            format!("ERR ID must be 1 to 255 bytes without white space, got '{}'", cut(r"\x00")),
        ),
        (format!("{RULE} ").repeat(MEGABYTE / RULE.len()), "ERR at most 1024 rules".into()),
        (
            format!("{RULE} {}", "COST 1 ".repeat(MEGABYTE / 7)),
            "ERR syntax error, COST is given twice".into(),
        ),
    ] {
        for form in FORMS {
            let got = client.error(words(form).then("k").arg(&rules));
            assert_eq!(got, line, "{form} {:?}", &rules[..20]);
        }
    }
    // A long but correct argument is a call like any other.
    let spaced =
        format!("{0}{1}{0}", " ".repeat(MEGABYTE / 2), RULE.replace(' ', &"\t".repeat(99)));
    assert_eq!(acquirex(&mut client, "k", &spaced).remaining, 3);
    assert_eq!(peek(&mut client, "k", &spaced).remaining, 1);
}

/// Parts of rules, right and wrong, mixed with random bytes.
fn nonsense(random: &mut Random) -> Vec<u8> {
    const PARTS: [&str; 35] = [
        "WINDOW",
        "WINDOW 10d",
        "LIMIT 5",
        "LIMIT",
        "ALGO sliding",
        "ALGO bucket",
        "ALGO concurrency",
        "ALGO",
        "algo fixed",
        "BURST 9",
        "OFFSET -8h",
        "BLOCK 1h",
        "COST 2",
        "COST 0",
        "NAME n",
        "NAME",
        "UPTO 3",
        "ID x",
        "ID",
        "XX",
        "RESERVE 1h",
        "FORCE",
        "WITHKEYS",
        "TIMEOUT 0",
        "FOR 1h",
        "SHADOW",
        "1d",
        "0",
        "-1",
        "1000000000000",
        "9223372036854775808",
        "x",
        "%s%n",
        "'",
        "\"",
    ];
    let mut rules = Vec::new();
    if !random.one_in(4) {
        rules.extend_from_slice(b"WINDOW 10d LIMIT 9 ALGO ");
        rules.extend_from_slice(
            random.pick(&["sliding", "bucket", "leaky", "concurrency"]).as_bytes(),
        );
    }
    for _ in 0..random.below(6) {
        rules.extend_from_slice(random.pick(&SPACES).as_bytes());
        match random.below(12) {
            0 => rules.extend_from_slice(random.pick(&OTHERS).as_bytes()),
            1 => rules.extend(random.bytes(20)),
            _ => rules.extend_from_slice(random.pick(&PARTS).as_bytes()),
        }
    }
    if !rules.is_empty() && random.one_in(8) {
        let at = random.below(rules.len());
        rules[at] = random.number() as u8;
    }
    rules
}

#[test]
fn nonsense_ends_in_an_answer_or_in_an_error_that_writes_nothing() {
    const CALLS: usize = 20_000;
    const SEED: u64 = 0xdd5;
    let server = Server::start();
    let mut client = server.client();
    client.run("DEBUG SET-ACTIVE-EXPIRE 0");
    let mut random = Random(SEED);
    let (mut errors, mut answers) = (0, 0);
    for chunk in 0..CALLS / 100 {
        let calls: Vec<Words> = (0..100)
            .map(|_| {
                let keys = random.pick(&["a", "b", "a b", "c a b"]);
                words(FORMS[random.below(2)]).then(keys).arg(nonsense(&mut random))
            })
            .collect();
        let commands = calls.iter().flat_map(|call| ["DEBUG DIGEST".into(), call.clone()]);
        let mut replies = client.pipeline(commands);
        replies.push(client.call("DEBUG DIGEST"));
        for (i, call) in calls.iter().enumerate() {
            let case = || format!("chunk {chunk} of seed {SEED:#x}: {:?}", call.lossy());
            match &replies[2 * i + 1] {
                Err(line) => {
                    let is_ours = line.starts_with("ERR ") && !line.contains("internal");
                    assert!(is_ours && line.len() < 400, "{line}, {}", case());
                    assert!(line.bytes().all(|byte| (32..127).contains(&byte)), "{}", case());
                    assert_eq!(replies[2 * i], replies[2 * i + 2], "{line} wrote, {}", case());
                    errors += 1;
                }
                Ok(value) => {
                    let Value::Array(fields) = value else { panic!("{value:?}, {}", case()) };
                    assert!(
                        Reply::read(&Value::Array(fields[..6].to_vec())).is_some(),
                        "{}",
                        case()
                    );
                    answers += 1;
                }
            }
        }
    }
    assert!(errors > CALLS / 5 && answers > CALLS / 20, "{errors} errors, {answers} answers");
}

/// In a transaction and in a script it is the same argument.
#[test]
fn it_is_one_argument_in_transactions_and_scripts_too() {
    let server = Server::start();
    let mut client = server.client();
    client.run("MULTI");
    client.run(words("RL.ACQUIREX k").arg(RULE));
    client.run(words("RL.ACQUIREX k").then(RULE));
    let Value::Array(replies) = client.run("EXEC") else { panic!("no array") };
    assert!(Reply::of(&replies[0]).is_grant());
    let Value::ServerError(error) = &replies[1] else { panic!("no error: {:?}", replies[1]) };
    let line = "ERR the rules are one argument, in quotes: 'WINDOW 1s LIMIT 5 ALGO bucket'";
    assert_eq!(line_of(error), line);
    let script = "return redis.pcall('RL.ACQUIREX', KEYS[1], unpack(ARGV))";
    let eval = words("EVAL").arg(script).then("1 k");
    assert_eq!(Reply::of(&client.run(eval.clone().arg(RULE))).remaining, 1);
    assert_eq!(client.error(eval.then(RULE)), line);
}
