//! Finds out whether anyone listens to what the module propagates.
//!
//! Building an effect and passing it to the server is a fifth of the cost of a grant, and a server
//! without an AOF, replicas or a replication backlog drops it at once. On such a server the module
//! only counts the change, for the save points (see [`crate::save_points`]).
//!
//! The module checks once a second whether anyone is listening. It assumes so again upon each
//! event with which a listener can begin. A listener starts from the data of some moment and
//! receives what follows it. That moment is
//!
//! - a fork, for the RDB of a full sync (to disk, diskless, by two channels), for a saved RDB and
//!   for an AOF that is switched on or rewritten: its event comes before the child exists;
//! - a `SAVE`, which forks nothing: the event of persistence comes before the first byte is
//!   written;
//! - a change of role: a backlog and its history outlive it.
//!
//! In a cluster the module always assumes a listener, since a slot that migrates has one that no
//! field of INFO shows. So no listener misses a change that its data lack. This was checked on
//! Redis 7.0 to 8.2 and Valkey 8.0 to 9.1; check it again for each new server.
//!
//! A backlog begins with the `SYNC` or `PSYNC` of a first replica. No event announces that, so the
//! backlog may lack changes until its fork. No replica has data from that time. A client that asks
//! by hand for the history of such a backlog gets it with gaps, but never a call that it would run
//! by a clock of its own.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use libc::c_void;
use redis_module::server_events::ServerRole;
use redis_module::{Context, raw};
use redis_module_macros::{cron_event_handler, role_changed_event_handler};

use crate::api::{api, live_clock_ms};
use crate::save_points;

/// The interval between checks. A check takes 10 µs.
const CHECK_EVERY_MS: i64 = 1000;

/// Whether the server announces the events with which listeners begin. If not, the module always
/// assumes a listener.
static TOLD_OF_BEGINNINGS: AtomicBool = AtomicBool::new(false);
static IS_HEARD: AtomicBool = AtomicBool::new(true);
static CHECKED_AT_MS: AtomicI64 = AtomicI64::new(0);

/// Whether an effect would reach a replica or the AOF. True when in doubt.
pub fn is_heard() -> bool {
    IS_HEARD.load(Ordering::Relaxed)
}

fn find_listener(ctx: &Context) -> bool {
    // SAFETY: `ctx` is the context of the running callback.
    let flags = unsafe { api!(RedisModule_GetContextFlags)(ctx.ctx) } as u32;
    // While the server loads an AOF, its flags say that it has none.
    let hidden = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_CLUSTER;
    let listener = raw::REDISMODULE_CTX_FLAGS_AOF | raw::REDISMODULE_CTX_FLAGS_SLAVE;
    if flags & (hidden | listener) != 0 {
        return true;
    }
    // SAFETY: as above. The crate's wrapper would never free its strings in a callback.
    unsafe {
        let info = api!(RedisModule_GetServerInfo)(ctx.ctx, c"replication".as_ptr());
        let is_zero = |field: &CStr| {
            let mut failed = 0;
            let get = api!(RedisModule_ServerInfoGetFieldUnsigned);
            get(info, field.as_ptr(), &mut failed) == 0 && failed == 0
        };
        let is_alone = is_zero(c"connected_slaves") && is_zero(c"repl_backlog_active");
        api!(RedisModule_FreeServerInfo)(ctx.ctx, info);
        !is_alone
    }
}

#[cron_event_handler]
fn on_cron(ctx: &Context, _: u64) {
    let now_ms = live_clock_ms();
    let since_ms = now_ms - CHECKED_AT_MS.load(Ordering::Relaxed);
    if TOLD_OF_BEGINNINGS.load(Ordering::Relaxed) && !(0..CHECK_EVERY_MS).contains(&since_ms) {
        CHECKED_AT_MS.store(now_ms, Ordering::Relaxed);
        IS_HEARD.store(find_listener(ctx), Ordering::Relaxed);
    }
}

#[role_changed_event_handler]
fn on_role(_: &Context, _: ServerRole) {
    begin();
}

/// Called at an event with which a listener can begin.
unsafe extern "C" fn on_begin(
    _: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    begin();
}

/// The same events begin a save, and the server counts changes anew.
fn begin() {
    IS_HEARD.store(true, Ordering::Relaxed);
    save_points::begin();
}

/// Asks the server to announce forks, and saves without a fork.
pub fn subscribe(ctx: &Context) {
    let told = [raw::REDISMODULE_EVENT_FORK_CHILD, raw::REDISMODULE_EVENT_PERSISTENCE].map(|id| {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: `ctx` is the context of the load.
        unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx.ctx, event, Some(on_begin)) == 0 }
    });
    TOLD_OF_BEGINNINGS.store(told == [true; 2], Ordering::Relaxed);
}
