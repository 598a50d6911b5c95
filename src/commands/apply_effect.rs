//! `RL._EFFECT`: the effects that a primary sends to its replicas and to the AOF.
//!
//! It never answers either of them with an error. A replica that refuses its primary's stream, or
//! an AOF that does not load, is worse than one missing limiter. The command logs and skips an
//! effect that it cannot apply.

use rl_core::grammar::Arguments;
use rl_core::grammar::error::Shown;
use rl_core::stored::effect::{Payload, decode_payload};

use crate::call::{Call, Origin};
use crate::command::Command;
use crate::entry::{Docs, Entry, KEY, KeyRange, Kind, PER_KEY, UPDATE, value};
use crate::failure::Failure;
use crate::key::{Access, Key};
use crate::{log, propagation};

/// The command `RL._EFFECT`.
pub struct ApplyEffect;

impl Command for ApplyEffect {
    const ENTRY: Entry = Entry {
        name: c"rl._effect",
        flags: c"write",
        keys: KeyRange { first: 1, last: -1, step: 2, access: UPDATE },
        docs: Docs {
            summary:
                c"Not for clients: the results of a call, from a primary to its replicas and to the AOF",
            complexity: PER_KEY,
            arity: -1,
            args: &[value(c"effect", Kind::Block(&[KEY, value(c"blob", Kind::Text)])).many()],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let origin = call.origin();
        if origin == Origin::Client {
            return Err(Failure::NotForClients);
        }
        for at in (0..call.count()).step_by(2) {
            if let Err(reason) = apply(call, at) {
                let what = format!("effect on key {} skipped", Shown::new(call.get(at)));
                log::rare_warning(call.now_ms(), &what, &reason);
            }
        }
        // For this replica's own AOF.
        if origin == Origin::Primary {
            propagation::send_verbatim(call);
        }
        call.reply_ok();
        Ok(())
    }
}

/// Applies the blob that follows the key at index `at`.
fn apply(call: &Call, at: usize) -> Result<(), String> {
    let payload = decode_payload(call.get(at + 1)).map_err(|error| error.to_string())?;
    let mut key = Key::open(call, at, Access::Write).map_err(|failure| failure.to_string())?;
    match payload {
        Payload::Effect(effect) => key.apply(&effect),
        Payload::Whole(limiter) => key.replace(limiter),
    }
    Ok(())
}
