//! The sliding log: a plain list of grants.

use rl_core::rule::Rule;

use super::MAX_IN_USE;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sliding {
    /// Time and permits, in the order of their times.
    grants: Vec<(i64, u64)>,
    /// What the clock said at the last grant, whatever time it was written down under.
    clock: i64,
}

impl Sliding {
    fn live(&self, rule: &Rule, now: i64) -> impl Iterator<Item = &(i64, u64)> {
        let window = rule.window_ms();
        self.grants.iter().filter(move |(t, _)| now - t < window)
    }

    pub fn in_use(&self, rule: &Rule, now: i64) -> u64 {
        self.live(rule, now).map(|(_, n)| n).sum()
    }

    pub fn void_at(&self, rule: &Rule) -> i64 {
        self.grants.iter().map(|(t, _)| t + rule.window_ms()).max().unwrap_or(0)
    }

    pub fn take(&mut self, rule: &Rule, now: i64, n: u64, resolution: u32) {
        self.grants = self.live(rule, now).copied().collect();
        let newest = self.grants.iter().map(|(t, _)| *t).max().unwrap_or(0);
        self.clock = now;
        let at = stamp(rule, self.grants.len(), resolution, now).max(newest);
        let n = n.min(MAX_IN_USE - self.in_use(rule, now));
        match self.grants.last_mut() {
            Some((t, permits)) if *t == at => *permits += n,
            // Saturated.
            _ if n == 0 => {}
            _ => self.grants.push((at, n)),
        }
    }

    /// The oldest permits come back first.
    pub fn give_back(&mut self, rule: &Rule, now: i64, n: u64) {
        self.grants = self.live(rule, now).copied().collect();
        let mut left = n;
        for (_, permits) in self.grants.iter_mut() {
            let back = left.min(*permits);
            *permits -= back;
            left -= back;
        }
        self.grants.retain(|(_, permits)| *permits > 0);
    }

    pub fn pull_back(&mut self, now: i64) {
        if self.clock <= now {
            return;
        }
        self.clock = now;
        // Grants that now share a time share an entry, which matters where entries are counted.
        let moved: u64 = self.grants.iter().filter(|(t, _)| *t >= now).map(|(_, n)| n).sum();
        self.grants.retain(|(t, _)| *t < now);
        if moved > 0 {
            self.grants.push((now, moved));
        }
    }

    pub fn entries(&self) -> usize {
        self.grants.len()
    }
}

/// Under what time a grant at `now` is written down: rounded up when the log would grow too long.
fn stamp(rule: &Rule, entries: usize, resolution: u32, now: i64) -> i64 {
    if rule.limit() <= u64::from(resolution) && entries < resolution as usize {
        return now;
    }
    let step = (rule.window_ms() + i64::from(resolution) - 1) / i64::from(resolution);
    (now + step - 1) / step * step
}
