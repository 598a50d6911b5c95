//! Policies: numbers that an operator puts in the place of those that applications send.
//!
//! A policy is for all rules that carry its name. One that was set for a time stands in front of
//! what was set before, and that comes back by itself. Policies belong to a server, not to a key.

use std::collections::{BTreeSet, HashMap};

use crate::codec::{self, DecodeError};
use crate::decision::Ask;
use crate::rule::{Algorithm, Rule};

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

    /// The entry after a policy was set.
    pub fn with(mut self, policy: Policy, until_ms: Option<i64>) -> Entry {
        let Some(until_ms) = until_ms else {
            return Entry { standing: Some(policy), temporary: Vec::new() };
        };
        // What ends before this one does not come back.
        self.temporary.retain(|(_, earlier_ms)| *earlier_ms > until_ms);
        self.temporary.push((policy, until_ms));
        self
    }

    /// Forgets what ran out.
    fn prune(&mut self, now_ms: i64) {
        self.temporary.retain(|(_, until_ms)| *until_ms > now_ms);
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

/// All policies of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    by_name: HashMap<Box<[u8]>, Entry>,
}

impl Policies {
    /// How many names have one, those included whose time has run out.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What is set for a name.
    pub fn get(&self, name: &[u8]) -> Entry {
        self.by_name.get(name).cloned().unwrap_or_default()
    }

    /// Sets what is set for a name; nothing removes it.
    pub fn put(&mut self, name: &[u8], entry: Entry) {
        if entry.is_empty() {
            self.by_name.remove(name);
        } else {
            self.by_name.insert(name.into(), entry);
        }
    }

    /// Forgets what ran out.
    pub fn prune(&mut self, now_ms: i64) {
        self.by_name.retain(|_, entry| {
            entry.prune(now_ms);
            !entry.is_empty()
        });
    }

    /// Puts the numbers of the policy for `name` in the place of those asked.
    pub fn apply(&self, name: &[u8], ask: &mut Ask, now_ms: i64) -> Applied {
        let Some((policy, _)) = self.by_name.get(name).and_then(|entry| entry.in_force(now_ms))
        else {
            return Applied::None;
        };
        let leases = |rule: &Rule| rule.algorithm() == Algorithm::Concurrency;
        if leases(&policy.rule) != leases(&ask.rule) {
            return Applied::Mismatch;
        }
        let Policy { rule, block_ms, shadow } = *policy;
        *ask = Ask { rule, block_ms, shadow, ..*ask };
        Applied::Replaced
    }

    /// When policies that are set for a time end.
    pub fn ends_ms(&self, now_ms: i64) -> BTreeSet<i64> {
        let entries = self.by_name.values().flat_map(|entry| &entry.temporary);
        entries.map(|(_, until_ms)| *until_ms).filter(|until_ms| *until_ms > now_ms).collect()
    }

    /// All names with what is set for them, in the order of the names.
    pub fn sorted(&self) -> Vec<(&[u8], &Entry)> {
        let mut all: Vec<_> = self.by_name.iter().map(|(name, entry)| (&**name, entry)).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }

    /// A number that two servers share when the same policies are set on both (FNV-1a, 64
    /// bits).
    pub fn digest(&self, now_ms: i64) -> u64 {
        let mut bytes = Vec::new();
        for (name, entry) in self.sorted() {
            let mut entry = entry.clone();
            entry.prune(now_ms);
            // Not when they end: the same policy set on one node after the other ends at different
            // times.
            entry.temporary.iter_mut().for_each(|(_, until_ms)| *until_ms = 0);
            if !entry.is_empty() {
                codec::encode_entry(name, &entry, &mut bytes);
            }
        }
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// The stored form of these names: all of them in an RDB, those that changed on the way to
    /// replicas.
    pub fn encode<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::encode_policies_version(&mut bytes);
        for name in names {
            codec::encode_entry(name, &self.get(name), &mut bytes);
        }
        bytes
    }

    /// Takes over what the stored form says about the names in it.
    ///
    /// # Errors
    /// An unknown version, or bytes that break an invariant; nothing is taken over then.
    pub fn merge(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        for (name, entry) in codec::decode_policies(bytes)? {
            self.put(&name, entry);
        }
        Ok(())
    }
}
