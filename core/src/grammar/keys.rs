//! What is checked of the keys of every command.

use std::collections::HashSet;

use super::Arguments;
use super::error::{RequestError, Shown};

/// The most keys of one call.
pub const MAX_KEYS: usize = 1024;

/// Refuses the first `keys` arguments as keys when they are too many, when one is `reserved`, or when
/// two are equal.
pub(crate) fn check_keys<A: Arguments + ?Sized>(
    args: &A,
    keys: usize,
    reserved: impl Fn(&[u8]) -> Option<RequestError>,
) -> Result<(), Box<RequestError>> {
    if keys > MAX_KEYS {
        return Err(RequestError::TooManyKeys(keys).into());
    }
    if let Some(error) = (0..keys).find_map(|i| reserved(args.get(i))) {
        return Err(error.into());
    }
    if keys > 1
        && let Some(key) = find_twice(args, keys)
    {
        return Err(RequestError::KeyTwice(Shown::new(key)).into());
    }
    Ok(())
}

/// A key that is named twice.
fn find_twice<A: Arguments + ?Sized>(args: &A, keys: usize) -> Option<&[u8]> {
    /// Up to here comparing all pairs is faster than hashing, and allocates nothing.
    const FEW: usize = 8;
    let mut all = (0..keys).map(|i| args.get(i));
    if keys > FEW {
        let mut seen = HashSet::with_capacity(keys);
        return all.find(|key| !seen.insert(*key));
    }
    let mut few: [&[u8]; FEW] = [&[]; FEW];
    few.iter_mut().zip(all).for_each(|(place, key)| *place = key);
    let mut rest = few.get(..keys)?;
    while let Some((key, others)) = rest.split_first() {
        if others.contains(key) {
            return Some(key);
        }
        rest = others;
    }
    None
}
