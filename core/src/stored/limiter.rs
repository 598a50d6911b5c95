//! The stored form of a limiter.
//!
//! | part | |
//! |---|---|
//! | version | 2 |
//! | rule | the algorithm's tag (0 if nothing was ever granted), window, limit, the algorithm's own number |
//! | state | as the algorithm writes it |
//! | block's end, exemption's end, when laid | ms of epoch time, 0 for none; the last only if one of them is set |

use super::reader::{DecodeError, Reader};
use super::rule;
use super::varint::Sink;
use crate::algorithm::State;
use crate::laid::Laid;
use crate::limiter::Limiter;

/// Version 1 was never released.
const VERSION: u8 = 2;

/// The tag of a limiter from which nothing was ever granted.
const UNUSED: u8 = 0;

/// Appends the stored form of a limiter.
pub fn encode_limiter(limiter: &Limiter, out: &mut impl Sink) {
    out.put_byte(VERSION);
    match limiter.rule() {
        None => out.put_byte(UNUSED),
        Some(rule) => rule::encode(&rule, out),
    }
    limiter.state().encode(out);
    limiter.laid().encode(out);
}

/// Reads a limiter back.
///
/// # Errors
/// An unknown version, or bytes that break an invariant or do not end with the limiter.
pub fn decode_limiter(bytes: &[u8]) -> Result<Limiter, DecodeError> {
    let mut reader = Reader::new(bytes);
    reader.version(VERSION)?;
    decode(&mut reader).filter(|_| reader.is_at_end()).ok_or(DecodeError::Damaged)
}

fn decode(reader: &mut Reader<'_>) -> Option<Limiter> {
    let rule = match reader.byte()? {
        UNUSED => None,
        tag => Some(rule::decode_stored(tag, reader)?),
    };
    let state = match &rule {
        None => State::Unused,
        Some(rule) => State::decode(rule.algorithm(), rule.numbers(), reader)?,
    };
    Some(Limiter::new(rule.as_ref(), state, Laid::decode(reader)?))
}
