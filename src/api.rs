//! The lowest level of the server's API: its functions, its clocks, and the proof that a thread
//! may use them.

use std::marker::PhantomData;

use redis_module::{RedisLockIndicator, raw};

/// A function of the module API that every supported server has. For use in an `unsafe` block: the
/// server fills the API table before any of our code runs, and from then on the table is only
/// read. The caller meets the function's own conditions.
macro_rules! api {
    ($name:ident) => {
        redis_module::raw::$name.expect(concat!(stringify!($name), " is in Redis 7.0"))
    };
}
pub(crate) use api;

/// Proof that the code runs on the server's main thread, or in a child that was forked from it. It
/// guards the state that the module keeps beside the keys. It cannot leave its thread.
pub struct MainThread(PhantomData<*const ()>);

// SAFETY: `in_callback` is the only constructor, and its callers vouch for the thread. There the
// server runs its callbacks only under its own lock.
unsafe impl RedisLockIndicator for MainThread {}

impl MainThread {
    /// For a callback that gets no [`redis_module::Context`], which would prove the same.
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
            // Frozen during a transaction or a script, as the expiry of keys is.
            Some(cached) => cached() / 1000,
            None => api!(RedisModule_Milliseconds)(),
        }
    }
}

/// The clock that goes on running, for timers: [`clock_ms`] may stand still in a callback.
pub fn live_clock_ms() -> i64 {
    // SAFETY: a plain getter.
    unsafe { api!(RedisModule_Milliseconds)() }
}
