//! A waiter's call made again: by the server, with the client's own arguments and in its name.
//!
//! A look said before that it can be served. The attempt judges by the clock of that look. If it is
//! denied even so, the denial is like a look: it starts no block and is not counted. Only the last
//! attempt, at the end of the wait, is a call like any other, whose denial is the answer.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io;

use redis_module::{Context, raw};

use super::seats::{Said, Seat};
use crate::acquisition::Reply;
use crate::api::api;
use crate::call::Call;

/// What became of an attempt.
pub enum Outcome {
    /// This is the answer.
    Answer(Said),
    /// It was denied, which is no answer yet.
    NotYet,
    /// The server refuses the hash slot of the keys for now. The error to answer, if the wait is
    /// over.
    SlotRefused(&'static CStr),
}

#[derive(Clone, Copy)]
struct Attempt {
    now_ms: i64,
    last: bool,
    /// Whether the command was reached.
    ran: bool,
}

thread_local! {
    /// The attempt that is going on: the main thread's, where all commands run.
    static GOING_ON: Cell<Option<Attempt>> = const { Cell::new(None) };
}

/// Whether the call is an attempt, and if so whether it is the last one.
pub fn is_last() -> Option<bool> {
    GOING_ON.get().map(|attempt| attempt.last)
}

/// The moment by which a call with a `TIMEOUT` is judged: for an attempt, that of its look, since
/// the server's clock may have run on.
pub fn now_ms(call: &Call) -> i64 {
    match GOING_ON.get() {
        None => call.now_ms(),
        Some(attempt) => {
            GOING_ON.set(Some(Attempt { ran: true, ..attempt }));
            attempt.now_ms
        }
    }
}

/// Whether the user behind a waiter may still do what it asked for.
fn is_permitted(seat: &Seat) -> bool {
    let Some(name) = seat.user() else { return true };
    let (mut argv, argc) = seat.argv();
    // SAFETY: the name and the arguments are retained by the seat; the user is freed here.
    unsafe {
        let user = api!(RedisModule_GetModuleUserFromUserName)(name);
        if user.is_null() {
            return false;
        }
        let permitted = api!(RedisModule_ACLCheckCommandPermissions)(user, argv.as_mut_ptr(), argc);
        api!(RedisModule_FreeModuleUser)(user);
        permitted == raw::REDISMODULE_OK as i32
    }
}

const NO_PERMISSION: &CStr = c"NOPERM the user may no longer run this command on these keys";

/// Makes the call of a waiter again, at the moment of a look.
pub fn make(ctx: &Context, seat: &Seat, now_ms: i64, last: bool) -> Outcome {
    if !is_permitted(seat) {
        return Outcome::Answer(Said::Error(NO_PERMISSION.into()));
    }
    let (mut argv, _) = seat.argv();
    GOING_ON.set(Some(Attempt { now_ms, last, ran: false }));
    // SAFETY: the context is that of the timer, and the seat retains the arguments. "!ESMv":
    // replicate what it writes, give errors as replies, with the checks of a script, and a vector
    // of arguments with its length.
    let (said, refusal) = unsafe {
        api!(RedisModule_SelectDb)(ctx.ctx, seat.db());
        let (args, len) = (argv.as_mut_ptr().add(1), argv.len() - 1);
        let name = c"RL.ACQUIREX".as_ptr();
        let reply = api!(RedisModule_Call)(ctx.ctx, name, c"!ESMv".as_ptr(), args, len);
        let refusal = io::Error::last_os_error().raw_os_error();
        let said = read_reply(reply);
        api!(RedisModule_FreeCallReply)(reply);
        (said, refusal)
    };
    let ran = GOING_ON.take().is_some_and(|attempt| attempt.ran);
    match said {
        None => Outcome::NotYet,
        Some(Said::Error(_)) if !ran && seat.is_on_key() => match refusal {
            // `RM_Call` sets these for a hash slot that is not or not wholly on this node.
            Some(libc::EPERM) => Outcome::SlotRefused(MOVING),
            Some(libc::ENETDOWN | libc::EROFS) => Outcome::SlotRefused(DOWN),
            _ => Outcome::Answer(said.unwrap_or_else(internal_error)),
        },
        Some(said) => Outcome::Answer(said),
    }
}

/// A client reads these when its call comes while a hash slot moves, or while the cluster is down.
const MOVING: &CStr = c"TRYAGAIN the slot of these keys is moving";
const DOWN: &CStr = c"CLUSTERDOWN the cluster is down";

fn internal_error() -> Said {
    Said::Error(c"ERR internal error".into())
}

/// Copies what the server answered a call, `None` for null. The server's own reply refers to the
/// context of the timer, which is gone by the time the answer is sent.
///
/// # Safety
/// The reply is alive, or null.
unsafe fn read_reply(reply: *mut raw::RedisModuleCallReply) -> Option<Said> {
    // SAFETY: the reply is alive as long as the caller leaves it, and what it is made of as long as
    // it is. The server answers null for elements that are not there.
    unsafe {
        let integers = |array: *mut raw::RedisModuleCallReply| {
            let len = api!(RedisModule_CallReplyLength)(array);
            let element = |i| api!(RedisModule_CallReplyArrayElement)(array, i);
            (0..len).map(|i| api!(RedisModule_CallReplyInteger)(element(i))).collect::<Vec<i64>>()
        };
        if reply.is_null() {
            return Some(internal_error());
        }
        match api!(RedisModule_CallReplyType)(reply) as isize {
            raw::REDISMODULE_REPLY_NULL => return None,
            raw::REDISMODULE_REPLY_ARRAY => {}
            _ => {
                let mut len = 0;
                let bytes = api!(RedisModule_CallReplyStringPtr)(reply, &mut len);
                if bytes.is_null() {
                    return Some(internal_error());
                }
                let message = std::slice::from_raw_parts(bytes.cast(), len);
                return Some(CString::new(message).map_or_else(|_| internal_error(), Said::Error));
            }
        }
        let keys = api!(RedisModule_CallReplyArrayElement)(reply, Reply::FIELDS);
        let keys = (!keys.is_null()).then(|| {
            let len = api!(RedisModule_CallReplyLength)(keys);
            let key = |i| integers(api!(RedisModule_CallReplyArrayElement)(keys, i));
            (0..len).map(key).collect::<Vec<_>>()
        });
        Some(Said::Reply(Reply::read(&integers(reply), keys)))
    }
}

/// Corrects limiters that are ahead of a clock that stepped back, as any write to them does. `keys`
/// are places. Says whether that was possible.
pub fn correct(ctx: &Context, seat: &Seat, keys: &[usize]) -> bool {
    let (argv, _) = seat.argv();
    let mut keys: Vec<_> = keys.iter().filter_map(|key| argv.get(key + 1).copied()).collect();
    // SAFETY: as in `make`, and "cc" takes two C strings. A refund of nothing changes nothing else.
    unsafe {
        api!(RedisModule_SelectDb)(ctx.ctx, seat.db());
        let (args, len) = (keys.as_mut_ptr(), keys.len());
        let (name, format) = (c"RL.REFUND".as_ptr(), c"!ESMvcc".as_ptr());
        let (word, none) = (c"COST".as_ptr(), c"0".as_ptr());
        let reply = api!(RedisModule_Call)(ctx.ctx, name, format, args, len, word, none);
        if reply.is_null() {
            return false;
        }
        let is_error =
            api!(RedisModule_CallReplyType)(reply) as isize == raw::REDISMODULE_REPLY_ERROR;
        api!(RedisModule_FreeCallReply)(reply);
        !is_error
    }
}
