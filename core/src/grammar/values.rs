//! The values that follow option words.

use super::algo::Algo;
use super::error::{RequestError, Shown};
use super::word::Word;
use crate::algorithm::leases::MAX_ID;
use crate::numbers::MAX_WINDOW_MS;

impl Word {
    /// Reads a duration, with or without a unit, in ms.
    #[inline]
    pub(crate) fn duration(self, bytes: &[u8], low: i64) -> Result<i64, Box<RequestError>> {
        self.in_range(duration(bytes), bytes, low, MAX_WINDOW_MS, " ms")
    }

    /// Reads a count.
    #[inline]
    pub(crate) fn count(self, bytes: &[u8], low: u64, high: u64) -> Result<u64, Box<RequestError>> {
        let value = self.in_range(integer(bytes), bytes, low as i64, high as i64, "")?;
        Ok(value as u64)
    }

    fn in_range(
        self,
        value: Option<i64>,
        bytes: &[u8],
        low: i64,
        high: i64,
        unit: &'static str,
    ) -> Result<i64, Box<RequestError>> {
        let value = value.filter(|value| (low..=high).contains(value));
        value.ok_or_else(|| {
            let got = Shown::new(bytes);
            RequestError::Number { word: self, low, high, unit, got }.into()
        })
    }

    /// Reads a text whose length and characters are limited.
    pub(crate) fn text<'a>(
        self,
        bytes: &'a [u8],
        longest: usize,
        allowed: impl Fn(&u8) -> bool,
        expected: &'static str,
    ) -> Result<&'a [u8], Box<RequestError>> {
        let fits = (1..=longest).contains(&bytes.len()) && bytes.iter().all(allowed);
        let wrong = || RequestError::Text { word: self, expected, got: Shown::new(bytes) }.into();
        fits.then_some(bytes).ok_or_else(wrong)
    }
}

/// Whether a byte separates the words of a rules argument.
pub(crate) fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Checks the name of a lease. White space is refused, since a rules argument could not contain
/// it.
pub(crate) fn check_id(id: &[u8]) -> Result<&[u8], Box<RequestError>> {
    Word::Id.text(id, MAX_ID, |byte| !is_space(byte), "1 to 255 bytes without white space")
}

/// The algorithm that these bytes spell, in any case.
#[inline(always)]
pub(crate) fn algo(bytes: &[u8]) -> Result<Algo, Box<RequestError>> {
    Algo::find(bytes).ok_or_else(|| RequestError::UnknownAlgorithm(Shown::new(bytes)).into())
}

/// A set of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words(u32);

impl Words {
    /// Whether the set contains a word.
    pub fn has(self, word: Word) -> bool {
        self.0 & 1 << word as u32 != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a word. An error if the set contains it already.
    pub fn add(&mut self, word: Word) -> Result<(), Box<RequestError>> {
        if self.has(word) {
            return Err(RequestError::Twice(word).into());
        }
        self.0 |= 1 << word as u32;
        Ok(())
    }
}

/// A duration in ms: an integer of milliseconds, or an integer with a unit (`ms`, `s`, `m`, `h`,
/// `d`).
fn duration(bytes: &[u8]) -> Option<i64> {
    let (value, unit_ms) = match bytes {
        // The most frequent form first.
        [.., b'0'..=b'9'] => return integer(bytes),
        [value @ .., b'm', b's'] => (value, 1),
        [value @ .., b's'] => (value, 1_000),
        [value @ .., b'm'] => (value, 60_000),
        [value @ .., b'h'] => (value, 3_600_000),
        [value @ .., b'd'] => (value, 86_400_000),
        _ => return None,
    };
    integer(value)?.checked_mul(unit_ms)
}

/// An integer as strictly as Redis reads it: an optional minus, no plus, no spaces, no leading
/// zeros, no overflow.
pub fn integer(bytes: &[u8]) -> Option<i64> {
    let (digits, negative) = match bytes {
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= LONGEST_INTEGER => {}
        _ => return None,
    }
    // This many digits cannot overflow a `u64`. One check at the end finds any byte that is no
    // digit: plus 6, it reaches 16.
    let (mut value, mut highest) = (0u64, 0);
    for byte in digits {
        let digit = u64::from(*byte) ^ u64::from(b'0');
        highest |= digit + 6;
        value = value.wrapping_mul(10).wrapping_add(digit);
    }
    if highest > 15 {
        return None;
    }
    match negative {
        false => i64::try_from(value).ok(),
        true => 0i64.checked_sub_unsigned(value),
    }
}

/// Digits of the largest `i64`. Every number of that many digits fits a `u64`.
const LONGEST_INTEGER: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_strictly_as_redis_reads_them() {
        let cases = [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-7", Some(-7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1.0", None),
            ("1e3", None),
            ("0x1", None),
        ];
        for (text, value) in cases {
            assert_eq!(integer(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn durations_may_have_a_unit() {
        let cases = [
            ("1500", Some(1500)),
            ("500ms", Some(500)),
            ("60s", Some(60_000)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("-8h", Some(-28_800_000)),
            ("1d", Some(86_400_000)),
            ("s", None),
            ("1S", None),
            ("1 s", None),
            ("1w", None),
            ("1h30m", None),
            ("9223372036854775807d", None),
        ];
        for (text, value) in cases {
            assert_eq!(duration(text.as_bytes()), value, "{text:?}");
        }
    }
}
