//! `TIMEOUT`: clients that wait in the server for permits.
//!
//! | module | what it is for |
//! |---|---|
//! | [`events`] | what the server tells: databases that change, configuration, clocks that step |
//! | `service` | the timer's work: what [`rl_core::queue`] says is to be done, in slices |
//! | [`begin`] | whether a call begins to wait |
//! | [`attempt`] | a waiter's call made again, once a look says that it can be served |
//! | `seats` | a client that waits: how it is blocked, answered and lost |
//! | `look` | what its call would be told now, which changes nothing |
//! | [`queue`] | the queue and its timer, which knows no clients |
//! | `clock` | a clock that never steps |
//!
//! A file imports only those that stand below it.
//!
//! A client that waits has no permit. It is served by calling `RL.ACQUIREX` again with the same
//! arguments: the server then applies its own rules (a hash slot that is moving, a replica that is
//! missing) as for any client, and the permits are deducted and replicated as by any other call.
//!
//! Times of the queue are microseconds of a clock that never steps. A limiter's time is the wall
//! clock's: a wait that it tells counts from the moment at which it tells it.

pub mod attempt;
pub mod begin;
mod clock;
pub mod events;
mod look;
pub mod queue;
mod seats;
mod service;
