//! The form in which an effect travels.
//!
//! | part | |
//! |---|---|
//! | version | 1 |
//! | parts | bits: 1 write, 2 block and exemption, 4 expiry, 8 start over, 16 a whole limiter follows instead |
//! | write | the rule as in [`super::limiter`], then the change as the algorithm writes it |
//! | block and exemption | as in [`super::limiter`] |
//! | expiry | ms of epoch time |

use super::limiter::{decode_limiter, encode_limiter};
use super::reader::{DecodeError, Reader};
use super::rule;
use super::varint::{Sink, write_time};
use crate::algorithm::Change;
use crate::effect::{Effect, Write};
use crate::laid::Laid;
use crate::limiter::Limiter;

const VERSION: u8 = 1;

const HAS_WRITE: u8 = 1;
const HAS_LAID: u8 = 2;
const HAS_EXPIRY: u8 = 4;
const START_OVER: u8 = 8;
const WHOLE: u8 = 16;

/// The payload of an effect command for one key.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// A change of the limiter under the key.
    Effect(Effect),
    /// A limiter that replaces whatever limiter is under the key.
    Whole(Limiter),
}

/// Appends the form in which an effect travels.
pub fn encode_effect(effect: &Effect, out: &mut impl Sink) {
    let mut parts = 0;
    if let Some(write) = &effect.write {
        parts |= HAS_WRITE | if write.start_over { START_OVER } else { 0 };
    }
    parts |= if effect.laid.is_some() { HAS_LAID } else { 0 };
    parts |= if effect.expire_at_ms.is_some() { HAS_EXPIRY } else { 0 };
    out.put(&[VERSION, parts]);
    if let Some(write) = &effect.write {
        rule::encode(&write.rule, out);
        write.change.encode(out);
    }
    if let Some(laid) = &effect.laid {
        laid.encode(out);
    }
    if let Some(expire_at_ms) = effect.expire_at_ms {
        write_time(out, expire_at_ms);
    }
}

/// Appends an effect after which the key contains exactly this limiter.
pub fn encode_whole(limiter: &Limiter, out: &mut impl Sink) {
    out.put(&[VERSION, WHOLE]);
    encode_limiter(limiter, out);
}

/// Reads the payload of an effect command for one key.
///
/// # Errors
/// As [`decode_limiter`].
pub fn decode_payload(bytes: &[u8]) -> Result<Payload, DecodeError> {
    let mut reader = Reader::new(bytes);
    reader.version(VERSION)?;
    let parts = reader.byte().ok_or(DecodeError::Damaged)?;
    if parts == WHOLE {
        return decode_limiter(reader.rest()).map(Payload::Whole);
    }
    let effect = decode(parts, &mut reader).filter(|_| reader.is_at_end());
    effect.map(Payload::Effect).ok_or(DecodeError::Damaged)
}

fn decode(parts: u8, reader: &mut Reader<'_>) -> Option<Effect> {
    if parts & !(HAS_WRITE | HAS_LAID | HAS_EXPIRY | START_OVER) != 0 {
        return None;
    }
    let has = |part| parts & part != 0;
    let mut effect = Effect::default();
    if has(HAS_WRITE) {
        let tag = reader.byte()?;
        let rule = rule::decode_stored(tag, reader)?;
        let change = Change::decode(rule.algorithm(), rule.numbers(), reader)?;
        effect.write = Some(Write { rule, start_over: has(START_OVER), change });
    }
    if has(HAS_LAID) {
        effect.laid = Some(Laid::decode(reader)?);
    }
    if has(HAS_EXPIRY) {
        effect.expire_at_ms = Some(reader.time()?);
    }
    Some(effect)
}
