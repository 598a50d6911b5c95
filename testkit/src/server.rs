//! A server: how it is started, stopped and killed.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::Client;
use crate::library::{module_path, program};
use crate::values::text;
use crate::waits::{patience, wait_for};

/// The words put before the server's command, such as those of a memory checker.
pub(crate) fn wrapper() -> Vec<String> {
    let words = env::var("RL_TEST_WRAPPER").unwrap_or_default();
    words.split_whitespace().map(str::to_owned).collect()
}

/// A port that was free a moment ago. It is below those that the system gives to outgoing connections, and no other server
/// of this process has had it: a server that is started again wants the same one.
fn free_port() -> u16 {
    static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let random = || RandomState::new().build_hasher().finish();
    let ports = (0..10_000).map(|_| 10_000 + (random() % 20_000) as u16);
    let mut free = ports.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.find(|port| taken.insert(*port)).expect("a free port")
}

/// What a server is started with.
#[derive(Clone)]
pub struct Builder {
    lines: Vec<String>,
    module_args: Option<String>,
    cluster: bool,
    sentinel: bool,
    environment: Vec<(String, String)>,
    command: Vec<String>,
    binary: Option<PathBuf>,
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

    /// Leaves the module to the caller.
    pub fn without_module(mut self) -> Builder {
        self.module_args = None;
        self
    }

    /// Loads this library as a module, beside the one of this project or, after [`Builder::without_module`], in its
    /// place.
    pub fn library(self, path: &Path) -> Builder {
        let line = format!("loadmodule \"{}\"", path.display());
        self.conf(line)
    }

    /// Puts words before the server's command, a program that becomes the server.
    pub fn behind<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> Builder {
        self.command.extend(words.into_iter().map(str::to_owned));
        self
    }

    /// Runs this server binary, whatever `RL_TEST_SERVER` names.
    pub fn binary(mut self, path: &Path) -> Builder {
        self.binary = Some(path.into());
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
            command: Vec::new(),
            binary: None,
        }
    }

    /// A Sentinel: the same binary in another role, without data and without the module.
    pub fn sentinel() -> Builder {
        Builder { module_args: None, sentinel: true, ..Server::builder() }
    }

    /// Starts one with the module and nothing else.
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
        let mut words = [self.setup.command.clone(), wrapper()].concat();
        words.push(match &self.setup.binary {
            Some(path) => path.display().to_string(),
            None => program("RL_TEST_SERVER", "redis-server"),
        });
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
            .map_err(|error| format!("cannot start {}: {error}", words[0]))?;
        let pid = child.id();
        self.child = Some(child);
        let begun = Instant::now();
        loop {
            let exited = self.child.as_mut().expect("just started").try_wait().expect("its state");
            if exited.is_some() {
                self.child = None;
                return Err(self.log());
            }
            if self.answers(pid) {
                return Ok(());
            }
            assert!(begun.elapsed() < patience(), "the server is not ready:\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the server has loaded its data and answers. The port could be another server's, which may be gone at any
    /// moment.
    fn answers(&self, pid: u32) -> bool {
        let Ok(mut client) = Client::connect(&self.url("")) else { return false };
        let info = client.call("PING").and_then(|_| client.call("INFO server"));
        info.is_ok_and(|info| text(&info).contains(&format!("process_id:{pid}\r")))
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

    /// Shuts the server down in order, `SAVE` or `NOSAVE`.
    pub fn shut_down(&mut self, how: &str) {
        // The connection ends without a reply.
        let _ = self.client().call(format!("SHUTDOWN {how}"));
        self.wait_for_exit();
    }

    /// Shuts the server down in order, saving, and starts it again.
    pub fn restart(&mut self) {
        self.shut_down("SAVE");
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

    /// A new connection of the client library itself.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url("")).expect("an address");
        client.get_connection_with_timeout(patience()).expect("a connection")
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
