#![expect(missing_docs, reason = "what `criterion_group!` makes has no documentation")]
//! Micro-benchmarks of the limiter without Redis: `cargo bench -p rl-core`.
//!
//! What a call costs here is a small part of what it costs in a server; `make bench` measures that.

use std::hint::black_box;
use std::slice;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rl_core::decision::{Ask, Decision, Terms};
use rl_core::grammar::acquire::parse_acquire;
use rl_core::in_memory::{InMemory, acquire_one};
use rl_core::limiter::Limiter;
use rl_core::rule::{Algorithm, Rule, Shape};
use rl_core::stored::effect::encode_effect;
use rl_core::stored::limiter::{decode_limiter, encode_limiter};

/// Any moment will do.
const NOW_MS: i64 = 1_700_000_000_000;

const BENCHED: &[(&str, Algorithm)] = &[
    ("bucket", Algorithm::Bucket),
    ("sliding", Algorithm::Sliding),
    ("fixed", Algorithm::Fixed),
    ("counter", Algorithm::Counter),
];

fn ask(algorithm: Algorithm, limit: u64) -> Ask {
    let rule = Rule::new(algorithm, 3_600_000, limit, Shape::default());
    let rule = rule.expect("the numbers are within the ranges");
    Ask { rule, cost: 1, block_ms: 0, shadow: false }
}

fn terms(now_ms: i64) -> Terms<'static> {
    Terms { now_ms, ..Terms::default() }
}

/// A limiter that granted so many times, a millisecond apart, the last time now.
fn used(ask: &Ask, grants: i64) -> Limiter {
    let mut limiter = None;
    for ago in (0..grants).rev() {
        acquire_one(&mut limiter, ask, &terms(NOW_MS - ago));
    }
    limiter.expect("there is room")
}

/// A call a millisecond later, on limiters as they are.
fn call(limiters: &mut [Option<Limiter>], asks: &[Ask]) -> Decision {
    let terms = terms(NOW_MS + 1);
    let limiters = black_box(limiters);
    InMemory::new(limiters, black_box(asks), terms.now_ms).acquire(&terms, &mut ()).0
}

fn decisions(criterion: &mut Criterion) {
    for (name, algorithm) in BENCHED {
        for (what, limit) in [("granted", 4000), ("denied", 100)] {
            let asks = [ask(*algorithm, limit)];
            let limiters = [Some(used(&asks[0], 100))];
            criterion.bench_function(&format!("call {name} {what}"), |bencher| {
                let copy = || limiters.clone();
                let make = |limiters: &mut [Option<Limiter>; 1]| call(limiters, &asks);
                bencher.iter_batched_ref(copy, make, BatchSize::SmallInput);
            });
        }
    }
    let asks = [ask(Algorithm::Bucket, 4000); 3];
    let limiters = [100, 200, 300].map(|grants| Some(used(&asks[0], grants)));
    criterion.bench_function("call three buckets granted", |bencher| {
        let copy = || limiters.clone();
        let make = |limiters: &mut [Option<Limiter>; 3]| call(limiters, &asks);
        bencher.iter_batched_ref(copy, make, BatchSize::SmallInput);
    });
}

fn encodings(criterion: &mut Criterion) {
    for (name, algorithm) in BENCHED {
        let ask = ask(*algorithm, 4000);
        let mut limiters = [Some(used(&ask, 1000))];
        let terms = terms(NOW_MS + 1);
        let asks = slice::from_ref(&ask);
        let mut call = InMemory::new(&mut limiters, asks, terms.now_ms).recorded();
        call.acquire(&terms, &mut ());
        let (_, effect) = call.into_effects().pop().expect("there is room");
        let limiter = limiters[0].take().expect("it is there");
        let mut out = Vec::new();
        criterion.bench_function(&format!("encode effect of {name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                encode_effect(black_box(&effect), &mut out);
                out.len()
            });
        });
        let mut stored = Vec::new();
        encode_limiter(&limiter, &mut stored);
        criterion.bench_function(&format!("decode {name} of 1000 grants"), |bencher| {
            bencher.iter(|| decode_limiter(black_box(&stored)));
        });
    }
}

fn parsing(criterion: &mut Criterion) {
    let args: [&[u8]; 7] =
        [b"{u42}:login", b"WINDOW", b"60000", b"LIMIT", b"1000", b"ALGO", b"bucket"];
    criterion.bench_function("parse RL.ACQUIRE", |bencher| {
        bencher.iter(|| parse_acquire(black_box(&args[..])));
    });
}

criterion_group!(benches, decisions, encodings, parsing);
criterion_main!(benches);
