//! A server of one's own for each test, and a client that shows replies and errors whole.
//!
//! A server lives in a directory of its own, listens on 127.0.0.1 only, and dies with its [`Server`], on
//! a panic too. A test that passed fails all the same when the log holds a panic or a crash report.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use redis::{PushInfo, ServerError, Value};
use tempfile::TempDir;

/// How long anything may take before the test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The words put before the server's command, such as those of a memory checker.
fn wrapper() -> Vec<String> {
    let words = env::var("RL_TEST_WRAPPER").unwrap_or_default();
    words.split_whitespace().map(str::to_owned).collect()
}

/// [`PATIENCE`], more of it where a wrapper slows the server down.
fn patience() -> Duration {
    if wrapper().is_empty() { PATIENCE } else { 10 * PATIENCE }
}

/// The algorithms of `RL.ACQUIRE`.
pub const ALGORITHMS: [&str; 5] = ["sliding", "bucket", "leaky", "fixed", "counter"];

/// A rule whose window does not end while a test runs.
pub fn long_rule(algorithm: &str, limit: u64) -> String {
    format!("WINDOW 10d LIMIT {limit} ALGO {algorithm}")
}

/// The most permits that a limiter of this rule can hold free.
pub fn capacity(algorithm: &str, limit: u64) -> i64 {
    if algorithm == "leaky" { limit.min(1) as i64 } else { limit as i64 }
}

/// Polls until `check` gives a value.
pub fn wait_for<T>(what: &str, check: impl FnMut() -> Option<T>) -> T {
    wait_up_to(patience(), what, check)
}

/// Polls until `check` gives a value, with a patience of its own.
pub fn wait_up_to<T>(limit: Duration, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(begun.elapsed() < limit, "gave up waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

pub fn program(variable: &str, default: &str) -> String {
    env::var(variable).unwrap_or_else(|_| default.into())
}

/// The module. It is built here unless `RL_TEST_MODULE` names one: a test target does not depend on a library that
/// it cannot link, so cargo would leave an old one in place, or none.
pub fn module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| env::var_os("RL_TEST_MODULE").map_or_else(build_module, PathBuf::from))
}

/// Builds the module with the profile of the tests, which are in `<target>/<profile>/deps`.
fn build_module() -> PathBuf {
    let test = env::current_exe().expect("the path of the test");
    let directory = test.ancestors().nth(2).expect("a directory of the profile");
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(program("CARGO", "cargo"))
        .args(["build", "--quiet", "--lib", "--package", "redis-rl", "--profile", profile])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .arg("--target-dir")
        .arg(directory.parent().expect("the target directory"))
        .status()
        .expect("cargo");
    assert!(status.success(), "the module does not build");
    directory.join("libredis_rl.so")
}

// ---------------------------------------------------------------------------------------- servers

/// What a server is started with.
#[derive(Clone)]
pub struct Builder {
    lines: Vec<String>,
    module_args: Option<String>,
    cluster: bool,
    sentinel: bool,
    environment: Vec<(String, String)>,
}

impl Builder {
    /// Adds a line of redis.conf.
    pub fn conf(mut self, line: impl Into<String>) -> Builder {
        self.lines.push(line.into());
        self
    }

    /// Sets a variable of the server's environment.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Builder {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Loads the module with these arguments.
    pub fn module_args(mut self, args: &str) -> Builder {
        self.module_args = Some(args.into());
        self
    }

    /// Leaves the module to the test.
    pub fn without_module(mut self) -> Builder {
        self.module_args = None;
        self
    }

    /// Makes the server a replica.
    pub fn replica_of(self, primary: &Server) -> Builder {
        let line = format!("replicaof 127.0.0.1 {}", primary.port);
        self.conf(line)
    }

    /// Makes the server a node of a cluster.
    pub fn cluster_node(mut self) -> Builder {
        self.cluster = true;
        self.conf("cluster-enabled yes").conf("cluster-node-timeout 2000")
    }

    /// Starts the server.
    pub fn start(self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err(log) => panic!("the server did not start:\n{log}"),
        }
    }

    /// Starts the server, or returns its log.
    pub fn try_start(self) -> Result<Server, String> {
        let mut attempts = 0;
        loop {
            let dir = tempfile::Builder::new().prefix("rl-test-").tempdir().expect("a directory");
            let bus_port = self.cluster.then(free_port);
            let mut server =
                Server { setup: self.clone(), dir, port: free_port(), bus_port, child: None };
            fs::write(server.file("redis.conf"), server.conf_file()).expect("redis.conf");
            match server.spawn() {
                Ok(()) => return Ok(server),
                // Another process was quicker to take the port.
                Err(log) if attempts < 5 && log.contains("ddress already in use") => attempts += 1,
                Err(log) => return Err(log),
            }
        }
    }
}

/// A running server.
pub struct Server {
    setup: Builder,
    dir: TempDir,
    port: u16,
    bus_port: Option<u16>,
    child: Option<Child>,
}

impl Server {
    /// A server with the module, without persistence.
    pub fn builder() -> Builder {
        Builder {
            lines: Vec::new(),
            module_args: Some(String::new()),
            cluster: false,
            sentinel: false,
            environment: Vec::new(),
        }
    }

    /// A Sentinel: the same binary in another role, without data and without the module.
    pub fn sentinel() -> Builder {
        Builder { module_args: None, sentinel: true, ..Server::builder() }
    }

    /// Starts one as it comes.
    pub fn start() -> Server {
        Server::builder().start()
    }

    /// A file in the server's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port for the other nodes of a cluster.
    pub fn bus_port(&self) -> u16 {
        self.bus_port.expect("a node of a cluster")
    }

    fn conf_file(&self) -> String {
        let dir = self.dir.path().display();
        let mut lines = vec![
            format!("port {}", self.port),
            "bind 127.0.0.1".into(),
            "daemonize no".into(),
            format!("dir \"{dir}\""),
            format!("logfile \"{dir}/server.log\""),
        ];
        if !self.setup.sentinel {
            lines.extend([
                "save \"\"".into(),
                "enable-debug-command yes".into(),
                "enable-module-command yes".into(),
                "repl-diskless-sync-delay 0".into(),
            ]);
        }
        lines.extend(self.bus_port.map(|port| format!("cluster-port {port}")));
        if let Some(args) = &self.setup.module_args {
            lines.push(format!("loadmodule \"{}\" {args}", module_path().display()));
        }
        lines.extend(self.setup.lines.iter().cloned());
        lines.push(String::new());
        lines.join("\n")
    }

    /// Starts the process and waits until it answers; else its log.
    fn spawn(&mut self) -> Result<(), String> {
        let output = fs::File::create(self.file("output.log")).expect("a file for the output");
        let mut words = wrapper();
        words.push(program("RL_TEST_SERVER", "redis-server"));
        let child = Command::new(&words[0])
            .args(&words[1..])
            .arg(self.file("redis.conf"))
            .envs(self.setup.environment.iter().cloned())
            .args(self.setup.sentinel.then_some("--sentinel"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .expect("the server's binary");
        let pid = child.id();
        self.child = Some(child);
        let begun = Instant::now();
        loop {
            let exited = self.child.as_mut().expect("just started").try_wait().expect("its state");
            if exited.is_some() {
                self.child = None;
                return Err(self.log());
            }
            if let Ok(mut client) = Client::connect(&self.url("")) {
                // The port could be another server's.
                let answers = client.call("PING").is_ok();
                if answers && client.info("server", "process_id") == pid.to_string() {
                    return Ok(());
                }
            }
            assert!(begun.elapsed() < patience(), "the server is not ready:\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_for_exit(&mut self) {
        if let Some(mut child) = self.child.take() {
            let exited = || child.try_wait().expect("the state of the server");
            wait_for("the server's exit", exited);
        }
    }

    /// Kills the server where it stands.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a running server");
            child.wait().expect("its exit");
        }
    }

    fn respawn(&mut self) {
        self.spawn().unwrap_or_else(|log| panic!("the server did not start again:\n{log}"));
    }

    /// Shuts the server down in order, saving, and starts it again.
    pub fn restart(&mut self) {
        // The connection ends without a reply.
        let _ = self.client().call("SHUTDOWN SAVE");
        self.wait_for_exit();
        self.respawn();
    }

    /// Kills the server, does something to its files, and starts it again.
    pub fn crash_and(&mut self, meanwhile: impl FnOnce(&Server)) {
        self.kill();
        meanwhile(self);
        self.respawn();
    }

    /// Starts a server that was killed, or returns its log.
    pub fn try_respawn(&mut self) -> Result<(), String> {
        self.spawn()
    }

    /// Kills the server and starts it again.
    pub fn crash(&mut self) {
        self.crash_and(|_| {});
    }

    fn url(&self, query: &str) -> String {
        format!("redis://127.0.0.1:{}/{query}", self.port)
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(&self.url("")).expect("a connection")
    }

    /// A new connection that speaks RESP3.
    pub fn client_resp3(&self) -> Client {
        Client::connect(&self.url("?protocol=resp3")).expect("a connection")
    }

    /// The log, and what the server printed.
    pub fn log(&self) -> String {
        let read = |name| fs::read(self.file(name)).unwrap_or_default();
        let bytes = [read("server.log"), read("output.log")].concat();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs the command line client against the server.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = Command::new(program("RL_TEST_CLI", "redis-cli"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(args)
            .output()
            .expect("the command line client");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !wrapper().is_empty() && self.child.is_some() && !thread::panicking() {
            // A memory checker reports when the server ends in order.
            if let Ok(mut client) = Client::connect(&self.url("")) {
                let _ = client.call("SHUTDOWN NOSAVE NOW");
            }
            self.wait_for_exit();
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let log = self.log();
        if thread::panicking() {
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("--- the end of the log of the server at port {}:\n{tail}", self.port);
            return;
        }
        const WORDS: [&str; 5] =
            ["panicked", "internal error", "BUG REPORT", "crashed by signal", "ASSERTION FAILED"];
        if let Some(line) = log.lines().find(|line| WORDS.iter().any(|word| line.contains(word))) {
            panic!("the server's log says: {line}");
        }
    }
}

// ---------------------------------------------------------------------------------------- clients

/// The arguments of a command.
#[derive(Clone)]
pub struct Words(Vec<Vec<u8>>);

impl Words {
    /// Adds one argument of any bytes.
    pub fn arg(mut self, bytes: impl AsRef<[u8]>) -> Words {
        self.0.push(bytes.as_ref().to_vec());
        self
    }

    /// Adds the words of a line.
    pub fn then(mut self, line: &str) -> Words {
        self.0.extend(words(line).0);
        self
    }

    /// How many arguments there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the arguments of another command.
    pub fn append(mut self, other: Words) -> Words {
        self.0.extend(other.0);
        self
    }

    /// Puts the words of a line in front.
    pub fn behind(mut self, line: &str) -> Words {
        self.0.splice(0..0, words(line).0);
        self
    }

    /// For messages.
    pub fn lossy(&self) -> Vec<String> {
        self.0.iter().map(|word| word.escape_ascii().to_string()).collect()
    }

    fn packed(&self) -> Vec<u8> {
        redis::pack_command(&self.0)
    }
}

/// The words of a line, none of them with a space inside.
pub fn words(line: &str) -> Words {
    Words(line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect())
}

/// Arguments of any bytes.
pub fn args<A: AsRef<[u8]>>(args: impl IntoIterator<Item = A>) -> Words {
    Words(args.into_iter().map(|arg| arg.as_ref().to_vec()).collect())
}

impl From<&str> for Words {
    fn from(line: &str) -> Words {
        words(line)
    }
}

impl From<String> for Words {
    fn from(line: String) -> Words {
        words(&line)
    }
}

/// The whole line of an error, which the client library splits after its first word.
pub fn line_of(error: &ServerError) -> String {
    match error.details() {
        Some(detail) => format!("{} {detail}", error.code()),
        None => error.code().into(),
    }
}

/// The six integers of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How many acquisitions were granted.
    pub granted: i64,
    /// The capacity of the binding key.
    pub limit: i64,
    /// Permits left on it.
    pub remaining: i64,
    /// When to try again, in ms.
    pub retry_after: i64,
    /// When it is as good as new, in ms.
    pub reset_after: i64,
    /// Its index.
    pub key: i64,
}

impl Reply {
    /// Reads a reply; `None` when it is no array of six integers.
    pub fn read(value: &Value) -> Option<Reply> {
        let Value::Array(fields) = value else { return None };
        let integer = |field: &Value| match field {
            Value::Int(integer) => Some(*integer),
            _ => None,
        };
        let fields: Vec<i64> = fields.iter().map(integer).collect::<Option<_>>()?;
        let [granted, limit, remaining, retry_after, reset_after, key] = fields[..] else {
            return None;
        };
        Some(Reply { granted, limit, remaining, retry_after, reset_after, key })
    }

    /// Reads what must be a reply.
    pub fn of(value: &Value) -> Reply {
        Reply::read(value).unwrap_or_else(|| panic!("no six integers: {value:?}"))
    }

    /// Whether it is a grant.
    pub fn is_grant(&self) -> bool {
        self.granted > 0
    }
}

/// A connection.
pub struct Client {
    connection: redis::Connection,
    pushes: Receiver<PushInfo>,
}

impl Client {
    fn connect(url: &str) -> redis::RedisResult<Client> {
        let mut connection = redis::Client::open(url)?.get_connection_with_timeout(patience())?;
        connection.set_read_timeout(Some(patience()))?;
        let (sender, pushes) = channel();
        connection.set_push_sender(sender);
        Ok(Client { connection, pushes })
    }

    /// A connection to whatever listens at a port.
    pub fn at(port: u16) -> Result<Client, String> {
        Client::connect(&format!("redis://127.0.0.1:{port}/")).map_err(|error| error.to_string())
    }

    /// Sends commands to a server that may be gone.
    pub fn try_send(&mut self, commands: &[Words]) -> Result<(), String> {
        let packed: Vec<u8> = commands.iter().flat_map(Words::packed).collect();
        let sent = self.connection.send_packed_command(&packed);
        sent.map_err(|error| format!("not sent: {error}"))
    }

    /// Sends commands without waiting for the replies.
    pub fn send<W: Into<Words>>(&mut self, commands: impl IntoIterator<Item = W>) {
        let packed: Vec<u8> =
            commands.into_iter().flat_map(|words| words.into().packed()).collect();
        self.connection.send_packed_command(&packed).expect("a server that reads");
    }

    /// The next reply: a value, or an error's line.
    pub fn receive(&mut self) -> Result<Value, String> {
        loop {
            match self.connection.recv_response() {
                Ok(Value::Push { .. }) => {}
                Ok(Value::ServerError(error)) => return Err(line_of(&error)),
                Ok(value) => return Ok(value),
                Err(error) => return Err(format!("no reply: {error}")),
            }
        }
    }

    /// Runs a command: its reply, or the error's line.
    pub fn call(&mut self, command: impl Into<Words>) -> Result<Value, String> {
        let packed = command.into().packed();
        match self.connection.send_packed_command(&packed) {
            Ok(()) => self.receive(),
            Err(error) => Err(format!("not sent: {error}")),
        }
    }

    /// Runs commands in one go, and returns the replies.
    pub fn pipeline<W: Into<Words>>(
        &mut self,
        commands: impl IntoIterator<Item = W>,
    ) -> Vec<Result<Value, String>> {
        let commands: Vec<Words> = commands.into_iter().map(Into::into).collect();
        let count = commands.len();
        self.send(commands);
        (0..count).map(|_| self.receive()).collect()
    }

    /// Runs a command that succeeds.
    pub fn run(&mut self, command: impl Into<Words>) -> Value {
        self.call(command).unwrap_or_else(|error| panic!("unexpected error: {error}"))
    }

    /// Runs a command that answers an error.
    pub fn error(&mut self, command: impl Into<Words>) -> String {
        match self.call(command) {
            Ok(value) => panic!("expected an error, got {value:?}"),
            Err(line) => line,
        }
    }

    /// Runs a command that answers an integer.
    pub fn int(&mut self, command: impl Into<Words>) -> i64 {
        match self.run(command) {
            Value::Int(integer) => integer,
            value => panic!("expected an integer, got {value:?}"),
        }
    }

    /// Runs a command that answers bytes.
    pub fn bytes(&mut self, command: impl Into<Words>) -> Vec<u8> {
        let value = self.run(command);
        bytes_of(&value).unwrap_or_else(|| panic!("expected a string, got {value:?}"))
    }

    /// Runs a command that answers a text.
    pub fn text(&mut self, command: impl Into<Words>) -> String {
        String::from_utf8(self.bytes(command)).expect("UTF-8")
    }

    /// Runs a command that answers a list of texts.
    pub fn texts(&mut self, command: impl Into<Words>) -> Vec<String> {
        let value = self.run(command);
        redis::from_redis_value(value).expect("a list of texts")
    }

    /// `RL.ACQUIRE` that answers.
    pub fn acquire(&mut self, keys: &str, rule: &str) -> Reply {
        Reply::of(&self.run(acquire(keys, rule)))
    }

    /// Takes permits one by one; all must be granted.
    pub fn take(&mut self, count: i64, keys: &str, rule: &str) {
        for i in 0..count {
            let reply = self.acquire(keys, rule);
            assert!(reply.is_grant(), "grant {i} of {count} on {keys} with {rule}: {reply:?}");
        }
    }

    /// Takes permits until none is left, and returns how many there were.
    pub fn drain(&mut self, key: &str, rule: &str) -> i64 {
        (0..).find(|_| !self.acquire(key, rule).is_grant()).expect("a denial at last")
    }

    /// A field of `INFO`; empty when there is none.
    pub fn info(&mut self, section: &str, field: &str) -> String {
        let text = match self.run(format!("INFO {section}")) {
            Value::VerbatimString { text, .. } => text,
            value => String::from_utf8(bytes_of(&value).expect("a text")).expect("UTF-8"),
        };
        let value =
            |line: &str| Some(line.split_once(':').filter(|(k, _)| *k == field)?.1.to_owned());
        text.lines().find_map(value).unwrap_or_default()
    }

    /// A number among the fields of `INFO`.
    pub fn info_number(&mut self, section: &str, field: &str) -> i64 {
        let value = self.info(section, field);
        value.parse().unwrap_or_else(|_| panic!("{field} is {value:?}"))
    }

    /// A parameter of the configuration.
    pub fn config(&mut self, name: &str) -> String {
        let pair = self.texts(format!("CONFIG GET {name}"));
        pair.get(1).unwrap_or_else(|| panic!("no parameter {name}")).clone()
    }

    /// All that is stored under a key: value, digest and time of expiry.
    pub fn stored(&mut self, key: &str) -> Stored {
        Stored {
            dump: bytes_of(&self.run(format!("DUMP {key}"))),
            digest: self.texts(format!("DEBUG DIGEST-VALUE {key}")),
            expires_at: self.int(format!("PEXPIRETIME {key}")),
        }
    }

    /// All keys, sorted.
    pub fn keys(&mut self) -> Vec<String> {
        let mut keys = self.texts("KEYS *");
        keys.sort();
        keys
    }

    /// The server's clock in ms.
    pub fn time_ms(&mut self) -> i64 {
        let parts: Vec<i64> =
            self.texts("TIME").iter().map(|part| part.parse().expect("a number")).collect();
        parts[0] * 1000 + parts[1] / 1000
    }

    /// The push messages so far. Those sent before the reply to this command's `PING` are among them.
    pub fn pushes(&mut self) -> Vec<PushInfo> {
        self.run("PING");
        self.pushes.try_iter().collect()
    }
}

/// See [`Client::stored`].
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// `DUMP`, `None` for no such key.
    pub dump: Option<Vec<u8>>,
    /// `DEBUG DIGEST-VALUE`.
    pub digest: Vec<String>,
    /// `PEXPIRETIME`.
    pub expires_at: i64,
}

/// `RL.ACQUIRE` as a command.
pub fn acquire(keys: &str, rule: &str) -> Words {
    words("RL.ACQUIRE").then(keys).then(rule)
}

/// The bytes of a string reply of any kind.
pub fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        Value::SimpleString(text) => Some(text.clone().into_bytes()),
        Value::VerbatimString { text, .. } => Some(text.clone().into_bytes()),
        Value::Okay => Some(b"OK".to_vec()),
        _ => None,
    }
}

/// Waits until a replica has applied all that its primary sent.
pub fn wait_for_replica(primary: &Server, replica: &Server) {
    let (mut ahead, mut behind) = (primary.client(), replica.client());
    wait_for("the replica", || {
        let up = behind.info("replication", "master_link_status") == "up";
        let sent = ahead.info_number("replication", "master_repl_offset");
        (up && behind.info_number("replication", "slave_repl_offset") == sent).then_some(())
    });
}

/// Waits until no child of the server saves or rewrites any more, and the last one succeeded.
pub fn wait_for_children(client: &mut Client) {
    wait_for("the saving child", || {
        let field = |client: &mut Client, name| client.info("persistence", name);
        let idle = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .all(|name| field(client, name) == "0");
        idle.then_some(())
    });
    assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "ok");
    assert_eq!(client.info("persistence", "aof_last_bgrewrite_status"), "ok");
}

/// A small generator of random numbers (SplitMix64), the same on each run.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Random bytes, up to so many.
    pub fn bytes(&mut self, up_to: usize) -> Vec<u8> {
        (0..self.below(up_to + 1)).map(|_| self.next() as u8).collect()
    }
}
