//! Leases by name.
//!
//! Most limiters have a few leases, which lie in one allocation (`pack`). A limiter with a hundred
//! thousand must not stall the server either, so its leases lie in many such packs, with sums
//! and an index (`many`, `index`).

mod change;
mod index;
mod lease;
mod many;
mod pack;
#[cfg(test)]
mod tests;

pub use self::change::LeaseChange;
pub use self::lease::{Lease, MAX_ID};
use self::lease::{Named, order};
use self::many::Many;
use self::pack::{MOST, Pack};
use crate::numbers::MAX_IN_USE;
use crate::stored::reader::Reader;
use crate::stored::varint::{self, Sink};

/// The stored state of a concurrency limiter.
///
/// Invariants: no two leases have the same name, and their permits add up to at most
/// [`MAX_IN_USE`]. Leases that have ended count for nothing, whether or not they are forgotten
/// yet.
#[derive(Clone, Debug)]
pub struct Leases(Kept);

/// The form in which the leases lie in memory.
#[derive(Clone, Debug)]
enum Kept {
    /// Up to [`MOST`] leases.
    Few(Pack),
    /// Any number of leases, once there were more than that.
    Many(Box<Many>),
}

impl Default for Leases {
    fn default() -> Leases {
        Leases(Kept::Few(Pack::default()))
    }
}

impl PartialEq for Leases {
    fn eq(&self, other: &Leases) -> bool {
        self.entries().eq(other.entries())
    }
}

impl Leases {
    /// All leases with their names, in the order of their ends; leases with the same end are in
    /// the order of their names.
    fn entries(&self) -> impl Iterator<Item = Named<'_>> {
        let (few, many) = match &self.0 {
            Kept::Few(pack) => (Some(pack.entries()), None),
            Kept::Many(many) => (None, Some(many.entries())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    fn find(&self, id: &[u8]) -> Option<Lease> {
        match &self.0 {
            Kept::Few(pack) => pack.find(id),
            Kept::Many(many) => many.find(id),
        }
    }

    /// The live lease of this name.
    pub fn live(&self, id: &[u8], now_ms: i64) -> Option<Lease> {
        // `black_box` keeps the compiler from comparing the end before it knows whether there is a
        // lease. That would be harmless, but memory checkers report it as a use of uninitialised
        // memory.
        let lease = std::hint::black_box(self.find(id)?);
        (lease.end_ms > now_ms).then_some(lease)
    }

    fn permits(&self) -> u64 {
        match &self.0 {
            Kept::Few(pack) => pack.entries().map(|(_, lease)| lease.permits).sum(),
            Kept::Many(many) => many.permits(),
        }
    }

    /// The number of leases that ended by `now_ms` but are not forgotten, and their permits.
    fn ended(&self, now_ms: i64) -> (usize, u64) {
        match &self.0 {
            Kept::Few(pack) => pack.ended(now_ms),
            Kept::Many(many) => many.ended(now_ms),
        }
    }

    /// Permits held at `now_ms`.
    pub fn in_use(&self, now_ms: i64) -> u64 {
        match &self.0 {
            Kept::Few(pack) => {
                let live = pack.entries().filter(|(_, lease)| lease.end_ms > now_ms);
                live.map(|(_, lease)| lease.permits).sum()
            }
            Kept::Many(many) if self.last_end_ms() > now_ms => {
                many.permits() - many.ended(now_ms).1
            }
            Kept::Many(_) => 0,
        }
    }

    /// The number of leases that have not ended by `now_ms`.
    pub fn count_live(&self, now_ms: i64) -> usize {
        self.len() - self.ended(now_ms).0
    }

    /// Whether one more lease would exceed the most that there ever were. Up to that number, a
    /// server that is out of memory reuses the memory of leases that ended.
    pub fn grows(&self, now_ms: i64) -> bool {
        let most = match &self.0 {
            Kept::Few(pack) => pack.most(),
            Kept::Many(many) => many.most(),
        };
        self.count_live(now_ms) >= most
    }

    /// The first moment from `now_ms` on at which at most `at_most` permits are held, not counting
    /// the lease `except`.
    pub fn earliest(&self, now_ms: i64, at_most: u64, except: Option<&[u8]>) -> i64 {
        let own = except.and_then(|id| self.live(id, now_ms)).map_or(0, |lease| lease.permits);
        let mut held = self.in_use(now_ms) - own;
        if held <= at_most {
            return now_ms;
        }
        let earliest = match &self.0 {
            Kept::Few(pack) => {
                let is_live =
                    |(id, lease): &Named<'_>| lease.end_ms > now_ms && except != Some(*id);
                pack.entries().filter(is_live).find_map(|(_, lease)| {
                    held -= lease.permits;
                    (held <= at_most).then_some(lease.end_ms)
                })
            }
            Kept::Many(many) => many.earliest(now_ms, held, at_most, except),
        };
        earliest.unwrap_or(now_ms)
    }

    /// When the last lease ends; 0 if there are none.
    pub fn last_end_ms(&self) -> i64 {
        self.last_end_without(None)
    }

    /// When the last lease other than `except` ends; 0 if there are none.
    pub fn last_end_without(&self, except: Option<&[u8]>) -> i64 {
        let last = match &self.0 {
            Kept::Few(pack) => pack.last_end_ms(except),
            Kept::Many(many) => many.last_end_ms(except),
        };
        last.unwrap_or(0)
    }

    /// The number of stored leases, including those that ended but are not forgotten yet.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::Few(pack) => pack.len(),
            Kept::Many(many) => many.len(),
        }
    }

    /// Whether no lease is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes allocated besides the struct itself.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Kept::Few(pack) => pack.heap_bytes(),
            Kept::Many(many) => size_of::<Many>() + many.heap_bytes(),
        }
    }

    /// The most allocations that they can be made of.
    pub fn allocations(&self) -> usize {
        match &self.0 {
            Kept::Few(_) => 1,
            Kept::Many(many) => 1 + many.allocations(),
        }
    }

    /// The allocations that contain leases, from number `from` on, for a caller that relocates
    /// them.
    pub fn parts_mut(&mut self, from: usize) -> impl Iterator<Item = &mut Box<[u8]>> {
        let (few, many) = match &mut self.0 {
            Kept::Few(pack) => (Some(pack), None),
            Kept::Many(many) => (None, Some(many.packs_mut())),
        };
        few.into_iter().chain(many.into_iter().flatten()).skip(from).map(Pack::bytes_mut)
    }

    /// Whether a lease was taken after `now_ms`. It may have ended since.
    pub fn is_ahead(&self, now_ms: i64) -> bool {
        match &self.0 {
            Kept::Few(pack) => pack.entries().any(|(_, lease)| lease.taken_ms > now_ms),
            Kept::Many(many) => many.newest_taken_ms() > now_ms,
        }
    }

    /// Applies a change. Total: any change leaves any leases valid.
    pub fn apply(&mut self, change: &LeaseChange) {
        match change {
            LeaseChange::Put { now_ms, id, lease, carried } => {
                self.forget(*now_ms);
                if *carried > 0 {
                    self.put(&[], Lease { permits: *carried, ..*lease });
                }
                self.put(id, *lease);
            }
            LeaseChange::End { now_ms, id } => {
                self.forget(*now_ms);
                self.remove(id);
            }
            LeaseChange::PullBack { now_ms } => self.pull_back(*now_ms),
        }
    }

    fn put(&mut self, id: &[u8], mut lease: Lease) {
        self.remove(id);
        lease.permits = lease.permits.min(MAX_IN_USE - self.permits());
        if lease.permits == 0 {
            return;
        }
        match &mut self.0 {
            Kept::Few(pack) if pack.len() < MOST => pack.put((id, lease)),
            Kept::Few(pack) => {
                if let Some(mut many) = Many::new(pack.entries()) {
                    many.put((id, lease));
                    self.0 = Kept::Many(Box::new(many));
                }
            }
            Kept::Many(many) => many.put((id, lease)),
        }
    }

    fn remove(&mut self, id: &[u8]) {
        match &mut self.0 {
            Kept::Few(pack) => drop(pack.remove(id)),
            Kept::Many(many) => many.remove(id),
        }
    }

    fn forget(&mut self, now_ms: i64) {
        match &mut self.0 {
            Kept::Few(pack) => drop(pack.forget(now_ms)),
            Kept::Many(many) => many.forget(now_ms),
        }
    }

    fn pull_back(&mut self, now_ms: i64) {
        let pulled = self.entries().map(|(id, lease)| (id, lease.pulled_back(now_ms)));
        let mut leases: Vec<Named<'_>> = pulled.collect();
        leases.sort_unstable_by(|one, other| order(*one).cmp(&order(*other)));
        if let Some(pulled) = Leases::in_order(&leases) {
            *self = pulled;
        }
    }

    /// Leases from a list in their stored order. `None` if two have the same name.
    fn in_order(leases: &[Named<'_>]) -> Option<Leases> {
        if leases.len() > MOST {
            let many = Many::new(leases.iter().copied())?;
            return Some(Leases(Kept::Many(Box::new(many))));
        }
        let mut pack = Pack::default();
        for named in leases {
            if pack.find(named.0).is_some() {
                return None;
            }
            pack.put(*named);
        }
        Some(Leases(Kept::Few(pack)))
    }

    /// Appends the stored form: the leases in the order of their ends.
    pub fn encode(&self, out: &mut impl Sink) {
        varint::write(out, self.len() as u64);
        self.entries().for_each(|(id, lease)| lease::encode(id, &lease, out));
    }

    /// Reads the stored form. `None` if it breaks an invariant.
    pub fn decode(reader: &mut Reader<'_>) -> Option<Leases> {
        let (mut leases, mut permits) = (Vec::new(), 0);
        for _ in 0..reader.number()? {
            let named = lease::decode(reader)?;
            let in_order = leases.last().is_none_or(|last| order(*last) < order(named));
            permits += named.1.permits;
            leases.push(Some(named).filter(|_| in_order && permits <= MAX_IN_USE)?);
        }
        Leases::in_order(&leases)
    }
}
