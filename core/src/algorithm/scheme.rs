//! What an algorithm is.
//!
//! The decision is the same for every algorithm: `n` permits fit when `in_use + n <= capacity`. A
//! [`Scheme`] is what an algorithm stores, a [`Level`] is that at one moment under one rule. No method
//! has a default: one that was forgotten must not compile.

use std::fmt::Debug;

use crate::numbers::{Numbers, Own};
use crate::packed::PackedNumbers;
use crate::stored::reader::Reader;
use crate::stored::varint::Sink;

/// When a limiter is looked at, by whom, and under which numbers.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Of the rule asked. Its limit is above 0.
    pub numbers: &'a Numbers,
    /// The clock, in ms of epoch time; not before any time that is stored.
    pub now_ms: i64,
    /// Above how many entries a sliding log rounds.
    pub resolution: u32,
    /// The lease that asks.
    pub id: Option<&'a [u8]>,
}

/// Memory besides the limiter itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// How many bytes.
    pub bytes: usize,
    /// In how many allocations, at most.
    pub allocations: usize,
}

/// What an algorithm stores. The default is what nothing was ever taken from.
pub trait Scheme: Clone + Debug + Default + PartialEq {
    /// The word after `ALGO`, in lower case.
    const WORD: &'static str;
    /// Another word, which stands for the algorithm with this number of its own.
    const ALIAS: Option<(&'static str, u64)>;
    /// What stands for the algorithm in stored bytes: never 0, and never changed.
    const TAG: u8;
    /// The number that its rules have besides window and limit.
    const OWN: Own;
    /// Whether permits are leased: held under a name until they are released or a window is over. Else
    /// they are spent, and come back with time.
    const IS_LEASED: bool;
    /// Whether permits that come due later can be taken now.
    const CAN_RESERVE: bool;
    /// Whether permits take memory besides the limiter itself.
    const ALLOCATES: bool;

    /// What a replica is told.
    type Change: Clone + Debug + PartialEq;
    /// What takes permits in place, from the scheme that the level was made of.
    type Step;
    /// See [`Level`].
    type Level<'a>: Level<Self>;

    /// The most permits that can ever be free under numbers whose limit is above 0.
    fn capacity(window_ms: i64, limit: u64, own: u64) -> u64;

    /// The level of a limiter of which `used` permits were taken just now.
    fn fresh<'a>(moment: &Moment<'a>, used: u64) -> Self::Level<'a>;

    /// The level under the rule that wrote what is stored.
    fn at<'a>(&'a self, moment: &Moment<'a>) -> Self::Level<'a>;

    /// The level under another rule of this algorithm than the one with these numbers, which wrote
    /// what is stored. `None` when only the number of permits in use can be carried over.
    fn at_other_rule<'a>(
        &'a self,
        written: &PackedNumbers,
        moment: &Moment<'a>,
    ) -> Option<Self::Level<'a>>;

    /// When it is as if nothing had ever been taken, in ms of epoch time.
    fn void_at(&self, written: &PackedNumbers) -> i64;

    /// Whether that is before a time. Asked on each grant, so without a division where possible.
    fn is_void_before(&self, written: &PackedNumbers, time_ms: i64) -> bool;

    /// What makes it right if it is ahead of the clock, because the clock stepped back; `None` when it
    /// is not ahead.
    fn pull_back(&self, written: &PackedNumbers, now_ms: i64) -> Option<Self::Change>;

    /// Until when the lease of that name is held; `None` when there is none, or none lives.
    fn lease_end_ms(&self, id: &[u8], now_ms: i64) -> Option<i64>;

    /// What ends the lease of that name, which lives, and when all is void then.
    fn release(&self, id: &[u8], now_ms: i64) -> Option<(Self::Change, i64)>;

    /// Applies a change that was decided under a rule of this window. Total: any change leaves
    /// anything stored in a valid state.
    fn apply(&mut self, change: &Self::Change, window_ms: i64);

    /// Takes the step of a [`Level`] of this scheme.
    fn apply_step(&mut self, step: Self::Step);

    /// What a replica is told of a step that was just taken for one permit. `None` for leases, whose
    /// steps name them.
    fn taken_one(&self, now_ms: i64) -> Option<Self::Change>;

    /// Entries of a log, or leases, that count; 0 where there is no such thing.
    fn entries(&self, written: &PackedNumbers, now_ms: i64) -> u64;

    /// What is allocated besides the limiter itself.
    fn heap(&self) -> Heap;

    /// The allocations that can be moved, from one of them on, for a caller that relocates them.
    fn parts_mut(&mut self, from: usize) -> impl Iterator<Item = &mut Box<[u8]>>;

    /// Appends the stored form. The rule is stored apart.
    fn encode(&self, out: &mut impl Sink);

    /// Reads the stored form. `None` when it breaks an invariant.
    fn decode(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<Self>;

    /// Appends a change.
    fn encode_change(change: &Self::Change, out: &mut impl Sink);

    /// Reads a change. `None` when it breaks an invariant.
    fn decode_change(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<Self::Change>;
}

/// A scheme at one moment under one rule. Each method gets the moment that the level was made for.
/// Times are in ms of epoch time, and may saturate.
pub trait Level<S: Scheme>: Copy + Debug {
    /// Permits in use, rounded up.
    fn in_use(&self, moment: &Moment<'_>) -> u64;

    /// Permits in use of the lease that asks: they are in nobody's way, as it would be renewed, and
    /// its holder may keep them whatever others hold.
    fn renewable(&self) -> u64;

    /// The first time from now on at which at most `at_most` permits are in use, those of the lease
    /// that asks left out. There are more now.
    fn earliest(&self, moment: &Moment<'_>, at_most: u64) -> i64;

    /// Takes permits, whether or not they fit. Says whether there is anything to write: there are no
    /// leases of no permits.
    fn take(&mut self, moment: &Moment<'_>, permits: u64) -> bool;

    /// When nothing will be in use any more; may be in the past.
    fn full_at(&self, moment: &Moment<'_>) -> i64;

    /// When what is stored then will be void, for a level that is full at `full_at_ms`.
    fn void_after(&self, moment: &Moment<'_>, full_at_ms: i64) -> i64;

    /// Whether storing it takes more memory than the scheme has. What has left makes room.
    fn grows(&self, moment: &Moment<'_>) -> bool;

    /// What stores it in place.
    fn step(self, moment: &Moment<'_>) -> S::Step;

    /// What stores it, for those who have only heard of the scheme.
    fn change(&self, moment: &Moment<'_>) -> S::Change;

    /// What gives back permits, no more than are in use, and when all is void then. `None` for leases,
    /// which are released instead.
    fn give_back(&self, moment: &Moment<'_>, permits: u64) -> Option<(S::Change, i64)>;
}
