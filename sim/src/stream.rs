//! The requests that a rule sees, key by key, the busiest key first.
//!
//! On its own a rule judges each key without regard to the others. So a replay goes through one
//! key after the other: its limiter stays in the processor's cache, and one that is refused can end
//! a search before the rest is looked at.

use crate::log::{Column, Log};
use crate::rule::Simulated;

/// The requests of one key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its index among the names of the column.
    pub id: u32,
    start: usize,
    end: usize,
}

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The different keys.
    pub keys: Vec<Key>,
    times_ms: Vec<i64>,
    costs: Vec<u64>,
    at: Vec<u32>,
}

/// A request of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// When.
    pub time_ms: i64,
    /// What its line says it costs.
    pub cost: u64,
    /// Its index in the log.
    pub at: u32,
}

impl Stream {
    /// The requests of a sorted log that concern the rule.
    pub fn new(log: &Log, rule: &Simulated) -> Stream {
        let column = log.column(rule.by);
        let mut counts = vec![0usize; column.names.len()];
        for id in column.ids.iter().filter(|id| **id != Column::NONE) {
            counts[*id as usize] += 1;
        }
        let mut ids: Vec<u32> = (0..counts.len() as u32).collect();
        ids.sort_by_key(|id| std::cmp::Reverse(counts[*id as usize]));
        let mut keys = Vec::with_capacity(ids.len());
        let mut next = vec![0usize; counts.len()];
        let mut end = 0;
        for id in ids {
            let start = end;
            end += counts[id as usize];
            next[id as usize] = start;
            keys.push(Key { id, start, end });
        }
        let mut stream =
            Stream { keys, times_ms: vec![0; end], costs: vec![0; end], at: vec![0; end] };
        for (at, id) in column.ids.iter().enumerate().filter(|(_, id)| **id != Column::NONE) {
            let place = &mut next[*id as usize];
            stream.times_ms[*place] = log.times_ms[at];
            stream.costs[*place] = log.costs[at];
            stream.at[*place] = at as u32;
            *place += 1;
        }
        stream
    }

    /// How many requests.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether the rule sees nothing.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// The requests of a key in the order of their times.
    pub fn requests(&self, key: &Key) -> impl Iterator<Item = Request> {
        let range = key.start..key.end;
        let times = self.times_ms[range.clone()].iter();
        let rest = self.costs[range.clone()].iter().zip(&self.at[range]);
        times.zip(rest).map(|(time_ms, (cost, at))| Request {
            time_ms: *time_ms,
            cost: *cost,
            at: *at,
        })
    }
}

impl Key {
    /// How many requests.
    pub fn count(&self) -> usize {
        self.end - self.start
    }
}
