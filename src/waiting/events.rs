//! What the server tells that concerns those who wait.

use libc::c_void;
use redis_module::server_events::FlushSubevent;
use redis_module::{Context, raw};
use redis_module_macros::{config_changed_event_handler, cron_event_handler, flush_event_handler};

use super::{all_changed, clock_us, service, waiters, with};
use crate::api::{api, live_clock_ms};

/// The directives that a decision depends on.
const DIRECTIVES: [&str; 3] = ["rl.enforce", "rl.sliding-resolution", "rl.slot-validation"];

#[config_changed_event_handler]
fn on_config(_: &Context, changed: &[&str]) {
    if changed.iter().any(|name| DIRECTIVES.contains(name)) {
        all_changed();
    }
}

#[flush_event_handler]
fn on_flush(_: &Context, event: FlushSubevent) {
    if event == FlushSubevent::Ended {
        all_changed();
    }
}

extern "C" fn on_swap(
    _: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    all_changed();
}

/// A step of the wall clock, or a delay of a timer, that is of interest.
const STEP_MS: i64 = 20;

/// How far the wall clock is ahead of the one that never steps, in ms.
pub fn wall_ahead_ms() -> i64 {
    live_clock_ms() - clock_us() / 1000
}

/// The server's timers run on the wall clock, so a step back stalls them; this event goes on. And
/// what limiters said was meant by the clock before the step.
#[cron_event_handler]
fn on_cron(_: &Context, _: u64) {
    if waiters() > 0 {
        let ahead_ms = wall_ahead_ms();
        let before_ms = with(|waiting| waiting.wall_ahead_ms);
        if ahead_ms.abs_diff(before_ms) >= STEP_MS as u64 {
            with(|waiting| waiting.wall_ahead_ms = ahead_ms);
            all_changed();
        }
    }
    if service::is_late(STEP_MS * 1000) {
        service::rearm();
    }
}

/// Asks the server to tell when databases change places.
pub fn subscribe(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    service::prepare(ctx);
    let swaps = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_SWAPDB, dataver: 1 };
    // SAFETY: `ctx` is the context of the load.
    match unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx, swaps, Some(on_swap)) } {
        0 => Ok(()),
        _ => Err("the server refused to tell of events".into()),
    }
}
