//! `TIMEOUT`: clients that wait in the server for permits.
//!
//! | module | what it is for |
//! |---|---|
//! | `seats` | a client that waits: how it is blocked, answered and lost |
//! | `look` | what its call would be told now, which changes nothing |
//! | [`attempt`] | its call made again, once a look says that it can be served |
//! | `service` | the timer that does what [`rl_core::queue`] says is to be done, in slices |
//! | `events` | what the server tells: databases that change, configuration, clocks that step |
//!
//! A client that waits holds no permit. Whoever can be served is, by calling `RL.ACQUIREX` again with
//! the same arguments: the server then applies its own rules (a slot that is moving, a replica that
//! is missing) as for any client, and the permits are deducted and replicated as by any other call.
//!
//! Times of the queue are microseconds of a clock that never steps. A limiter's time is the wall
//! clock's: what it says is counted from the moment at which it says it.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use lazy_static::lazy_static;
use redis_module::{RedisGILGuard, raw};
use rl_core::decision::Terms;
use rl_core::grammar::{Arguments, Named, Request};
use rl_core::queue::{Queue, Ticket};
use smallvec::SmallVec;

use crate::api::MainThread;
use crate::call::Call;
use crate::config;
use crate::limiters::Limiters;

pub mod attempt;
mod events;
mod look;
mod seats;
mod service;

pub use events::subscribe;

use look::{Look, Wish};
use seats::Seat;

#[derive(Default)]
struct Waiting {
    queue: Queue,
    seats: HashMap<Ticket, Rc<Seat>>,
    /// Whose seat a blocked client's is: the server tells of one that vanished by its address.
    tickets: HashMap<*mut raw::RedisModuleBlockedClient, Ticket>,
    /// The timer that is set, and for when.
    timer: Option<(raw::RedisModuleTimerID, i64)>,
    counts: Counts,
    /// Clients that were answered, however.
    answers: u64,
    /// How far the wall clock was ahead of ours when it was last looked at, in ms.
    wall_ahead_ms: i64,
}

/// Waits that came to an end.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// By a grant.
    pub granted: u64,
    /// By a denial at the deadline.
    pub timed_out: u64,
    /// By a denial before, since the wait had become hopeless.
    pub denied: u64,
}

// SAFETY: only ever looked at on the main thread, which `RedisGILGuard` makes sure of.
unsafe impl Send for Waiting {}

lazy_static! {
    static ref WAITING: RedisGILGuard<Waiting> = RedisGILGuard::default();
}

/// How many wait, where each grant can look.
static WAITERS: AtomicUsize = AtomicUsize::new(0);

/// Looks at the state. Nothing that can call back into this module may run inside: opening a key may
/// let it expire.
fn with<T>(look: impl FnOnce(&mut Waiting) -> T) -> T {
    // SAFETY: all that calls this are commands and callbacks, which run on the main thread.
    let main = unsafe { MainThread::in_callback() };
    look(&mut WAITING.lock(&main))
}

/// How many clients wait.
#[inline(always)]
pub fn waiters() -> usize {
    WAITERS.load(Ordering::Relaxed)
}

/// How waits ended.
pub fn counts() -> Counts {
    with(|waiting| waiting.counts)
}

/// A clock that never steps, in microseconds.
fn clock_us() -> i64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_micros() as i64
}

/// So many ms from now.
fn in_ms(wait_ms: i64) -> i64 {
    clock_us().saturating_add(wait_ms.saturating_mul(1000))
}

/// What the queue calls a key in a database.
fn name(db: i32, key: &[u8]) -> SmallVec<[u8; 64]> {
    let mut name = SmallVec::from_slice(&db.to_le_bytes());
    name.extend_from_slice(key);
    name
}

/// Whether a call with a `TIMEOUT` needs no answer now: its client waits, since the call would be
/// denied or would overtake others who wait. `asked` are its rules as they came, `rules` those in
/// force.
pub fn waits(
    call: &Call,
    request: &Request<'_>,
    asked: &[Named<'_>],
    rules: &[Named<'_>],
    limiters: &Limiters<'_>,
    terms: &Terms<'_>,
) -> bool {
    let is_last = attempt::is_last();
    if is_last.unwrap_or_else(|| !may_wait(call)) {
        return false;
    }
    let seen = look::judge(request, rules, limiters, terms, request.options.timeout_ms);
    if is_last.is_some() {
        // It waits already. A look said that it can be served; should it turn out otherwise, it goes
        // on waiting.
        let refused = !matches!(seen.look, Look::Served { .. });
        if refused {
            call.reply_null();
        }
        return refused;
    }
    let (key, wait_ms) = match seen.look {
        Look::Over => return false,
        Look::Waits { key, for_ms } => (key, for_ms),
        // A holder who keeps what it has stands in nobody's way.
        Look::Served { asks_more } => match first_with_line(call, &asks_more) {
            Some(key) => (key, 0),
            None => return false,
        },
    };
    let wish = Wish::new(request, asked);
    let ends_in_ms = [seen.again_in_ms, wish.policy_ends_in_ms(call, terms.now_ms)];
    let deadline_us = in_ms(request.options.timeout_ms);
    let names = (0..request.keys).map(|key| name(call.db(), call.get(key))).collect::<Vec<_>>();
    let ticket =
        with(|waiting| waiting.queue.join(names.iter().map(|name| name.as_slice()), deadline_us));
    let seat = Seat::take(call, wish, deadline_us);
    with(|waiting| {
        if waiting.seats.is_empty() {
            waiting.wall_ahead_ms = events::wall_ahead_ms();
        }
        waiting.tickets.insert(seat.client(), ticket);
        waiting.seats.insert(ticket, Rc::new(seat));
        waiting.queue.stand(ticket, key, in_ms(wait_ms), clock_us());
        if let Some(ms) = ends_in_ms.into_iter().flatten().min() {
            waiting.queue.look_again(ticket, in_ms(ms));
        }
        WAITERS.store(waiting.queue.len(), Ordering::Relaxed);
    });
    service::arm();
    true
}

/// Whether one more may wait, here and now.
fn may_wait(call: &Call) -> bool {
    waiters() < config::max_waiters() && !call.denies_blocking()
}

/// The first of these keys of a call that keeps somebody waiting: a newcomer who can wait queues behind.
fn first_with_line(call: &Call, keys: &[usize]) -> Option<usize> {
    if waiters() == 0 {
        return None;
    }
    let db = call.db();
    let has_line =
        |key: &&usize| with(|waiting| waiting.queue.has_line(&name(db, call.get(**key))));
    keys.iter().find(has_line).copied()
}

/// Takes a waiter out of the queue.
fn leave(ticket: Ticket) -> Option<Rc<Seat>> {
    with(|waiting| {
        waiting.queue.leave(ticket, clock_us());
        WAITERS.store(waiting.queue.len(), Ordering::Relaxed);
        let seat = waiting.seats.remove(&ticket)?;
        waiting.tickets.remove(&seat.client());
        if waiting.seats.is_empty() {
            // Room for many is not kept when nobody is left.
            (waiting.seats, waiting.tickets) = Default::default();
        }
        Some(seat)
    })
}

/// Says that a key may have room for who waits for it.
pub fn has_room(db: i32, key: &[u8]) {
    let name = name(db, key);
    let woken =
        with(|waiting| waiting.queue.has_line(&name) && waiting.queue.has_room(&name, clock_us()));
    if woken {
        service::arm();
    }
}

/// Says that a key may have room for who waits for it, or deny them for longer than before.
pub fn changed(db: i32, key: &[u8]) {
    if with(|waiting| waiting.queue.changed(&name(db, key), clock_us())) {
        service::arm();
    }
}

/// Says that any key may have room, or deny for longer than before.
pub fn all_changed() {
    if waiters() > 0 {
        with(|waiting| waiting.queue.all_changed());
        service::arm();
    }
}
