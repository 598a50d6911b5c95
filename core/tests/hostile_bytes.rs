//! Damaged and forged bytes: whatever reads as a limiter or an effect must be one that everything works on.
//!
//! A value can come from a broken disk, a `RESTORE` of somebody else's making, or a later version. Overflow
//! checks are on in tests, so arithmetic that a forged number would overflow panics here.

use std::slice;

use proptest::prelude::*;
use rl_core::decision::{Ask, Decision, Part, Terms, Verdict};
use rl_core::effect::Effect;
use rl_core::in_memory::{InMemory, peek_one};
use rl_core::limiter::Limiter;
use rl_core::limiters::Observer;
use rl_core::manage::{Lay, lay, refund, release};
use rl_core::rule::{Algorithm, MAX_IN_USE, MAX_PERMITS, MAX_TIME_MS, MAX_WINDOW_MS, Rule, Shape};
use rl_core::stored::effect::{Payload, decode_payload, encode_effect, encode_whole};
use rl_core::stored::limiter::{decode_limiter, encode_limiter};
use rl_core::stored::varint;

const NOW_MS: i64 = 1_700_000_000_123;
const IDS: [&[u8]; 3] = [b"a", b"somebody", &[0xff; 40]];

fn rules() -> Vec<Rule> {
    let plain = |algorithm, window_ms, limit| {
        Rule::new(algorithm, window_ms, limit, Shape::default()).unwrap()
    };
    let burst = Shape { burst: Some(3), ..Shape::default() };
    let offset = Shape { offset_ms: Some(-28_800_000), ..Shape::default() };
    vec![
        plain(Algorithm::Sliding, 1000, 50),
        plain(Algorithm::Sliding, MAX_WINDOW_MS, MAX_PERMITS),
        plain(Algorithm::Bucket, 1000, 300),
        plain(Algorithm::Bucket, MAX_WINDOW_MS, 1),
        plain(Algorithm::Bucket, 1, MAX_PERMITS),
        Rule::new(Algorithm::Bucket, 1001, 7, burst).unwrap(),
        Rule::new(Algorithm::Fixed, 86_400_000, 5, offset).unwrap(),
        plain(Algorithm::Fixed, MAX_WINDOW_MS, MAX_PERMITS),
        plain(Algorithm::Counter, 1000, 50),
        plain(Algorithm::Counter, MAX_WINDOW_MS, MAX_PERMITS),
        plain(Algorithm::Concurrency, 1000, 5),
        plain(Algorithm::Concurrency, MAX_WINDOW_MS, MAX_PERMITS),
    ]
}

fn encoded(limiter: &Limiter) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_limiter(limiter, &mut bytes);
    bytes
}

fn encoded_effect(effect: &Effect) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_effect(effect, &mut bytes);
    bytes
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

/// A caller's whole command, with what is promised of any answer. Returns what it did.
fn call(limiter: &mut Limiter, ask: Ask, terms: &Terms<'_>) -> Vec<Effect> {
    if let Some((pulled, _)) = limiter.pull_back(terms.now_ms) {
        *limiter = pulled;
    }
    let stored = [Some(limiter.clone())];
    let make = |acquire: &mut dyn FnMut(&mut InMemory<'_>) -> (Decision, Verdict)| {
        let mut limiters = stored.clone();
        let mut call = InMemory::new(&mut limiters, slice::from_ref(&ask), terms.now_ms).recorded();
        let answer = acquire(&mut call);
        let effects: Vec<_> = call.into_effects().into_iter().map(|(_, effect)| effect).collect();
        (answer, effects, limiters)
    };
    let in_full = make(&mut |call| call.acquire(terms, &mut InFull));
    assert_eq!(make(&mut |call| call.acquire(terms, &mut ())), in_full);
    let ((decision, verdict), effects, [after]) = in_full;
    assert!(decision.granted <= terms.upto && decision.binding == 0);
    assert!(verdict.remaining <= verdict.limit, "{verdict:?}");
    assert!((-1..=MAX_TIME_MS).contains(&verdict.retry_after_ms), "{verdict:?}");
    assert!((0..=MAX_TIME_MS).contains(&verdict.reset_after_ms), "{verdict:?}");
    if decision.has_lapsed(terms) {
        assert_eq!(effects, []);
    } else if decision.granted == 0 && !terms.force && terms.now_ms <= NOW_MS {
        assert_ne!(verdict.retry_after_ms, 0);
        // The wait is true of a forged limiter as well, unless it saturated.
        let due_ms = terms.now_ms + verdict.retry_after_ms + terms.reserve_ms;
        let saturated = due_ms >= MAX_TIME_MS;
        // Who only renews is told when there is room, which its lease may not last for.
        let lasts = !terms.only_renew;
        if verdict.retry_after_ms > 0 && !saturated && effects.is_empty() && lasts {
            for (ms, granted) in [(verdict.retry_after_ms, 1), (verdict.retry_after_ms - 1, 0)] {
                let later = Terms { now_ms: terms.now_ms + ms, upto: 1, ..*terms };
                let (decision, _) = peek_one(&stored[0], &ask, &later);
                assert_eq!(decision.granted, granted, "{limiter:?} {ask:?} {later:?}");
            }
        }
    }
    *limiter = after.expect("it stays");
    effects
}

/// Everything that can be done to a limiter, on a copy each.
fn exercise(limiter: &Limiter) {
    assert_stable(limiter);
    for now_ms in [0, NOW_MS, MAX_TIME_MS] {
        for rule in rules().into_iter().chain(limiter.rule()) {
            let ask = Ask { rule, cost: 1, block_ms: 0, shadow: false };
            let terms = Terms { now_ms, resolution: 16, id: Some(IDS[0]), ..Terms::default() };
            let dear = Ask { cost: MAX_PERMITS, block_ms: MAX_WINDOW_MS, ..ask };
            let is_bucket = rule.algorithm() == Algorithm::Bucket;
            let reserve_ms = if is_bucket { MAX_WINDOW_MS } else { 0 };
            let force = rule.algorithm() != Algorithm::Concurrency;
            let mut used = limiter.clone();
            call(&mut used, ask, &terms);
            call(&mut used, ask, &Terms { upto: MAX_PERMITS, ..terms });
            call(&mut used, ask, &Terms { reserve_ms, ..terms });
            call(&mut used, dear, &terms);
            assert_stable(&used);
            for _ in 0..3 {
                call(&mut used, dear, &Terms { force, ..terms });
            }
            call(&mut used, Ask { cost: 0, ..ask }, &terms);
            call(&mut used, ask, &Terms { only_renew: true, ..terms });
            assert_stable(&used);
        }
        let mut managed = limiter.clone();
        if let Some((pulled, _)) = managed.pull_back(now_ms) {
            managed = pulled;
        }
        assert_eq!(managed.pull_back(now_ms), None);
        for permits in [0, 1, MAX_PERMITS, MAX_IN_USE] {
            let mut refunded = managed.clone();
            if let Some(effect) = refund(&managed, permits, now_ms) {
                refunded.apply(&effect);
            }
            assert_stable(&refunded);
        }
        for id in IDS {
            if let Some(effect) = release(&managed, id, now_ms) {
                managed.apply(&effect);
            }
        }
        for kind in [Lay::Block, Lay::Exempt] {
            for for_ms in [0, 1, MAX_WINDOW_MS] {
                if let Some(effect) = lay(Some(&managed), kind, for_ms, now_ms) {
                    managed.apply(&effect);
                }
            }
        }
        assert_stable(&managed);
    }
}

/// It reads back equal, so what is stored is valid.
fn assert_stable(limiter: &Limiter) {
    assert!(limiter.void_at() <= MAX_TIME_MS);
    let bytes = encoded(limiter);
    assert_eq!(decode_limiter(&bytes).as_ref(), Ok(limiter), "{bytes:?}");
}

/// Limiters as they come about, and the effects that made them.
fn samples() -> (Vec<Limiter>, Vec<Effect>) {
    let mut limiters = vec![Limiter::default()];
    let mut effects = Vec::new();
    let mut before = Limiter::default();
    for (i, rule) in rules().into_iter().enumerate() {
        let mut limiter = Limiter::default();
        for k in 0..5u64 {
            let now_ms = NOW_MS - 2500 + 400 * k as i64;
            let cost = if k == 3 { 3 + rule.limit() / 3 } else { 1 + 100 * (k % 2) };
            let id = Some(IDS[k as usize % IDS.len()]);
            let force = rule.algorithm() != Algorithm::Concurrency && k == 2;
            let ask = Ask { rule, cost, block_ms: 5000 * i64::from(k == 4), shadow: false };
            let terms = Terms { now_ms, resolution: 16, id, force, ..Terms::default() };
            effects.extend(call(&mut limiter, ask, &terms));
        }
        limiters.push(limiter.clone());
        // The other kinds of change.
        effects.extend(refund(&limiter, 2, NOW_MS));
        effects.extend(release(&limiter, IDS[0], NOW_MS - 800));
        effects.extend(limiter.pull_back(NOW_MS - 5000).map(|(_, effect)| effect));
        effects.extend(lay(Some(&limiter), Lay::Exempt, 60_000, NOW_MS));
        if i % 3 == 0 {
            limiter.apply(effects.last().unwrap());
            limiters.push(limiter.clone());
        }
        // Permits of the one before carried over.
        let terms = Terms { now_ms: NOW_MS, id: Some(IDS[1]), ..Terms::default() };
        effects.extend(call(
            &mut before,
            Ask { rule, cost: 2, block_ms: 0, shadow: false },
            &terms,
        ));
        before = limiter;
    }
    (limiters, effects)
}

/// The bytes with each byte changed to every other value, and cut at every length.
fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flipped = (0..bytes.len()).flat_map(move |at| {
        (1..=255u8).map(move |by| {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= by;
            damaged
        })
    });
    flipped.chain((0..bytes.len()).map(|len| bytes[..len].to_vec()))
}

#[test]
fn every_damaged_byte_of_a_limiter() {
    let (limiters, _) = samples();
    for limiter in limiters {
        let bytes = encoded(&limiter);
        exercise(&limiter);
        for cut in 0..bytes.len() {
            assert!(decode_limiter(&bytes[..cut]).is_err(), "{bytes:?} cut at {cut}");
        }
        assert!(decode_limiter(&[&bytes[..], &[0]].concat()).is_err(), "bytes left over");
        for damaged in damaged(&bytes) {
            if let Ok(limiter) = decode_limiter(&damaged) {
                exercise(&limiter);
            }
        }
    }
}

#[test]
fn every_damaged_byte_of_an_effect() {
    let (limiters, effects) = samples();
    let wholes = limiters.iter().map(|limiter| {
        let mut whole = Vec::new();
        encode_whole(limiter, &mut whole);
        whole
    });
    for bytes in effects.iter().map(encoded_effect).chain(wholes) {
        for cut in 0..bytes.len() {
            assert!(decode_payload(&bytes[..cut]).is_err(), "{bytes:?} cut at {cut}");
        }
        for damaged in damaged(&bytes) {
            apply_to(&limiters, &damaged, false);
        }
    }
}

/// Applies an effect, if the bytes are one, to all these limiters.
fn apply_to(limiters: &[Limiter], bytes: &[u8], thoroughly: bool) {
    let Ok(payload) = decode_payload(bytes) else { return };
    let effect = match payload {
        Payload::Effect(effect) => effect,
        Payload::Whole(limiter) => {
            assert_stable(&limiter);
            return;
        }
    };
    let again = decode_payload(&encoded_effect(&effect));
    assert_eq!(again, Ok(Payload::Effect(effect.clone())));
    for limiter in limiters {
        let mut limiter = limiter.clone();
        limiter.apply(&effect);
        assert_stable(&limiter);
        limiter.apply(&effect);
        assert_stable(&limiter);
        if thoroughly {
            exercise(&limiter);
        }
    }
}

/// What every valid sample can be turned into by any valid effect works in full.
#[test]
fn any_effect_on_any_limiter() {
    let (limiters, effects) = samples();
    for effect in &effects {
        apply_to(&limiters, &encoded_effect(effect), true);
    }
}

#[test]
fn other_versions_are_refused_as_such() {
    use rl_core::stored::reader::DecodeError;
    for version in (0..=255).filter(|version| *version != 2) {
        assert_eq!(decode_limiter(&[version, 0]), Err(DecodeError::Version(version)));
    }
    for version in (0..=255).filter(|version| *version != 1) {
        assert_eq!(decode_payload(&[version, 0]), Err(DecodeError::Version(version)));
    }
}

/// Numbers at the edges of what the formats allow, and past them.
fn any_number() -> impl Strategy<Value = u64> {
    let edges = [
        MAX_PERMITS,
        MAX_IN_USE,
        MAX_TIME_MS as u64,
        MAX_WINDOW_MS as u64,
        NOW_MS as u64,
        2 * NOW_MS as u64,
        1 << 32,
        1 << 62,
        i64::MAX as u64,
        u64::MAX,
    ];
    let near = (prop::sample::select(edges.to_vec()), 0..3u64)
        .prop_map(|(edge, off)| edge.saturating_add(1).wrapping_sub(off));
    prop_oneof![4 => 0..6u64, 1 => 0..2000u64, 3 => near]
}

/// A version, the bytes that follow it, and numbers.
fn forged(head: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (head, prop::collection::vec(any_number(), 0..16)).prop_map(|(head, numbers)| {
        let mut bytes = vec![1];
        bytes.extend(head);
        for number in numbers {
            varint::write(&mut bytes, number);
        }
        bytes
    })
}

/// A limiter in the right form whose numbers are at liberty.
fn forged_limiter() -> impl Strategy<Value = Vec<u8>> {
    let window = prop_oneof![Just(1u64), 1..2000u64, Just(MAX_WINDOW_MS as u64)];
    let limit = prop_oneof![Just(1u64), 1..100u64, Just(MAX_PERMITS)];
    let time = prop_oneof![
        Just(0u64),
        (0..3000u64).prop_map(|ms| NOW_MS as u64 - 1500 + ms),
        (0..2u64).prop_map(|ms| MAX_TIME_MS as u64 - ms),
    ];
    let permits = prop_oneof![3 => 1..100u64, 1 => (0..2u64).prop_map(|n| MAX_IN_USE - n)];
    let gap = prop_oneof![1..500u64, Just(MAX_WINDOW_MS as u64)];
    let entries = prop::collection::vec((permits.clone(), gap), 0..6);
    let times = [time.clone(), time.clone(), time.clone()];
    (1..6u8, window, limit, [permits.clone(), permits], entries, time, times).prop_map(
        |(tag, window, limit, permits, entries, time, times)| {
            let mut numbers = vec![window, limit];
            // As written for a signed number: twice the number. Windows start at multiples.
            let (signed, start) = (2 * time, 2 * (time / window * window));
            match tag {
                1 => {
                    numbers.extend([entries.len() as u64 + 1, signed]);
                    numbers.extend(entries.iter().flat_map(|(permits, gap)| [*permits, *gap]));
                    numbers.push(permits[0]);
                }
                2 => {
                    numbers.extend([permits[0].min(MAX_PERMITS), time, permits[1] % 4, permits[1]])
                }
                3 => numbers.extend([0, start, permits[0]]),
                4 => numbers.extend([start, permits[0], permits[1]]),
                _ => {
                    numbers.push(entries.len() as u64);
                    for (i, (permits, gap)) in entries.iter().enumerate() {
                        // A name of one byte, or none.
                        let name = if i == 0 { vec![0] } else { vec![1, 96 + i as u64] };
                        numbers.extend(name);
                        numbers.extend([*permits, time, *gap]);
                    }
                }
            }
            let mut bytes = vec![1, tag];
            for number in numbers.into_iter().chain(times) {
                varint::write(&mut bytes, number);
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let forged = [&[1][..], &bytes].concat();
        for bytes in [&bytes, &forged] {
            if let Ok(limiter) = decode_limiter(bytes) {
                exercise(&limiter);
            }
            apply_to(&[Limiter::default()], bytes, true);
        }
    }

    #[test]
    fn forged_limiters(bytes in forged_limiter()) {
        if let Ok(limiter) = decode_limiter(&bytes) {
            exercise(&limiter);
        }
        let whole = [&[1, 16][..], &bytes].concat();
        prop_assert_eq!(decode_payload(&whole).is_ok(), decode_limiter(&bytes).is_ok());
    }

    #[test]
    fn forged_numbers(
        limiter in forged((0..6u8).prop_map(|tag| vec![tag])),
        effect in forged((0..17u8, 0..6u8).prop_map(|(parts, tag)| vec![parts, tag])),
    ) {
        if let Ok(limiter) = decode_limiter(&limiter) {
            exercise(&limiter);
        }
        apply_to(&[Limiter::default()], &effect, true);
    }
}
