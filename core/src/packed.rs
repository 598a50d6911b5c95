//! Unsigned integers in as many bytes as their range needs. With them a limiter fits an allocation
//! of 48 bytes.

use std::fmt;

use crate::rule::Rule;

/// An integer below `2^(8 * BYTES)`, without alignment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed<const BYTES: usize>([u8; BYTES]);

/// Holds each number of a [`crate::rule::Rule`].
pub(crate) type U40 = Packed<5>;

/// Holds every number of permits in use: [`crate::rule::MAX_IN_USE`].
pub(crate) type U56 = Packed<7>;

impl<const BYTES: usize> Packed<BYTES> {
    /// Packs a value, which is in range.
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

/// The numbers of a rule, without its algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackedRule {
    window_ms: U40,
    limit: U40,
    /// The burst of a bucket or the offset of a fixed window; 0 for others.
    shape: U40,
}

impl PackedRule {
    /// Packs the numbers of a rule.
    pub fn new(rule: &Rule) -> PackedRule {
        PackedRule {
            window_ms: U40::new(rule.window_ms() as u64),
            limit: U40::new(rule.limit()),
            shape: U40::new(rule.shape()),
        }
    }

    /// The window, in ms.
    pub fn window_ms(&self) -> i64 {
        self.window_ms.get() as i64
    }

    /// Permits per window.
    pub fn limit(&self) -> u64 {
        self.limit.get()
    }

    /// See the field.
    pub fn shape(&self) -> u64 {
        self.shape.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{MAX_IN_USE, MAX_PERMITS, MAX_WINDOW_MS};

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
