//! The timer that does what there is to do for those who wait, a slice at a time.

use std::cell::Cell;
use std::ptr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use libc::c_void;
use redis_module::raw;
use rl_core::queue::{Task, Ticket};

use super::attempt::{Outcome, Said, correct, make};
use super::look::{Look, Seen, SeenKey, at_all, at_one, denial};
use super::seats::Seat;
use super::{clock_us, in_ms, leave, with};
use crate::api::{api, clock_ms};

/// How long a slice lasts; then the others of the server have their turn. The last thing in it can
/// take longer, since a call can have a thousand keys.
const SLICE: Duration = Duration::from_micros(400);

/// How many clients are answered in a slice: what the server has to do for each of them follows, and
/// takes longer than our part.
const MOST_ANSWERS: u64 = 32;

/// The longest timer: servers before 7.2 count its microseconds in 32 bits. What is due later is
/// looked at in between, which does no harm.
const LONGEST_MS: i64 = 1_000_000;

/// While writes are paused nothing may be granted; after so many ms it is looked at again.
const PAUSED_MS: i64 = 5;

/// How soon a waiter is looked at again whose slot the server refuses: it answers such clients by
/// itself when the slot has moved away.
const MOVING_MS: i64 = 50;

/// How soon one is looked at again that could be served, and was denied.
const NOT_YET_MS: i64 = 5;

thread_local! {
    /// A context that outlives callbacks, for timers. On the main thread only.
    static CONTEXT: Cell<*mut raw::RedisModuleCtx> = const { Cell::new(ptr::null_mut()) };
}

/// Gets a context for timers.
pub fn prepare(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: `ctx` is the context of the load.
    CONTEXT.set(unsafe { api!(RedisModule_GetDetachedThreadSafeContext)(ctx) });
}

/// Whether a timer should have come a good while ago.
pub fn is_late(by_us: i64) -> bool {
    with(|waiting| waiting.timer.is_some_and(|(_, at_us)| at_us < clock_us() - by_us))
}

/// Sets the timer for the next thing to do.
pub fn arm() {
    arm_no_earlier_than(i64::MIN);
}

/// Sets the timer anew, whatever it was set for.
pub fn rearm() {
    if let Some((timer, _)) = with(|waiting| waiting.timer.take()) {
        // SAFETY: the timer is set, and the context is that of this module.
        unsafe { api!(RedisModule_StopTimer)(CONTEXT.get(), timer, ptr::null_mut()) };
    }
    arm();
}

fn arm_no_earlier_than(earliest_us: i64) {
    with(|waiting| {
        let (now_us, ctx) = (clock_us(), CONTEXT.get());
        let next_us = waiting.queue.next_at().map(|next_us| next_us.max(earliest_us).max(now_us));
        // SAFETY: the context is that of this module, and the timer is set.
        unsafe {
            match (waiting.timer, next_us) {
                (Some((_, at_us)), Some(next_us)) if at_us <= next_us => return,
                (Some((timer, _)), _) => {
                    api!(RedisModule_StopTimer)(ctx, timer, ptr::null_mut());
                }
                (None, _) => {}
            }
            waiting.timer = next_us.map(|next_us| {
                let in_ms = ((next_us - now_us).saturating_add(999) / 1000).min(LONGEST_MS);
                let timer =
                    api!(RedisModule_CreateTimer)(ctx, in_ms, Some(on_timer), ptr::null_mut());
                (timer, next_us)
            });
        }
    });
}

extern "C" fn on_timer(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    with(|waiting| waiting.timer = None);
    let (begun, answers) = (Instant::now(), answers());
    // SAFETY: a plain getter.
    let paused = unsafe { api!(RedisModule_AvoidReplicaTraffic)() } != 0;
    let steps: &[fn(*mut raw::RedisModuleCtx) -> bool] = match paused {
        false => &[tidy, end_one, do_one],
        // A denial writes nothing, so a pause is no reason to keep anyone beyond its time.
        true => &[tidy, deny_one],
    };
    loop {
        let mut idle = true;
        for step in steps {
            idle &= !step(ctx);
            if begun.elapsed() >= SLICE || self::answers() - answers >= MOST_ANSWERS {
                return arm();
            }
        }
        if idle {
            break;
        }
    }
    match paused {
        false => arm(),
        true => arm_no_earlier_than(in_ms(PAUSED_MS)),
    }
}

/// How many clients were answered so far.
fn answers() -> u64 {
    with(|waiting| waiting.answers)
}

fn tidy(_: *mut raw::RedisModuleCtx) -> bool {
    with(|waiting| waiting.queue.tidy())
}

fn seat(ticket: Ticket) -> Option<Rc<Seat>> {
    with(|waiting| waiting.seats.get(&ticket).cloned())
}

/// Ends the wait of one whose time is over.
fn end_one(ctx: *mut raw::RedisModuleCtx) -> bool {
    let Some(ticket) = with(|waiting| waiting.queue.expired(clock_us())) else { return false };
    if end(ctx, ticket) == Some(false) {
        with(|waiting| waiting.counts.timed_out += 1);
    }
    true
}

/// Denies one whose time is over, without a call.
fn deny_one(ctx: *mut raw::RedisModuleCtx) -> bool {
    let Some(ticket) = with(|waiting| waiting.queue.expired(clock_us())) else { return false };
    if let Some(seat) = leave(ticket) {
        with(|waiting| waiting.counts.timed_out += 1);
        let denial = seat.as_call(ctx, |call| denial(call, seat.wish(), clock_ms()));
        seat.answer(match denial {
            Ok(reply) => Said::Reply(reply),
            Err(failure) => Said::error(&failure),
        });
    }
    true
}

/// Answers a waiter what its call is answered now. Says whether it was granted, or denied.
fn end(ctx: *mut raw::RedisModuleCtx, ticket: Ticket) -> Option<bool> {
    let seat = seat(ticket)?;
    let said = match make(ctx, &seat, clock_ms(), true) {
        Outcome::Answer(said) => said,
        Outcome::NotYet => Said::Error(c"ERR internal error".into()),
        Outcome::SlotRefused(said) => Said::Error(said.into()),
    };
    answer(ticket, said)
}

fn answer(ticket: Ticket, said: Said) -> Option<bool> {
    let granted = match &said {
        Said::Reply(reply) => Some(reply.granted()),
        Said::Error(_) => None,
    };
    with(|waiting| waiting.counts.granted += u64::from(granted == Some(true)));
    if let Some(seat) = leave(ticket) {
        seat.answer(said);
    }
    granted
}

/// Does the next thing that the queue has to do.
fn do_one(ctx: *mut raw::RedisModuleCtx) -> bool {
    let Some(task) = with(|waiting| waiting.queue.next(clock_us())) else { return false };
    match task {
        Task::Look(ticket) => look(ctx, ticket),
        Task::First(ticket, key) => match look_at_one(ctx, ticket, key) {
            Some(SeenKey::Denies { for_ms }) => stand(ticket, key, for_ms),
            Some(SeenKey::Else { .. }) | None => look(ctx, ticket),
        },
        Task::News(ticket, key) => match look_at_one(ctx, ticket, key) {
            Some(SeenKey::Else { has_room: false, .. }) => look(ctx, ticket),
            Some(SeenKey::Else { has_room: true, again_in_ms }) => look_again(ticket, again_in_ms),
            Some(SeenKey::Denies { .. }) | None => {}
        },
    }
    true
}

fn look_at_one(ctx: *mut raw::RedisModuleCtx, ticket: Ticket, key: usize) -> Option<SeenKey> {
    let (seat, left_ms) = (seat(ticket)?, seat(ticket)?.left_ms(clock_us()));
    Some(seat.as_call(ctx, |call| at_one(call, seat.wish(), key, clock_ms(), left_ms)))
}

fn stand(ticket: Ticket, key: usize, for_ms: i64) {
    with(|waiting| waiting.queue.stand(ticket, key, in_ms(for_ms.max(1)), clock_us()));
}

fn look_again(ticket: Ticket, in_ms_: Option<i64>) {
    if let Some(ms) = in_ms_ {
        with(|waiting| waiting.queue.look_again(ticket, in_ms(ms.max(1))));
    }
}

/// Looks at all keys of a waiter, and does what follows.
fn look(ctx: *mut raw::RedisModuleCtx, ticket: Ticket) {
    let Some(seat) = seat(ticket) else {
        with(|waiting| waiting.queue.leave(ticket, clock_us()));
        return;
    };
    let now_ms = clock_ms();
    let left_ms = seat.left_ms(clock_us());
    let look = || seat.as_call(ctx, |call| at_all(call, seat.wish(), now_ms, left_ms));
    let seen = look().or_else(|ahead| match correct(ctx, &seat, &ahead) {
        true => look(),
        false => Err(ahead),
    });
    let Ok(Seen { look, again_in_ms }) = seen else {
        return with(|waiting| waiting.queue.step_aside(ticket, in_ms(MOVING_MS), clock_us()));
    };
    look_again(ticket, again_in_ms);
    match look {
        Look::Waits { key, for_ms } => stand(ticket, key, for_ms),
        Look::Over => {
            if end(ctx, ticket) == Some(false) {
                with(|waiting| waiting.counts.denied += 1);
            }
        }
        Look::Served { .. } => match with(|waiting| waiting.queue.behind(ticket)) {
            Some(key) => stand(ticket, key, 0),
            None => serve(ctx, ticket, &seat, now_ms),
        },
    }
}

/// Calls the command of a waiter who can be served.
fn serve(ctx: *mut raw::RedisModuleCtx, ticket: Ticket, seat: &Seat, now_ms: i64) {
    let again_ms = match make(ctx, seat, now_ms, false) {
        Outcome::Answer(said) => {
            answer(ticket, said);
            return;
        }
        Outcome::NotYet => NOT_YET_MS,
        Outcome::SlotRefused(_) => MOVING_MS,
    };
    with(|waiting| waiting.queue.step_aside(ticket, in_ms(again_ms), clock_us()));
}
