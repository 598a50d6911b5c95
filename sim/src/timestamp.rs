//! Times as logs write them, in ms of epoch time.
//!
//! Fractions finer than a millisecond are cut off, as the server does with its own clock.

use jiff::Timestamp;
use jiff::fmt::strtime;
use rl_core::rule::MAX_TIME_MS;

/// From this number on a bare number is in ms: as seconds it would be in the year 5138, as ms the
/// smaller ones are before March 1973.
const FIRST_MS: i64 = 100_000_000_000;

/// Reads epoch seconds with or without a fraction, epoch ms, or RFC 3339.
pub fn parse(bytes: &[u8]) -> Option<i64> {
    let text = str::from_utf8(bytes).ok()?.trim();
    let ms = match text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        true => number(text)?,
        false => text.parse::<Timestamp>().ok()?.as_millisecond(),
    };
    in_range(ms)
}

/// Reads what is between the brackets of an access log: `10/Oct/2000:13:55:36 -0700`.
pub fn parse_access(bytes: &[u8]) -> Option<i64> {
    let time = strtime::parse("%d/%b/%Y:%H:%M:%S%.f %z", bytes).ok()?;
    in_range(time.to_timestamp().ok()?.as_millisecond())
}

fn in_range(ms: i64) -> Option<i64> {
    (0..=MAX_TIME_MS).contains(&ms).then_some(ms)
}

fn number(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    if whole >= FIRST_MS {
        return Some(whole);
    }
    let digits = fraction.bytes().chain(*b"000").take(3);
    let ms = digits.fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0'));
    Some(whole * 1000 + ms)
}

/// A time as people and programs read it.
pub fn show(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| format!("{ms} ms"), |time| time.to_string())
}

/// A duration as a rule writes it, in one or two units.
pub fn show_duration(ms: i64) -> String {
    const S: i64 = 1000;
    const M: i64 = 60 * S;
    const H: i64 = 60 * M;
    const D: i64 = 24 * H;
    let two = |high: i64, high_unit: &str, low: i64, low_unit: &str| match ms % high / low {
        0 => format!("{}{high_unit}", ms / high),
        rest => format!("{}{high_unit} {rest}{low_unit}", ms / high),
    };
    match ms {
        ..S => format!("{ms}ms"),
        S..M if ms % S < 100 => format!("{}s", ms / S),
        S..M => format!("{}.{}s", ms / S, ms % S / 100),
        M..H => two(M, "m", S, "s"),
        H..D => two(H, "h", M, "m"),
        D.. => two(D, "d", H, "h"),
    }
}
