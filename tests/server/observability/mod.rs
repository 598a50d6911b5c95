//! What the server tells: counters, descriptions of the commands, hints while one types.

mod hints;
mod metadata;
mod metrics;
