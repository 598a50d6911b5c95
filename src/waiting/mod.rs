//! `TIMEOUT`: clients that wait in the server for permits.
//!
//! | module | what it is for |
//! |---|---|
//! | [`events`] | events of the server: databases that change, configuration, clocks that step |
//! | `service` | the timer's work: the tasks of [`rl_core::queue`], in slices |
//! | [`begin`] | decides whether a call begins to wait |
//! | [`attempt`] | makes a waiter's call again, once a look says that it can be served |
//! | `seats` | the clients that wait: how each is blocked, answered and lost |
//! | `look` | the answer that a waiter's call would get now; changes nothing |
//! | [`queue`] | the queue and its timer, which know no clients |
//! | `clock` | a clock that never steps |
//!
//! A file imports only files below it in the table.
//!
//! A client that waits has no permit. To serve it, the module calls `RL.ACQUIREX` again with the
//! same arguments. So the server applies its own rules (a hash slot that is moving, a missing
//! replica) as for any client, and the permits are deducted and replicated as for any other call.
//!
//! Times of the queue are microseconds of a clock that never steps. A limiter's time is that of
//! the wall clock, so a wait that a limiter names counts from the moment of the look.

pub mod attempt;
pub mod begin;
mod clock;
pub mod events;
mod look;
pub mod queue;
mod seats;
mod service;
