//! Integration tests: each spawns its own servers with the module loaded and talks to them as a client does.
//!
//! | variable | what it changes | default |
//! |---|---|---|
//! | `RL_TEST_SERVER` | the server's binary, of Redis or Valkey | `redis-server` |
//! | `RL_TEST_CLI` | the command line client | `redis-cli` |
//! | `RL_TEST_MODULE` | the module | what this build made |
//! | `RL_TEST_WRAPPER` | words before the server's command, see `scripts/memcheck` | none |
//! | `RL_WAITERS` | how many clients wait at once in `waiting_load` | 2000 |
//! | `RL_IO_THREADS_SECONDS` | for how long `io_threads` puts each configuration under load | 2 |
//! | `RL_SOAK_CALLS`, `RL_SOAK_SEED` | how many calls `soak` makes, and which | 60000, 1 |
//! | `RL_WRITE_FIXTURES` | a folder that `fixture` writes its files into | none |

mod acquire;
mod acquirex;
mod anything;
mod calls;
mod clock;
mod cluster;
mod cluster_failover;
mod concurrency;
mod config;
mod crashes;
mod debt;
mod denial;
mod documents;
mod durability;
mod eviction;
mod failover;
mod faults;
mod fixture;
mod grammar;
mod grammar_keys;
mod harness;
mod hints;
mod hostile;
mod io_threads;
mod load;
mod lockout;
mod logins;
mod manage;
mod memory;
mod metadata;
mod metrics;
mod migrating;
mod migrating_java;
mod payloads;
mod peek;
mod policy;
mod policy_grammar;
mod policy_kept;
mod propagation;
mod rates;
mod remembered;
mod removal;
mod renewals;
mod replication;
mod reshard;
mod routing;
mod rule_change;
mod rules_argument;
mod shadow;
mod soak;
mod swapdb;
mod throttle;
mod timing;
mod top;
mod ttl;
mod waiting;
mod waiting_ends;
mod waiting_load;
mod waiting_news;
mod waiting_rounds;
mod waiting_turns;
