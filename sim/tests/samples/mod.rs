//! Lines as servers write them, and the requests that they tell.
#![allow(dead_code, reason = "each test uses a part of it")]

use rl_sim::formats::{Format, Told};

/// What a sample is read with.
pub enum By {
    /// Its format, which is also found out.
    Format(Format),
    /// A format line.
    Line(&'static str),
    /// Keys of JSON.
    Keys(&'static str),
}

pub struct Sample {
    pub by: By,
    pub line: &'static str,
    pub time_ms: i64,
    pub ip: &'static str,
    pub user: Option<&'static str>,
    pub path: Option<&'static str>,
}

const fn sample(
    by: By,
    line: &'static str,
    time_ms: i64,
    ip: &'static str,
    user: Option<&'static str>,
    path: &'static str,
) -> Sample {
    Sample { by, line, time_ms, ip, user, path: Some(path) }
}

impl Sample {
    pub fn told(&self) -> Told {
        let mut told = Told::default();
        match self.by {
            By::Format(format) => told.format = Some(format),
            By::Line(line) => told.line = Some(line.parse().expect(line)),
            By::Keys(keys) => told.keys = Some(keys.parse().expect(keys)),
        }
        told
    }
}

/// 10 October 2025, 13:55:36 UTC.
const OCTOBER: i64 = 1_760_104_536_000;

pub const SAMPLES: [Sample; 36] = [
    // Apache: common, combined.
    sample(
        By::Format(Format::Combined),
        r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#,
        971_211_336_000,
        "127.0.0.1",
        Some("frank"),
        "/apache_pb.gif",
    ),
    sample(
        By::Format(Format::Combined),
        r#"127.0.0.1 ident Jo Doe [10/Oct/2000:13:55:36 -0700] "GET /a\"b?c HTTP/1.0" 200 2326 "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#,
        971_211_336_000,
        "127.0.0.1",
        Some("Jo Doe"),
        r#"/a\"b"#,
    ),
    // nginx: combined, its main format, a garbled request, a fraction of a second.
    sample(
        By::Format(Format::Combined),
        r#"203.0.113.9 - - [10/Oct/2025:13:55:36 +0000] "POST /api/items?page=2 HTTP/1.1" 201 512 "-" "curl/8.5.0""#,
        OCTOBER,
        "203.0.113.9",
        None,
        "/api/items",
    ),
    sample(
        By::Format(Format::Combined),
        r#"2001:db8:1:2::17 - alice [10/Oct/2025:13:55:36.250 +0000] "GET https://www.example.com/login HTTP/2.0" 499 0 "-" "curl/8.5.0" "198.51.100.7""#,
        OCTOBER + 250,
        "2001:db8:1:2::17",
        Some("alice"),
        "/login",
    ),
    sample(
        By::Format(Format::Combined),
        r#"203.0.113.9 - - [10/Oct/2025:15:55:36 +0200] "\x16\x03\x01\\" 400 157 "-" "-""#,
        OCTOBER,
        "203.0.113.9",
        None,
        r"\x16\x03\x01\\",
    ),
    // Traefik: its common log format.
    sample(
        By::Format(Format::Combined),
        r#"10.0.0.7 - bob [10/Oct/2025:13:55:36 +0000] "GET /whoami HTTP/1.1" 200 370 "-" "-" 42 "whoami@docker" "http://172.18.0.3:80" 2ms"#,
        OCTOBER,
        "10.0.0.7",
        Some("bob"),
        "/whoami",
    ),
    // Apache: vhost_combined, and the same with the name alone.
    sample(
        By::Format(Format::VhostCombined),
        r#"www.example.com:443 203.0.113.9 - alice [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 3186 "-" "Mozilla/5.0""#,
        OCTOBER,
        "203.0.113.9",
        Some("alice"),
        "/",
    ),
    sample(
        By::Format(Format::VhostCombined),
        r#"example.com 2001:db8::1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 3186"#,
        OCTOBER,
        "2001:db8::1",
        None,
        "/",
    ),
    // HAProxy, from its file and through syslog.
    sample(
        By::Format(Format::Haproxy),
        r#"10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1""#,
        1_233_922_454_655,
        "10.0.1.2",
        None,
        "/index.html",
    ),
    sample(
        By::Format(Format::Haproxy),
        r#"<134>Feb  6 12:14:14 localhost haproxy[14389]: 2001:db8::9:33317 [06/Feb/2009:12:14:14.655] https-in~ static/<NOSRV> -1/-1/-1/-1/109 -1 0 - - CR-- 1/1/1/1/0 0/0 "GET /a?b HTTP/1.1""#,
        1_233_922_454_655,
        "2001:db8::9",
        None,
        "/a",
    ),
    // Envoy, and as Istio sets it up.
    sample(
        By::Format(Format::Envoy),
        r#"[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80""#,
        1_460_751_420_310,
        "10.0.35.28",
        None,
        "/api/v1/locations",
    ),
    sample(
        By::Format(Format::Istio),
        r#"[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "-" "curl/7.73.0-DEV" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default"#,
        1_606_339_578_409,
        "10.44.1.23",
        None,
        "/status/418",
    ),
    // Caddy, newer and older.
    sample(
        By::Format(Format::Json),
        r#"{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"203.0.113.9","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a\u0062?c","headers":{"User-Agent":["curl/7.82.0"],"X-Forwarded-For":["203.0.113.9, 198.51.100.2"]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}"#,
        1_646_861_401_524,
        "203.0.113.9",
        None,
        "/ab",
    ),
    sample(
        By::Format(Format::Json),
        r#"{"level":"info","ts":"2025-10-10T13:55:36.250Z","logger":"http.log.access","request":{"remote_addr":"[2001:db8::1]:41342","method":"GET","uri":"/"},"user_id":"alice","status":200}"#,
        OCTOBER + 250,
        "2001:db8::1",
        Some("alice"),
        "/",
    ),
    // Traefik: JSON, whose ClientHost is what X-Forwarded-For said.
    sample(
        By::Format(Format::Json),
        r#"{"ClientAddr":"10.255.0.2:12674","ClientHost":"192.0.2.41","ClientPort":"12674","ClientUsername":"-","DownstreamContentSize":28247,"DownstreamStatus":200,"Duration":18884549,"RequestLine":"GET /a HTTP/1.1","RequestPath":"/a","StartLocal":"2025-10-10T15:55:36.776374841+02:00","StartUTC":"2025-10-10T13:55:36.776374841Z","level":"info","msg":"","time":"2025-10-10T13:55:37Z"}"#,
        OCTOBER + 776,
        "192.0.2.41",
        None,
        "/a",
    ),
    // Envoy: JSON.
    sample(
        By::Format(Format::Json),
        r#"{"start_time":"2025-10-10T13:55:36.409Z","method":"GET","path":"/status?x","protocol":"HTTP/1.1","response_code":"200","downstream_remote_address":"10.44.1.23:37652","x_forwarded_for":"-","upstream_host":"127.0.0.1:80"}"#,
        OCTOBER + 409,
        "10.44.1.23",
        None,
        "/status",
    ),
    // nginx with a format of JSON, applications, a cloud's balancer.
    sample(
        By::Format(Format::Json),
        r#"{"@timestamp":"2025-10-10T13:55:36+00:00","remote_addr":"203.0.113.9","remote_user":"","request":"GET /a?b HTTP/1.1","status": "200"}"#,
        OCTOBER,
        "203.0.113.9",
        None,
        "/a",
    ),
    sample(
        By::Format(Format::Json),
        r#"{"time": 1760104536123456, "client_ip": "203.0.113.9", "user": {"id": 42}, "url": "https://example.com/a/b?c"}"#,
        OCTOBER + 123,
        "203.0.113.9",
        Some("42"),
        "/a/b",
    ),
    sample(
        By::Format(Format::Json),
        r#"{"httpRequest":{"remoteIp":"2001:db8::7","requestMethod":"GET","requestUrl":"https://example.com/x"},"timestamp":"2025-10-10T13:55:36.123456Z"}"#,
        OCTOBER + 123,
        "2001:db8::7",
        None,
        "/x",
    ),
    sample(
        By::Keys("time=when,ip=peer.address,user=who,request=line"),
        r#"{"when":"10/Oct/2025:13:55:36 +0000","peer":{"address":"203.0.113.9:4711"},"who":"alice","line":"GET /a HTTP/1.1","ip":"198.51.100.1"}"#,
        OCTOBER,
        "203.0.113.9",
        Some("alice"),
        "/a",
    ),
    // Behind syslog daemons and container runtimes.
    sample(
        By::Format(Format::Combined),
        r#"Oct 10 13:55:36 web1 nginx: 203.0.113.9 - alice [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 12 "-" "curl/8.5.0""#,
        OCTOBER,
        "203.0.113.9",
        Some("alice"),
        "/",
    ),
    sample(
        By::Format(Format::Combined),
        r#"2025-10-10T13:55:36.123456+00:00 web1 httpd[4711]: 203.0.113.9 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 12"#,
        OCTOBER,
        "203.0.113.9",
        None,
        "/",
    ),
    sample(
        By::Format(Format::VhostCombined),
        r#"<190>1 2025-10-10T13:55:36.123Z web1 httpd 4711 - - www.example.com:80 203.0.113.9 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 12"#,
        OCTOBER,
        "203.0.113.9",
        None,
        "/",
    ),
    sample(
        By::Format(Format::Json),
        r#"2025-10-10T13:55:36.123456789Z stdout F {"ts":1760104536.5,"client_ip":"203.0.113.9","path":"/"}"#,
        OCTOBER + 500,
        "203.0.113.9",
        None,
        "/",
    ),
    // By format lines: of nginx, of Apache, and of others in their words.
    sample(
        By::Line(
            r#"'$remote_addr - $remote_user [$time_local] ' '"$request" $status $msec "$http_x_forwarded_for"'"#,
        ),
        r#"203.0.113.9 - alice [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" 200 1760104536.789 "198.51.100.1, 198.51.100.2""#,
        OCTOBER + 789,
        "203.0.113.9",
        Some("alice"),
        "/a",
    ),
    sample(
        By::Line(r#"$http_x_forwarded_for $host [${time_iso8601}] $uri$is_args$args $status"#),
        "203.0.113.9 www.example.com [2025-10-10T13:55:36+00:00] /a/b?c=d 200",
        OCTOBER,
        "203.0.113.9",
        None,
        "/a/b",
    ),
    sample(
        By::Line(
            r#"{"time":"$msec","client":"$remote_addr","user":"$remote_user","request":"$request_uri","agent":"$http_user_agent"}"#,
        ),
        r#"{"time":"1760104536.789","client":"203.0.113.9","user":"","request":"/a?b","agent":"a \"b\" c"}"#,
        OCTOBER + 789,
        "203.0.113.9",
        None,
        "/a",
    ),
    sample(
        By::Line(r#""%V %h %l %u %t \"%r\" %>s %b %D""#),
        r#"www.example.com 203.0.113.9 - Jo Doe [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" 200 - 1042"#,
        OCTOBER,
        "203.0.113.9",
        Some("Jo Doe"),
        "/a",
    ),
    sample(
        By::Line("%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t %a %{remote}p %m %U%q %!200,304s"),
        "10/Oct/2025 15:55:36.789 +0200 2001:db8::1 4711 GET /a?b 200",
        OCTOBER + 789,
        "2001:db8::1",
        None,
        "/a",
    ),
    sample(
        By::Line("%{usec}t %{X-Forwarded-For}i %U"),
        "1760104536789123 203.0.113.9 /a",
        OCTOBER + 789,
        "203.0.113.9",
        None,
        "/a",
    ),
    sample(
        By::Line(
            r#"$type $time_iso8601 $elb $remote_addr:$remote_port $target $t1 $t2 $t3 $status $target_status $received $sent "$request" "$agent" $rest"#,
        ),
        r#"h2 2018-07-02T22:23:00.186641Z app/my-balancer/50dc6c495c0c9188 2001:db8::2:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://www.example.com:80/a HTTP/1.1" "curl/7.46.0" - -"#,
        1_530_570_180_186,
        "2001:db8::2",
        None,
        "/a",
    ),
    sample(
        By::Line("$time_iso8601 $remote_addr $request_uri"),
        "2025-10-10T13:55:36.250Z ::ffff:203.0.113.9 /a",
        OCTOBER + 250,
        "::ffff:203.0.113.9",
        None,
        "/a",
    ),
    sample(
        By::Line("%{sec}t\t%a\t%U"),
        "1760104536\tfe80::1%eth0\t/a",
        OCTOBER,
        "fe80::1",
        None,
        "/a",
    ),
    sample(
        By::Line("[%{%Y-%m-%dT%H:%M:%S%z}t] %a %U"),
        "[2025-10-10T13:55:36+0000] 203.0.113.9 /",
        OCTOBER,
        "203.0.113.9",
        None,
        "/",
    ),
    sample(
        By::Line("$time_local $remote_addr $request_uri $x"),
        "10/Oct/2025:13:55:36 +0000 203.0.113.9 / -",
        OCTOBER,
        "203.0.113.9",
        None,
        "/",
    ),
    Sample {
        by: By::Line("$remote_addr $msec $anything"),
        line: "203.0.113.9 1760104536.001 else",
        time_ms: OCTOBER + 1,
        ip: "203.0.113.9",
        user: None,
        path: None,
    },
];
