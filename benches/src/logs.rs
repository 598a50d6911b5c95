//! One sliding limiter with few and with many permits: what it takes, what a grant costs, what it
//! costs to expire all of them.
//!
//! The limiters are built with a permit in each of as many milliseconds, so it takes ten seconds
//! for the largest. Beside the default resolution, at which a log above 4096 permits rounds, they
//! are built at the highest, at which they are exact to the millisecond.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::cases::Case;
use crate::cpu::{self, Cost, Effort, Point};
use crate::fill;
use crate::load::Load;
use crate::server::{Copies, Server};

/// The most permits of a limiter that is exact to the millisecond.
const MOST_EXACT: u32 = 65_536;
/// The window of limiters at the default resolution: short, for the log to have as many entries as
/// it would have when its permits are spread over the window.
const ROUNDED_WINDOW_MS: u32 = 16_384;

/// One limiter.
pub struct LogBytes {
    /// Its permits.
    pub permits: u32,
    /// Whether the log is exact to the millisecond.
    pub exact: bool,
    /// By the difference of used_memory, and by MEMORY USAGE.
    pub bytes: [u64; 2],
    /// Likewise of a sorted set of as many.
    pub zset_bytes: [u64; 2],
}

/// What a run tells.
pub struct Logs {
    /// Memory.
    pub memory: Vec<LogBytes>,
    /// The cost of a grant, by permits in the log.
    pub grants: Vec<(u32, Cost)>,
    /// The largest log, and what a call costs that expires all of it, in µs.
    pub expiry: Option<(u32, f64)>,
}

/// A limiter to build.
struct Build {
    key: String,
    permits: u32,
    exact: bool,
    /// Permits of one grant.
    cost: u32,
    window_ms: u32,
    limit: u32,
}

impl Build {
    fn new(permits: u32, exact: bool, most_grants: u32) -> Build {
        let cost = permits.div_ceil(most_grants);
        let (window_ms, limit) =
            if exact { (3_600_000, MOST_EXACT) } else { (ROUNDED_WINDOW_MS, permits) };
        Build { key: format!("log:{permits}:{exact}"), permits, exact, cost, window_ms, limit }
    }

    fn grant(&self) -> redis::Cmd {
        let Build { key, window_ms, limit, cost, .. } = self;
        let rule = format!("WINDOW {window_ms} LIMIT {limit} ALGO sliding COST {cost}");
        let mut command = redis::cmd("RL.ACQUIREX");
        command.arg(key).arg(rule);
        command
    }
}

/// Builds limiters of these sizes and measures them. `most_grants`: in how many milliseconds the
/// largest ones are built.
pub fn measure(
    server: &mut Server,
    sizes: &[u32],
    most_grants: u32,
    effort: Effort,
) -> Result<Logs, Box<dyn Error>> {
    server.flush()?;
    let exact = sizes.iter().filter(|permits| **permits <= most_grants.min(MOST_EXACT));
    let exact: Vec<Build> = exact.map(|permits| Build::new(*permits, true, most_grants)).collect();
    let above = sizes.iter().filter(|permits| **permits > 4096);
    let rounded: Vec<Build> = above.map(|size| Build::new(*size, false, most_grants)).collect();
    server.config("rl.sliding-resolution", &MOST_EXACT.to_string())?;
    build(server, &exact)?;
    let mut memory = Vec::new();
    let (grants, expiry) = (grants(server, &exact, effort)?, expiry(server, &exact)?);
    for limiter in &exact {
        memory.push(weigh(server, limiter)?);
    }
    server.config("rl.sliding-resolution", "4096")?;
    if !rounded.is_empty() {
        build(server, &rounded)?;
        for limiter in &rounded {
            memory.push(weigh(server, limiter)?);
        }
    }
    server.flush()?;
    Ok(Logs { memory, grants, expiry })
}

/// Makes a grant to each limiter in each millisecond, until it has its permits.
fn build(server: &mut Server, limiters: &[Build]) -> Result<(), Box<dyn Error>> {
    let grants = limiters.iter().map(|limiter| limiter.permits / limiter.cost).max().unwrap_or(0);
    let mut last = 0;
    for grant in 0..grants {
        let mut pipeline = redis::pipe();
        for limiter in limiters.iter().filter(|limiter| grant < limiter.permits / limiter.cost) {
            pipeline.add_command(limiter.grant());
        }
        last = next_millisecond(last)?;
        pipeline.exec(&mut server.connection)?;
    }
    Ok(())
}

/// Waits for the clock to show another millisecond than that one.
fn next_millisecond(last: u128) -> Result<u128, Box<dyn Error>> {
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        if now != last {
            return Ok(now);
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Weighs a limiter and the sorted set of as many permits. Removes both.
fn weigh(server: &mut Server, limiter: &Build) -> Result<LogBytes, Box<dyn Error>> {
    let bytes = weigh_key(server, &limiter.key)?;
    let zset = format!("zset:{}", limiter.permits);
    // As the Lua script makes them: the time in µs is score and member.
    fill::send(
        server,
        (0..limiter.permits).map(|permit| {
            let at = 1_700_000_000_000_000 + u64::from(permit) * 1000;
            redis::cmd("ZADD").arg(&zset).arg(at).arg(at).get_packed_command()
        }),
    )?;
    let zset_bytes = weigh_key(server, &zset)?;
    Ok(LogBytes { permits: limiter.permits, exact: limiter.exact, bytes, zset_bytes })
}

fn weigh_key(server: &mut Server, key: &str) -> Result<[u64; 2], Box<dyn Error>> {
    let mut usage = redis::cmd("MEMORY");
    usage.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
    let usage: Option<u64> = usage.query(&mut server.connection)?;
    let usage = usage.ok_or(format!("{key} has expired: the machine is too busy"))?;
    // The first call of a command allocates its statistics.
    redis::cmd("DEL").arg("missing").exec(&mut server.connection)?;
    let before = server.settled_memory()?;
    redis::cmd("DEL").arg(key).exec(&mut server.connection)?;
    Ok([before.saturating_sub(server.settled_memory()?), usage])
}

/// How many copies of a limiter the grants are spread over.
const COPIES: u32 = 1000;

/// Makes copies of a limiter, with numbers as redis-benchmark writes them.
fn copy(server: &mut Server, key: &str, copies: u32) -> Result<(), Box<dyn Error>> {
    let mut pipeline = redis::pipe();
    for copy in 0..copies {
        let to = format!("{key}:{copy:012}");
        pipeline.cmd("COPY").arg(key).arg(to).arg("REPLACE").ignore();
    }
    Ok(pipeline.exec(&mut server.connection)?)
}

/// What a grant costs, by permits in the log. Each round starts from fresh copies, so that logs do
/// not grow by what is measured.
fn grants(
    server: &mut Server,
    limiters: &[Build],
    effort: Effort,
) -> Result<Vec<(u32, Cost)>, Box<dyn Error>> {
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); limiters.len()];
    for _ in 0..effort.rounds {
        for (limiter, costs) in limiters.iter().zip(&mut costs) {
            copy(server, &limiter.key, COPIES)?;
            let key = format!("{}:__rand_int__", limiter.key);
            let command = ["RL.ACQUIRE", &key, "WINDOW", "1h", "LIMIT", "65536", "ALGO", "sliding"];
            let command = command.map(str::to_owned).to_vec();
            let name = limiter.key.clone();
            let case = Case { name, command, answer: Some(1), is_short_lived: false };
            let load = Load { connections: 20, pipeline: 64, keys: COPIES, requests: 20 * COPIES };
            let point = Point::new(case, load);
            let once = Effort { rounds: 1, ..effort };
            let cost = cpu::measure(server, &[point], once, Copies::None)?;
            costs.extend(cost.iter().map(|cost| cost.micros));
        }
    }
    let costs = limiters.iter().zip(costs).map(|(limiter, mut costs)| {
        (limiter.permits, Cost::of(limiter.permits.to_string(), &mut costs))
    });
    Ok(costs.collect())
}

/// What a call costs that expires all but the newest entry of the largest log, in µs.
fn expiry(server: &mut Server, limiters: &[Build]) -> Result<Option<(u32, f64)>, Box<dyn Error>> {
    let Some(largest) = limiters.iter().max_by_key(|limiter| limiter.permits) else {
        return Ok(None);
    };
    const CALLS: u32 = 200;
    copy(server, &largest.key, CALLS)?;
    let acquire = |window: &str| {
        let mut pipeline = redis::pipe();
        for copy in 0..CALLS {
            let key = format!("{}:{copy:012}", largest.key);
            pipeline.cmd("RL.ACQUIRE").arg(key).arg("WINDOW").arg(window);
            pipeline.arg("LIMIT").arg(MOST_EXACT).arg("ALGO").arg("sliding").ignore();
        }
        pipeline
    };
    // A new entry, so that the log is not simply over; then a rule under which only that one counts.
    std::thread::sleep(Duration::from_secs(3));
    acquire("1h").exec(&mut server.connection)?;
    let before = server.cpu_micros()?;
    acquire("2s").exec(&mut server.connection)?;
    let micros = (server.cpu_micros()? - before) / f64::from(CALLS);
    let mut info = redis::cmd("RL.INFO");
    info.arg(format!("{}:{:012}", largest.key, 0));
    let info: std::collections::HashMap<String, redis::Value> =
        info.query(&mut server.connection)?;
    match info.get("entries") {
        Some(redis::Value::Int(1..=2)) => Ok(Some((largest.permits, micros))),
        entries => Err(format!("the log was not expired: {entries:?}").into()),
    }
}
