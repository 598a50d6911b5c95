//! Measures redis-rl against plain commands, redis-cell and Lua: in one run, rounds interleaved.
//!
//! # Layout
//!
//! | module | what it is for |
//! |---|---|
//! | [`options`], [`suite`] | what to measure, and in which order |
//! | [`cases`], [`scripts`] | the commands |
//! | [`server`], [`load`], [`fill`], [`waiters`], [`machine`] | what is under load, and what makes the load |
//! | [`cpu`], [`others`], [`longest`], [`throughput`], [`latency`], [`memory`], [`logs`], [`growth`] | one way to measure each |
//! | [`stats`] | medians |
//! | [`results`], [`targets`] | what was found, and what must hold |
//! | [`report`], [`plots`], [`table`] | the page for the docs |
//!
//! Absolute numbers mean nothing on another machine; ratios within one run do.

mod cases;
mod cpu;
mod fill;
mod growth;
mod latency;
mod load;
mod logs;
mod longest;
mod machine;
mod memory;
mod options;
mod others;
mod plots;
mod report;
mod results;
mod scripts;
mod server;
mod stats;
mod suite;
mod table;
mod targets;
mod throughput;
mod waiters;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

use machine::Machine;
use options::Options;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rl-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let machine = Machine::here();
    machine::prepare()?;
    let results = suite::run(options, machine)?;
    let folder = match &options.report {
        Some(folder) => folder.clone(),
        // Printed, and gone afterwards.
        None => std::env::temp_dir().join(format!("rl-bench-{}", std::process::id())),
    };
    report::write(&results, &folder)?;
    let page = folder.join("benchmarks.md");
    print!("{}", std::fs::read_to_string(&page)?);
    match options.report {
        Some(_) => eprintln!("written: {}", page.display()),
        None => std::fs::remove_dir_all(&folder)?,
    }
    Ok(())
}
