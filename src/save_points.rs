//! How many changes the server is told of for its save points.
//!
//! `save 60 10000` saves the dataset 60 s after the last save if it has changed 10,000 times since.
//! Telling the server of one change takes 1,950 instructions, a fifth of a grant, and the server
//! only needs to know that there were enough. So the module tells it of as many changes as the
//! highest save point asks for, and of no more until the next save.
//!
//! `rdb_changes_since_last_save` in `INFO` therefore counts all changes up to that number, at least
//! up to [`AT_LEAST`], and may stop there.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use redis_module::{Context, raw};
use redis_module_macros::{config_changed_event_handler, cron_event_handler};

use crate::api::api;

/// `INFO` tells the changes since the last save exactly, up to this number.
const AT_LEAST: i64 = 10_000;

/// How many changes the server is told of at once after a save point was added, which takes 0.5 ms.
const AT_ONCE: i64 = 1000;

/// Since the last save began.
static CHANGES: AtomicI64 = AtomicI64::new(0);
/// Of those, the server was told of this number.
static TOLD: AtomicI64 = AtomicI64::new(0);
/// It must be told of this number.
static NEEDED: AtomicI64 = AtomicI64::new(i64::MAX);
static ARE_KNOWN: AtomicBool = AtomicBool::new(false);

/// Counts a change, and tells the server of it if need be.
///
/// # Safety
/// The context is that of the running command.
#[inline(always)]
pub unsafe fn count(ctx: *mut raw::RedisModuleCtx) {
    CHANGES.store(CHANGES.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    if TOLD.load(Ordering::Relaxed) < NEEDED.load(Ordering::Relaxed) {
        // SAFETY: the caller answers for it.
        unsafe { tell(ctx, 1) };
    }
}

/// Tells the server of changes by a command that goes neither to the AOF nor to replicas, which is
/// the only way.
///
/// # Safety
/// The context is that of the running command or callback.
unsafe fn tell(ctx: *mut raw::RedisModuleCtx, changes: i64) {
    TOLD.store(TOLD.load(Ordering::Relaxed) + changes, Ordering::Relaxed);
    for _ in 0..changes {
        // SAFETY: "AR" takes no argument; any command will do.
        unsafe { api!(RedisModule_Replicate)(ctx, c"RL._EFFECT".as_ptr(), c"AR".as_ptr()) };
    }
}

/// A save may begin, after which the server counts anew.
pub fn begin() {
    CHANGES.store(0, Ordering::Relaxed);
    TOLD.store(0, Ordering::Relaxed);
}

#[config_changed_event_handler]
fn on_config(_: &Context, changed: &[&str]) {
    if changed.contains(&"save") {
        ARE_KNOWN.store(false, Ordering::Relaxed);
    }
}

#[cron_event_handler]
fn on_cron(ctx: &Context, _: u64) {
    if !ARE_KNOWN.swap(true, Ordering::Relaxed) {
        // A server that keeps its configuration to itself is told of all changes.
        let highest = configured(ctx).as_deref().and_then(highest);
        NEEDED.store(highest.map_or(i64::MAX, |n| n.max(AT_LEAST)), Ordering::Relaxed);
    }
    let wanted = CHANGES.load(Ordering::Relaxed).min(NEEDED.load(Ordering::Relaxed));
    let missing = wanted - TOLD.load(Ordering::Relaxed);
    if missing > 0 {
        // SAFETY: `ctx` is the context of the running callback.
        unsafe { tell(ctx.ctx, missing.min(AT_ONCE)) };
    }
}

/// The `save` directive.
fn configured(ctx: &Context) -> Option<String> {
    // SAFETY: `ctx` is the context of the running callback. "cc" takes two C strings. The reply is
    // freed here, and its elements with it; all functions accept a null reply.
    unsafe {
        let (command, format) = (c"CONFIG".as_ptr(), c"cc".as_ptr());
        let reply =
            api!(RedisModule_Call)(ctx.ctx, command, format, c"GET".as_ptr(), c"save".as_ptr());
        if reply.is_null() {
            return None;
        }
        let value = api!(RedisModule_CallReplyArrayElement)(reply, 1);
        let mut len = 0;
        let bytes = match value.is_null() {
            true => std::ptr::null(),
            false => api!(RedisModule_CallReplyStringPtr)(value, &mut len),
        };
        let text = (!bytes.is_null())
            .then(|| std::slice::from_raw_parts(bytes.cast::<u8>(), len))
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        api!(RedisModule_FreeCallReply)(reply);
        text
    }
}

/// The highest number of changes in save points, which are pairs of seconds and changes.
fn highest(points: &str) -> Option<i64> {
    let numbers: Result<Vec<i64>, _> = points.split_whitespace().map(str::parse).collect();
    let changes = numbers.ok()?.into_iter().skip(1).step_by(2);
    Some(changes.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_save_point_counts() {
        assert_eq!(highest("3600 1 300 100 60 10000"), Some(10_000));
        assert_eq!(highest("60 5"), Some(5));
        assert_eq!(highest(""), Some(0));
        assert_eq!(highest("nothing like that"), None);
    }
}
