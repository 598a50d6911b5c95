//! The stored form of a limiter (RDB, `DUMP`) and of an effect (replication, AOF).
//!
//! Both start with a version byte of their own. A newer module reads every older version; an
//! unknown one is refused, and so is anything that breaks an invariant: what is decoded can be
//! trusted as if it had been computed here. No length in the bytes is believed before that many
//! bytes were seen.
//!
//! | limiter | |
//! |---|---|
//! | version | 2 |
//! | algorithm | 0 unused, 1 sliding, 2 bucket, 3 fixed, 4 counter, 5 concurrency |
//! | rule | window, limit, burst of a bucket, offset of a fixed window; none when unused |
//! | state | as the algorithm writes it |
//! | block's end, exemption's end, when laid | ms of epoch time, 0 for none; the last only if one of them is set |
//!
//! | effect | |
//! |---|---|
//! | version | 1 |
//! | parts | bits: 1 write, 2 holds, 4 expiry, 8 start over, 16 a whole limiter follows instead |
//! | write | algorithm and rule as above, then the change |
//! | holds as above; expiry | ms of epoch time |
//!
//! | policies | |
//! |---|---|
//! | version | 1 |
//! | for each name | the name; whether one is standing, and it; how many are temporary, each with its end |
//! | policy | its rule, block and shadow |
//!
//! Numbers are variable-length: see [`crate::varint`].

use std::fmt;

use crate::bucket::{Bucket, max_deficit};
use crate::concurrency::{LeaseChange, Leases, decode_id, decode_lease, encode_lease};
use crate::counter::{Counter, StoredCounter};
use crate::effect::{Change, Effect, Write};
use crate::fixed::Fixed;
use crate::grammar::{MAX_NAME, is_in_name};
use crate::limiter::{Holds, Limiter, State};
use crate::policy::{Entry, Policy};
use crate::rule::{Algorithm, MAX_IN_USE, MAX_TIME_MS, Rule, Shape};
use crate::sliding::{Log, LogChange, LogStep};
use crate::varint::{self, Sink};

/// Version 1 was never released.
const LIMITER_VERSION: u8 = 2;
const EFFECT_VERSION: u8 = 1;
const POLICIES_VERSION: u8 = 1;

const UNUSED: u8 = 0;
const SLIDING: u8 = 1;
const BUCKET: u8 = 2;
const FIXED: u8 = 3;
const COUNTER: u8 = 4;
const CONCURRENCY: u8 = 5;

const HAS_WRITE: u8 = 1;
const HAS_HOLDS: u8 = 2;
const HAS_EXPIRY: u8 = 4;
const START_OVER: u8 = 8;
const WHOLE: u8 = 16;

const LOG_ADD: u8 = 0;
const LOG_GIVE_BACK_NEWEST: u8 = 1;
const LOG_PULL_BACK: u8 = 2;
const LOG_GIVE_BACK: u8 = 3;

const LEASE_PUT: u8 = 0;
const LEASE_END: u8 = 1;
const LEASE_PULL_BACK: u8 = 2;

/// Bytes that are no limiter or effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Written by another version of the module.
    Version(u8),
    /// They break an invariant, or end too early or too late.
    Damaged,
}

impl std::error::Error for DecodeError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Version(version) => {
                write!(f, "version {version} is unknown to this version of the module")
            }
            DecodeError::Damaged => write!(f, "damaged value"),
        }
    }
}

/// What an effect command carries for a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// A change of the limiter there.
    Effect(Effect),
    /// A limiter that takes the place of whatever limiter is there.
    Whole(Limiter),
}

/// Appends the stored form of a limiter.
pub fn encode_limiter(limiter: &Limiter, out: &mut impl Sink) {
    out.put_byte(LIMITER_VERSION);
    match limiter.rule() {
        None => out.put_byte(UNUSED),
        Some(rule) => encode_rule(&rule, out),
    }
    match limiter.state() {
        State::Unused => {}
        State::Bucket(bucket) => encode_bucket(bucket, out),
        State::Sliding(log) => log.encode(out),
        State::Fixed(fixed) => encode_fixed(fixed, out),
        State::Counter(counter) => encode_counter(&counter.get(), out),
        State::Concurrency(leases) => leases.encode(out),
    }
    encode_holds(&limiter.holds(), out);
}

/// Reads a limiter back.
///
/// # Errors
/// An unknown version, or bytes that break an invariant or do not end with the limiter.
pub fn decode_limiter(bytes: &[u8]) -> Result<Limiter, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    reader.version(LIMITER_VERSION)?;
    reader.limiter().filter(|_| reader.is_at_end()).ok_or(DecodeError::Damaged)
}

/// Appends the form in which an effect travels.
pub fn encode_effect(effect: &Effect, out: &mut impl Sink) {
    let mut parts = 0;
    if let Some(write) = &effect.write {
        parts |= HAS_WRITE | if write.start_over { START_OVER } else { 0 };
    }
    parts |= if effect.holds.is_some() { HAS_HOLDS } else { 0 };
    parts |= if effect.expire_at_ms.is_some() { HAS_EXPIRY } else { 0 };
    out.put(&[EFFECT_VERSION, parts]);
    if let Some(write) = &effect.write {
        encode_rule(&write.rule, out);
        match &write.change {
            Change::Bucket(bucket) => encode_bucket(bucket, out),
            Change::Fixed(fixed) => encode_fixed(fixed, out),
            Change::Counter(counter) => encode_counter(counter, out),
            Change::Log(change) => encode_log_change(*change, out),
            Change::Lease(change) => encode_lease_change(change, out),
        }
    }
    if let Some(holds) = &effect.holds {
        encode_holds(holds, out);
    }
    if let Some(expire_at_ms) = effect.expire_at_ms {
        encode_time(expire_at_ms, out);
    }
}

/// Appends an effect that makes a key hold exactly this limiter.
pub fn encode_whole(limiter: &Limiter, out: &mut impl Sink) {
    out.put(&[EFFECT_VERSION, WHOLE]);
    encode_limiter(limiter, out);
}

/// Reads what an effect command carries for a key.
///
/// # Errors
/// As [`decode_limiter`].
pub fn decode_payload(bytes: &[u8]) -> Result<Payload, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    reader.version(EFFECT_VERSION)?;
    let parts = reader.byte().ok_or(DecodeError::Damaged)?;
    if parts == WHOLE {
        let rest = bytes.get(reader.at..).unwrap_or_default();
        return decode_limiter(rest).map(Payload::Whole);
    }
    reader
        .effect(parts)
        .filter(|_| reader.is_at_end())
        .map(Payload::Effect)
        .ok_or(DecodeError::Damaged)
}

fn encode_rule(rule: &Rule, out: &mut impl Sink) {
    out.put_byte(match rule.algorithm() {
        Algorithm::Sliding => SLIDING,
        Algorithm::Bucket => BUCKET,
        Algorithm::Fixed => FIXED,
        Algorithm::Counter => COUNTER,
        Algorithm::Concurrency => CONCURRENCY,
    });
    varint::write(out, rule.window_ms() as u64);
    varint::write(out, rule.limit());
    match rule.algorithm() {
        Algorithm::Bucket => varint::write(out, rule.burst()),
        Algorithm::Fixed => varint::write(out, rule.offset_ms() as u64),
        _ => {}
    }
}

/// The burst is part of the rule. The deficit is split at bit 63: the high part is nearly always
/// one byte.
fn encode_bucket(bucket: &Bucket, out: &mut impl Sink) {
    let deficit = bucket.deficit();
    encode_time(bucket.at_ms, out);
    varint::write_signed(out, (deficit >> 63) as i64);
    varint::write(out, deficit as u64 & (u64::MAX >> 1));
}

/// Starts of windows can be before the epoch, and the offset is part of the rule.
fn encode_fixed(fixed: &Fixed, out: &mut impl Sink) {
    varint::write_signed(out, fixed.start_ms);
    varint::write(out, fixed.used);
}

fn encode_counter(counter: &Counter, out: &mut impl Sink) {
    varint::write_signed(out, counter.start_ms);
    varint::write(out, counter.previous);
    varint::write(out, counter.current);
}

fn encode_lease_change(change: &LeaseChange, out: &mut impl Sink) {
    match change {
        LeaseChange::Put { now_ms, id, lease, carried } => {
            out.put_byte(LEASE_PUT);
            encode_time(*now_ms, out);
            encode_lease(id, lease, out);
            varint::write(out, *carried);
        }
        LeaseChange::End { now_ms, id } => {
            out.put_byte(LEASE_END);
            encode_time(*now_ms, out);
            varint::write(out, id.len() as u64);
            out.put(id);
        }
        LeaseChange::PullBack { now_ms } => {
            out.put_byte(LEASE_PULL_BACK);
            encode_time(*now_ms, out);
        }
    }
}

fn encode_log_change(change: LogChange, out: &mut impl Sink) {
    let (tag, permits) = match change.step {
        LogStep::Add { permits, .. } => (LOG_ADD, permits),
        LogStep::GiveBack(permits) => (LOG_GIVE_BACK, permits),
        LogStep::GiveBackNewest(permits) => (LOG_GIVE_BACK_NEWEST, permits),
        LogStep::PullBack => (LOG_PULL_BACK, 0),
    };
    out.put_byte(tag);
    encode_time(change.now_ms, out);
    varint::write(out, permits);
    if let LogStep::Add { at_ms, .. } = change.step {
        varint::write_signed(out, at_ms - change.now_ms);
    }
}

fn encode_holds(holds: &Holds, out: &mut impl Sink) {
    encode_time(holds.blocked_until_ms, out);
    encode_time(holds.exempt_until_ms, out);
    if holds.end_ms() > 0 {
        encode_time(holds.laid_ms, out);
    }
}

/// Times are never before the epoch.
fn encode_time(time_ms: i64, out: &mut impl Sink) {
    varint::write(out, time_ms.max(0) as u64);
}

/// Begins the stored form of policies.
pub(crate) fn encode_policies_version(out: &mut impl Sink) {
    out.put_byte(POLICIES_VERSION);
}

/// Appends what is set for a name.
pub(crate) fn encode_entry(name: &[u8], entry: &Entry, out: &mut impl Sink) {
    encode_standing(name, entry.standing.as_ref(), out);
    varint::write(out, entry.temporary.len() as u64);
    for (policy, until_ms) in &entry.temporary {
        encode_policy(policy, out);
        encode_time(*until_ms, out);
    }
}

/// Appends a name and what is set for it without an end.
pub(crate) fn encode_standing(name: &[u8], standing: Option<&Policy>, out: &mut impl Sink) {
    varint::write(out, name.len() as u64);
    out.put(name);
    out.put_byte(u8::from(standing.is_some()));
    if let Some(policy) = standing {
        encode_policy(policy, out);
    }
}

/// Appends a policy.
pub(crate) fn encode_policy(policy: &Policy, out: &mut impl Sink) {
    encode_rule(&policy.rule, out);
    encode_time(policy.block_ms, out);
    out.put_byte(u8::from(policy.shadow));
}

/// Reads policies back.
pub(crate) fn decode_policies(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Entry)>, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    reader.version(POLICIES_VERSION)?;
    let mut entries = Vec::new();
    while !reader.is_at_end() {
        entries.push(reader.entry().ok_or(DecodeError::Damaged)?);
    }
    Ok(entries)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn version(&mut self, known: u8) -> Result<(), DecodeError> {
        match self.byte() {
            Some(version) if version == known => Ok(()),
            Some(version) => Err(DecodeError::Version(version)),
            None => Err(DecodeError::Damaged),
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn number(&mut self) -> Option<u64> {
        varint::read(self.bytes, &mut self.at)
    }

    fn signed(&mut self) -> Option<i64> {
        varint::read_signed(self.bytes, &mut self.at)
    }

    fn time(&mut self) -> Option<i64> {
        i64::try_from(self.number()?).ok().filter(|time_ms| *time_ms <= MAX_TIME_MS)
    }

    fn permits(&mut self) -> Option<u64> {
        self.number().filter(|permits| *permits <= MAX_IN_USE)
    }

    fn cutoff(&mut self) -> Option<i64> {
        self.signed().filter(|cutoff_ms| (-MAX_TIME_MS..=MAX_TIME_MS).contains(cutoff_ms))
    }

    /// A rule that a limiter can be under: its limit is above 0.
    fn stored_rule(&mut self, tag: u8) -> Option<Rule> {
        self.rule(tag).filter(|rule| rule.limit() > 0)
    }

    fn rule(&mut self, tag: u8) -> Option<Rule> {
        let window_ms = i64::try_from(self.number()?).ok()?;
        let limit = self.number()?;
        let mut shape = Shape::default();
        let algorithm = match tag {
            SLIDING => Algorithm::Sliding,
            BUCKET => {
                // Without a limit there need not be a burst.
                shape.burst = Some(self.number()?).filter(|burst| *burst > 0 || limit > 0);
                Algorithm::Bucket
            }
            FIXED => {
                shape.offset_ms = Some(self.time()?);
                Algorithm::Fixed
            }
            COUNTER => Algorithm::Counter,
            CONCURRENCY => Algorithm::Concurrency,
            _ => return None,
        };
        Rule::new(algorithm, window_ms, limit, shape).ok()
    }

    /// The start of a window that is aligned as the rule says.
    fn start(&mut self, rule: &Rule) -> Option<i64> {
        let start_ms = self.cutoff()?;
        let aligned = (start_ms - rule.offset_ms()).rem_euclid(rule.window_ms()) == 0;
        aligned.then_some(start_ms)
    }

    fn fixed(&mut self, rule: &Rule) -> Option<Fixed> {
        let start_ms = self.start(rule)?;
        Some(Fixed { start_ms, used: self.permits()? })
    }

    fn counter(&mut self, rule: &Rule) -> Option<Counter> {
        let start_ms = self.start(rule)?;
        let (previous, current) = (self.permits()?, self.permits()?);
        let in_range = previous + current <= MAX_IN_USE;
        in_range.then_some(Counter { start_ms, previous, current })
    }

    fn bucket(&mut self, rule: &Rule) -> Option<Bucket> {
        let at_ms = self.time()?;
        let high = self.signed()?;
        let low = self.number().filter(|low| low >> 63 == 0)?;
        let deficit = i128::from(high) << 63 | i128::from(low);
        let least = 1 - i128::from(rule.limit());
        let in_range = (least..=max_deficit(rule.window_ms())).contains(&deficit);
        in_range.then(|| Bucket::new(at_ms, deficit))
    }

    fn holds(&mut self) -> Option<Holds> {
        let (blocked_until_ms, exempt_until_ms) = (self.time()?, self.time()?);
        let mut holds = Holds { blocked_until_ms, exempt_until_ms, laid_ms: 0 };
        if holds.end_ms() > 0 {
            holds.laid_ms = self.time()?;
        }
        Some(holds)
    }

    fn limiter(&mut self) -> Option<Limiter> {
        let tag = self.byte()?;
        let rule = match tag {
            UNUSED => None,
            tag => Some(self.stored_rule(tag)?),
        };
        let state = match &rule {
            None => State::Unused,
            Some(rule) => self.state(rule)?,
        };
        Some(Limiter::new(rule.as_ref(), state, self.holds()?))
    }

    fn state(&mut self, rule: &Rule) -> Option<State> {
        Some(match rule.algorithm() {
            Algorithm::Bucket => State::Bucket(self.bucket(rule)?),
            Algorithm::Sliding => State::Sliding(Log::decode(self.bytes, &mut self.at)?),
            Algorithm::Fixed => State::Fixed(self.fixed(rule)?),
            Algorithm::Counter => State::Counter(StoredCounter::new(self.counter(rule)?)),
            Algorithm::Concurrency => State::Concurrency(Leases::decode(self.bytes, &mut self.at)?),
        })
    }

    fn effect(&mut self, parts: u8) -> Option<Effect> {
        if parts & !(HAS_WRITE | HAS_HOLDS | HAS_EXPIRY | START_OVER) != 0 {
            return None;
        }
        let has = |part| parts & part != 0;
        let mut effect = Effect::default();
        if has(HAS_WRITE) {
            let tag = self.byte()?;
            let rule = self.stored_rule(tag)?;
            let change = match rule.algorithm() {
                Algorithm::Bucket => Change::Bucket(self.bucket(&rule)?),
                Algorithm::Sliding => Change::Log(self.log_change()?),
                Algorithm::Fixed => Change::Fixed(self.fixed(&rule)?),
                Algorithm::Counter => Change::Counter(self.counter(&rule)?),
                Algorithm::Concurrency => Change::Lease(self.lease_change()?),
            };
            effect.write = Some(Write { rule, start_over: has(START_OVER), change });
        }
        if has(HAS_HOLDS) {
            effect.holds = Some(self.holds()?);
        }
        if has(HAS_EXPIRY) {
            effect.expire_at_ms = Some(self.time()?);
        }
        Some(effect)
    }

    fn entry(&mut self) -> Option<(Vec<u8>, Entry)> {
        let len =
            usize::try_from(self.number()?).ok().filter(|len| (1..=MAX_NAME).contains(len))?;
        let name = self.bytes.get(self.at..self.at + len)?;
        let name = Some(name).filter(|name| name.iter().all(is_in_name))?.to_vec();
        self.at += len;
        let mut entry = Entry::default();
        if self.flag()? {
            entry.standing = Some(self.policy()?);
        }
        for _ in 0..self.number()? {
            let temporary = (self.policy()?, self.time()?);
            let in_order = entry.temporary.last().is_none_or(|under| temporary.1 < under.1);
            entry.temporary.push(Some(temporary).filter(|_| in_order)?);
        }
        Some((name, entry))
    }

    fn policy(&mut self) -> Option<Policy> {
        let tag = self.byte()?;
        let rule = self.rule(tag)?;
        let block_ms = self.time()?;
        Some(Policy { rule, block_ms, shadow: self.flag()? })
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().filter(|flag| *flag <= 1).map(|flag| flag == 1)
    }

    fn lease_change(&mut self) -> Option<LeaseChange> {
        Some(match self.byte()? {
            LEASE_PUT => {
                let now_ms = self.time()?;
                let (id, lease) = decode_lease(self.bytes, &mut self.at)?;
                LeaseChange::Put { now_ms, id: id.into(), lease, carried: self.permits()? }
            }
            LEASE_END => {
                let now_ms = self.time()?;
                LeaseChange::End { now_ms, id: decode_id(self.bytes, &mut self.at)?.into() }
            }
            LEASE_PULL_BACK => LeaseChange::PullBack { now_ms: self.time()? },
            _ => return None,
        })
    }

    fn log_change(&mut self) -> Option<LogChange> {
        let tag = self.byte()?;
        let (now_ms, permits) = (self.time()?, self.permits()?);
        let step = match tag {
            LOG_ADD => {
                let at_ms = now_ms.checked_add(self.signed()?);
                let at_ms = at_ms.filter(|at_ms| (0..=MAX_TIME_MS).contains(at_ms))?;
                LogStep::Add { at_ms, permits }
            }
            LOG_GIVE_BACK => LogStep::GiveBack(permits),
            LOG_GIVE_BACK_NEWEST => LogStep::GiveBackNewest(permits),
            LOG_PULL_BACK => LogStep::PullBack,
            _ => return None,
        };
        Some(LogChange { now_ms, step })
    }
}
