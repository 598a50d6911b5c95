//! Latency at a fixed offered load: an open loop over several connections.
//!
//! Requests are due at fixed times, whatever the answers do, and a request's latency counts from
//! when it was due. So a slow answer also shows in those that had to wait behind it.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use redis::ConnectionLike;

use crate::cases::{Case, RANDOM};
use crate::server::Server;
use crate::stats::quantile;

/// Connections that share the load.
pub const CONNECTIONS: u32 = 8;
/// Requests a second, over all connections.
pub const RATE: u32 = 20_000;

/// The latencies of a case.
pub struct Latency {
    /// The case.
    pub name: String,
    /// p50, p99 and p99.9 in µs.
    pub micros: [f64; 3],
}

/// Runs all cases in rounds of so long, and takes the percentiles over all rounds together.
pub fn measure(
    server: &mut Server,
    cases: &[Case],
    rounds: usize,
    round: Duration,
    keys: u32,
) -> Result<Vec<Latency>, Box<dyn Error>> {
    let mut latencies = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (case, latencies) in cases.iter().zip(&mut latencies) {
            latencies.extend(offer(server.port(), case, round, keys)?);
        }
    }
    let percentiles = cases.iter().zip(latencies).map(|(case, mut latencies)| Latency {
        name: case.name.clone(),
        micros: [0.5, 0.99, 0.999].map(|part| quantile(&mut latencies, part)),
    });
    Ok(percentiles.collect())
}

/// Offers the load for so long. Returns the latency of each request in µs.
fn offer(port: u16, case: &Case, round: Duration, keys: u32) -> Result<Vec<f64>, Box<dyn Error>> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let connection = client.get_connection()?;
        connection.set_read_timeout(Some(Duration::from_secs(10)))?;
        connections.push(connection);
    }
    let gap = Duration::from_secs(1) * CONNECTIONS / RATE;
    let requests = (round.as_nanos() / gap.as_nanos()) as u32;
    let start = Instant::now() + Duration::from_millis(20);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, mut connection) in (0..CONNECTIONS).zip(connections) {
            // The connections take turns.
            let first_due = start + gap * number / CONNECTIONS;
            threads.push(scope.spawn(move || {
                let mut latencies = Vec::with_capacity(requests as usize);
                for request in 0..requests {
                    let packed = pack(case, (request * CONNECTIONS + number) % keys);
                    let due = first_due + gap * request;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    connection.req_packed_command(&packed)?;
                    latencies.push(due.elapsed().as_secs_f64() * 1e6);
                }
                Ok::<_, redis::RedisError>(latencies)
            }));
        }
        let mut latencies = Vec::new();
        for thread in threads {
            latencies.extend(thread.join().map_err(|_| "a client panicked")??);
        }
        Ok(latencies)
    })
}

/// The command for a key, as it goes over the wire.
pub fn pack(case: &Case, key: u32) -> Vec<u8> {
    let number = format!("{key:012}");
    let mut command = redis::Cmd::new();
    for arg in &case.command {
        command.arg(arg.replace(RANDOM, &number));
    }
    command.get_packed_command()
}
