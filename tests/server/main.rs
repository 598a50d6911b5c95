//! Integration tests: each spawns its own servers with the module loaded and talks to them as a client does.
//!
//! | variable | what it changes | default |
//! |---|---|---|
//! | `RL_TEST_SERVER` | the server's binary, of Redis or Valkey | `redis-server` |
//! | `RL_TEST_CLI` | the command line client | `redis-cli` |
//! | `RL_TEST_MODULE` | the module | what this build made |

mod acquire;
mod acquirex;
mod calls;
mod cluster;
mod concurrency;
mod config;
mod denial;
mod documents;
mod durability;
mod grammar;
mod harness;
mod hostile;
mod manage;
mod memory;
mod metadata;
mod peek;
mod replication;
mod routing;
