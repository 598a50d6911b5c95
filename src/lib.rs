#![expect(missing_docs, reason = "what `redis_module!` exports has no documentation")]
//! `redis-rl`: rate limiting as native Redis commands.
//!
//! # Layout
//!
//! | module | what it is for |
//! |---|---|
//! | [`commands`] | one file a command: parse, decide in `rl_core`, apply, answer |
//! | [`registry`] | the list of the commands, and their registration |
//! | [`entry`], [`description`] | the declaration of a command, and its form for the server |
//! | [`limiter_type`] | the native data type: how a limiter is saved, loaded, copied and freed |
//! | [`limiters`] | the limiters of one call: opened together, written together |
//! | [`keys`] | a key opened by a call, and what a call writes to it |
//! | [`api`] | functions and clocks of the server, and the proof of its main thread |
//! | [`command`] | a command, and the guard between it and the server |
//! | [`call`] | what a command knows of its call: arguments, moment, origin |
//! | [`reply`], [`failure`] | how a call is answered, and why it fails |
//! | [`propagation`] | what a call changed, sent to the replicas and the AOF |
//! | [`listener`] | whether anyone listens to that |
//! | [`acquisition`] | from a request to a decision that is carried out, and its answer |
//! | [`rules`] | rules that stand in one argument, mostly known from before |
//! | [`waiting`] | clients that wait in the server for permits |
//! | [`config`] | the configuration |
//! | [`policies`], [`top`], [`counters`] | what the module keeps beside the keys: policies, the keys denied most, counters |
//! | [`metrics`] | what `INFO rl` tells |
//! | [`algorithms`] | the list of the algorithms |
//! | [`log`] | the server's log, safe for any text |
//!
//! The limiter itself is in `rl_core`, which knows nothing of Redis and has no `unsafe`. Here most of
//! it is in `call`, `keys` and `limiter_type`; the rest are callbacks and registrations.

mod acquisition;
mod algorithms;
mod api;
mod call;
mod command;
mod commands;
mod config;
mod counters;
mod description;
mod entry;
mod failure;
mod keys;
mod limiter_type;
mod limiters;
mod listener;
mod log;
mod metrics;
mod policies;
mod propagation;
mod registry;
mod reply;
mod rules;
mod top;
mod waiting;

use redis_module::{Context, RedisString, Status, redis_module};

#[cfg(not(test))]
type Allocator = redis_module::alloc::RedisAlloc;

/// The server's allocator aborts outside a server.
#[cfg(test)]
type Allocator = std::alloc::System;

fn init(ctx: &Context, args: &[RedisString]) -> Status {
    log::install_panic_hook();
    match config::load(ctx, args).and_then(|()| registry::register(ctx)) {
        Ok(()) => Status::Ok,
        Err(reason) => {
            log::warning(&format!("not loaded: {reason}"));
            Status::Err
        }
    }
}

/// The package's version as the server shows it in `MODULE LIST`: two digits each for minor and
/// patch.
const VERSION: i32 = {
    const fn number(digits: &str) -> i32 {
        match i32::from_str_radix(digits, 10) {
            Ok(number) => number,
            Err(_) => panic!("the package's version is not of numbers"),
        }
    }
    10_000 * number(env!("CARGO_PKG_VERSION_MAJOR"))
        + 100 * number(env!("CARGO_PKG_VERSION_MINOR"))
        + number(env!("CARGO_PKG_VERSION_PATCH"))
};

redis_module! {
    name: "rl",
    version: VERSION,
    allocator: (Allocator, Allocator {}),
    data_types: [],
    init: init,
}
