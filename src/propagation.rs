//! Whether what the module propagates reaches anyone.
//!
//! To build an effect and hand it over is a fifth of what a grant costs, and a server without an
//! AOF, replicas or a replication backlog drops it at once. Such a server is given nothing: only the
//! change is counted, for its save points ([`count_change`]).
//!
//! That nobody listens is only ever found by looking, once a second, and ends with the event that a
//! listener begins with. A listener has the data as they were at some moment, and gets what followed
//! it. That moment is
//!
//! - a fork, for the RDB of a full sync (to disk, diskless, by two channels), for a saved RDB and for
//!   an AOF that is switched on or rewritten: the event of the fork comes before the child exists;
//! - a `SAVE`, which forks nothing: the event of persistence comes before the first byte is written;
//! - a change of role: a backlog and its history outlive it.
//!
//! In a cluster nobody is never assumed, since a slot that migrates has a listener that no field
//! tells of. So no listener misses a change that its data do not have, on Redis 7.0 to 8.2 and on
//! Valkey 8.0 to 9.1; check that for each new server.
//!
//! A backlog begins with the `SYNC` or `PSYNC` of a first replica, which no event tells of, and until
//! its fork it may lack changes. Nobody has data from then. Who asks by hand for the history of such
//! a backlog gets it with gaps, and in no case a client's call to run by a clock of its own.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use libc::c_void;
use redis_module::server_events::ServerRole;
use redis_module::{Context, raw};
use redis_module_macros::{cron_event_handler, role_changed_event_handler};

use crate::api::{api, live_clock_ms};

/// How often the server is looked at: it takes 10 µs.
const LOOK_EVERY_MS: i64 = 1000;

/// Whether the server tells how listeners begin; without that nobody can be relied upon.
static TOLD_OF_BEGINNINGS: AtomicBool = AtomicBool::new(false);
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
    if TOLD_OF_BEGINNINGS.load(Ordering::Relaxed) && !(0..LOOK_EVERY_MS).contains(&since_ms) {
        LOOKED_AT_MS.store(now_ms, Ordering::Relaxed);
        HAS_LISTENER.store(find_listener(ctx), Ordering::Relaxed);
    }
}

#[role_changed_event_handler]
fn on_role(_: &Context, _: ServerRole) {
    HAS_LISTENER.store(true, Ordering::Relaxed);
}

/// A listener may begin here.
extern "C" fn on_begin(
    _: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    HAS_LISTENER.store(true, Ordering::Relaxed);
}

/// Asks the server to tell of forks and of what is saved without one.
pub fn subscribe(ctx: &Context) {
    let told = [raw::REDISMODULE_EVENT_FORK_CHILD, raw::REDISMODULE_EVENT_PERSISTENCE].map(|id| {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: `ctx` is the context of the load.
        unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx.ctx, event, Some(on_begin)) == 0 }
    });
    TOLD_OF_BEGINNINGS.store(told == [true; 2], Ordering::Relaxed);
}

/// Counts a change for the server's save points, and sends nothing to anybody: a command that goes
/// neither to the AOF nor to replicas.
pub fn count_change(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: `ctx` is the context of the running command. "AR" takes no argument.
    unsafe { api!(RedisModule_Replicate)(ctx, c"RL._EFFECT".as_ptr(), c"AR".as_ptr()) };
}
