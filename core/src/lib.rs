#![forbid(unsafe_code)]
//! The limiter itself: rules, algorithms, decisions and encodings, without Redis, I/O or a clock.
//!
//! # Layout
//!
//! | module | what it is for |
//! |---|---|
//! | [`numbers`], [`rule`] | what a limiter is asked to enforce, and the ranges that everything relies on |
//! | [`algorithm`] | the algorithms, one file each, and the list of them |
//! | [`limiter`], [`laid`], `packed`, `ttl` | the state under one key, how it changes, and for how long it stays |
//! | [`effect`] | a change: results with absolute times |
//! | [`terms`], `view`, [`part`] | what is asked, a limiter under the rule asked, and what it answers |
//! | [`call`], [`limiters`] | a whole call, over all its limiters or over none |
//! | [`decision`] | check every limiter of a call, then deduct from all or from none |
//! | [`plain`] | the same for most calls, in place |
//! | [`corrections`] | limiters that are ahead of the clock |
//! | [`in_memory`] | limiters without a server |
//! | [`manage`] | what is done to one limiter by hand: refunds, releases, blocks |
//! | [`status`] | what a limiter tells about itself |
//! | [`queue`] | who waits for permits, in which order, and when to look again |
//! | [`top`] | the most frequent keys of a stream |
//! | [`policy`], [`policies`] | numbers that an operator puts in the place of those asked |
//! | [`stored`] | the stored form of limiters, effects and policies |
//! | [`grammar`] | the grammar of the commands |
//! | `hash` | hashes for tables in memory |
//! | [`slot`] | hash slots, for servers that cannot tell them |
//!
//! Time is an argument everywhere, in whole milliseconds since the epoch; counts are integers.

pub mod algorithm;
pub mod call;
pub mod corrections;
pub mod decision;
pub mod effect;
pub mod grammar;
mod hash;
pub mod in_memory;
pub mod laid;
pub mod limiter;
pub mod limiters;
pub mod manage;
pub mod numbers;
mod packed;
pub mod part;
pub mod plain;
pub mod policies;
pub mod policy;
pub mod queue;
pub mod rule;
pub mod slot;
pub mod status;
pub mod stored;
pub mod terms;
pub mod top;
mod ttl;
mod view;
