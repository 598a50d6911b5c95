//! The algorithms: one file each, and one line each in [`list`].
//!
//! An algorithm is a type that implements [`scheme::Scheme`]: what it stores, and how that looks at
//! one moment, a [`scheme::Level`]. Everything else takes what it needs from there: the parser and its
//! errors, the documentation of the commands, counters, the stored form, replication, decisions.
//!
//! `log` and `leases` are the containers of two of them.

pub mod bucket;
pub mod concurrency;
pub mod counter;
pub mod fixed;
pub mod leases;
pub mod list;
pub mod log;
pub mod scheme;
pub mod sliding;
mod window;

pub use list::{Algorithm, Change, State};
