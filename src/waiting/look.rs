//! Judges which answer a waiting call would get now. A look changes nothing and is not counted.
//!
//! The same judgement decides whether a call begins to wait, goes on waiting or is answered at
//! once. So a waiter gets the answer that its call would get if it came now.

use rl_core::call::{look_at_one, peek};
use rl_core::decision::{Ask, Decision, Part, Terms};
use rl_core::grammar::{Named, Options, Request};
use rl_core::limiter::Limiter;
use rl_core::limiters::Observer;

use crate::acquisition::{self, AskedKeys, Reply, terms};
use crate::call::Call;
use crate::failure::Failure;
use crate::key::{Access, Key};
use crate::open_keys::OpenKeys;
use crate::rules::Rules;
use crate::{config, policies};

/// The request of a waiting call, parsed once.
pub struct Wish {
    keys: usize,
    rules: Box<[WishedRule]>,
    upto: u64,
    id: Option<Box<[u8]>>,
    only_renew: bool,
    with_keys: bool,
}

/// A rule as it came. Policies may replace its numbers at each look.
struct WishedRule {
    ask: Ask,
    name: Option<Box<[u8]>>,
}

/// The answer to a wish.
pub enum Look {
    /// It can be served. At the keys in `asks_more` it asks for more than its caller already
    /// holds.
    Served { asks_more: Vec<usize> },
    /// It would be denied at once, or is an error by now.
    Over,
    /// The key at this place denies it for `for_ms`, and no other key denies it for longer.
    Waits { key: usize, for_ms: i64 },
}

/// The result of a look.
pub struct Seen {
    /// The answer to the wish.
    pub look: Look,
    /// When the answer may get worse by itself because an exemption or a policy ends.
    pub again_in_ms: Option<i64>,
}

/// The result of a look at one key.
pub enum SeenKey {
    /// The key denies the wish for `for_ms`, and its caller will wait that long.
    Denies { for_ms: i64 },
    /// The key does not deny the wish, or not only for a time. The next look must be at all keys.
    Else { has_room: bool, again_in_ms: Option<i64> },
}

impl Wish {
    /// The wish of a request, with its rules as they came.
    pub fn new(request: &Request<'_>, asked: &[Named<'_>]) -> Wish {
        let own = |rule: &Named<'_>| WishedRule { ask: rule.ask, name: rule.name.map(Box::from) };
        Wish {
            keys: request.keys,
            rules: asked.iter().map(own).collect(),
            upto: request.options.upto,
            id: request.options.id.map(Box::from),
            only_renew: request.options.only_renew,
            with_keys: request.options.with_keys,
        }
    }

    /// The time in ms until the first of the policies in force ends.
    pub fn policy_ends_in_ms(&self, call: &Call, now_ms: i64) -> Option<i64> {
        self.rules.iter().filter_map(|rule| in_force(call, rule, now_ms).1).min()
    }

    fn request(&self) -> Request<'_> {
        // A look has no timeout, and the other options exclude one.
        let options = Options {
            upto: self.upto,
            id: self.id.as_deref(),
            only_renew: self.only_renew,
            with_keys: self.with_keys,
            ..Options::default()
        };
        Request { keys: self.keys, options }
    }

    /// The rules in force.
    fn rules(&self, call: &Call, now_ms: i64) -> Rules<'_> {
        self.rules.iter().map(|rule| in_force(call, rule, now_ms).0).collect()
    }
}

/// The rule in force, and the time in ms until its policy ends.
fn in_force<'a>(call: &Call, rule: &'a WishedRule, now_ms: i64) -> (Named<'a>, Option<i64>) {
    let (mut ask, name) = (rule.ask, rule.name.as_deref());
    let end_ms = name.and_then(|name| {
        policies::with(call.main_thread(), |policies| {
            policies.apply(name, &mut ask, now_ms);
            let (_, end_ms) = policies.get(name).in_force(now_ms)?;
            end_ms.map(|end_ms| end_ms - now_ms)
        })
    });
    ask.shadow |= config::only_shadows();
    (Named { ask, name }, end_ms)
}

/// The findings of a look.
#[derive(Default)]
struct Found {
    has_lapsed: bool,
    /// Whether a denying key has holders, which may give permits back at any time.
    may_be_released: bool,
    /// The keys at which the caller asks for more than it already holds.
    asks_more: Vec<usize>,
}

/// Collects [`Found`] under these terms.
struct Finding<'a> {
    terms: &'a Terms<'a>,
    found: Found,
}

impl Observer for Finding<'_> {
    fn wants_answers(&self) -> bool {
        true
    }

    fn denied_by(&mut self, _: usize) {}

    fn decided(&mut self, decision: &Decision, parts: &[Part<'_>]) {
        let more = parts.iter().enumerate().filter(|(_, part)| !part.renews());
        self.found = Found {
            has_lapsed: decision.has_lapsed(self.terms),
            may_be_released: parts.iter().any(|part| part.denies() && is_leased(part.ask())),
            asks_more: more.map(|(key, _)| key).collect(),
        };
    }
}

/// Judges a call over open keys by the rules in force: it is served, denied, or waits for up to
/// `timeout_ms`. A call that waits is not denied, so it starts no block.
pub fn judge(
    request: &Request<'_>,
    rules: &[Named<'_>],
    keys: &mut OpenKeys<'_>,
    terms: &Terms<'_>,
    timeout_ms: i64,
) -> Seen {
    let mut rules = Rules::from_slice(rules);
    rules.iter_mut().for_each(|rule| rule.ask.block_ms = 0);
    let mut finding = Finding { terms, found: Found::default() };
    let asked = AskedKeys { keys, rules: &rules, now_ms: terms.now_ms };
    let (decision, _) = peek(&asked, terms, &mut finding);
    let Found { has_lapsed, may_be_released, asks_more } = finding.found;
    let look = match decision.retry_after_ms {
        _ if decision.granted > 0 => Look::Served { asks_more },
        _ if has_lapsed => Look::Over,
        ..0 => Look::Over,
        for_ms if for_ms > timeout_ms && !may_be_released => Look::Over,
        for_ms => Look::Waits { key: decision.binding, for_ms },
    };
    let corrections = asked.keys.corrections(terms.now_ms);
    let stored = (0..request.keys).filter_map(|key| corrections.or(key, asked.keys.limiter(key)));
    let again_in_ms = stored.filter_map(|stored| exempt_ms(stored, terms.now_ms)).min();
    Seen { look, again_in_ms }
}

/// Whether the limiter has holders, which may give permits back at any time.
fn is_leased(ask: &Ask) -> bool {
    ask.rule.algorithm().is_leased()
}

/// The time that is left of a limiter's exemption, in ms.
fn exempt_ms(stored: &Limiter, now_ms: i64) -> Option<i64> {
    Some(stored.laid().exempt_until_ms - now_ms).filter(|ms| *ms > 0)
}

/// Looks at all keys. `Err` lists the keys whose limiters are ahead of a clock that stepped back.
/// Those must be corrected before they can be judged, and that is a write.
pub fn at_all(call: &Call, wish: &Wish, now_ms: i64, timeout_ms: i64) -> Result<Seen, Vec<usize>> {
    let rules = wish.rules(call, now_ms);
    let mut keys = OpenKeys::new(call);
    if keys.open(wish.keys, Access::Read).is_err() {
        // The server then answers the error itself.
        return Ok(Seen { look: Look::Over, again_in_ms: None });
    }
    let ahead: Vec<usize> = keys.corrections(now_ms).places().collect();
    if !ahead.is_empty() {
        return Err(ahead);
    }
    let request = wish.request();
    let seen = judge(&request, &rules, &mut keys, &terms(&request, now_ms), timeout_ms);
    let ends = [seen.again_in_ms, wish.policy_ends_in_ms(call, now_ms)];
    Ok(Seen { again_in_ms: ends.into_iter().flatten().min(), ..seen })
}

/// Looks at the key at one place.
pub fn at_one(call: &Call, wish: &Wish, key: usize, now_ms: i64, timeout_ms: i64) -> SeenKey {
    let other = |has_room, again_in_ms| SeenKey::Else { has_room, again_in_ms };
    let Some(rule) = wish.rules.get(key).or(wish.rules.first()) else { return other(false, None) };
    let Ok(opened) = Key::open(call, key, Access::Read) else { return other(false, None) };
    let (rule, policy_ends_in_ms) = in_force(call, rule, now_ms);
    let stored = opened.limiter();
    if stored.is_some_and(|stored| stored.pull_back(now_ms).is_some()) {
        return other(false, None);
    }
    let request = wish.request();
    let ask = Ask { block_ms: 0, ..rule.ask };
    let seen = |part: &Part<'_>| (part.denies(), part.verdict().retry_after_ms);
    let (denies, for_ms) = look_at_one(stored, &ask, &terms(&request, now_ms), seen);
    if denies && for_ms >= 0 && (for_ms <= timeout_ms || is_leased(&ask)) {
        return SeenKey::Denies { for_ms };
    }
    let exempt_ms = stored.and_then(|stored| exempt_ms(stored, now_ms));
    other(!denies, [exempt_ms, policy_ends_in_ms].into_iter().flatten().min())
}

/// A denial as things stand, whatever room there is.
pub fn denial(call: &Call, wish: &Wish, now_ms: i64) -> Result<Reply, Failure> {
    let rules = wish.rules(call, now_ms);
    let mut keys = OpenKeys::new(call);
    keys.open(wish.keys, Access::Read)?;
    let terms = terms(&wish.request(), now_ms);
    Ok(acquisition::look(&mut keys, &rules, &terms, wish.with_keys).denied())
}
