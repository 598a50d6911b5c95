//! Whether what the module propagates reaches anyone.
//!
//! To build an effect and hand it over is a fifth of what a grant costs, and a server without an
//! AOF, replicas or a replication backlog drops it at once. Such a server gets the client's own call
//! to drop instead, which costs nothing and counts as a change for the save points all the same.
//!
//! That nobody listens is only ever found by looking, once a second, and ends with the event that a
//! listener begins with. What a new replica or a new AOF is sent are the data as they were at a fork
//! and what followed it: what the server kept between the announcement and the fork, it discards or
//! gives a history of its own that nobody can ask for. So a fork is early enough; check that again
//! for each new server. A change of role is the other event: a backlog outlives it. In a cluster
//! nobody is never assumed, since a slot that migrates has a listener that no field tells of.
//!
//! A listener that came by another way would get clients' calls until the next look, and run them by
//! its own clock and configuration: close to the truth, not equal to it.

use std::ffi::CStr;
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
    // SAFETY: as above. By hand, because the crate's strings are never freed in a callback.
    unsafe {
        let info = api!(RedisModule_GetServerInfo)(ctx.ctx, c"replication".as_ptr());
        let is_zero = |field: &CStr| {
            let mut failed = 0;
            let get = api!(RedisModule_ServerInfoGetFieldUnsigned);
            get(info, field.as_ptr(), &mut failed) == 0 && failed == 0
        };
        let nobody = is_zero(c"connected_slaves") && is_zero(c"repl_backlog_active");
        api!(RedisModule_FreeServerInfo)(ctx.ctx, info);
        !nobody
    }
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
