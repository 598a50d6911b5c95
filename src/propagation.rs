//! Whether what the module propagates reaches anyone.
//!
//! To build an effect and hand it over is a fifth of what a grant costs, and a server without an
//! AOF, replicas or a replication backlog drops it at once. Such a server gets the client's own call
//! to drop instead, which costs nothing and counts as a change for the save points all the same.
//!
//! That nobody listens is only ever found by looking, once a second. It ends at once with what a
//! listener begins with: an AOF and a full sync start with a fork, a replica's backlog outlives its
//! role. In a cluster, where a slot that is migrated has a listener too, nobody is never assumed. A
//! listener that came by another way would get the client's call: it would decide as the primary
//! did, but for the clock, and the next look would end that.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use libc::c_void;
use redis_module::server_events::ServerRole;
use redis_module::{Context, raw};
use redis_module_macros::{cron_event_handler, role_changed_event_handler};

use crate::call::{api, live_clock_ms};

/// How often the server is looked at: it takes 10 µs.
const LOOK_EVERY_MS: i64 = 1000;

/// Whether the server tells of forks; without that nobody can be relied upon.
static TOLD_OF_FORKS: AtomicBool = AtomicBool::new(false);
static HAS_LISTENER: AtomicBool = AtomicBool::new(true);
static LOOKED_AT_MS: AtomicI64 = AtomicI64::new(0);

/// Whether an effect would reach a replica or the AOF. True when in doubt.
pub fn has_listener() -> bool {
    HAS_LISTENER.load(Ordering::Relaxed)
}

fn find_listener(ctx: &Context) -> bool {
    // SAFETY: `ctx` is the context of the running callback.
    let flags = unsafe { api!(RedisModule_GetContextFlags)(ctx.ctx) } as u32;
    // While an AOF is loaded the server says that it has none.
    let hidden = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_CLUSTER;
    let listener = raw::REDISMODULE_CTX_FLAGS_AOF | raw::REDISMODULE_CTX_FLAGS_SLAVE;
    if flags & (hidden | listener) != 0 {
        return true;
    }
    let info = ctx.server_info("replication");
    let is_zero = |field| info.field(field).is_some_and(|value| value.as_slice() == b"0");
    !(is_zero("connected_slaves") && is_zero("repl_backlog_active"))
}

#[cron_event_handler]
fn on_cron(ctx: &Context, _: u64) {
    let now_ms = live_clock_ms();
    let since_ms = now_ms - LOOKED_AT_MS.load(Ordering::Relaxed);
    if TOLD_OF_FORKS.load(Ordering::Relaxed) && !(0..LOOK_EVERY_MS).contains(&since_ms) {
        LOOKED_AT_MS.store(now_ms, Ordering::Relaxed);
        HAS_LISTENER.store(find_listener(ctx), Ordering::Relaxed);
    }
}

#[role_changed_event_handler]
fn on_role(_: &Context, _: ServerRole) {
    HAS_LISTENER.store(true, Ordering::Relaxed);
}

extern "C" fn on_fork(
    _: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    HAS_LISTENER.store(true, Ordering::Relaxed);
}

/// Asks the server to tell of forks.
pub fn subscribe(ctx: &Context) {
    let forks = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_FORK_CHILD, dataver: 1 };
    // SAFETY: `ctx` is the context of the load.
    let refused =
        unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx.ctx, forks, Some(on_fork)) };
    TOLD_OF_FORKS.store(refused == 0, Ordering::Relaxed);
}
