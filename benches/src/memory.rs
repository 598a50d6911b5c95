//! Bytes a key, of limiters that have granted once.

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

/// Bytes a key of a kind at the first number of keys, if it was measured.
pub fn find(kinds: &[KeyBytes], name: &str) -> Option<f64> {
    kinds.iter().find(|kind| kind.name == name).map(|kind| kind.bytes[0])
}
