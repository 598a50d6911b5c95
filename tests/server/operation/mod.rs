//! What an operator meets: the configuration, a full server, taking the module away.

mod config;
mod eviction;
mod memory;
mod removal;
