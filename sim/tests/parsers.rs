//! The formats of logs: what is read from a line, and what is said of one that is none.

use rl_sim::log::Entry;
use rl_sim::{columns, combined, timestamp};

fn access<'a>(time_ms: i64, ip: &'a str, user: Option<&'a str>, path: &'a str) -> Entry<'a> {
    let (user, path) = (user.map(str::as_bytes), path.as_bytes());
    Entry { time_ms, cost: 1, ip: ip.as_bytes(), user, path, key: &[] }
}

#[test]
fn times_are_epoch_seconds_epoch_ms_or_rfc_3339() {
    let cases = [
        ("1700000000", Some(1_700_000_000_000)),
        ("1700000000.5", Some(1_700_000_000_500)),
        ("1700000000.0019", Some(1_700_000_000_001)),
        ("1700000000.", Some(1_700_000_000_000)),
        ("1700000000123", Some(1_700_000_000_123)),
        ("1700000000123.9", Some(1_700_000_000_123)),
        ("0", Some(0)),
        ("2023-11-14T22:13:20Z", Some(1_700_000_000_000)),
        ("2023-11-14T22:13:20.0419Z", Some(1_700_000_000_041)),
        ("2023-11-14 23:13:20+01:00", Some(1_700_000_000_000)),
        ("", None),
        (".5", None),
        ("1.5.5", None),
        ("-1", None),
        ("1e9", None),
        ("2023-11-14T22:13:20", None),
        ("2023-11-14", None),
        ("1960-01-01T00:00:00Z", None),
        ("99999999999999999999", None),
        ("9007199254740992", None),
        ("noon", None),
    ];
    for (text, ms) in cases {
        assert_eq!(timestamp::parse(text.as_bytes()), ms, "{text:?}");
    }
}

#[test]
fn durations_are_shown_in_one_or_two_units() {
    let cases = [
        (0, "0ms"),
        (999, "999ms"),
        (1000, "1s"),
        (42_345, "42.3s"),
        (60_000, "1m"),
        (61_500, "1m 1s"),
        (3_600_000, "1h"),
        (5_400_000, "1h 30m"),
        (90_000_000, "1d 1h"),
    ];
    for (ms, text) in cases {
        assert_eq!(timestamp::show_duration(ms), text);
    }
}

#[test]
fn access_logs_are_read_whatever_stands_in_their_fields() {
    let at = 971_211_336_000;
    let cases = [
        (
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326"#,
            access(at, "127.0.0.1", Some("frank"), "/a.gif"),
        ),
        (
            r#"2001:db8::1 - - [10/Oct/2000:20:55:36 +0000] "GET /a?b=/c HTTP/2.0" 404 - "-" "a b""#,
            access(at, "2001:db8::1", None, "/a"),
        ),
        (
            r#"10.0.0.1 ident Jo Doe [10/Oct/2000:20:55:36.250 +0000] "POST / HTTP/1.1" 200 0"#,
            access(at + 250, "10.0.0.1", Some("Jo Doe"), "/"),
        ),
        (
            r#"10.0.0.1 - "" [10/Oct/2000:20:55:36 +0000] "GET /a\"b HTTP/1.1" 400 0 0.003"#,
            access(at, "10.0.0.1", None, r#"/a\"b"#),
        ),
        (
            r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "-" 408 0 "-" "-""#,
            access(at, "10.0.0.1", None, "-"),
        ),
        (
            r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "\x16\x03\\" 400 0"#,
            access(at, "10.0.0.1", None, r"\x16\x03\\"),
        ),
        (r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "" 400 0"#, access(at, "10.0.0.1", None, "")),
    ];
    let mut reader = combined::Reader::default();
    for (line, entry) in cases {
        assert_eq!(reader.read(line.as_bytes()), Ok(entry), "{line}");
    }
}

#[test]
fn what_is_no_line_of_an_access_log_says_why() {
    let time = "not a [time] such as 10/Oct/2000:13:55:36 -0700";
    let cases = [
        ("", "no address"),
        ("hello", "no address"),
        (" - - [10/Oct/2000:20:55:36 +0000]", "no address"),
        ("10.0.0.1 - -", "no [time]"),
        ("10.0.0.1 - - [10/Oct/2000:20:55:36 +0000", "no [time]"),
        (r#"10.0.0.1 - - [10/Okt/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 0"#, time),
        (r#"10.0.0.1 - - [10/Oct/2000:20:55:36] "GET / HTTP/1.1" 200 0"#, time),
        (r#"10.0.0.1 - - [31/Feb/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 0"#, time),
        ("10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] GET / 200 0", "no \"request\""),
        (r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HT"#, "no \"request\""),
        (r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /""#, "no status after the request"),
        (r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /" OK"#, "no status after the request"),
    ];
    let mut reader = combined::Reader::default();
    for (line, problem) in cases {
        assert_eq!(reader.read(line.as_bytes()), Err(problem), "{line}");
    }
}

#[test]
fn csv_lines_have_a_time_a_key_and_perhaps_a_cost() {
    let not_time = Err("not a time: epoch seconds, epoch ms or RFC 3339");
    let not_fields = Err("not time,key or time,key,cost");
    let not_cost = Err("the cost is not 0 to 10^12");
    let cases = [
        ("1700000000,alice", Ok((1_700_000_000_000, "alice", 1))),
        ("1700000000.25, alice ,3", Ok((1_700_000_000_250, "alice", 3))),
        ("1700000000123,alice,", Ok((1_700_000_000_123, "alice", 1))),
        ("2023-11-14T22:13:20Z,a,0", Ok((1_700_000_000_000, "a", 0))),
        (r#""1700000000","a, ""b""",2"#, Ok((1_700_000_000_000, r#"a, "b""#, 2))),
        (r#"1700000000,"never ends"#, Ok((1_700_000_000_000, "never ends", 1))),
        ("1700000000,a,1000000000000", Ok((1_700_000_000_000, "a", 1_000_000_000_000))),
        ("1700000000", not_fields),
        ("", not_fields),
        ("1700000000,a,1,x", not_fields),
        ("1700000000,a,1,x,y,z", not_fields),
        ("yesterday,a", not_time),
        (",a", not_time),
        ("1700000000,", Err("no key")),
        ("1700000000,a,-1", not_cost),
        ("1700000000,a,1.5", not_cost),
        ("1700000000,a,1000000000001", not_cost),
    ];
    let mut reader = columns::Reader::default();
    for (line, expected) in cases {
        let read = reader.read(line.as_bytes());
        let fields = |entry: Entry<'_>| {
            (entry.time_ms, String::from_utf8_lossy(entry.key).into_owned(), entry.cost)
        };
        let expected = expected.map(|(time_ms, key, cost)| (time_ms, String::from(key), cost));
        assert_eq!(read.map(fields), expected, "{line}");
    }
    for (line, is_header) in
        [("time,key", true), ("Timestamp,user,cost", true), ("170,a", false), (",a", false)]
    {
        assert_eq!(columns::is_header(line.as_bytes()), is_header, "{line}");
    }
}
