//! One invocation of a command: arguments, clock, reply, replication.
//!
//! Commands are plain `extern "C"` functions over the argument vector: the crate's wrapper copies
//! each argument and reply, which costs more than a decision does. A panic never reaches the
//! server: see [`entry`].

use std::ffi::{CStr, CString};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use libc::c_int;
use redis_module::{Context, RedisValue, raw};
use rl_core::grammar::Arguments;
use rl_core::grammar::error::RequestError;
use rl_core::policy::MOST_TEMPORARY;
use smallvec::SmallVec;

use crate::api::{MainThread, api, clock_ms};
use crate::keys::{Access, Key};
use crate::{log, metrics};

/// A command of the module.
pub trait Command {
    /// Runs the command. It answers itself, or returns the error to answer.
    fn run(call: &Call) -> Result<(), Failure>;
}

/// Why a command answers an error.
#[derive(Debug)]
pub enum Failure {
    /// A malformed request.
    Request(Box<RequestError>),
    /// A key holds something else than a limiter.
    WrongType,
    /// Keys of several slots.
    CrossSlot,
    /// A new limiter or a longer log, and no memory for it.
    OutOfMemory,
    /// A client called what is for replication only.
    NotForClients,
    /// One more policy for a time than a name can have.
    TooManyPolicies,
}

impl From<Box<RequestError>> for Failure {
    fn from(error: Box<RequestError>) -> Failure {
        Failure::Request(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Request(error) => write!(f, "ERR {error}"),
            Failure::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Failure::CrossSlot => {
                f.write_str("CROSSSLOT Keys in request don't hash to the same slot")
            }
            Failure::OutOfMemory => {
                f.write_str("OOM command not allowed when used memory > 'maxmemory'.")
            }
            Failure::NotForClients => {
                f.write_str("ERR this command is sent by a primary to its replicas, not by clients")
            }
            Failure::TooManyPolicies => write!(
                f,
                "ERR a name can have {MOST_TEMPORARY} policies with FOR at once, DEL it first"
            ),
        }
    }
}

/// Where a call comes from, as far as writes are concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client, a transaction or a script.
    Client,
    /// The primary of this replica.
    Primary,
    /// The AOF at start-up.
    Aof,
}

/// One invocation of a command.
pub struct Call {
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: usize,
    main: MainThread,
}

/// The arguments without the command's name.
impl Arguments for Call {
    fn count(&self) -> usize {
        self.argc.saturating_sub(1)
    }

    fn get(&self, index: usize) -> &[u8] {
        let Some(arg) = self.arg(index) else {
            return &[];
        };
        let mut len = 0;
        // SAFETY: an argument of the running command, which the server keeps until it returns.
        unsafe {
            let bytes = api!(RedisModule_StringPtrLen)(arg, &mut len);
            std::slice::from_raw_parts(bytes.cast(), len)
        }
    }
}

impl Call {
    /// A call of a command that a callback gets as its client sent it.
    ///
    /// # Safety
    /// The server runs the callback whose context this is, on its main thread, and the arguments live
    /// as long as the call.
    pub unsafe fn new(
        ctx: *mut raw::RedisModuleCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
    ) -> Call {
        // SAFETY: the caller answers for it.
        let main = unsafe { MainThread::in_callback() };
        Call { ctx, argv, argc: argc as usize, main }
    }

    /// The server's context of the call.
    pub fn context(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// Retains the arguments and the name beyond the call. Each is to be freed without a context.
    pub fn retain(&self) -> Vec<*mut raw::RedisModuleString> {
        // SAFETY: `argv` has `argc` elements. Without a context the server does not free by itself.
        let hold = |i| unsafe { api!(RedisModule_HoldString)(ptr::null_mut(), *self.argv.add(i)) };
        (0..self.argc).map(hold).collect()
    }

    /// Whether the client cannot be blocked: in a transaction, a script, or another module's call.
    pub fn denies_blocking(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING != 0
    }

    /// Whether the server is a node of a cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0
    }

    fn arg(&self, index: usize) -> Option<*mut raw::RedisModuleString> {
        // SAFETY: `argv` has `argc` elements, and the index is below that.
        (index + 1 < self.argc).then(|| unsafe { *self.argv.add(index + 1) })
    }

    /// The server's clock, in ms of epoch time. To be read once for a command.
    pub fn now_ms(&self) -> i64 {
        clock_ms()
    }

    /// The number of the selected database.
    pub fn db(&self) -> i32 {
        // SAFETY: `ctx` is the context of the running command.
        unsafe { api!(RedisModule_GetSelectedDb)(self.ctx) }
    }

    /// Proof that this is the server's main thread: commands run nowhere else.
    pub fn main_thread(&self) -> &MainThread {
        &self.main
    }

    /// Opens the key at an index of the arguments.
    pub fn open(&self, index: usize, access: Access) -> Result<Key<'_>, Failure> {
        let name = self.arg(index).unwrap_or(ptr::null_mut());
        // SAFETY: context and name belong to the running command, which the key does not outlive.
        unsafe { Key::open(self.ctx, name, access) }
    }

    /// Whether the server is above `maxmemory` and may not evict. Where it may, it goes below again
    /// by itself: limiters have a TTL, so every policy can evict them.
    pub fn is_out_of_memory(&self) -> bool {
        let flags = self.flags();
        flags & raw::REDISMODULE_CTX_FLAGS_OOM != 0 && flags & raw::REDISMODULE_CTX_FLAGS_EVICT == 0
    }

    fn flags(&self) -> u32 {
        // SAFETY: `ctx` is the context of the running command.
        unsafe { api!(RedisModule_GetContextFlags)(self.ctx) as u32 }
    }

    /// Where the call comes from.
    pub fn origin(&self) -> Origin {
        let flags = self.flags();
        if flags & raw::REDISMODULE_CTX_FLAGS_LOADING != 0 {
            Origin::Aof
        } else if flags & raw::REDISMODULE_CTX_FLAGS_REPLICATED != 0 {
            Origin::Primary
        } else {
            Origin::Client
        }
    }

    /// Sends the effect on one key, an argument, to the replicas and the AOF.
    pub fn replicate(&self, key: usize, blob: &[u8]) {
        let name = self.arg(key).unwrap_or(ptr::null_mut());
        let (bytes, len) = (blob.as_ptr(), blob.len());
        // SAFETY: "sb" takes a string and a buffer with its length; both outlive the call.
        unsafe {
            api!(RedisModule_Replicate)(
                self.ctx,
                EFFECT.as_ptr(),
                c"sb".as_ptr(),
                name,
                bytes,
                len,
            );
        }
    }

    /// Sends policies to the replicas and the AOF.
    pub fn replicate_policies(&self, blob: &[u8]) {
        let (bytes, len) = (blob.as_ptr(), blob.len());
        // SAFETY: "b" takes a buffer with its length, which outlives the call.
        unsafe {
            api!(RedisModule_Replicate)(
                self.ctx,
                c"RL._POLICY".as_ptr(),
                c"b".as_ptr(),
                bytes,
                len,
            );
        }
    }

    /// Whether a directive of the server has this value.
    pub fn config_is(&self, directive: &str, value: &str) -> bool {
        let reply: redis_module::RedisResult =
            Context::new(self.ctx).call("CONFIG", &["GET", directive]);
        match reply {
            Ok(RedisValue::Array(pair)) => pair.get(1).is_some_and(|found| match found {
                RedisValue::SimpleString(found) => found == value,
                RedisValue::StringBuffer(found) => found == value.as_bytes(),
                RedisValue::BulkString(found) => found == value,
                _ => false,
            }),
            _ => false,
        }
    }

    /// Sends the call on as it came.
    pub fn replicate_verbatim(&self) {
        // SAFETY: `ctx` is the context of the running command.
        unsafe { api!(RedisModule_ReplicateVerbatim)(self.ctx) };
    }

    /// Begins the answer with an array of so many elements, which follow.
    pub fn reply_array(&self, len: usize) {
        // SAFETY: `ctx` is the context of the running command.
        unsafe { api!(RedisModule_ReplyWithArray)(self.ctx, len as _) };
    }

    /// Answers integers, one after the other.
    pub fn reply_integers(&self, integers: &[i64]) {
        // SAFETY: `ctx` is the context of the running command.
        unsafe {
            for integer in integers {
                api!(RedisModule_ReplyWithLongLong)(self.ctx, *integer);
            }
        }
    }

    /// Begins the answer with a map of so many fields, which follow (a flat array in RESP2).
    pub fn reply_map(&self, len: usize) {
        // SAFETY: `ctx` is the context of the running command.
        unsafe { api!(RedisModule_ReplyWithMap)(self.ctx, len as _) };
    }

    /// Answers a string.
    pub fn reply_string(&self, string: &str) {
        self.reply_bytes(string.as_bytes());
    }

    /// Answers a string of any bytes.
    pub fn reply_bytes(&self, bytes: &[u8]) {
        // SAFETY: `ctx` is the context of the running command; the server copies the buffer.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer)(self.ctx, bytes.as_ptr().cast(), bytes.len())
        };
    }

    /// Answers null.
    pub fn reply_null(&self) {
        // SAFETY: `ctx` is the context of the running command.
        unsafe { api!(RedisModule_ReplyWithNull)(self.ctx) };
    }

    /// Answers `OK`.
    pub fn reply_ok(&self) {
        // SAFETY: `ctx` is the context of the running command.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.ctx, c"OK".as_ptr()) };
    }

    /// Answers an error, with its code at the front.
    pub fn reply_error(&self, message: &CStr) {
        // SAFETY: `ctx` is the context of the running command, and the message outlives the call.
        unsafe { api!(RedisModule_ReplyWithError)(self.ctx, message.as_ptr()) };
    }

    /// Answers why a command failed.
    pub fn reply_failure(&self, failure: &Failure) {
        self.reply_error(&CString::new(failure.to_string()).unwrap_or_default());
    }
}

/// The command that carries effects.
const EFFECT: &CStr = c"RL._EFFECT";

/// Effects on several keys, which go to the replicas and the AOF as one command.
pub struct Effects<'call> {
    call: &'call Call,
    /// A key, its blob, the next key and so on. The blobs are ours to free.
    argv: SmallVec<[*mut raw::RedisModuleString; 16]>,
}

impl<'call> Effects<'call> {
    /// None yet.
    pub fn new(call: &'call Call) -> Effects<'call> {
        Effects { call, argv: SmallVec::new() }
    }

    /// Adds the effect on a key, an argument.
    pub fn push(&mut self, key: usize, blob: &[u8]) {
        self.argv.push(self.call.arg(key).unwrap_or(ptr::null_mut()));
        // SAFETY: the server copies the buffer.
        self.argv.push(unsafe {
            api!(RedisModule_CreateString)(self.call.ctx, blob.as_ptr().cast(), blob.len())
        });
    }

    /// Sends them, if there are any.
    pub fn replicate(mut self) {
        if self.argv.is_empty() {
            return;
        }
        let (strings, len) = (self.argv.as_mut_ptr(), self.argv.len());
        // SAFETY: "v" takes a vector of strings and its length. The server retains what it keeps.
        unsafe {
            let ctx = self.call.ctx;
            api!(RedisModule_Replicate)(ctx, EFFECT.as_ptr(), c"v".as_ptr(), strings, len);
        }
    }
}

impl Drop for Effects<'_> {
    fn drop(&mut self) {
        for blob in self.argv.iter().skip(1).step_by(2) {
            // SAFETY: made by `push`, and not used any more.
            unsafe { api!(RedisModule_FreeString)(self.call.ctx, *blob) };
        }
    }
}

/// What the server calls for a command. A panic would take the whole server with it, and unwinding
/// into C is undefined: it ends here as an error reply. No code path is meant to reach that.
pub extern "C" fn entry<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server calls this for a command, on its main thread, with its arguments.
    let call = unsafe { Call::new(ctx, argv, argc) };
    match catch_unwind(AssertUnwindSafe(|| C::run(&call))) {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => {
            metrics::count_error();
            call.reply_failure(&failure);
        }
        Err(_) => {
            metrics::count_error();
            log::warning("a command panicked");
            call.reply_error(c"ERR internal error");
        }
    }
    raw::REDISMODULE_OK as c_int
}
