//! The limits that are found: enough, when one less is not, for every algorithm and kind of burst.

use rl_sim::entry::Entry;
use rl_sim::log::Log;
use rl_sim::replay::replay;
use rl_sim::rule::{By, Simulated};
use rl_sim::search::Search;
use rl_sim::stream::Stream;

const RESOLUTION: u32 = 4096;

/// A small generator of random numbers (SplitMix64), the same on each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Bursts and pauses over three keys, at most one request in a millisecond.
fn random_log(seed: u64, requests: u64, highest_cost: u64) -> Log {
    let mut random = Random(seed);
    let mut log = Log::new([By::Key, By::Global]);
    let mut time_ms = 1_700_000_000_000;
    for _ in 0..requests {
        time_ms += match random.below(10) {
            0 => 1 + random.below(400) as i64,
            _ => 1 + random.below(5) as i64,
        };
        let key: &[u8] = [b"a", b"a", b"b", b"c"][random.below(4) as usize];
        let cost = 1 + random.below(highest_cost);
        assert!(log.push(&Entry { time_ms, cost, key: Some(key.into()), ..Entry::default() }));
    }
    log
}

fn refused(log: &Log, stream: &Stream, rule: &Simulated, limit: u64) -> u64 {
    let rule = rule.with_limit(limit).expect("a limit within range");
    replay(log, stream, &rule, RESOLUTION).refused_by_id.iter().sum()
}

const RULES: [&str; 9] = [
    "key WINDOW 100ms LIMIT 10 ALGO sliding",
    "global WINDOW 1s LIMIT 10 ALGO sliding BLOCK 50ms",
    "key WINDOW 100ms LIMIT 10 ALGO bucket",
    "global WINDOW 1s LIMIT 10 ALGO bucket BURST 3",
    "key WINDOW 1s LIMIT 10 ALGO bucket BURST 20",
    "global WINDOW 1s LIMIT 1 ALGO leaky",
    "key WINDOW 250ms LIMIT 10 ALGO fixed OFFSET 7ms",
    "key WINDOW 100ms LIMIT 10 ALGO counter",
    "global WINDOW 1s LIMIT 0 ALGO counter COST 2",
];

#[test]
fn one_less_than_the_limit_found_refuses_more() {
    for seed in 0..5 {
        let log = random_log(seed, 2000, 1);
        for text in RULES {
            let rule: Simulated = text.parse().expect("a rule");
            let stream = Stream::new(&log, &rule);
            let search = Search { stream: &stream, rule: &rule, resolution: RESOLUTION };
            let limit = search.refusing_nobody().expect("a limit");
            assert_eq!(refused(&log, &stream, &rule, limit), 0, "{text}");
            assert!(refused(&log, &stream, &rule, limit - 1) > 0, "{text}");
            for allowed in [1, 2, 20, 500] {
                let limit = search.refusing_at_most(allowed).expect("a limit");
                assert!(refused(&log, &stream, &rule, limit) <= allowed, "{text}");
                assert!(refused(&log, &stream, &rule, limit - 1) > allowed, "{text}");
            }
        }
    }
}

#[test]
fn it_is_the_smallest_of_all() {
    for seed in 5..8 {
        for highest_cost in [1, 4] {
            let log = random_log(seed, 150, highest_cost);
            for text in RULES.iter().filter(|text| !text.contains("leaky")) {
                let rule: Simulated = text.parse().expect("a rule");
                let stream = Stream::new(&log, &rule);
                let search = Search { stream: &stream, rule: &rule, resolution: RESOLUTION };
                let by_trying = (0..).find(|limit| refused(&log, &stream, &rule, *limit) == 0);
                assert_eq!(search.refusing_nobody(), by_trying, "{text}");
                if highest_cost == 1 && !text.contains("BLOCK") {
                    let by_trying = (0..).find(|limit| refused(&log, &stream, &rule, *limit) <= 3);
                    assert_eq!(search.refusing_at_most(3), by_trying, "{text}");
                }
            }
        }
    }
}

/// Paced, two that came in one millisecond need a rate that brings two in one, which a long window never has.
#[test]
fn pacing_lets_two_through_at_once_only_above_a_permit_a_millisecond() {
    let mut log = Log::new([By::Global]);
    for _ in 0..2 {
        let (time_ms, cost) = (1_700_000_000_000, 1);
        assert!(log.push(&Entry { time_ms, cost, ..Entry::default() }));
    }
    for (window, limit) in
        [("1s", Some(1001)), ("40ms", Some(41)), ("3650d", Some(315_360_000_001))]
    {
        for algorithm in ["leaky", "bucket BURST 1"] {
            let rule = format!("global WINDOW {window} LIMIT 1 ALGO {algorithm}");
            let rule: Simulated = rule.parse().expect("a rule");
            let stream = Stream::new(&log, &rule);
            let search = Search { stream: &stream, rule: &rule, resolution: RESOLUTION };
            assert_eq!(search.refusing_nobody(), limit, "{window} {algorithm}");
            assert_eq!(search.refusing_at_most(1), Some(1), "{window} {algorithm}");
        }
    }
}

#[test]
fn pacing_may_refuse_someone_under_any_limit() {
    let mut log = Log::new([By::Global]);
    for _ in 0..5 {
        let (time_ms, cost) = (1_700_000_000_000, 1);
        assert!(log.push(&Entry { time_ms, cost, ..Entry::default() }));
    }
    // The highest limit brings four in a millisecond.
    let rule: Simulated = "global WINDOW 3650d LIMIT 1 ALGO leaky".parse().expect("a rule");
    let stream = Stream::new(&log, &rule);
    let search = Search { stream: &stream, rule: &rule, resolution: RESOLUTION };
    assert_eq!(search.refusing_nobody(), None);
    assert_eq!(search.refusing_at_most(1), Some(3 * 315_360_000_000 + 1));
}
