//! `RL.PEEK`: the answer that `RL.ACQUIREX` would give.

use rl_core::grammar::rules::Form;

use crate::acquisition;
use crate::call::Call;
use crate::command::Command;
use crate::entry::{Docs, Entry, KEYS, KeyRange, PER_KEY, READ, rules};
use crate::failure::Failure;
use crate::key::Access;
use crate::rules::with_rules;

/// The command `RL.PEEK`.
pub struct Peek;

impl Command for Peek {
    const ENTRY: Entry = Entry {
        name: c"rl.peek",
        flags: c"readonly",
        keys: KeyRange::but_last(1, READ),
        docs: Docs {
            summary: c"Tells what RL.ACQUIREX would answer, and changes nothing",
            complexity: PER_KEY,
            arity: -3,
            args: &[
                KEYS,
                rules(
                    "One rule, or one for each key, as in RL.ACQUIREX; then [UPTO n] [ID id] \
                    [WITHKEYS]",
                ),
            ],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let reply = with_rules(call, Form::Peek, |request, rules| {
            acquisition::answer(call, request, rules, Access::Read)
        })?;
        reply.send(call);
        Ok(())
    }
}
