//! Hashes of keys and names for tables in memory. They are never stored, and never told.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// Makes hashes that callers cannot foresee, so that they cannot make keys collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    /// Another one each time.
    pub fn random() -> Seed {
        Seed(RandomState::new().hash_one(0))
    }

    /// The hash of bytes together with a number. Folded multiplication, as in wyhash: a cryptographic
    /// hash would cost more than what it is for.
    pub fn hash(self, number: u32, bytes: &[u8]) -> u64 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let fold = |value: u64| {
            let product = u128::from(value) * u128::from(FACTOR);
            product as u64 ^ (product >> 64) as u64
        };
        let (chunks, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        if let Some(place) = last.get_mut(..rest.len()) {
            place.copy_from_slice(rest);
        }
        let start = fold(self.0 ^ u64::from(number) ^ (bytes.len() as u64) << 32);
        let hash = chunks.iter().fold(start, |hash, chunk| fold(hash ^ u64::from_le_bytes(*chunk)));
        fold(hash ^ u64::from_le_bytes(last) ^ self.0.rotate_left(32))
    }
}

/// A table by such hashes: they need no hashing.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Identity>>;

/// A set of such hashes.
pub(crate) type Hashes = HashSet<u64, BuildHasherDefault<Identity>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        // Only ever given a `u64`.
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
