//! Times and CSV: what is read, and what is said of what is none.

use std::iter::empty;

use rl_sim::entry::Entry;
use rl_sim::formats::{Format, Parser, Told};
use rl_sim::timestamp::{self, END_MS, FIRST_MS, Form, Times};

#[test]
fn times_are_epoch_times_rfc_3339_or_those_of_access_logs() {
    const NOT_ONE: &str = "not a time: epoch time, RFC 3339 or 10/Oct/2000:13:55:36 -0700";
    const NO_NUMBER: &str = "not a time in seconds, ms, us or ns since 1970";
    const NO_ZONE: &str = "a time without a zone, which --zone can tell";
    const IMPLAUSIBLE: &str = "not a plausible time, which is between 1995 and 2099";
    let cases = [
        ("1700000000", Ok(1_700_000_000_000)),
        ("1700000000.5", Ok(1_700_000_000_500)),
        ("1700000000.0019", Ok(1_700_000_000_001)),
        ("1700000000.", Ok(1_700_000_000_000)),
        ("1700000000123", Ok(1_700_000_000_123)),
        ("1700000000123.9", Ok(1_700_000_000_123)),
        ("1700000000123456", Ok(1_700_000_000_123)),
        ("1700000000123456789", Ok(1_700_000_000_123)),
        ("788918400", Ok(FIRST_MS)),
        ("4102444799999", Ok(END_MS - 1)),
        ("2023-11-14T22:13:20Z", Ok(1_700_000_000_000)),
        ("2023-11-14T22:13:20.0419Z", Ok(1_700_000_000_041)),
        ("2023-11-14 23:13:20+01:00", Ok(1_700_000_000_000)),
        ("2023-11-14t17:13:20,5 -0500", Ok(1_700_000_000_500)),
        ("2023-11-14T22:13:20.123456789+00", Ok(1_700_000_000_123)),
        ("14/Nov/2023:22:13:20 +0000", Ok(1_700_000_000_000)),
        ("2016-12-31T23:59:60Z", Ok(1_483_228_799_000)),
        ("", Err(NO_NUMBER)),
        (".5", Err(NO_NUMBER)),
        ("1.5.5", Err(NO_NUMBER)),
        ("99999999999999999999", Err(NO_NUMBER)),
        ("-1", Err(NOT_ONE)),
        ("1e9", Err(NOT_ONE)),
        ("noon", Err(NOT_ONE)),
        ("2023-11-14", Err(NOT_ONE)),
        ("2023-02-29T22:13:20Z", Err(NOT_ONE)),
        ("2023-11-14T22:13:61Z", Err(NOT_ONE)),
        ("2023-11-14T22:13:20.Z", Err(NOT_ONE)),
        ("2023-11-14T22:13:20ZZ", Err(NOT_ONE)),
        ("2023-11-14T22:13:20+1", Err(NOT_ONE)),
        ("2023-11-14T22:13:20+99:00", Err(NOT_ONE)),
        ("2023-11-14T22:13:20 ", Err(NOT_ONE)),
        ("2023-11-14T22:13:20", Err(NO_ZONE)),
        ("14/Nov/2023:22:13:20", Err(NO_ZONE)),
        ("0", Err(IMPLAUSIBLE)),
        ("788918399", Err(IMPLAUSIBLE)),
        ("4102444800", Err(IMPLAUSIBLE)),
        ("17000000000", Err(IMPLAUSIBLE)),
        ("9223372036854775807", Err(IMPLAUSIBLE)),
        ("1994-12-31T23:59:59Z", Err(IMPLAUSIBLE)),
        ("2100-01-01T00:00:00Z", Err(IMPLAUSIBLE)),
    ];
    for (text, ms) in cases {
        assert_eq!(Times::default().read(&Form::Any, text.as_bytes()), ms, "{text:?}");
    }
}

#[test]
fn a_number_is_plausible_in_one_unit_at_most() {
    // From the first plausible second on, in steps of a thousandth, up to the last nanosecond.
    let mut number = 1_i64;
    let mut plausible = 0;
    while number < i64::MAX / 1001 * 1000 {
        let text = number.to_string();
        if let Ok(ms) = Times::default().read(&Form::Number, text.as_bytes()) {
            let units = [
                number.checked_mul(1000),
                Some(number),
                Some(number / 1000),
                Some(number / 1_000_000),
            ];
            let in_range =
                |ms: &&Option<i64>| ms.is_some_and(|ms| (FIRST_MS..END_MS).contains(&ms));
            assert_eq!(units.iter().filter(in_range).count(), 1, "{number}");
            assert!(units.contains(&Some(ms)));
            plausible += 1;
        }
        number += number / 1000 + 1;
    }
    assert!(plausible > 4 * 1000, "{plausible}");
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

fn csv() -> Parser {
    Parser::new(&Told { format: Some(Format::Csv), ..Told::default() }, empty())
}

#[test]
fn csv_lines_have_a_time_a_key_and_perhaps_a_cost() {
    let not_fields = Err("not time,key or time,key,cost");
    let not_cost = Err("the cost is not 0 to 10^12");
    let no_quote = Err("a quote that does not end");
    let cases = [
        ("1700000000,alice", Ok((1_700_000_000_000, "alice", 1))),
        ("1700000000.25, alice ,3", Ok((1_700_000_000_250, "alice", 3))),
        ("1700000000123,alice,", Ok((1_700_000_000_123, "alice", 1))),
        ("1700000000123456,alice,", Ok((1_700_000_000_123, "alice", 1))),
        ("2023-11-14T22:13:20Z,a,0", Ok((1_700_000_000_000, "a", 0))),
        (r#""1700000000","a, ""b""",2"#, Ok((1_700_000_000_000, r#"a, "b""#, 2))),
        ("1700000000,a,1000000000000", Ok((1_700_000_000_000, "a", 1_000_000_000_000))),
        (r#"1700000000,"never ends"#, no_quote),
        (r#"1700000000,"a","2"#, no_quote),
        ("1700000000", not_fields),
        ("", not_fields),
        ("1700000000,a,1,x", not_fields),
        ("1700000000,a,1,x,y,z", not_fields),
        (r#""1700000000",a,1,x,y,z"#, not_fields),
        ("yesterday7,a", Err("not a time: epoch time, RFC 3339 or 10/Oct/2000:13:55:36 -0700")),
        (",a", Err("not a time in seconds, ms, us or ns since 1970")),
        ("1700000000,", Err("no key")),
        ("1700000000,a,-1", not_cost),
        ("1700000000,a,1.5", not_cost),
        ("1700000000,a,1000000000001", not_cost),
    ];
    for (line, expected) in cases {
        let fields = |entry: Entry<'_>| {
            let key = entry.key.unwrap_or_default().into_owned();
            (entry.time_ms, String::from_utf8(key).expect("UTF-8"), entry.cost)
        };
        let mut parser = csv();
        let read = parser.read(line.as_bytes()).map_err(|problem| problem.reason);
        let read = read.map(|entry| fields(entry.expect("a request")));
        let expected = expected.map(|(time_ms, key, cost)| (time_ms, String::from(key), cost));
        assert_eq!(read, expected, "{line}");
    }
}

#[test]
fn the_first_line_of_a_csv_may_name_its_columns() {
    for header in ["time,key", "Timestamp,user,cost", "time,key, COST "] {
        let mut parser = csv();
        assert_eq!(parser.read(header.as_bytes()), Ok(None), "{header}");
        assert!(parser.read(header.as_bytes()).is_err(), "not once more");
        assert!(parser.read(b"1700000000,a,2").is_ok_and(|entry| entry.is_some()));
    }
    // Whatever a third column is, it is not the cost.
    let mut parser = csv();
    assert_eq!(parser.read(b"time,key,status"), Ok(None));
    let problem = parser.read(b"1700000000,a,200").expect_err("no cost");
    assert_eq!(problem.reason, "the third column is not named cost");
    for line in ["170,a", ",a"] {
        assert!(csv().read(line.as_bytes()).is_err(), "{line}");
    }
}
