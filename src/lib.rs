#![expect(missing_docs, reason = "what `redis_module!` exports has no documentation")]
//! `redis-rl`: rate limiting as native Redis commands.
//!
//! # Layout
//!
//! A module imports only modules below it in the table, so no two files import each other,
//! directly or in a circle. (For [`waiting`] this is true file by file: `open_keys` and `policies`
//! import its queue.)
//!
//! | module | what it is for |
//! |---|---|
//! | [`registry`], [`metrics`] | the list of the commands and their registration; the fields of `INFO rl` |
//! | [`commands`] | one file a command: its declaration, the call of its parser, its run |
//! | [`waiting`] | clients that wait in the server for permits |
//! | [`acquisition`] | from a request to a decision, its writes and its reply |
//! | [`open_keys`] | the keys of one call: opened together, written together |
//! | [`key`] | one open key, and what a call writes to it |
//! | [`data_type`] | the native data type: how a limiter is saved, loaded, copied and freed |
//! | [`policies`], [`top`], [`rules`] | state beside the keys: policies, the keys denied most, rules parsed before |
//! | [`propagation`], [`listener`], [`save_points`] | sends the changes of a call; checks whether anyone listens to them; counts them if not |
//! | [`description`], [`command`], [`entry`] | a command: its form for the server, the guard before its run, its declaration |
//! | [`counters`] | counts the outcomes of calls |
//! | [`reply`], [`failure`] | the replies to a call, and the errors |
//! | [`call`] | one call of a command: its arguments, moment and origin |
//! | [`config`], [`log`] | the configuration, the server's log |
//! | [`api`] | functions and clocks of the server, and the proof of its main thread |
//!
//! The limiter itself is in `rl_core`, which knows nothing of Redis and has no `unsafe`. This
//! crate uses `unsafe` only to call the server's API, and in the callbacks that the server calls.

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

/// The package's version as `MODULE LIST` shows it: two digits each for minor and patch.
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
