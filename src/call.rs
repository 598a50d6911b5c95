//! One call of a command: its arguments, its moment and its origin.

use std::ptr;

use libc::c_int;
use redis_module::raw;
use rl_core::grammar::Arguments;

use crate::api::{MainThread, api, clock_ms};

/// The origin of a call, as far as writes are concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client, a transaction or a script.
    Client,
    /// The primary of this replica.
    Primary,
    /// The AOF, at start-up.
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
    /// A call, from the arguments of a callback.
    ///
    /// # Safety
    /// The server runs the callback whose context this is, on its main thread, and the arguments
    /// live as long as the call.
    pub unsafe fn new(
        ctx: *mut raw::RedisModuleCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
    ) -> Call {
        // SAFETY: the caller vouches for it.
        let main = unsafe { MainThread::in_callback() };
        Call { ctx, argv, argc: argc as usize, main }
    }

    /// The server's context of the call.
    pub fn context(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// Retains the command's name and the arguments beyond the call. The caller must free each,
    /// without a context.
    pub fn retain(&self) -> Vec<*mut raw::RedisModuleString> {
        // SAFETY: `argv` has `argc` elements. Without a context the server does not free by itself.
        let retain =
            |i| unsafe { api!(RedisModule_HoldString)(ptr::null_mut(), *self.argv.add(i)) };
        (0..self.argc).map(retain).collect()
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

    /// The server's own string of an argument; null if there is none. It lives as long as the
    /// call.
    pub fn string(&self, index: usize) -> *mut raw::RedisModuleString {
        self.arg(index).unwrap_or(ptr::null_mut())
    }

    /// The server's clock, in ms of epoch time. A command reads it once.
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

    /// Whether the server is above `maxmemory` and may not evict. If it may, it gets below again
    /// by itself: limiters have a TTL, so every eviction policy can evict them.
    pub fn is_out_of_memory(&self) -> bool {
        let flags = self.flags();
        flags & raw::REDISMODULE_CTX_FLAGS_OOM != 0 && flags & raw::REDISMODULE_CTX_FLAGS_EVICT == 0
    }

    fn flags(&self) -> u32 {
        // SAFETY: `ctx` is the context of the running command.
        unsafe { api!(RedisModule_GetContextFlags)(self.ctx) as u32 }
    }

    /// The origin of the call.
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
}
