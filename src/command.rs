//! A command, and the guard between it and the server.
//!
//! Commands are plain `extern "C"` functions over the argument vector: the crate's wrapper copies
//! each argument and reply, which costs more than a decision does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_int;
use redis_module::raw;

use crate::call::Call;
use crate::entry::Entry;
use crate::failure::Failure;
use crate::{counters, log};

/// A command of the module.
pub trait Command {
    /// The command's declaration.
    const ENTRY: Entry;

    /// Runs the command. It sends its reply itself, or returns the error to answer.
    fn run(call: &Call) -> Result<(), Failure>;
}

/// The function that the server calls for a command. A panic would take the whole server down, and
/// unwinding into C is undefined behaviour. So a panic ends here as an error reply. No code path
/// is meant to get there.
pub unsafe extern "C" fn guarded<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server calls this for a command, on its main thread, with its arguments.
    let call = unsafe { Call::new(ctx, argv, argc) };
    match catch_unwind(AssertUnwindSafe(|| C::run(&call))) {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => {
            counters::count_error();
            call.reply_failure(&failure);
        }
        Err(_) => {
            counters::count_error();
            log::warning("a command panicked");
            call.reply_error(c"ERR internal error");
        }
    }
    raw::REDISMODULE_OK as c_int
}
