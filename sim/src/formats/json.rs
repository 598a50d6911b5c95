//! Lines that are JSON objects, as Caddy, Traefik, Envoy and applications write them.
//!
//! Which keys mean what is a table. Each is a path from the outermost object, `request.remote_ip`,
//! whether objects are nested or their names are joined by dots.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

use crate::address::{Address, forwarded, is_list};
use crate::entry::{Entry, Problem, path, path_of_request, told};
use crate::timestamp::{Form, Times};

/// What a key tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Time,
    Ip,
    Forwarded,
    User,
    Path,
    Request,
}

const FIELDS: usize = 6;

/// The keys that are known unless others are given. Of several that a line has, the first counts.
const KNOWN: [(Field, &[&str]); FIELDS] = [
    (
        Field::Time,
        &[
            "StartUTC",
            "ts",
            "start_time",
            "@timestamp",
            "timestamp",
            "time",
            "msec",
            "time_iso8601",
            "time_local",
            "requestTimeEpoch",
            "requestTime",
        ],
    ),
    (
        Field::Ip,
        &[
            "request.client_ip",
            "request.remote_ip",
            "request.remote_addr",
            "client_ip",
            "clientIp",
            "clientip",
            "client.ip",
            "source.ip",
            "remote_ip",
            "remote_addr",
            "remoteAddr",
            "remoteAddress",
            "httpRequest.remoteIp",
            "downstream_remote_address",
            "ip",
        ],
    ),
    (
        Field::Forwarded,
        &[
            "ClientHost",
            "x_forwarded_for",
            "http_x_forwarded_for",
            "request.headers.X-Forwarded-For",
        ],
    ),
    (
        Field::User,
        &["user_id", "ClientUsername", "remote_user", "user.name", "user.id", "user", "username"],
    ),
    (
        Field::Path,
        &[
            "request.uri",
            "RequestPath",
            "request_uri",
            "url.path",
            "path",
            "uri",
            "url",
            "httpRequest.requestUrl",
        ],
    ),
    (Field::Request, &["request"]),
];

/// What a key leads to.
#[derive(Clone, Debug, Default)]
struct Wanted {
    /// What it tells, and how many keys count before it.
    leaf: Option<(Field, usize)>,
    /// Keys within it are wanted.
    is_inner: bool,
}

/// Which keys of a JSON log mean what.
#[derive(Clone, Debug)]
pub struct Keys {
    wanted: HashMap<String, Wanted>,
    /// What is told, in the order of [`KNOWN`].
    has: [bool; FIELDS],
    are_given: bool,
}

impl Default for Keys {
    fn default() -> Keys {
        let mut keys = Keys { wanted: HashMap::new(), has: [false; FIELDS], are_given: false };
        for (field, names) in KNOWN {
            names.iter().enumerate().for_each(|(rank, name)| keys.want(name, field, rank));
        }
        keys
    }
}

impl Keys {
    fn want(&mut self, name: &str, field: Field, rank: usize) {
        for (dot, _) in name.match_indices('.') {
            let outer = name.get(..dot).unwrap_or_default();
            self.wanted.entry(outer.into()).or_default().is_inner = true;
        }
        self.wanted.entry(name.into()).or_default().leaf = Some((field, rank));
        self.has[field as usize] = true;
    }

    /// Whether lines can tell the client's address.
    pub fn tell_ip(&self) -> bool {
        self.has[Field::Ip as usize] || self.tell_forwarded()
    }

    /// Whether lines can tell an `X-Forwarded-For`.
    pub fn tell_forwarded(&self) -> bool {
        self.has[Field::Forwarded as usize]
    }

    /// Whether lines can tell the user.
    pub fn tell_user(&self) -> bool {
        self.has[Field::User as usize]
    }

    /// Whether lines can tell the path.
    pub fn tell_path(&self) -> bool {
        self.has[Field::Path as usize] || self.has[Field::Request as usize]
    }
}

/// Why keys cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysProblem {
    /// Not `field=key`.
    NotAPair(String),
    /// The time is not among them.
    NoTime,
}

impl std::error::Error for KeysProblem {}

impl fmt::Display for KeysProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeysProblem::NotAPair(pair) => write!(
                f,
                "'{pair}' is not FIELD=KEY, where FIELD is time, ip, forwarded, user, path or \
                 request"
            ),
            KeysProblem::NoTime => f.write_str("time=KEY is missing"),
        }
    }
}

impl FromStr for Keys {
    type Err = KeysProblem;

    /// Reads `time=ts,ip=client.ip,user=user.id,path=url`.
    fn from_str(text: &str) -> Result<Keys, KeysProblem> {
        let mut keys = Keys { wanted: HashMap::new(), has: [false; FIELDS], are_given: true };
        for pair in text.split(',') {
            let not_a_pair = || KeysProblem::NotAPair(pair.into());
            let (field, name) = pair.split_once('=').ok_or_else(not_a_pair)?;
            let field = match field {
                "time" => Field::Time,
                "ip" => Field::Ip,
                "forwarded" => Field::Forwarded,
                "user" => Field::User,
                "path" => Field::Path,
                "request" => Field::Request,
                _ => return Err(not_a_pair()),
            };
            if name.is_empty() || keys.has[field as usize] {
                return Err(not_a_pair());
            }
            keys.want(name, field, 0);
        }
        if keys.has[Field::Time as usize] { Ok(keys) } else { Err(KeysProblem::NoTime) }
    }
}

/// What was found of each field: its rank and its JSON.
type Found<'a> = [Option<(usize, &'a str)>; FIELDS];

/// Reads a line without its end.
///
/// # Errors
/// What is wrong with the line.
pub fn read<'a>(
    keys: &Keys,
    line: &'a [u8],
    times: &mut Times,
    place: Option<usize>,
) -> Result<Entry<'a>, Problem<'a>> {
    let problem = |reason| Problem::new(reason, line);
    if line.first() != Some(&b'{') {
        return Err(problem("not a JSON object"));
    }
    let mut found = Found::default();
    let mut json = serde_json::Deserializer::from_slice(line);
    let object = Object { keys, path: String::new(), found: &mut found };
    let read = json.deserialize_map(object).and_then(|()| json.end());
    read.map_err(|error| {
        problem(match error.is_data() {
            true => "the same key twice",
            false => "not a JSON object",
        })
    })?;
    let json = |field: Field| found[field as usize].map(|(_, json)| json);
    let time = json(Field::Time).ok_or(problem("no time"))?;
    let text = text(time).ok_or(Problem::new("not a time", time.as_bytes()))?;
    let time_ms = times.read(&Form::Any, &text);
    let time_ms = time_ms.map_err(|reason| Problem::new(reason, time.as_bytes()))?;
    let ip = client(json(Field::Ip), json(Field::Forwarded), place)?;
    if ip.is_none() && (!keys.are_given || keys.tell_ip()) {
        return Err(problem("no address"));
    }
    let value = |field| json(field).and_then(self::text);
    let request = value(Field::Request).map(|request| part(request, path_of_request));
    Ok(Entry {
        time_ms,
        cost: 1,
        ip,
        user: value(Field::User).filter(|user| told(user).is_some()),
        path: value(Field::Path).map(|target| part(target, path)).or(request),
        key: None,
    })
}

/// The client's address: the one at `place` of those forwarded, or else the one that stands alone.
fn client<'a>(
    ip: Option<&'a str>,
    list: Option<&'a str>,
    place: Option<usize>,
) -> Result<Option<Address<'a>>, Problem<'a>> {
    let bare = |json: &'a str| match json.strip_prefix('"').and_then(|json| json.strip_suffix('"'))
    {
        Some(text) => text.as_bytes(),
        None => json.as_bytes(),
    };
    let told = |json: &&str| !matches!(*json, "null" | "\"\"" | "\"-\"" | "[]");
    let (ip, list) = (ip.filter(told).map(bare), list.filter(told).map(only).map(bare));
    let (address, at) = match (ip, list, place) {
        (None, None, _) => return Ok(None),
        (_, Some(list), Some(place)) => (forwarded(list, place), list),
        (Some(ip), _, _) if !is_list(ip) => (Address::parse_any(ip), ip),
        (None, Some(list), None) if !is_list(list) => (Address::parse_any(list), list),
        (ip, list, _) => {
            let at = ip.or(list).unwrap_or_default();
            return Err(Problem::new(
                "a list of addresses: --forwarded tells which one counts",
                at,
            ));
        }
    };
    let not_one = if place.is_some() { "no address at that place" } else { "not an IP address" };
    Ok(Some(address.ok_or(Problem::new(not_one, at))?))
}

/// The only element of an array with one, as headers are written.
fn only(json: &str) -> &str {
    let inner = json.strip_prefix('[').and_then(|json| json.strip_suffix(']'));
    inner.map_or(json, |inner| inner.trim_ascii())
}

/// What a string or a number is; `None` for other JSON.
fn text(json: &str) -> Option<Cow<'_, [u8]>> {
    match json.as_bytes() {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => Some(inner.into()),
        [b'"', ..] => Some(serde_json::from_str::<String>(json).ok()?.into_bytes().into()),
        [b'0'..=b'9' | b'-', ..] => Some(json.as_bytes().into()),
        _ => None,
    }
}

/// A part of a text.
fn part<'a>(text: Cow<'a, [u8]>, of: fn(&[u8]) -> &[u8]) -> Cow<'a, [u8]> {
    match text {
        Cow::Borrowed(text) => of(text).into(),
        Cow::Owned(text) => of(&text).to_vec().into(),
    }
}

/// A key, which is copied only if it has escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Walks through an object whose place is `path`.
struct Object<'k, 'f, 'a> {
    keys: &'k Keys,
    path: String,
    found: &'f mut Found<'a>,
}

impl<'a> Visitor<'a> for Object<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> Result<(), M::Error> {
        let length = self.path.len();
        while let Some(Key(key)) = map.next_key()? {
            self.path.truncate(length);
            self.path.push_str(&key);
            let Some(wanted) = self.keys.wanted.get(&self.path) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let json = map.next_value::<&'a RawValue>()?.get();
            if wanted.is_inner && json.starts_with('{') {
                let path = format!("{}.", self.path);
                let inner = Object { keys: self.keys, path, found: self.found };
                let mut json = serde_json::Deserializer::from_str(json);
                json.deserialize_map(inner).map_err(M::Error::custom)?;
            } else if let Some((field, rank)) = wanted.leaf {
                let found = &mut self.found[field as usize];
                match found {
                    Some((other, _)) if *other == rank => {
                        return Err(M::Error::custom("the same key twice"));
                    }
                    Some((other, _)) if *other < rank => {}
                    _ => *found = Some((rank, json)),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_the_keys_that_are_known() {
        let page = include_str!("../../../docs/simulator.md");
        let names = ["time", "ip", "forwarded", "user", "path"];
        for (name, (_, keys)) in names.iter().zip(KNOWN) {
            let row = page.lines().find(|line| {
                line.starts_with(&format!("| {name} ")) && line.contains(&format!("`{}`", keys[0]))
            });
            let row = row.expect(name);
            let told: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
            assert_eq!(told.get(..keys.len()), Some(keys), "{name}");
        }
    }
}
