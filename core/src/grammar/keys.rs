//! The checks that every command makes of its keys.

use super::arguments::{Arguments, MAX_KEYS};
use super::error::{RequestError, Shown};
use super::twice::find_twice;

/// Refuses the first `keys` arguments as keys if there are too many, if one is `reserved`, or if
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
