//! `RL.ACQUIREX`: a rule for each key, costs, batches and more. This is the command that can wait.

use rl_core::grammar::rules::Form;
use rl_core::grammar::{Named, Request};

use crate::acquisition::{self, Reply, carry_out, prepare, terms};
use crate::call::Call;
use crate::command::Command;
use crate::entry::{Docs, Entry, KEYS, KeyRange, PER_KEY, UPDATE, rules};
use crate::failure::Failure;
use crate::key::Access;
use crate::open_keys::OpenKeys;
use crate::rules::{Rules, with_rules};
use crate::waiting::{attempt, begin};

/// The command `RL.ACQUIREX`.
pub struct AcquireX;

impl Command for AcquireX {
    const ENTRY: Entry = Entry {
        name: c"rl.acquirex",
        flags: c"write blocking",
        keys: KeyRange::but_last(1, UPDATE),
        docs: Docs {
            summary: c"Takes permits from each limiter by its own rule, or from none",
            complexity: PER_KEY,
            arity: -3,
            args: &[
                KEYS,
                rules(
                    "One rule, or one for each key: WINDOW ms LIMIT n ALGO {algorithms} [BURST n] \
                    [OFFSET ms] [BLOCK ms] [COST n] [NAME name]; then [UPTO n] [ID id] [XX] \
                    [RESERVE ms] [TIMEOUT ms] [FORCE] [WITHKEYS]",
                ),
            ],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let reply = with_rules(call, Form::AcquireX, |request, rules| {
            match request.options.timeout_ms > 0 {
                true => answer_or_wait(call, request, rules),
                false => acquisition::answer(call, request, rules, Access::Write).map(Some),
            }
        })?;
        if let Some(reply) = reply {
            reply.send(call);
        }
        Ok(())
    }
}

/// Answers a call that may wait rather than be denied; `None` if its client waits. A function of
/// its own, since it uses much of the stack.
#[inline(never)]
fn answer_or_wait(
    call: &Call,
    request: &Request<'_>,
    rules: &mut [Named<'_>],
) -> Result<Option<Reply>, Failure> {
    let asked = Rules::from_slice(rules);
    let now_ms = attempt::now_ms(call);
    prepare(call, rules, now_ms);
    let terms = terms(request, now_ms);
    let mut keys = OpenKeys::new(call);
    keys.open(request.keys, Access::Write)?;
    if begin::waits(call, request, &asked, rules, &mut keys, &terms) {
        return Ok(None);
    }
    carry_out(call, request, rules, &mut keys, &terms).map(Some)
}
