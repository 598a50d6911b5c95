//! The rules that this server parsed before: see [`rl_core::grammar::remembered`].

use std::rc::Rc;

use lazy_static::lazy_static;
use redis_module::RedisGILGuard;
use rl_core::grammar::remembered::{Remembered, Table};
use rl_core::grammar::rules::Form;

use crate::api::MainThread;

/// Strings that an application repeats are few: one for each endpoint, mostly.
const PLACES: usize = 256;

/// A table that stays on the main thread, with all that it hands out.
struct OnMainThread(Table);

// SAFETY: `RedisGILGuard` lets only the main thread in, so that the counts of the entries are
// changed by one thread, and nothing here hands an entry to another one.
unsafe impl Send for OnMainThread {}

lazy_static! {
    static ref TABLE: RedisGILGuard<OnMainThread> =
        RedisGILGuard::new(OnMainThread(Table::new(PLACES)));
}

/// What is remembered of a string, `None` when it is to be parsed.
pub fn recall(main: &MainThread, text: &[u8], form: Form) -> Option<Rc<Remembered>> {
    TABLE.lock(main).0.recall(text, form)
}

/// What `INFO rl` tells of the table.
pub struct Figures {
    /// Strings that were parsed.
    pub parsed: u64,
    /// Strings that are remembered.
    pub count: usize,
    /// The bytes that they take.
    pub bytes: usize,
}

/// See [`Figures`].
pub fn figures(main: &MainThread) -> Figures {
    let table = &TABLE.lock(main).0;
    let (count, bytes) = table.size();
    Figures { parsed: table.parsed(), count, bytes }
}
