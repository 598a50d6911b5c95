//! Lines that are almost right: whatever becomes of a line by accident or by a client's choice, what
//! is read from it is an address and a plausible time that stand in it, or it is refused with its
//! number.

mod samples;

use std::iter::empty;
use std::net::IpAddr;

use rl_sim::entry::Entry;
use rl_sim::formats::{Format, Parser, Told};
use rl_sim::lines::Lines;
use rl_sim::timestamp::{END_MS, FIRST_MS};
use samples::{SAMPLES, Sample};

/// Mutations of each sample.
const ROUNDS: usize = 3000;

/// A small generator of random numbers (SplitMix64), the same on each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let (a, b) = (self.below(length + 1), self.below(length + 1));
        a.min(b)..a.max(b)
    }
}

/// What is put into lines: what fields consist of, and what is next to them in other formats.
const PIECES: [&str; 24] = [
    " ",
    ", ",
    ",",
    ":",
    "\"",
    "\\",
    "[",
    "]",
    "-",
    "0",
    "9",
    ".",
    "::",
    "\u{feff}",
    "\0",
    "é",
    "%",
    "www.example.com:443 ",
    "Oct 10 13:55:36 web1 nginx: ",
    "66.66.69.69, ",
    "::ffff:",
    "1760104536",
    "000",
    "{",
];

/// Changes a line in one to three places.
fn mutated(random: &mut Random, line: &str) -> Vec<u8> {
    let mut bytes = line.as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(random.range(at))),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            4 => {
                let range = random.range(bytes.len());
                let copy = bytes[range].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                let other = SAMPLES[random.below(SAMPLES.len())].line.as_bytes();
                let range = random.range(other.len());
                bytes.splice(at..at, other[range].iter().copied());
            }
            _ => {
                let piece = PIECES[random.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
    // These end lines.
    bytes.retain(|byte| !matches!(byte, b'\n' | b'\r'));
    bytes
}

/// Whether a text stands in a line as a whole: not as a part of a longer word.
fn stands_in(text: &[u8], line: &[u8]) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    line.windows(text.len()).enumerate().any(|(at, window)| {
        let before = at.checked_sub(1).and_then(|at| line.get(at));
        let after = line.get(at + text.len());
        window == text && !is_part(before) && !is_part(after) && before != Some(&b'.')
    })
}

fn check(entry: &Entry<'_>, line: &[u8]) {
    let shown = String::from_utf8_lossy(line);
    assert!((FIRST_MS..END_MS).contains(&entry.time_ms), "{} in {shown}", entry.time_ms);
    if let Some(address) = &entry.ip {
        let text = str::from_utf8(address.text).expect("ASCII");
        let ip: IpAddr = text.parse().unwrap_or_else(|_| panic!("'{text}' in {shown}"));
        assert_eq!(ip.to_canonical(), address.ip, "{shown}");
        assert!(stands_in(address.text, line), "'{text}' in {shown}");
    }
}

/// Reads mutations of a sample, and returns how many were read.
fn read_all(sample: &Sample, told: &Told, random: &mut Random) -> usize {
    let lines: Vec<Vec<u8>> =
        (0..ROUNDS).map(|_| mutated(random, sample.line)).filter(|line| !line.is_empty()).collect();
    let log = lines.join(&b'\n');
    let mut parser = Parser::new(told, lines.iter().take(20).map(Vec::as_slice));
    let has_ip = parser.fields().contains(&rl_sim::rule::By::Ip);
    let mut log = Lines::new(&log[..]).expect("memory");
    let mut read = 0;
    for (number, bytes) in (1..).zip(&lines) {
        let line = log.next_line().expect("memory").expect("a line");
        assert_eq!((line.number, line.problem), (number, None));
        let Ok(Some(entry)) = parser.read(line.bytes) else {
            continue;
        };
        // In Envoy's log and those like it nobody may have forwarded anything.
        let is_missing = entry.ip.is_none() && !parser.tells_forwarded();
        assert!(!has_ip || !is_missing, "{}", String::from_utf8_lossy(bytes));
        check(&entry, bytes);
        read += 1;
    }
    assert_eq!(log.next_line().expect("memory"), None);
    read
}

#[test]
fn what_is_read_of_a_garbled_line_stands_in_it() {
    let (mut random, mut read) = (Random(14), 0);
    for sample in &SAMPLES {
        read += read_all(sample, &sample.told(), &mut random);
        read += read_all(sample, &Told::default(), &mut random);
        let place = Some(1 + random.below(3));
        read += read_all(sample, &Told { place, ..sample.told() }, &mut random);
    }
    let all = 3 * ROUNDS * SAMPLES.len();
    assert!(read > all / 20 && read < all / 2, "{read} of {all} prove little");
}

#[test]
fn a_change_that_spares_the_fields_that_matter_changes_none_of_them() {
    // All fields behind the status are nobody's business, in whatever state they are.
    let line = r#"203.0.113.9 - alice [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" 200 "#;
    let told = Told { format: Some(Format::Combined), ..Told::default() };
    let mut parser = Parser::new(&told, empty());
    let expected = parser.read(line.as_bytes()).expect("a line");
    let mut random = Random(41);
    for sample in SAMPLES.iter().cycle().take(ROUNDS) {
        let garbled = [line.as_bytes(), &mutated(&mut random, sample.line)].concat();
        assert_eq!(parser.read(&garbled).expect("a line"), expected);
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let mut random = Random(1);
    let formats = [Format::Combined, Format::Haproxy, Format::Json, Format::W3c, Format::Csv];
    for _ in 0..ROUNDS {
        let bytes: Vec<u8> = (0..random.below(60)).map(|_| random.below(256) as u8).collect();
        for format in formats {
            let told = Told { format: Some(format), ..Told::default() };
            let mut parser = Parser::new(&told, empty());
            let _ = parser.read(b"#Fields: date time c-ip");
            assert!(!matches!(parser.read(&bytes), Ok(Some(_))), "{bytes:?}");
        }
        let mut lines = Lines::new(&bytes[..]).expect("memory");
        while lines.next_line().expect("memory").is_some() {}
    }
}
