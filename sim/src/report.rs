//! The findings, as `--json` prints them and the table shows them.

use serde::Serialize;

use crate::input::Input;
use crate::log::{Column, Malformed, shown};
use crate::replay::{Outcome, Share, Together, Waits};
use crate::rule::Simulated;
use crate::search::Search;
use crate::stream::Stream;
use crate::timestamp;

/// All findings.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What was read.
    pub log: LogReport,
    /// Each rule on its own.
    pub rules: Vec<RuleReport>,
    /// All rules in one call, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<TogetherReport>,
}

/// What was read.
#[derive(Debug, Serialize)]
pub struct LogReport {
    /// The file, or `stdin`.
    pub name: String,
    /// Such as `combined` or `CSV`.
    pub format: String,
    /// Requests.
    pub requests: usize,
    /// When the first came.
    pub first: String,
    /// When the last came.
    pub last: String,
    /// The time between them.
    pub span_ms: i64,
    /// Requests that came earlier than the line before them.
    pub out_of_order: u64,
    /// Times without a zone were read as UTC.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub assumed_utc: bool,
    /// Lines that are none.
    pub malformed: Malformed,
}

/// A key that was refused.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct RefusedKey {
    /// The key, without control characters and cut where it is long.
    pub key: String,
    /// How many of its requests were refused.
    pub refused: u64,
}

/// A limit that was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FoundLimit {
    /// `LIMIT`
    pub limit: u64,
    /// `BURST`, when the rule has one, in proportion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
}

/// One rule on its own.
#[derive(Debug, Serialize)]
pub struct RuleReport {
    /// The rule, as it was given.
    pub rule: String,
    /// Requests that concern it.
    pub requests: u64,
    /// Different keys among them.
    pub keys: usize,
    /// Requests refused.
    pub refused: u64,
    /// The same of a hundred.
    pub refused_percent: f64,
    /// Different keys among those.
    pub keys_refused: usize,
    /// The longest wait told to a refused request.
    pub longest_wait_ms: Option<i64>,
    /// Refused requests that can never be granted, since they cost more than there ever is.
    pub never: u64,
    /// The smallest limit that refuses nobody; null when there is none.
    pub limit_for_none: Option<FoundLimit>,
    /// The smallest limit that refuses at most one request of a thousand.
    pub limit_for_1_in_1000: Option<FoundLimit>,
    /// The keys refused most.
    pub top: Vec<RefusedKey>,
}

/// All rules in one call.
#[derive(Debug, Serialize)]
pub struct TogetherReport {
    /// Requests.
    pub requests: u64,
    /// Requests refused.
    pub refused: u64,
    /// The same of a hundred.
    pub refused_percent: f64,
    /// The longest wait told to a refused request.
    pub longest_wait_ms: Option<i64>,
    /// Refused requests that can never be granted.
    pub never: u64,
    /// Each rule's part.
    pub rules: Vec<ShareReport>,
}

/// A rule's part in the refusals of the calls.
#[derive(Debug, Serialize)]
pub struct ShareReport {
    /// The rule, as it was given.
    pub rule: String,
    /// Refused requests for which it had no room.
    pub refused: u64,
    /// Those for which only it had none.
    pub alone: u64,
    /// The keys for which it had none most often.
    pub top: Vec<RefusedKey>,
}

impl LogReport {
    /// Sums up a log that is sorted and not empty.
    pub fn new(input: &Input) -> LogReport {
        let times = &input.log.times_ms;
        let (first, last) = (times.first().copied(), times.last().copied());
        let (first_ms, last_ms) = (first.unwrap_or_default(), last.unwrap_or_default());
        LogReport {
            name: input.name.clone(),
            format: input.format.to_string(),
            requests: input.log.len(),
            first: timestamp::show(first_ms),
            last: timestamp::show(last_ms),
            span_ms: last_ms - first_ms,
            out_of_order: input.log.out_of_order,
            assumed_utc: input.assumed_utc,
            malformed: input.malformed.clone(),
        }
    }
}

impl RuleReport {
    /// Sums up a replay and looks for better limits.
    pub fn new(
        rule: &Simulated,
        column: &Column,
        stream: &Stream,
        outcome: &Outcome,
        resolution: u32,
        top: usize,
    ) -> RuleReport {
        let search = Search { stream, rule, resolution };
        let found = |limit| FoundLimit { limit, burst: rule.burst_to_show(limit) };
        let requests = stream.len() as u64;
        let refused = outcome.refused_by_id.iter().sum();
        let Waits { longest_ms, never } = outcome.waits;
        RuleReport {
            rule: rule.text.clone(),
            requests,
            keys: column.names.len(),
            refused,
            refused_percent: percent(refused, requests),
            keys_refused: outcome.refused_by_id.iter().filter(|count| **count > 0).count(),
            longest_wait_ms: longest_ms,
            never,
            limit_for_none: search.refusing_nobody().map(found),
            limit_for_1_in_1000: search.refusing_at_most(requests / 1000).map(found),
            top: most_refused(&outcome.refused_by_id, column, top),
        }
    }
}

impl TogetherReport {
    /// Sums up a replay.
    pub fn new(
        rules: &[Simulated],
        columns: &[&Column],
        together: &Together,
        top: usize,
    ) -> TogetherReport {
        let share = |((rule, column), share): ((&Simulated, &&Column), &Share)| ShareReport {
            rule: rule.text.clone(),
            refused: share.refused,
            alone: share.alone,
            top: most_refused(&share.refused_by_id, column, top),
        };
        let requests = together.granted.len() as u64;
        let refused = together.granted.iter().filter(|granted| !**granted).count() as u64;
        TogetherReport {
            requests,
            refused,
            refused_percent: percent(refused, requests),
            longest_wait_ms: together.waits.longest_ms,
            never: together.waits.never,
            rules: rules.iter().zip(columns).zip(&together.shares).map(share).collect(),
        }
    }
}

/// With four decimals, which is enough to tell one in a million.
fn percent(part: u64, whole: u64) -> f64 {
    let of_a_million = (u128::from(part) * 1_000_000).checked_div(whole.into());
    of_a_million.map_or(0.0, |part| part as f64 / 10_000.0)
}

/// The keys refused most, then by name.
fn most_refused(refused_by_id: &[u64], column: &Column, top: usize) -> Vec<RefusedKey> {
    let mut keys: Vec<(u64, &[u8])> = refused_by_id
        .iter()
        .zip(&column.names)
        .filter(|(refused, _)| **refused > 0)
        .map(|(refused, name)| (*refused, name.as_ref()))
        .collect();
    keys.sort_unstable_by(|(a, a_name), (b, b_name)| b.cmp(a).then(a_name.cmp(b_name)));
    keys.truncate(top);
    keys.into_iter().map(|(refused, name)| RefusedKey { key: shown(name), refused }).collect()
}
