//! One policy, and the policies that are set for one name.
//!
//! A policy is for all rules that carry its name. One that was set for a time stands in front of those
//! that were set before, and they come back by themselves.

use crate::rule::Rule;

/// How many policies that were set for a time a name can have at once.
pub const MOST_TEMPORARY: usize = 64;

/// The numbers of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rule.
    pub rule: Rule,
    /// As [`Ask::block_ms`].
    pub block_ms: i64,
    /// As [`Ask::shadow`].
    pub shadow: bool,
}

/// What is set for a name. Neither: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Until it is changed.
    pub standing: Option<Policy>,
    /// Each until the time behind it, in ms of epoch time: every one ends before the one under it.
    pub temporary: Vec<(Policy, i64)>,
}

impl Entry {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.standing.is_none() && self.temporary.is_empty()
    }

    /// The policy in force, and when it ends if it does.
    pub fn in_force(&self, now_ms: i64) -> Option<(&Policy, Option<i64>)> {
        let temporary = self.temporary.iter().rev().find(|(_, until_ms)| *until_ms > now_ms);
        match temporary {
            Some((policy, until_ms)) => Some((policy, Some(*until_ms))),
            None => self.standing.as_ref().map(|policy| (policy, None)),
        }
    }

    /// The entry after a policy was set. `None` when that is one more than [`MOST_TEMPORARY`].
    pub fn with(mut self, policy: Policy, until_ms: Option<i64>, now_ms: i64) -> Option<Entry> {
        let Some(until_ms) = until_ms else {
            return Some(Entry { standing: Some(policy), temporary: Vec::new() });
        };
        // What ends before this one does not come back.
        self.temporary.retain(|(_, earlier_ms)| *earlier_ms > until_ms.max(now_ms));
        self.temporary.push((policy, until_ms));
        (self.temporary.len() <= MOST_TEMPORARY).then_some(self)
    }
}

/// What became of a rule's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// There is no policy.
    None,
    /// The policy's numbers are in force.
    Replaced,
    /// The policy is for another kind of limiter, and was ignored.
    Mismatch,
}
