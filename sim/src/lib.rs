#![forbid(unsafe_code)]
//! What rules of redis-rl would have done to the traffic of an access log.
//!
//! # Layout
//!
//! | module | what it is for |
//! |---|---|
//! | [`cli`] | the options |
//! | [`rule`] | a rule in the words of the commands, and the same rule with another limit |
//! | [`lines`] | a file or stdin, line by line |
//! | [`formats`] | the formats of logs: a line becomes an [`entry`] or is refused |
//! | [`address`], [`timestamp`] | what counts as an address and as a time |
//! | [`input`] | all lines |
//! | [`log`] | the requests that were read, in the order of their times |
//! | [`stream`] | the requests that a rule sees, key by key |
//! | [`replay`] | what the limiter of `rl-core` decides about them on a simulated clock |
//! | [`search`] | the smallest limit that would refuse few enough |
//! | [`report`], [`table`], [`picture`] | the findings, and how they are shown |
//! | [`run`] | all of it, in order |
//!
//! The limiter is the one of the server: only the clock and the calls are simulated.

pub mod address;
pub mod cli;
pub mod entry;
pub mod error;
pub mod formats;
pub mod input;
pub mod lines;
pub mod log;
pub mod picture;
pub mod progress;
pub mod replay;
pub mod report;
pub mod rule;
pub mod run;
pub mod search;
pub mod stream;
pub mod table;
pub mod timestamp;
