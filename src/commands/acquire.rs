//! `RL.ACQUIRE`: one rule, one permit of each limiter.

use rl_core::grammar::acquire::parse_acquire;

use crate::acquisition;
use crate::call::Call;
use crate::command::Command;
use crate::entry::{Docs, Entry, KEYS, KeyRange, Kind, LIMIT, PER_KEY, UPDATE, WINDOW, pair};
use crate::failure::Failure;
use crate::key::Access;

/// The command `RL.ACQUIRE`.
pub struct Acquire;

impl Command for Acquire {
    const ENTRY: Entry = Entry {
        name: c"rl.acquire",
        flags: c"write fast",
        keys: KeyRange::but_last(6, UPDATE),
        docs: Docs {
            summary: c"Takes a permit from each limiter, or from none if one of them has no room",
            complexity: PER_KEY,
            arity: -8,
            args: &[KEYS, WINDOW, LIMIT, pair(c"algo", c"ALGO", Kind::SpendingAlgorithm)],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let (request, rule) = parse_acquire(call)?;
        acquisition::answer(call, &request, &mut [rule], Access::Write)?.send(call);
        Ok(())
    }
}
