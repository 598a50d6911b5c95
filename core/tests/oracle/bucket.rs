//! The token bucket: the credits that are missing, refilled millisecond by millisecond.

use rl_core::rule::Rule;

use super::MAX_IN_USE;

#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    at: i64,
    /// Below 0 in the millisecond in which it became full: what was refilled beyond the cap.
    missing: i128,
}

impl Bucket {
    pub fn full(now: i64) -> Bucket {
        Bucket { at: now, missing: 0 }
    }

    fn missing_at(&self, rule: &Rule, now: i64) -> i128 {
        let each_ms = i128::from(rule.limit());
        let mut left = now - self.at;
        let mut missing = self.missing;
        // All but the last of the milliseconds in which it stays short of full, at once.
        let skipped = (missing / each_ms - 1).clamp(0, left.into());
        missing -= skipped * each_ms;
        left -= skipped as i64;
        while left > 0 && missing != 0 {
            missing = if missing > 0 { missing - each_ms } else { 0 };
            left -= 1;
        }
        missing
    }

    pub fn in_use(&self, rule: &Rule, now: i64) -> u64 {
        let window = i128::from(rule.window_ms());
        let mut permits = self.missing_at(rule, now).max(0) / window;
        while permits * window < self.missing_at(rule, now) {
            permits += 1;
        }
        permits as u64
    }

    /// When nothing is missing and nothing is left over.
    pub fn void_at(&self, rule: &Rule) -> i64 {
        super::search(self.at, |t| self.missing_at(rule, t) == 0)
    }

    pub fn take(&mut self, rule: &Rule, now: i64, n: u64) {
        let window = i128::from(rule.window_ms());
        let missing = self.missing_at(rule, now) + i128::from(n) * window;
        *self = Bucket { at: now, missing: missing.min(i128::from(MAX_IN_USE) * window) };
    }

    pub fn give_back(&mut self, rule: &Rule, now: i64, n: u64) {
        let missing = self.missing_at(rule, now) - i128::from(n) * i128::from(rule.window_ms());
        *self = Bucket { at: now, missing: missing.max(0) };
    }

    pub fn pull_back(&mut self, now: i64) {
        if self.at > now {
            *self = Bucket { at: now, missing: self.missing.max(0) };
        }
    }

    /// The same permits in use under another bucket rule.
    pub fn converted(&self, old: &Rule, new: &Rule) -> Bucket {
        if old.window_ms() == new.window_ms() && old.limit() == new.limit() {
            return self.clone();
        }
        let (old, new) = (i128::from(old.window_ms()), i128::from(new.window_ms()));
        Bucket { at: self.at, missing: (self.missing.max(0) * new + old - 1) / old }
    }
}
