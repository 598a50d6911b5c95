//! Reads a log from a file or stdin, compressed or not, and finds out its format.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, stdin};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::columns;
use crate::combined;
use crate::error::Error;
use crate::log::{Entry, Log, Malformed};
use crate::progress::Progress;
use crate::rule::By;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// See [`crate::combined`].
    Combined,
    /// See [`crate::columns`].
    Csv,
}

impl Format {
    /// What a rule can count by.
    pub fn fields(self) -> &'static [By] {
        match self {
            Format::Combined => &[By::Ip, By::User, By::Path, By::IpPath, By::Global],
            Format::Csv => &[By::Key, By::Global],
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Combined => "combined",
            Format::Csv => "CSV",
        })
    }
}

/// What was read.
pub struct Input {
    /// The file, or `stdin`.
    pub name: String,
    /// As what it was read.
    pub format: Format,
    /// The requests, not sorted yet.
    pub log: Log,
    /// The lines that are none.
    pub malformed: Malformed,
}

/// How many lines tell the format.
const SAMPLE: usize = 20;

/// The size of the buffers.
const BUFFER: usize = 1 << 18;

/// Reads a log (`None` or `-`: stdin) for rules that count by these. `format` is found out unless
/// given.
///
/// # Errors
/// A log that cannot be read, holds no request, or has not what the rules count by.
pub fn read(
    path: Option<&Path>,
    format: Option<Format>,
    bys: &[By],
    progress: &Progress,
) -> Result<Input, Error> {
    let path = path.filter(|path| path.as_os_str() != "-");
    let name = path.map_or("stdin".into(), |path| path.display().to_string());
    let failed = |error| Error::Read { name: name.clone(), error };
    let mut reader = open(path, progress).map_err(failed)?;
    let sample = sample(&mut reader).map_err(failed)?;
    if sample.is_empty() {
        return Err(Error::Empty { name });
    }
    let format = format.unwrap_or_else(|| guess(&sample));
    if let Some(by) = bys.iter().find(|by| !format.fields().contains(by)) {
        return Err(Error::NotInLog { by: *by, format });
    }
    let (mut log, mut malformed) = (Log::new(bys.iter().copied()), Malformed::default());
    let reader = Cursor::new(sample).chain(reader);
    let fits = read_lines(reader, format, &mut log, &mut malformed).map_err(failed)?;
    progress.done();
    if !fits {
        return Err(Error::TooLong { name });
    }
    match (log.is_empty(), malformed.count) {
        (true, 0) => Err(Error::Empty { name }),
        (true, _) => Err(Error::NoRequests { name, format, malformed }),
        (false, _) => Ok(Input { name, format, log, malformed }),
    }
}

/// Opens the log, and decompresses what begins as gzip does.
fn open(path: Option<&Path>, progress: &Progress) -> io::Result<Box<dyn BufRead>> {
    let raw: Box<dyn Read> = match path {
        Some(path) => {
            let file = File::open(path)?;
            let bytes = file.metadata().ok().filter(|file| file.is_file()).map(|file| file.len());
            progress.read("reading", bytes, file)
        }
        None => progress.read("reading", None, stdin().lock()),
    };
    let mut reader = BufReader::with_capacity(BUFFER, raw);
    match reader.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        true => Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(reader)))),
        false => Ok(Box::new(reader)),
    }
}

/// The first lines.
fn sample(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut sample = Vec::new();
    for _ in 0..SAMPLE {
        if reader.read_until(b'\n', &mut sample)? == 0 {
            break;
        }
    }
    Ok(sample)
}

/// The format in which more of the lines can be read.
fn guess(sample: &[u8]) -> Format {
    let count = |format| {
        let mut parser = Parser::new(format);
        sample
            .split(|byte| *byte == b'\n')
            .filter(|line| parser.read(line.trim_ascii()).is_ok())
            .count()
    };
    if count(Format::Csv) > count(Format::Combined) { Format::Csv } else { Format::Combined }
}

/// Reads the lines of either format.
enum Parser {
    Combined(combined::Reader),
    Csv(Box<columns::Reader>),
}

impl Parser {
    fn new(format: Format) -> Parser {
        match format {
            Format::Combined => Parser::Combined(combined::Reader::default()),
            Format::Csv => Parser::Csv(Box::default()),
        }
    }

    fn read<'a>(&'a mut self, line: &'a [u8]) -> Result<Entry<'a>, &'static str> {
        match self {
            Parser::Combined(reader) => reader.read(line),
            Parser::Csv(reader) => reader.read(line),
        }
    }

    fn has_header(&self, line: &[u8]) -> bool {
        matches!(self, Parser::Csv(_)) && columns::is_header(line)
    }
}

/// Reads all lines into the log; `false` when there are too many.
fn read_lines(
    mut input: impl BufRead,
    format: Format,
    log: &mut Log,
    malformed: &mut Malformed,
) -> io::Result<bool> {
    let mut parser = Parser::new(format);
    let mut bytes = Vec::new();
    let (mut number, mut is_first) = (0, true);
    loop {
        bytes.clear();
        if input.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(true);
        }
        number += 1;
        let line = bytes.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let is_header = std::mem::take(&mut is_first) && parser.has_header(line);
        match parser.read(line) {
            Ok(entry) if !log.push(&entry) => return Ok(false),
            Ok(_) => {}
            Err(_) if is_header => {}
            Err(problem) => malformed.add(number, problem, line),
        }
    }
}
