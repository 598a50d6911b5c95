//! The requests that were read, column by column, in the order of their times.

use std::fmt;

use indexmap::IndexSet;

use crate::rule::By;

/// A line as it was read. Fields that its format does not have are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When, in ms of epoch time.
    pub time_ms: i64,
    /// Permits it takes.
    pub cost: u64,
    /// The client's address.
    pub ip: &'a [u8],
    /// The user, if one was authenticated.
    pub user: Option<&'a [u8]>,
    /// The path, without the query.
    pub path: &'a [u8],
    /// The key of a CSV.
    pub key: &'a [u8],
}

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong.
    pub problem: &'static str,
    /// Its beginning.
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
    pub fn add(&mut self, line: u64, problem: &'static str, text: &[u8]) {
        self.count += 1;
        if self.first.len() < FEW {
            self.first.push(BadLine { line, problem, text: shown(text) });
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
}

impl Column {
    /// The id of a request that has no such key.
    pub const NONE: u32 = u32::MAX;

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
    columns: Vec<Column>,
    scratch: Vec<u8>,
}

impl Log {
    /// An empty log with columns for what rules count by.
    pub fn new(bys: impl IntoIterator<Item = By>) -> Log {
        let mut columns: Vec<Column> = Vec::new();
        for by in bys {
            if !columns.iter().any(|column| column.by == by) {
                columns.push(Column { by, ids: Vec::new(), names: IndexSet::new() });
            }
        }
        let (times_ms, costs, places) = (Vec::new(), Vec::new(), Vec::new());
        Log { times_ms, costs, places, out_of_order: 0, columns, scratch: Vec::new() }
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
        for column in &mut self.columns {
            match column.by {
                By::Ip => column.push(Some(entry.ip)),
                By::User => column.push(entry.user),
                By::Path => column.push(Some(entry.path)),
                By::Key => column.push(Some(entry.key)),
                By::Global => column.push(Some(b"everything")),
                By::IpPath => {
                    self.scratch.clear();
                    self.scratch.extend_from_slice(entry.ip);
                    self.scratch.push(b' ');
                    self.scratch.extend_from_slice(entry.path);
                    column.push(Some(&self.scratch));
                }
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
