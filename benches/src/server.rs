//! A server under test, pinned to a core of its own.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::machine::{CLIENT_CORE, SERVER_CORE};

/// The module of this project.
pub const OURS: &str = "libredis_rl.so";
/// The peer's.
pub const CELL: &str = "libredis_cell.so";
/// How long a server may take to load what it is sent, to settle.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far an AOF may grow before it is rewritten, between two measurements.
const LARGE_AOF: u64 = 1 << 30;

/// What a server runs with.
#[derive(Clone)]
pub struct Setup {
    /// The folder with the modules.
    pub modules: PathBuf,
    /// The files of those that are loaded.
    pub libraries: &'static [&'static str],
    /// The server, if it is not the installed one.
    pub binary: Option<PathBuf>,
}

impl Setup {
    /// The installed server with both modules.
    pub fn new(modules: &Path) -> Setup {
        Setup { modules: modules.into(), libraries: &[OURS, CELL], binary: None }
    }
}

/// Where else the writes of a measurement go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// Nowhere.
    None,
    /// To an AOF.
    Aof,
    /// To a replica.
    Replica,
}

/// A server under test, stopped on drop.
pub struct Server {
    server: testkit::Server,
    /// For questions, and for what the load is not measured on.
    pub connection: redis::Connection,
    setup: Setup,
}

impl Server {
    /// Starts a server without persistence on a free port, on the server's core.
    pub fn start(setup: &Setup) -> Result<Server, Box<dyn Error>> {
        Server::start_on(SERVER_CORE, setup)
    }

    /// A second server that replicates this one, on the client's core.
    pub fn start_replica(&mut self) -> Result<Server, Box<dyn Error>> {
        let mut replica = Server::start_on(CLIENT_CORE, &self.setup)?;
        self.config("client-output-buffer-limit", "replica 0 0 0")?;
        let mut replicate = redis::cmd("REPLICAOF");
        replicate.arg("127.0.0.1").arg(self.port()).exec(&mut replica.connection)?;
        self.wait_for_replica()?;
        Ok(replica)
    }

    fn start_on(core: &str, setup: &Setup) -> Result<Server, Box<dyn Error>> {
        let mut builder =
            testkit::Server::builder().without_module().behind(["taskset", "-c", core]);
        for library in setup.libraries {
            builder = builder.library(&module(&setup.modules, library)?);
        }
        if let Some(binary) = &setup.binary {
            builder = builder.binary(binary);
        }
        let server = builder.try_start()?;
        let connection = server.connection();
        Ok(Server { server, connection, setup: setup.clone() })
    }

    /// A client that shows replies whole.
    pub fn client(&self) -> testkit::Client {
        self.server.client()
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// CPU time that the main thread has spent, in µs.
    pub fn cpu_micros(&mut self) -> Result<f64, Box<dyn Error>> {
        let info = self.info("cpu")?;
        let seconds = |field: &str| info.get::<f64>(field).ok_or(format!("no {field} in INFO"));
        let user = seconds("used_cpu_user_main_thread")?;
        Ok((user + seconds("used_cpu_sys_main_thread")?) * 1e6)
    }

    /// A field of INFO.
    pub fn field(&mut self, section: &str, field: &str) -> Result<String, Box<dyn Error>> {
        let value = self.info(section)?.get::<String>(field);
        value.ok_or_else(|| format!("no {field} in INFO {section}").into())
    }

    fn info(&mut self, section: &str) -> Result<redis::InfoDict, Box<dyn Error>> {
        Ok(redis::cmd("INFO").arg(section).query(&mut self.connection)?)
    }

    /// Sets an option of the configuration.
    pub fn config(&mut self, name: &str, value: &str) -> Result<(), Box<dyn Error>> {
        let mut set = redis::cmd("CONFIG");
        Ok(set.arg("SET").arg(name).arg(value).exec(&mut self.connection)?)
    }

    /// Turns the AOF on, and waits until it is written.
    pub fn start_aof(&mut self) -> Result<(), Box<dyn Error>> {
        self.config("appendfsync", "everysec")?;
        // A rewrite in the middle of a measurement would be charged to a command.
        self.config("auto-aof-rewrite-percentage", "0")?;
        self.config("appendonly", "yes")?;
        self.wait_for_rewrite()
    }

    fn wait_for_rewrite(&mut self) -> Result<(), Box<dyn Error>> {
        self.wait_until("the AOF is written", |server| {
            Ok(server.field("persistence", "aof_rewrite_in_progress")? == "0"
                && server.field("persistence", "aof_rewrite_scheduled")? == "0")
        })
    }

    /// Gets ready for a measurement.
    pub fn prepare(&mut self, copies: Copies) -> Result<(), Box<dyn Error>> {
        if copies == Copies::Aof
            && self.field("persistence", "aof_current_size")?.parse::<u64>()? > LARGE_AOF
        {
            // It only spares the disk: a run goes on without it.
            if let Err(error) = redis::cmd("BGREWRITEAOF").exec(&mut self.connection) {
                let log = self.server.log();
                let last = log.lines().rev().find(|line| !line.is_empty()).unwrap_or_default();
                eprintln!("the AOF was not rewritten: {error} The last line there: {last}");
            }
            self.wait_for_rewrite()?;
        }
        Ok(())
    }

    /// Waits for what the commands of a measurement have left to do: it belongs to them.
    pub fn settle(&mut self, copies: Copies) -> Result<(), Box<dyn Error>> {
        match copies {
            Copies::Replica => self.wait_for_replica(),
            Copies::None | Copies::Aof => Ok(()),
        }
    }

    /// Waits until the replica has everything.
    fn wait_for_replica(&mut self) -> Result<(), Box<dyn Error>> {
        self.wait_until("the replica has everything", |server| {
            // WAIT is about what its own connection wrote, and that came last.
            redis::cmd("SET").arg("last").arg("v").exec(&mut server.connection)?;
            let mut wait = redis::cmd("WAIT");
            Ok(wait.arg(1).arg(1000).query::<u32>(&mut server.connection)? > 0)
        })
    }

    /// Ends replication with the last replica, and waits until nothing is kept for it to come back.
    pub fn end_replication(&mut self) -> Result<(), Box<dyn Error>> {
        self.config("repl-backlog-ttl", "1")?;
        self.wait_until("the replication backlog is gone", |server| {
            Ok(server.field("replication", "repl_backlog_active")? == "0")
        })
    }

    /// Memory in use once it stands still: buffers of clients come and go.
    pub fn settled_memory(&mut self) -> Result<u64, Box<dyn Error>> {
        let mut last = 0;
        self.wait_until("memory stands still", |server| {
            std::thread::sleep(Duration::from_millis(150));
            let now = server.used_memory()?;
            let still = now.abs_diff(last) < 64;
            last = now;
            Ok(still)
        })?;
        Ok(last)
    }

    /// Gives the tables of so many keys the time to finish growing, which they do bit by bit.
    pub fn finish_growing(&mut self, keys: u64) -> Result<(), Box<dyn Error>> {
        self.config("hz", "500")?;
        std::thread::sleep(Duration::from_millis(200 + keys / 4000));
        self.config("hz", "10")
    }

    /// Memory in use, in bytes.
    pub fn used_memory(&mut self) -> Result<u64, Box<dyn Error>> {
        Ok(self.field("memory", "used_memory")?.parse()?)
    }

    /// How many keys there are.
    pub fn keys(&mut self) -> Result<u64, Box<dyn Error>> {
        Ok(redis::cmd("DBSIZE").query(&mut self.connection)?)
    }

    /// Removes every key.
    pub fn flush(&mut self) -> Result<(), Box<dyn Error>> {
        Ok(redis::cmd("FLUSHALL").arg("SYNC").exec(&mut self.connection)?)
    }

    /// What it is, and which version.
    pub fn version(&mut self) -> Result<String, Box<dyn Error>> {
        let info = self.info("server")?;
        let version = |field: &str| info.get::<String>(field);
        let valkey = version("valkey_version").map(|version| format!("Valkey {version}"));
        let redis = version("redis_version").map(|version| format!("Redis {version}"));
        valkey.or(redis).ok_or_else(|| "the server has no version".into())
    }

    /// Fails if any command was answered by an error. redis-benchmark does not say so.
    pub fn check_no_errors(&mut self) -> Result<(), Box<dyn Error>> {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut self.connection)?;
        let failed = |line: &&str| {
            // What the client library tells of itself is new to older servers.
            let none = line.contains("rejected_calls=0,") && line.contains("failed_calls=0");
            !none && !line.starts_with("cmdstat_client")
        };
        let failed = stats.lines().filter(|line| line.starts_with("cmdstat_")).find(failed);
        failed.map_or(Ok(()), |line| Err(format!("commands failed: {line}").into()))
    }

    fn wait_until(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut Server) -> Result<bool, Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let deadline = Instant::now() + PATIENCE;
        while !done(self)? {
            if Instant::now() > deadline {
                return Err(format!("waited too long until {what}").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

fn module(modules: &Path, library: &str) -> Result<PathBuf, String> {
    let path = modules.join(library);
    path.canonicalize().map_err(|_| {
        format!("there is no {}: build it with `make bench`, or see --modules", path.display())
    })
}
