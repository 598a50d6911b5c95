//! Clients that wait for a permit in the server.

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::machine::missing;
use crate::server::Server;

/// How many.
pub const WAITERS: u32 = 1000;
/// The only lease of a limiter: whoever else asks for it may hope for a release, and waits.
const LEASE: &str = "WINDOW 1d LIMIT 1 ALGO concurrency NAME waits";
/// How long all may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Clients of redis-benchmark that wait until this value goes.
pub struct Waiters(Child);

impl Waiters {
    /// What lets all of them in.
    pub const LET_IN: &str = "RL.POLICY SET waits WINDOW 1d LIMIT 1000000 ALGO concurrency";

    /// Lets them come.
    pub fn come(server: &mut Server) -> Result<Waiters, Box<dyn Error>> {
        take(server, "holder")?;
        let mut clients = Command::new("redis-benchmark");
        let count = WAITERS.to_string();
        clients.args([
            "-p",
            &server.port().to_string(),
            "-c",
            &count,
            "-n",
            &count,
            "-r",
            "1000000",
        ]);
        clients.args(["RL.ACQUIREX", "taken", &format!("{LEASE} ID __rand_int__ TIMEOUT 1h")]);
        clients.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let waiters = Waiters(clients.spawn().map_err(missing("redis-benchmark"))?);
        let begun = Instant::now();
        while server.field("rl", "rl_waiters")? != count {
            if begun.elapsed() > PATIENCE {
                return Err(
                    format!("{WAITERS} waiters did not come: may as many files be open?").into()
                );
            }
            sleep(Duration::from_millis(20));
        }
        Ok(waiters)
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One call that waits for a moment, and is denied.
pub fn wait_in_vain(server: &mut Server) -> redis::RedisResult<()> {
    take(server, "holder")?;
    take(server, "other TIMEOUT 20")
}

fn take(server: &mut Server, who: &str) -> redis::RedisResult<()> {
    let mut take = redis::cmd("RL.ACQUIREX");
    take.arg("taken").arg(format!("{LEASE} ID {who}")).exec(&mut server.connection)
}
