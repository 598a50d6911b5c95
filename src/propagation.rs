//! Sends the changes of a call to the replicas and the AOF: results with absolute times, never the
//! request.

use std::borrow::Borrow;
use std::ffi::CStr;

use redis_module::raw;
use rl_core::effect::Effect;
use rl_core::stored::blob::Blob;
use rl_core::stored::effect::encode_effect;
use smallvec::SmallVec;

use crate::api::api;
use crate::call::Call;
use crate::{listener, save_points};

/// The command that carries effects.
const EFFECT: &CStr = c"RL._EFFECT";

/// The command that carries policies.
const POLICY: &CStr = c"RL._POLICY";

/// The effects of a call, until they are sent.
pub struct Outbox<'call> {
    call: &'call Call,
    /// Whether anything changed.
    has_changed: bool,
    /// The first effect, encoded, with its key. Most calls have no other.
    first: Option<(usize, Blob)>,
    /// All effects, once there are several: a key, its effect, the next key and so on. We must
    /// free the effects.
    argv: SmallVec<[*mut raw::RedisModuleString; 16]>,
}

impl<'call> Outbox<'call> {
    /// An empty outbox.
    pub fn new(call: &'call Call) -> Outbox<'call> {
        Outbox { call, has_changed: false, first: None, argv: SmallVec::new() }
    }

    /// Adds the effect on the key named by an argument. Makes the effect only if anyone listens.
    #[inline(always)]
    pub fn put<E: Borrow<Effect>>(&mut self, key: usize, effect: impl FnOnce() -> Option<E>) {
        self.has_changed = true;
        if listener::is_heard()
            && let Some(effect) = effect()
        {
            self.encode(key, effect.borrow());
        }
    }

    /// A function of its own, since it uses much of the stack.
    #[inline(never)]
    fn encode(&mut self, key: usize, effect: &Effect) {
        let mut blob = Blob::new();
        encode_effect(effect, &mut blob);
        match self.first.take() {
            None if self.argv.is_empty() => self.first = Some((key, blob)),
            first => {
                first.iter().for_each(|(key, blob)| self.push(*key, blob.bytes()));
                self.push(key, blob.bytes());
            }
        }
    }

    fn push(&mut self, key: usize, blob: &[u8]) {
        self.argv.push(self.call.string(key));
        // SAFETY: the server copies the buffer.
        self.argv.push(unsafe {
            api!(RedisModule_CreateString)(self.call.context(), blob.as_ptr().cast(), blob.len())
        });
    }

    /// Sends the effects as one command. If there is no listener, only counts that something
    /// changed.
    pub fn send(&self) {
        let ctx = self.call.context();
        if let Some((key, blob)) = &self.first {
            let (name, bytes, len) =
                (self.call.string(*key), blob.bytes().as_ptr(), blob.bytes().len());
            // SAFETY: "sb" takes a string and a buffer with its length; both outlive the call.
            unsafe {
                let format = c"sb".as_ptr();
                api!(RedisModule_Replicate)(ctx, EFFECT.as_ptr(), format, name, bytes, len);
            }
        } else if !self.argv.is_empty() {
            let (strings, len) = (self.argv.as_ptr().cast_mut(), self.argv.len());
            // SAFETY: "v" takes a vector of strings and its length. The server retains them.
            unsafe {
                api!(RedisModule_Replicate)(ctx, EFFECT.as_ptr(), c"v".as_ptr(), strings, len);
            }
        } else if self.has_changed {
            // SAFETY: the context is that of the running command.
            unsafe { save_points::count(ctx) };
        }
    }
}

impl Drop for Outbox<'_> {
    fn drop(&mut self) {
        for blob in self.argv.iter().skip(1).step_by(2) {
            // SAFETY: `push` made it, and it is not used any more.
            unsafe { api!(RedisModule_FreeString)(self.call.context(), *blob) };
        }
    }
}

/// Sends policies.
pub fn send_policies(call: &Call, blob: &[u8]) {
    let (bytes, len) = (blob.as_ptr(), blob.len());
    // SAFETY: "b" takes a buffer with its length, which outlives the call.
    unsafe {
        let (ctx, format) = (call.context(), c"b".as_ptr());
        api!(RedisModule_Replicate)(ctx, POLICY.as_ptr(), format, bytes, len);
    }
}

/// Replicates a call exactly as it came.
pub fn send_verbatim(call: &Call) {
    // SAFETY: the context is that of the running command.
    unsafe { api!(RedisModule_ReplicateVerbatim)(call.context()) };
}
