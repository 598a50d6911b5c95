#![forbid(unsafe_code)]
//! The limiter itself: rules, algorithms, decisions and encodings, without Redis, I/O or a clock.
//!
//! # Layout
//!
//! | module | what it is for |
//! |---|---|
//! | [`rule`] | what a limiter is asked to enforce, and the ranges that everything relies on |
//! | [`sliding`], [`bucket`], [`fixed`], [`counter`], [`concurrency`] | one algorithm each: its state and its arithmetic |
//! | [`limiter`], `packed` | the state under one key, and how it changes |
//! | [`effect`] | that change: results with absolute times |
//! | `view` | a limiter at one moment under the rule asked, where the algorithms plug in |
//! | [`decision`] | check every limiter of a call, then deduct from all or from none |
//! | [`plain`] | the same for the calls that are most of all, in place |
//! | [`manage`] | what is done to one limiter by hand: refunds, releases, blocks |
//! | [`status`] | what a limiter tells about itself |
//! | [`queue`] | who waits for permits, in which order, and when to look again |
//! | [`top`] | the most frequent keys of a stream |
//! | [`codec`], [`varint`], [`blob`] | the stored form of limiters and effects |
//! | [`policy`] | numbers that an operator puts in the place of those asked |
//! | [`grammar`] | the grammar of the commands |
//! | `hash` | hashes for tables in memory |
//! | [`slot`] | hash slots, for servers that cannot tell them |
//!
//! Time is an argument everywhere, in whole milliseconds since the epoch; counts are integers.

pub mod blob;
pub mod bucket;
pub mod codec;
pub mod concurrency;
pub mod counter;
pub mod decision;
pub mod effect;
pub mod fixed;
pub mod grammar;
mod hash;
pub mod limiter;
pub mod manage;
mod packed;
pub mod plain;
pub mod policy;
pub mod queue;
pub mod rule;
pub mod sliding;
pub mod slot;
pub mod status;
pub mod top;
pub mod varint;
mod view;
