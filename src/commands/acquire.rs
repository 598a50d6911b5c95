//! `RL.ACQUIRE`, `RL.ACQUIREX` and `RL.PEEK`: one request, one decision, one reply. They differ in
//! their grammar and in whether the decision is carried out.

use rl_core::decision::{Decision, Slot, Terms, Verdict, decide};
use rl_core::grammar::acquire::parse_acquire;
use rl_core::grammar::rules::{Form, keys_and_rules, parse_rules};
use rl_core::grammar::{Named, Request, rule_of};
use smallvec::SmallVec;

use crate::call::Call;
use crate::command::Command;
use crate::config;
use crate::counters::Outcome;
use crate::entry::{
    Docs, Entry, KEYS, KeyRange, Kind, LIMIT, PER_KEY, READ, UPDATE, WINDOW, pair, rules,
};
use crate::failure::Failure;
use crate::keys::Access;
use crate::limiters::{Changes, FEW, Limiters, Plain};
use crate::waiting::{attempt, begin};
use crate::{counters, policies, remembered, top};

/// `RL.ACQUIRE`: one rule, one permit of each limiter.
pub struct Acquire;

impl Command for Acquire {
    const ENTRY: Entry = Entry {
        name: c"rl.acquire",
        flags: c"write fast",
        keys: KeyRange::but_last(6, UPDATE),
        docs: Docs {
            summary: c"Takes a permit from each limiter, or from none if one of them has no room",
            complexity: PER_KEY,
            arity: -8,
            args: &[KEYS, WINDOW, LIMIT, pair(c"algo", c"ALGO", Kind::SpendingAlgorithm)],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let (request, rule) = parse_acquire(call)?;
        if let Some(reply) = answer(call, &request, &mut [rule], Access::Write)? {
            reply.send(call);
        }
        Ok(())
    }
}

/// `RL.ACQUIREX`: a rule for each key, costs, batches and more.
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
                    "One rule, or one for each key: WINDOW ms LIMIT n ALGO \
                    {algorithms} [BURST n] [OFFSET ms] [BLOCK ms] \
                    [COST n] [NAME name]; then [UPTO n] [ID id] [XX] [RESERVE ms] [TIMEOUT ms] [FORCE] \
                    [WITHKEYS]",
                ),
            ],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        extended(call, Form::AcquireX, Access::Write)
    }
}

/// `RL.PEEK`: what `RL.ACQUIREX` would answer.
pub struct Peek;

impl Command for Peek {
    const ENTRY: Entry = Entry {
        name: c"rl.peek",
        flags: c"readonly",
        keys: KeyRange::but_last(1, READ),
        docs: Docs {
            summary: c"Tells what RL.ACQUIREX would answer, and changes nothing",
            complexity: PER_KEY,
            arity: -3,
            args: &[
                KEYS,
                rules(
                    "One rule, or one for each key, as in RL.ACQUIREX; then [UPTO n] [ID id] \
                    [WITHKEYS]",
                ),
            ],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        extended(call, Form::Peek, Access::Read)
    }
}

/// The rules of a call: one for all keys, or one for each.
pub type Rules<'call> = SmallVec<[Named<'call>; FEW]>;

/// Reads a call whose rules are one argument, and goes on with a copy of them.
fn with_rules<T>(
    call: &Call,
    form: Form,
    go_on: impl FnOnce(&Request<'_>, &mut Rules<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (keys, text) = keys_and_rules(call)?;
    // Declared before the rules, which may borrow from it.
    let known = remembered::recall(call.main_thread(), text, form);
    let mut rules = Rules::new();
    let mut sink = |rule| rules.push(rule);
    let options = match &known {
        Some(known) => known.read(&mut sink),
        None => parse_rules(text, form, &mut sink)?,
    };
    let request = Request::new(keys, rules.len(), options)?;
    go_on(&request, &mut rules)
}

fn extended(call: &Call, form: Form, access: Access) -> Result<(), Failure> {
    let reply = with_rules(call, form, |request, rules| answer(call, request, rules, access))?;
    if let Some(reply) = reply {
        reply.send(call);
    }
    Ok(())
}

/// Puts the numbers of policies in the place of those asked.
fn prepare(call: &Call, rules: &mut [Named<'_>], now_ms: i64) {
    policies::apply(call.main_thread(), rules, now_ms);
    if config::only_shadows() {
        rules.iter_mut().for_each(|rule| rule.ask.shadow = true);
    }
}

/// What a request asks of all its limiters alike.
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

/// A slot for each key.
pub type Slots<'a> = SmallVec<[Slot<'a>; FEW]>;

/// Fills in the slots. In place: they are two kilobytes, and would be copied.
pub fn fill<'a>(
    slots: &mut Slots<'a>,
    limiters: &'a Limiters<'_>,
    request: &Request<'_>,
    rules: &'a [Named<'_>],
) {
    for key in 0..request.keys {
        if let Some(rule) = rule_of(rules, key) {
            slots.push(Slot::new(limiters.get(key), &rule.ask));
        }
    }
}

/// Decides, and carries the decision out unless it is only to be read. `None` when the client waits.
pub fn answer(
    call: &Call,
    request: &Request<'_>,
    rules: &mut [Named<'_>],
    access: Access,
) -> Result<Option<Reply>, Failure> {
    if request.options.timeout_ms > 0 {
        return answer_or_wait(call, request, rules);
    }
    let now_ms = call.now_ms();
    prepare(call, rules, now_ms);
    let mut limiters = Limiters::new(call);
    limiters.open(request.keys, access, now_ms)?;
    carry_out(call, request, rules, &mut limiters, &terms(request, now_ms), access).map(Some)
}

/// The same for a call that would rather wait than be denied. Apart, since it takes much of the
/// stack.
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
    let mut limiters = Limiters::new(call);
    limiters.open(request.keys, Access::Write, now_ms)?;
    if begin::waits(call, request, &asked, rules, &limiters, &terms) {
        return Ok(None);
    }
    carry_out(call, request, rules, &mut limiters, &terms, Access::Write).map(Some)
}

/// Decides over limiters that are open, and carries the decision out unless it is only to be read.
#[inline(always)]
fn carry_out(
    call: &Call,
    request: &Request<'_>,
    rules: &[Named<'_>],
    limiters: &mut Limiters<'_>,
    terms: &Terms<'_>,
    access: Access,
) -> Result<Reply, Failure> {
    if access == Access::Write
        && !request.options.with_keys
        && let Some(Plain { decision, verdict, denying }) = limiters.acquire_plain(rules, terms)
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
    decide_in_full(call, request, rules, limiters, terms, access)
}

/// Decides what is not plain. Apart, since it takes much of the stack.
#[inline(never)]
fn decide_in_full(
    call: &Call,
    request: &Request<'_>,
    rules: &[Named<'_>],
    limiters: &mut Limiters<'_>,
    terms: &Terms<'_>,
    access: Access,
) -> Result<Reply, Failure> {
    let mut slots = Slots::new();
    fill(&mut slots, limiters, request, rules);
    let decision = decide(&mut slots, terms);
    let reply = Reply::of_slots(&decision, &slots, request.options.with_keys);
    if access == Access::Read {
        return Ok(reply);
    }
    let mut changes = Changes::new();
    let mut grows = false;
    for (key, slot) in slots.iter().enumerate() {
        if let Some(effect) = slot.effect() {
            grows |= slot.grows(&effect);
            changes.push((key, effect));
        }
    }
    if grows && call.is_out_of_memory() {
        return Err(Failure::OutOfMemory);
    }
    if !decision.has_lapsed(terms) {
        let granted = decision.granted > 0;
        let outcomes = slots.iter().map(|slot| Outcome::of(slot, granted));
        count(call, granted, rules, outcomes, terms.now_ms);
    }
    drop(slots);
    limiters.write(changes);
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

    /// The reply that these numbers are; what is missing is 0.
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

    /// Of a call that was decided over these slots.
    pub fn of_slots(decision: &Decision, slots: &[Slot<'_>], with_keys: bool) -> Reply {
        let binding = slots.get(decision.binding).map(|slot| *slot.verdict()).unwrap_or_default();
        let keys = with_keys.then(|| slots.iter().map(key_reply).collect());
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
