//! The stored form of limiters (RDB, `DUMP`), of effects (replication, AOF) and of policies.
//!
//! Each starts with a version byte of its own. A newer module reads every older version; an unknown
//! one is refused, and so is anything that breaks an invariant: whatever is decoded can be trusted as
//! if it had been computed here. No length in the bytes is believed before that many bytes were seen.
//!
//! Numbers are variable-length: see [`varint`]. An algorithm's part is written by the algorithm.

pub mod blob;
pub mod effect;
pub mod limiter;
pub mod policies;
pub mod reader;
mod rule;
pub mod varint;
