//! The program on small logs: whole outputs, and what is said when there is nothing to replay.

mod program;

use std::fs;
use std::io::Write;

use program::{findings, piped, printed, run};
use tempfile::TempDir;

const IP: &str = "ip WINDOW 10s LIMIT 3 ALGO sliding";
const USER: &str = "user WINDOW 1m LIMIT 2 ALGO fixed";
const GLOBAL: &str = "global WINDOW 1s LIMIT 2 ALGO bucket BURST 3";

#[test]
fn a_table_of_an_access_log() {
    let table = printed(&["access.log", "--rule", IP, "-r", USER, "-r", GLOBAL, "--together"]);
    assert_eq!(table, include_str!("data/access.txt"));
    assert!(include_str!("../../docs/simulator.md").contains(&table), "the page shows another");
}

#[test]
fn json_of_a_csv() {
    let rule = "key WINDOW 1s LIMIT 10 ALGO bucket";
    let leaky = "global WINDOW 2s LIMIT 4 ALGO leaky COST 1";
    let json = printed(&["calls.csv", "-r", rule, "-r", leaky, "--json", "--together"]);
    assert_eq!(json, include_str!("data/calls.json"));
}

#[test]
fn a_log_on_stdin_may_be_compressed() {
    let log = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/access.log"));
    let log = log.expect("the log");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&log).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let expected = printed(&["access.log", "-r", IP]).replace("access.log (", "stdin (");
    for (log, args) in [(&log, &["-r", IP][..]), (&gzip, &["-r", IP, "-"][..])] {
        assert_eq!(piped(log, args), (0, expected.clone(), String::new()));
    }
    // Half of it would tell half of the traffic.
    let (status, out, error) = piped(&gzip[..gzip.len() / 2], &["-r", IP]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(error.starts_with("rl-sim: cannot read stdin: "), "{error}");
}

#[test]
fn decisions_are_in_the_order_of_the_log() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("decisions");
    let decisions = |args: &[&str]| {
        let file = path.to_str().expect("UTF-8");
        printed(&[&["access.log", "-r", IP, "-r", USER, "--decisions", file], args].concat());
        fs::read_to_string(&path).expect("decisions").lines().collect::<Vec<_>>().join(" ")
    };
    // The first digit is the rule by address, the second the one by user.
    assert_eq!(decisions(&[]), "11 11 10 11 00 00 11 11 11 11 10 10");
    assert_eq!(decisions(&["--together"]), "1 1 0 1 0 0 1 1 1 1 0 0");
}

#[test]
fn seconds_are_spread_if_asked() {
    let rule = "key WINDOW 1s LIMIT 4 ALGO leaky";
    let refused = |log: &[u8], args: &[&str]| {
        let json = findings(log, &[&["-r", rule], args].concat());
        json["rules"][0]["refused"].as_u64().expect("a number")
    };
    let log = b"1700000000,a\n1700000000,a\n1700000000,a\n1700000000,a\n1700000001.5,a\n";
    assert_eq!(refused(log, &[]), 3);
    assert_eq!(refused(log, &["--spread"]), 0);
    let log = b"1700000000,a\n1700000000,a\n1700000000.250,a\n";
    assert_eq!(refused(log, &["--spread"]), 0, "one among them");
}

#[test]
fn the_picture_has_a_panel_for_each_rule_and_one_for_the_call() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("replay.svg");
    let file = path.to_str().expect("UTF-8");
    printed(&["access.log", "-r", IP, "-r", USER, "--together", "--svg", file]);
    let svg = fs::read_to_string(&path).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for title in [
        "ip WINDOW 10s LIMIT 3 ALGO sliding (10 of 12 admitted, in bars of 100ms)",
        "user WINDOW 1m LIMIT 2 ALGO fixed (4 of 9 admitted, in bars of 100ms)",
        "all rules in one call (7 of 12 admitted, in bars of 100ms)",
    ] {
        assert!(svg.contains(title), "{title}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let error = |args: &[&str]| {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(output.stdout, b"");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert_eq!(
        error(&["-r", IP]),
        "rl-sim: stdin is empty: there is nothing to replay\n",
        "no line at all"
    );
    assert_eq!(
        error(&["access.log", "-r", "key WINDOW 1s LIMIT 1 ALGO fixed"]),
        "rl-sim: a log in combined format has no 'key', a rule can count by ip, user, path, \
         ip+path, global\n"
    );
    assert_eq!(
        error(&["no-such.log", "-r", IP]),
        "rl-sim: cannot read no-such.log: No such file or directory (os error 2)\n"
    );
    assert_eq!(
        error(&["access.log", "-r", IP, "--svg", "no-such-directory/a.svg"]).lines().count(),
        1
    );
    let (status, out, error) = piped(b"\n \nhello\x1b[2J\nworld\n", &["-r", IP]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert_eq!(
        error,
        "rl-sim: stdin has no request: none of its 2 lines reads as combined\n  \
         line 3: no address: hello\\u{1b}[2J\n  line 4: no address: world\n"
    );
}

#[test]
fn a_rule_that_is_none_is_a_mistake_of_usage() {
    let output = run(&["access.log", "-r", "ip WINDOW 1m LIMIT ten ALGO sliding"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(error.contains("LIMIT must be 0 to 1000000000000, got 'ten'"), "{error}");
}
