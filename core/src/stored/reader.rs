//! Reads stored bytes, which need not be trusted. Any value out of its range is `None`.

use std::fmt;

use super::varint;
use crate::numbers::{MAX_IN_USE, MAX_TIME_MS};

/// Bytes that are no limiter, effect or policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Written by another version of the module.
    Version(u8),
    /// The bytes break an invariant, or end too early or too late.
    Damaged,
}

impl std::error::Error for DecodeError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Version(version) => {
                write!(f, "version {version} is unknown to this version of the module")
            }
            DecodeError::Damaged => write!(f, "damaged value"),
        }
    }
}

/// A cursor over stored bytes.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Whether all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The bytes that were read since [`Reader::rest`] returned `rest`.
    pub fn read_of(&self, rest: &'a [u8]) -> Option<&'a [u8]> {
        rest.get(..rest.len().checked_sub(self.rest().len())?)
    }

    /// Reads a byte, which must be this version.
    ///
    /// # Errors
    /// Another version, or no byte.
    pub fn version(&mut self, known: u8) -> Result<(), DecodeError> {
        match self.byte() {
            Some(version) if version == known => Ok(()),
            Some(version) => Err(DecodeError::Version(version)),
            None => Err(DecodeError::Damaged),
        }
    }

    /// A byte.
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(bytes)
    }

    /// 0 or 1.
    pub fn flag(&mut self) -> Option<bool> {
        self.byte().filter(|flag| *flag <= 1).map(|flag| flag == 1)
    }

    /// Any number.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        varint::read(self.bytes, &mut self.at)
    }

    /// Any signed number.
    pub fn signed(&mut self) -> Option<i64> {
        varint::read_signed(self.bytes, &mut self.at)
    }

    /// A time that is not before the epoch, in ms.
    pub fn time(&mut self) -> Option<i64> {
        i64::try_from(self.number()?).ok().filter(|time_ms| *time_ms <= MAX_TIME_MS)
    }

    /// A time that may be before the epoch, in ms: the start of a window.
    pub fn signed_time(&mut self) -> Option<i64> {
        self.signed().filter(|time_ms| (-MAX_TIME_MS..=MAX_TIME_MS).contains(time_ms))
    }

    /// A number of permits in use.
    pub fn permits(&mut self) -> Option<u64> {
        self.number().filter(|permits| *permits <= MAX_IN_USE)
    }
}
