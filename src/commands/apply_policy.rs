//! `RL._POLICY`: the policies that a primary sends to its replicas and to the AOF.
//!
//! It never answers either of them with an error, for the reason given in [`super::apply_effect`].

use rl_core::grammar::Arguments;

use crate::call::{Call, Origin};
use crate::command::Command;
use crate::entry::{Docs, Entry, KeyRange};
use crate::failure::Failure;
use crate::{log, policies, propagation};

/// The command `RL._POLICY`.
pub struct ApplyPolicy;

impl Command for ApplyPolicy {
    const ENTRY: Entry = Entry {
        name: c"rl._policy",
        flags: c"write",
        keys: KeyRange::NONE,
        docs: Docs {
            summary: c"Not for clients: policies, from a primary to its replicas and to the AOF",
            complexity: c"O(N) with N the number of policies that changed",
            arity: -1,
            args: &[],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let origin = call.origin();
        if origin == Origin::Client {
            return Err(Failure::NotForClients);
        }
        let merged = policies::with(call.main_thread(), |policies| policies.merge(call.get(0)));
        if let Err(error) = merged {
            log::warning(&format!("policies skipped: {error}"));
        }
        if origin == Origin::Primary {
            propagation::send_verbatim(call);
        }
        call.reply_ok();
        Ok(())
    }
}
