//! One policy, and the policies set for one name.
//!
//! A policy applies to all rules that carry its name. A temporary policy takes precedence over
//! those set before it. When it ends, they are in force again.

use crate::rule::Rule;

/// The most temporary policies that a name can have at once.
pub const MOST_TEMPORARY: usize = 64;

/// The numbers that replace those of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rule.
    pub rule: Rule,
    /// As [`crate::terms::Ask::block_ms`].
    pub block_ms: i64,
    /// As [`crate::terms::Ask::shadow`].
    pub shadow: bool,
}

/// The policies of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// In force until it is changed.
    pub standing: Option<Policy>,
    /// Temporary policies with their ends, in ms of epoch time. Each ends before the one below it.
    pub temporary: Vec<(Policy, i64)>,
}

impl Entry {
    /// Whether no policy is set.
    pub fn is_empty(&self) -> bool {
        self.standing.is_none() && self.temporary.is_empty()
    }

    /// The policy in force, and when it ends, if it does.
    pub fn in_force(&self, now_ms: i64) -> Option<(&Policy, Option<i64>)> {
        let temporary = self.temporary.iter().rev().find(|(_, until_ms)| *until_ms > now_ms);
        match temporary {
            Some((policy, until_ms)) => Some((policy, Some(*until_ms))),
            None => self.standing.as_ref().map(|policy| (policy, None)),
        }
    }

    /// The entry with one more policy. `None` if it would have more than [`MOST_TEMPORARY`].
    pub fn with(mut self, policy: Policy, until_ms: Option<i64>, now_ms: i64) -> Option<Entry> {
        let Some(until_ms) = until_ms else {
            return Some(Entry { standing: Some(policy), temporary: Vec::new() });
        };
        // A policy that ends before the new one would never be in force again.
        self.temporary.retain(|(_, earlier_ms)| *earlier_ms > until_ms.max(now_ms));
        self.temporary.push((policy, until_ms));
        (self.temporary.len() <= MOST_TEMPORARY).then_some(self)
    }
}

/// What a policy did to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The name has no policy.
    None,
    /// The policy's numbers are in force.
    Replaced,
    /// The policy is for another kind of limiter, and was ignored.
    Mismatch,
}
