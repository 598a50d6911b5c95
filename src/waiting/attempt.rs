//! Makes a waiter's call again: through the server, with the client's own arguments and in its
//! name.
//!
//! A look has said that the call can be granted. The attempt judges by the clock of that look. If
//! it is denied after all, the denial has no more effect than a look: it starts no block and is
//! not counted. Only the last attempt, at the end of the wait, is a call like any other. Its
//! denial is the answer.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io;

use redis_module::{Context, raw};

use super::seats::{Said, Seat};
use crate::acquisition::Reply;
use crate::api::api;
use crate::call::Call;

/// The outcome of an attempt.
pub enum Outcome {
    /// The answer to the client.
    Answer(Said),
    /// A denial, which is no answer yet.
    NotYet,
    /// The server refuses the hash slot of the keys for now. The error is the answer if the wait
    /// is over.
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
    /// The attempt under way. It is the main thread's, where all commands run.
    static GOING_ON: Cell<Option<Attempt>> = const { Cell::new(None) };
}

/// Whether the call is the last attempt; `None` if it is no attempt.
pub fn is_last() -> Option<bool> {
    GOING_ON.get().map(|attempt| attempt.last)
}

/// The moment by which a call with a `TIMEOUT` is judged. For an attempt, this is the moment of
/// its look, since the server's clock may have run on.
pub fn now_ms(call: &Call) -> i64 {
    match GOING_ON.get() {
        None => call.now_ms(),
        Some(attempt) => {
            GOING_ON.set(Some(Attempt { ran: true, ..attempt }));
            attempt.now_ms
        }
    }
}

/// Whether the user of a waiter may still run its command.
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
            // `RM_Call` sets these for a hash slot that is not on this node, or only in part.
            Some(libc::EPERM) => Outcome::SlotRefused(MOVING),
            Some(libc::ENETDOWN | libc::EROFS) => Outcome::SlotRefused(DOWN),
            _ => Outcome::Answer(said.unwrap_or_else(internal_error)),
        },
        Some(said) => Outcome::Answer(said),
    }
}

/// The errors of a client whose call comes while a hash slot moves, or while the cluster is down.
const MOVING: &CStr = c"TRYAGAIN the slot of these keys is moving";
const DOWN: &CStr = c"CLUSTERDOWN the cluster is down";

fn internal_error() -> Said {
    Said::Error(c"ERR internal error".into())
}

/// Copies the server's reply to a call; `None` if it is null. The original refers to the context
/// of the timer, which no longer exists when the answer is sent.
///
/// # Safety
/// The reply is alive, or null.
unsafe fn read_reply(reply: *mut raw::RedisModuleCallReply) -> Option<Said> {
    // SAFETY: the reply lives until the caller frees it, and its elements live as long as it does.
    // The server returns null for elements that do not exist.
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

/// Corrects limiters that are ahead of a clock that stepped back, as any write to them does.
/// `keys` are their places. Returns whether that was possible.
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
