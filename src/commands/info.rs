//! `RL.INFO`: the report of a limiter about itself.

use rl_core::status::Status;

use crate::call::Call;
use crate::command::Command;
use crate::entry::{Docs, Entry, KEY, KeyRange, READ};
use crate::failure::Failure;
use crate::key::Access;
use crate::open_keys::OpenKeys;
use crate::top;

/// The command `RL.INFO`.
pub struct Info;

impl Command for Info {
    const ENTRY: Entry = Entry {
        name: c"rl.info",
        flags: c"readonly fast",
        keys: KeyRange::first(READ),
        docs: Docs {
            summary: c"Tells the rule and the state of a limiter",
            complexity: c"O(1), O(N) for leases and old entries of a log",
            arity: 2,
            args: &[KEY],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let now_ms = call.now_ms();
        let mut keys = OpenKeys::new(call);
        keys.open(1, Access::Read)?;
        let corrections = keys.corrections(now_ms);
        match corrections.or(0, keys.limiter(0)) {
            None => call.reply_null(),
            Some(limiter) => {
                let denied_recently = top::denied_recently(call, 0, now_ms);
                reply(call, &Status::of(limiter, now_ms), denied_recently);
            }
        }
        Ok(())
    }
}

/// Later versions add their fields after these.
fn reply(call: &Call, status: &Status, denied_recently: u64) {
    let rule = status.rule;
    let numbers = [
        ("window", rule.map_or(0, |rule| rule.window_ms())),
        ("limit", rule.map_or(0, |rule| rule.limit() as i64)),
        ("burst", rule.map_or(0, |rule| rule.capacity() as i64)),
        ("used", status.used as i64),
        ("remaining", status.remaining as i64),
        ("reset_after", status.reset_after_ms),
        ("blocked_for", status.blocked_for_ms),
        ("exempt_for", status.exempt_for_ms),
        ("entries", status.entries as i64),
        ("denied_recently", denied_recently as i64),
    ];
    call.reply_map(1 + numbers.len());
    call.reply_string("algo");
    call.reply_string(rule.map_or("none", |rule| rule.algorithm().word()));
    for (name, number) in numbers {
        call.reply_string(name);
        call.reply_integers(&[number]);
    }
}
