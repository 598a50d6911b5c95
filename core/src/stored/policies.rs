//! The stored form of names and their policies: of all names in an RDB, of changed names on the
//! way to replicas.
//!
//! | part | |
//! |---|---|
//! | version | 1 |
//! | for each name | the name; whether it has a standing policy, and that; the number of temporary ones, each with its end |
//! | policy | its rule as in [`super::limiter`], block and shadow |

use super::reader::{DecodeError, Reader};
use super::rule;
use super::varint::{self, Sink, write_time};
use crate::grammar::{MAX_NAME, is_in_name};
use crate::policy::{Entry, Policy};

const VERSION: u8 = 1;

/// The stored form.
pub fn encode<'a>(entries: impl Iterator<Item = (&'a [u8], &'a Entry)>) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for (name, entry) in entries {
        encode_standing(name, entry.standing.as_ref(), &mut bytes);
        varint::write(&mut bytes, entry.temporary.len() as u64);
        for (policy, until_ms) in &entry.temporary {
            encode_policy(policy, &mut bytes);
            write_time(&mut bytes, *until_ms);
        }
    }
    bytes
}

/// Appends a name and its standing policy.
pub(crate) fn encode_standing(name: &[u8], standing: Option<&Policy>, out: &mut impl Sink) {
    varint::write(out, name.len() as u64);
    out.put(name);
    out.put_byte(u8::from(standing.is_some()));
    if let Some(policy) = standing {
        encode_policy(policy, out);
    }
}

/// Appends a policy.
pub(crate) fn encode_policy(policy: &Policy, out: &mut impl Sink) {
    rule::encode(&policy.rule, out);
    write_time(out, policy.block_ms);
    out.put_byte(u8::from(policy.shadow));
}

/// Reads the stored form.
///
/// # Errors
/// An unknown version, or bytes that break an invariant.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Entry)>, DecodeError> {
    let mut reader = Reader::new(bytes);
    reader.version(VERSION)?;
    let mut entries = Vec::new();
    while !reader.is_at_end() {
        entries.push(decode_entry(&mut reader).ok_or(DecodeError::Damaged)?);
    }
    Ok(entries)
}

fn decode_entry(reader: &mut Reader<'_>) -> Option<(Vec<u8>, Entry)> {
    let len = usize::try_from(reader.number()?).ok().filter(|len| (1..=MAX_NAME).contains(len))?;
    let name = reader.bytes(len)?;
    let name = Some(name).filter(|name| name.iter().all(is_in_name))?.to_vec();
    let mut entry = Entry::default();
    if reader.flag()? {
        entry.standing = Some(decode_policy(reader)?);
    }
    for _ in 0..reader.number()? {
        let temporary = (decode_policy(reader)?, reader.time()?);
        let in_order = entry.temporary.last().is_none_or(|under| temporary.1 < under.1);
        entry.temporary.push(Some(temporary).filter(|_| in_order)?);
    }
    Some((name, entry))
}

fn decode_policy(reader: &mut Reader<'_>) -> Option<Policy> {
    let rule = rule::decode(reader)?;
    let block_ms = reader.time()?;
    Some(Policy { rule, block_ms, shadow: reader.flag()? })
}
