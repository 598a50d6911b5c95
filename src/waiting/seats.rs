//! The clients that wait: how each is blocked and answered, and what happens when it is gone.
//!
//! Outside a cluster a client is blocked plainly. When a primary becomes a replica, the server
//! answers `UNBLOCKED` to every blocked client. When a client is killed or vanishes, the server
//! tells the module.
//!
//! In a cluster a client is blocked on a key, since the server answers `MOVED` only to clients
//! that are blocked on a key whose hash slot moved away. That key is not one of the client's own:
//! when a key is created, a server may walk all clients that are blocked on it once for each of
//! them. Any key of the same hash slot will do, so the module uses one that no application
//! creates.

use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use lazy_static::lazy_static;
use libc::{c_int, c_void};
use redis_module::{Context, RedisGILGuard, raw};
use rl_core::grammar::Arguments;
use rl_core::queue::{Queue, Ticket};
use rl_core::slot::{name_in, slot};

use super::clock::clock_us;
use super::look::{Wish, denial};
use super::queue;
use crate::acquisition::Reply;
use crate::api::{MainThread, api, clock_ms};
use crate::call::Call;

#[derive(Default)]
struct Seats {
    by_ticket: HashMap<Ticket, Rc<Seat>>,
    /// The ticket of each blocked client. The server identifies a client that vanished by its
    /// address.
    tickets: HashMap<*mut raw::RedisModuleBlockedClient, Ticket>,
    /// The number of clients that were answered, in whatever way.
    answers: u64,
}

lazy_static! {
    static ref SEATS: RedisGILGuard<Seats> = RedisGILGuard::default();
}

/// Gives a seat to a waiter that has joined the queue.
pub fn put(main: &MainThread, ticket: Ticket, seat: Seat) {
    let seats = &mut *SEATS.lock(main);
    seats.tickets.insert(seat.client, ticket);
    seats.by_ticket.insert(ticket, Rc::new(seat));
}

/// The seat of a waiter.
pub fn get(main: &MainThread, ticket: Ticket) -> Option<Rc<Seat>> {
    SEATS.lock(main).by_ticket.get(&ticket).cloned()
}

/// Takes a waiter out of the queue.
pub fn leave(main: &MainThread, ticket: Ticket) -> Option<Rc<Seat>> {
    queue::with(main, |queue: &mut Queue| queue.leave(ticket, clock_us()));
    let seats = &mut *SEATS.lock(main);
    let seat = seats.by_ticket.remove(&ticket)?;
    seats.tickets.remove(&seat.client);
    if seats.by_ticket.is_empty() {
        // Gives back the room of many waiters once the last one is gone.
        (seats.by_ticket, seats.tickets) = Default::default();
    }
    Some(seat)
}

/// The number of clients answered so far.
pub fn answers(main: &MainThread) -> u64 {
    SEATS.lock(main).answers
}

/// The answer to a client.
pub enum Said {
    /// The numbers.
    Reply(Reply),
    /// An error.
    Error(CString),
}

/// A client that waits.
pub struct Seat {
    client: *mut raw::RedisModuleBlockedClient,
    /// Its command, including the name. Retained.
    argv: Box<[*mut raw::RedisModuleString]>,
    db: i32,
    /// The name of its user; null if the server cannot find the user by name.
    user: *mut raw::RedisModuleString,
    deadline_us: i64,
    wish: Wish,
    /// The place for the answer to a client that is blocked on a key; `None` for one that is
    /// blocked plainly. The server keeps the place as long as the client is blocked.
    told: Option<NonNull<Option<Said>>>,
}

impl Seat {
    /// Blocks the client of a call, without a time-out.
    pub fn take(call: &Call, wish: Wish, deadline_us: i64) -> Seat {
        let (client, told) = match call.is_in_cluster() {
            true => {
                let (client, told) = block_on_key(call, &name_in(slot(call.get(0))));
                (client, Some(told))
            }
            false => (block_plainly(call), None),
        };
        // SAFETY: the client was blocked just now.
        unsafe { api!(RedisModule_SetDisconnectCallback)(client, Some(on_disconnected)) };
        let (argv, db) = (call.retain().into(), call.db());
        Seat { client, argv, db, user: user(call), deadline_us, wish, told }
    }

    /// The arguments of its command, including the name, and their number.
    pub fn argv(&self) -> (Vec<*mut raw::RedisModuleString>, c_int) {
        (self.argv.to_vec(), self.argv.len() as c_int)
    }

    /// The database of its keys.
    pub fn db(&self) -> i32 {
        self.db
    }

    /// The name of its user, if the server can find the user by name.
    pub fn user(&self) -> Option<*mut raw::RedisModuleString> {
        (!self.user.is_null()).then_some(self.user)
    }

    /// What it asked for.
    pub fn wish(&self) -> &Wish {
        &self.wish
    }

    /// How much longer the client will wait, in ms.
    pub fn left_ms(&self, now_us: i64) -> i64 {
        (self.deadline_us - now_us).max(0) / 1000
    }

    /// Whether it is blocked on a key, as clients of a cluster node are.
    pub fn is_on_key(&self) -> bool {
        self.told.is_some()
    }

    /// Calls `run` with the client's arguments, as if they were those of a running command.
    pub fn as_call<T>(&self, ctx: &Context, run: impl FnOnce(&Call) -> T) -> T {
        let (mut argv, argc) = self.argv();
        // SAFETY: the context is that of the running callback, and the arguments are retained as
        // long as the seat.
        unsafe {
            api!(RedisModule_SelectDb)(ctx.ctx, self.db);
            run(&Call::new(ctx.ctx, argv.as_mut_ptr(), argc))
        }
    }

    /// Answers the client, which must have left the queue.
    pub fn answer(&self, main: &MainThread, said: Said) {
        SEATS.lock(main).answers += 1;
        // SAFETY: the client is still blocked, since the server tells us of one that vanishes,
        // which then leaves. So the server still keeps the place for the answer. Without such a
        // place, the server takes the answer itself, and `free_said` frees it.
        unsafe {
            let said = match self.told {
                Some(told) => {
                    *told.as_ptr() = Some(said);
                    ptr::null_mut()
                }
                None => Box::into_raw(Box::new(said)),
            };
            api!(RedisModule_UnblockClient)(self.client, said.cast());
        }
    }

    /// Makes the server forget a plainly blocked client that it unblocked by itself. It forgets
    /// clients that are blocked on a key by itself.
    fn forget(&self) {
        if self.told.is_none() {
            // SAFETY: the client is still in the server's list of blocked clients, and is
            // unblocked once.
            unsafe { api!(RedisModule_UnblockClient)(self.client, ptr::null_mut()) };
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        for string in self.argv.iter().copied().chain(self.user()) {
            // SAFETY: retained without a context.
            unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), string) };
        }
    }
}

fn block_plainly(call: &Call) -> *mut raw::RedisModuleBlockedClient {
    // SAFETY: the context is that of the client's command, which may be blocked.
    unsafe {
        let (reply, timeout) = (Some(on_answer as _), Some(on_unblocked as _));
        api!(RedisModule_BlockClient)(call.context(), reply, timeout, Some(free_said), 0)
    }
}

/// Blocks a client on a key. Also returns the place for its answer.
fn block_on_key(
    call: &Call,
    key: &[u8],
) -> (*mut raw::RedisModuleBlockedClient, NonNull<Option<Said>>) {
    let told = NonNull::from(Box::leak(Box::<Option<Said>>::default()));
    // SAFETY: the context is that of the client's command, which may be blocked. The server
    // retains the key, and frees the place through `free_told`.
    unsafe {
        let null = ptr::null_mut();
        let mut key = api!(RedisModule_CreateString)(null, key.as_ptr().cast(), key.len());
        let client = api!(RedisModule_BlockClientOnKeys)(
            call.context(),
            Some(on_ready),
            Some(on_unblocked),
            Some(free_told),
            0,
            &mut key,
            1,
            told.as_ptr().cast(),
        );
        api!(RedisModule_FreeString)(null, key);
        (client, told)
    }
}

/// The name of the user of a call, which the caller must free without a context. Null if the
/// server cannot find the user by name, as with a user of another module.
fn user(call: &Call) -> *mut raw::RedisModuleString {
    // SAFETY: the context is that of the client's command.
    unsafe {
        let name = api!(RedisModule_GetCurrentUserName)(call.context());
        let user = api!(RedisModule_GetModuleUserFromUserName)(name);
        if user.is_null() {
            api!(RedisModule_FreeString)(call.context(), name);
            return ptr::null_mut();
        }
        api!(RedisModule_FreeModuleUser)(user);
        name
    }
}

fn send(call: &Call, said: &Said) {
    match said {
        Said::Reply(reply) => reply.send(call),
        Said::Error(message) => call.reply_error(message),
    }
}

/// Called when the key on which a client is blocked was created. That means nothing here.
unsafe extern "C" fn on_ready(
    _: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    raw::REDISMODULE_ERR as c_int
}

/// Sends the answer to a client that was blocked plainly.
unsafe extern "C" fn on_answer(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: context and arguments are those of the client's command; the private data is that of
    // `Seat::answer`.
    unsafe {
        let said = api!(RedisModule_GetBlockedClientPrivateData)(ctx).cast::<Said>();
        if let Some(said) = said.as_ref() {
            send(&Call::new(ctx, argv, argc), said);
        }
    }
    raw::REDISMODULE_OK as c_int
}

/// Sends the answer to a client that was blocked on a key. Otherwise it answers a `CLIENT UNBLOCK`
/// with a denial, as if the time were over.
unsafe extern "C" fn on_unblocked(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: context and arguments are those of the client's command; the private data, if any, is
    // that of `block_on_key`.
    let (call, client, told) = unsafe {
        let told = api!(RedisModule_GetBlockedClientPrivateData)(ctx).cast::<Option<Said>>();
        let client = api!(RedisModule_GetBlockedClientHandle)(ctx);
        (Call::new(ctx, argv, argc), client, told.as_mut())
    };
    if let Some(said) = told.and_then(Option::take) {
        send(&call, &said);
    } else if let Some(seat) = leave_client(call.main_thread(), client) {
        match denial(&call, seat.wish(), clock_ms()) {
            Ok(reply) => reply.send(&call),
            Err(failure) => call.reply_failure(&failure),
        }
        seat.forget();
    }
    raw::REDISMODULE_OK as c_int
}

/// Called when the connection is gone, or the server answered by itself.
unsafe extern "C" fn on_disconnected(
    _: *mut raw::RedisModuleCtx,
    client: *mut raw::RedisModuleBlockedClient,
) {
    // SAFETY: the server calls this on its main thread.
    let main = unsafe { MainThread::in_callback() };
    if let Some(seat) = leave_client(&main, client) {
        seat.forget();
    }
}

/// Takes a client out of the queue; `None` if it was answered before.
fn leave_client(main: &MainThread, client: *mut raw::RedisModuleBlockedClient) -> Option<Rc<Seat>> {
    let ticket = SEATS.lock(main).tickets.get(&client).copied()?;
    let seat = leave(main, ticket);
    queue::arm(main);
    seat
}

unsafe extern "C" fn free_said(_: *mut raw::RedisModuleCtx, said: *mut c_void) {
    // SAFETY: `Seat::answer` boxed it, and the server gives it up.
    drop(unsafe { Box::from_raw(said.cast::<Said>()) });
}

unsafe extern "C" fn free_told(_: *mut raw::RedisModuleCtx, told: *mut c_void) {
    // SAFETY: `block_on_key` boxed it, and the server gives it up.
    drop(unsafe { Box::from_raw(told.cast::<Option<Said>>()) });
}
