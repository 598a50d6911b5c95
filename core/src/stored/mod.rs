//! The stored form of limiters (RDB, `DUMP`), of effects (replication, AOF) and of policies.
//!
//! Each form starts with a version byte of its own. A newer module reads every older version. The
//! decoder refuses unknown versions and anything that breaks an invariant, so decoded values can
//! be trusted like computed ones. It believes no length before it has seen that many bytes.
//!
//! Numbers have a variable length: see [`varint`]. Each algorithm writes its own part.

pub mod blob;
pub mod effect;
pub mod limiter;
pub mod policies;
pub mod reader;
mod rule;
pub mod varint;
