//! The server's CPU time a command: rounds of all cases, one after the other, and the median.

use std::error::Error;
use std::time::Duration;

use redis::Value;

use crate::cases::{Case, RANDOM};
use crate::load::{self, Load};
use crate::server::Server;
use crate::stats::{median, quantile};

/// A case and the load it is put under.
pub struct Point {
    /// The command.
    pub case: Case,
    /// The load; at most so much, when that takes longer than wanted.
    pub load: Load,
    /// Commands of the first round, which creates the keys and is not measured.
    pub first: u32,
}

impl Point {
    /// A point whose first round is like the others.
    pub fn new(case: Case, load: Load) -> Point {
        Point { case, load, first: load.requests }
    }
}

/// How long to measure.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Rounds to take the median of.
    pub rounds: usize,
    /// About how much of the server's time a case takes in a round, in µs.
    pub micros: f64,
}

/// What a case costs.
#[derive(Clone)]
pub struct Cost {
    /// The case.
    pub name: String,
    /// The median, in µs of the server's main thread.
    pub micros: f64,
    /// The distance between the quartiles, as a part of the median.
    pub spread: f64,
}

impl Cost {
    /// Out of the costs in the rounds.
    pub fn of(name: String, costs: &mut [f64]) -> Cost {
        let micros = median(costs);
        let spread = (quantile(costs, 0.75) - quantile(costs, 0.25)) / micros;
        Cost { name, micros, spread }
    }
}

/// Fewer commands a round tell nothing.
const LEAST_REQUESTS: u32 = 2_000;

/// Measures all points. `settle` runs before each reading of the clock, to wait for what a command
/// has left to do.
pub fn measure(
    server: &mut Server,
    points: &[Point],
    effort: Effort,
    mut settle: impl FnMut(&mut Server) -> Result<(), Box<dyn Error>>,
) -> Result<Vec<Cost>, Box<dyn Error>> {
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); points.len()];
    let mut requests: Vec<u32> = points.iter().map(|point| point.first).collect();
    for round in 0..=effort.rounds {
        for ((point, costs), requests) in points.iter().zip(&mut rounds).zip(&mut requests) {
            let load = Load { requests: *requests, ..point.load };
            let before = server.cpu_micros()?;
            load::run(server.port(), &point.case.command, load)?;
            settle(server)?;
            let cost = (server.cpu_micros()? - before) / f64::from(load.requests);
            if round > 0 {
                costs.push(cost);
                continue;
            }
            check_answer(server, &point.case)?;
            let most = point.load.requests;
            *requests = ((effort.micros / cost) as u32).clamp(LEAST_REQUESTS.min(most), most);
        }
    }
    for point in points {
        check_answer(server, &point.case)?;
    }
    let costs = points.iter().zip(&mut rounds);
    Ok(costs.map(|(point, costs)| Cost::of(point.case.name.clone(), costs)).collect())
}

/// Looks at a reply, since redis-benchmark does not. The command is sent twice, as one that is to be
/// denied is granted the first time.
fn check_answer(server: &mut Server, case: &Case) -> Result<(), Box<dyn Error>> {
    let mut reply = Value::Nil;
    for turn in ["first", "second"] {
        let mut command = redis::Cmd::new();
        for arg in &case.command {
            match arg == RANDOM {
                // The name of a lease, not a part of a key's name.
                true => command.arg(turn),
                false => command.arg(arg.replace(RANDOM, "000000000000")),
            };
        }
        reply = command.query(&mut server.connection)?;
        // A leaky limiter has its permit back in the next millisecond.
        std::thread::sleep(Duration::from_millis(2));
    }
    let number = match &reply {
        Value::Array(values) => values.first().unwrap_or(&Value::Nil),
        value => value,
    };
    match (case.answer, number) {
        (None, _) => Ok(()),
        (Some(expected), Value::Int(got)) if *got == expected => Ok(()),
        _ => Err(format!("{}: unexpected reply {reply:?}", case.name).into()),
    }
}

/// The cost of a case, if it was measured.
pub fn find(costs: &[Cost], name: &str) -> Option<f64> {
    costs.iter().find(|cost| cost.name == name).map(|cost| cost.micros)
}
