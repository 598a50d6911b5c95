//! `RL.EXEMPT`: lets everything through for a time.

use rl_core::manage::Lay;

use crate::call::Call;
use crate::command::Command;
use crate::commands::by_hand::{FOR_A_TIME, lay};
use crate::entry::{Docs, Entry, KeyRange, PER_KEY, UPDATE};
use crate::failure::Failure;

/// The command `RL.EXEMPT`.
pub struct Exempt;

impl Command for Exempt {
    const ENTRY: Entry = Entry {
        name: c"rl.exempt",
        flags: c"write fast",
        keys: KeyRange::but_last(2, UPDATE),
        docs: Docs {
            summary: c"Lets everything through each limiter, uncounted, for a time",
            complexity: PER_KEY,
            arity: -4,
            args: FOR_A_TIME,
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        lay(call, Lay::Exempt)
    }
}
