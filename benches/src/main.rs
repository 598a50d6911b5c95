//! Measures redis-rl against plain commands and redis-cell: one server, one run, rounds
//! interleaved.
//!
//! What is reported is the server's CPU time a command. Absolute numbers mean nothing on another
//! machine; ratios within one run do. Server and load generator are pinned to a core each.

mod cases;
mod load;
mod server;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;

use cases::CASES;
use server::Server;

/// Measures redis-rl against plain commands and redis-cell, side by side in one run.
#[derive(Parser)]
struct Options {
    /// Rounds to take the median of; one more is run first, to create the keys.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Requests of each command in each round.
    #[arg(long, default_value_t = 300_000)]
    requests: u32,
    /// Random keys.
    #[arg(long, default_value_t = 10_000)]
    keys: u32,
    /// Commands in flight on each of the 20 connections.
    #[arg(long, default_value_t = 64)]
    pipeline: u32,
    /// Measure only the cases whose name contains one of these words.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The folder with the modules.
    #[arg(long, default_value = "target/release")]
    modules: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let wanted = |name: &str| {
        options.only.is_empty() || options.only.iter().any(|word| name.contains(word.as_str()))
    };
    let cases: Vec<_> = CASES.iter().filter(|case| wanted(case.name)).collect();
    let mut server = Server::start(&options.modules)?;
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
    for round in 0..=options.rounds {
        for (case, micros) in cases.iter().zip(&mut rounds) {
            let before = server.cpu_micros()?;
            load::run(server.port(), case.command, &options)?;
            let spent = (server.cpu_micros()? - before) / f64::from(options.requests);
            if round > 0 {
                micros.push(spent);
            }
        }
    }
    let medians: Vec<f64> = rounds.into_iter().map(median).collect();
    report(&cases, &medians);
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints a table: CPU a command, and its ratio to `SET` and to redis-cell.
fn report(cases: &[&cases::Case], medians: &[f64]) {
    let of = |name: &str| cases.iter().position(|case| case.name == name).map(|i| medians[i]);
    let ratio = |micros: f64, base: Option<f64>| match base {
        Some(base) => format!("{:.2}", micros / base),
        None => "-".into(),
    };
    println!("{:<28} {:>8} {:>8} {:>14}", "command", "us", "x SET PX", "x CL.THROTTLE");
    for (case, micros) in cases.iter().zip(medians) {
        let cell = of(if case.denied { cases::CELL_DENIED } else { cases::CELL_GRANTED });
        let (set, cell) = (ratio(*micros, of(cases::SET)), ratio(*micros, cell));
        println!("{:<28} {micros:>8.3} {set:>8} {cell:>14}", case.name);
    }
}
