//! More leases than fit into one [`Pack`]: packs in the order of their leases, with sums, and an
//! [`Index`] of the names.
//!
//! Finding a name, a time or a number of permits touches a few packs. At worst it runs over the
//! sums of all packs, about 30,000 for a million leases.

use std::cmp::Ordering;

use super::index::Index;
use super::lease::{Lease, Named, order};
use super::pack::{MOST, Pack};

/// A pack, never empty, with its sums.
#[derive(Clone, Debug)]
struct Run {
    /// When its first lease ends.
    first_end_ms: i64,
    leases: usize,
    permits: u64,
    pack: Pack,
}

impl Run {
    fn new(pack: Pack) -> Run {
        let mut run = Run { first_end_ms: 0, leases: 0, permits: 0, pack };
        run.permits = run.pack.entries().map(|(_, lease)| lease.permits).sum();
        run.look();
        run
    }

    /// Updates the fields that are cheap to read from the pack.
    fn look(&mut self) {
        self.first_end_ms = self.pack.first().map_or(i64::MIN, |(_, lease)| lease.end_ms);
        self.leases = self.pack.len();
    }

    fn put(&mut self, named: Named<'_>) {
        self.pack.put(named);
        self.permits += named.1.permits;
        self.look();
    }

    /// Whether a lease belongs into this run or a later one.
    fn begins_before(&self, named: Named<'_>) -> bool {
        match self.first_end_ms.cmp(&named.1.end_ms) {
            Ordering::Less => true,
            Ordering::Equal => self.pack.first().is_none_or(|first| order(first) <= order(named)),
            Ordering::Greater => false,
        }
    }
}

/// Many leases; the head of this file describes the structure.
#[derive(Clone, Debug)]
pub(super) struct Many {
    runs: Vec<Run>,
    index: Index,
    leases: usize,
    permits: u64,
    /// No lease was taken after this. The lease that was taken then may have ended.
    newest_taken_ms: i64,
    /// The most leases that there ever were.
    most: usize,
}

impl Many {
    /// Builds the packs from leases in order. `None` if two leases have the same name.
    pub fn new<'a>(leases: impl Iterator<Item = Named<'a>>) -> Option<Many> {
        let mut many = Many {
            runs: Vec::new(),
            index: Index::new(0),
            leases: 0,
            permits: 0,
            newest_taken_ms: i64::MIN,
            most: 0,
        };
        leases.for_each(|named| many.append(named));
        many.reindex().then_some(many)
    }

    /// Adds a lease behind all others, without adding its name to the index.
    fn append(&mut self, named: Named<'_>) {
        match self.runs.last_mut().filter(|run| run.leases < MOST) {
            Some(run) => run.put(named),
            None => {
                let mut pack = Pack::for_many_like(named);
                pack.put(named);
                self.runs.push(Run::new(pack));
            }
        }
        self.count(named.1);
    }

    fn count(&mut self, lease: Lease) {
        self.leases += 1;
        self.permits += lease.permits;
        self.newest_taken_ms = self.newest_taken_ms.max(lease.taken_ms);
        self.most = self.most.max(self.leases);
    }

    /// Rebuilds the index. Returns false if two leases have the same name.
    fn reindex(&mut self) -> bool {
        let mut index = Index::new(self.leases);
        for (id, lease) in self.entries() {
            let hash = index.hash(id);
            // Leases in order cannot share both name and end, so only another end needs a check.
            let is_other = |end_ms: i64| {
                end_ms != lease.end_ms
                    && self.place(id, end_ms).is_some_and(|(_, found)| found.end_ms == end_ms)
            };
            if index.ends_ms(hash).any(is_other) {
                return false;
            }
            index.add(hash, lease.end_ms, i64::MIN);
        }
        self.index = index;
        true
    }

    /// All leases, in order.
    pub fn entries(&self) -> impl Iterator<Item = Named<'_>> {
        self.runs.iter().flat_map(|run| run.pack.entries())
    }

    /// How many leases there are.
    pub fn len(&self) -> usize {
        self.leases
    }

    /// The most leases that there ever were.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The sum of all permits.
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// A time after which no lease was taken.
    pub fn newest_taken_ms(&self) -> i64 {
        self.newest_taken_ms
    }

    /// The most allocations that they can be made of.
    pub fn allocations(&self) -> usize {
        2 + self.runs.len() + self.index.allocations()
    }

    /// Bytes allocated besides the struct itself.
    pub fn heap_bytes(&self) -> usize {
        let packs: usize = self.runs.iter().map(|run| run.pack.heap_bytes()).sum();
        packs + self.runs.capacity() * size_of::<Run>() + self.index.heap_bytes()
    }

    /// The packs, for a caller that relocates their allocations.
    pub fn packs_mut(&mut self) -> impl Iterator<Item = &mut Pack> {
        self.runs.iter_mut().map(|run| &mut run.pack)
    }

    /// The position of the pack that a lease is in, or would be in.
    fn run_of(&self, named: Named<'_>) -> usize {
        self.runs.partition_point(|run| run.begins_before(named)).saturating_sub(1)
    }

    /// The lease with this name, looked for where a lease that ends at `end_ms` would be, and the
    /// position of its pack.
    fn place(&self, id: &[u8], end_ms: i64) -> Option<(usize, Lease)> {
        let at = self.run_of((id, Lease { end_ms, taken_ms: 0, permits: 0 }));
        Some((at, self.runs.get(at)?.pack.find(id)?))
    }

    fn find_place(&self, id: &[u8]) -> Option<(usize, Lease)> {
        self.index.ends_ms(self.index.hash(id)).find_map(|end_ms| self.place(id, end_ms))
    }

    /// The lease with this name.
    pub fn find(&self, id: &[u8]) -> Option<Lease> {
        self.find_place(id).map(|(_, lease)| lease)
    }

    /// The number of packs that contain a lease that ended by `now_ms`. In all of these packs but
    /// the last, every lease has ended, since none ends later than the first of the next pack.
    fn begun(&self, now_ms: i64) -> usize {
        self.runs.partition_point(|run| run.first_end_ms <= now_ms)
    }

    /// The number of leases that ended by `now_ms`, and their permits.
    pub fn ended(&self, now_ms: i64) -> (usize, u64) {
        let Some((last, whole)) = self.runs.get(..self.begun(now_ms)).and_then(<[Run]>::split_last)
        else {
            return (0, 0);
        };
        whole.iter().fold(last.pack.ended(now_ms), |(leases, permits), run| {
            (leases + run.leases, permits + run.permits)
        })
    }

    /// The first end of a lease at which at most `at_most` of `held` permits are left. Only leases
    /// that end after `now_ms` give permits back, and the lease `except` does not.
    pub fn earliest(
        &self,
        now_ms: i64,
        mut held: u64,
        at_most: u64,
        except: Option<&[u8]>,
    ) -> Option<i64> {
        let own = except.and_then(|id| self.find_place(id));
        // No pack before this one has a live lease.
        let first = self.begun(now_ms).saturating_sub(1);
        for (at, run) in self.runs.iter().enumerate().skip(first) {
            let ended = if at == first { run.pack.ended(now_ms).1 } else { 0 };
            let live = run.permits - ended;
            let of_own = own.filter(|(own_at, own)| *own_at == at && own.end_ms > now_ms);
            let goes = live - of_own.map_or(0, |(_, own)| own.permits);
            if held.saturating_sub(goes) <= at_most {
                let mut live = run
                    .pack
                    .entries()
                    .filter(|(id, lease)| lease.end_ms > now_ms && except != Some(id));
                return live.find_map(|(_, lease)| {
                    held = held.saturating_sub(lease.permits);
                    (held <= at_most).then_some(lease.end_ms)
                });
            }
            held -= goes;
        }
        None
    }

    /// When the last lease other than `except` ends.
    pub fn last_end_ms(&self, except: Option<&[u8]>) -> Option<i64> {
        self.runs.iter().rev().find_map(|run| run.pack.last_end_ms(except))
    }

    /// Adds a lease whose name is new.
    pub fn put(&mut self, named: Named<'_>) {
        let (id, lease) = named;
        let at = self.place_for(named);
        match self.runs.get_mut(at) {
            Some(run) => {
                run.put(named);
                self.count(lease);
            }
            None => self.append(named),
        }
        let oldest_ms = self.runs.first().map_or(i64::MIN, |run| run.first_end_ms);
        self.index.add(self.index.hash(id), lease.end_ms, oldest_ms);
    }

    /// The position of a pack with room for a lease. If there is none, the position behind the
    /// last pack.
    fn place_for(&mut self, named: Named<'_>) -> usize {
        let at = self.run_of(named);
        let is_last = at + 1 >= self.runs.len();
        let Some(run) = self.runs.get_mut(at).filter(|run| run.leases >= MOST) else {
            return at;
        };
        // Most new leases end last, so the last pack is filled completely before another begins.
        if is_last && run.pack.last().is_some_and(|last| order(last) < order(named)) {
            return at + 1;
        }
        let second = Run::new(run.pack.split());
        run.permits -= second.permits;
        run.look();
        let at_second = usize::from(second.begins_before(named));
        self.runs.insert(at + 1, second);
        at + at_second
    }

    /// Removes the lease with this name.
    pub fn remove(&mut self, id: &[u8]) {
        let Some((at, lease)) = self.find_place(id) else {
            return;
        };
        if let Some(run) = self.runs.get_mut(at) {
            run.pack.remove(id);
            run.permits -= lease.permits;
            run.look();
        }
        self.leases -= 1;
        self.permits -= lease.permits;
        self.index.remove(self.index.hash(id), lease.end_ms);
        self.join(at);
        self.shrink();
    }

    /// Joins a pack that has few leases with the next one, and removes an empty pack.
    fn join(&mut self, at: usize) {
        let leases = |at: usize| self.runs.get(at).map_or(MOST, |run| run.leases);
        if leases(at) == 0 {
            self.runs.remove(at);
        } else if leases(at) + leases(at + 1) <= MOST / 2 {
            let second = self.runs.remove(at + 1);
            if let Some(run) = self.runs.get_mut(at) {
                second.pack.entries().for_each(|named| run.put(named));
            }
        }
    }

    /// Forgets the leases that ended by `now_ms`.
    pub fn forget(&mut self, now_ms: i64) {
        let (leases, permits) = self.ended(now_ms);
        if leases == 0 {
            return;
        }
        self.leases -= leases;
        self.permits -= permits;
        self.runs.drain(..self.begun(now_ms).saturating_sub(1));
        if let Some(run) = self.runs.first_mut() {
            let (_, permits) = run.pack.forget(now_ms);
            run.permits -= permits;
            run.look();
        }
        self.join(0);
        self.shrink();
    }

    /// Gives memory back if most of it is unused, and rebuilds the index if most of it is for
    /// leases that are gone.
    fn shrink(&mut self) {
        if self.runs.capacity() > 4 * self.runs.len() + MOST {
            self.runs.shrink_to(2 * self.runs.len());
        }
        if self.index.is_sparse(self.leases) {
            self.reindex();
        }
    }
}
