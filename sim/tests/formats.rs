//! The formats of logs: what is read from the lines that servers write, and what is said of others.

mod samples;

use std::iter::empty;

use rl_sim::entry::Entry;
use rl_sim::formats::{Format, Parser, Told};
use samples::{By, SAMPLES, Sample};

fn assert_reads(mut parser: Parser, sample: &Sample) {
    let line = sample.line;
    let entry = parser.read(line.as_bytes()).expect(line).expect(line);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    assert_eq!(entry.time_ms, sample.time_ms, "{line}");
    assert_eq!(entry.ip.map(|ip| text(ip.text)).as_deref(), Some(sample.ip), "{line}");
    assert_eq!(entry.user.map(|user| text(&user)).as_deref(), sample.user, "{line}");
    assert_eq!(entry.path.map(|path| text(&path)).as_deref(), sample.path, "{line}");
    assert_eq!((entry.cost, entry.key), (1, None), "{line}");
}

#[test]
fn lines_of_every_format_are_read() {
    for sample in &SAMPLES {
        assert_reads(Parser::new(&sample.told(), empty()), sample);
    }
}

#[test]
fn the_format_is_found_out() {
    for sample in &SAMPLES {
        let By::Format(format) = sample.by else {
            continue;
        };
        let lines = ["a line of something else", sample.line, "and another"];
        let parser = Parser::new(&Told::default(), lines.iter().map(|line| line.as_bytes()));
        assert_eq!(parser.format, format, "{}", sample.line);
        assert_reads(parser, sample);
    }
    // When no line reads, what they look like decides about the message.
    for (line, format) in
        [("{", Format::Json), ("#Version: 1.0", Format::W3c), ("x", Format::Combined)]
    {
        let parser = Parser::new(&Told::default(), std::iter::once(line.as_bytes()));
        assert_eq!(parser.format, format);
    }
}

#[test]
fn w3c_logs_name_their_columns() {
    let mut parser = Parser::new(&Told { format: Some(Format::W3c), ..Told::default() }, empty());
    let mut read = |line: &'static str| {
        let entry = parser.read(line.as_bytes()).map_err(|problem| problem.reason)?;
        Ok(entry.map(|entry: Entry<'_>| {
            let user = entry.user.map(|user| user.into_owned());
            (entry.time_ms, entry.ip.expect("an address").text, user)
        }))
    };
    let before = "no #Fields: with date, time and c-ip before it";
    assert_eq!(read("2025-10-10 13:55:36 203.0.113.9"), Err(before));
    for comment in [
        "#Software: Microsoft Internet Information Services 10.0",
        "#Date: 2025-10-10 13:55:36",
        "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip sc-status",
    ] {
        assert_eq!(read(comment), Ok(None));
    }
    assert_eq!(
        read("2025-10-10 13:55:36 10.0.0.1 GET /login - 443 EXAMPLE\\jo 203.0.113.9 200"),
        Ok(Some((1_760_104_536_000, &b"203.0.113.9"[..], Some(b"EXAMPLE\\jo".to_vec()))))
    );
    assert_eq!(
        read("2025-10-10 13:55:36 10.0.0.1 GET /lo"),
        Err("not as many fields as #Fields: names")
    );
    // A restart may change the columns; CloudFront sets them apart by tabs.
    assert_eq!(read("#Fields: date time x-edge-location c-ip"), Ok(None));
    assert_eq!(
        read("2025-10-10\t13:55:36\tFRA 2\t2001:db8::1"),
        Ok(Some((1_760_104_536_000, &b"2001:db8::1"[..], None)))
    );
    assert_eq!(
        read("2025-10-10 13:55 FRA 2001:db8::1"),
        Err("not a time such as 2000-10-10T13:55:36.250Z")
    );
    assert_eq!(read("2025-10-10 13:55:36 FRA -"), Err("not an IP address"));
    assert_eq!(
        read("#Fields: date time s-ip"),
        Err("date, time and c-ip are not all among the fields")
    );
    assert_eq!(read("2025-10-10 13:55:36 203.0.113.9"), Err(before));
}

#[test]
fn lines_of_access_logs_that_are_none_say_why() {
    let time = "not a time such as 10/Oct/2000:13:55:36 -0700";
    let other = "the fields are other ones, which --log-format can tell";
    let list = "a list of addresses: --log-format and --forwarded tell which one counts";
    let cases = [
        ("", "no address", ""),
        ("hello", "no address", "hello"),
        ("hello world", "not an IP address", "hello"),
        ("10.0.0.1 - -", "no user", "-"),
        ("10.0.0.1 - - [10/Oct/2000:20:55:36 +0000", "no time", "10/Oct/2000:20:55:36 +0000"),
        (
            r#"10.0.0.1 - - [10/Okt/2000:20:55:36 +0000] "GET /" 200 0"#,
            time,
            "10/Okt/2000:20:55:36 +0000",
        ),
        (
            r#"10.0.0.1 - - [31/Feb/2000:20:55:36 +0000] "GET /" 200 0"#,
            time,
            "31/Feb/2000:20:55:36 +0000",
        ),
        (
            r#"10.0.0.1 - - [10/Oct/2000:20:55:36] "GET /" 200 0"#,
            "a time without a zone, which --zone can tell",
            "10/Oct/2000:20:55:36",
        ),
        (
            r#"10.0.0.1 - - [10/Oct/1970:20:55:36 +0000] "GET /" 200 0"#,
            "not a plausible time, which is between 1995 and 2099",
            "10/Oct/1970:20:55:36 +0000",
        ),
        (
            "10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] GET / 200 0",
            "no time",
            "10/Oct/2000:20:55:36 +0000] GET / 200 0",
        ),
        (r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HT"#, "no request", "GET / HT"),
        (r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /""#, "no request", "GET /\""),
        (r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /" OK 0"#, "not a status", "OK"),
        (r#"10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /" 200"#, "no status", "200"),
        // A name that a client chose cannot bring a time of its own.
        (
            r#"10.0.0.1 - a [10/Oct/2000:20:55:36 +0000] [11/Oct/2000:20:55:36 +0000] "GET /" 200 0"#,
            time,
            "10/Oct/2000:20:55:36 +0000] [11/Oct/2000:20:55:36 +0000",
        ),
        // Fields that are not those of the format.
        (
            r#"66.66.69.69, 10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /" 200 0"#,
            list,
            "66.66.69.69,",
        ),
        (
            r#"66.66.69.69,10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /" 200 0"#,
            list,
            "66.66.69.69,10.0.0.1",
        ),
        (r#"10.0.0.1 10.0.0.2 - - [10/Oct/2000:20:55:36 +0000] "GET /" 200 0"#, other, "10.0.0.2"),
        (r#"10.0.0.1 - 10.0.0.2 [10/Oct/2000:20:55:36 +0000] "GET /" 200 0"#, other, "10.0.0.2"),
        (r#"10.0.0.1 - - alice [10/Oct/2000:20:55:36 +0000] "GET /" 200 0"#, other, "- alice"),
        (
            r#"10.0.0.1 - alice 0.003 [10/Oct/2000:20:55:36 +0000] "GET /" 200 0"#,
            other,
            "alice 0.003",
        ),
        (
            r#"crawler.example.net - - [10/Oct/2000:20:55:36 +0000] "GET /" 200 0"#,
            "not an IP address",
            "crawler.example.net",
        ),
        (
            r#"10.0.0.1:4711 - - [10/Oct/2000:20:55:36 +0000] "GET /" 200 0"#,
            "not an IP address",
            "10.0.0.1:4711",
        ),
        (r#"unix: - - [10/Oct/2000:20:55:36 +0000] "GET /" 200 0"#, "not an IP address", "unix:"),
    ];
    let told = Told { format: Some(Format::Combined), ..Told::default() };
    let mut parser = Parser::new(&told, empty());
    for (line, reason, at) in cases {
        let problem = parser.read(line.as_bytes()).expect_err(line);
        assert_eq!((problem.reason, str::from_utf8(problem.at)), (reason, Ok(at)), "{line}");
    }
}

/// What is said of a line that is read by this format.
fn refused(told: &Told, line: &str) -> (&'static str, String) {
    let problem = Parser::new(told, empty()).read(line.as_bytes()).expect_err(line);
    (problem.reason, String::from_utf8_lossy(problem.at).into_owned())
}

#[test]
fn lines_of_json_that_are_none_say_why() {
    let told = Told { format: Some(Format::Json), ..Told::default() };
    let cases = [
        ("", "not a JSON object"),
        ("[]", "not a JSON object"),
        (r#"{"ts":1760104536,"client_ip":"10.0.0.1""#, "not a JSON object"),
        (r#"{"ts":1760104536,"client_ip":"10.0.0.1"} {}"#, "not a JSON object"),
        (r#"{"client_ip":"10.0.0.1"}"#, "no time"),
        (r#"{"ts":null,"client_ip":"10.0.0.1"}"#, "not a time"),
        (
            r#"{"ts":1.76e9,"client_ip":"10.0.0.1"}"#,
            "not a time: epoch time, RFC 3339 or 10/Oct/2000:13:55:36 -0700",
        ),
        (
            r#"{"ts":17,"client_ip":"10.0.0.1"}"#,
            "not a plausible time, which is between 1995 and 2099",
        ),
        (r#"{"ts":1760104536,"level":"info","msg":"started"}"#, "no address"),
        (r#"{"ts":1760104536,"client_ip":"-"}"#, "no address"),
        (r#"{"ts":1760104536,"client_ip":"www.example.com:443"}"#, "not an IP address"),
        (r#"{"ts":1760104536,"client_ip":42}"#, "not an IP address"),
        (
            r#"{"ts":1760104536,"client_ip":"10.0.0.1","client_ip":"10.0.0.2"}"#,
            "the same key twice",
        ),
        (
            r#"{"ts":1760104536,"request":{"uri":"/","uri":"/"},"client_ip":"10.0.0.1"}"#,
            "the same key twice",
        ),
        (
            r#"{"ts":1760104536,"ClientHost":"10.0.0.1, 10.0.0.2"}"#,
            "a list of addresses: --forwarded tells which one counts",
        ),
    ];
    for (line, reason) in cases {
        assert_eq!(refused(&told, line).0, reason, "{line}");
    }
}

#[test]
fn forwarded_addresses_count_from_the_right_if_asked() {
    let line = r#"$remote_addr "$http_x_forwarded_for" $msec"#;
    let told = |place| Told { line: Some(line.parse().expect(line)), place, ..Told::default() };
    let ip = |place, line: &'static str| {
        let entry = Parser::new(&told(place), empty()).read(line.as_bytes());
        let entry = entry.map_err(|problem| problem.reason)?.expect("a request");
        Ok(str::from_utf8(entry.ip.expect("an address").text).expect("ASCII"))
    };
    let line = r#"10.0.0.1 "198.51.100.1, 203.0.113.9" 1760104536"#;
    assert_eq!(ip(None, line), Ok("10.0.0.1"));
    assert_eq!(ip(Some(1), line), Ok("203.0.113.9"));
    assert_eq!(ip(Some(2), line), Ok("198.51.100.1"));
    assert_eq!(ip(Some(3), line), Err("no address at that place of the list"));
    // Who comes without a proxy.
    assert_eq!(ip(Some(1), r#"10.0.0.1 "-" 1760104536"#), Ok("10.0.0.1"));
    assert_eq!(
        ip(Some(1), r#"10.0.0.1 "x" 1760104536"#),
        Err("no address at that place of the list")
    );

    let envoy = Told { format: Some(Format::Envoy), place: Some(2), ..Told::default() };
    let line = r#"[2016-04-15T20:17:00.310Z] "GET / HTTP/2" 204 - 1 0 2 1 "9.9.9.9,203.0.113.9,10.0.0.1" "" "" "" """#;
    let mut parser = Parser::new(&envoy, empty());
    let entry = parser.read(line.as_bytes()).expect("a line").expect("a request");
    assert_eq!(entry.ip.expect("an address").text, b"203.0.113.9");
    let alone = Told { place: None, ..envoy };
    let list = "a list of addresses: --log-format and --forwarded tell which one counts";
    assert_eq!(refused(&alone, line), (list, "9.9.9.9,203.0.113.9,10.0.0.1".into()));

    let json = Told { format: Some(Format::Json), place: Some(1), ..Told::default() };
    let line = r#"{"ts":1760104536,"ip":"::1","request":{"headers":{"X-Forwarded-For":["9.9.9.9, 203.0.113.9"]}}}"#;
    let mut parser = Parser::new(&json, empty());
    let entry = parser.read(line.as_bytes()).expect("a line").expect("a request");
    assert_eq!(entry.ip.expect("an address").text, b"203.0.113.9");
}

#[test]
fn times_without_a_zone_are_of_the_one_that_is_told() {
    let line = r#"10.0.1.2:33317 [06/Feb/2009:12:14:14.655] a b 1/2/3 200 27 - - ---- 1/1/1 0/0 "GET / HTTP/1.1""#;
    let told = |zone: Option<&str>| Told {
        format: Some(Format::Haproxy),
        zone: zone.map(|zone| rl_sim::timestamp::offset(zone.as_bytes()).expect("a zone")),
        ..Told::default()
    };
    for (zone, hours, assumed) in
        [(None, 0, true), (Some("+02:00"), -2, false), (Some("-0930"), 9, false)]
    {
        let mut parser = Parser::new(&told(zone), empty());
        let entry = parser.read(line.as_bytes()).expect("a line").expect("a request");
        let half = if zone == Some("-0930") { 1_800_000 } else { 0 };
        assert_eq!(entry.time_ms, 1_233_922_454_655 + hours * 3_600_000 + half);
        assert_eq!(parser.assumed_utc(), assumed);
    }
    let json = Told { format: Some(Format::Json), ..told(Some("+02:00")) };
    let line = r#"{"time":"2025-10-10 15:55:36,250","ip":"10.0.0.1"}"#;
    let entry = Parser::new(&json, empty())
        .read(line.as_bytes())
        .map(|entry| entry.map(|entry| entry.time_ms));
    assert_eq!(entry, Ok(Some(1_760_104_536_250)));
}

#[test]
fn the_format_lines_of_the_documents_are_some() {
    let pages = [include_str!("../../docs/simulator.md"), include_str!("../src/cli.rs")];
    let mut count = 0;
    for page in pages {
        for part in page.split("--log-format '").skip(1) {
            let line = part.split('\'').next().expect("a part");
            assert!(line.parse::<rl_sim::formats::pattern::Pattern>().is_ok(), "{line}");
            count += 1;
        }
    }
    assert_eq!(count, 4);
}

#[test]
fn format_lines_that_are_none_say_why() {
    use rl_sim::formats::pattern::Pattern;
    let cases = [
        ("", "a format line names fields as nginx ($remote_addr) or Apache (%h) does"),
        ("combined", "a format line names fields as nginx ($remote_addr) or Apache (%h) does"),
        (
            "$remote_addr $status",
            "no field tells the time, as $time_local, $time_iso8601, $msec and %t do",
        ),
        ("%h %>s", "no field tells the time, as $time_local, $time_iso8601, $msec and %t do"),
        (
            "$remote_addr$remote_user $msec",
            "nothing stands between $remote_addr and $remote_user, so it is open where the first ends",
        ),
        ("%h%u %t", "nothing stands between %h and %u, so it is open where the first ends"),
        ("$remote_addr $msec ${", "no field is named at '${'"),
        ("$remote_addr $msec $ {}", "no field is named at '$ {}'"),
        ("%h %t %", "no field is named at '%'"),
        ("%h %t %{User-Agent", "no field is named at '%{User-Agent'"),
        ("%h %{%H:%M:%S}t", "'%H:%M:%S' does not tell date and time of day"),
        ("%h %{%Y-%m-%d}t", "'%Y-%m-%d' does not tell date and time of day"),
        ("%h %{msec_frac}t", "'%3f' does not tell date and time of day"),
    ];
    for (line, message) in cases {
        let problem = line.parse::<Pattern>().expect_err(line);
        assert_eq!(problem.to_string(), message, "{line}");
    }
    use rl_sim::formats::json::Keys;
    let problem = |keys: &str| keys.parse::<Keys>().expect_err(keys).to_string();
    let not_a_pair = "is not FIELD=KEY, where FIELD is time, ip, forwarded, user, path or request";
    for (keys, pair) in
        [("ts", "ts"), ("time=", "time="), ("time=a,time=b", "time=b"), ("time=a,port=b", "port=b")]
    {
        assert_eq!(problem(keys), format!("'{pair}' {not_a_pair}"));
    }
    assert_eq!(problem("ip=a"), "time=KEY is missing");
}

#[test]
fn lines_that_do_not_fit_a_format_line_say_why() {
    let told = |line: &str| Told { line: Some(line.parse().expect(line)), ..Told::default() };
    let cases = [
        (
            "[$msec] $remote_addr",
            "1760104536 10.0.0.1",
            "it begins otherwise than the format",
            "1760104536 10.0.0.1",
        ),
        ("[$msec] $remote_addr end", "[1760104536] 10.0.0.1 end.", "more than the format has", "."),
        ("[$msec] $remote_addr", "[1760104536] 10.0.0.1 x", "not an IP address", "10.0.0.1 x"),
        (
            "$msec $remote_addr:$remote_port $x",
            "1760104536 10.0.0.1 x",
            "not an IP address with a port",
            "10.0.0.1",
        ),
        // A quote ends a field, whatever follows it.
        (
            r#"$msec "$http_user_agent" $remote_addr"#,
            r#"1760104536 "a" 9.9.9.9 "b" 10.0.0.1"#,
            "not an IP address",
            r#"9.9.9.9 "b" 10.0.0.1"#,
        ),
    ];
    for (format, line, reason, at) in cases {
        assert_eq!(refused(&told(format), line), (reason, at.into()), "{line}");
    }
    // Syslog's head may stand before a line of any format.
    let mut parser = Parser::new(&told("$msec $remote_addr"), empty());
    assert!(parser.read(b"Oct 10 13:55:36 web1 app: 1760104536 10.0.0.1").is_ok());
}
