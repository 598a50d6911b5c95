//! The reply to a call. Each function adds one element to it.

use std::ffi::CStr;

use crate::api::api;
use crate::call::Call;
use crate::failure::Failure;

impl Call {
    /// Begins an array of `len` elements. The calls that follow add them.
    pub fn reply_array(&self, len: usize) {
        // SAFETY: the context is that of the running command.
        unsafe { api!(RedisModule_ReplyWithArray)(self.context(), len as _) };
    }

    /// Replies integers, one after the other.
    pub fn reply_integers(&self, integers: &[i64]) {
        // SAFETY: the context is that of the running command.
        unsafe {
            for integer in integers {
                api!(RedisModule_ReplyWithLongLong)(self.context(), *integer);
            }
        }
    }

    /// Begins a map of `len` fields (a flat array in RESP2). The calls that follow add them.
    pub fn reply_map(&self, len: usize) {
        // SAFETY: the context is that of the running command.
        unsafe { api!(RedisModule_ReplyWithMap)(self.context(), len as _) };
    }

    /// Replies a string.
    pub fn reply_string(&self, string: &str) {
        self.reply_bytes(string.as_bytes());
    }

    /// Replies a string of any bytes.
    pub fn reply_bytes(&self, bytes: &[u8]) {
        // SAFETY: the context is that of the running command; the server copies the buffer.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer)(
                self.context(),
                bytes.as_ptr().cast(),
                bytes.len(),
            )
        };
    }

    /// Replies null.
    pub fn reply_null(&self) {
        // SAFETY: the context is that of the running command.
        unsafe { api!(RedisModule_ReplyWithNull)(self.context()) };
    }

    /// Replies `OK`.
    pub fn reply_ok(&self) {
        // SAFETY: the context is that of the running command.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.context(), c"OK".as_ptr()) };
    }

    /// Replies an error. The message begins with its code.
    pub fn reply_error(&self, message: &CStr) {
        // SAFETY: the context is that of the running command, and the message outlives the call.
        unsafe { api!(RedisModule_ReplyWithError)(self.context(), message.as_ptr()) };
    }

    /// Replies the reason for which a command failed.
    pub fn reply_failure(&self, failure: &Failure) {
        self.reply_error(&failure.message());
    }
}
