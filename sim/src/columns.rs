//! A line of a CSV log: `time,key[,cost]`. Fields may be quoted, but hold no line breaks, so that a
//! quote that never ends spoils one line only.

use csv_core::{ReadRecordResult, Reader as Core};
use rl_core::grammar::integer;
use rl_core::rule::MAX_PERMITS;

use crate::log::Entry;
use crate::timestamp;

/// One field more than there can be.
const FIELDS: usize = 4;

const WRONG_FIELDS: &str = "not time,key or time,key,cost";

/// Reads lines.
pub struct Reader {
    core: Core,
    /// The fields of a line without their quotes, one behind the other.
    fields: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Reader {
        // Not the default of the core, which lacks its tables.
        Reader { core: Core::new(), fields: Vec::new() }
    }
}

impl Reader {
    /// Reads a line without its end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(&mut self, line: &[u8]) -> Result<Entry<'_>, &'static str> {
        let mut ends = [0; FIELDS];
        let count = self.split(line, &mut ends).ok_or(WRONG_FIELDS)?;
        let field = |i: usize| {
            let start = if i == 0 { 0 } else { ends[i - 1] };
            self.fields.get(start..ends[i]).unwrap_or_default().trim_ascii()
        };
        if !(2..FIELDS).contains(&count) {
            return Err(WRONG_FIELDS);
        }
        let time_ms = timestamp::parse(field(0));
        let time_ms = time_ms.ok_or("not a time: epoch seconds, epoch ms or RFC 3339")?;
        let key = field(1);
        if key.is_empty() {
            return Err("no key");
        }
        let cost = match count {
            3 if !field(2).is_empty() => cost(field(2)).ok_or("the cost is not 0 to 10^12")?,
            _ => 1,
        };
        Ok(Entry { time_ms, cost, ip: &[], user: None, path: &[], key })
    }

    /// Splits a line into fields. Returns how many; `None` if there are more than have room.
    fn split(&mut self, line: &[u8], ends: &mut [usize; FIELDS]) -> Option<usize> {
        self.core.reset();
        self.fields.resize(line.len() + 1, 0);
        let (_, _, written, ended) = self.core.read_record(line, &mut self.fields, ends);
        // Nothing more comes: that ends the last field.
        let (result, _, _, last) =
            self.core.read_record(&[], self.fields.get_mut(written..)?, ends.get_mut(ended..)?);
        matches!(result, ReadRecordResult::Record).then_some(ended + last)
    }
}

fn cost(bytes: &[u8]) -> Option<u64> {
    let cost = u64::try_from(integer(bytes)?).ok()?;
    (cost <= MAX_PERMITS).then_some(cost)
}

/// Whether a first line names the columns: there is no digit where the time should be.
pub fn is_header(line: &[u8]) -> bool {
    let time = line.split(|byte| *byte == b',').next().unwrap_or(line);
    time.iter().any(u8::is_ascii_alphabetic) && !time.iter().any(u8::is_ascii_digit)
}
