//! Acquiring: from a request to a decision that is carried out, and its answer. `RL.ACQUIRE`,
//! `RL.ACQUIREX`, `RL.PEEK`, `CL.THROTTLE` and waiting share it.

use rl_core::decision::{Decision, Slot, Terms, Verdict, decide};
use rl_core::grammar::{Named, Request, rule_of};
use smallvec::SmallVec;

use crate::call::{Call, FEW};
use crate::counters::{self, Outcome};
use crate::failure::Failure;
use crate::key::Access;
use crate::open_keys::{Changes, OpenKeys, Plain};
use crate::{config, policies, top};

/// Applies the policies and `rl.enforce` to the rules that were asked.
pub fn prepare(call: &Call, rules: &mut [Named<'_>], now_ms: i64) {
    policies::apply(call.main_thread(), rules, now_ms);
    if config::only_shadows() {
        rules.iter_mut().for_each(|rule| rule.ask.shadow = true);
    }
}

/// The part of a request that concerns all of its limiters.
pub fn terms<'a>(request: &Request<'a>, now_ms: i64) -> Terms<'a> {
    Terms {
        now_ms,
        resolution: config::sliding_resolution(),
        upto: request.options.upto,
        reserve_ms: request.options.reserve_ms,
        force: request.options.force,
        id: request.options.id,
        only_renew: request.options.only_renew,
    }
}

/// The limiters of a call, each with the rule it is judged by.
pub type Judged<'a> = SmallVec<[Slot<'a>; FEW]>;

/// Fills in the limiters to be judged. In place, since they are two kilobytes that would be copied.
pub fn fill<'a>(
    judged: &mut Judged<'a>,
    keys: &'a OpenKeys<'_>,
    request: &Request<'_>,
    rules: &'a [Named<'_>],
) {
    for key in 0..request.keys {
        if let Some(rule) = rule_of(rules, key) {
            judged.push(Slot::new(keys.limiter(key), &rule.ask));
        }
    }
}

/// Decides, and carries the decision out unless it is only to be read. The client does not wait.
pub fn answer(
    call: &Call,
    request: &Request<'_>,
    rules: &mut [Named<'_>],
    access: Access,
) -> Result<Reply, Failure> {
    let now_ms = call.now_ms();
    prepare(call, rules, now_ms);
    let mut keys = OpenKeys::new(call);
    keys.open(request.keys, access, now_ms)?;
    carry_out(call, request, rules, &mut keys, &terms(request, now_ms), access)
}

/// Decides over limiters that are open, and carries the decision out unless it is only to be read.
#[inline(always)]
pub fn carry_out(
    call: &Call,
    request: &Request<'_>,
    rules: &[Named<'_>],
    keys: &mut OpenKeys<'_>,
    terms: &Terms<'_>,
    access: Access,
) -> Result<Reply, Failure> {
    if access == Access::Write
        && !request.options.with_keys
        && let Some(Plain { decision, verdict, denying }) = keys.acquire_plain(rules, terms)
    {
        let granted = decision.granted > 0;
        let outcomes = (0..request.keys).map(|key| match granted {
            true => Outcome::Granted,
            false if denying.binary_search(&key).is_ok() => Outcome::Denied,
            false => Outcome::Spared,
        });
        count(call, granted, rules, outcomes, terms.now_ms);
        return Ok(Reply::new(&decision, &verdict));
    }
    decide_in_full(call, request, rules, keys, terms, access)
}

/// Decides a call that is not plain. A function of its own, since it takes much of the stack.
#[inline(never)]
fn decide_in_full(
    call: &Call,
    request: &Request<'_>,
    rules: &[Named<'_>],
    keys: &mut OpenKeys<'_>,
    terms: &Terms<'_>,
    access: Access,
) -> Result<Reply, Failure> {
    let mut judged = Judged::new();
    fill(&mut judged, keys, request, rules);
    let decision = decide(&mut judged, terms);
    let reply = Reply::of_judged(&decision, &judged, request.options.with_keys);
    if access == Access::Read {
        return Ok(reply);
    }
    let mut changes = Changes::new();
    let mut grows = false;
    for (key, one) in judged.iter().enumerate() {
        if let Some(effect) = one.effect() {
            grows |= one.grows(&effect);
            changes.push((key, effect));
        }
    }
    if grows && call.is_out_of_memory() {
        return Err(Failure::OutOfMemory);
    }
    if !decision.has_lapsed(terms) {
        let granted = decision.granted > 0;
        let outcomes = judged.iter().map(|one| Outcome::of(one, granted));
        count(call, granted, rules, outcomes, terms.now_ms);
    }
    drop(judged);
    keys.write(changes);
    Ok(reply)
}

/// Counts a call that was carried out, by what became of each limiter.
fn count(
    call: &Call,
    granted: bool,
    rules: &[Named<'_>],
    outcomes: impl Iterator<Item = Outcome> + Clone,
    now_ms: i64,
) {
    counters::count(call.main_thread(), granted, rules, outcomes.clone());
    if !granted {
        let denying = outcomes.enumerate().filter(|(_, outcome)| *outcome == Outcome::Denied);
        top::count_denials(call, denying.map(|(key, _)| key), now_ms);
    }
}

/// The answer to a call: numbers only, so that it can be sent when everything is written.
pub struct Reply {
    /// Granted, limit, remaining, retry_after, reset_after, key.
    pub call: [i64; Reply::FIELDS],
    /// With `WITHKEYS`.
    keys: Option<Vec<[i64; 7]>>,
}

impl Reply {
    /// Fields before those of the keys.
    pub const FIELDS: usize = 6;

    /// The reply with these numbers. Those that are missing are 0.
    pub fn read(call: &[i64], keys: Option<Vec<Vec<i64>>>) -> Reply {
        fn fields<const N: usize>(numbers: &[i64]) -> [i64; N] {
            std::array::from_fn(|i| numbers.get(i).copied().unwrap_or(0))
        }
        let keys = keys.map(|keys| keys.iter().map(|key| fields(key)).collect());
        Reply { call: fields(call), keys }
    }

    /// Whether anything was granted.
    pub fn granted(&self) -> bool {
        self.call[0] > 0
    }

    /// `binding` is what the binding key answers.
    fn new(decision: &Decision, binding: &Verdict) -> Reply {
        let call = [
            decision.granted as i64,
            binding.limit as i64,
            binding.remaining as i64,
            decision.retry_after_ms,
            binding.reset_after_ms,
            decision.binding as i64,
        ];
        Reply { call, keys: None }
    }

    /// Of a call that was decided over these limiters.
    pub fn of_judged(decision: &Decision, judged: &[Slot<'_>], with_keys: bool) -> Reply {
        let binding = judged.get(decision.binding).map(|one| *one.verdict()).unwrap_or_default();
        let keys = with_keys.then(|| judged.iter().map(key_reply).collect());
        Reply { keys, ..Reply::new(decision, &binding) }
    }

    /// Answers it.
    pub fn send(&self, call: &Call) {
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
fn key_reply(one: &Slot<'_>) -> [i64; 7] {
    let (verdict, rule) = (one.verdict(), one.ask().rule);
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
