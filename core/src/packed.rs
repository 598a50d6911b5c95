//! Unsigned integers in as many bytes as their range needs. They make a limiter fit into an
//! allocation of 48 bytes.

use std::fmt;

use crate::numbers::Numbers;

/// An integer below `2^(8 * BYTES)`, without alignment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Packed<const BYTES: usize>([u8; BYTES]);

/// Large enough for each number of a rule.
pub type U40 = Packed<5>;

/// Large enough for any number of permits in use: [`crate::numbers::MAX_IN_USE`].
pub type U56 = Packed<7>;

impl<const BYTES: usize> Packed<BYTES> {
    /// Packs a value, which must be in range.
    pub fn new(value: u64) -> Packed<BYTES> {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(&value.to_le_bytes()[..BYTES]);
        debug_assert_eq!(Packed(bytes).get(), value);
        Packed(bytes)
    }

    /// The value.
    pub fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..BYTES].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

impl<const BYTES: usize> Default for Packed<BYTES> {
    fn default() -> Packed<BYTES> {
        Packed([0; BYTES])
    }
}

impl<const BYTES: usize> fmt::Debug for Packed<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// The [`Numbers`] of a rule. The capacity follows from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedNumbers {
    window_ms: U40,
    limit: U40,
    own: U40,
}

impl PackedNumbers {
    /// Packs numbers.
    #[inline(always)]
    pub fn new(numbers: &Numbers) -> PackedNumbers {
        PackedNumbers {
            window_ms: U40::new(numbers.window_ms() as u64),
            limit: U40::new(numbers.limit()),
            own: U40::new(numbers.own()),
        }
    }

    /// The window, in ms; 0 if no rule ever wrote.
    pub fn window_ms(&self) -> i64 {
        self.window_ms.get() as i64
    }

    /// Permits per window; 0 if no rule ever wrote.
    pub fn limit(&self) -> u64 {
        self.limit.get()
    }

    /// The algorithm's own number: see [`Numbers::own`].
    pub fn own(&self) -> u64 {
        self.own.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{MAX_IN_USE, MAX_PERMITS, MAX_WINDOW_MS};

    #[test]
    fn all_that_is_packed_comes_back() {
        for value in [0, 1, 255, 256, MAX_WINDOW_MS as u64, MAX_PERMITS] {
            assert_eq!(U40::new(value).get(), value);
        }
        for value in [0, MAX_IN_USE] {
            assert_eq!(U56::new(value).get(), value);
        }
    }
}
