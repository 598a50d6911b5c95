//! `rl-sim`: what rules of redis-rl would have done to the traffic of an access log.

use std::io::{IsTerminal, stdin};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, error::ErrorKind};
use rl_sim::cli::Options;
use rl_sim::run::run;

fn main() -> ExitCode {
    let options = Options::parse();
    if options.log.is_none() && stdin().is_terminal() {
        let message = "no log: name a file, or pipe one in";
        Options::command().error(ErrorKind::MissingRequiredArgument, message).exit();
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rl-sim: {error}");
            ExitCode::FAILURE
        }
    }
}
