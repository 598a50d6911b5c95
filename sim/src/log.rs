//! The requests that were read, column by column, in the order of their times.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use indexmap::IndexSet;

use crate::address::{Address, IPV6_PREFIX, network};
use crate::entry::{Entry, Problem};
use crate::rule::By;

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong.
    pub problem: &'static str,
    /// With what part of it, as far as that is shown.
    pub text: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.problem, self.text)
    }
}

/// The lines that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Malformed {
    /// How many.
    pub count: u64,
    /// The first few.
    pub first: Vec<BadLine>,
}

/// How many malformed lines are shown.
const FEW: usize = 3;

/// How much of a text is shown, in characters.
const SHOWN: usize = 64;

impl Malformed {
    /// Counts a line, and keeps it if it is one of the first.
    pub fn add(&mut self, line: u64, problem: Problem<'_>) {
        self.count += 1;
        if self.first.len() < FEW {
            let text = shown(problem.at);
            self.first.push(BadLine { line, problem: problem.reason, text });
        }
    }
}

/// Bytes of the log as a terminal can take them: no control characters, and not too long.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::new();
    for (i, char) in text.chars().enumerate() {
        if i == SHOWN {
            shown.push('…');
            break;
        }
        match char.is_control() {
            true => shown.extend(char.escape_default()),
            false => shown.push(char),
        }
    }
    shown
}

/// The keys of all requests for the rules that count by the same.
#[derive(Clone, Debug)]
pub struct Column {
    by: By,
    /// For each request the index of its name, or [`Column::NONE`].
    pub ids: Vec<u32>,
    /// The different keys.
    pub names: IndexSet<Box<[u8]>>,
    /// The indices of the networks among them, which are not written anew for each request.
    networks: HashMap<Ipv6Addr, u32>,
}

impl Column {
    /// The id of a request that has no such key.
    pub const NONE: u32 = u32::MAX;

    fn new(by: By) -> Column {
        Column { by, ids: Vec::new(), names: IndexSet::new(), networks: HashMap::new() }
    }

    fn push_ip(&mut self, address: &Address<'_>, ipv6_prefix: u8, scratch: &mut Vec<u8>) {
        let network = match address.ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => Some(network(ip, ipv6_prefix)),
        };
        if let Some(id) = network.and_then(|network| self.networks.get(&network)) {
            self.ids.push(*id);
            return;
        }
        scratch.clear();
        address.write_network(ipv6_prefix, scratch);
        self.push(Some(scratch));
        if let (Some(network), Some(id)) = (network, self.ids.last()) {
            self.networks.insert(network, *id);
        }
    }

    fn push(&mut self, name: Option<&[u8]>) {
        let Some(name) = name else {
            self.ids.push(Column::NONE);
            return;
        };
        let known = self.names.get_index_of(name);
        // There are no more names than requests, which are fewer than `NONE`.
        let id = known.unwrap_or_else(|| self.names.insert_full(name.into()).0);
        self.ids.push(id as u32);
    }
}

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Log {
    /// When each request came, ascending.
    pub times_ms: Vec<i64>,
    /// Permits that the line of each request tells.
    pub costs: Vec<u64>,
    /// The place of each request among those of the input.
    pub places: Vec<u32>,
    /// How many came earlier than the line before them.
    pub out_of_order: u64,
    /// The length of the networks by which IPv6 clients are counted.
    pub ipv6_prefix: u8,
    columns: Vec<Column>,
    scratch: Vec<u8>,
}

impl Log {
    /// An empty log with columns for what rules count by.
    pub fn new(bys: impl IntoIterator<Item = By>) -> Log {
        let mut columns: Vec<Column> = Vec::new();
        for by in bys {
            if !columns.iter().any(|column| column.by == by) {
                columns.push(Column::new(by));
            }
        }
        let (times_ms, costs, places) = (Vec::new(), Vec::new(), Vec::new());
        let (ipv6_prefix, scratch) = (IPV6_PREFIX, Vec::new());
        Log { times_ms, costs, places, out_of_order: 0, ipv6_prefix, columns, scratch }
    }

    /// Appends a request; `false` when there are too many.
    #[must_use]
    pub fn push(&mut self, entry: &Entry<'_>) -> bool {
        let Some(place) = u32::try_from(self.len()).ok().filter(|place| *place < Column::NONE)
        else {
            return false;
        };
        self.out_of_order += u64::from(self.times_ms.last() > Some(&entry.time_ms));
        self.times_ms.push(entry.time_ms);
        self.costs.push(entry.cost);
        self.places.push(place);
        let scratch = &mut self.scratch;
        for column in &mut self.columns {
            match (column.by, &entry.ip) {
                (By::Ip, Some(ip)) => column.push_ip(ip, self.ipv6_prefix, scratch),
                (By::IpPath, Some(ip)) => {
                    scratch.clear();
                    ip.write_network(self.ipv6_prefix, scratch);
                    scratch.push(b' ');
                    scratch.extend_from_slice(entry.path.as_deref().unwrap_or_default());
                    column.push(entry.path.as_ref().map(|_| &scratch[..]));
                }
                (By::Ip | By::IpPath, None) => column.push(None),
                (By::User, _) => column.push(entry.user.as_deref()),
                (By::Path, _) => column.push(entry.path.as_deref()),
                (By::Key, _) => column.push(entry.key.as_deref()),
                (By::Global, _) => column.push(Some(b"everything")),
            }
        }
        true
    }

    /// Sorts by time. Requests of the same time stay as they came.
    pub fn sort(&mut self) {
        fn reorder<T: Copy>(values: &mut Vec<T>, order: &[u32]) {
            *values = order.iter().map(|at| values[*at as usize]).collect();
        }
        if self.times_ms.is_sorted() {
            return;
        }
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_by_key(|at| self.times_ms[*at as usize]);
        reorder(&mut self.times_ms, &order);
        reorder(&mut self.costs, &order);
        for column in &mut self.columns {
            reorder(&mut column.ids, &order);
        }
        reorder(&mut self.places, &order);
    }

    /// Spreads requests of the same whole second evenly over it. For a sorted log, which it stays.
    pub fn spread_seconds(&mut self) {
        for second in self.times_ms.chunk_by_mut(|a, b| a == b) {
            let count = second.len() as i64;
            if second[0] % 1000 == 0 {
                second.iter_mut().zip(0..).for_each(|(time_ms, i)| *time_ms += i * 1000 / count);
            }
        }
        // There may be others with a fraction among them.
        self.sort();
    }

    /// How many requests.
    pub fn len(&self) -> usize {
        self.times_ms.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.times_ms.is_empty()
    }

    /// The keys by which a rule counts. Only for what the log was made with.
    pub fn column(&self, by: By) -> &Column {
        let column = self.columns.iter().find(|column| column.by == by);
        column.expect("a log is made with the columns of all its rules")
    }
}
