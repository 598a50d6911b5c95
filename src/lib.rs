#![expect(missing_docs, reason = "what `redis_module!` exports has no documentation")]
//! `redis-rl`: rate limiting as native Redis commands.
//!
//! # Layout
//!
//! A module imports only those that stand below it, so no two import each other, not even around a
//! corner. (Of [`waiting`] that holds file by file: its queue is below all that tells it of
//! changes.)
//!
//! | module | what it is for |
//! |---|---|
//! | [`registry`], [`metrics`] | the list of the commands and their registration; what `INFO rl` tells |
//! | [`commands`] | one file a command: its declaration, its parser's call, its run |
//! | [`waiting`] | clients that wait in the server for permits |
//! | [`acquisition`] | from a request to a decision that is carried out, and its answer |
//! | [`open_keys`] | the keys of one call: opened together, written together |
//! | [`key`] | one open key, and what a call writes to it |
//! | [`data_type`] | the native data type: how a limiter is saved, loaded, copied and freed |
//! | [`policies`], [`top`], [`rules`] | what is kept beside the keys: policies, the keys denied most, rules parsed before |
//! | [`propagation`], [`listener`], [`save_points`] | sending what a call changed; whether anyone listens to that; counting it where nobody does |
//! | [`description`], [`command`], [`entry`] | a command: its form for the server, the guard before its run, its declaration |
//! | [`counters`] | what became of calls, counted |
//! | [`reply`], [`failure`] | how a call is answered, and why it fails |
//! | [`call`] | what a command knows of its call: arguments, moment, origin |
//! | [`config`], [`log`] | the configuration, the server's log |
//! | [`api`] | functions and clocks of the server, and the proof of its main thread |
//!
//! The limiter itself is in `rl_core`, which knows nothing of Redis and has no `unsafe`. Here
//! `unsafe` is where the server's API is called, and in the callbacks that it calls.

mod acquisition;
mod api;
mod call;
mod command;
mod commands;
mod config;
mod counters;
mod data_type;
mod description;
mod entry;
mod failure;
mod key;
mod listener;
mod log;
mod metrics;
mod open_keys;
mod policies;
mod propagation;
mod registry;
mod reply;
mod rules;
mod save_points;
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
