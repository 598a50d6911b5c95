//! Commands as a client sees them: grants, denials, each field of a reply.

mod acquire;
mod acquirex;
mod manage;
mod peek;
pub mod throttle;
mod top;
