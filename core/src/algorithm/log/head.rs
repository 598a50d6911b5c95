//! The memory layout of a log: its numbers, then the run of its entries, then room for more.

use crate::stored::varint;

/// A cache line. Allocations are a multiple of it, and jemalloc then aligns them to one.
pub const LINE_BYTES: usize = 64;

/// The numbers of a log, in seven words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head {
    pub first_ms: i64,
    pub newest_ms: i64,
    pub newest_permits: u64,
    pub permits: u64,
    /// The clock at the last grant. The newest entry may be ahead of it, because it was rounded
    /// up.
    pub granted_ms: i64,
    pub entries: u32,
    /// Where the first entry starts in the run. The bytes before it were pruned.
    pub start: u32,
    /// Where the run ends.
    pub end: u32,
}

const HEAD_WORDS: usize = 7;
pub const HEAD_BYTES: usize = HEAD_WORDS * 8;

impl Head {
    /// Reads the head of a log; all zeros if the log has no bytes.
    #[inline(always)]
    pub fn read(bytes: &[u8]) -> Head {
        let Some(bytes) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Head::default();
        };
        let (words, _) = bytes.as_chunks::<8>();
        let [first_ms, newest_ms, newest_permits, permits, granted_ms, entries, bounds] =
            std::array::from_fn(|i| words.get(i).map_or(0, |word| u64::from_le_bytes(*word)));
        Head {
            first_ms: first_ms as i64,
            newest_ms: newest_ms as i64,
            newest_permits,
            permits,
            granted_ms: granted_ms as i64,
            entries: entries as u32,
            start: bounds as u32,
            end: (bounds >> 32) as u32,
        }
    }

    #[inline(always)]
    pub fn write(&self, bytes: &mut [u8]) {
        let bounds = u64::from(self.end) << 32 | u64::from(self.start);
        let words: [u64; HEAD_WORDS] = [
            self.first_ms as u64,
            self.newest_ms as u64,
            self.newest_permits,
            self.permits,
            self.granted_ms as u64,
            u64::from(self.entries),
            bounds,
        ];
        if let Some(bytes) = bytes.first_chunk_mut::<HEAD_BYTES>() {
            let (places, _) = bytes.as_chunks_mut::<8>();
            places.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
        }
    }
}

/// An allocation that starts with this head and this run, and has room for a run of `run_bytes`.
pub fn allocation(run_bytes: usize, head: &Head, run: &[u8]) -> Box<[u8]> {
    let len = HEAD_BYTES + run_bytes.max(run.len());
    let mut bytes = vec![0; len.next_multiple_of(LINE_BYTES)].into_boxed_slice();
    head.write(&mut bytes);
    if let Some(place) = bytes.get_mut(HEAD_BYTES..HEAD_BYTES + run.len()) {
        place.copy_from_slice(run);
    }
    bytes
}

/// The run, including the part that was pruned.
#[inline(always)]
pub fn run<'a>(bytes: &'a [u8], head: &Head) -> &'a [u8] {
    bytes.get(HEAD_BYTES..HEAD_BYTES + head.end as usize).unwrap_or_default()
}

/// The number of bytes that the run may take.
pub fn room(bytes: &[u8]) -> usize {
    bytes.len().saturating_sub(HEAD_BYTES)
}

/// The number of bytes that the run grows by when an entry begins at `at_ms`, a time after the
/// newest entry.
pub fn entry_bytes(head: &Head, at_ms: i64) -> usize {
    varint::len(head.newest_permits) + varint::len((at_ms - head.newest_ms) as u64)
}
