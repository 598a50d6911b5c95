//! What users are promised, checked from the outside: by the clock and by lists of what was granted, never by
//! looking into a limiter.

use std::slice;

use proptest::prelude::*;
use rl_core::algorithm::State;
use rl_core::decision::{Ask, Terms, Verdict};
use rl_core::in_memory::{InMemory, acquire_one, peek_one};
use rl_core::limiter::Limiter;
use rl_core::manage::refund;
use rl_core::rule::{Algorithm, Rule, Shape};

const DAY_MS: i64 = 86_400_000;
const START_MS: i64 = 1_700_000_000_123;

fn rule(algorithm: Algorithm, window_ms: i64, limit: u64) -> Rule {
    Rule::new(algorithm, window_ms, limit, Shape::default()).unwrap()
}

fn bucket(window_ms: i64, limit: u64, burst: u64) -> Rule {
    let shape = Shape { burst: Some(burst), ..Shape::default() };
    Rule::new(Algorithm::Bucket, window_ms, limit, shape).unwrap()
}

/// What a bucket holds at most: its burst, or what a millisecond brings if that is more.
fn most(window_ms: i64, limit: u64, burst: u64) -> u64 {
    let a_millisecond = (1..).find(|permits| permits * window_ms as u64 >= limit).unwrap();
    burst.max(a_millisecond)
}

fn ask(rule: Rule, cost: u64) -> Ask {
    Ask { rule, cost, block_ms: 0, shadow: false }
}

fn at(now_ms: i64) -> Terms<'static> {
    Terms { now_ms, id: Some(b"lease"), ..Terms::default() }
}

/// Asks without taking.
fn peek(limiter: &Option<Limiter>, ask: Ask, terms: &Terms<'_>) -> Verdict {
    peek_one(limiter, &ask, terms).1
}

/// Asks and takes, as a command does.
fn acquire(limiter: &mut Option<Limiter>, ask: Ask, terms: &Terms<'_>) -> Verdict {
    acquire_one(limiter, &ask, terms).1
}

/// What RL.REFUND does.
fn give_back(limiter: &mut Option<Limiter>, permits: u64, now_ms: i64) {
    let effect = limiter.as_ref().and_then(|limiter| refund(limiter, permits, now_ms));
    if let (Some(effect), Some(limiter)) = (effect, limiter.as_mut()) {
        limiter.apply(&effect);
    }
}

/// How many single permits there are to have at this moment, taken under leases of their own.
fn drain(limiter: &mut Option<Limiter>, rule: Rule, now_ms: i64) -> u64 {
    let mut granted = 0;
    loop {
        let id = format!("drain-{granted}");
        let terms = Terms { id: Some(id.as_bytes()), ..at(now_ms) };
        if acquire(limiter, ask(rule, 1), &terms).granted == 0 {
            return granted;
        }
        granted += 1;
    }
}

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(Algorithm::ALL)
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let windows = prop_oneof![1..50i64, Just(1000), Just(1001), Just(DAY_MS)];
    let limits = prop_oneof![1..30u64, Just(300), Just(5000)];
    (any_algorithm(), windows, limits, prop::option::of(1..30u64), any::<i32>()).prop_map(
        |(algorithm, window_ms, limit, burst, offset)| {
            let mut shape = Shape::default();
            match algorithm {
                Algorithm::Bucket => shape.burst = burst,
                Algorithm::Fixed => shape.offset_ms = Some(i64::from(offset)),
                _ => {}
            }
            Rule::new(algorithm, window_ms, limit, shape).unwrap()
        },
    )
}

/// A call of some traffic: a gap before it as a fraction of the window and some ms, its cost as a
/// fraction of the capacity, whether it is forced, and under which name it holds a lease.
type Call = (u8, i64, u8, bool, u8);

fn any_calls() -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec((0..80u8, 0..3i64, any::<u8>(), prop::bool::weighted(0.1), 0..4u8), 0..40)
}

/// A limiter after that traffic, under two rules in turn, and the time.
fn after(rules: [Rule; 2], calls: &[Call], resolution: u32) -> (Option<Limiter>, i64) {
    let mut limiter = None;
    let mut now_ms = START_MS;
    for (i, (gap, ms, cost, force, name)) in calls.iter().enumerate() {
        // A change in the middle, and the asked rule at the end.
        let rule = rules[usize::from(i >= calls.len() / 2)];
        now_ms += ms + rule.window_ms() * i64::from(gap.saturating_sub(40)) / 40;
        let cost = (rule.capacity() * u64::from(*cost) / 256 / 2).max(1);
        let name = [*name];
        let force = *force && rule.algorithm() != Algorithm::Concurrency;
        let terms = Terms { id: Some(&name), force, resolution, ..at(now_ms) };
        acquire(&mut limiter, ask(rule, cost), &terms);
    }
    (limiter, now_ms)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn waiting_as_told_succeeds_and_a_millisecond_less_does_not(
        before in any_rule(), asked in any_rule(), same in any::<bool>(), calls in any_calls(),
        cost in 1..40u64, reserve in prop::option::of(1..2000i64), fine in any::<bool>(),
    ) {
        let resolution = if fine { 4096 } else { 16 };
        let before = if same { asked } else { before };
        let (limiter, now_ms) = after([before, asked], &calls, resolution);
        let is_bucket = asked.algorithm() == Algorithm::Bucket;
        let reserve_ms = reserve.filter(|_| is_bucket).unwrap_or(0);
        let terms = |ms| Terms { resolution, reserve_ms, id: Some(b"\0"), ..at(now_ms + ms) };
        let ask = ask(asked, cost);
        let verdict = peek(&limiter, ask, &terms(0));
        let wait_ms = verdict.retry_after_ms;
        if verdict.granted == 1 {
            prop_assert!(wait_ms == 0 || reserve_ms > 0);
        } else if cost > asked.capacity() {
            prop_assert_eq!(wait_ms, -1);
        } else {
            prop_assert!(wait_ms > 0);
            prop_assert_eq!(peek(&limiter, ask, &terms(wait_ms)).granted, 1);
            prop_assert_eq!(peek(&limiter, ask, &terms(wait_ms - 1)).granted, 0);
        }
        // Likewise for all of it.
        if verdict.granted == 0 {
            let nothing = Ask { cost: 0, ..ask };
            let nothing_at = |ms| peek(&limiter, nothing, &Terms { reserve_ms: 0, ..terms(ms) });
            let reset_ms = verdict.reset_after_ms;
            prop_assert_eq!(nothing_at(reset_ms).remaining, asked.capacity());
            if reset_ms > 0 {
                prop_assert!(nothing_at(reset_ms - 1).remaining < asked.capacity());
            }
        }
    }

    #[test]
    fn waiting_as_told_succeeds_on_several_keys(
        rules in prop::collection::vec((any_rule(), 1..5u64, any_calls()), 2..5),
    ) {
        let states: Vec<_> = rules.iter().map(|(rule, _, calls)| after([*rule; 2], calls, 16)).collect();
        let now_ms = states.iter().map(|(_, now_ms)| *now_ms).max().unwrap();
        let asks: Vec<_> = rules.iter().map(|(rule, cost, _)| ask(*rule, *cost)).collect();
        let decide_at = |now_ms| {
            let mut limiters: Vec<_> = states.iter().map(|(limiter, _)| limiter.clone()).collect();
            let terms = Terms { resolution: 16, ..at(now_ms) };
            InMemory::new(&mut limiters, &asks, now_ms).acquire(&terms, &mut ()).0
        };
        let decision = decide_at(now_ms);
        if decision.granted == 0 && decision.retry_after_ms > 0 {
            prop_assert_eq!(decide_at(now_ms + decision.retry_after_ms).granted, 1);
            prop_assert_eq!(decide_at(now_ms + decision.retry_after_ms - 1).granted, 0);
        }
    }

    #[test]
    fn a_denied_cost_leaves_everything_as_it_was(
        algorithm in any_algorithm(), window_ms in 1..2000i64, calls in any_calls(),
    ) {
        let five = rule(algorithm, window_ms, 5);
        let (limiter, now_ms) = after([five; 2], &calls, 16);
        let ask = ask(five, 1000);
        let terms = Terms { resolution: 16, ..at(now_ms) };
        let mut limiters = [limiter];
        let mut call = InMemory::new(&mut limiters, slice::from_ref(&ask), now_ms).recorded();
        let (decision, verdict) = call.acquire(&terms, &mut ());
        prop_assert_eq!(decision.granted, 0);
        prop_assert_eq!(call.into_effects(), []);
        prop_assert_eq!(verdict.retry_after_ms, -1);
    }

    #[test]
    fn who_never_asks_for_more_than_the_rate_is_never_refused(
        window_ms in 1..2000i64, rate in 1..20u64, part in 0..2000u64, burst in 1..30u64,
        before in any_calls(), parts in prop::collection::vec((0..3i64, 0..=100u64, 1..4u64), 1..100),
    ) {
        // At least a permit a millisecond, of which each may ask for the whole ones.
        let limit = rate * window_ms as u64 + part % window_ms as u64;
        let rule = bucket(window_ms, limit, burst);
        // Whatever was before: once the bucket was full.
        let (mut limiter, mut now_ms) = after([rule; 2], &before, 16);
        now_ms += peek(&limiter, ask(rule, 0), &at(now_ms)).reset_after_ms;
        for (gap, percent, pieces) in parts {
            let permits = rate * percent / 100;
            for piece in 0..pieces {
                let cost = permits * (piece + 1) / pieces - permits * piece / pieces;
                prop_assert_eq!(acquire(&mut limiter, ask(rule, cost), &at(now_ms)).granted, 1);
            }
            now_ms += 1 + gap;
        }
    }

    #[test]
    fn an_idle_bucket_holds_exactly_its_burst(
        window_ms in 1..2000i64, limit in 1..6000u64, burst in 1..100u64, calls in any_calls(),
        idle in 1..100_000i64,
    ) {
        let rule = bucket(window_ms, limit, burst);
        let (mut limiter, now_ms) = after([rule; 2], &calls, 16);
        let reset_ms = peek(&limiter, ask(rule, 0), &at(now_ms)).reset_after_ms;
        // In the very millisecond in which it becomes full it may still hold what came beyond.
        let held = drain(&mut limiter, rule, now_ms + reset_ms + idle);
        prop_assert_eq!(held, most(window_ms, limit, burst));
    }

    #[test]
    fn a_bucket_never_gives_more_than_its_burst_and_its_rate(
        window_ms in 1..2000i64, limit in 1..2000u64, burst in 1..30u64,
        gaps in prop::collection::vec((0..30i64, 1..40u64), 1..80),
    ) {
        let rule = bucket(window_ms, limit, burst);
        let burst = most(window_ms, limit, burst);
        let mut limiter = None;
        let mut now_ms = START_MS;
        let mut grants: Vec<(i64, u64)> = Vec::new();
        for (gap, upto) in gaps {
            now_ms += gap;
            let granted = acquire(&mut limiter, ask(rule, 1), &Terms { upto, ..at(now_ms) }).granted;
            prop_assert!(granted <= burst);
            grants.push((now_ms, granted));
        }
        for (i, (from_ms, _)) in grants.iter().enumerate() {
            let mut given = 0;
            for (to_ms, granted) in &grants[i..] {
                given += granted;
                // What one of its milliseconds brings can be left from the one before.
                let brought = (to_ms - from_ms + 1) as u64 * limit;
                prop_assert!(given * window_ms as u64 <= burst * window_ms as u64 + brought);
            }
        }
    }

    #[test]
    fn a_sliding_window_never_holds_more_than_the_limit(
        window_ms in 1..500i64, limit in 1..60u64,
        calls in prop::collection::vec((0..12i64, 1..6u64), 1..300),
    ) {
        // A resolution of 16: rounded above 16 permits, and from the sixteenth entry on.
        let resolution = 16;
        let rule = rule(Algorithm::Sliding, window_ms, limit);
        let mut limiter = None;
        let mut now_ms = START_MS;
        let mut grants: Vec<(i64, u64)> = Vec::new();
        for (gap, upto) in calls {
            now_ms += gap;
            let terms = Terms { upto, resolution, ..at(now_ms) };
            let granted = acquire(&mut limiter, ask(rule, 1), &terms).granted;
            grants.push((now_ms, granted));
            let live = grants.iter().filter(|(t, _)| now_ms - t < window_ms);
            prop_assert!(live.map(|(_, n)| n).sum::<u64>() <= limit);
            if let Some(State::Sliding(log)) = limiter.as_ref().map(Limiter::state) {
                prop_assert!(log.entries() <= 2 * resolution + 1);
            }
        }
    }

    /// Whoever gives back, and whatever permits of its own those are: what others took stays in use for a window.
    #[test]
    fn what_is_given_back_never_makes_a_sliding_window_forget_what_is_not(
        window_ms in 1..500i64, limit in 1..60u64,
        calls in prop::collection::vec((0..40i64, 1..6u64, prop::option::of((any::<u16>(), 1..6u64))), 1..200),
    ) {
        let rule = rule(Algorithm::Sliding, window_ms, limit);
        let mut limiter = None;
        let mut now_ms = START_MS;
        let mut out: Vec<(i64, u64)> = Vec::new();
        for (gap, upto, given_back) in calls {
            now_ms += gap;
            out.retain(|(taken_ms, _)| now_ms - taken_ms < window_ms);
            if let Some((whose, permits)) = given_back && !out.is_empty() {
                let whose = usize::from(whose) % out.len();
                let permits = permits.min(out[whose].1);
                out[whose].1 -= permits;
                give_back(&mut limiter, permits, now_ms);
            }
            let granted = acquire(&mut limiter, ask(rule, 1), &Terms { upto, ..at(now_ms) }).granted;
            out.push((now_ms, granted));
            prop_assert!(out.iter().map(|(_, permits)| permits).sum::<u64>() <= limit);
        }
    }

    /// By a list of who holds what: under limits that change with each call, a holder keeps what it has as long as it
    /// renews, newcomers never make it more than the limit, and who only renews takes nothing new.
    #[test]
    fn holders_go_on_and_newcomers_wait(
        window_ms in 1..500i64,
        calls in prop::collection::vec((0..200i64, 0..6u8, 1..5u64, 1..12u64, any::<bool>()), 1..200),
    ) {
        let mut limiter = None;
        let mut now_ms = START_MS;
        let mut held: Vec<(u8, u64, i64)> = Vec::new();
        for (gap, who, cost, limit, only_renew) in calls {
            now_ms += gap.saturating_sub(150).max(0) * window_ms / 40 + gap % 3;
            held.retain(|(_, _, end_ms)| *end_ms > now_ms);
            let own = held.iter().find(|(id, ..)| *id == who).map_or(0, |(_, permits, _)| *permits);
            let others = held.iter().map(|(_, permits, _)| permits).sum::<u64>() - own;
            let before = limiter.clone();
            let terms = Terms { id: Some(&[who]), only_renew, ..at(now_ms) };
            let rule = rule(Algorithm::Concurrency, window_ms, limit);
            let verdict = acquire(&mut limiter, ask(rule, cost), &terms);
            if only_renew && own == 0 {
                prop_assert_eq!((verdict.granted, verdict.retry_after_ms), (0, 0));
                prop_assert_eq!(&limiter, &before);
                continue;
            }
            prop_assert_eq!(verdict.granted == 1, own >= cost || others + cost <= limit);
            prop_assert_eq!(verdict.granted == 0, verdict.retry_after_ms != 0);
            if verdict.granted == 1 {
                held.retain(|(id, ..)| *id != who);
                held.push((who, cost, now_ms + window_ms));
            }
        }
    }

    #[test]
    fn an_exact_sliding_window_gives_all_of_the_limit(
        window_ms in 1..500i64, limit in 1..60u64,
        calls in prop::collection::vec((0..12i64, 1..6u64), 1..200),
    ) {
        let rule = rule(Algorithm::Sliding, window_ms, limit);
        let mut limiter = None;
        let mut now_ms = START_MS;
        let mut grants: Vec<(i64, u64)> = Vec::new();
        for (gap, cost) in calls {
            now_ms += gap;
            let live = grants.iter().filter(|(t, _)| now_ms - t < window_ms);
            let fits = live.map(|(_, n)| n).sum::<u64>() + cost <= limit;
            let verdict = acquire(&mut limiter, ask(rule, cost), &at(now_ms));
            prop_assert_eq!(verdict.granted == 1, fits);
            if fits {
                grants.push((now_ms, cost));
            }
        }
    }

    #[test]
    fn a_counter_keeps_its_formula_and_uses_it_up(
        window_ms in 1..500i64, limit in 1..60u64,
        calls in prop::collection::vec((0..60i64, 1..6u64), 1..200),
    ) {
        let rule = rule(Algorithm::Counter, window_ms, limit);
        let mut limiter = None;
        let mut now_ms = START_MS;
        let mut grants: Vec<(i64, u64)> = Vec::new();
        for (gap, cost) in calls {
            now_ms += gap;
            let (window, elapsed) = (now_ms / window_ms, now_ms % window_ms);
            let taken_in = |k| grants.iter().filter(|(t, _)| t / window_ms == k).map(|(_, n)| n).sum::<u64>();
            // previous * (window - elapsed) / window + current + cost <= limit, multiplied out
            let used = taken_in(window - 1) * (window_ms - elapsed) as u64 + (taken_in(window) + cost) * window_ms as u64;
            let fits = used <= limit * window_ms as u64;
            let verdict = acquire(&mut limiter, ask(rule, cost), &at(now_ms));
            prop_assert_eq!(verdict.granted == 1, fits);
            if fits {
                grants.push((now_ms, cost));
            }
        }
    }

    #[test]
    fn who_waits_for_his_reservation_keeps_the_rate(
        window_ms in 1..2000i64, limit in 1..2000u64, burst in 1..20u64,
        gaps in prop::collection::vec(0..20i64, 1..150),
    ) {
        let rule = bucket(window_ms, limit, burst);
        let burst = most(window_ms, limit, burst);
        let mut limiter = None;
        let mut now_ms = START_MS;
        let mut due: Vec<i64> = Vec::new();
        for gap in gaps {
            now_ms += gap;
            let terms = Terms { reserve_ms: 1_000_000_000, ..at(now_ms) };
            let verdict = acquire(&mut limiter, ask(rule, 1), &terms);
            prop_assert_eq!(verdict.granted, 1);
            due.push(now_ms + verdict.retry_after_ms);
        }
        prop_assert!(due.is_sorted());
        for (i, from_ms) in due.iter().enumerate() {
            for (n, to_ms) in due[i..].iter().enumerate() {
                let brought = (to_ms - from_ms + 1) as u64 * limit;
                prop_assert!((n as u64 + 1) * window_ms as u64 <= burst * window_ms as u64 + brought);
            }
        }
    }
}

/// Asked as often as it likes in every millisecond, from full on: burst and then the rate, to the permit.
#[test]
fn a_bucket_delivers_its_rate() {
    let rates = [(300, 1000), (900, 1000), (7, 1001), (5000, 1000), (333, 1001)];
    for (limit, window_ms) in rates {
        for burst in [1, 2, 10] {
            let rule = bucket(window_ms, limit, burst);
            let burst = most(window_ms, limit, burst);
            let mut limiter = None;
            let mut granted = 0;
            for ms in 0..300_000 {
                granted += drain(&mut limiter, rule, START_MS + ms);
                let brought = ms as u64 * limit / window_ms as u64;
                assert_eq!(
                    granted,
                    burst + brought,
                    "{limit} per {window_ms}, burst {burst}, {ms}"
                );
            }
        }
    }
}

/// The n-th permit asked for when the rate has brought it, whatever rate that is, and nobody is refused.
#[test]
fn an_even_demand_at_the_rate_is_never_refused() {
    for limit in
        [1, 7, 300, 999, 1000, 1001, 1400, 1999, 2000, 2001, 10_000, 20_000, 20_001, 777_777]
    {
        for (window_ms, burst) in [(1000, 1), (1001, 1), (1000, 3), (60, 1), (1, 1)] {
            let rule = bucket(window_ms, limit, burst);
            let mut limiter = None;
            for n in 0..5000 {
                let due_ms = (n * window_ms as u64).div_ceil(limit) as i64;
                let verdict = acquire(&mut limiter, ask(rule, 1), &at(START_MS + due_ms));
                assert_eq!(
                    verdict.granted, 1,
                    "{limit} per {window_ms}, burst {burst}: number {n}"
                );
            }
        }
    }
}

/// The same over 48 hours. Between two grants nothing is granted, so only those moments are visited.
#[test]
fn a_slow_bucket_does_not_drift_in_two_days() {
    for (limit, window_ms, burst) in [(7, 1001, 1), (7, 1001, 3), (3, 1000, 1), (1, 777, 1)] {
        let rule = bucket(window_ms, limit, burst);
        let mut limiter = None;
        let mut granted = 0;
        let mut ms = 0;
        while ms < 2 * DAY_MS {
            let verdict = acquire(&mut limiter, ask(rule, 1), &at(START_MS + ms));
            granted += verdict.granted;
            let due = burst + ms as u64 * limit / window_ms as u64;
            assert!(granted <= due, "{limit} per {window_ms}: {granted} of {due} at {ms}");
            if verdict.granted == 0 {
                assert_eq!(granted, due, "{limit} per {window_ms}: at {ms}");
                ms += verdict.retry_after_ms;
            }
        }
    }
}

/// Fast rates over 48 hours: emptied every few seconds at odd times, never full, and every thousandth
/// time asked each millisecond for a while.
#[test]
fn a_fast_bucket_does_not_drift_in_two_days() {
    for (limit, window_ms) in [(300, 1000), (900, 1000), (5000, 1000), (333, 1001)] {
        let rule = bucket(window_ms, limit, 1_000_000);
        let mut limiter = None;
        let mut granted = 0;
        let mut ms = 0;
        for i in 0.. {
            granted +=
                acquire(&mut limiter, ask(rule, 1), &Terms { upto: u64::MAX, ..at(START_MS + ms) })
                    .granted;
            let due = 1_000_000 + ms as u64 * limit / window_ms as u64;
            assert_eq!(granted, due, "{limit} per {window_ms}: at {ms}");
            if ms > 2 * DAY_MS {
                break;
            }
            ms += if i % 1000 < 100 { 1 } else { 1 + i * 7919 % 9973 };
        }
    }
}

/// Asked each millisecond with a burst of 1, at the end of two days in which it was asked at odd times.
#[test]
fn strict_pacing_is_still_exact_after_two_days() {
    for (limit, window_ms) in [(300, 1000), (900, 1000), (7, 1001), (5000, 1000)] {
        let rule = bucket(window_ms, limit, 1);
        let mut limiter = None;
        let mut ms = 0;
        for i in 0.. {
            acquire(&mut limiter, ask(rule, 1), &at(START_MS + ms));
            if ms > 2 * DAY_MS {
                break;
            }
            ms += 1 + i * 7919 % 997;
        }
        drain(&mut limiter, rule, START_MS + ms);
        let seconds = 20;
        let span_ms = seconds * window_ms;
        let granted: u64 =
            (1..=span_ms).map(|d| drain(&mut limiter, rule, START_MS + ms + d)).sum();
        assert_eq!(granted, seconds as u64 * limit, "{limit} per {window_ms}");
    }
}

/// Reservations that are all made at the same moment come due at exactly the rate.
#[test]
fn reservations_come_due_at_the_rate() {
    for (limit, window_ms, burst) in [(300, 1000, 1), (7, 1001, 3), (5000, 1000, 1), (1, 60_000, 2)]
    {
        let rule = bucket(window_ms, limit, burst);
        let burst = most(window_ms, limit, burst);
        let mut limiter = None;
        for k in 1..=2000u64 {
            let terms = Terms { reserve_ms: 10 * DAY_MS, ..at(START_MS) };
            let verdict = acquire(&mut limiter, ask(rule, 1), &terms);
            let due_ms = (k.saturating_sub(burst) * window_ms as u64).div_ceil(limit);
            assert_eq!((verdict.granted, verdict.retry_after_ms), (1, due_ms as i64));
        }
    }
}

#[test]
fn denials_cost_nothing_and_a_raised_limit_helps_at_once() {
    for &algorithm in Algorithm::ALL {
        for limit in [1, 5, 40] {
            let small = rule(algorithm, 10_000, limit);
            let mut limiter = None;
            assert_eq!(drain(&mut limiter, small, START_MS), limit, "{algorithm:?}");
            for _ in 0..500 {
                assert_eq!(acquire(&mut limiter, ask(small, 1), &at(START_MS)).granted, 0);
            }
            let raised = rule(algorithm, 10_000, limit + 1);
            // Under names that are not among those that hold.
            let one_more = acquire(&mut limiter, ask(raised, 1), &at(START_MS));
            assert_eq!((one_more.granted, one_more.remaining), (1, 0), "{algorithm:?}");
            let terms = Terms { id: Some(b"another"), ..at(START_MS) };
            assert_eq!(acquire(&mut limiter, ask(raised, 1), &terms).granted, 0, "{algorithm:?}");
        }
    }
}

#[test]
fn a_fixed_day_turns_over_at_midnight_of_its_zone() {
    let hour_ms = 3_600_000;
    let shape = Shape { offset_ms: Some(-8 * hour_ms), ..Shape::default() };
    let rule = Rule::new(Algorithm::Fixed, DAY_MS, 3, shape).unwrap();
    // 2023-11-15 00:00 eight hours east of Greenwich.
    let midnight_ms = 1_699_977_600_000;
    let mut limiter = None;
    assert_eq!(drain(&mut limiter, rule, midnight_ms - 3 * hour_ms), 3);
    let denied = acquire(&mut limiter, ask(rule, 1), &at(midnight_ms - 1));
    assert_eq!((denied.granted, denied.retry_after_ms, denied.reset_after_ms), (0, 1, 1));
    assert_eq!(drain(&mut limiter, rule, midnight_ms), 3);
    let denied = acquire(&mut limiter, ask(rule, 1), &at(midnight_ms));
    assert_eq!((denied.granted, denied.retry_after_ms), (0, DAY_MS));
}

#[test]
fn what_is_relocated_part_by_part_stays_the_same() {
    for &algorithm in Algorithm::ALL {
        let rule = rule(algorithm, DAY_MS, 3000);
        let mut limiter = None;
        for n in 0..3000 {
            let id = format!("lease-{n}");
            let terms = Terms { id: Some(id.as_bytes()), ..at(START_MS + n) };
            assert_eq!(acquire(&mut limiter, ask(rule, 1), &terms).granted, 1, "{algorithm:?}");
        }
        let mut limiter = limiter.unwrap();
        let before = limiter.clone();
        let mut sizes = Vec::new();
        assert!(limiter.each_part(0, |part| {
            *part = part.clone();
            sizes.push(part.len());
            true
        }));
        assert_eq!(limiter, before, "{algorithm:?}");
        assert!(sizes.iter().sum::<usize>() <= limiter.heap_bytes(), "{algorithm:?}");
        assert!(sizes.len() < limiter.allocations(), "{algorithm:?}");
        assert_eq!(sizes.is_empty(), limiter.heap_bytes() == 0, "{algorithm:?}");
        // A caller that stops goes on where it stopped.
        for from in 0..=sizes.len() {
            let mut seen = Vec::new();
            let is_done = limiter.each_part(from, |part| {
                seen.push(part.len());
                false
            });
            assert_eq!(seen, &sizes[from..][..usize::from(from < sizes.len())], "{algorithm:?}");
            assert_eq!(is_done, from == sizes.len(), "{algorithm:?}");
        }
    }
}
