//! The commands.

pub mod acquire;
pub mod acquirex;
pub mod apply_effect;
pub mod apply_policy;
pub mod block;
mod by_hand;
pub mod exempt;
pub mod info;
pub mod peek;
pub mod policy;
pub mod refund;
pub mod release;
pub mod throttle;
pub mod top;
