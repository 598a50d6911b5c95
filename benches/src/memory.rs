//! Bytes a key, of limiters that have granted once, and of one that holds leases.

use std::collections::HashMap;
use std::error::Error;

use crate::cases::Case;
use crate::fill;
use crate::latency::pack;
use crate::server::Server;

/// What one kind of key takes.
pub struct KeyBytes {
    /// The kind.
    pub name: String,
    /// Bytes a key at the first, and at the second number of keys.
    pub bytes: [f64; 2],
}

/// Fills an empty database with so many keys of each kind in turn. Leaves it empty.
pub fn measure(
    server: &mut Server,
    cases: &[Case],
    numbers: [u32; 2],
) -> Result<Vec<KeyBytes>, Box<dyn Error>> {
    let mut kinds = Vec::new();
    for case in cases {
        server.flush()?;
        let empty = server.settled_memory()?;
        let mut bytes = [0.0; 2];
        let mut from = 0;
        for (number, bytes) in numbers.into_iter().zip(&mut bytes) {
            fill::send(server, (from..number).map(|key| pack(case, key)))?;
            let keys = server.keys()?;
            if keys != u64::from(number) {
                return Err(format!("{}: {keys} keys instead of {number}", case.name).into());
            }
            server.finish_growing(keys)?;
            *bytes = (server.settled_memory()?.saturating_sub(empty)) as f64 / f64::from(number);
            from = number;
        }
        kinds.push(KeyBytes { name: case.name.clone(), bytes });
    }
    server.flush()?;
    Ok(kinds)
}

/// A concurrency limiter with leases.
pub struct LeaseBytes {
    /// How many.
    pub leases: u32,
    /// What the limiter takes in all.
    pub bytes: f64,
}

/// Weighs limiters with so many leases, the mean over as many limiters as have `most` together.
pub fn leases(
    server: &mut Server,
    numbers: &[u32],
    most: u32,
) -> Result<Vec<LeaseBytes>, Box<dyn Error>> {
    let mut weighed = Vec::new();
    for leases in numbers {
        server.flush()?;
        let empty = server.settled_memory()?;
        let limiters = (most / leases).max(1);
        let calls = (0..limiters).flat_map(|key| (0..*leases).map(move |lease| take(key, lease)));
        fill::send(server, calls)?;
        server.finish_growing(limiters.into())?;
        let bytes = server.settled_memory()?.saturating_sub(empty);
        let in_use = used(server, limiters - 1)?;
        if in_use != i64::from(*leases) {
            return Err(format!("{in_use} leases instead of {leases}").into());
        }
        weighed.push(LeaseBytes { leases: *leases, bytes: bytes as f64 / f64::from(limiters) });
    }
    server.flush()?;
    Ok(weighed)
}

fn take(key: u32, lease: u32) -> Vec<u8> {
    let rule = format!("WINDOW 1d LIMIT 1000000 ALGO concurrency ID holder:{lease:09}");
    let mut command = redis::cmd("RL.ACQUIREX");
    command.arg(format!("key:{key:012}")).arg(rule).get_packed_command()
}

fn used(server: &mut Server, key: u32) -> Result<i64, Box<dyn Error>> {
    let mut info = redis::cmd("RL.INFO");
    info.arg(format!("key:{key:012}"));
    let info: HashMap<String, redis::Value> = info.query(&mut server.connection)?;
    match info.get("used") {
        Some(redis::Value::Int(used)) => Ok(*used),
        used => Err(format!("no limiter: {used:?}").into()),
    }
}

/// Bytes a key of a kind at the first number of keys, if it was measured.
pub fn find(kinds: &[KeyBytes], name: &str) -> Option<f64> {
    kinds.iter().find(|kind| kind.name == name).map(|kind| kind.bytes[0])
}
