//! The rules of a call that takes them as one argument. A string that came before is not parsed
//! again: see [`rl_core::grammar::remembered`].

use std::rc::Rc;

use lazy_static::lazy_static;
use redis_module::RedisGILGuard;
use rl_core::grammar::remembered::{Remembered, Table};
use rl_core::grammar::rules::{Form, keys_and_rules, parse_rules};
use rl_core::grammar::{Named, Request};
use rl_core::limiters::FEW;
use smallvec::SmallVec;

use crate::api::MainThread;
use crate::call::Call;
use crate::failure::Failure;

/// The rules of a call: one for all keys, or one for each.
pub type Rules<'call> = SmallVec<[Named<'call>; FEW]>;

/// Reads a call whose rules are one argument, and calls `go_on` with a copy of them, which
/// policies may change.
pub fn with_rules<T>(
    call: &Call,
    form: Form,
    go_on: impl FnOnce(&Request<'_>, &mut Rules<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (keys, text) = keys_and_rules(call)?;
    // Declared before the rules, which may borrow from it.
    let known = recall(call.main_thread(), text, form);
    let mut rules = Rules::new();
    let mut sink = |rule| rules.push(rule);
    let options = match &known {
        Some(known) => known.read(&mut sink),
        None => parse_rules(text, form, &mut sink)?,
    };
    let request = Request::new(keys, rules.len(), options)?;
    go_on(&request, &mut rules)
}

/// Applications repeat few strings: mostly one for each endpoint.
const PLACES: usize = 256;

lazy_static! {
    /// The table counts references to its entries without atomics, so they must stay on the main
    /// thread. They do: nothing here passes one to another thread.
    static ref TABLE: RedisGILGuard<Table> = RedisGILGuard::new(Table::new(PLACES));
}

/// The rules of a string; `None` if the caller must parse it.
fn recall(main: &MainThread, text: &[u8], form: Form) -> Option<Rc<Remembered>> {
    TABLE.lock(main).recall(text, form)
}

/// The figures of the table in `INFO rl`.
pub struct Figures {
    /// Strings that were parsed.
    pub parsed: u64,
    /// Strings that are remembered.
    pub count: usize,
    /// The bytes that they take.
    pub bytes: usize,
}

/// The figures of the table.
pub fn figures(main: &MainThread) -> Figures {
    let table = TABLE.lock(main);
    let (count, bytes) = table.size();
    Figures { parsed: table.parsed(), count, bytes }
}
