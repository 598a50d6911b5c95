//! Permits held: a plain list of leases.

use rl_core::rule::Rule;

use super::MAX_IN_USE;

#[derive(Clone, Debug, PartialEq)]
struct Lease {
    /// Empty for permits that came from another algorithm.
    id: Vec<u8>,
    permits: u64,
    taken: i64,
    end: i64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leases {
    leases: Vec<Lease>,
}

impl Leases {
    pub fn in_use(&self, now: i64) -> u64 {
        self.leases.iter().filter(|l| l.end > now).map(|l| l.permits).sum()
    }

    /// What the live lease of that name holds.
    pub fn held_by(&self, id: &[u8], now: i64) -> u64 {
        self.leases.iter().filter(|l| l.end > now && l.id == id).map(|l| l.permits).sum()
    }

    pub fn void_at(&self) -> i64 {
        self.leases.iter().map(|l| l.end).max().unwrap_or(0)
    }

    pub fn take(&mut self, rule: &Rule, now: i64, n: u64, id: &[u8]) {
        self.leases.retain(|l| l.end > now && l.id != id);
        let permits = n.min(MAX_IN_USE - self.in_use(now));
        let lease = Lease { id: id.to_vec(), permits, taken: now, end: now + rule.window_ms() };
        self.leases.push(lease);
    }

    /// Like every write it forgets what ended: a clock that then steps back does not bring it to life.
    pub fn release(&mut self, id: &[u8], now: i64) -> bool {
        let is_held = self.held_by(id, now) > 0;
        if is_held {
            self.leases.retain(|l| l.end > now && l.id != id);
        }
        is_held
    }

    pub fn pull_back(&mut self, now: i64) {
        for lease in self.leases.iter_mut().filter(|l| l.taken > now) {
            lease.end -= lease.taken - now;
            lease.taken = now;
        }
    }
}
