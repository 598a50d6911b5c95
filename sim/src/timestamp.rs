//! Times as logs write them, in ms of epoch time.
//!
//! Fractions finer than a millisecond are cut off, as the server does with its own clock. A time
//! before 1995 or after 2099 is implausible, and refused: so a bare number can be seconds,
//! milliseconds, microseconds or nanoseconds, and at most one of them is plausible.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};

/// 1995-01-01, before which there were no logs of these formats.
pub const FIRST_MS: i64 = 788_918_400_000;

/// 2100-01-01.
pub const END_MS: i64 = 4_102_444_800_000;

/// Any moment whose fields differ.
const SAMPLE_S: i64 = 1_700_000_000;

const IMPLAUSIBLE: &str = "not a plausible time, which is between 1995 and 2099";

const NO_ZONE: &str = "a time without a zone, which --zone can tell";

/// How a format writes times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// `10/Oct/2000:13:55:36 -0700`, as access logs do.
    Access,
    /// The same with or without a zone, as HAProxy does: `06/Feb/2009:12:14:14.655`.
    Local,
    /// RFC 3339 and its relatives: `2000-10-10T13:55:36.250Z`, `2000-10-10 13:55:36,250 +0200`.
    Iso,
    /// Epoch time in s, ms, us or ns, which its size tells.
    Number,
    /// One of those, which differ at a glance.
    Any,
    /// What `strftime` wrote by this format.
    Strftime(Box<str>),
}

impl Form {
    fn not_one(&self) -> &'static str {
        match self {
            Form::Access => "not a time such as 10/Oct/2000:13:55:36 -0700",
            Form::Local => "not a time such as 10/Oct/2000:13:55:36.250",
            Form::Iso => "not a time such as 2000-10-10T13:55:36.250Z",
            Form::Number => "not a time in seconds, ms, us or ns since 1970",
            Form::Any => "not a time: epoch time, RFC 3339 or 10/Oct/2000:13:55:36 -0700",
            Form::Strftime(_) => "not a time as the format has it",
        }
    }

    /// The form that `strftime` writes by this format; `None` if it does not tell date and time.
    pub fn strftime(format: &str) -> Option<Form> {
        let form = Form::Strftime(format.into());
        let read = Times::default().read(&form, form.sample().as_bytes());
        (read == Ok(SAMPLE_S * 1000)).then_some(form)
    }

    /// A time of this form; empty if there is none.
    pub fn sample(&self) -> String {
        let format = match self {
            Form::Access => "%d/%b/%Y:%H:%M:%S %z",
            Form::Local => "%d/%b/%Y:%H:%M:%S",
            Form::Iso | Form::Any => "%Y-%m-%dT%H:%M:%S%:z",
            Form::Number => "%s",
            Form::Strftime(format) => format,
        };
        let sample = Timestamp::from_second(SAMPLE_S).unwrap_or_default();
        let sample = sample.to_zoned_datetime(TimeZone::UTC);
        strtime::format(format, &sample).unwrap_or_default()
    }
}

/// Reads times.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The zone of times that tell none, if that was given.
    zone: Option<Offset>,
    /// Whether there was a time that told none when none was given: it was read as UTC.
    pub assumed_utc: bool,
    /// The last time of an access log, since many lines share a second.
    last: Vec<u8>,
    last_ms: i64,
}

/// What a date and a time of day come to.
struct Civil {
    /// In UTC, or in the zone of [`Times`] if it told none.
    ms: i64,
    has_zone: bool,
}

impl Times {
    /// Reads times, those without a zone as of this one.
    pub fn new(zone: Option<Offset>) -> Times {
        Times { zone, ..Times::default() }
    }

    /// Reads a time in full.
    ///
    /// # Errors
    /// What it is not.
    pub fn read(&mut self, form: &Form, text: &[u8]) -> Result<i64, &'static str> {
        if *form == Form::Access && !text.is_empty() && self.last == text {
            return Ok(self.last_ms);
        }
        let ms = self.read_anew(form, text)?;
        if *form == Form::Access {
            self.last.clear();
            self.last.extend_from_slice(text);
            self.last_ms = ms;
        }
        Ok(ms)
    }

    fn read_anew(&mut self, form: &Form, text: &[u8]) -> Result<i64, &'static str> {
        let civil = match form {
            Form::Access | Form::Local => self.access(text),
            Form::Any if is_number(text) => return self.read(&Form::Number, text),
            Form::Any if text.get(2) == Some(&b'/') => self.access(text),
            Form::Any | Form::Iso => self.iso(text),
            Form::Strftime(format) => self.strftime(format, text),
            Form::Number => {
                let number = number(text).ok_or(form.not_one())?;
                return plausible_number(number);
            }
        };
        let civil = civil.ok_or(form.not_one())?;
        if !civil.has_zone && self.zone.is_none() {
            if !matches!(form, Form::Local | Form::Strftime(_)) {
                return Err(NO_ZONE);
            }
            self.assumed_utc = true;
        }
        plausible(civil.ms)
    }

    /// Reads date and time of day in UTC, which stand in two fields.
    ///
    /// # Errors
    /// What they are not.
    pub fn read_utc(date: &[u8], clock: &[u8]) -> Result<i64, &'static str> {
        let text = [date, b"T", clock, b"Z"].concat();
        Times::default().read(&Form::Iso, &text)
    }

    fn access(&self, text: &[u8]) -> Option<Civil> {
        let (date, rest) = text.split_at_checked(12)?;
        let [d1, d2, b'/', month @ .., b'/', y1, y2, y3, y4, b':'] = date else {
            return None;
        };
        let month = month_of(month)?;
        self.civil([number_of(&[*y1, *y2, *y3, *y4])?, month, number_of(&[*d1, *d2])?], rest)
    }

    fn iso(&self, text: &[u8]) -> Option<Civil> {
        let (date, rest) = text.split_at_checked(11)?;
        let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T' | b't' | b' '] = date else {
            return None;
        };
        let year = number_of(&[*y1, *y2, *y3, *y4])?;
        self.civil([year, number_of(&[*m1, *m2])?, number_of(&[*d1, *d2])?], rest)
    }

    /// Reads what follows a date: `13:55:36`, perhaps a fraction, perhaps a zone.
    fn civil(&self, [year, month, day]: [i32; 3], text: &[u8]) -> Option<Civil> {
        let (clock, rest) = text.split_at_checked(8)?;
        let [h1, h2, b':', m1, m2, b':', s1, s2] = clock else {
            return None;
        };
        let (hour, minute) = (number_of(&[*h1, *h2])?, number_of(&[*m1, *m2])?);
        // A leap second counts as the one before it.
        let second = Some(number_of(&[*s1, *s2])?).filter(|second| *second <= 60)?.min(59);
        let (ms, rest) = match rest {
            [b'.' | b',', rest @ ..] => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (fraction, rest) = rest.split_at_checked(digits)?;
                (fraction_ms(fraction).filter(|_| digits > 0)?, rest)
            }
            rest => (0, rest),
        };
        let (zone, has_zone) = match rest {
            [] => (self.zone.unwrap_or(Offset::UTC), false),
            rest => (offset(rest.strip_prefix(b" ").unwrap_or(rest))?, true),
        };
        let [month, day] = [month, day].map(i8::try_from);
        let [hour, minute, second] = [hour, minute, second].map(i8::try_from);
        let (year, month, day) = (year.try_into().ok()?, month.ok()?, day.ok()?);
        let (hour, minute, second) = (hour.ok()?, minute.ok()?, second.ok()?);
        let time = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
        Some(Civil { ms: zone.to_timestamp(time).ok()?.as_millisecond() + ms, has_zone })
    }

    fn strftime(&self, format: &str, text: &[u8]) -> Option<Civil> {
        let time = strtime::parse(format, text).ok()?;
        if let Ok(time) = time.to_timestamp() {
            return Some(Civil { ms: time.as_millisecond(), has_zone: true });
        }
        let zone = self.zone.unwrap_or(Offset::UTC);
        let time = zone.to_timestamp(time.to_datetime().ok()?).ok()?;
        Some(Civil { ms: time.as_millisecond(), has_zone: false })
    }
}

/// Reads a zone: `Z`, `+02`, `+0200` or `+02:00`.
pub fn offset(text: &[u8]) -> Option<Offset> {
    let (sign, hours, minutes) = match text {
        b"Z" | b"z" => return Some(Offset::UTC),
        [sign, h1, h2] => (sign, [*h1, *h2], [b'0', b'0']),
        [sign, h1, h2, m1, m2] => (sign, [*h1, *h2], [*m1, *m2]),
        [sign, h1, h2, b':', m1, m2] => (sign, [*h1, *h2], [*m1, *m2]),
        _ => return None,
    };
    let minutes = Some(number_of(&minutes)?).filter(|minutes| *minutes < 60)?;
    let seconds = Some(number_of(&hours)?).filter(|hours| *hours < 24)? * 3600 + minutes * 60;
    match sign {
        b'+' => Offset::from_seconds(seconds).ok(),
        b'-' => Offset::from_seconds(-seconds).ok(),
        _ => None,
    }
}

fn month_of(name: &[u8]) -> Option<i32> {
    const MONTHS: [&[u8; 3]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    (1..).zip(MONTHS).find(|(_, month)| *month == name).map(|(number, _)| number)
}

/// A few digits as a number.
fn number_of(digits: &[u8]) -> Option<i32> {
    digits.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i32::from(digit - b'0'))
    })
}

/// The first three digits of a fraction of a second; `None` if there is another byte in it.
fn fraction_ms(digits: &[u8]) -> Option<i64> {
    let three = || digits.iter().chain(b"000").take(3);
    let ms = || three().fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0'));
    digits.iter().all(u8::is_ascii_digit).then(ms)
}

fn is_number(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Whole and fraction (in thousandths) of a number that has no sign.
fn number(text: &[u8]) -> Option<(i64, i64)> {
    let text = str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 =
        whole.bytes().all(|byte| byte.is_ascii_digit()).then(|| whole.parse().ok())??;
    Some((whole, fraction_ms(fraction.as_bytes())?))
}

/// Reads a number as the one unit in which it is plausible.
fn plausible_number((whole, thousandths): (i64, i64)) -> Result<i64, &'static str> {
    let as_seconds = whole.checked_mul(1000).map(|ms| ms + thousandths);
    let units = [as_seconds, Some(whole), Some(whole / 1000), Some(whole / 1_000_000)];
    units.into_iter().flatten().find_map(|ms| plausible(ms).ok()).ok_or(IMPLAUSIBLE)
}

fn plausible(ms: i64) -> Result<i64, &'static str> {
    (FIRST_MS..END_MS).contains(&ms).then_some(ms).ok_or(IMPLAUSIBLE)
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
