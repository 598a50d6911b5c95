//! Policies in their stored form, merged one after the other: all or nothing, and what is stored is read back.
//!
//! Bytes in pieces, each behind a byte of length. A piece that starts with a letter is a command instead.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rl_core::decision::Ask;
use rl_core::grammar::integer;
use rl_core::grammar::operator::parse_policy_set;
use rl_core::policies::Policies;
use rl_core::stored::policies::encode;
use rl_core::rule::{Algorithm, Rule, Shape};
use rl_fuzz::NOW_MS;

fn set(policies: &mut Policies, line: &[u8]) {
    let args: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    if let Ok(request) = parse_policy_set(&args[..]) {
        let until_ms = request.for_ms.map(|for_ms| NOW_MS + for_ms);
        if let Some(entry) = policies.get(request.name).with(request.policy, until_ms, NOW_MS) {
            policies.put(request.name, entry);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut policies = Policies::default();
    let mut rest = data;
    while let Some((len, behind)) = rest.split_first() {
        let (piece, behind) = behind.split_at((*len as usize).min(behind.len()));
        rest = behind;
        if piece.first().is_some_and(u8::is_ascii_alphabetic) {
            set(&mut policies, piece);
        } else {
            let before = policies.clone();
            if policies.merge(piece).is_err() {
                assert_eq!(policies, before);
            }
        }
        let stored = encode(policies.iter());
        let mut again = Policies::default();
        again.merge(&stored).expect("what was stored is read");
        assert_eq!(again, policies);
    }
    for algorithm in [Algorithm::Bucket, Algorithm::Concurrency] {
        let rule = Rule::new(algorithm, 1000, 5, Shape::default()).expect("a rule");
        for (name, _) in policies.iter() {
            let mut ask = Ask { rule, cost: 1, block_ms: 0, shadow: false };
            policies.apply(name, &mut ask, NOW_MS);
            let leases = |rule: &Rule| rule.algorithm() == Algorithm::Concurrency;
            assert_eq!(leases(&ask.rule), leases(&rule));
        }
    }
    let _ = integer(data);
    let told = |policies: &Policies| (policies.count(NOW_MS), policies.digest(NOW_MS));
    let before = told(&policies);
    policies.prune(NOW_MS, 1);
    assert_eq!(told(&policies), before);
    policies.prune(NOW_MS, usize::MAX);
    assert_eq!(told(&policies), before);
});
