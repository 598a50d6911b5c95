//! `RL.REFUND`: gives permits back.

use rl_core::grammar::by_hand::parse_refund;
use rl_core::manage::refund;

use crate::call::Call;
use crate::command::Command;
use crate::commands::by_hand::change_each;
use crate::entry::{Docs, Entry, KEYS, KeyRange, Kind, PER_KEY, UPDATE, pair};
use crate::failure::Failure;

/// The command `RL.REFUND`.
pub struct Refund;

impl Command for Refund {
    const ENTRY: Entry = Entry {
        name: c"rl.refund",
        flags: c"write fast",
        keys: KeyRange::but_last(2, UPDATE),
        docs: Docs {
            summary: c"Gives permits back to each limiter, never above full",
            complexity: PER_KEY,
            arity: -4,
            args: &[KEYS, pair(c"cost", c"COST", Kind::Integer)],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let request = parse_refund(call)?;
        change_each(call, request.keys, |stored, now_ms| refund(stored?, request.value, now_ms))
    }
}
