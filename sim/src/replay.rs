//! Replays requests on the decision of `rl-core`, with the times of the log as the clock.

use rl_core::decision::{Ask, Decision, Part, Terms};
use rl_core::in_memory::{InMemory, acquire_one};
use rl_core::limiter::Limiter;
use rl_core::limiters::Observer;

use crate::log::{Column, Log};
use crate::rule::Simulated;
use crate::stream::{Key, Request, Stream};

/// How long a refused request would have had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The longest, in ms, if any was refused that can be granted at all.
    pub longest_ms: Option<i64>,
    /// Refused requests that can never be granted: they cost more than there ever is.
    pub never: u64,
}

impl Waits {
    fn add(&mut self, retry_after_ms: i64) {
        match retry_after_ms {
            -1 => self.never += 1,
            wait_ms => self.longest_ms = self.longest_ms.max(Some(wait_ms)),
        }
    }
}

/// What a rule did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// For each request of the log, whether it was granted. One without such a key is.
    pub granted: Vec<bool>,
    /// For each key of the rule's column, how many were refused.
    pub refused_by_id: Vec<u64>,
    /// How long they would have waited.
    pub waits: Waits,
}

/// What one rule did in the calls of all rules.
#[derive(Clone, Debug)]
pub struct Share {
    /// Refused calls in which this rule had no room.
    pub refused: u64,
    /// Those in which it was the only one.
    pub alone: u64,
    /// For each key of the rule's column, how many it refused.
    pub refused_by_id: Vec<u64>,
}

/// What the calls of all rules together came to.
#[derive(Clone, Debug)]
pub struct Together {
    /// For each request of the log, whether it was granted.
    pub granted: Vec<bool>,
    /// How long they would have waited.
    pub waits: Waits,
    /// For each rule.
    pub shares: Vec<Share>,
}

/// Replays the requests of one key until `each`, called with each request and whether it was
/// granted or else how long to wait, returns `false`. Returns whether it never did.
pub fn replay_key(
    stream: &Stream,
    key: &Key,
    rule: &Simulated,
    resolution: u32,
    mut each: impl FnMut(&Request, Option<i64>) -> bool,
) -> bool {
    let mut limiter = None;
    for request in stream.requests(key) {
        let ask = rule.ask_for(request.cost);
        let terms = Terms { now_ms: request.time_ms, resolution, ..Terms::default() };
        let (decision, _) = acquire_one(&mut limiter, &ask, &terms);
        let refused = (decision.granted == 0).then_some(decision.retry_after_ms);
        if !each(&request, refused) {
            return false;
        }
    }
    true
}

/// Replays all requests under one rule on its own.
pub fn replay(log: &Log, stream: &Stream, rule: &Simulated, resolution: u32) -> Outcome {
    let mut outcome = Outcome {
        granted: vec![true; log.len()],
        refused_by_id: vec![0; log.column(rule.by).names.len()],
        waits: Waits::default(),
    };
    for key in &stream.keys {
        replay_key(stream, key, rule, resolution, |request, refused| {
            if let Some(retry_after_ms) = refused {
                outcome.granted[request.at as usize] = false;
                outcome.refused_by_id[key.id as usize] += 1;
                outcome.waits.add(retry_after_ms);
            }
            true
        });
    }
    outcome
}

/// Replays all requests as one call each with all rules that concern it: all or nothing.
pub fn replay_together(log: &Log, rules: &[Simulated], resolution: u32) -> Together {
    let columns: Vec<&Column> = rules.iter().map(|rule| log.column(rule.by)).collect();
    let names = |column: &&Column| column.names.len();
    let mut limiters: Vec<Vec<Option<Limiter>>> =
        columns.iter().map(|column| vec![None; names(column)]).collect();
    let shares = columns.iter().map(|column| Share {
        refused: 0,
        alone: 0,
        refused_by_id: vec![0; names(column)],
    });
    let mut together = Together {
        granted: vec![true; log.len()],
        waits: Waits::default(),
        shares: shares.collect(),
    };
    // Of the present request: the rules that concern it, each with the key; their limiters and what
    // is asked of these.
    let mut keys: Vec<(usize, usize)> = Vec::with_capacity(rules.len());
    let mut asks: Vec<Ask> = Vec::with_capacity(rules.len());
    let mut concerned: Vec<Option<Limiter>> = Vec::with_capacity(rules.len());
    for (at, now_ms) in log.times_ms.iter().copied().enumerate() {
        keys.clear();
        asks.clear();
        for (i, (rule, column)) in rules.iter().zip(&columns).enumerate() {
            if column.ids[at] != Column::NONE {
                keys.push((i, column.ids[at] as usize));
                asks.push(rule.ask_for(log.costs[at]));
            }
        }
        if asks.is_empty() {
            continue;
        }
        concerned.extend(keys.iter().map(|(i, id)| limiters[*i][*id].take()));
        let terms = Terms { now_ms, resolution, ..Terms::default() };
        let mut refusing = Refusing::default();
        let (decision, _) =
            InMemory::new(&mut concerned, &asks, now_ms).acquire(&terms, &mut refusing);
        keys.iter().zip(concerned.drain(..)).for_each(|((i, id), limiter)| {
            limiters[*i][*id] = limiter;
        });
        if decision.granted == 0 {
            let refusing = refusing.0.iter().filter_map(|place| keys.get(*place)).copied();
            together.refuse(at, decision.retry_after_ms, refusing);
        }
    }
    together
}

/// The limiters that refuse a call, by their place in it.
#[derive(Default)]
struct Refusing(Vec<usize>);

impl Observer for Refusing {
    fn wants_answers(&self) -> bool {
        false
    }

    fn denied_by(&mut self, place: usize) {
        self.0.push(place);
    }

    fn decided(&mut self, _: &Decision, parts: &[Part<'_>]) {
        let lacking = parts.iter().enumerate().filter(|(_, part)| part.lacks_room());
        self.0 = lacking.map(|(place, _)| place).collect();
    }
}

impl Together {
    /// Counts a refusal by these keys of these rules.
    fn refuse(
        &mut self,
        at: usize,
        retry_after_ms: i64,
        refusing: impl Iterator<Item = (usize, usize)> + Clone,
    ) {
        self.granted[at] = false;
        self.waits.add(retry_after_ms);
        let alone = refusing.clone().count() == 1;
        for (i, id) in refusing {
            let share = &mut self.shares[i];
            share.refused += 1;
            share.alone += u64::from(alone);
            share.refused_by_id[id] += 1;
        }
    }
}
