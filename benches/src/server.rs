//! The server under test, pinned to the first core.

use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A redis-server with both modules, stopped on drop.
pub struct Server {
    child: Child,
    connection: redis::Connection,
    port: u16,
    _dir: TempDir,
}

impl Server {
    /// Starts a server without persistence on a free port.
    pub fn start(modules: &Path) -> Result<Server, Box<dyn Error>> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let dir = tempfile::tempdir()?;
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "redis-server", "--bind", "127.0.0.1", "--save", ""]);
        command.arg("--port").arg(port.to_string()).arg("--dir").arg(dir.path());
        for library in ["libredis_rl.so", "libredis_cell.so"] {
            command.arg("--loadmodule").arg(modules.join(library).canonicalize()?);
        }
        let child = command.stdout(Stdio::null()).spawn()?;
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
        let deadline = Instant::now() + Duration::from_secs(10);
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        Ok(Server { child, connection, port, _dir: dir })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// CPU time that the main thread has spent, in µs.
    pub fn cpu_micros(&mut self) -> Result<f64, Box<dyn Error>> {
        let info: redis::InfoDict = redis::cmd("INFO").arg("cpu").query(&mut self.connection)?;
        let seconds = |field: &str| info.get::<f64>(field).ok_or(format!("no {field} in INFO"));
        let user = seconds("used_cpu_user_main_thread")?;
        Ok((user + seconds("used_cpu_sys_main_thread")?) * 1e6)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
