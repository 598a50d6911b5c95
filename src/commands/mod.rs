//! The commands.

pub mod acquire;
pub mod effect;
pub mod info;
pub mod manage;
pub mod policy;
pub mod throttle;
