//! `RL.TOP`: `[key, database, count, error]` for each key, the one denied most first.

use rl_core::grammar::operator::parse_top;
use rl_core::top::Counted;

use crate::call::Call;
use crate::command::Command;
use crate::entry::{Docs, Entry, KeyRange, Kind, pair};
use crate::failure::Failure;
use crate::top;

/// The command `RL.TOP`.
pub struct TopKeys;

impl Command for TopKeys {
    const ENTRY: Entry = Entry {
        name: c"rl.top",
        flags: c"readonly admin",
        keys: KeyRange::NONE,
        docs: Docs {
            summary: c"Tells the keys that were denied most",
            complexity: c"O(N log N) with N the number of tracked keys",
            arity: -1,
            args: &[pair(c"count", c"COUNT", Kind::Integer).optional()],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let limit = parse_top(call)?;
        top::with_most(call, limit, call.now_ms(), |most| {
            call.reply_array(most.len());
            for Counted { db, key, count, error } in most {
                call.reply_array(4);
                call.reply_bytes(key);
                call.reply_integers(&[db.into(), count as i64, error as i64]);
            }
        });
        Ok(())
    }
}
