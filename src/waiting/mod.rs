//! `TIMEOUT`: clients that wait in the server for permits.
//!
//! | module | what it is for |
//! |---|---|
//! | `seats` | a client that waits: how it is blocked, answered and lost |
//! | `look` | what its call would be told now, which changes nothing |
//! | [`attempt`] | its call made again, once a look says that it can be served |
//! | `service` | the timer that does what [`rl_core::queue`] says is to be done, in slices |
//! | `events` | what the server tells: databases that change, configuration, clocks that step |
//!
//! A client that waits holds no permit. Whoever can be served is, by calling `RL.ACQUIREX` again with
//! the same arguments: the server then applies its own rules (a slot that is moving, a replica that
//! is missing) as for any client, and the permits are deducted and replicated as by any other call.
//!
//! Times of the queue are microseconds of a clock that never steps. A limiter's time is the wall
//! clock's: what it says is counted from the moment at which it says it.

pub mod attempt;
pub mod begin;
mod clock;
pub mod events;
mod look;
pub mod queue;
mod seats;
mod service;
