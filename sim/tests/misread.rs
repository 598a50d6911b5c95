//! Logs that look like others: each is understood, or refused with the line and the reason. A limit
//! that was chosen by fields that are not what they were taken for is worse than none.

mod program;

use program::{findings, piped};

/// Refuses everybody, so that the keys refused are all keys.
const EACH_IP: &str = "ip WINDOW 1m LIMIT 0 ALGO fixed";
const EACH_KEY: &str = "key WINDOW 1m LIMIT 0 ALGO fixed";

const REQUEST: &str = r#"- - [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" 200 12"#;

/// The keys that a rule counts by, in the order of their names.
fn keys(log: &[u8], rule: &str, args: &[&str]) -> Vec<String> {
    let found = findings(log, &[&["-r", rule, "--top", "99"], args].concat());
    let top = found["rules"][0]["top"].as_array().expect("a list");
    let mut keys: Vec<String> =
        top.iter().map(|key| key["key"].as_str().expect("a key").into()).collect();
    keys.sort();
    keys
}

/// What is said of a log that is refused.
fn refusal(log: &[u8], args: &[&str]) -> String {
    let (status, out, error) = piped(log, args);
    assert_eq!((status, out.as_str()), (1, ""), "{error}");
    error
}

#[test]
fn a_virtual_host_is_no_address() {
    let log = format!("www.example.com:443 203.0.113.9 {REQUEST}\n");
    assert_eq!(keys(log.as_bytes(), EACH_IP, &[]), ["203.0.113.9"]);
    let log = format!("www.example.com:443 {REQUEST}\n");
    assert_eq!(
        refusal(log.as_bytes(), &["-r", EACH_IP]),
        "rl-sim: stdin has no request: none of its 1 lines reads as combined\n  \
         line 1: not an IP address: www.example.com:443\n"
    );
}

#[test]
fn the_head_of_syslog_is_no_part_of_a_line() {
    for head in ["Oct 10 13:55:36 web1 nginx: ", "2025-10-10T13:55:36.123456+00:00 web1 nginx[7]: "]
    {
        let log = format!("{head}203.0.113.9 {REQUEST}\n");
        assert_eq!(keys(log.as_bytes(), EACH_IP, &[]), ["203.0.113.9"]);
    }
    let log = format!("Oct 10 13:55:36 {REQUEST}\n");
    let error = refusal(log.as_bytes(), &["-r", EACH_IP]);
    assert!(error.contains("\n  line 1: not an IP address: Oct\n"), "{error}");
}

#[test]
fn a_list_of_addresses_is_no_address() {
    let log = format!("66.66.69.69, 10.0.0.1 {REQUEST}\n");
    let error = refusal(log.as_bytes(), &["-r", EACH_IP]);
    let reason = "line 1: a list of addresses: --log-format and --forwarded tell which one counts";
    assert!(error.contains(&format!("{reason}: 66.66.69.69,\n")), "{error}");
    // With both it is known.
    let line = r#"$http_x_forwarded_for - $remote_user [$time_local] "$request" $status $bytes"#;
    let args = |place| ["--log-format", line, "--forwarded", place];
    assert_eq!(keys(log.as_bytes(), EACH_IP, &args("1")), ["10.0.0.1"]);
    assert_eq!(keys(log.as_bytes(), EACH_IP, &args("2")), ["66.66.69.69"]);
}

#[test]
fn a_host_name_and_a_port_glued_on_are_refused() {
    for (client, text) in [
        ("crawler.example.net", "not an IP address: crawler.example.net"),
        ("203.0.113.9:4711", "not an IP address: 203.0.113.9:4711"),
        ("unix:", "not an IP address: unix:"),
        ("203.0.113.09", "not an IP address: 203.0.113.09"),
        (
            "203.0.113.9 198.51.100.1",
            "the fields are other ones, which --log-format can tell: 198.51.100.1",
        ),
    ] {
        let log = format!("{client} {REQUEST}\n");
        let error = refusal(log.as_bytes(), &["-r", EACH_IP]);
        assert!(error.contains(&format!("line 1: {text}\n")), "{error}");
    }
}

#[test]
fn what_stands_before_the_time_is_not_all_a_user() {
    // One field more, different in each line, would make each request a user of its own.
    let log = r#"203.0.113.9 - alice 0.003 [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" 200 12"#;
    let error =
        refusal(format!("{log}\n").as_bytes(), &["-r", "user WINDOW 1m LIMIT 1 ALGO fixed"]);
    assert!(error.contains("which --log-format can tell: alice 0.003\n"), "{error}");
}

#[test]
fn microseconds_and_nanoseconds_are_not_stretched() {
    for unit in ["", "000", "000000", "000000000"] {
        let log = format!("1760104536{unit},a\n1760104538{unit},a\n");
        let found = findings(log.as_bytes(), &["-r", EACH_KEY]);
        assert_eq!(found["log"]["first"], "2025-10-10T13:55:36Z", "{unit}");
        assert_eq!(found["log"]["span_ms"], 2000, "{unit}");
    }
}

#[test]
fn what_is_no_plausible_time_is_refused() {
    for (log, line) in [
        ("5,a\n6,a\n", "line 1: not a plausible time, which is between 1995 and 2099: 5,a"),
        (
            "17601045360,a\n",
            "line 1: not a plausible time, which is between 1995 and 2099: 17601045360,a",
        ),
    ] {
        let error = refusal(log.as_bytes(), &["-r", EACH_KEY, "--format", "csv"]);
        assert!(error.contains(line), "{error}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_address() {
    let log = format!("\u{feff}203.0.113.9 {REQUEST}\n203.0.113.9 {REQUEST}\n");
    // Each of several files may have begun with one.
    for log in [&log, &log.repeat(2)] {
        let found = findings(log.as_bytes(), &["-r", EACH_IP]);
        assert_eq!(found["log"]["malformed"]["count"], 0);
        assert_eq!(found["rules"][0]["keys"], 1);
    }
}

#[test]
fn lines_may_end_as_on_old_macs_and_on_windows() {
    for end in ["\r", "\r\n", "\n"] {
        let log = format!("203.0.113.9 {REQUEST}{end}203.0.113.8 {REQUEST}{end}{end}x{end}");
        let found = findings(log.as_bytes(), &["-r", EACH_IP]);
        assert_eq!(found["log"]["requests"], 2, "{end:?}");
        assert_eq!(found["log"]["malformed"]["first"][0]["line"], 4, "{end:?}");
        assert_eq!(found["rules"][0]["keys"], 2, "{end:?}");
    }
    // Several lines that look like one.
    let log = format!("203.0.113.9 {REQUEST}\r203.0.113.8 {REQUEST}\n203.0.113.9 {REQUEST}\n");
    let found = findings(log.as_bytes(), &["-r", EACH_IP]);
    let line = &found["log"]["malformed"]["first"][0];
    assert_eq!(
        (&line["line"], &line["problem"]),
        (&1.into(), &"a line end of another kind within the line".into())
    );
}

#[test]
fn an_ipv6_client_counts_by_its_network_as_in_the_middlewares() {
    let clients = [
        "2001:db8:1:2::1",
        "2001:DB8:1:2:3:4:5:6",
        "2001:db8:1:3::1",
        "::ffff:203.0.113.9",
        "203.0.113.9",
    ];
    let log: String = clients.iter().map(|client| format!("{client} {REQUEST}\n")).collect();
    assert_eq!(
        keys(log.as_bytes(), EACH_IP, &[]),
        ["2001:db8:1:2::/64", "2001:db8:1:3::/64", "203.0.113.9"]
    );
    assert_eq!(
        keys(log.as_bytes(), "ip+path WINDOW 1m LIMIT 0 ALGO fixed", &["--ipv6", "48"]),
        ["2001:db8:1::/48 /a", "203.0.113.9 /a"]
    );
    assert_eq!(
        keys(log.as_bytes(), EACH_IP, &["--ipv6", "128"]),
        ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::1", "2001:db8:1:3::1", "203.0.113.9"]
    );
}

#[test]
fn a_line_that_was_cut_off_is_refused() {
    let cut = "line 2: no end of line follows, so it may have been cut off: 1760104537,al\n";
    let (_, out, _) = piped(b"1760104536,alice\n1760104537,al", &["-r", EACH_KEY]);
    assert!(out.contains(cut), "{out}");
    // What matters of an access log is whole when the status is.
    let whole = format!("203.0.113.9 {REQUEST}");
    for end in 1..=whole.len() {
        let log = format!("203.0.113.8 {REQUEST}\n203.0.113.8 {REQUEST}\n{}", &whole[..end]);
        let expected: &[_] = match end > whole.len() - 3 {
            true => &["203.0.113.8", "203.0.113.9"],
            false => &["203.0.113.8"],
        };
        assert_eq!(keys(log.as_bytes(), EACH_IP, &[]), expected, "{log}");
    }
    // An address at the end could have been longer.
    let log = b"1760104536 /a 203.0.113.9\n1760104536 /a 203.0.113.99\n1760104536 /a 203.0.113.9";
    let args = ["--log-format", "$msec $request_uri $remote_addr", "-r", EACH_IP];
    let (_, out, _) = piped(log, &args);
    assert!(out.contains("line 3: no end of line follows"), "{out}");
    // An object is whole when its brace is there.
    let log = br#"{"ts":1760104536,"client_ip":"203.0.113.9"}"#;
    assert_eq!(keys(log, EACH_IP, &[]), ["203.0.113.9"]);
}

#[test]
fn a_third_column_is_the_cost_only_if_it_is_named_so() {
    let error = refusal(b"time,key,status\n1760104536,a,200\n", &["-r", EACH_KEY]);
    assert!(error.contains("line 2: the third column is not named cost"), "{error}");
    let error = refusal(b"1760104536,\"a\n", &["-r", EACH_KEY, "--format", "csv"]);
    assert!(error.contains("line 1: a quote that does not end"), "{error}");
}

#[test]
fn a_path_has_no_host() {
    let request = |target| REQUEST.replace("/a", target);
    let log = format!(
        "203.0.113.9 {}\n203.0.113.9 {}\n",
        request("https://www.example.com/a"),
        request("/a?b")
    );
    assert_eq!(keys(log.as_bytes(), "path WINDOW 1m LIMIT 0 ALGO fixed", &[]), ["/a"]);
}

#[test]
fn a_log_that_is_no_text_is_refused_with_a_way_out() {
    let line = format!("203.0.113.9 {REQUEST}\n");
    let utf_16 = |order: fn(u16) -> [u8; 2], mark: &str| -> Vec<u8> {
        mark.encode_utf16().chain(line.encode_utf16()).flat_map(order).collect()
    };
    let iconv = "UTF-16, make text of it: iconv -f UTF-16 -t UTF-8 FILE | rl-sim ...\n";
    let mut tar = vec![0; 512];
    tar[..10].copy_from_slice(b"access.log");
    tar[257..262].copy_from_slice(b"ustar");
    for (log, message) in [
        (utf_16(u16::to_le_bytes, "\u{feff}"), iconv),
        (utf_16(u16::to_be_bytes, "\u{feff}"), iconv),
        (utf_16(u16::to_le_bytes, ""), iconv),
        (utf_16(u16::to_be_bytes, ""), iconv),
        (
            b"\x28\xb5\x2f\xfd\x04".to_vec(),
            "compressed by zstd, make text of it: zstdcat FILE | rl-sim ...\n",
        ),
        (b"\xfd7zXZ\0\0".to_vec(), "compressed by xz, make text of it: xzcat FILE | rl-sim ...\n"),
        (b"BZh91AY&SY".to_vec(), "compressed by bzip2, make text of it: bzcat FILE | rl-sim ...\n"),
        (
            b"PK\x03\x04\x14".to_vec(),
            "a zip archive, make text of it: unzip -p FILE | rl-sim ...\n",
        ),
        (tar, "a tar archive, make text of it: tar -xOf FILE | rl-sim ...\n"),
    ] {
        assert_eq!(refusal(&log, &["-r", EACH_IP]), format!("rl-sim: stdin is {message}"));
    }
}

#[test]
fn a_log_of_which_most_is_not_understood_is_refused() {
    // What is left would tell a limit that is far too low.
    let good = format!("203.0.113.9 {REQUEST}\n");
    let bad = format!("203.0.113.9, 10.0.0.1 {REQUEST}\n");
    let error = refusal((good.repeat(2) + &bad.repeat(3)).as_bytes(), &["-r", EACH_IP]);
    assert!(
        error.starts_with(
            "rl-sim: stdin: only 2 of its 5 lines read as combined\n  line 3: a list of"
        ),
        "{error}"
    );
    let found = findings((good.repeat(3) + &bad.repeat(3)).as_bytes(), &["-r", EACH_IP]);
    assert_eq!(
        (&found["log"]["requests"], &found["log"]["malformed"]["count"]),
        (&3.into(), &3.into())
    );
}

#[test]
fn lines_without_what_a_rule_counts_by_are_refused() {
    let log = br#"{"ts":1760104536,"path":"/a","client_ip":"203.0.113.9"}
{"ts":1760104536,"client_ip":"203.0.113.9"}
"#;
    assert_eq!(keys(log, EACH_IP, &[]), ["203.0.113.9"]);
    let (_, out, _) = piped(log, &["-r", "path WINDOW 1m LIMIT 0 ALGO fixed"]);
    assert!(out.contains("line 2: no path: {\"ts\":1760104536,"), "{out}");
    // Where keys are told, those that are not are not missed.
    let log = b"{\"t\":1760104536,\"u\":\"alice\"}\n";
    let args = ["--json-keys", "time=t,user=u"];
    assert_eq!(keys(log, "user WINDOW 1m LIMIT 0 ALGO fixed", &args), ["alice"]);
    assert_eq!(
        refusal(log, &[&args[..], &["-r", EACH_IP]].concat()),
        "rl-sim: a log in JSON format has no 'ip', a rule can count by user, global\n"
    );
    let log = format!("203.0.113.9 {REQUEST}\n");
    assert_eq!(
        refusal(log.as_bytes(), &["-r", EACH_IP, "--forwarded", "1"]),
        "rl-sim: a log in combined format has no X-Forwarded-For that is known as such: name it in \
         --log-format\n"
    );
}

#[test]
fn times_without_a_zone_are_told() {
    let log = br#"10.0.1.2:33317 [06/Feb/2009:12:14:14.655] a b 1/2/3 200 27 - - ---- 1/1 0/0 "GET / HTTP/1.1"
"#;
    let note = "times without a zone were read as UTC (--zone)\n";
    assert!(piped(log, &["-r", EACH_IP]).1.contains(note));
    assert!(!piped(log, &["-r", EACH_IP, "--zone", "-07:00"]).1.contains(note));
    assert_eq!(findings(log, &["-r", EACH_IP])["log"]["assumed_utc"], true);
    let found = findings(log, &["-r", EACH_IP, "--zone", "-07:00"]);
    assert_eq!(found["log"]["first"], "2009-02-06T19:14:14.655Z");
}

#[test]
fn a_log_may_have_long_lines_and_blocks_of_zeros() {
    // Truncating a log under a server that goes on writing leaves zeros at its beginning.
    let line = format!("203.0.113.9 {REQUEST}\n");
    let mut log = vec![0; 3 << 20];
    log.extend_from_slice(line.repeat(9000).as_bytes());
    log.extend_from_slice(&[b'x'; 2 << 20]);
    log.extend_from_slice(b"\n");
    log.extend_from_slice(line.as_bytes());
    let found = findings(&log, &["-r", EACH_IP]);
    assert_eq!(found["log"]["requests"], 9000);
    let malformed = &found["log"]["malformed"];
    assert_eq!((&malformed["count"], &malformed["first"][1]["line"]), (&2.into(), &9001.into()));
    assert_eq!(malformed["first"][0]["problem"], "longer than 1 MiB");
    assert_eq!(found["rules"][0]["keys"], 1);
}
