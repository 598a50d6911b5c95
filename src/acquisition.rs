//! Acquiring permits: from a request to a decision, its writes and its reply. `RL.ACQUIRE`,
//! `RL.ACQUIREX`, `RL.PEEK`, `CL.THROTTLE` and the waiters share this code.

use rl_core::call::{NoMemory, acquire, peek};
use rl_core::decision::{Ask, Decision, Part, Terms, Verdict};
use rl_core::effect::Effect;
use rl_core::grammar::{Named, Request, rule_of};
use rl_core::limiter::Limiter;
use rl_core::limiters::{FEW, Limiters, Observer, Taken};
use rl_core::plain;
use smallvec::SmallVec;

use crate::call::Call;
use crate::counters::{self, Outcome};
use crate::failure::Failure;
use crate::key::Access;
use crate::open_keys::OpenKeys;
use crate::{config, policies, top};

/// Applies the policies and `rl.enforce` to the rules asked.
pub fn prepare(call: &Call, rules: &mut [Named<'_>], now_ms: i64) {
    policies::apply(call.main_thread(), rules, now_ms);
    if config::only_shadows() {
        rules.iter_mut().for_each(|rule| rule.ask.shadow = true);
    }
}

/// The part of a request that concerns all its limiters.
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

/// Decides, and with write access carries the decision out. The client does not wait.
pub fn answer(
    call: &Call,
    request: &Request<'_>,
    rules: &mut [Named<'_>],
    access: Access,
) -> Result<Reply, Failure> {
    let now_ms = call.now_ms();
    prepare(call, rules, now_ms);
    let mut keys = OpenKeys::new(call);
    keys.open(request.keys, access)?;
    let terms = terms(request, now_ms);
    match access {
        Access::Read => Ok(look(&mut keys, rules, &terms, request.options.with_keys)),
        Access::Write => carry_out(call, request, rules, &mut keys, &terms),
    }
}

/// Decides over open keys and carries the decision out.
///
/// # Errors
/// The call needs memory, and the server has none. Nothing is changed.
#[inline(always)]
pub fn carry_out(
    call: &Call,
    request: &Request<'_>,
    rules: &[Named<'_>],
    keys: &mut OpenKeys<'_>,
    terms: &Terms<'_>,
) -> Result<Reply, Failure> {
    let mut account = Account {
        call,
        rules,
        keys: request.keys,
        terms,
        answers: Answers::new(request.options.with_keys),
        denying: SmallVec::new(),
        is_counted: false,
    };
    let mut asked = AskedKeys { keys, rules, now_ms: terms.now_ms };
    let acquired = acquire(&mut asked, terms, &mut account);
    let (decision, verdict) = acquired.map_err(|NoMemory| Failure::OutOfMemory)?;
    if !account.is_counted {
        account.count_plain(&decision);
    }
    keys.send();
    Ok(Reply::new(&decision, &verdict, account.answers))
}

/// Decides over open keys and changes nothing.
pub fn look(
    keys: &mut OpenKeys<'_>,
    rules: &[Named<'_>],
    terms: &Terms<'_>,
    with_keys: bool,
) -> Reply {
    let mut answers = Answers::new(with_keys);
    let asked = AskedKeys { keys, rules, now_ms: terms.now_ms };
    let (decision, verdict) = peek(&asked, terms, &mut answers);
    Reply::new(&decision, &verdict, answers)
}

/// Open keys, and the rules to judge them by.
pub struct AskedKeys<'a, 'call> {
    /// The keys.
    pub keys: &'a mut OpenKeys<'call>,
    /// One rule for all keys, or one for each.
    pub rules: &'a [Named<'a>],
    /// The moment of the call, in ms of epoch time.
    pub now_ms: i64,
}

impl Limiters for AskedKeys<'_, '_> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.keys.count()
    }

    #[inline(always)]
    fn get(&self, place: usize) -> Option<&Limiter> {
        self.keys.limiter(place)
    }

    #[inline(always)]
    fn ask(&self, place: usize) -> Option<&Ask> {
        rule_of(self.rules, place).map(|rule| &rule.ask)
    }

    #[inline(always)]
    fn asked(&mut self, place: usize) -> Option<(&mut Limiter, &Ask)> {
        let rule = rule_of(self.rules, place)?;
        Some((self.keys.limiter_mut(place)?, &rule.ask))
    }

    #[inline(always)]
    fn taken(&mut self, place: usize, taken: Taken) {
        let Some(rule) = rule_of(self.rules, place) else { return };
        self.keys.changed(place, taken.expire_at_ms, |limiter| {
            plain::effect(limiter, &rule.ask.rule, &taken, self.now_ms)
        });
    }

    fn apply(&mut self, place: usize, effect: &Effect) {
        self.keys.apply(place, effect);
    }

    fn may_grow(&self) -> bool {
        self.keys.may_grow()
    }
}

/// The answers of the keys for `WITHKEYS`, if the call asked for them.
struct Answers(Option<Vec<[i64; 7]>>);

impl Answers {
    fn new(with_keys: bool) -> Answers {
        Answers(with_keys.then(Vec::new))
    }
}

impl Observer for Answers {
    fn wants_answers(&self) -> bool {
        self.0.is_some()
    }

    fn denied_by(&mut self, _: usize) {}

    fn decided(&mut self, _: &Decision, parts: &[Part<'_>]) {
        if let Some(keys) = &mut self.0 {
            keys.extend(parts.iter().map(key_answer));
        }
    }
}

fn key_answer(part: &Part<'_>) -> [i64; 7] {
    let (verdict, rule) = (part.verdict(), part.ask().rule);
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

/// The account of a call that is carried out: its answers, and whether it was counted.
struct Account<'a> {
    call: &'a Call,
    rules: &'a [Named<'a>],
    keys: usize,
    terms: &'a Terms<'a>,
    answers: Answers,
    /// The keys that deny a plain call, by index.
    denying: SmallVec<[usize; FEW]>,
    is_counted: bool,
}

impl Account<'_> {
    #[inline(always)]
    fn count_plain(&self, decision: &Decision) {
        let granted = decision.granted > 0;
        let outcomes = (0..self.keys).map(|key| match granted {
            true => Outcome::Granted,
            false if self.denying.binary_search(&key).is_ok() => Outcome::Denied,
            false => Outcome::Spared,
        });
        count(self.call, granted, self.rules, outcomes, self.terms.now_ms);
    }
}

impl Observer for Account<'_> {
    #[inline(always)]
    fn wants_answers(&self) -> bool {
        self.answers.wants_answers()
    }

    fn denied_by(&mut self, place: usize) {
        self.denying.push(place);
    }

    fn decided(&mut self, decision: &Decision, parts: &[Part<'_>]) {
        self.answers.decided(decision, parts);
        self.is_counted = true;
        if !decision.has_lapsed(self.terms) {
            let granted = decision.granted > 0;
            let outcomes = parts.iter().map(|part| Outcome::of(part, granted));
            count(self.call, granted, self.rules, outcomes, self.terms.now_ms);
        }
    }
}

/// Counts a call that was carried out, by the outcome at each limiter.
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

/// The reply to a call. It consists of numbers only, so that it can be sent once everything is
/// written.
pub struct Reply {
    /// Granted, limit, remaining, retry_after, reset_after, key.
    pub call: [i64; Reply::FIELDS],
    /// The answers of the keys, with `WITHKEYS`.
    keys: Option<Vec<[i64; 7]>>,
}

impl Reply {
    /// The number of fields before those of the keys.
    pub const FIELDS: usize = 6;

    /// A reply read from numbers. Missing ones are 0.
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

    /// The reply to a decision. `binding` is the answer of the binding limiter.
    fn new(decision: &Decision, binding: &Verdict, answers: Answers) -> Reply {
        let call = [
            decision.granted as i64,
            binding.limit as i64,
            binding.remaining as i64,
            decision.retry_after_ms,
            binding.reset_after_ms,
            decision.binding as i64,
        ];
        Reply { call, keys: answers.0 }
    }

    /// Turns the reply into a denial.
    pub fn denied(mut self) -> Reply {
        self.call[0] = 0;
        self
    }

    /// Sends the reply.
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
