//! The smallest limit under which a rule would refuse few enough.
//!
//! Each limit is tried by a replay, which stops as soon as it has refused too many. A limit that is
//! found refuses few enough, and one less refuses too many. It is the smallest of all, too, where a
//! higher limit never refuses more. That is so when nobody may be refused, up to the rounding of
//! sliding logs above their resolution. Otherwise it need not be: where costs differ, a higher
//! limit may let a large request through that then stands in the way of many small ones.

use rl_core::rule::MAX_PERMITS;

use crate::replay::replay_key;
use crate::rule::Simulated;
use crate::stream::{Key, Stream};

/// A rule's requests, to try limits on.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// The requests.
    pub stream: &'a Stream,
    /// The rule whose limit is looked for.
    pub rule: &'a Simulated,
    /// As in the server: `rl.sliding-resolution`.
    pub resolution: u32,
}

impl Search<'_> {
    /// The smallest limit that refuses nobody; `None` when there is none.
    pub fn refusing_nobody(&self) -> Option<u64> {
        if self.stream.is_empty() {
            return None;
        }
        let mut limit = 0;
        // The busiest come first, so that nearly all others are content with what those need.
        for key in &self.stream.keys {
            let key = std::slice::from_ref(key);
            if !self.refuses_at_most(key, limit, 0) {
                limit = smallest(limit, |limit| self.refuses_at_most(key, limit, 0))?;
            }
        }
        // Above the resolution a sliding log rounds, so that a key may need more than it did below.
        match self.refuses_at_most(&self.stream.keys, limit, 0) {
            true => Some(limit),
            false => smallest(limit, |limit| self.refuses_at_most(&self.stream.keys, limit, 0)),
        }
    }

    /// A limit that refuses at most so many, when one less refuses more; `None` when there is none.
    pub fn refusing_at_most(&self, refusals: u64) -> Option<u64> {
        if self.stream.is_empty() {
            return None;
        }
        smallest(0, |limit| self.refuses_at_most(&self.stream.keys, limit, refusals))
    }

    /// Whether a limit refuses at most so many requests of these keys.
    fn refuses_at_most(&self, keys: &[Key], limit: u64, refusals: u64) -> bool {
        let Some(rule) = self.rule.with_limit(limit) else {
            return false;
        };
        let mut left = refusals;
        keys.iter().all(|key| {
            replay_key(self.stream, key, &rule, self.resolution, |_, refused| {
                match (refused, left) {
                    (None, _) => true,
                    (Some(_), 0) => false,
                    (Some(_), _) => {
                        left -= 1;
                        true
                    }
                }
            })
        })
    }
}

/// A limit above `low`, which is not enough, that is enough when one less is not. Doubles, then
/// halves.
fn smallest(low: u64, mut is_enough: impl FnMut(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (low, (low * 2).clamp(1, MAX_PERMITS));
    while !is_enough(high) {
        if high == MAX_PERMITS {
            return None;
        }
        (low, high) = (high, (high * 2).min(MAX_PERMITS));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match is_enough(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_is_found_from_any_start_and_none_is_told() {
        for wanted in [1, 2, 3, 7, 8, 9, 1000, MAX_PERMITS] {
            for low in [0, wanted / 2, wanted - 1] {
                assert_eq!(smallest(low, |limit| limit >= wanted), Some(wanted));
            }
        }
        assert_eq!(smallest(0, |_| false), None);
    }
}
