//! Servers with the module for tests and benchmarks, and a client that shows replies and errors whole.
//!
//! A [`Server`] lives in a directory of its own, listens on a free port of 127.0.0.1, and dies with its value, also
//! on a panic. Whatever it does by itself is waited for with a bound ([`wait_for`]). When its log holds a panic or a
//! crash report, a test that passed fails all the same.
//!
//! | module | what it has |
//! |---|---|
//! | `server` | [`Server`] and its [`Builder`] |
//! | `client` | [`Client`], and commands as [`Words`] |
//! | `values` | parts of replies |
//! | `waits` | waiting with a bound |
//! | `library` | [`module_path()`] |
//! | `random` | [`Random`] |
//!
//! The module is built and loaded by servers, never linked: its allocator aborts a program that is no server.
//!
//! | variable | what it names | default |
//! |---|---|---|
//! | `RL_TEST_SERVER` | the server's binary, of Redis or Valkey | `redis-server` |
//! | `RL_TEST_CLI` | the command line client | `redis-cli` |
//! | `RL_TEST_MODULE` | the module | what this build made |
//! | `RL_TEST_WRAPPER` | words before the server's command, see `scripts/memcheck` | none |

mod client;
mod library;
mod random;
mod server;
mod values;
mod waits;

pub use client::*;
pub use library::*;
pub use random::*;
pub use server::*;
pub use values::*;
pub use waits::*;
