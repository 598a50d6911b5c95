//! A line of a CSV log: `time,key[,cost]`. Fields may be quoted, but hold no line breaks, so that a
//! quote that never ends spoils one line only.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader as Core};
use rl_core::grammar::integer;
use rl_core::rule::MAX_PERMITS;

use crate::entry::{Entry, Problem};
use crate::timestamp::{Form, Times};

/// One field more than there can be.
const FIELDS: usize = 4;

const WRONG_FIELDS: &str = "not time,key or time,key,cost";

/// Reads lines.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    began: bool,
    /// The first line names a third column that is not the cost.
    third_is_other: bool,
}

impl Reader {
    /// Reads a line without its end; `None` for one that names the columns.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read<'a>(
        &mut self,
        line: &'a [u8],
        times: &mut Times,
    ) -> Result<Option<Entry<'a>>, Problem<'a>> {
        let is_first = !std::mem::replace(&mut self.began, true);
        let fields = split(line).map_err(|reason| Problem::new(reason, line))?;
        let field = |at: usize| fields.get(at).map(|field| field.trim_ascii()).unwrap_or_default();
        if is_first && is_header(field(0)) {
            self.third_is_other = fields.len() > 2 && !field(2).eq_ignore_ascii_case(b"cost");
            return Ok(None);
        }
        let problem = |reason| Problem::new(reason, line);
        let time_ms = times.read(&Form::Any, field(0)).map_err(problem)?;
        if field(1).is_empty() {
            return Err(problem("no key"));
        }
        let cost = match field(2) {
            b"" => 1,
            _ if self.third_is_other => {
                return Err(problem("the third column is not named cost"));
            }
            field => cost(field).ok_or(problem("the cost is not 0 to 10^12"))?,
        };
        let key = match fields.into_iter().nth(1) {
            Some(Cow::Borrowed(key)) => Some(key.trim_ascii().into()),
            Some(Cow::Owned(key)) => Some(key.trim_ascii().to_vec().into()),
            None => None,
        };
        Ok(Some(Entry { time_ms, cost, key, ..Entry::default() }))
    }
}

/// Splits a line into two or three fields.
fn split(line: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, &'static str> {
    let fields: Vec<Cow<'_, [u8]>> = match line.contains(&b'"') {
        false => line.split(|byte| *byte == b',').take(FIELDS).map(Cow::Borrowed).collect(),
        true => unquoted(line)?,
    };
    if (2..FIELDS).contains(&fields.len()) { Ok(fields) } else { Err(WRONG_FIELDS) }
}

fn unquoted(line: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, &'static str> {
    let (mut core, mut bytes, mut ends) = (Core::new(), vec![0; line.len() + 1], [0; FIELDS]);
    let (_, _, written, ended) = core.read_record(line, &mut bytes, &mut ends);
    // A line break ends the last field, unless that is in quotes. No field has one else.
    let rest = (bytes.get_mut(written..), ends.get_mut(ended..));
    let (Some(rest), Some(more_ends)) = rest else {
        return Err(WRONG_FIELDS);
    };
    let (result, _, _, last) = core.read_record(b"\n", rest, more_ends);
    match result {
        ReadRecordResult::Record => {}
        ReadRecordResult::OutputEndsFull => return Err(WRONG_FIELDS),
        _ => return Err("a quote that does not end"),
    }
    let starts = std::iter::once(0).chain(ends);
    let field = |(start, end): (usize, usize)| bytes.get(start..end).unwrap_or_default().to_vec();
    Ok(starts.zip(ends).take(ended + last).map(|range| Cow::Owned(field(range))).collect())
}

fn cost(bytes: &[u8]) -> Option<u64> {
    let cost = u64::try_from(integer(bytes)?).ok()?;
    (cost <= MAX_PERMITS).then_some(cost)
}

/// Whether a first field names its column: there is no digit where the time should be.
fn is_header(field: &[u8]) -> bool {
    field.iter().any(u8::is_ascii_alphabetic) && !field.iter().any(u8::is_ascii_digit)
}
