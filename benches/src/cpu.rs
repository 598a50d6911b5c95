//! The server's CPU time a command: rounds of all cases, one after the other, and the median.

use std::error::Error;
use std::time::Duration;

use redis::Value;

use crate::cases::{Case, RANDOM};
use crate::load::{self, Load};
use crate::server::{Copies, Server};
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

    /// Puts a server under so many commands. Returns the µs that each took.
    pub fn run(
        &self,
        server: &mut Server,
        requests: u32,
        copies: Copies,
    ) -> Result<f64, Box<dyn Error>> {
        let load = Load { requests, ..self.load };
        if self.case.is_short_lived {
            load::run(server.port(), &self.case.command, load)?;
        }
        server.prepare(copies)?;
        let before = server.cpu_micros()?;
        load::run(server.port(), &self.case.command, load)?;
        server.settle(copies)?;
        Ok((server.cpu_micros()? - before) / f64::from(requests))
    }

    /// Commands of the next rounds, after one in which each took so many µs.
    pub fn next(&self, micros: f64, effort: Effort) -> u32 {
        let most = self.load.requests;
        ((effort.micros / micros) as u32).clamp(LEAST_REQUESTS.min(most), most)
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

/// Measures all points.
pub fn measure(
    server: &mut Server,
    points: &[Point],
    effort: Effort,
    copies: Copies,
) -> Result<Vec<Cost>, Box<dyn Error>> {
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); points.len()];
    let mut requests: Vec<u32> = points.iter().map(|point| point.first).collect();
    for round in 0..=effort.rounds {
        for ((point, costs), requests) in points.iter().zip(&mut rounds).zip(&mut requests) {
            let cost = point.run(server, *requests, copies)?;
            if round > 0 {
                costs.push(cost);
                continue;
            }
            check_answer(server, &point.case)?;
            *requests = point.next(cost, effort);
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
