//! Variable-length integers (LEB128: seven bits a byte, least significant first, the high bit set
//! on all bytes but the last), the only number format of stored values and effects.
//!
//! The last byte of a number is the one without the high bit, so a sequence of numbers can also be
//! read backwards. The sliding log relies on that to drop its newest entries.

/// The longest encoding of a `u64`, in bytes.
pub const MAX_LEN: usize = 10;

/// A destination for encoded bytes. It is a trait because a call encodes onto its stack: an
/// allocation would cost as much as the decision.
pub trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a byte.
    fn put_byte(&mut self, byte: u8) {
        self.put(&[byte]);
    }

    /// Room for the longest number behind the bytes put so far; `None` if there is none at hand.
    /// Bytes written there count only after [`Sink::grow`].
    fn room(&mut self) -> Option<&mut [u8; MAX_LEN]> {
        None
    }

    /// Adds this many bytes of [`Sink::room`] to those put.
    fn grow(&mut self, _: usize) {}
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Appends `value`.
#[inline]
pub fn write(out: &mut impl Sink, value: u64) {
    if let Some(room) = out.room() {
        let len = fill(room, value);
        out.grow(len);
    } else {
        let mut bytes = [0; MAX_LEN];
        let len = fill(&mut bytes, value);
        out.put(bytes.get(..len).unwrap_or(&bytes));
    }
}

/// Writes `value` and returns its length.
#[inline]
fn fill(bytes: &mut [u8; MAX_LEN], mut value: u64) -> usize {
    for (i, byte) in bytes.iter_mut().enumerate() {
        if value < 0x80 {
            *byte = value as u8;
            return i + 1;
        }
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    MAX_LEN
}

/// The number of bytes that a value takes.
pub fn len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Writes a value to the front of `place` and returns its length; 0 if there is no room.
pub fn write_into(place: &mut [u8], value: u64) -> usize {
    if let Some(room) = place.first_chunk_mut() {
        return fill(room, value);
    }
    let mut bytes = [0; MAX_LEN];
    let len = fill(&mut bytes, value);
    match place.get_mut(..len).zip(bytes.get(..len)) {
        Some((place, bytes)) => {
            place.copy_from_slice(bytes);
            len
        }
        None => 0,
    }
}

/// Appends a signed value, small magnitudes first (zigzag).
pub fn write_signed(out: &mut impl Sink, value: i64) {
    write(out, (value << 1 ^ value >> 63) as u64);
}

/// Appends a time. Times are never before the epoch.
pub fn write_time(out: &mut impl Sink, time_ms: i64) {
    write(out, time_ms.max(0) as u64);
}

/// Reads the number at `*at` and moves `*at` behind it. `None` if the bytes end too early or do
/// not fit a `u64`; `*at` is then unspecified.
#[inline]
pub fn read(bytes: &[u8], at: &mut usize) -> Option<u64> {
    // Most numbers of a log are small, and thousands of entries may leave it at once.
    match *bytes.get(*at)? {
        byte @ 0..0x80 => {
            *at += 1;
            Some(u64::from(byte))
        }
        _ => read_long(bytes, at),
    }
}

fn read_long(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..).step_by(7).take(MAX_LEN) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads a number written by [`write_signed`].
pub fn read_signed(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let value = read(bytes, at)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// Reads the number that ends at `*end` and begins at `floor` or later, and moves `*end` before it.
pub fn pop(bytes: &[u8], end: &mut usize, floor: usize) -> Option<u64> {
    let body = bytes.get(floor..*end)?;
    let (_, before) = body.split_last()?;
    let start = floor + before.iter().rposition(|byte| *byte < 0x80).map_or(0, |i| i + 1);
    *end = start;
    read(bytes, &mut { start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_forwards_and_backwards() {
        let numbers =
            [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|n| write(&mut bytes, *n));
        let mut at = 0;
        for n in numbers {
            assert_eq!(read(&bytes, &mut at), Some(n));
        }
        assert_eq!(at, bytes.len());
        for n in numbers.iter().rev() {
            assert_eq!(pop(&bytes, &mut at, 0), Some(*n));
        }
        assert_eq!((pop(&bytes, &mut at, 0), at), (None, 0));
    }

    #[test]
    fn a_number_is_written_where_there_is_room_for_it() {
        for n in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            for room in 0..=MAX_LEN + 1 {
                let mut place = [0; MAX_LEN + 1];
                let written = write_into(&mut place[..room], n);
                let expected = if room < len(n) { (0, [0; MAX_LEN + 1]) } else { (len(n), place) };
                assert_eq!((written, place), expected, "{n} into {room}");
                assert!(written == 0 || read(&place, &mut 0) == Some(n));
            }
        }
    }

    #[test]
    fn signed_numbers_come_back() {
        for n in [0, -1, 1, i64::MIN, i64::MAX, -300] {
            let mut bytes = Vec::new();
            write_signed(&mut bytes, n);
            assert_eq!(read_signed(&bytes, &mut 0), Some(n));
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!(read(&[], &mut 0), None);
        assert_eq!(read(&[0x80], &mut 0), None);
        assert_eq!(read(&[0xff; 11], &mut 0), None);
        // Ten bytes, but more than 64 bits.
        assert_eq!(
            read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], &mut 0),
            None
        );
    }
}
