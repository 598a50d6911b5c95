//! Judges the logs of the clients by the promises of the rules.

use std::collections::HashMap;

use redis::Value;
use testkit::words;

use super::worker::{Grant, Ledger};
use super::*;

/// What the logs of all threads together show.
pub struct Verdict {
    /// Calls that were acknowledged as granted and that the primary no longer knows.
    pub lost: usize,
    /// The largest number of grants that a limiter gave beyond its promise.
    pub excess: i64,
    /// All counts.
    pub counts: Counts,
    grants: HashMap<Limiter, i64>,
}

impl Verdict {
    /// How many acknowledged permits came from a limiter.
    pub fn grants(&self, limiter: Limiter) -> i64 {
        self.grants.get(&limiter).copied().unwrap_or(0)
    }
}

/// Compares the logs with the promises of the rules: over the whole run no limiter may have given more than its
/// promise and those of its grants that were lost.
pub fn judge(title: &str, plan: &Plan, logs: &[Log], route: &mut dyn Route) -> Verdict {
    let mut spans: HashMap<Limiter, Vec<Span>> = HashMap::new();
    let mut lost: HashMap<Limiter, i64> = HashMap::new();
    let mut uncertain: HashMap<Limiter, i64> = HashMap::new();
    let (mut lost_calls, mut counts) = (0, Counts::default());
    for log in logs {
        counts.add(&log.counts);
        let known: Vec<i64> = log.ledgers.iter().map(|ledger| ledger.known(route)).collect();
        for Grant { call, span, entry } in &log.grants {
            let is_lost = entry.is_some_and(|(ledger, number)| number > known[ledger]);
            lost_calls += usize::from(is_lost);
            for limiter in call.limiters() {
                spans.entry(limiter).or_default().push(*span);
                *lost.entry(limiter).or_default() += i64::from(is_lost);
            }
        }
        for limiter in log.uncertain.iter().flat_map(Call::limiters) {
            *uncertain.entry(limiter).or_default() += 1;
        }
    }
    let mut rows: Vec<Row> = vec![Row::default(); plan.rules.len()];
    let mut broken = Vec::new();
    for limiter in plan.limiters() {
        let rule = plan.rule(limiter);
        let spans = spans.get(&limiter).map_or(&[][..], Vec::as_slice);
        let of = |map: &HashMap<Limiter, i64>| map.get(&limiter).copied().unwrap_or(0);
        let (most, excess, lost) = (rule.most_in_a_window(spans), rule.excess(spans), of(&lost));
        rows[limiter.rule].add(most, excess, lost);
        if excess > lost {
            broken.push(format!("{}: {excess} above, {lost} lost", plan.key(limiter)));
        }
        // Limiters that were drained at the end gave everything they had.
        let missing = rule.capacity() - spans.len() as i64 - of(&uncertain);
        if rule.is_long() && missing > 0 {
            broken.push(format!("{}: {missing} permits were not given", plan.key(limiter)));
        }
    }
    println!("{title}: {lost_calls} acknowledged grants lost; {counts:?}");
    for (rule, Row { most, excess, lost }) in plan.rules.iter().zip(&rows) {
        println!("  {}: at most {most} in a window; excess {excess}, lost {lost}", rule.text());
    }
    assert!(broken.is_empty(), "{title}: {broken:#?}");
    Verdict {
        lost: lost_calls,
        excess: rows.iter().map(|row| row.excess).max().expect("a rule"),
        counts,
        grants: spans.into_iter().map(|(limiter, spans)| (limiter, spans.len() as i64)).collect(),
    }
}

/// The worst of all limiters of a rule.
#[derive(Clone)]
struct Row {
    most: i64,
    excess: i64,
    lost: i64,
}

impl Default for Row {
    fn default() -> Row {
        Row { most: 0, excess: i64::MIN, lost: 0 }
    }
}

impl Row {
    fn add(&mut self, most: i64, excess: i64, lost: i64) {
        self.most = self.most.max(most);
        self.excess = self.excess.max(excess);
        self.lost = self.lost.max(lost);
    }
}

impl Ledger {
    /// How many of the ledger's calls the primary knows.
    fn known(&self, route: &mut dyn Route) -> i64 {
        // Many ledgers stayed empty, opened while no node could serve.
        if self.calls == 0 {
            return 0;
        }
        match query(route, self.tag, &words("GET").arg(&self.key)) {
            Value::Nil => 0,
            value => redis::from_redis_value(value).expect("a number"),
        }
    }
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.granted += other.granted;
        self.denied += other.denied;
        self.unconfirmed += other.unconfirmed;
        self.unknown += other.unknown;
        self.moved += other.moved;
        self.ask += other.ask;
        self.try_again += other.try_again;
        self.away += other.away;
    }
}

// ---------------------------------------------------------------------------------------- the check itself

/// Grants whose millisecond is certain.
fn at(times_ms: impl IntoIterator<Item = i64>) -> Vec<Span> {
    times_ms.into_iter().map(|ms| Span { from_ms: ms, to_ms: ms }).collect()
}

#[test]
fn the_check_finds_what_exceeds_a_promise_and_nothing_else() {
    let rule = |algorithm| Rule { algorithm, window_ms: 1000, limit: 10 };
    // A full limiter's worth at once, then one permit each time the promise allows.
    for (algorithm, next_ms, kept) in [
        ("sliding", 2000, 0),
        ("sliding", 1999, 1),
        ("fixed", 2000, 0),
        ("fixed", 1999, 1),
        ("counter", 2100, 0),
        ("counter", 2099, 1),
        ("bucket", 1100, 0),
        ("bucket", 1098, 1),
    ] {
        let mut spans = at([1000; 10]);
        assert_eq!(rule(algorithm).excess(&spans), 0, "{algorithm}");
        spans.extend(at([next_ms]));
        assert_eq!(rule(algorithm).excess(&spans), kept, "{algorithm} at {next_ms}");
        if kept == 1 {
            spans.extend(at([next_ms; 10]));
            assert_eq!(rule(algorithm).excess(&spans), 11, "{algorithm} at {next_ms}");
        }
    }
    assert_eq!(rule("leaky").excess(&at([1000, 1100, 1200])), 0);
    assert_eq!(rule("leaky").excess(&at([1000, 1098])), 1);
    // A grant that may lie outside the window does not count.
    let mut spans = at([1000; 10]);
    spans.push(Span { from_ms: 1999, to_ms: 2000 });
    assert_eq!(rule("sliding").excess(&spans), 0);
    assert_eq!(rule("sliding").excess(&[]), -10);
}
