//! What a syslog daemon or a container runtime writes before a message.
//!
//!     <134>Oct 10 13:55:36 lb1 haproxy[14389]: message
//!     2025-10-10T13:55:36.123456+00:00 lb1 haproxy[14389]: message
//!     <165>1 2025-10-10T13:55:36.123Z lb1 haproxy 14389 - - message
//!     2025-10-10T13:55:36.123456789Z stdout F message

/// The message of such a line, if it is one.
pub fn message(line: &[u8]) -> Option<&[u8]> {
    let line = match line.strip_prefix(b"<") {
        Some(line) => {
            let (priority, line) = split(line, b'>')?;
            (priority.iter().all(u8::is_ascii_digit) && priority.len() <= 3).then_some(line)?
        }
        None => line,
    };
    if let Some(line) = line.strip_prefix(b"1 ") {
        return rfc_5424(line);
    }
    let rest = match old_time(line) {
        Some(rest) => rest,
        None => {
            let (time, rest) = split(line, b' ')?;
            iso_time(time).then_some(rest)?
        }
    };
    let (first, rest) = split(rest, b' ')?;
    match first {
        b"stdout" | b"stderr" => rest.strip_prefix(b"F "),
        tag if tag.ends_with(b":") => Some(rest.trim_ascii_start()),
        _ => {
            let (tag, rest) = split(rest, b' ')?;
            tag.ends_with(b":").then_some(rest.trim_ascii_start())
        }
    }
}

/// What follows time, host, application, process, message id and structured data.
fn rfc_5424(line: &[u8]) -> Option<&[u8]> {
    let (time, mut rest) = split(line, b' ')?;
    for _ in 0..4 {
        rest = split(rest, b' ')?.1;
    }
    let data_ends = match rest {
        [b'-', ..] => 1,
        // Of several elements the last ends before a blank; a bracket in a value is escaped.
        [b'[', ..] => memchr::memmem::find(rest, b"] ")? + 1,
        _ => return None,
    };
    let message = rest.get(data_ends..)?.strip_prefix(b" ")?;
    let message = message.strip_prefix("\u{feff}".as_bytes()).unwrap_or(message);
    (time == b"-" || iso_time(time)).then_some(message)
}

/// What follows `Oct 10 13:55:36 `.
fn old_time(line: &[u8]) -> Option<&[u8]> {
    let (time, rest) = line.split_at_checked(16)?;
    let [m1, m2, m3, b' ', d1, d2, b' ', h1, h2, b':', i1, i2, b':', s1, s2, b' '] = time else {
        return None;
    };
    let letters = [m1, m2, m3].iter().all(|byte| byte.is_ascii_alphabetic());
    let digits = [d2, h1, h2, i1, i2, s1, s2].iter().all(|byte| byte.is_ascii_digit());
    (letters && digits && (*d1 == b' ' || d1.is_ascii_digit())).then_some(rest)
}

/// Whether this looks like `2025-10-10T13:55:36`, whatever follows.
fn iso_time(time: &[u8]) -> bool {
    let starts_with_date =
        matches!(time.get(..11), Some([_, _, _, _, b'-', _, _, b'-', _, _, b'T']));
    starts_with_date && time.len() >= 19 && time.first().is_some_and(u8::is_ascii_digit)
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(at, bytes)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_what_follows_the_head() {
        for head in [
            "Oct 10 13:55:36 web1 nginx: ",
            "Oct  1 13:55:36 nginx: ",
            "<190>Oct 10 13:55:36 web1 nginx: ",
            "<134>Oct 10 13:55:36 haproxy[14389]: ",
            "2025-10-10T13:55:36.123456+00:00 lb1 haproxy[14389]: ",
            "<165>1 2025-10-10T13:55:36.123Z lb1 haproxy 14389 - - ",
            "<165>1 - - - - - - \u{feff}",
            r#"<165>1 2025-10-10T13:55:36Z lb1 nginx - ID47 [a@1 b="c\]d"][e@1 f="g"] "#,
            "2025-10-10T13:55:36.123456789Z stdout F ",
        ] {
            let line = format!("{head}203.0.113.9 - - [");
            assert_eq!(message(line.as_bytes()), Some(&b"203.0.113.9 - - ["[..]), "{head}");
        }
        for none in [
            "",
            "Oct",
            "Oct 10 13:55:36 web1 nginx 203.0.113.9 - - [",
            "<1340>Oct 10 13:55:36 web1 nginx: a",
            "2025-10-10 13:55:36 web1 nginx: a",
            "2025-10-10T13:55:36Z stdout P half a line",
            "203.0.113.9 - - [10/Oct/2025:13:55:36 +0000] \"GET / HTTP/1.1\" 200 0",
        ] {
            assert_eq!(message(none.as_bytes()), None, "{none}");
        }
    }
}
