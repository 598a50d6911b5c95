//! The commands.

pub mod acquire;
pub mod acquirex;
pub mod effect;
pub mod info;
pub mod manage;
pub mod peek;
pub mod policy;
pub mod throttle;
