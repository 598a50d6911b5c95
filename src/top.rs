//! The keys denied most: see [`rl_core::top`].

use lazy_static::lazy_static;
use redis_module::RedisGILGuard;
use rl_core::grammar::Arguments;
use rl_core::top::{Counted, Top};

use crate::api::{MainThread, clock_ms};
use crate::call::Call;
use crate::config;

lazy_static! {
    static ref TOP: RedisGILGuard<Top> = RedisGILGuard::default();
}

/// Counts the keys that denied a call, given by the indices of their arguments.
pub fn count_denials(call: &Call, keys: impl Iterator<Item = usize>, now_ms: i64) {
    let shape = config::top_shape();
    if shape.capacity == 0 {
        return;
    }
    let mut top = TOP.lock(call.main_thread());
    for key in keys {
        top.add(call.db(), call.get(key), shape, now_ms);
    }
}

/// How often a key was denied in the present and the previous period. May be too high, never too
/// low.
pub fn denied_recently(call: &Call, key: usize, now_ms: i64) -> u64 {
    let mut top = TOP.lock(call.main_thread());
    top.count(call.db(), call.get(key), config::top_shape(), now_ms)
}

/// Calls `look` with the keys denied most.
pub fn with_most(call: &Call, limit: usize, now_ms: i64, look: impl FnOnce(Vec<Counted<'_>>)) {
    look(TOP.lock(call.main_thread()).most(limit, config::top_shape(), now_ms));
}

/// The number of counters in use.
pub fn tracked(main: &MainThread) -> usize {
    TOP.lock(main).tracked(config::top_shape(), clock_ms())
}
