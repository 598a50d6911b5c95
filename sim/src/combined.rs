//! A line of an access log: the common and the combined format of Apache and nginx.
//!
//!     203.0.113.9 - alice [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "-" "curl"
//!
//! What follows the status is not looked at, so formats that append fields are read too.

use crate::log::Entry;
use crate::timestamp;

/// Reads lines. Remembers the last time, since many lines share a second.
#[derive(Default)]
pub struct Reader {
    time: Vec<u8>,
    time_ms: i64,
}

impl Reader {
    /// Reads a line without its end.
    ///
    /// # Errors
    /// What the line lacks, or has wrong.
    pub fn read<'a>(&mut self, line: &'a [u8]) -> Result<Entry<'a>, &'static str> {
        let (ip, rest) = split(line, b' ').filter(|(ip, _)| !ip.is_empty()).ok_or("no address")?;
        let (names, rest) = split(rest, b'[').ok_or("no [time]")?;
        let (time, rest) = split(rest, b']').ok_or("no [time]")?;
        let time_ms =
            self.time_ms(time).ok_or("not a [time] such as 10/Oct/2000:13:55:36 -0700")?;
        let (request, rest) = quoted(rest.trim_ascii_start()).ok_or("no \"request\"")?;
        let status = rest.trim_ascii_start();
        let status = status.split(|byte| *byte == b' ').next().unwrap_or_default();
        if status.len() != 3 || !status.iter().all(u8::is_ascii_digit) {
            return Err("no status after the request");
        }
        // The identity comes first, and has no blank. A name may have one.
        let user = split(names, b' ').map_or(&[][..], |(_, user)| user.trim_ascii());
        let user = Some(user).filter(|user| !matches!(*user, b"" | b"-" | b"\"\""));
        Ok(Entry { time_ms, cost: 1, ip, user, path: path(request), key: &[] })
    }

    fn time_ms(&mut self, time: &[u8]) -> Option<i64> {
        if self.time != time {
            self.time_ms = timestamp::parse_access(time)?;
            self.time.clear();
            self.time.extend_from_slice(time);
        }
        Some(self.time_ms)
    }
}

/// What is before and after the first such byte.
fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// What is between the quotes at the beginning, and what follows. A backslash escapes.
fn quoted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = bytes.strip_prefix(b"\"")?;
    let mut escaped = false;
    let end = inner.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some((inner.get(..end)?, inner.get(end + 1..)?))
}

/// The path of a request line, without the query; all of it when it is no request line.
fn path(request: &[u8]) -> &[u8] {
    let target = request.split(|byte| *byte == b' ').nth(1).unwrap_or(request);
    target.split(|byte| *byte == b'?').next().unwrap_or(target)
}
