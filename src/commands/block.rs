//! `RL.BLOCK`: denies everything for a time.

use rl_core::manage::Lay;

use crate::call::Call;
use crate::command::Command;
use crate::commands::by_hand::{FOR_A_TIME, lay};
use crate::entry::{Docs, Entry, KeyRange, PER_KEY, UPDATE};
use crate::failure::Failure;

/// The command `RL.BLOCK`.
pub struct Block;

impl Command for Block {
    const ENTRY: Entry = Entry {
        name: c"rl.block",
        flags: c"write fast",
        keys: KeyRange::but_last(2, UPDATE),
        docs: Docs {
            summary: c"Denies everything on each limiter for a time",
            complexity: PER_KEY,
            arity: -4,
            args: FOR_A_TIME,
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        lay(call, Lay::Block)
    }
}
