//! A log from a file or stdin, line by line: plain or gzip, with the line ends of Unix, Windows or
//! old Macs, with or without a byte-order mark. What is no text is refused before a line is read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, stdin};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::progress::Progress;

/// How much of a log is read at a time; the first such part tells its format.
const BUFFER: usize = 1 << 18;

/// The longest line.
const LONGEST: usize = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What a log is instead of text, and what makes text of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotText {
    /// What it is.
    pub what: &'static str,
    /// The command that makes text of it.
    pub command: &'static str,
}

const fn not_text(what: &'static str, command: &'static str) -> NotText {
    NotText { what, command }
}

/// What files of other kinds begin with.
const KINDS: [(&[u8], NotText); 9] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], not_text("compressed by zstd", "zstdcat")),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], not_text("compressed by xz", "xzcat")),
    (b"BZh", not_text("compressed by bzip2", "bzcat")),
    (&[0x04, 0x22, 0x4d, 0x18], not_text("compressed by lz4", "lz4cat")),
    (&[0x1f, 0x9d], not_text("compressed by compress", "zcat")),
    (b"PK\x03\x04", not_text("a zip archive", "unzip -p")),
    (&[0x1f, 0x8b], not_text("compressed by gzip twice", "zcat")),
    (&[0xff, 0xfe], UTF_16),
    (&[0xfe, 0xff], UTF_16),
];

const UTF_16: NotText = not_text("UTF-16", "iconv -f UTF-16 -t UTF-8");

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes without its end, or the first of them if it is too long.
    pub bytes: &'a [u8],
    /// Whether it is whole: the last line may lack its end.
    pub has_end: bool,
    /// Why it is none.
    pub problem: Option<&'static str>,
}

/// Goes through the lines of a log.
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    at_end: bool,
    line_end: u8,
    number: u64,
    long_line: Vec<u8>,
}

/// Opens a log (`None`: stdin), and decompresses what begins as gzip does.
///
/// # Errors
/// What the system says.
pub fn open(path: Option<&Path>, progress: &Progress) -> io::Result<Lines<Box<dyn Read>>> {
    let raw: Box<dyn Read> = match path {
        Some(path) => {
            let file = File::open(path)?;
            let bytes = file.metadata().ok().filter(|file| file.is_file()).map(|file| file.len());
            progress.read("reading", bytes, file)
        }
        None => progress.read("reading", None, stdin().lock()),
    };
    let mut reader = BufReader::with_capacity(BUFFER, raw);
    let is_gzip = reader.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Lines::new(if is_gzip { Box::new(MultiGzDecoder::new(reader)) } else { Box::new(reader) })
}

impl<R: Read> Lines<R> {
    /// Reads the first part.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(input: R) -> io::Result<Lines<R>> {
        let mut lines = Lines {
            input,
            buffer: Vec::new(),
            start: 0,
            at_end: false,
            line_end: b'\n',
            number: 0,
            long_line: Vec::new(),
        };
        lines.fill()?;
        // Old Macs end lines by a carriage return only.
        let has = |byte| memchr::memchr(byte, &lines.buffer).is_some();
        if has(b'\r') && !has(b'\n') {
            lines.line_end = b'\r';
        }
        Ok(lines)
    }

    /// The first lines, before any was taken.
    pub fn sample(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let ends = self.line_end;
        self.buffer
            .split(move |byte| *byte == ends)
            .map(bare)
            .filter(|line| !line.trim_ascii().is_empty())
    }

    /// Whether there is nothing but blanks.
    pub fn is_empty(&self) -> bool {
        self.at_end && self.buffer.trim_ascii().is_empty()
    }

    /// What the log is, if it is no text.
    pub fn not_text(&self) -> Option<NotText> {
        let kind = KINDS.iter().find(|(magic, _)| self.buffer.starts_with(magic));
        // UTF-16 without a mark: the other byte of each ASCII character is zero.
        let is_utf_16 = || match self.buffer.get(..4) {
            Some([a, 0, b, 0] | [0, a, 0, b]) => *a != 0 && *b != 0,
            _ => false,
        };
        let is_tar = self.buffer.get(257..262) == Some(b"ustar");
        let tar = is_tar.then_some(not_text("a tar archive", "tar -xOf"));
        kind.map(|(_, kind)| *kind).or(tar).or_else(|| is_utf_16().then_some(UTF_16))
    }

    /// The next line.
    ///
    /// # Errors
    /// What the system says.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut looked_at = 0;
        let (end, has_end) = loop {
            let rest = self.buffer.get(self.start + looked_at..).unwrap_or_default();
            if let Some(end) = memchr::memchr(self.line_end, rest) {
                break (self.start + looked_at + end, true);
            }
            looked_at += rest.len();
            if self.at_end {
                break (self.buffer.len(), false);
            }
            if looked_at > LONGEST {
                return self.too_long().map(Some);
            }
            self.fill()?;
        };
        if !has_end && end == self.start {
            return Ok(None);
        }
        self.number += 1;
        let bytes = self.buffer.get(self.start..end).unwrap_or_default();
        self.start = end + usize::from(has_end);
        let bytes = bare(bytes);
        let other_end = if self.line_end == b'\n' { b'\r' } else { b'\n' };
        let has_other = memchr::memchr(other_end, bytes).is_some();
        let problem = has_other.then_some("a line end of another kind within the line");
        Ok(Some(Line { number: self.number, bytes, has_end, problem }))
    }

    /// Drops a line whose end is far, but for its beginning.
    fn too_long(&mut self) -> io::Result<Line<'_>> {
        const KEPT: usize = 256;
        self.number += 1;
        let kept = self.buffer.get(self.start..self.start + KEPT).unwrap_or_default();
        self.long_line = kept.to_vec();
        loop {
            let rest = self.buffer.get(self.start..).unwrap_or_default();
            if let Some(end) = memchr::memchr(self.line_end, rest) {
                self.start += end + 1;
                break;
            }
            self.start = self.buffer.len();
            if self.at_end {
                break;
            }
            self.fill()?;
        }
        let problem = Some("longer than 1 MiB");
        Ok(Line { number: self.number, bytes: &self.long_line, has_end: true, problem })
    }

    /// Reads one part more behind what was not taken yet.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let read = self.input.by_ref().take(BUFFER as u64).read_to_end(&mut self.buffer)?;
        self.at_end = read < BUFFER;
        Ok(())
    }
}

/// A line without the mark with which a file may begin, and without what Windows ends it with.
fn bare(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
