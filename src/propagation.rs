//! What a call changed, sent to the replicas and the AOF: results with absolute times, never the
//! request.

use std::ffi::CStr;

use redis_module::raw;
use smallvec::SmallVec;

use crate::api::api;
use crate::call::Call;

/// The command that carries effects.
const EFFECT: &CStr = c"RL._EFFECT";

/// The command that carries policies.
const POLICY: &CStr = c"RL._POLICY";

/// Sends the effect on one key, an argument.
pub fn send_effect(call: &Call, key: usize, blob: &[u8]) {
    let (name, bytes, len) = (call.string(key), blob.as_ptr(), blob.len());
    // SAFETY: "sb" takes a string and a buffer with its length; both outlive the call.
    unsafe {
        let (ctx, format) = (call.context(), c"sb".as_ptr());
        api!(RedisModule_Replicate)(ctx, EFFECT.as_ptr(), format, name, bytes, len);
    }
}

/// Effects on several keys, which are sent as one command.
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
        self.argv.push(self.call.string(key));
        // SAFETY: the server copies the buffer.
        self.argv.push(unsafe {
            api!(RedisModule_CreateString)(self.call.context(), blob.as_ptr().cast(), blob.len())
        });
    }

    /// Sends them, if there are any.
    pub fn send(mut self) {
        if self.argv.is_empty() {
            return;
        }
        let (strings, len) = (self.argv.as_mut_ptr(), self.argv.len());
        // SAFETY: "v" takes a vector of strings and its length. The server retains what it keeps.
        unsafe {
            let ctx = self.call.context();
            api!(RedisModule_Replicate)(ctx, EFFECT.as_ptr(), c"v".as_ptr(), strings, len);
        }
    }
}

impl Drop for Effects<'_> {
    fn drop(&mut self) {
        for blob in self.argv.iter().skip(1).step_by(2) {
            // SAFETY: made by `push`, and not used any more.
            unsafe { api!(RedisModule_FreeString)(self.call.context(), *blob) };
        }
    }
}

/// Counts a change for the server's save points and sends nothing: a command that goes neither to
/// the AOF nor to replicas.
pub fn count_change(call: &Call) {
    // SAFETY: the context is that of the running command. "AR" takes no argument.
    unsafe { api!(RedisModule_Replicate)(call.context(), EFFECT.as_ptr(), c"AR".as_ptr()) };
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

/// Sends a call on as it came.
pub fn send_verbatim(call: &Call) {
    // SAFETY: the context is that of the running command.
    unsafe { api!(RedisModule_ReplicateVerbatim)(call.context()) };
}
