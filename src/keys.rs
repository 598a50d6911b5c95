//! Keys opened by a call, and what a call writes to them.

use std::marker::PhantomData;
use std::ptr;

use redis_module::raw;
use rl_core::effect::Effect;
use rl_core::limiter::Limiter;

use crate::call::{Failure, api};
use crate::limiter_type;

/// A key opened for reading and writing, closed on drop.
///
/// Two of one call never name the same key (the grammar refuses it), so the references they hand out do not alias.
pub struct Key<'call> {
    ctx: *mut raw::RedisModuleCtx,
    name: *mut raw::RedisModuleString,
    key: *mut raw::RedisModuleKey,
    call: PhantomData<&'call ()>,
}

impl<'call> Key<'call> {
    /// Opens `name`, which need not exist. Opening creates nothing.
    pub fn open(ctx: *mut raw::RedisModuleCtx, name: *mut raw::RedisModuleString) -> Key<'call> {
        let mode = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as i32;
        // SAFETY: context and name belong to the running command.
        let key = unsafe { api!(RedisModule_OpenKey)(ctx, name, mode) };
        Key { ctx, name, key, call: PhantomData }
    }

    fn value(&self) -> Result<Option<ptr::NonNull<Limiter>>, Failure> {
        // SAFETY: `key` is open. The value of a key of our type is a limiter that `limiter_type` allocated.
        unsafe {
            match api!(RedisModule_KeyType)(self.key) as isize {
                raw::REDISMODULE_KEYTYPE_EMPTY => Ok(None),
                raw::REDISMODULE_KEYTYPE_MODULE
                    if api!(RedisModule_ModuleTypeGetType)(self.key) == limiter_type::handle() =>
                {
                    let value = api!(RedisModule_ModuleTypeGetValue)(self.key);
                    Ok(ptr::NonNull::new(value.cast()))
                }
                _ => Err(Failure::WrongType),
            }
        }
    }

    /// The limiter, `None` when the key does not exist.
    pub fn limiter(&self) -> Result<Option<&Limiter>, Failure> {
        // SAFETY: nothing else refers to the value while the key is open, and it is borrowed as long as `self`.
        Ok(self.value()?.map(|value| unsafe { value.as_ref() }))
    }

    /// The limiter, an empty one when the key does not exist.
    fn limiter_mut(&mut self) -> Result<&mut Limiter, Failure> {
        let value = match self.value()? {
            Some(value) => value.as_ptr(),
            None => self.store(Limiter::default()),
        };
        // SAFETY: as in `limiter`, and `self` is borrowed mutably.
        Ok(unsafe { &mut *value })
    }

    fn store(&mut self, limiter: Limiter) -> *mut Limiter {
        let value = Box::into_raw(Box::new(limiter));
        // SAFETY: the key is open for writing, and the type's `free` takes the value back.
        unsafe {
            api!(RedisModule_ModuleTypeSetValue)(self.key, limiter_type::handle(), value.cast());
        }
        value
    }

    /// Applies an effect and moves the TTL where it says. A key of another type is left alone.
    pub fn apply(&mut self, effect: &Effect) -> Result<(), Failure> {
        self.limiter_mut()?.apply(effect);
        if let Some(expire_at_ms) = effect.expire_at_ms {
            // SAFETY: the key is open for writing.
            unsafe { api!(RedisModule_SetAbsExpire)(self.key, expire_at_ms) };
        }
        self.signal_modified();
        Ok(())
    }

    /// Makes the key hold this limiter. A key of another type is left alone.
    pub fn replace(&mut self, limiter: Limiter) -> Result<(), Failure> {
        *self.limiter_mut()? = limiter;
        self.signal_modified();
        Ok(())
    }

    /// Tells those who WATCH or track the key. The module switched the server's own signal off, which
    /// would go out for denials too.
    fn signal_modified(&self) {
        // SAFETY: context and name belong to the running command.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.ctx, self.name) };
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: `key` is open, and not used any more.
        unsafe { api!(RedisModule_CloseKey)(self.key) };
    }
}
