//! What the targets share: everything that can be done to a limiter, with what must hold afterwards.

use std::slice;

use rl_core::stored::limiter::{decode_limiter, encode_limiter};
use rl_core::decision::{Ask, Decision, Part, Terms};
use rl_core::in_memory::{InMemory, acquire_one};
use rl_core::effect::Effect;
use rl_core::limiter::Limiter;
use rl_core::limiters::Observer;
use rl_core::manage::{Lay, lay, refund, release};
use rl_core::rule::{Algorithm, MAX_IN_USE, MAX_PERMITS, MAX_TIME_MS, MAX_WINDOW_MS, Rule, Shape};

/// The time at which everything happens, unless it happens at the edges of time.
pub const NOW_MS: i64 = 1_700_000_000_123;

/// The stored form.
pub fn encoded(limiter: &Limiter) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_limiter(limiter, &mut bytes);
    bytes
}

/// What is stored is read back as the same limiter.
pub fn assert_stable(limiter: &Limiter) {
    let bytes = encoded(limiter);
    let again = decode_limiter(&bytes).expect("what was stored is read");
    assert_eq!(encoded(&again), bytes);
    let _ = (limiter.void_at(), limiter.rule(), limiter.heap_bytes(), limiter.allocations());
}

fn apply(limiter: &mut Limiter, effect: Option<Effect>) {
    if let Some(effect) = effect {
        limiter.apply(&effect);
        assert_stable(limiter);
    }
}

/// What every command does first.
fn pull_back(limiter: &mut Limiter, now_ms: i64) {
    if let Some((pulled, effect)) = limiter.pull_back(now_ms) {
        apply(limiter, Some(effect));
        assert_eq!(*limiter, pulled);
    }
}

/// Has the call decided in full, and asks what the limiter would need for it.
struct InFull;

impl Observer for InFull {
    fn wants_answers(&self) -> bool {
        true
    }

    fn denied_by(&mut self, _: usize) {}

    fn decided(&mut self, _: &Decision, parts: &[Part<'_>]) {
        for part in parts {
            let _ = part.effect().is_some_and(|effect| part.grows(&effect));
        }
    }
}

/// One call, with what is promised of any answer.
fn call(limiter: &mut Limiter, ask: Ask, terms: &Terms<'_>) {
    pull_back(limiter, terms.now_ms);
    let mut short = Some(limiter.clone());
    let answer = acquire_one(&mut short, &ask, terms);
    let mut limiters = [Some(limiter.clone())];
    let mut call = InMemory::new(&mut limiters, slice::from_ref(&ask), terms.now_ms);
    let (decision, verdict) = call.acquire(terms, &mut InFull);
    assert_eq!((answer, &short), ((decision, verdict), &limiters[0]));
    assert!(decision.granted <= terms.upto && decision.binding == 0);
    assert!(verdict.remaining <= verdict.limit, "{verdict:?}");
    assert!((-1..=MAX_TIME_MS).contains(&verdict.retry_after_ms), "{verdict:?}");
    assert!((0..=MAX_TIME_MS).contains(&verdict.reset_after_ms), "{verdict:?}");
    *limiter = short.expect("it stays");
    assert_stable(limiter);
}

fn rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    for algorithm in Algorithm::ALL {
        for (window_ms, limit) in [(1000, 50), (MAX_WINDOW_MS, MAX_PERMITS), (1, 1), (1000, 0)] {
            rules.extend(Rule::new(*algorithm, window_ms, limit, Shape::default()));
        }
    }
    rules
}

/// Everything that can be done to a limiter, on a copy each.
pub fn exercise(limiter: &Limiter) {
    assert_stable(limiter);
    for now_ms in [0, NOW_MS, MAX_TIME_MS] {
        for rule in rules().into_iter().chain(limiter.rule()) {
            let algorithm = rule.algorithm();
            let ask = Ask { rule, cost: 1, block_ms: 0, shadow: false };
            let dear = Ask { cost: MAX_PERMITS, block_ms: MAX_WINDOW_MS, ..ask };
            let id = algorithm.is_leased().then_some(&b"id"[..]);
            let terms = Terms { now_ms, resolution: 16, id, ..Terms::default() };
            let mut used = limiter.clone();
            call(&mut used, ask, &terms);
            call(&mut used, ask, &Terms { upto: MAX_PERMITS, ..terms });
            if algorithm.can_reserve() {
                call(&mut used, ask, &Terms { reserve_ms: MAX_WINDOW_MS, ..terms });
            }
            call(&mut used, dear, &Terms { force: !algorithm.is_leased(), ..terms });
            call(&mut used, Ask { cost: 0, ..ask }, &terms);
            call(&mut used, ask, &Terms { only_renew: id.is_some(), ..terms });
        }
        let mut managed = limiter.clone();
        pull_back(&mut managed, now_ms);
        assert_eq!(managed.pull_back(now_ms), None);
        for permits in [0, 1, MAX_IN_USE] {
            let effect = refund(&managed, permits, now_ms);
            apply(&mut managed, effect);
        }
        let effect = release(&managed, b"id", now_ms);
        apply(&mut managed, effect);
        for (kind, for_ms) in [(Lay::Block, 0), (Lay::Block, MAX_WINDOW_MS), (Lay::Exempt, 1)] {
            let effect = lay(Some(&managed), kind, for_ms, now_ms);
            apply(&mut managed, effect);
        }
    }
}
