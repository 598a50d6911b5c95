//! Finds a key that is named twice in a call. Avoids reading long keys whole if it can: a thousand
//! of them can be 100 MB.

use std::collections::HashSet;

use super::arguments::Arguments;
use crate::hash::{Hashes, Seed};

/// Up to this number of keys, comparing all pairs is faster than hashing, and allocates nothing.
const FEW: usize = 8;

/// The number of bytes at each end of a key that are hashed.
const END_BYTES: usize = 32;

/// The first of the first `keys` arguments that equals an earlier one.
pub(crate) fn find_twice<A: Arguments + ?Sized>(args: &A, keys: usize) -> Option<&[u8]> {
    if keys > FEW {
        return if look_alike(args, keys) { find_exactly(args, keys) } else { None };
    }
    let mut few: [&[u8]; FEW] = [&[]; FEW];
    few.iter_mut().zip((0..keys).map(|i| args.get(i))).for_each(|(place, key)| *place = key);
    let mut rest = few.get(..keys)?;
    while let Some((key, others)) = rest.split_first() {
        if others.contains(key) {
            return Some(key);
        }
        rest = others;
    }
    None
}

/// Whether any two keys have the same length and the same ends, as equal keys do.
fn look_alike<A: Arguments + ?Sized>(args: &A, keys: usize) -> bool {
    let seed = Seed::random();
    let mut seen = Hashes::with_capacity_and_hasher(keys, Default::default());
    (0..keys).any(|i| !seen.insert(mark(seed, args.get(i))))
}

/// A hash of a key's length and of its two ends, which are all of it unless it is long.
fn mark(seed: Seed, key: &[u8]) -> u64 {
    let (len, middle) = (key.len() as u32, key.len().saturating_sub(END_BYTES));
    match (key.get(..END_BYTES), key.get(middle..)) {
        (Some(first), Some(last)) if middle > END_BYTES => {
            seed.hash(len, first) ^ seed.hash(len, last).rotate_left(1)
        }
        _ => seed.hash(len, key),
    }
}

fn find_exactly<A: Arguments + ?Sized>(args: &A, keys: usize) -> Option<&[u8]> {
    let mut seen = HashSet::with_capacity(keys);
    (0..keys).map(|i| args.get(i)).find(|key| !seen.insert(*key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of `len` bytes that differ only in their number, which stands at `at`.
    fn keys(count: usize, len: usize, at: usize) -> Vec<Vec<u8>> {
        let key = |i: usize| {
            let mut key = vec![b'k'; len];
            key[at..at + 4].copy_from_slice(format!("{i:04}").as_bytes());
            key
        };
        (0..count).map(key).collect()
    }

    fn found(keys: &[Vec<u8>]) -> Option<usize> {
        let args: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let twice = find_twice(args.as_slice(), args.len())?;
        // Either of the two equal keys will do.
        keys.iter().position(|key| key == twice)
    }

    #[test]
    fn a_key_that_is_named_twice_is_found_wherever_the_keys_differ() {
        for count in [2, 7, 8, 9, 10, 500, 1024] {
            for (len, at) in
                [(4, 0), (30, 26), (64, 30), (65, 31), (200, 0), (200, 100), (200, 196)]
            {
                let mut keys = keys(count, len, at);
                assert_eq!(found(&keys), None, "{count} keys of {len} bytes");
                for (one, other) in [(0, count - 1), (count / 2, count - 1), (0, 1)] {
                    let same = keys[one].clone();
                    let before = std::mem::replace(&mut keys[other], same);
                    let expected = (one != other).then_some(one);
                    assert_eq!(found(&keys), expected, "{count} keys of {len} bytes");
                    keys[other] = before;
                }
            }
        }
        let lengths: Vec<Vec<u8>> = (0..1024).map(|len| vec![b'k'; len]).collect();
        assert_eq!(found(&lengths), None);
    }

    #[test]
    fn long_keys_are_read_whole_only_if_their_ends_are_the_same() {
        let alike = |keys: &[Vec<u8>]| {
            let args: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            look_alike(args.as_slice(), args.len())
        };
        for at in [0, 28, 10_000 - 32, 10_000 - 4] {
            assert!(!alike(&keys(1024, 10_000, at)), "{at}");
        }
        assert!(alike(&keys(1024, 10_000, 5000)));
    }
}
