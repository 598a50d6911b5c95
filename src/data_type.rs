//! The native data type: how a limiter is saved, loaded, copied, measured and freed.
//!
//! A value is one blob that starts with a version byte of its own, so the type's encoding version
//! stays 0 for good. A server that does not know the encoding version refuses the whole RDB; a
//! blob is refused alone.

use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_ulong, c_void};
use redis_module::{Context, raw};
use rl_core::limiter::Limiter;
use rl_core::stored::effect::encode_whole;
use rl_core::stored::limiter::{decode_limiter, encode_limiter};

use crate::api::api;
use crate::{counters, log};

/// Nine characters, as the server demands.
const NAME: &std::ffi::CStr = c"rl-limit1";
const ENCODING_VERSION: c_int = 0;

static HANDLE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// The handle of the type in the server.
pub fn handle() -> *mut raw::RedisModuleType {
    HANDLE.load(Ordering::Relaxed)
}

/// Callbacks of the type that concern more than its values. The registry passes them in, so that
/// this file need not know the files that they concern.
pub struct Beside {
    /// Saves the state beside the keys, if there is any.
    pub aux_save: raw::RedisModuleTypeAuxSaveFunc,
    /// Saves it in any case, for servers before 7.2.
    pub aux_save_always: raw::RedisModuleTypeAuxSaveFunc,
    /// Loads what either of them saved.
    pub aux_load: raw::RedisModuleTypeAuxLoadFunc,
    /// Called when a value is about to leave its key.
    pub unlink: raw::RedisModuleTypeUnlinkFunc2,
}

/// Registers the type.
pub fn register(ctx: &Context, beside: Beside) -> Result<(), String> {
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        mem_usage: Some(mem_usage),
        digest: Some(digest),
        free: Some(free),
        free_effort: Some(free_effort),
        defrag: Some(defrag),
        copy: Some(copy),
        aux_load: beside.aux_load,
        aux_save: beside.aux_save_always,
        aux_save_triggers: raw::REDISMODULE_AUX_BEFORE_RDB as c_int,
        unlink: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: beside.unlink,
        copy2: None,
        aux_save2: beside.aux_save,
    };
    // SAFETY: `ctx` is the context of the load; the server copies the table.
    let handle = unsafe {
        api!(RedisModule_CreateDataType)(ctx.ctx, NAME.as_ptr(), ENCODING_VERSION, &mut methods)
    };
    if handle.is_null() {
        return Err("the server refused the data type rl-limit1".into());
    }
    HANDLE.store(handle, Ordering::Relaxed);
    Ok(())
}

/// Runs a callback. A panic ends here with `fallback`, not in the server.
fn guarded<T>(fallback: T, callback: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or(fallback)
}

/// The limiter behind a value that the server passes to a callback.
///
/// # Safety
/// `value` is a limiter that was boxed here or in `key`, and is not in use elsewhere.
unsafe fn limiter<'a>(value: *const c_void) -> &'a Limiter {
    // SAFETY: the caller vouches for it.
    unsafe { &*value.cast::<Limiter>() }
}

/// The stored form of a value.
///
/// # Safety
/// As [`limiter`].
unsafe fn encoded(value: *const c_void) -> Vec<u8> {
    // SAFETY: the caller vouches for it.
    let limiter = unsafe { limiter(value) };
    // The stored form is smaller than that.
    let mut bytes = Vec::with_capacity(size_of::<Limiter>() + limiter.heap_bytes());
    encode_limiter(limiter, &mut bytes);
    bytes
}

unsafe extern "C" fn rdb_save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    guarded((), || {
        // SAFETY: the value is ours, `io` is the save under way, and the buffer outlives the call.
        unsafe {
            let bytes = encoded(value);
            api!(RedisModule_SaveStringBuffer)(io, bytes.as_ptr().cast(), bytes.len());
        }
    });
}

unsafe extern "C" fn rdb_load(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        if version != ENCODING_VERSION {
            log::warning(&format!("limiter with encoding version {version}, expected 0"));
            return ptr::null_mut();
        }
        let mut len = 0;
        // SAFETY: `io` is the load under way. The buffer is null after an I/O error; otherwise we
        // must free it.
        let decoded = unsafe {
            let buffer = api!(RedisModule_LoadStringBuffer)(io, &mut len);
            if buffer.is_null() {
                return ptr::null_mut();
            }
            let decoded = decode_limiter(std::slice::from_raw_parts(buffer.cast(), len));
            api!(RedisModule_Free)(buffer.cast());
            decoded
        };
        match decoded {
            Ok(limiter) => {
                counters::count_limiter(1);
                Box::into_raw(Box::new(limiter)).cast()
            }
            Err(error) => {
                log::warning(&format!("limiter refused: {error}"));
                ptr::null_mut()
            }
        }
    })
}

unsafe extern "C" fn aof_rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guarded((), || {
        let mut bytes = Vec::new();
        // SAFETY: the value is ours; "sb" takes a string and a buffer with its length, which
        // outlive the call. The server writes the TTL itself.
        unsafe {
            encode_whole(limiter(value), &mut bytes);
            api!(RedisModule_EmitAOF)(
                io,
                c"RL._EFFECT".as_ptr(),
                c"sb".as_ptr(),
                key,
                bytes.as_ptr(),
                bytes.len(),
            );
        }
    });
}

unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    // SAFETY: the value is ours.
    guarded(0, || size_of::<Limiter>() + unsafe { limiter(value) }.heap_bytes())
}

unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guarded((), || {
        // SAFETY: the value is ours, `digest` is the digest under way, and the buffer outlives the
        // call.
        unsafe {
            let bytes = encoded(value);
            api!(RedisModule_DigestAddStringBuffer)(digest, bytes.as_ptr().cast(), bytes.len());
            api!(RedisModule_DigestEndSequence)(digest);
        }
    });
}

unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the value came from `Box::into_raw`, and the server gives it up.
    guarded((), || drop(unsafe { Box::from_raw(value.cast::<Limiter>()) }));
    counters::count_limiter(-1);
}

/// The number of allocations to free. Above 64, the server frees them in the background.
unsafe extern "C" fn free_effort(_: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the value is ours.
    guarded(1, || unsafe { limiter(value) }.allocations())
}

unsafe extern "C" fn copy(
    _: *mut raw::RedisModuleString,
    _: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        // SAFETY: the value is ours.
        let limiter = unsafe { limiter(value) }.clone();
        counters::count_limiter(1);
        Box::into_raw(Box::new(limiter)).cast()
    })
}

unsafe extern "C" fn defrag(
    ctx: *mut raw::RedisModuleDefragCtx,
    _: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guarded(0, || {
        // SAFETY: the value is ours. Each pointer is replaced by the new place of its allocation,
        // and the old one is forgotten without being freed.
        unsafe {
            if let Some(moved) = moved(ctx, *value) {
                *value = moved;
            }
            let limiter = &mut *(*value).cast::<Limiter>();
            if let Some(laid) = limiter.laid_mut() {
                move_box(ctx, laid);
            }
            c_int::from(!move_parts(ctx, limiter))
        }
    })
}

/// Moves the allocations of the algorithm, starting where the last call stopped. Returns false if
/// it stops again before the end. The index of lease names stays in place, since the standard
/// library owns it.
///
/// # Safety
/// The context is that of the defragmentation under way.
unsafe fn move_parts(ctx: *mut raw::RedisModuleDefragCtx, limiter: &mut Limiter) -> bool {
    // Stays 0 on servers that do not let a defragmentation stop.
    let mut begun: c_ulong = 0;
    // SAFETY: the context is the caller's.
    unsafe { api!(RedisModule_DefragCursorGet)(ctx, &mut begun) };
    let mut done = begun;
    limiter.each_part(begun as usize, |part| {
        // SAFETY: the context is the caller's; the part is an allocation that the limiter owns.
        unsafe {
            if done > begun
                && api!(RedisModule_DefragShouldStop)(ctx) != 0
                && api!(RedisModule_DefragCursorSet)(ctx, done) == raw::REDISMODULE_OK as c_int
            {
                return false;
            }
            move_bytes(ctx, part);
        }
        done += 1;
        true
    })
}

/// The new place of an allocation; `None` if it was not moved. A moved allocation no longer exists
/// in its old place.
///
/// # Safety
/// The context is that of the defragmentation under way. The allocation comes from the server's
/// allocator, and the caller replaces every pointer to it.
unsafe fn moved(
    ctx: *mut raw::RedisModuleDefragCtx,
    allocation: *mut c_void,
) -> Option<*mut c_void> {
    // SAFETY: the caller vouches for it.
    let moved = unsafe { api!(RedisModule_DefragAlloc)(ctx, allocation) };
    (!moved.is_null()).then_some(moved)
}

/// Moves a box.
///
/// # Safety
/// The context is that of the defragmentation under way.
unsafe fn move_box<T>(ctx: *mut raw::RedisModuleDefragCtx, boxed: &mut Box<T>) {
    // SAFETY: the allocation is the box's own. The box is overwritten without being dropped, since
    // the allocation that it pointed to no longer exists.
    unsafe {
        let allocation: *mut T = &mut **boxed;
        if let Some(moved) = moved(ctx, allocation.cast()) {
            ptr::write(boxed, Box::from_raw(moved.cast()));
        }
    }
}

/// Moves bytes.
///
/// # Safety
/// The context is that of the defragmentation under way.
unsafe fn move_bytes(ctx: *mut raw::RedisModuleDefragCtx, bytes: &mut Box<[u8]>) {
    let len = bytes.len();
    if len == 0 {
        return;
    }
    // SAFETY: as in `move_box`. An empty slice has no allocation; it was handled above.
    unsafe {
        if let Some(moved) = moved(ctx, bytes.as_mut_ptr().cast()) {
            let moved = ptr::slice_from_raw_parts_mut(moved.cast(), len);
            ptr::write(bytes, Box::from_raw(moved));
        }
    }
}
