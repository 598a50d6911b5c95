//! Hashes of keys and names for tables in memory. They are never stored or sent.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// A secret from which hashes are made, so that callers cannot construct keys that collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    /// A new secret each time.
    pub fn random() -> Seed {
        Seed(RandomState::new().hash_one(0))
    }

    /// The hash of some bytes and a number. Uses folded multiplication, as wyhash does: a
    /// cryptographic hash would cost more than the look-up that it serves.
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

/// A map keyed by such hashes, which are not hashed again.
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
        // Never called: the tables only hash a `u64`.
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
