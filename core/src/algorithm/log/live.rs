//! Cursors over the entries of a log. They change nothing.

use crate::stored::varint;

/// The entries of a log that count at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    pub(super) at: usize,
    pub(super) first_ms: i64,
    /// Permits in use.
    pub permits: u64,
    /// The number of entries that these permits are in.
    pub entries: u32,
}

/// A cursor that starts at the newest entries of a run and goes back.
pub struct Newest {
    pub end: usize,
    /// The time of the oldest entry that it has passed.
    pub at_ms: i64,
    pub permits: u64,
}

impl Newest {
    /// Goes back by one entry and returns that entry's permits.
    pub fn go_back(&mut self, run: &[u8], floor: usize) -> Option<u64> {
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        let gap_ms = varint::pop(run, &mut self.end, floor)?;
        self.at_ms -= gap_ms as i64;
        varint::pop(run, &mut self.end, floor)
    }
}

#[cfg(test)]
thread_local! {
    /// The number of entries that cursors passed one by one.
    pub static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Live {
    /// The permits of the first entry.
    pub fn first_permits(&self, run: &[u8]) -> u64 {
        match self.entries {
            0 | 1 => self.permits,
            _ => varint::read(run, &mut { self.at }).unwrap_or(0),
        }
    }

    /// Drops entries for as long as `goes` is true of the entries left. Returns the entries left
    /// by the last drop for which it was true, and by the next one.
    #[inline(always)]
    pub fn drop_while(self, run: &[u8], goes: impl Fn(&Live) -> bool) -> (Live, Live) {
        let mut before = self;
        loop {
            let mut left = before;
            left.advance(run);
            if left.entries == 0 || !goes(&left) {
                return (before, left);
            }
            before = left;
            while let Some(left) = before.without_some(run).filter(&goes) {
                before = left;
            }
        }
    }

    /// Drops several entries at once if their numbers are short, since a hundred thousand may
    /// leave at once.
    #[inline(always)]
    pub fn without_some(&self, run: &[u8]) -> Option<Live> {
        const LONGER: u64 = 0x8080_8080_8080_8080;
        let bytes = u64::from_le_bytes(*run.get(self.at..)?.first_chunk()?);
        let byte = |at: u32| bytes >> (8 * at) & 0x7f;
        let (len, entries, gaps_ms, permits) = match bytes & LONGER {
            0 => {
                let every_other = |bytes: u64| bytes & 0x00ff_00ff_00ff_00ff;
                let sum = |bytes| every_other(bytes).wrapping_mul(0x0001_0001_0001_0001) >> 48;
                (8, 4, sum(bytes >> 8), sum(bytes))
            }
            // Gaps of two bytes.
            longer if longer << 16 == 0x0080_0000_8000 << 16 => {
                let gaps_ms = byte(1) + byte(4) + ((byte(2) + byte(5)) << 7);
                (6, 2, gaps_ms, byte(0) + byte(3))
            }
            _ => return None,
        };
        // The newest entry is never dropped here: its permits are not in the run.
        (self.entries > entries).then(|| Live {
            at: self.at + len,
            first_ms: self.first_ms + gaps_ms as i64,
            permits: self.permits.saturating_sub(permits),
            entries: self.entries - entries,
        })
    }

    /// Drops the first entry.
    pub fn advance(&mut self, run: &[u8]) {
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        let next = match self.entries {
            0 | 1 => None,
            _ => varint::read(run, &mut self.at).zip(varint::read(run, &mut self.at)),
        };
        match next {
            Some((permits, gap_ms)) => {
                self.permits -= permits;
                self.first_ms += gap_ms as i64;
                self.entries -= 1;
            }
            None => (self.entries, self.permits) = (0, 0),
        }
    }
}
