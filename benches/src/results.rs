//! Everything that a run found. What was not asked for is empty.

use crate::cpu::Cost;
use crate::growth::Series;
use crate::latency::Latency;
use crate::logs::Logs;
use crate::longest::Call;
use crate::machine::Machine;
use crate::memory::{KeyBytes, LeaseBytes};
use crate::others::Tax;
use crate::throughput::Throughput;

/// See the file's head.
pub struct Results {
    /// Where.
    pub machine: Machine,
    /// The server's version.
    pub server: String,
    /// How much.
    pub setup: Setup,
    /// CPU, of what the targets compare.
    pub main: Vec<Cost>,
    /// The same on other servers.
    pub servers: Vec<OnServer>,
    /// CPU of other applications' commands.
    pub others: Vec<Tax>,
    /// What holds the server longest.
    pub longest: Vec<Call>,
    /// CPU, of each algorithm.
    pub algorithms: Vec<Cost>,
    /// CPU, with an AOF.
    pub aof: Vec<Cost>,
    /// CPU, with a replica.
    pub replica: Vec<Cost>,
    /// Commands a second.
    pub throughput: Vec<Throughput>,
    /// Latency under a fixed load.
    pub latency: Vec<Latency>,
    /// Bytes a key.
    pub memory: Vec<KeyBytes>,
    /// One limiter with leases.
    pub leases: Vec<LeaseBytes>,
    /// One sliding limiter.
    pub logs: Option<Logs>,
    /// Against keys in a call.
    pub keys_in_a_call: Vec<Series>,
    /// Against keys in the database.
    pub keys_in_the_database: Vec<Series>,
    /// Against clients.
    pub clients: Vec<Series>,
}

/// CPU on another server.
pub struct OnServer {
    /// Its version.
    pub version: String,
    /// What the targets compare.
    pub costs: Vec<Cost>,
}

/// How much was measured.
pub struct Setup {
    /// Whether only to see that everything works.
    pub quick: bool,
    /// Rounds of the CPU tables.
    pub rounds: usize,
    /// Random keys.
    pub keys: u32,
    /// Rounds on other servers.
    pub server_rounds: usize,
    /// Commands in flight.
    pub pipeline: u32,
    /// Keys of the memory table.
    pub memory_keys: [u32; 2],
}
