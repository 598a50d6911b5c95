//! Fixed windows, and the sliding counter over two of them.

use rl_core::rule::Rule;

use super::MAX_IN_USE;

/// The start of the window that `now` is in.
fn start(rule: &Rule, now: i64) -> i64 {
    now - (now - rule.offset_ms()).rem_euclid(rule.window_ms())
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fixed {
    start: i64,
    used: u64,
}

impl Fixed {
    pub fn empty(rule: &Rule, now: i64) -> Fixed {
        Fixed { start: start(rule, now), used: 0 }
    }

    pub fn in_use(&self, rule: &Rule, now: i64) -> u64 {
        if start(rule, now) == self.start { self.used } else { 0 }
    }

    pub fn void_at(&self, rule: &Rule) -> i64 {
        if self.used == 0 { self.start } else { self.start + rule.window_ms() }
    }

    pub fn take(&mut self, rule: &Rule, now: i64, n: u64) {
        let used = (self.in_use(rule, now) + n).min(MAX_IN_USE);
        *self = Fixed { start: start(rule, now), used };
    }

    pub fn give_back(&mut self, rule: &Rule, now: i64, n: u64) {
        let used = self.in_use(rule, now).saturating_sub(n);
        *self = Fixed { start: start(rule, now), used };
    }

    pub fn pull_back(&mut self, rule: &Rule, now: i64) {
        if self.start > now {
            self.start = start(rule, now);
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    start: i64,
    previous: u64,
    current: u64,
}

impl Counter {
    pub fn empty(rule: &Rule, now: i64) -> Counter {
        Counter { start: start(rule, now), previous: 0, current: 0 }
    }

    /// The same counts as the window of `now` sees them.
    fn moved_to(&self, rule: &Rule, now: i64) -> Counter {
        let start = start(rule, now);
        match (start - self.start) / rule.window_ms() {
            0 => self.clone(),
            1 => Counter { start, previous: self.current, current: 0 },
            _ => Counter { start, previous: 0, current: 0 },
        }
    }

    /// `previous * (window - elapsed) / window + current`, rounded up.
    pub fn in_use(&self, rule: &Rule, now: i64) -> u64 {
        let seen = self.moved_to(rule, now);
        let window = i128::from(rule.window_ms());
        let left = window - i128::from(now - seen.start);
        let times_window = i128::from(seen.previous) * left + i128::from(seen.current) * window;
        ((times_window + window - 1) / window) as u64
    }

    pub fn void_at(&self, rule: &Rule) -> i64 {
        match (self.previous, self.current) {
            (0, 0) => self.start,
            (_, 0) => self.start + rule.window_ms(),
            (_, _) => self.start + 2 * rule.window_ms(),
        }
    }

    pub fn take(&mut self, rule: &Rule, now: i64, n: u64) {
        *self = self.moved_to(rule, now);
        self.current = (self.current + n).min(MAX_IN_USE - self.previous);
    }

    /// From this window first; from the previous one as many as weigh no more now than what is left.
    pub fn give_back(&mut self, rule: &Rule, now: i64, n: u64) {
        *self = self.moved_to(rule, now);
        let back = n.min(self.current);
        self.current -= back;
        let window = u128::from(rule.window_ms() as u64);
        let left = window - (now - self.start) as u128;
        let back = u128::from(n - back) * window / left;
        self.previous = u128::from(self.previous).saturating_sub(back) as u64;
    }

    pub fn pull_back(&mut self, rule: &Rule, now: i64) {
        if self.start > now {
            // Nothing fades twice: all counts as taken in the window that is now again.
            self.start = start(rule, now);
            self.current = (self.previous + self.current).min(MAX_IN_USE);
            self.previous = 0;
        }
    }
}
