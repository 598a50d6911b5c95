//! What an operator meets: the configuration, a server that is full, taking the module away.

mod config;
mod eviction;
mod memory;
mod removal;
