//! The algorithms: one file each, and one line each in [`list`].
//!
//! An algorithm is a type that implements [`scheme::Scheme`]. The type is what the algorithm
//! stores; a [`scheme::Level`] is that state as seen at one moment. The rest of the crate and the
//! module take everything else from these two traits: the parser and its errors, the documentation
//! of the commands, the counters, the stored form, replication and the decision.
//!
//! `log` and `leases` are the containers that `sliding` and `concurrency` store.

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
