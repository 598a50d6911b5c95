//! Policies: numbers by which an operator replaces those that applications send. They belong to a
//! server, not to a key.

use std::collections::{BTreeMap, BTreeSet};

use crate::policy::{Applied, Entry, Policy};
use crate::stored::policies as stored;
use crate::stored::reader::DecodeError;
use crate::stored::varint::Sink;
use crate::terms::Ask;

/// The difference that the end of a temporary policy makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    /// The number to add to the digest.
    digest: u64,
    /// Whether the name has no policy left.
    is_last: bool,
}

/// All policies of a server.
///
/// Policies that have ended count for nothing, whether or not they are forgotten yet. Totals are
/// kept up to date rather than computed, since there can be a hundred thousand policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    by_name: BTreeMap<Box<[u8]>, Entry>,
    /// The end of each temporary policy, sorted by time.
    ends: BTreeMap<(i64, Box<[u8]>), End>,
    /// The sum of the entries' contributions to the digest, as if no policy above had ended.
    digest: u64,
}

impl Policies {
    /// The number of names with a policy in force.
    pub fn count(&self, now_ms: i64) -> usize {
        self.by_name.len() - self.ended(now_ms).filter(|end| end.is_last).count()
    }

    /// Ends that have passed but are not applied yet.
    fn ended(&self, now_ms: i64) -> impl Iterator<Item = &End> {
        let ends = self.ends.iter().take_while(move |((until_ms, _), _)| *until_ms <= now_ms);
        ends.map(|(_, end)| end)
    }

    /// The policies of a name.
    pub fn get(&self, name: &[u8]) -> Entry {
        self.by_name.get(name).cloned().unwrap_or_default()
    }

    /// The policy in force for a name, and when it ends, if it does.
    pub fn in_force(&self, name: &[u8], now_ms: i64) -> Option<(&Policy, Option<i64>)> {
        self.by_name.get(name)?.in_force(now_ms)
    }

    /// Replaces the policies of a name. An empty entry removes the name.
    pub fn put(&mut self, name: &[u8], entry: Entry) {
        if let Some(before) = self.by_name.remove(name) {
            let digest = digests(name, &before).last().copied().unwrap_or(0);
            self.digest = self.digest.wrapping_sub(digest);
            for (_, until_ms) in &before.temporary {
                self.ends.remove(&(*until_ms, name.into()));
            }
        }
        if entry.is_empty() {
            return;
        }
        let digests = digests(name, &entry);
        self.digest = self.digest.wrapping_add(digests.last().copied().unwrap_or(0));
        let steps = digests.windows(2).zip(&entry.temporary).enumerate();
        for (under, (step, (_, until_ms))) in steps {
            if let [without, with] = step {
                let is_last = under == 0 && entry.standing.is_none();
                let end = End { digest: without.wrapping_sub(*with), is_last };
                self.ends.insert((*until_ms, name.into()), end);
            }
        }
        self.by_name.insert(name.into(), entry);
    }

    /// Forgets up to `at_most` policies that have ended. That changes no answer.
    pub fn prune(&mut self, now_ms: i64, at_most: usize) {
        for _ in 0..at_most {
            let Some(first) = self.ends.first_entry().filter(|end| end.key().0 <= now_ms) else {
                return;
            };
            let ((_, name), end) = first.remove_entry();
            self.digest = self.digest.wrapping_add(end.digest);
            if end.is_last {
                self.by_name.remove(&name);
            } else if let Some(entry) = self.by_name.get_mut(&name) {
                entry.temporary.pop();
            }
        }
    }

    /// Replaces the numbers asked by those of the policy for `name`, if there is one.
    pub fn apply(&self, name: &[u8], ask: &mut Ask, now_ms: i64) -> Applied {
        let Some((policy, _)) = self.in_force(name, now_ms) else {
            return Applied::None;
        };
        if policy.rule.algorithm().is_leased() != ask.rule.algorithm().is_leased() {
            return Applied::Mismatch;
        }
        let Policy { rule, block_ms, shadow } = *policy;
        *ask = Ask { rule, block_ms, shadow, ..*ask };
        Applied::Replaced
    }

    /// When the temporary policies end.
    pub fn ends_ms(&self, now_ms: i64) -> BTreeSet<i64> {
        let later = self.ends.keys().map(|(until_ms, _)| *until_ms);
        later.skip_while(|until_ms| *until_ms <= now_ms).collect()
    }

    /// All names with their policies, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.by_name.iter().map(|(name, entry)| (&**name, entry))
    }

    /// A number that is equal on two servers if they have the same policies.
    pub fn digest(&self, now_ms: i64) -> u64 {
        self.ended(now_ms).fold(self.digest, |digest, end| digest.wrapping_add(end.digest))
    }

    /// Replaces the policies of all names in a stored form.
    ///
    /// # Errors
    /// An unknown version, or bytes that break an invariant. Nothing is replaced then.
    pub fn merge(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        for (name, entry) in stored::decode(bytes)? {
            self.put(&name, entry);
        }
        Ok(())
    }
}

/// What an entry contributes to the digest with none of its temporary policies, with the first,
/// and so on up to all. Ends are left out: a policy that is set on one node after the other ends
/// at different times.
fn digests(name: &[u8], entry: &Entry) -> Vec<u64> {
    let mut hash = Hash::new();
    stored::encode_standing(name, entry.standing.as_ref(), &mut hash);
    let mut digests = vec![if entry.standing.is_some() { hash.finish() } else { 0 }];
    for (policy, _) in &entry.temporary {
        stored::encode_policy(policy, &mut hash);
        digests.push(hash.finish());
    }
    digests
}

/// FNV-1a, 64 bits.
struct Hash(u64);

impl Hash {
    fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    /// Mixes once more, since these hashes are added up.
    fn finish(&self) -> u64 {
        let hash = (self.0 ^ self.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 29
    }
}

impl Sink for Hash {
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::MOST_TEMPORARY;
    use crate::rule::{Algorithm, Rule, Shape};

    fn policy(limit: u64) -> Policy {
        let rule = Rule::new(Algorithm::Bucket, 1000, limit, Shape::default()).unwrap();
        Policy { rule, block_ms: 0, shadow: false }
    }

    /// The policies in force, set anew without their history.
    fn again(policies: &Policies, now_ms: i64) -> Policies {
        let mut fresh = Policies::default();
        for (name, entry) in policies.iter() {
            let mut entry = entry.clone();
            entry.temporary.retain(|(_, until_ms)| *until_ms > now_ms);
            fresh.put(name, entry);
        }
        fresh
    }

    /// Sets, deletes, lets policies end, and forgets some of those that ended.
    #[test]
    fn what_is_told_of_all_is_what_counting_would_tell() {
        let mut policies = Policies::default();
        let (mut state, mut now_ms) = (7u64, 0);
        for step in 0..5000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let random = |n: u64| (state >> 33) % n;
            let name = [b'a' + random(26) as u8];
            now_ms += i64::from(random(3) == 0);
            let until_ms = Some(now_ms + random(100) as i64).filter(|_| random(5) > 0);
            match random(7) {
                0 => policies.put(&name, Entry::default()),
                1 => policies.prune(now_ms, random(3) as usize),
                _ => {
                    let entry = policies.get(&name).with(policy(1 + random(9)), until_ms, now_ms);
                    policies.put(&name, entry.unwrap());
                }
            }
            let fresh = again(&policies, now_ms);
            let told = |policies: &Policies| (policies.count(now_ms), policies.digest(now_ms));
            assert_eq!(told(&policies), told(&fresh), "step {step}");
            assert_eq!(policies.ends_ms(now_ms), fresh.ends_ms(now_ms));
            let mut forgotten = policies.clone();
            forgotten.prune(now_ms, usize::MAX);
            assert_eq!(forgotten, fresh, "step {step}");
        }
        now_ms += 1000;
        policies.prune(now_ms, usize::MAX);
        let standing = policies.iter().filter(|(_, entry)| entry.standing.is_some()).count();
        assert_eq!((policies.iter().count(), policies.ends.len()), (standing, 0));
    }

    #[test]
    fn the_digest_tells_policies_apart_but_not_their_ends() {
        let entries = |of: [Option<(u64, Option<i64>)>; 2]| {
            let mut policies = Policies::default();
            for (name, (limit, until_ms)) in [b"a", b"b"].into_iter().zip(of.into_iter().flatten())
            {
                let entry = policies.get(name).with(policy(limit), until_ms, 0).unwrap();
                policies.put(name, entry);
            }
            policies.digest(0)
        };
        let (one, two) = (Some((1, None)), Some((2, None)));
        let for_a_time = [entries([one, Some((2, Some(8)))]), entries([one, Some((2, Some(9)))])];
        assert_eq!(for_a_time[0], for_a_time[1]);
        let all = [[None, None], [one, None], [two, None], [one, two], [two, one], [one, one]];
        let mut digests: Vec<u64> = all.map(entries).into_iter().chain([for_a_time[0]]).collect();
        assert_eq!(digests[0], 0);
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), all.len() + 1);
    }

    #[test]
    fn policies_for_ever_shorter_times_end_at_some_number() {
        let mut entry = Entry::default();
        for i in 0..MOST_TEMPORARY as i64 {
            entry = entry.with(policy(1), Some(1000 - i), 0).unwrap();
        }
        assert_eq!(entry.clone().with(policy(1), Some(5), 0), None);
        // A policy that replaces others fits, and so does one after others have ended.
        assert!(entry.clone().with(policy(1), Some(990), 0).is_some());
        assert!(entry.clone().with(policy(1), Some(2000), 1000 - 63).is_some());
        assert!(entry.with(policy(1), None, 0).is_some());
    }

    #[test]
    fn stored_names_are_names() {
        let entry = Entry { standing: Some(policy(1)), ..Entry::default() };
        let merged =
            |name: &[u8]| Policies::default().merge(&stored::encode([(name, &entry)].into_iter()));
        assert_eq!(merged(b"a.B-_9"), Ok(()));
        // An option word of a later version is still a name that was stored.
        assert_eq!(merged(b"WINDOW"), Ok(()));
        for name in ["", "a b", "a\nb", "a:b", "\u{e4}", "a\0", &"a".repeat(65)] {
            assert_eq!(merged(name.as_bytes()), Err(DecodeError::Damaged), "{name:?}");
        }
    }
}
