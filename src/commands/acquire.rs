//! `RL.ACQUIRE`, `RL.ACQUIREX` and `RL.PEEK`: one request, one decision, one reply. They differ in
//! their grammar and in whether the decision is carried out.

use redis_module::raw;
use rl_core::decision::{Ask, Decision, Slot, Terms, decide};
use rl_core::effect::Effect;
use rl_core::request::{
    Arguments, Form, Request, keys_before_rules, parse_acquire, parse_acquirex,
};
use smallvec::SmallVec;

use crate::call::{Call, Command, Failure, FindKeys};
use crate::config;
use crate::keys::Access;
use crate::limiters::{FEW, Limiters};

/// `RL.ACQUIRE`: one rule, one permit of each limiter.
pub struct Acquire;

impl Command for Acquire {
    fn run(call: &Call) -> Result<(), Failure> {
        const MIN_ARGS: usize = 7;
        if call.count() < MIN_ARGS {
            return Err(Failure::Arity);
        }
        let mut rules = Rules::new();
        let request = parse_acquire(call, &mut |ask| rules.push(ask))?;
        answer(call, &request, &rules, Access::Write)
    }
}

/// `RL.ACQUIREX`: a rule for each key, costs, batches and more.
pub struct AcquireX;

impl Command for AcquireX {
    const FIND_KEYS: Option<FindKeys> = Some(|call| {
        let flags = raw::REDISMODULE_CMD_KEY_RW
            | raw::REDISMODULE_CMD_KEY_ACCESS
            | raw::REDISMODULE_CMD_KEY_UPDATE;
        (keys_before_rules(call).unwrap_or(0), flags)
    });

    fn run(call: &Call) -> Result<(), Failure> {
        extended(call, Form::AcquireX, Access::Write)
    }
}

/// `RL.PEEK`: what `RL.ACQUIREX` would answer.
pub struct Peek;

impl Command for Peek {
    const FIND_KEYS: Option<FindKeys> = Some(|call| {
        let flags = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
        (keys_before_rules(call).unwrap_or(0), flags)
    });

    fn run(call: &Call) -> Result<(), Failure> {
        extended(call, Form::Peek, Access::Read)
    }
}

/// The rules of a call: one for all keys, or one for each.
type Rules = SmallVec<[Ask; FEW]>;

fn extended(call: &Call, form: Form, access: Access) -> Result<(), Failure> {
    let mut rules = Rules::new();
    let request = parse_acquirex(call, form, &mut |ask| rules.push(ask))?;
    answer(call, &request, &rules, access)
}

/// Decides, carries the decision out unless it is only to be read, and replies.
fn answer(
    call: &Call,
    request: &Request<'_>,
    rules: &[Ask],
    access: Access,
) -> Result<(), Failure> {
    let terms = Terms {
        now_ms: call.now_ms(),
        resolution: config::sliding_resolution(),
        upto: request.upto,
        reserve_ms: request.reserve_ms,
        force: request.force,
        id: request.id,
    };
    let mut limiters = Limiters::open(call, request.keys, access, terms.now_ms)?;
    let mut effects = SmallVec::<[(usize, Effect); FEW]>::new();
    let mut slots = SmallVec::<[Slot; FEW]>::new();
    for key in 0..request.keys {
        if let Some(ask) = rules.get(key).or(rules.first()) {
            slots.push(Slot::new(limiters.get(key), ask));
        }
    }
    let decision = decide(&mut slots, &terms);
    if access == Access::Write {
        let mut grows = false;
        for (key, slot) in slots.iter().enumerate() {
            if let Some(effect) = slot.effect() {
                grows |= slot.grows(&effect);
                effects.push((key, effect));
            }
        }
        if grows && call.is_out_of_memory() {
            return Err(Failure::OutOfMemory);
        }
    }
    reply(call, &decision, &slots, request.with_keys);
    drop(slots);
    if access == Access::Write {
        limiters.write(&effects);
    }
    Ok(())
}

fn reply(call: &Call, decision: &Decision, slots: &[Slot<'_>], with_keys: bool) {
    let binding = slots.get(decision.binding).map(|slot| *slot.verdict()).unwrap_or_default();
    call.reply_array(if with_keys { 7 } else { 6 });
    call.reply_integers(&[
        decision.granted as i64,
        binding.limit as i64,
        binding.remaining as i64,
        decision.retry_after_ms,
        binding.reset_after_ms,
        decision.binding as i64,
    ]);
    if !with_keys {
        return;
    }
    call.reply_array(slots.len());
    for slot in slots {
        let (verdict, rule) = (slot.verdict(), slot.ask().rule);
        call.reply_array(7);
        call.reply_integers(&[
            verdict.granted as i64,
            verdict.limit as i64,
            verdict.remaining as i64,
            verdict.retry_after_ms,
            verdict.reset_after_ms,
            rule.window_ms(),
            rule.limit() as i64,
        ]);
    }
}
