#![expect(missing_docs, reason = "what `criterion_group!` makes has no documentation")]
//! Micro-benchmarks of the limiter without Redis: `cargo bench -p rl-core`.
//!
//! What a call costs here is a small part of what it costs in a server; `make bench` measures that.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use rl_core::decision::{Ask, Decision, Part, Terms, decide};
use rl_core::grammar::acquire::parse_acquire;
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
    let mut limiter = Limiter::default();
    for ago in (0..grants).rev() {
        let mut parts = [Part::new(Some(&limiter), ask)];
        decide(&mut parts, &terms(NOW_MS - ago));
        let effect = parts[0].effect().expect("there is room");
        limiter.apply(&effect);
    }
    limiter
}

fn decide_one(limiter: &Limiter, ask: &Ask) -> Decision {
    let mut parts = [Part::new(Some(limiter), ask)];
    decide(&mut parts, &terms(NOW_MS + 1))
}

fn decisions(criterion: &mut Criterion) {
    for (name, algorithm) in BENCHED {
        let granted = ask(*algorithm, 4000);
        let limiter = used(&granted, 100);
        criterion.bench_function(&format!("decide {name} granted"), |bencher| {
            bencher.iter(|| decide_one(black_box(&limiter), black_box(&granted)));
        });
        let denied = ask(*algorithm, 100);
        let limiter = used(&denied, 100);
        criterion.bench_function(&format!("decide {name} denied"), |bencher| {
            bencher.iter(|| decide_one(black_box(&limiter), black_box(&denied)));
        });
    }
    let ask = ask(Algorithm::Bucket, 4000);
    let limiters = [used(&ask, 100), used(&ask, 200), used(&ask, 300)];
    criterion.bench_function("decide three buckets granted", |bencher| {
        bencher.iter(|| {
            let mut parts = black_box(&limiters).each_ref().map(|l| Part::new(Some(l), &ask));
            decide(&mut parts, &terms(NOW_MS + 1))
        });
    });
}

fn encodings(criterion: &mut Criterion) {
    for (name, algorithm) in BENCHED {
        let ask = ask(*algorithm, 4000);
        let limiter = used(&ask, 1000);
        let mut parts = [Part::new(Some(&limiter), &ask)];
        decide(&mut parts, &terms(NOW_MS + 1));
        let effect = parts[0].effect().expect("there is room");
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
