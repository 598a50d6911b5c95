//! The commands, one file each.

pub mod acquire;
pub mod effect;
