//! Events of the server that concern waiters.

use std::panic::catch_unwind;

use libc::c_void;
use redis_module::server_events::FlushSubevent;
use redis_module::{Context, raw};
use redis_module_macros::{config_changed_event_handler, cron_event_handler, flush_event_handler};

use super::queue::{self, all_changed};
use super::{clock, service};
use crate::api::{MainThread, api};

/// The directives on which a decision depends.
const DIRECTIVES: [&str; 3] = ["rl.enforce", "rl.sliding-resolution", "rl.slot-validation"];

#[config_changed_event_handler]
fn on_config(ctx: &Context, changed: &[&str]) {
    if changed.iter().any(|name| DIRECTIVES.contains(name)) {
        all_changed(ctx);
    }
}

#[flush_event_handler]
fn on_flush(ctx: &Context, event: FlushSubevent) {
    if event == FlushSubevent::Ended {
        all_changed(ctx);
    }
}

unsafe extern "C" fn on_swap(
    _: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    // SAFETY: the server announces events on its main thread.
    all_changed(&unsafe { MainThread::in_callback() });
}

/// Called when a value is about to leave its key: it was deleted, expired, evicted, overwritten or
/// renamed. The server does not call this when it flushes or swaps a database.
pub unsafe extern "C" fn on_unlink(ctx: *mut raw::RedisModuleKeyOptCtx, _: *const c_void) {
    if queue::waiters() == 0 {
        return;
    }
    let tell = || {
        // SAFETY: the server calls this on its main thread, and the name outlives the call.
        unsafe {
            let db = api!(RedisModule_GetDbIdFromOptCtx)(ctx);
            let mut len = 0;
            let name = api!(RedisModule_GetKeyNameFromOptCtx)(ctx);
            let bytes = api!(RedisModule_StringPtrLen)(name, &mut len);
            let name = std::slice::from_raw_parts(bytes.cast(), len);
            queue::changed(&MainThread::in_callback(), db, name);
        }
    };
    // A panic must not reach the server, and there is nothing else to report.
    let _ = catch_unwind(tell);
}

/// The smallest step of the wall clock, or delay of a timer, that matters.
const STEP_MS: i64 = 20;

/// The server's timers run on the wall clock, so a step back stalls them, but not this event.
/// Also, the waits that limiters named refer to the clock before the step.
#[cron_event_handler]
fn on_cron(ctx: &Context, _: u64) {
    if queue::waiters() > 0 && clock::wall_stepped(STEP_MS) {
        all_changed(ctx);
    }
    if queue::is_timer_late(ctx, STEP_MS * 1000) {
        queue::rearm(ctx);
    }
}

/// Prepares the timer, and asks the server to announce when databases change places.
pub fn subscribe(ctx: &Context) -> Result<(), String> {
    queue::prepare(ctx, Some(service::on_timer));
    let swaps = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_SWAPDB, dataver: 1 };
    // SAFETY: `ctx` is the context of the load.
    match unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx.ctx, swaps, Some(on_swap)) } {
        0 => Ok(()),
        _ => Err("the server refused to tell of events".into()),
    }
}
