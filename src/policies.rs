//! The policies of this server. They are kept in the module, saved beside the keys and sent to
//! replicas.
//!
//! Policies belong to the server, not to a hash slot: in a cluster they are set on each primary. A
//! primary without policies sends none, so the module clears them when a load or a full sync
//! begins. An AOF that was rewritten without its RDB preamble does not contain them.
//!
//! With `repl-diskless-load swapdb`, a replica keeps its data until a full sync is complete, and
//! may answer reads from them. Until then the module sets the arriving policies aside, as the
//! server does with the arriving data.
//!
//! Each tick of the server's clock forgets up to a thousand policies that have ended.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lazy_static::lazy_static;
use libc::{c_int, c_void};
use redis_module::server_events::LoadingSubevent;
use redis_module::{Context, RedisGILGuard, RedisLockIndicator, raw};
use redis_module_macros::{cron_event_handler, loading_event_handler};
use rl_core::grammar::Named;
use rl_core::policies::Policies;
use rl_core::policy::Applied;
use rl_core::stored::policies::encode;

use crate::api::{MainThread, api, clock_ms};
use crate::waiting::queue;
use crate::{counters, log};

/// The number of policies that a tick forgets, which takes about 0.5 ms.
const A_SLICE: usize = 1000;

lazy_static! {
    static ref POLICIES: RedisGILGuard<Policies> = RedisGILGuard::default();
    /// The policies of a full sync that loads beside the data, as far as they have arrived.
    static ref ASIDE: RedisGILGuard<Option<Policies>> = RedisGILGuard::default();
}

/// Calls `look`, which may read or change the policies.
pub fn with<T>(lock: &impl RedisLockIndicator, look: impl FnOnce(&mut Policies) -> T) -> T {
    look(&mut POLICIES.lock(lock))
}

/// Replaces the numbers of rules by those of their policies.
pub fn apply(main: &MainThread, rules: &mut [Named<'_>], now_ms: i64) {
    if rules.iter().all(|rule| rule.name.is_none()) {
        return;
    }
    let policies = POLICIES.lock(main);
    for rule in rules {
        if let Some(name) = rule.name
            && policies.apply(name, &mut rule.ask, now_ms) == Applied::Mismatch
        {
            counters::count_mismatch();
        }
    }
}

#[loading_event_handler]
fn on_loading(ctx: &Context, event: LoadingSubevent) {
    match event {
        LoadingSubevent::ReplStarted if ASIDE.lock(ctx).is_some() => {}
        LoadingSubevent::RdbStarted
        | LoadingSubevent::AofStarted
        | LoadingSubevent::ReplStarted => *POLICIES.lock(ctx) = Policies::default(),
        LoadingSubevent::Ended | LoadingSubevent::Failed => {}
    }
}

/// A full sync beside the data begins or ends. Every server announces the beginning before it
/// calls [`on_loading`], and the end afterwards.
unsafe extern "C" fn on_load_aside(
    _: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    event: u64,
    _: *mut c_void,
) {
    // SAFETY: the server announces events on its main thread.
    let main = unsafe { MainThread::in_callback() };
    let mut aside = ASIDE.lock(&main);
    if event == raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED {
        *aside = Some(Policies::default());
    } else if let Some(loaded) = aside.take()
        && event == raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED
    {
        *POLICIES.lock(&main) = loaded;
        // The data have changed as well, and no other event says so.
        queue::all_changed(&main);
    }
}

/// Asks the server to announce full syncs beside the data. Returns whether it does.
pub fn subscribe(ctx: &Context) -> bool {
    let loads = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD, dataver: 1 };
    // SAFETY: `ctx` is the context of the load.
    unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx.ctx, loads, Some(on_load_aside)) == 0 }
}

#[cron_event_handler]
fn on_cron(ctx: &Context, _: u64) {
    POLICIES.lock(ctx).prune(clock_ms(), A_SLICE);
}

/// All policies in their stored form; `None` if there are none.
fn encoded(main: &MainThread) -> Option<Vec<u8>> {
    let policies = POLICIES.lock(main);
    let mut entries = policies.iter().peekable();
    entries.peek()?;
    Some(encode(entries))
}

/// Saves the policies beside the keys. Servers before 7.2 call this one, and write a header even
/// if it writes nothing.
pub unsafe extern "C" fn aux_save_always(io: *mut raw::RedisModuleIO, _: c_int) {
    // SAFETY: the server saves on its main thread, or in a child, and `io` is that save.
    unsafe { save(io, encoded(&MainThread::in_callback()).unwrap_or_default()) };
}

/// Saves the policies, if there are any. An RDB without them can be loaded without the module.
pub unsafe extern "C" fn aux_save(io: *mut raw::RedisModuleIO, _: c_int) {
    // SAFETY: as above.
    unsafe {
        if let Some(bytes) = encoded(&MainThread::in_callback()) {
            save(io, bytes);
        }
    }
}

/// # Safety
/// `io` is the save under way.
unsafe fn save(io: *mut raw::RedisModuleIO, bytes: Vec<u8>) {
    // SAFETY: `io` is the caller's; the buffer outlives the call.
    unsafe { api!(RedisModule_SaveStringBuffer)(io, bytes.as_ptr().cast(), bytes.len()) };
}

/// Loads what [`aux_save`] or [`aux_save_always`] saved.
pub unsafe extern "C" fn aux_load(io: *mut raw::RedisModuleIO, _: c_int, _: c_int) -> c_int {
    // SAFETY: the server loads on its main thread.
    let main = unsafe { MainThread::in_callback() };
    let load = || {
        let mut len = 0;
        // SAFETY: `io` is the load under way. The buffer is null after an I/O error; otherwise we
        // must free it.
        unsafe {
            let buffer = api!(RedisModule_LoadStringBuffer)(io, &mut len);
            if buffer.is_null() {
                return Err("the data ended early".to_string());
            }
            let merged = merge(&main, std::slice::from_raw_parts(buffer.cast(), len));
            api!(RedisModule_Free)(buffer.cast());
            merged
        }
    };
    match catch_unwind(AssertUnwindSafe(load)) {
        Ok(Ok(())) => raw::REDISMODULE_OK as c_int,
        Ok(Err(reason)) => {
            log::warning(&format!("policies refused: {reason}"));
            raw::REDISMODULE_ERR as c_int
        }
        Err(_) => raw::REDISMODULE_ERR as c_int,
    }
}

fn merge(main: &MainThread, bytes: &[u8]) -> Result<(), String> {
    let (mut policies, mut aside) = (POLICIES.lock(main), ASIDE.lock(main));
    match bytes {
        [] => Ok(()),
        bytes => {
            let policies = aside.as_mut().unwrap_or(&mut policies);
            policies.merge(bytes).map_err(|error| error.to_string())
        }
    }
}
