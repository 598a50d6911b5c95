//! Changes limiters by hand. `RL.REFUND`, `RL.RELEASE`, `RL.BLOCK` and `RL.EXEMPT` share this
//! code.

use rl_core::effect::Effect;
use rl_core::grammar::by_hand::parse_lay;
use rl_core::limiter::Limiter;
use rl_core::manage::{self, Lay};

use crate::call::Call;
use crate::entry::{Arg, KEYS, Kind, pair};
use crate::failure::Failure;
use crate::key::Access;
use crate::open_keys::OpenKeys;

/// Applies `change` to the limiters named by the first `count` arguments. Replies the number of
/// limiters that it changed.
pub fn change_each(
    call: &Call,
    count: usize,
    change: impl Fn(Option<&Limiter>, i64) -> Option<Effect>,
) -> Result<(), Failure> {
    let now_ms = call.now_ms();
    let mut keys = OpenKeys::new(call);
    keys.open(count, Access::Write)?;
    let corrections = keys.corrections(now_ms);
    let mut effects = Vec::new();
    let mut creates = false;
    for key in 0..count {
        let stored = corrections.or(key, keys.limiter(key));
        if let Some(effect) = change(stored, now_ms) {
            creates |= stored.is_none();
            effects.push((key, effect));
        }
    }
    if creates && !keys.may_grow() {
        return Err(Failure::OutOfMemory);
    }
    corrections.effects().for_each(|(key, effect)| keys.apply(key, effect));
    effects.iter().for_each(|(key, effect)| keys.apply(*key, effect));
    keys.send();
    let changed = effects.len() as i64;
    call.reply_integers(&[changed]);
    Ok(())
}

/// The arguments of commands that lay a block or an exemption for a time.
pub const FOR_A_TIME: &[Arg] = &[KEYS, pair(c"duration", c"FOR", Kind::Integer)];

/// Lays a block or an exemption on each limiter, or lifts it.
pub fn lay(call: &Call, which: Lay) -> Result<(), Failure> {
    let request = parse_lay(call)?;
    change_each(call, request.keys, |stored, now_ms| {
        manage::lay(stored, which, request.value, now_ms)
    })
}
