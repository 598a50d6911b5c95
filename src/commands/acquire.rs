//! `RL.ACQUIRE`, `RL.ACQUIREX` and `RL.PEEK`: one request, one decision, one reply. They differ in
//! their grammar and in whether the decision is carried out.

use rl_core::decision::{Decision, Slot, Terms, decide};
use rl_core::effect::Effect;
use rl_core::request::{Form, Named, Request, keys_before_rules, parse_acquire, parse_acquirex};
use smallvec::SmallVec;

use crate::call::{Call, Command, Failure, FindKeys};
use crate::config;
use crate::keys::Access;
use crate::limiters::{FEW, Limiters};
use crate::{metrics, policies, top};

/// `RL.ACQUIRE`: one rule, one permit of each limiter.
pub struct Acquire;

impl Command for Acquire {
    fn run(call: &Call) -> Result<(), Failure> {
        let mut rules = Rules::new();
        let request = parse_acquire(call, &mut |rule| rules.push(rule))?;
        answer(call, &request, &mut rules, Access::Write)
    }
}

/// `RL.ACQUIREX`: a rule for each key, costs, batches and more.
pub struct AcquireX;

impl Command for AcquireX {
    const FIND_KEYS: Option<FindKeys> =
        Some(|call| (keys_before_rules(call).unwrap_or(0), Access::Write));

    fn run(call: &Call) -> Result<(), Failure> {
        extended(call, Form::AcquireX, Access::Write)
    }
}

/// `RL.PEEK`: what `RL.ACQUIREX` would answer.
pub struct Peek;

impl Command for Peek {
    const FIND_KEYS: Option<FindKeys> =
        Some(|call| (keys_before_rules(call).unwrap_or(0), Access::Read));

    fn run(call: &Call) -> Result<(), Failure> {
        extended(call, Form::Peek, Access::Read)
    }
}

/// The rules of a call: one for all keys, or one for each.
type Rules<'call> = SmallVec<[Named<'call>; FEW]>;

fn extended(call: &Call, form: Form, access: Access) -> Result<(), Failure> {
    let mut rules = Rules::new();
    let request = parse_acquirex(call, form, &mut |rule| rules.push(rule))?;
    answer(call, &request, &mut rules, access)
}

/// Decides, carries the decision out unless it is only to be read, and replies.
fn answer(
    call: &Call,
    request: &Request<'_>,
    rules: &mut [Named<'_>],
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
    policies::apply(call.main_thread(), rules, terms.now_ms);
    if config::only_shadows() {
        rules.iter_mut().for_each(|rule| rule.ask.shadow = true);
    }
    let rules = &*rules;
    let mut limiters = Limiters::open(call, request.keys, access, terms.now_ms)?;
    let mut slots = SmallVec::<[Slot; FEW]>::new();
    for key in 0..request.keys {
        if let Some(rule) = rules.get(key).or(rules.first()) {
            slots.push(Slot::new(limiters.get(key), &rule.ask));
        }
    }
    let decision = decide(&mut slots, &terms);
    let reply = Reply::new(&decision, &slots, request.with_keys);
    if access == Access::Write {
        let mut effects = SmallVec::<[(usize, Effect); FEW]>::new();
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
        metrics::count(call.main_thread(), &decision, &slots, rules);
        if decision.granted == 0 {
            top::count_denials(call, &slots, terms.now_ms);
        }
        drop(slots);
        limiters.write(&effects);
    }
    reply.send(call);
    Ok(())
}

/// The answer to a call: numbers only, so that it can be sent when everything is written.
struct Reply {
    call: [i64; 6],
    /// With `WITHKEYS`.
    keys: Option<Vec<[i64; 7]>>,
}

impl Reply {
    fn new(decision: &Decision, slots: &[Slot<'_>], with_keys: bool) -> Reply {
        let binding = slots.get(decision.binding).map(|slot| *slot.verdict()).unwrap_or_default();
        let call = [
            decision.granted as i64,
            binding.limit as i64,
            binding.remaining as i64,
            decision.retry_after_ms,
            binding.reset_after_ms,
            decision.binding as i64,
        ];
        let keys = with_keys.then(|| slots.iter().map(key_reply).collect());
        Reply { call, keys }
    }

    fn send(&self, call: &Call) {
        call.reply_array(self.call.len() + usize::from(self.keys.is_some()));
        call.reply_integers(&self.call);
        if let Some(keys) = &self.keys {
            call.reply_array(keys.len());
            for key in keys {
                call.reply_array(key.len());
                call.reply_integers(key);
            }
        }
    }
}

/// What `WITHKEYS` tells of a key.
fn key_reply(slot: &Slot<'_>) -> [i64; 7] {
    let (verdict, rule) = (slot.verdict(), slot.ask().rule);
    [
        verdict.granted as i64,
        verdict.limit as i64,
        verdict.remaining as i64,
        verdict.retry_after_ms,
        verdict.reset_after_ms,
        rule.window_ms(),
        rule.limit() as i64,
    ]
}
