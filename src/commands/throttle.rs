//! `CL.THROTTLE`: the command that code written for redis-cell calls, on a bucket.
//!
//! It replies the same five integers, in seconds. This command rounds a wait up, so that a client
//! that sleeps for that long is granted.

use rl_core::grammar::acquire::parse_throttle;

use crate::acquisition;
use crate::call::Call;
use crate::command::Command;
use crate::entry::{Docs, Entry, KEY, KeyRange, Kind, UPDATE, value};
use crate::failure::Failure;
use crate::key::Access;

/// The command `CL.THROTTLE`.
pub struct Throttle;

impl Command for Throttle {
    const ENTRY: Entry = Entry {
        name: c"cl.throttle",
        flags: c"write fast",
        keys: KeyRange::first(UPDATE),
        docs: Docs {
            summary: c"Takes permits from a bucket, called and answered as by redis-cell",
            complexity: c"O(1)",
            arity: -5,
            args: &[
                KEY,
                value(c"max-burst", Kind::Integer),
                value(c"count", Kind::Integer),
                value(c"period", Kind::Integer),
                value(c"quantity", Kind::Integer).optional(),
            ],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let (request, rule) = parse_throttle(call)?;
        let reply = acquisition::answer(call, &request, &mut [rule], Access::Write)?;
        let [granted, limit, remaining, retry_after_ms, reset_after_ms, _] = reply.call;
        let retry_after_s = match granted {
            // A granted call need not wait.
            1.. => -1,
            _ => seconds(retry_after_ms),
        };
        let limited = i64::from(granted == 0);
        call.reply_array(5);
        call.reply_integers(&[limited, limit, remaining, retry_after_s, seconds(reset_after_ms)]);
        Ok(())
    }
}

/// Whole seconds, rounded up. -1 stays -1.
fn seconds(ms: i64) -> i64 {
    if ms < 0 { ms } else { (ms as u64).div_ceil(1000) as i64 }
}
