#![forbid(unsafe_code)]
//! The limiter itself: rules, algorithms, decisions and encodings, without Redis, I/O or a clock.
//!
//! # Layout
//!
//! | module | what it is for |
//! |---|---|
//! | [`numbers`], [`rule`] | the rule that a limiter enforces, and the ranges that all arithmetic relies on |
//! | [`algorithm`] | the algorithms, one file each, and the list of them |
//! | [`limiter`], [`laid`], `packed`, `ttl` | the state under one key, its changes, and the TTL of the key |
//! | [`effect`] | a change: results with absolute times |
//! | [`terms`], `view`, [`part`] | the request, a limiter under the rule asked, and that limiter's answer |
//! | [`call`], [`limiters`] | a whole call, over all its limiters or over none |
//! | [`decision`] | checks every limiter of a call, then deducts from all or from none |
//! | [`plain`] | decides most calls in place, by the same algorithms |
//! | [`corrections`] | limiters that are ahead of the clock |
//! | [`in_memory`] | limiters without a server |
//! | [`manage`] | changes to one limiter by hand: refunds, releases, blocks, exemptions |
//! | [`status`] | the report of a limiter about itself |
//! | [`queue`] | the calls that wait for permits, their order, and when to look at them again |
//! | [`top`] | the most frequent keys of a stream |
//! | [`policy`], [`policies`] | numbers by which an operator replaces those of the applications |
//! | [`stored`] | the stored form of limiters, effects and policies |
//! | [`grammar`] | the grammar of the commands |
//! | `hash` | hashes for tables in memory |
//! | [`slot`] | hash slots, for servers whose module API cannot compute them |
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
