//! Concurrency limit: permits that are held rather than spent.
//!
//! A counting semaphore (E. W. Dijkstra, 1965) whose permits are leases (C. Gray and D. Cheriton,
//! "Leases", SOSP 1989). A lease has a name. It ends when its holder releases it, or by itself one
//! window after it was taken or last renewed. So a holder that died keeps others out no longer
//! than that.
//!
//! Permits carried over from another algorithm become one lease with the empty name, which no
//! request can use.

use std::sync::Arc;

use super::leases::{Lease, LeaseChange, Leases};
use super::scheme::{Heap, Level, Moment, Scheme};
use crate::numbers::{MAX_IN_USE, MAX_TIME_MS, Numbers, Own};
use crate::packed::PackedNumbers;
use crate::stored::reader::Reader;
use crate::stored::varint::Sink;

impl Scheme for Leases {
    const WORD: &'static str = "concurrency";
    const ALIAS: Option<(&'static str, u64)> = None;
    const TAG: u8 = 5;
    const OWN: Own = Own::None;
    const IS_LEASED: bool = true;
    const CAN_RESERVE: bool = false;
    const ALLOCATES: bool = true;

    type Change = LeaseChange;
    type Step = LeaseChange;
    type Level<'a> = Held<'a>;

    fn capacity(_: i64, limit: u64, _: u64) -> u64 {
        limit
    }

    fn fresh<'a>(_: &Moment<'a>, used: u64) -> Held<'a> {
        Held { leases: None, others: 0, own: 0, carried: used, taken: 0 }
    }

    fn at<'a>(&'a self, moment: &Moment<'a>) -> Held<'a> {
        let own = moment.id.and_then(|id| self.live(id, moment.now_ms));
        let own = own.map_or(0, |lease| lease.permits);
        let others = self.in_use(moment.now_ms) - own;
        Held { leases: Some(self), others, own, carried: 0, taken: 0 }
    }

    fn at_other_rule<'a>(&'a self, _: &PackedNumbers, moment: &Moment<'a>) -> Option<Held<'a>> {
        Some(self.at(moment))
    }

    fn void_at(&self, _: &PackedNumbers) -> i64 {
        self.last_end_ms()
    }

    fn is_void_before(&self, _: &PackedNumbers, time_ms: i64) -> bool {
        self.last_end_ms() < time_ms
    }

    fn pull_back(&self, _: &PackedNumbers, now_ms: i64) -> Option<LeaseChange> {
        self.is_ahead(now_ms).then_some(LeaseChange::PullBack { now_ms })
    }

    fn lease_end_ms(&self, id: &[u8], now_ms: i64) -> Option<i64> {
        self.live(id, now_ms).map(|lease| lease.end_ms)
    }

    fn release(&self, id: &[u8], now_ms: i64) -> Option<(LeaseChange, i64)> {
        self.live(id, now_ms)?;
        let change = LeaseChange::End { now_ms, id: Arc::from(id) };
        Some((change, self.last_end_without(Some(id)).max(now_ms)))
    }

    fn apply(&mut self, change: &LeaseChange, _: i64) {
        Leases::apply(self, change);
    }

    fn apply_step(&mut self, step: LeaseChange) {
        Leases::apply(self, &step);
    }

    fn taken_one(&self, _: i64) -> Option<LeaseChange> {
        None
    }

    fn entries(&self, _: &PackedNumbers, now_ms: i64) -> u64 {
        self.count_live(now_ms) as u64
    }

    fn heap(&self) -> Heap {
        Heap { bytes: self.heap_bytes(), allocations: self.allocations() }
    }

    fn parts_mut(&mut self, from: usize) -> impl Iterator<Item = &mut Box<[u8]>> {
        Leases::parts_mut(self, from)
    }

    fn encode(&self, out: &mut impl Sink) {
        Leases::encode(self, out);
    }

    fn decode(reader: &mut Reader<'_>, _: &Numbers) -> Option<Leases> {
        Leases::decode(reader)
    }

    fn encode_change(change: &LeaseChange, out: &mut impl Sink) {
        change.encode(out);
    }

    fn decode_change(reader: &mut Reader<'_>, _: &Numbers) -> Option<LeaseChange> {
        LeaseChange::decode(reader)
    }
}

/// When a lease that is taken now ends.
fn end_ms(moment: &Moment<'_>) -> i64 {
    moment.now_ms.saturating_add(moment.numbers.window_ms()).min(MAX_TIME_MS)
}

/// Permits held at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// `None` for the level of a new limiter.
    leases: Option<&'a Leases>,
    /// Permits of all leases but the one that asks.
    others: u64,
    /// Permits of the lease that asks. 0 once it has taken new ones.
    own: u64,
    /// Permits carried over from another algorithm.
    carried: u64,
    /// Permits that the lease that asks has taken from this level.
    taken: u64,
}

impl Level<Leases> for Held<'_> {
    fn in_use(&self, _: &Moment<'_>) -> u64 {
        self.others + self.own + self.carried + self.taken
    }

    fn renewable(&self) -> u64 {
        self.own
    }

    fn earliest(&self, moment: &Moment<'_>, at_most: u64) -> i64 {
        match (at_most.checked_sub(self.carried + self.taken), self.leases) {
            (Some(at_most), Some(leases)) => leases.earliest(moment.now_ms, at_most, moment.id),
            _ => end_ms(moment),
        }
    }

    fn take(&mut self, _: &Moment<'_>, permits: u64) -> bool {
        let room = MAX_IN_USE.saturating_sub(self.others + self.carried);
        if room > 0 {
            self.own = 0;
            self.taken += permits.min(room);
        }
        room > 0
    }

    fn full_at(&self, moment: &Moment<'_>) -> i64 {
        // A renewed lease replaces the stored one.
        let replaced = moment.id.filter(|_| self.taken > 0);
        let stored_ms = self.leases.map_or(0, |leases| leases.last_end_without(replaced));
        let added_ms = match self.carried + self.taken {
            0 => 0,
            _ => end_ms(moment),
        };
        stored_ms.max(added_ms)
    }

    fn void_after(&self, _: &Moment<'_>, full_at_ms: i64) -> i64 {
        full_at_ms
    }

    fn grows(&self, moment: &Moment<'_>) -> bool {
        let id = moment.id.unwrap_or_default();
        let is_new = |leases: &&Leases| leases.live(id, moment.now_ms).is_none();
        self.leases.filter(is_new).is_some_and(|leases| leases.grows(moment.now_ms))
    }

    fn step(self, moment: &Moment<'_>) -> LeaseChange {
        self.change(moment)
    }

    fn change(&self, moment: &Moment<'_>) -> LeaseChange {
        let now_ms = moment.now_ms;
        LeaseChange::Put {
            now_ms,
            id: Arc::from(moment.id.unwrap_or_default()),
            lease: Lease { permits: self.taken, taken_ms: now_ms, end_ms: end_ms(moment) },
            carried: self.carried,
        }
    }

    fn give_back(&self, _: &Moment<'_>, _: u64) -> Option<(LeaseChange, i64)> {
        None
    }
}
