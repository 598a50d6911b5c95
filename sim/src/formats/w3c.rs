//! The extended log format of the W3C, as IIS writes it: a line `#Fields:` names the columns.
//!
//!     #Fields: date time c-ip cs-username cs-method cs-uri-stem sc-status
//!     2025-10-10 13:55:36 203.0.113.9 alice GET /login 200
//!
//! Times are in UTC. Columns are set apart by a blank, or by a tab if the line has one.

use crate::address::Address;
use crate::entry::{Entry, Problem, told};
use crate::timestamp::Times;

/// Reads lines. Remembers which column is what.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    columns: Option<Columns>,
}

#[derive(Clone, Debug)]
struct Columns {
    count: usize,
    date: usize,
    time: usize,
    ip: usize,
    user: Option<usize>,
    path: Option<usize>,
}

impl Columns {
    fn new(names: &[u8]) -> Option<Columns> {
        let names: Vec<&[u8]> = fields(names.trim_ascii(), b' ').collect();
        let place = |wanted: &[u8]| names.iter().position(|name| *name == wanted);
        Some(Columns {
            count: names.len(),
            date: place(b"date")?,
            time: place(b"time")?,
            ip: place(b"c-ip")?,
            user: place(b"cs-username"),
            path: place(b"cs-uri-stem"),
        })
    }
}

impl Reader {
    /// Reads a line without its end; `None` for one that names the columns, or is a comment.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn read<'a>(&mut self, line: &'a [u8]) -> Result<Option<Entry<'a>>, Problem<'a>> {
        let problem = |reason| Problem::new(reason, line);
        if let Some(names) = line.strip_prefix(b"#Fields:") {
            self.columns = Columns::new(names);
            let columns = self.columns.as_ref().map(|_| None);
            return columns.ok_or(problem("date, time and c-ip are not all among the fields"));
        }
        if line.starts_with(b"#") {
            return Ok(None);
        }
        let columns = self
            .columns
            .as_ref()
            .ok_or(problem("no #Fields: with date, time and c-ip before it"))?;
        let separator = if line.contains(&b'\t') { b'\t' } else { b' ' };
        let fields: Vec<&[u8]> = fields(line, separator).collect();
        if fields.len() != columns.count {
            return Err(problem("not as many fields as #Fields: names"));
        }
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        let time_ms = Times::read_utc(field(columns.date), field(columns.time));
        let ip = Address::parse(field(columns.ip));
        Ok(Some(Entry {
            time_ms: time_ms.map_err(problem)?,
            cost: 1,
            ip: Some(ip.ok_or(Problem::new("not an IP address", field(columns.ip)))?),
            user: columns.user.and_then(|at| told(field(at))).map(Into::into),
            path: columns.path.map(|at| field(at).into()),
            key: None,
        }))
    }

    /// Whether the last column matters, so that a line that was cut off looks whole.
    pub fn is_open(&self) -> bool {
        self.columns.as_ref().is_some_and(|columns| {
            let wanted = [columns.date, columns.time, columns.ip].map(Some);
            let last = Some(columns.count - 1);
            wanted.contains(&last) || [columns.user, columns.path].contains(&last)
        })
    }
}

fn fields(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |byte| *byte == separator)
}
