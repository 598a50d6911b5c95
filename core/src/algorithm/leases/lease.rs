//! One lease, its name and its stored form.

use crate::numbers::{MAX_IN_USE, MAX_TIME_MS};
use crate::stored::reader::Reader;
use crate::stored::varint::{self, MAX_LEN, Sink};

/// The longest name of a lease, in bytes.
pub const MAX_ID: usize = 255;

/// The permits of one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Permits held.
    pub permits: u64,
    /// When it was taken or last renewed, in ms of epoch time.
    pub taken_ms: i64,
    /// When it ends by itself.
    pub end_ms: i64,
}

impl Lease {
    /// The lease as it would be if taken at `now_ms`, or unchanged if it was taken before.
    pub(super) fn pulled_back(self, now_ms: i64) -> Lease {
        let ahead_ms = (self.taken_ms - now_ms).max(0);
        Lease { taken_ms: self.taken_ms - ahead_ms, end_ms: self.end_ms - ahead_ms, ..self }
    }
}

/// A lease with its name.
pub(super) type Named<'a> = (&'a [u8], Lease);

/// The key by which leases are sorted.
pub(super) fn order((id, lease): Named<'_>) -> (i64, &[u8]) {
    (lease.end_ms, id)
}

/// Appends a lease with its name.
pub(super) fn encode(id: &[u8], lease: &Lease, out: &mut impl Sink) {
    encode_id(id, out);
    let times = [lease.taken_ms, lease.end_ms - lease.taken_ms].map(|ms| ms.max(0) as u64);
    // Written in one go, since there can be thousands of leases.
    let (mut numbers, mut len) = ([0; 3 * MAX_LEN], 0);
    for number in [lease.permits].into_iter().chain(times) {
        len += varint::write_into(numbers.get_mut(len..).unwrap_or_default(), number);
    }
    out.put(numbers.get(..len).unwrap_or_default());
}

/// Appends the name of a lease.
pub(super) fn encode_id(id: &[u8], out: &mut impl Sink) {
    varint::write(out, id.len() as u64);
    out.put(id);
}

/// Reads the name of a lease. `None` if it is too long.
pub(super) fn decode_id<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = usize::try_from(reader.number()?).ok().filter(|len| *len <= MAX_ID)?;
    reader.bytes(len)
}

/// Reads a lease with its name. `None` if such a lease cannot exist.
pub(super) fn decode<'a>(reader: &mut Reader<'a>) -> Option<Named<'a>> {
    let id = decode_id(reader)?;
    let permits = reader.number().filter(|n| (1..=MAX_IN_USE).contains(n))?;
    let taken_ms = reader.time()?;
    let end_ms = taken_ms + reader.time()?;
    let lease = Lease { permits, taken_ms, end_ms };
    (end_ms <= MAX_TIME_MS).then_some((id, lease))
}
