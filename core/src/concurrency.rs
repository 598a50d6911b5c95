//! Concurrency limit: permits that are held, not spent.
//!
//! A counting semaphore (E. W. Dijkstra, 1965) whose permits are leases (C. Gray and D. Cheriton,
//! "Leases", SOSP 1989): each has a name, ends when it is released, and by itself a window after it
//! was taken or renewed, so that a holder that died blocks nobody for longer.
//!
//! Permits carried over from another algorithm become one lease with the empty name, which no
//! request can have.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rule::{MAX_IN_USE, MAX_TIME_MS};
use crate::varint::{self, Sink};

/// The longest name of a lease, in bytes.
pub const MAX_ID: usize = 255;

/// One holder's permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Permits held.
    pub permits: u64,
    /// When it was taken or last renewed, in ms of epoch time.
    pub taken_ms: i64,
    /// When it ends by itself.
    pub end_ms: i64,
}

/// The stored state of a concurrency limiter.
///
/// Invariant: both maps hold the same names, each with the same end, and `permits` is the sum over
/// the leases.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    by_id: BTreeMap<Arc<[u8]>, Lease>,
    by_end: BTreeMap<(i64, Arc<[u8]>), u64>,
    permits: u64,
    /// No lease was taken later; the one that was taken then may have ended.
    newest_taken_ms: i64,
    /// The most leases that there were since it was loaded.
    most: usize,
}

impl PartialEq for Leases {
    fn eq(&self, other: &Leases) -> bool {
        self.by_id == other.by_id
    }
}

/// A change of the leases, as the primary decides it and replicas apply it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// Forget the leases that ended by `now_ms`, then take or renew one.
    Put {
        /// When the call was made.
        now_ms: i64,
        /// The lease's name.
        id: Arc<[u8]>,
        /// The lease.
        lease: Lease,
        /// Permits of another algorithm, for a nameless lease of the same times; 0 for none.
        carried: u64,
    },
    /// Forget the leases that ended by `now_ms`, then end one.
    End {
        /// When the call was made.
        now_ms: i64,
        /// The lease's name.
        id: Arc<[u8]>,
    },
    /// Move leases that were taken after `now_ms` to it, and their ends along: the clock stepped
    /// back.
    PullBack {
        /// The clock.
        now_ms: i64,
    },
}

impl Leases {
    /// The live lease of this name.
    pub fn live(&self, id: &[u8], now_ms: i64) -> Option<&Lease> {
        self.by_id.get(id).filter(|lease| lease.end_ms > now_ms)
    }

    /// Permits held at `now_ms`.
    pub fn in_use(&self, now_ms: i64) -> u64 {
        if self.last_end_ms() <= now_ms {
            return 0;
        }
        self.permits - self.ended(now_ms).map(|(_, permits)| permits).sum::<u64>()
    }

    /// Leases that have not ended by `now_ms`.
    pub fn count_live(&self, now_ms: i64) -> usize {
        self.by_end.len() - self.ended(now_ms).count()
    }

    /// Whether one more lease is more than there ever were: on a full server the memory of those
    /// that ended is taken again.
    pub fn grows(&self, now_ms: i64) -> bool {
        self.count_live(now_ms) >= self.most
    }

    /// Leases that are stored and have ended by `now_ms`.
    fn ended(&self, now_ms: i64) -> impl Iterator<Item = (&(i64, Arc<[u8]>), &u64)> {
        self.by_end.iter().take_while(move |((end_ms, _), _)| *end_ms <= now_ms)
    }

    /// The first moment from `now_ms` on at which at most `at_most` permits are held, the lease
    /// `except` left out.
    pub fn earliest(&self, now_ms: i64, at_most: u64, except: Option<&[u8]>) -> i64 {
        let own = except.and_then(|id| self.live(id, now_ms)).map_or(0, |lease| lease.permits);
        let mut held = self.in_use(now_ms) - own;
        if held <= at_most {
            return now_ms;
        }
        for ((end_ms, id), permits) in &self.by_end {
            if *end_ms > now_ms && except != Some(id) {
                held -= permits;
                if held <= at_most {
                    return *end_ms;
                }
            }
        }
        now_ms
    }

    /// When the last lease ends; 0 without any.
    pub fn last_end_ms(&self) -> i64 {
        self.by_end.last_key_value().map_or(0, |((end_ms, _), _)| *end_ms)
    }

    /// The same, the lease `except` left out.
    pub fn last_end_without(&self, except: Option<&[u8]>) -> i64 {
        let others = self.by_end.keys().rev().find(|(_, id)| except != Some(id));
        others.map_or(0, |(end_ms, _)| *end_ms)
    }

    /// How many leases are stored, those included that ended and were not forgotten yet.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether no lease is stored.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Bytes allocated besides the struct itself, about: for each lease its name and its places in
    /// two maps whose nodes are two thirds full.
    pub fn heap_bytes(&self) -> usize {
        const ENTRY: usize = 150;
        self.by_id.keys().map(|id| id.len() + ENTRY).sum()
    }

    /// Whether a lease was taken after `now_ms`.
    pub fn is_ahead(&self, now_ms: i64) -> bool {
        self.newest_taken_ms > now_ms
    }

    /// Applies a change. Total: any change leaves any leases in a valid state.
    pub fn apply(&mut self, change: &LeaseChange) {
        match change {
            LeaseChange::Put { now_ms, id, lease, carried } => {
                self.prune(*now_ms);
                if *carried > 0 {
                    self.put(Arc::from([]), Lease { permits: *carried, ..*lease });
                }
                self.put(id.clone(), *lease);
            }
            LeaseChange::End { now_ms, id } => {
                self.prune(*now_ms);
                self.remove(id);
            }
            LeaseChange::PullBack { now_ms } => {
                let ahead = self.by_id.iter().filter(|(_, lease)| lease.taken_ms > *now_ms);
                let ahead: Vec<_> = ahead.map(|(id, lease)| (id.clone(), *lease)).collect();
                for (id, lease) in ahead {
                    let end_ms = *now_ms + (lease.end_ms - lease.taken_ms);
                    self.put(id, Lease { taken_ms: *now_ms, end_ms, ..lease });
                }
                self.newest_taken_ms = self.newest_taken_ms.min(*now_ms);
            }
        }
    }

    fn put(&mut self, id: Arc<[u8]>, mut lease: Lease) {
        self.remove(&id);
        lease.permits = lease.permits.min(MAX_IN_USE - self.permits);
        if lease.permits == 0 {
            return;
        }
        self.permits += lease.permits;
        self.newest_taken_ms = self.newest_taken_ms.max(lease.taken_ms);
        self.by_end.insert((lease.end_ms, id.clone()), lease.permits);
        self.by_id.insert(id, lease);
        self.most = self.most.max(self.by_id.len());
    }

    fn remove(&mut self, id: &[u8]) {
        if let Some((id, lease)) = self.by_id.remove_entry(id) {
            self.permits -= lease.permits;
            self.by_end.remove(&(lease.end_ms, id));
        }
    }

    fn prune(&mut self, now_ms: i64) {
        while let Some(((end_ms, id), _)) = self.by_end.first_key_value() {
            if *end_ms > now_ms {
                break;
            }
            let id = id.clone();
            self.remove(&id);
        }
    }

    /// Appends the stored form: the leases in the order of their ends.
    pub fn encode(&self, out: &mut impl Sink) {
        varint::write(out, self.by_end.len() as u64);
        for (_, id) in self.by_end.keys() {
            if let Some(lease) = self.by_id.get(id) {
                encode_lease(id, lease, out);
            }
        }
    }

    /// Reads the stored form. `None` when it breaks an invariant.
    pub fn decode(bytes: &[u8], at: &mut usize) -> Option<Leases> {
        let mut leases = Leases::default();
        for _ in 0..varint::read(bytes, at)? {
            let (id, lease) = decode_lease(bytes, at)?;
            let fits = lease.permits <= MAX_IN_USE - leases.permits;
            if !fits || leases.by_id.contains_key(&id) {
                return None;
            }
            leases.put(id, lease);
        }
        Some(leases)
    }
}

/// Appends a lease with its name.
pub fn encode_lease(id: &[u8], lease: &Lease, out: &mut impl Sink) {
    varint::write(out, id.len() as u64);
    out.put(id);
    varint::write(out, lease.permits);
    varint::write(out, lease.taken_ms.max(0) as u64);
    varint::write(out, (lease.end_ms - lease.taken_ms).max(0) as u64);
}

/// Reads the name of a lease. `None` when it is too long.
pub fn decode_id(bytes: &[u8], at: &mut usize) -> Option<Arc<[u8]>> {
    let len = usize::try_from(varint::read(bytes, at)?).ok().filter(|len| *len <= MAX_ID)?;
    let id = bytes.get(*at..at.checked_add(len)?)?;
    *at += len;
    Some(Arc::from(id))
}

/// Reads a lease with its name. `None` when it cannot exist.
pub fn decode_lease(bytes: &[u8], at: &mut usize) -> Option<(Arc<[u8]>, Lease)> {
    let id = decode_id(bytes, at)?;
    let permits = varint::read(bytes, at).filter(|n| (1..=MAX_IN_USE).contains(n))?;
    let time = |n: u64| i64::try_from(n).ok().filter(|ms| *ms <= MAX_TIME_MS);
    let taken_ms = time(varint::read(bytes, at)?)?;
    let end_ms = taken_ms + time(varint::read(bytes, at)?)?;
    let lease = Lease { permits, taken_ms, end_ms };
    (end_ms <= MAX_TIME_MS).then_some((id, lease))
}
