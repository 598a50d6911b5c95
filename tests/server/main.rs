//! Integration tests: each spawns its own servers with the module loaded and talks to them as a client does.
//!
//! | folder | what it tests |
//! |---|---|
//! | `commands` | commands as a client sees them: grants, denials, each field of a reply |
//! | `grammar` | what is refused, and in which words |
//! | `limits` | what a limiter promises: leases, debts, blocks, clocks that step |
//! | `policies` | `RL.POLICY`, and limits that only watch |
//! | `waiting` | calls that wait |
//! | `cluster`, `replication`, `persistence` | limiters on several servers, and what survives |
//! | `operation`, `observability` | what an operator meets and is told |
//! | `documents` | what the documents show |
//! | `load` | random calls and many clients, and the check of their logs |
//! | `timing` | how long something takes, see there |
//!
//! | variable | what it changes | default |
//! |---|---|---|
//! | `RL_TEST_SERVER`, `RL_TEST_MODULE` and others | what is started, see `testkit/src/lib.rs` | |
//! | `RL_WAITERS` | how many clients wait at once in `waiting::load` | 2000 |
//! | `RL_WAIT_ROUNDS`, `RL_WAIT_SEED` | how many rounds `waiting::rounds` plays, and which | 400, 1 |
//! | `RL_TEST_MASS` | `full`: as many wait in `timing::waiting_mass` as is promised | a fifth |
//! | `RL_IO_THREADS_SECONDS` | for how long `load::io_threads` puts each configuration under load | 2 |
//! | `RL_SOAK_CALLS`, `RL_SOAK_SEED` | how many calls `load::soak` makes, and which | 60000, 1 |
//! | `RL_METRICS_CALLS` | how many calls the long run of `observability::metrics` makes | 100000 |
//! | `RL_TOP_DENIALS` | how many denials the long run of `commands::top` counts | 200000 |
//! | `RL_WRITE_FIXTURES` | a folder that `persistence::fixture` writes its files into | none |

mod calls;
mod cluster;
mod commands;
mod documents;
mod grammar;
mod limits;
mod load;
mod observability;
mod operation;
mod persistence;
mod policies;
mod replication;
mod timing;
mod waiting;
