//! The server's API at its lowest: functions, clocks, and the proof that a thread may use them.

use std::marker::PhantomData;

use redis_module::{RedisLockIndicator, raw};

/// A function of the module API that every supported server has. To be used in an `unsafe` block:
/// the table of the API is filled before any of our code runs and only read from then on, and the
/// caller answers for the function's own conditions.
macro_rules! api {
    ($name:ident) => {
        redis_module::raw::$name.expect(concat!(stringify!($name), " is in Redis 7.0"))
    };
}
pub(crate) use api;

/// Proof that the code runs on the server's main thread, or in a child that was forked from it.
/// What the module keeps beside the keys is guarded by it. It cannot leave its thread.
pub struct MainThread(PhantomData<*const ()>);

// SAFETY: `in_callback` is the only constructor, whose callers answer for the thread: the server
// runs its callbacks there only while it holds its own lock.
unsafe impl RedisLockIndicator for MainThread {}

impl MainThread {
    /// For a callback that gets no [`redis_module::Context`], which proves the same.
    ///
    /// # Safety
    /// The server is calling the module on its main thread, or in a child that was forked from it.
    pub const unsafe fn in_callback() -> MainThread {
        MainThread(PhantomData)
    }
}

/// The server's clock, in ms of epoch time.
pub fn clock_ms() -> i64 {
    // SAFETY: plain getters; the first is missing from servers before 7.2.
    unsafe {
        match raw::RedisModule_CachedMicroseconds {
            // Frozen for the whole of a transaction or a script, as the expiry of keys is.
            Some(cached) => cached() / 1000,
            None => api!(RedisModule_Milliseconds)(),
        }
    }
}

/// The clock as it runs on, for timers: the other one may stand still in a callback.
pub fn live_clock_ms() -> i64 {
    // SAFETY: a plain getter.
    unsafe { api!(RedisModule_Milliseconds)() }
}
