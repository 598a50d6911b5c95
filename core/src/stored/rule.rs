//! The stored form of a rule: its algorithm's tag, window, limit, and the algorithm's own number
//! if it has one.

use super::reader::Reader;
use super::varint::{self, Sink};
use crate::numbers::Own;
use crate::rule::{Algorithm, Rule, Shape};

/// Appends a rule.
pub(super) fn encode(rule: &Rule, out: &mut impl Sink) {
    let numbers = rule.numbers();
    out.put_byte(rule.algorithm().tag());
    varint::write(out, numbers.window_ms() as u64);
    varint::write(out, numbers.limit());
    if rule.algorithm().own() != Own::None {
        varint::write(out, numbers.own());
    }
}

/// Reads a rule.
pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Rule> {
    let tag = reader.byte()?;
    decode_tagged(tag, reader)
}

/// Reads a rule after its tag.
pub(super) fn decode_tagged(tag: u8, reader: &mut Reader<'_>) -> Option<Rule> {
    let algorithm = Algorithm::of_tag(tag)?;
    let window_ms = i64::try_from(reader.number()?).ok()?;
    let limit = reader.number()?;
    let mut shape = Shape::default();
    match algorithm.own() {
        Own::None => {}
        // A rule with limit 0 may have burst 0, which is then left out.
        Own::Burst => {
            shape.burst = Some(reader.number()?).filter(|burst| *burst > 0 || limit > 0);
        }
        Own::Offset => shape.offset_ms = Some(reader.time()?),
    }
    Rule::new(algorithm, window_ms, limit, shape).ok()
}

/// Reads a rule under which a limiter can be stored: its limit is above 0.
pub(super) fn decode_stored(tag: u8, reader: &mut Reader<'_>) -> Option<Rule> {
    decode_tagged(tag, reader).filter(|rule| rule.limit() > 0)
}
