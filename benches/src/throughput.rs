//! Commands a second, with fewer and with more commands in flight.

use std::error::Error;

use crate::cases::Case;
use crate::load::{self, Load};
use crate::server::Server;
use crate::stats::median;

/// Commands in flight on each connection.
pub const PIPELINES: [u32; 3] = [1, 16, 64];

/// What a case reaches.
pub struct Throughput {
    /// The case.
    pub name: String,
    /// Commands a second, for each of [`PIPELINES`].
    pub rates: [f64; 3],
}

/// Runs all cases in rounds. `requests` is at the highest pipeline; it is fewer at lower ones.
pub fn measure(
    server: &mut Server,
    cases: &[Case],
    rounds: usize,
    load: Load,
) -> Result<Vec<Throughput>, Box<dyn Error>> {
    let mut rates = vec![[const { Vec::new() }; 3]; cases.len()];
    for round in 0..=rounds {
        for (case, rates) in cases.iter().zip(&mut rates) {
            for (pipeline, rates) in PIPELINES.into_iter().zip(rates) {
                let share = if pipeline == 1 { 4 } else { 1 };
                let load = Load { pipeline, requests: load.requests / share, ..load };
                let rate = load::run(server.port(), &case.command, load)?;
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
    }
    let throughput = cases.iter().zip(rates).map(|(case, rates)| Throughput {
        name: case.name.clone(),
        rates: rates.map(|mut rates| median(&mut rates)),
    });
    Ok(throughput.collect())
}
