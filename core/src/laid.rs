//! A block and an exemption, which an operator or the option `BLOCK` lays on a limiter for a time.

use crate::stored::reader::Reader;
use crate::stored::varint::{Sink, write_time};

/// When a block and an exemption end, in ms of epoch time; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Laid {
    /// Every request is denied before this time.
    pub blocked_until_ms: i64,
    /// Every request passes uncounted before this time, unless a block is laid too.
    pub exempt_until_ms: i64,
    /// The clock when the later of the two was laid.
    pub laid_ms: i64,
}

impl Laid {
    /// When the later of the two ends.
    pub fn end_ms(&self) -> i64 {
        self.blocked_until_ms.max(self.exempt_until_ms)
    }

    /// Drops the time of laying if neither is laid.
    pub(crate) fn or_none(self) -> Laid {
        if self.end_ms() == 0 { Laid::default() } else { self }
    }

    /// With as much time left as when the later one was laid, if that was after `now_ms`, because
    /// the clock stepped back. `None` if it was not.
    pub(crate) fn pulled_back(&self, now_ms: i64) -> Option<Laid> {
        let ahead_ms = self.laid_ms.checked_sub(now_ms).filter(|ahead_ms| *ahead_ms > 0)?;
        let pulled = Laid {
            blocked_until_ms: (self.blocked_until_ms - ahead_ms).max(0),
            exempt_until_ms: (self.exempt_until_ms - ahead_ms).max(0),
            laid_ms: now_ms,
        };
        Some(pulled.or_none())
    }

    /// Appends the stored form.
    pub(crate) fn encode(&self, out: &mut impl Sink) {
        write_time(out, self.blocked_until_ms);
        write_time(out, self.exempt_until_ms);
        if self.end_ms() > 0 {
            write_time(out, self.laid_ms);
        }
    }

    /// Reads the stored form. `None` if it breaks an invariant.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Laid> {
        let (blocked_until_ms, exempt_until_ms) = (reader.time()?, reader.time()?);
        let mut laid = Laid { blocked_until_ms, exempt_until_ms, laid_ms: 0 };
        if laid.end_ms() > 0 {
            laid.laid_ms = reader.time()?;
        }
        Some(laid)
    }
}
