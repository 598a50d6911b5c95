//! The queue of this server, and the timer that serves it.
//!
//! This file knows neither the clients nor how to serve them, so that any file that changes a key
//! can call it. The service is passed in when the module is loaded ([`prepare`]).

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use lazy_static::lazy_static;
use redis_module::{Context, RedisGILGuard, RedisLockIndicator, raw};
use rl_core::queue::Queue;
use smallvec::SmallVec;

use super::clock::clock_us;
use crate::api::api;

/// The longest timer: servers before 7.2 count its microseconds in 32 bits. A timer for a later
/// moment fires early, which does no harm.
const LONGEST_MS: i64 = 1_000_000;

#[derive(Default)]
struct State {
    queue: Queue,
    service: Option<Service>,
    /// The timer that is set, and the moment for which it is set.
    timer: Option<(raw::RedisModuleTimerID, i64)>,
}

/// Everything that a timer needs.
#[derive(Clone, Copy)]
struct Service {
    /// A context that outlives callbacks.
    ctx: *mut raw::RedisModuleCtx,
    on_timer: raw::RedisModuleTimerProc,
}

lazy_static! {
    static ref STATE: RedisGILGuard<State> = RedisGILGuard::default();
}

/// The length of the queue. Each grant reads it.
static WAITERS: AtomicUsize = AtomicUsize::new(0);

/// Prepares the timer, which runs `on_timer`. That function must begin by calling [`timer_fired`].
pub fn prepare(ctx: &Context, on_timer: raw::RedisModuleTimerProc) {
    // SAFETY: `ctx` is the context of the load.
    let detached = unsafe { api!(RedisModule_GetDetachedThreadSafeContext)(ctx.ctx) };
    STATE.lock(ctx).service = Some(Service { ctx: detached, on_timer });
}

/// Calls `look`, which may read or change the queue. `look` must not run anything that can call
/// back into this module: even opening a key can, since the key may expire.
pub fn with<T>(lock: &impl RedisLockIndicator, look: impl FnOnce(&mut Queue) -> T) -> T {
    let queue = &mut STATE.lock(lock).queue;
    let result = look(queue);
    WAITERS.store(queue.len(), Ordering::Relaxed);
    result
}

/// The number of clients that wait.
#[inline(always)]
pub fn waiters() -> usize {
    WAITERS.load(Ordering::Relaxed)
}

/// The name of a key of a database in the queue.
pub fn name(db: i32, key: &[u8]) -> SmallVec<[u8; 64]> {
    let mut name = SmallVec::from_slice(&db.to_le_bytes());
    name.extend_from_slice(key);
    name
}

/// Notes that a key may have room for its waiters.
pub fn has_room(lock: &impl RedisLockIndicator, db: i32, key: &[u8]) {
    let name = name(db, key);
    let has_news = |queue: &mut Queue| queue.has_line(&name) && queue.has_room(&name, clock_us());
    if with(lock, has_news) {
        arm(lock);
    }
}

/// Notes that a key may have room for its waiters, or deny them for longer than before.
pub fn changed(lock: &impl RedisLockIndicator, db: i32, key: &[u8]) {
    if with(lock, |queue| queue.changed(&name(db, key), clock_us())) {
        arm(lock);
    }
}

/// Notes that any key may have room, or deny for longer than before.
pub fn all_changed(lock: &impl RedisLockIndicator) {
    if waiters() > 0 {
        with(lock, Queue::all_changed);
        arm(lock);
    }
}

/// Sets the timer for the next task.
pub fn arm(lock: &impl RedisLockIndicator) {
    arm_no_earlier_than(lock, i64::MIN);
}

/// Sets the timer anew, whatever it was set for.
pub fn rearm(lock: &impl RedisLockIndicator) {
    STATE.lock(lock).stop_timer();
    arm(lock);
}

/// Sets the timer for the next task, but not before `earliest_us`.
pub fn arm_no_earlier_than(lock: &impl RedisLockIndicator, earliest_us: i64) {
    let mut state = STATE.lock(lock);
    let now_us = clock_us();
    let next_us = state.queue.next_at().map(|next_us| next_us.max(earliest_us).max(now_us));
    if let (Some((_, at_us)), Some(next_us)) = (state.timer, next_us)
        && at_us <= next_us
    {
        return;
    }
    state.stop_timer();
    if let Some(next_us) = next_us {
        state.start_timer(now_us, next_us);
    }
}

/// Notes that the timer has fired, and so is no longer set.
pub fn timer_fired(lock: &impl RedisLockIndicator) {
    STATE.lock(lock).timer = None;
}

/// Whether the timer should have fired more than `by_us` ago.
pub fn is_timer_late(lock: &impl RedisLockIndicator, by_us: i64) -> bool {
    STATE.lock(lock).timer.is_some_and(|(_, at_us)| at_us < clock_us() - by_us)
}

impl State {
    fn stop_timer(&mut self) {
        if let (Some((timer, _)), Some(Service { ctx, .. })) = (self.timer.take(), self.service) {
            // SAFETY: the timer is set, and it was set with this context.
            unsafe { api!(RedisModule_StopTimer)(ctx, timer, ptr::null_mut()) };
        }
    }

    fn start_timer(&mut self, now_us: i64, next_us: i64) {
        let Some(Service { ctx, on_timer }) = self.service else { return };
        let in_ms = ((next_us - now_us).saturating_add(999) / 1000).min(LONGEST_MS);
        // SAFETY: the context outlives the timer, which gets no data.
        let timer = unsafe { api!(RedisModule_CreateTimer)(ctx, in_ms, on_timer, ptr::null_mut()) };
        self.timer = Some((timer, next_us));
    }
}
