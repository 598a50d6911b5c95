//! What a call costs against keys in the call, keys in the database, and clients.

use std::error::Error;

use crate::cases::{acquire, incr, set};
use crate::cpu::{self, Effort, Point};
use crate::fill;
use crate::latency::pack;
use crate::load::Load;
use crate::machine::available_gb;
use crate::server::{Copies, Server};

/// Costs in µs against a number.
pub struct Series {
    /// What is measured.
    pub name: String,
    /// The number, and the cost in µs.
    pub points: Vec<(u32, f64)>,
}

/// A call against its keys.
pub fn keys_in_a_call(
    server: &mut Server,
    numbers: &[u32],
    effort: Effort,
) -> Result<Vec<Series>, Box<dyn Error>> {
    let mut all = Vec::new();
    for algorithm in ["bucket", "sliding"] {
        server.flush()?;
        let points = numbers.iter().map(|keys| {
            // Few keys of each name, as there are up to 1024 names.
            let requests = (20_000 / keys).max(500);
            let load = Load { connections: 20, pipeline: 8, keys: 200, requests };
            let case = acquire(algorithm, *keys as usize, false);
            Point { first: requests.max(1000), ..Point::new(case, load) }
        });
        let points: Vec<Point> = points.collect();
        let costs = cpu::measure(server, &points, effort, Copies::None)?;
        let points = numbers.iter().zip(costs).map(|(number, cost)| (*number, cost.micros));
        all.push(Series { name: format!("RL.ACQUIRE {algorithm}"), points: points.collect() });
    }
    server.flush()?;
    Ok(all)
}

/// A call against the keys in the database, spread over all of them.
pub fn keys_in_the_database(
    server: &mut Server,
    numbers: &[u32],
    effort: Effort,
) -> Result<Vec<Series>, Box<dyn Error>> {
    server.flush()?;
    let cases = [acquire("bucket", 1, false), set()];
    let mut series =
        cases.each_ref().map(|case| Series { name: case.name.clone(), points: Vec::new() });
    let mut from = 0;
    for number in numbers {
        // Two keys a number, of 200 bytes at most.
        if u64::from(*number) * 400 > available_gb() * 1_000_000_000 / 2 {
            eprintln!("not enough memory for {number} keys: left out");
            break;
        }
        for case in &cases {
            fill::send(server, (from..*number).map(|key| pack(case, key)))?;
        }
        if server.keys()? != 2 * u64::from(*number) {
            return Err("keys are missing".into());
        }
        server.finish_growing(2 * u64::from(*number))?;
        from = *number;
        let load = Load { connections: 20, pipeline: 64, keys: *number, requests: 100_000 };
        let points = cases.each_ref().map(|case| Point::new(case.clone(), load));
        let costs = cpu::measure(server, &points, effort, Copies::None)?;
        for (series, cost) in series.iter_mut().zip(costs) {
            series.points.push((*number, cost.micros));
        }
    }
    Ok(series.into())
}

/// A call against the number of clients, each of which waits for its answer.
pub fn clients(
    server: &mut Server,
    numbers: &[u32],
    effort: Effort,
) -> Result<Vec<Series>, Box<dyn Error>> {
    server.flush()?;
    let cases = [incr(), set(), acquire("bucket", 1, false), acquire("sliding", 1, false)];
    let mut points = Vec::new();
    for case in &cases {
        for connections in numbers {
            let load =
                Load { connections: *connections, pipeline: 1, keys: 10_000, requests: 20_000 };
            points.push(Point::new(case.clone(), load));
        }
    }
    let costs = cpu::measure(server, &points, effort, Copies::None)?;
    server.flush()?;
    let series = cases.iter().zip(costs.chunks(numbers.len())).map(|(case, costs)| {
        let points = numbers.iter().zip(costs).map(|(number, cost)| (*number, cost.micros));
        Series { name: case.name.clone(), points: points.collect() }
    });
    Ok(series.collect())
}
