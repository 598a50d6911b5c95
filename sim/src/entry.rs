//! A request as a line tells it, and what is said of a line that tells none.

use std::borrow::Cow;

use crate::address::Address;

/// A request as it was read. What its format does not tell is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When, in ms of epoch time.
    pub time_ms: i64,
    /// Permits it takes.
    pub cost: u64,
    /// The client's address.
    pub ip: Option<Address<'a>>,
    /// The user, if one was authenticated.
    pub user: Option<Cow<'a, [u8]>>,
    /// The path, without the query.
    pub path: Option<Cow<'a, [u8]>>,
    /// The key of a CSV.
    pub key: Option<Cow<'a, [u8]>>,
}

/// Why a line is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem<'a> {
    /// What is wrong.
    pub reason: &'static str,
    /// With what part of the line.
    pub at: &'a [u8],
}

impl<'a> Problem<'a> {
    /// This is wrong with that part of the line.
    pub fn new(reason: &'static str, at: &'a [u8]) -> Problem<'a> {
        Problem { reason, at }
    }
}

/// A value, unless it is one of the ways to write that there is none.
pub fn told(value: &[u8]) -> Option<&[u8]> {
    Some(value).filter(|value| !matches!(*value, b"" | b"-" | b"\"\""))
}

/// The path of a request line such as `GET /a?b HTTP/1.1`; all of it when it is no request line.
pub fn path_of_request(request: &[u8]) -> &[u8] {
    let Some(target) = memchr::memchr(b' ', request).and_then(|at| request.get(at + 1..)) else {
        return path(request);
    };
    path(memchr::memchr(b' ', target).and_then(|end| target.get(..end)).unwrap_or(target))
}

/// What a request asks for, without the query, and without scheme and host, which requests to
/// proxies and of HTTP/2 may have.
pub fn path(target: &[u8]) -> &[u8] {
    let query = memchr::memchr(b'?', target).unwrap_or(target.len());
    let target = target.get(..query).unwrap_or_default();
    let schemes: [&[u8]; 2] = [b"http://", b"https://"];
    let Some(rest) = schemes.iter().find_map(|scheme| target.strip_prefix(*scheme)) else {
        return target;
    };
    let slash = memchr::memchr(b'/', rest);
    slash.and_then(|slash| rest.get(slash..)).unwrap_or(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_no_query_and_no_host() {
        let cases: [(&[u8], &[u8]); 8] = [
            (b"GET /a?b=/c HTTP/2.0", b"/a"),
            (b"GET http://www.example.com/a/b?c HTTP/1.1", b"/a/b"),
            (b"GET https://www.example.com:443 HTTP/2.0", b"/"),
            (b"GET https://www.example.com?a/b HTTP/2.0", b"/"),
            (b"OPTIONS * HTTP/1.1", b"*"),
            (b"CONNECT example.com:443 HTTP/1.1", b"example.com:443"),
            (b"-", b"-"),
            (b"", b""),
        ];
        for (request, path) in cases {
            assert_eq!(path_of_request(request), path);
        }
    }
}
