//! `TIMEOUT`: clients that wait in the server for permits.
//!
//! A waiting client is blocked on its keys, so that the server itself answers it when its slot
//! moves away or the primary becomes a replica. It holds no permit. [`rl_core::queue`] says who is
//! looked at when; one timer of the server wakes this file up for it.
//!
//! A look reads only. Whoever can be served is, by calling `RL.ACQUIREX` again with the same
//! arguments: the server then applies its own rules (a slot that is moving, a read-only replica) as
//! for any client, and the permits are deducted and replicated as by any other call. That call must
//! not block, and does not: where blocking is denied, `TIMEOUT` counts as 0.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::ptr;
use std::sync::Once;

use lazy_static::lazy_static;
use libc::{c_int, c_void};
use redis_module::server_events::FlushSubevent;
use redis_module::{Context, RedisGILGuard, raw};
use redis_module_macros::{config_changed_event_handler, flush_event_handler};
use rl_core::grammar::Arguments;
use rl_core::queue::{Queue, Ticket};

use crate::call::{Call, MainThread, api, live_clock_ms};
use crate::commands::acquire::{Look, Reply, deny, look};
use crate::{config, log, policies};

/// A key in a database.
type KeyName = (i32, Box<[u8]>);

/// A client that waits.
struct Seat {
    client: *mut raw::RedisModuleBlockedClient,
    /// Its command, retained.
    argv: Vec<*mut raw::RedisModuleString>,
    db: i32,
    answer: *mut Answer,
}

/// What a client is to be answered, kept by the server with the blocked client.
struct Answer {
    ticket: Ticket,
    /// What its call was answered, once it was made. Data of our own: a reply of the server refers
    /// to the context of the timer, which is gone by the time it is freed.
    said: Option<Said>,
}

/// The reply to a call.
enum Said {
    /// The numbers.
    Reply(Reply),
    /// An error.
    Error(CString),
}

#[derive(Default)]
struct Waiting {
    queue: Queue<KeyName>,
    seats: HashMap<Ticket, Seat>,
    /// Whose seat a blocked client's is: the server tells of one that vanished by its address.
    tickets: HashMap<*mut raw::RedisModuleBlockedClient, Ticket>,
    /// Walks that were cut short, and the last ticket that they came to.
    cut: HashMap<KeyName, Ticket>,
    /// When policies end: then every queue is walked.
    policy_ends_ms: BTreeSet<i64>,
    /// The timer that is set, and for when.
    timer: Option<(raw::RedisModuleTimerID, i64)>,
    counts: Counts,
}

/// Waits that came to an end.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// By a grant.
    pub granted: u64,
    /// By a denial at the deadline.
    pub timed_out: u64,
}

// SAFETY: only ever looked at on the main thread, which `RedisGILGuard` makes sure of.
unsafe impl Send for Waiting {}

lazy_static! {
    static ref WAITING: RedisGILGuard<Waiting> = RedisGILGuard::default();
}

/// Looks at the state. Nothing that can call back into this file may run inside.
fn with<T>(look: impl FnOnce(&mut Waiting) -> T) -> T {
    look(&mut WAITING.lock(&MainThread::in_callback()))
}

/// How many clients wait.
pub fn waiters() -> usize {
    with(|waiting| waiting.queue.len())
}

/// How waits ended.
pub fn counts() -> Counts {
    with(|waiting| waiting.counts)
}

fn key_name(db: i32, key: &[u8]) -> KeyName {
    (db, key.into())
}

/// Whether somebody waits on one of these keys, arguments of a call, so that a newcomer who can wait
/// queues behind.
pub fn is_ahead(call: &Call, mut keys: impl Iterator<Item = usize>) -> bool {
    with(|waiting| {
        !waiting.queue.is_empty()
            && keys.any(|i| waiting.queue.has_waiters(&key_name(call.db(), call.get(i))))
    })
}

/// Whether one more may wait, here and now.
pub fn has_room(call: &Call) -> bool {
    waiters() < config::max_waiters() && !call.denies_blocking()
}

/// Blocks the client of a call until it is served or the time is over. `first_look_ms` is how long
/// it will be denied at least.
pub fn wait(call: &Call, keys: usize, timeout_ms: i64, first_look_ms: i64) {
    subscribe_to_keys(call.context());
    let now_ms = live_clock_ms();
    let names: Vec<_> = (0..keys).map(|i| key_name(call.db(), call.get(i))).collect();
    // Policies that were loaded, or set while nobody waited.
    let policy_ends_ms = match waiters() {
        0 => Some(policies::with(call.main_thread(), |policies| policies.ends_ms(now_ms))),
        _ => None,
    };
    let ticket = with(|waiting| {
        if let Some(policy_ends_ms) = policy_ends_ms {
            waiting.policy_ends_ms = policy_ends_ms;
        }
        waiting.queue.join(names.clone(), now_ms.saturating_add(timeout_ms))
    });
    let answer = Box::into_raw(Box::new(Answer { ticket, said: None }));
    let client = call.block_on_keys(keys, &CALLBACKS, answer.cast());
    let seat = Seat { client, argv: call.retain(), db: call.db(), answer };
    with(|waiting| {
        waiting.tickets.insert(seat.client, ticket);
        waiting.seats.insert(ticket, seat);
        let at_ms = now_ms.saturating_add(first_look_ms.max(0));
        names.iter().for_each(|key| waiting.queue.walk_no_later_than(key, at_ms));
    });
    arm(call.context());
}

/// The callbacks of a blocked client.
pub struct Callbacks {
    /// When one of its keys may have become ready.
    pub ready: raw::RedisModuleCmdFunc,
    /// When it is unblocked by this file, or by `CLIENT UNBLOCK`.
    pub timeout: raw::RedisModuleCmdFunc,
    /// When its connection is gone, or the server answered it by itself.
    pub disconnected: raw::RedisModuleDisconnectFunc,
    /// When the server lets go of the answer.
    pub free: Option<unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut c_void)>,
}

static CALLBACKS: Callbacks = Callbacks {
    ready: Some(on_ready),
    timeout: Some(on_unblocked),
    disconnected: Some(on_disconnected),
    free: Some(free_answer),
};

/// The server's own idea of readiness (a key was created) says nothing here.
extern "C" fn on_ready(
    _: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    raw::REDISMODULE_ERR as c_int
}

/// Answers a client that is being unblocked.
extern "C" fn on_unblocked(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the private data is the `Answer` of `wait`, which the server keeps until
    // `free_answer`.
    let answer = unsafe { &*api!(RedisModule_GetBlockedClientPrivateData)(ctx).cast::<Answer>() };
    // SAFETY: context and arguments are those of the client's command.
    let call = unsafe { Call::new(ctx, argv, argc) };
    match &answer.said {
        Some(Said::Reply(reply)) => reply.send(&call),
        Some(Said::Error(message)) => call.reply_error(message),
        // CLIENT UNBLOCK: a denial, as if the time were over.
        None => {
            leave(answer.ticket, None);
            deny(&call);
            arm(ctx);
        }
    }
    raw::REDISMODULE_OK as c_int
}

extern "C" fn on_disconnected(
    ctx: *mut raw::RedisModuleCtx,
    client: *mut raw::RedisModuleBlockedClient,
) {
    if let Some(ticket) = with(|waiting| waiting.tickets.get(&client).copied()) {
        leave(ticket, None);
        arm(ctx);
    }
}

extern "C" fn free_answer(_: *mut raw::RedisModuleCtx, answer: *mut c_void) {
    // SAFETY: boxed by `wait`, and the server lets go of it.
    drop(unsafe { Box::from_raw(answer.cast::<Answer>()) });
}

/// Takes a client out of the queue and lets go of its command.
fn leave(ticket: Ticket, walked: Option<&KeyName>) -> Option<Seat> {
    let seat = with(|waiting| {
        waiting.queue.leave(ticket, walked);
        let queue = &waiting.queue;
        waiting.cut.retain(|key, _| queue.has_waiters(key));
        let seat = waiting.seats.remove(&ticket)?;
        waiting.tickets.remove(&seat.client);
        Some(seat)
    })?;
    for string in &seat.argv {
        // SAFETY: retained by `Call::retain`.
        unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), *string) };
    }
    Some(seat)
}

/// Sets the timer for the next thing to do.
fn arm(ctx: *mut raw::RedisModuleCtx) {
    arm_no_earlier_than(ctx, i64::MIN);
}

fn arm_no_earlier_than(ctx: *mut raw::RedisModuleCtx, earliest_ms: i64) {
    with(|waiting| {
        let policy_end_ms = waiting.policy_ends_ms.first().copied().unwrap_or(i64::MAX);
        let next_ms = waiting.queue.next_ms();
        let next_ms = next_ms.map(|next_ms| next_ms.min(policy_end_ms).max(earliest_ms));
        // SAFETY: `ctx` is the context of a running command or callback.
        unsafe {
            match (waiting.timer, next_ms) {
                (Some((_, at_ms)), Some(next_ms)) if at_ms <= next_ms => return,
                (Some((timer, _)), _) => {
                    api!(RedisModule_StopTimer)(ctx, timer, ptr::null_mut());
                }
                (None, _) => {}
            }
            waiting.timer = next_ms.map(|next_ms| {
                let in_ms = next_ms.saturating_sub(live_clock_ms()).clamp(0, LONGEST_MS);
                (
                    api!(RedisModule_CreateTimer)(ctx, in_ms, Some(on_timer), ptr::null_mut()),
                    next_ms,
                )
            });
        }
    });
}

/// The longest timer: servers before 7.2 count its microseconds in 32 bits. What is due later is
/// looked at in between, which does no harm.
const LONGEST_MS: i64 = 1_000_000;

/// While writes are paused nothing may be granted; after so many ms it is looked at again.
const PAUSED_MS: i64 = 5;

/// How many clients one timer looks at, so that the others of the server need not wait for all of
/// them.
const MOST_LOOKS: usize = 500;

extern "C" fn on_timer(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    with(|waiting| waiting.timer = None);
    // SAFETY: a plain getter.
    if unsafe { api!(RedisModule_AvoidReplicaTraffic)() } != 0 {
        // A denial writes nothing: deadlines are met all the same.
        while let Some(ticket) = with(|waiting| waiting.queue.expired(live_clock_ms())) {
            give_up(ticket);
        }
        return arm_no_earlier_than(ctx, live_clock_ms() + PAUSED_MS);
    }
    with(|waiting| {
        let later = waiting.policy_ends_ms.split_off(&(live_clock_ms() + 1));
        if !std::mem::replace(&mut waiting.policy_ends_ms, later).is_empty() {
            waiting.queue.walk_all();
        }
    });
    let mut looks = 0;
    while looks < MOST_LOOKS
        && let Some(key) = with(|waiting| waiting.queue.pop_walk(live_clock_ms()))
    {
        looks += walk(ctx, &key, MOST_LOOKS - looks);
    }
    // Deadlines have looks of their own, or long walks would put them off.
    looks = 0;
    while looks < MOST_LOOKS
        && let Some(ticket) = with(|waiting| waiting.queue.expired(live_clock_ms()))
    {
        looks += 1;
        let granted = serve(ctx, ticket, None) == Ok(true);
        with(|waiting| waiting.counts.timed_out += u64::from(!granted));
    }
    arm(ctx);
}

/// Walks the queue of a key, and says how many clients it looked at.
fn walk(ctx: *mut raw::RedisModuleCtx, key: &KeyName, most: usize) -> usize {
    let mut looks = 0;
    let mut at = with(|waiting| waiting.cut.remove(key));
    while let Some(ticket) = with(|waiting| waiting.queue.next_on(key, at)) {
        if looks == most {
            // To be continued, behind those that only other keys deny.
            with(|waiting| {
                waiting.queue.walk_no_later_than(key, i64::MIN);
                at.and_then(|at| waiting.cut.insert(key.clone(), at));
            });
            break;
        }
        at = Some(ticket);
        looks += 1;
        let now_ms = live_clock_ms();
        let by = match look_for(ctx, ticket, now_ms) {
            Look::Served | Look::Never => match serve(ctx, ticket, Some(key)) {
                Ok(_) => continue,
                Err(again_ms) => vec![(key.clone(), again_ms)],
            },
            Look::Denied(by) => by_name(ticket, by),
        };
        if !with(|waiting| waiting.queue.denied(key, &by, now_ms)) {
            break;
        }
    }
    looks
}

/// The denying keys by their names.
fn by_name(ticket: Ticket, by: Vec<(usize, i64)>) -> Vec<(KeyName, i64)> {
    let name = |i: usize| with(|waiting| waiting.queue.keys(ticket).get(i).cloned());
    by.into_iter().filter_map(|(i, wait_ms)| Some((name(i)?, wait_ms))).collect()
}

/// What a waiter would be answered now.
fn look_for(ctx: *mut raw::RedisModuleCtx, ticket: Ticket, now_ms: i64) -> Look {
    let command =
        with(|waiting| waiting.seats.get(&ticket).map(|seat| (seat.argv.clone(), seat.db)));
    let Some((mut argv, db)) = command else {
        return Look::Never;
    };
    // SAFETY: the context is that of the timer, and the arguments are retained as long as the
    // client waits.
    unsafe {
        api!(RedisModule_SelectDb)(ctx, db);
        let call = Call::new(ctx, argv.as_mut_ptr(), argv.len() as c_int);
        // What became an error since is answered as the server answers it.
        look(&call, now_ms).unwrap_or(Look::Served)
    }
}

/// In a cluster a slot that moves away is refused by the server, which answers the client itself
/// soon after.
const MOVING_MS: i64 = 50;

/// Calls the command of a waiter again and answers the reply. On a walk, a denial or a refusal that
/// may pass leaves it waiting: in so many ms it is to be looked at again.
fn serve(
    ctx: *mut raw::RedisModuleCtx,
    ticket: Ticket,
    walked: Option<&KeyName>,
) -> Result<bool, i64> {
    let command =
        with(|waiting| waiting.seats.get(&ticket).map(|seat| (seat.argv.clone(), seat.db)));
    let Some((mut argv, db)) = command else {
        return Ok(false);
    };
    // SAFETY: as in `look_for`. "!ESMv": replicate what it writes, give errors as replies, with the
    // checks of a script, and a vector of arguments with its length.
    let (said, in_cluster) = unsafe {
        api!(RedisModule_SelectDb)(ctx, db);
        let (args, len) = (argv.as_mut_ptr().add(1), argv.len() - 1);
        let name = c"RL.ACQUIREX".as_ptr();
        let reply = api!(RedisModule_Call)(ctx, name, c"!ESMv".as_ptr(), args, len);
        let said = read_reply(reply);
        api!(RedisModule_FreeCallReply)(reply);
        let flags = api!(RedisModule_GetContextFlags)(ctx) as u32;
        (said, flags & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0)
    };
    let granted = match &said {
        Said::Reply(reply) if reply.granted() => true,
        // The server's clock for calls was a moment behind.
        Said::Reply(reply) if reply.may_be_granted() && walked.is_some() => return Err(1),
        Said::Error(_) if in_cluster && walked.is_some() => return Err(MOVING_MS),
        Said::Reply(_) | Said::Error(_) => false,
    };
    with(|waiting| waiting.counts.granted += u64::from(granted));
    if let Some(seat) = leave(ticket, walked) {
        // SAFETY: the answer is alive until the server frees it, which is after it unblocked the
        // client.
        unsafe {
            (*seat.answer).said = Some(said);
            api!(RedisModule_UnblockClient)(seat.client, seat.answer.cast());
        }
    }
    Ok(granted)
}

/// Answers a waiter a denial without calling its command.
fn give_up(ticket: Ticket) {
    if let Some(seat) = leave(ticket, None) {
        with(|waiting| waiting.counts.timed_out += 1);
        // SAFETY: as in `serve`; without a reply `on_unblocked` denies.
        unsafe { api!(RedisModule_UnblockClient)(seat.client, seat.answer.cast()) };
    }
}

/// What the server answered a call, as data of our own.
///
/// # Safety
/// The reply is alive, or null.
unsafe fn read_reply(reply: *mut raw::RedisModuleCallReply) -> Said {
    unsafe {
        let integers = |array: *mut raw::RedisModuleCallReply| {
            let len = api!(RedisModule_CallReplyLength)(array);
            let element = |i| api!(RedisModule_CallReplyArrayElement)(array, i);
            (0..len).map(|i| api!(RedisModule_CallReplyInteger)(element(i))).collect::<Vec<i64>>()
        };
        if reply.is_null() {
            return Said::Error(c"ERR internal error".into());
        }
        if api!(RedisModule_CallReplyType)(reply) as isize != raw::REDISMODULE_REPLY_ARRAY {
            let mut len = 0;
            let bytes = api!(RedisModule_CallReplyStringPtr)(reply, &mut len);
            let message = match bytes.is_null() {
                true => &b"ERR internal error"[..],
                false => std::slice::from_raw_parts(bytes.cast(), len),
            };
            return Said::Error(CString::new(message).unwrap_or_default());
        }
        let keys = api!(RedisModule_CallReplyArrayElement)(reply, Reply::FIELDS);
        let keys = (!keys.is_null()).then(|| {
            let len = api!(RedisModule_CallReplyLength)(keys);
            let key = |i| integers(api!(RedisModule_CallReplyArrayElement)(keys, i));
            (0..len).map(key).collect::<Vec<_>>()
        });
        Said::Reply(Reply::read(&integers(reply), keys))
    }
}

/// Says that something happened to a key that may let a waiter in.
pub fn wake(ctx: *mut raw::RedisModuleCtx, db: i32, key: &[u8]) {
    let woken = with(|waiting| {
        if waiting.queue.is_empty() {
            return false;
        }
        let key = key_name(db, key);
        waiting.queue.walk_no_later_than(&key, i64::MIN);
        waiting.queue.has_waiters(&key)
    });
    if woken {
        arm(ctx);
    }
}

/// Says that something happened to many keys.
pub fn wake_all(ctx: *mut raw::RedisModuleCtx) {
    if waiters() > 0 {
        with(|waiting| waiting.queue.walk_all());
        arm(ctx);
    }
}

/// Says that a policy will end.
pub fn policy_ends(at_ms: i64) {
    with(|waiting| {
        if !waiting.queue.is_empty() {
            waiting.policy_ends_ms.insert(at_ms);
        }
    });
}

#[config_changed_event_handler]
fn on_config(ctx: &Context, changed: &[&str]) {
    if changed.iter().any(|name| name.starts_with("rl.")) {
        wake_all(ctx.ctx);
    }
}

#[flush_event_handler]
fn on_flush(ctx: &Context, event: FlushSubevent) {
    if event == FlushSubevent::Ended {
        wake_all(ctx.ctx);
    }
}

extern "C" fn on_swap(
    ctx: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    _: *mut c_void,
) {
    wake_all(ctx);
}

extern "C" fn on_key_event(
    ctx: *mut raw::RedisModuleCtx,
    _: c_int,
    _: *const std::ffi::c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    if waiters() > 0 {
        let mut len = 0;
        // SAFETY: the key is that of the event, and the context is for this callback.
        let (db, key) = unsafe {
            let bytes = api!(RedisModule_StringPtrLen)(key, &mut len);
            (api!(RedisModule_GetSelectedDb)(ctx), std::slice::from_raw_parts(bytes.cast(), len))
        };
        wake(ctx, db, key);
    }
    raw::REDISMODULE_OK as c_int
}

/// Asks the server to tell when databases change places.
pub fn subscribe(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    let swaps = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_SWAPDB, dataver: 1 };
    // SAFETY: `ctx` is the context of the load.
    match unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx, swaps, Some(on_swap)) } {
        0 => Ok(()),
        _ => Err("the server refused to tell of events".into()),
    }
}

/// Asks the server to tell when keys vanish, once somebody waits. Not before: the server would call
/// us for each command that sets an expiry, those of other applications too, and a `SET key value
/// PX ms` would take a tenth more.
fn subscribe_to_keys(ctx: *mut raw::RedisModuleCtx) {
    static SUBSCRIBED: Once = Once::new();
    let keys = raw::REDISMODULE_NOTIFY_GENERIC
        | raw::REDISMODULE_NOTIFY_EXPIRED
        | raw::REDISMODULE_NOTIFY_EVICTED;
    SUBSCRIBED.call_once(|| {
        // SAFETY: `ctx` is the context of the running command.
        let refused =
            unsafe { api!(RedisModule_SubscribeToKeyspaceEvents)(ctx, keys, Some(on_key_event)) };
        if refused != 0 {
            log::warning(
                "the server refused events of deleted keys: who waits for one is served later",
            );
        }
    });
}
