//! `RL.REFUND`, `RL.RELEASE`, `RL.BLOCK` and `RL.EXEMPT`: what is done to limiters by hand. Each
//! answers how many limiters it changed.

use rl_core::effect::Effect;
use rl_core::grammar::by_hand::{parse_hold, parse_refund, parse_release};
use rl_core::limiter::Limiter;
use rl_core::manage::{Hold, hold, refund, release};

use crate::call::Call;
use crate::command::Command;
use crate::entry::{Arg, Docs, Entry, KEYS, KeyRange, Kind, PER_KEY, UPDATE, pair};
use crate::failure::Failure;
use crate::keys::Access;
use crate::limiters::{Changes, Limiters};

/// The arguments of what is done for a time.
const FOR_A_TIME: &[Arg] = &[KEYS, pair(c"duration", c"FOR", Kind::Integer)];

/// `RL.REFUND`: gives permits back.
pub struct Refund;

impl Command for Refund {
    const ENTRY: Entry = Entry {
        name: c"rl.refund",
        flags: c"write fast",
        keys: KeyRange::but_last(2, UPDATE),
        docs: Docs {
            summary: c"Gives permits back to each limiter, never above full",
            complexity: PER_KEY,
            arity: -4,
            args: &[KEYS, pair(c"cost", c"COST", Kind::Integer)],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let request = parse_refund(call)?;
        change_each(call, request.keys, |stored, now_ms| refund(stored?, request.value, now_ms))
    }
}

/// `RL.RELEASE`: ends a lease.
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

/// `RL.BLOCK`: denies everything for a time.
pub struct Block;

impl Command for Block {
    const ENTRY: Entry = Entry {
        name: c"rl.block",
        flags: c"write fast",
        keys: KeyRange::but_last(2, UPDATE),
        docs: Docs {
            summary: c"Denies everything on each limiter for a time",
            complexity: PER_KEY,
            arity: -4,
            args: FOR_A_TIME,
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        lay_hold(call, Hold::Block)
    }
}

/// `RL.EXEMPT`: lets everything through for a time.
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
        lay_hold(call, Hold::Exempt)
    }
}

fn lay_hold(call: &Call, which: Hold) -> Result<(), Failure> {
    let request = parse_hold(call)?;
    change_each(call, request.keys, |stored, now_ms| hold(stored, which, request.value, now_ms))
}

/// Changes each limiter as `change` says, and answers how many there were to change.
fn change_each(
    call: &Call,
    keys: usize,
    change: impl Fn(Option<&Limiter>, i64) -> Option<Effect>,
) -> Result<(), Failure> {
    let now_ms = call.now_ms();
    let mut limiters = Limiters::new(call);
    limiters.open(keys, Access::Write, now_ms)?;
    let mut changes = Changes::new();
    let mut creates = false;
    for key in 0..keys {
        let stored = limiters.get(key);
        if let Some(effect) = change(stored, now_ms) {
            creates |= stored.is_none();
            changes.push((key, effect));
        }
    }
    if creates && call.is_out_of_memory() {
        return Err(Failure::OutOfMemory);
    }
    let changed = changes.len() as i64;
    limiters.write(changes);
    call.reply_integers(&[changed]);
    Ok(())
}
