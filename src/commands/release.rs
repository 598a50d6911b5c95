//! `RL.RELEASE`: ends leases.

use rl_core::grammar::by_hand::parse_release;
use rl_core::manage::release;

use crate::call::Call;
use crate::command::Command;
use crate::commands::by_hand::change_each;
use crate::entry::{Docs, Entry, KEYS, KeyRange, Kind, PER_KEY, UPDATE, pair};
use crate::failure::Failure;

/// The command `RL.RELEASE`.
pub struct Release;

impl Command for Release {
    const ENTRY: Entry = Entry {
        name: c"rl.release",
        flags: c"write fast",
        keys: KeyRange::but_last(2, UPDATE),
        docs: Docs {
            summary: c"Ends a lease on each concurrency limiter",
            complexity: PER_KEY,
            arity: -4,
            args: &[KEYS, pair(c"id", c"ID", Kind::Text)],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let request = parse_release(call)?;
        change_each(call, request.keys, |stored, now_ms| release(stored?, request.value, now_ms))
    }
}
