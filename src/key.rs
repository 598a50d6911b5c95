//! One key that a call opened, and the writes of the call to it.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;

use redis_module::raw;
use rl_core::effect::Effect;
use rl_core::limiter::Limiter;

use crate::api::api;
use crate::call::Call;
use crate::failure::Failure;
use crate::{counters, data_type};

/// The purpose for which a key is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading: works on a read-only replica too.
    Read,
    /// Reading and writing.
    Write,
}

/// A key opened by a call, closed on drop. Its value is a limiter, if it has one.
///
/// The grammar refuses equal keys, so two open keys of a call never have the same value. The
/// references that they return do not alias.
pub struct Key<'call> {
    ctx: *mut raw::RedisModuleCtx,
    name: *mut raw::RedisModuleString,
    key: *mut raw::RedisModuleKey,
    limiter: Option<NonNull<Limiter>>,
    call: PhantomData<&'call ()>,
}

impl<'call> Key<'call> {
    /// Opens the key named by the argument at `index`. The key need not exist, and opening creates
    /// nothing.
    ///
    /// # Errors
    /// The value of the key is not a limiter.
    pub fn open(call: &'call Call, index: usize, access: Access) -> Result<Key<'call>, Failure> {
        let (ctx, name) = (call.context(), call.string(index));
        let mode = match access {
            Access::Read => raw::REDISMODULE_READ,
            Access::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: context and name belong to the running command, which `Key` borrows. For reading,
        // a missing key is null, which all functions here accept. The value of a key of our type is
        // a limiter that was boxed in `data_type` or here.
        unsafe {
            let key = api!(RedisModule_OpenKey)(ctx, name, mode as i32);
            let mut opened = Key { ctx, name, key, limiter: None, call: PhantomData };
            if api!(RedisModule_ModuleTypeGetType)(key) == data_type::handle() {
                opened.limiter = NonNull::new(api!(RedisModule_ModuleTypeGetValue)(key).cast());
            } else if api!(RedisModule_KeyType)(key) as isize != raw::REDISMODULE_KEYTYPE_EMPTY {
                return Err(Failure::WrongType);
            }
            Ok(opened)
        }
    }

    /// The limiter; `None` if the key does not exist.
    pub fn limiter(&self) -> Option<&Limiter> {
        // SAFETY: nothing else refers to the value while the key is open, and it is borrowed as
        // long as `self`.
        self.limiter.map(|limiter| unsafe { limiter.as_ref() })
    }

    /// The limiter. Creates an empty one if the key does not exist. The key must be open for
    /// writing.
    fn limiter_mut(&mut self) -> &mut Limiter {
        let mut limiter = *self.limiter.get_or_insert_with(|| {
            let limiter = NonNull::from(Box::leak(Box::<Limiter>::default()));
            // SAFETY: the key is open for writing, and the type's `free` takes the value back.
            unsafe {
                let (handle, value) = (data_type::handle(), limiter.as_ptr().cast());
                api!(RedisModule_ModuleTypeSetValue)(self.key, handle, value);
            }
            counters::count_limiter(1);
            limiter
        });
        // SAFETY: as in `limiter`, and `self` is borrowed mutably.
        unsafe { limiter.as_mut() }
    }

    /// The limiter, to be changed in place; `None` if the key does not exist. The key must be open
    /// for writing, and the caller must call [`Key::changed`] after a change.
    pub fn stored_mut(&mut self) -> Option<&mut Limiter> {
        // SAFETY: as in `limiter`, and `self` is borrowed mutably.
        self.limiter.map(|mut limiter| unsafe { limiter.as_mut() })
    }

    /// Applies an effect and sets the TTL if the effect says so. The key must be open for writing.
    pub fn apply(&mut self, effect: &Effect) {
        let is_new = self.limiter.is_none();
        let limiter = self.limiter_mut();
        let begins =
            effect.laid.is_some_and(|laid| laid.blocked_until_ms > limiter.laid().blocked_until_ms);
        limiter.apply(effect);
        // A replica may have expired the key by itself, and the effect does not repeat the TTL.
        let expire_at_ms = effect.expire_at_ms.or(is_new.then(|| limiter.expire_at_ms()));
        self.changed(expire_at_ms);
        if begins {
            self.notify(c"rl.blocked");
        }
    }

    /// Sets the TTL, if given, and signals the change to clients that WATCH or track the key. The
    /// module switched off the server's own signal, since the server would send it for denials
    /// too.
    pub fn changed(&self, expire_at_ms: Option<i64>) {
        // SAFETY: the key is open for writing; context and name belong to the running command.
        unsafe {
            if let Some(expire_at_ms) = expire_at_ms {
                api!(RedisModule_SetAbsExpire)(self.key, expire_at_ms);
            }
            api!(RedisModule_SignalModifiedKey)(self.ctx, self.name);
        }
    }

    /// Sends a keyspace notification.
    fn notify(&self, event: &CStr) {
        // SAFETY: context and name belong to the running command.
        unsafe {
            let class = raw::REDISMODULE_NOTIFY_MODULE;
            api!(RedisModule_NotifyKeyspaceEvent)(self.ctx, class, event.as_ptr(), self.name);
        }
    }

    /// Makes this limiter the value of the key, which must be open for writing.
    pub fn replace(&mut self, limiter: Limiter) {
        *self.limiter_mut() = limiter;
        self.changed(None);
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: `key` is open or null, and not used any more.
        unsafe { api!(RedisModule_CloseKey)(self.key) };
    }
}
