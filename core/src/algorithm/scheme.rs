//! The two traits that make an algorithm.
//!
//! The decision is the same for every algorithm: `n` permits fit when `in_use + n <= capacity`. A
//! [`Scheme`] is what an algorithm stores. A [`Level`] is that state at one moment, under one
//! rule. No method has a default, so that a forgotten one does not compile.

use std::fmt::Debug;

use crate::numbers::{Numbers, Own};
use crate::packed::PackedNumbers;
use crate::stored::reader::Reader;
use crate::stored::varint::Sink;

/// The circumstances of a look at a limiter: the rule, the time and the caller.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Numbers of the rule that is asked. Its limit is above 0.
    pub numbers: &'a Numbers,
    /// The clock, in ms of epoch time. No stored time is later.
    pub now_ms: i64,
    /// The number of entries above which a sliding log rounds its times.
    pub resolution: u32,
    /// The name of the lease that asks.
    pub id: Option<&'a [u8]>,
}

/// Memory allocated besides the limiter itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// Bytes.
    pub bytes: usize,
    /// The most allocations that these bytes can be in.
    pub allocations: usize,
}

/// The stored state of an algorithm. The default is a state from which nothing was ever taken.
pub trait Scheme: Clone + Debug + Default + PartialEq {
    /// The word after `ALGO`, in lower case.
    const WORD: &'static str;
    /// A second word for the algorithm, with the own number that it implies.
    const ALIAS: Option<(&'static str, u64)>;
    /// The byte that stands for the algorithm in stored bytes. It is never 0, and never changes.
    const TAG: u8;
    /// The number that rules of this algorithm have besides window and limit.
    const OWN: Own;
    /// Whether permits are leased: held under a name until they are released or a window has
    /// passed. Otherwise they are spent, and come back with time.
    const IS_LEASED: bool;
    /// Whether a call can take permits now that come due later.
    const CAN_RESERVE: bool;
    /// Whether permits take memory besides the limiter itself.
    const ALLOCATES: bool;

    /// The change that replicas apply.
    type Change: Clone + Debug + PartialEq;
    /// The change that this server applies in place, to the very scheme that the level was made
    /// from.
    type Step;
    /// See [`Level`].
    type Level<'a>: Level<Self>;

    /// The largest number of permits that can be free under these numbers. The limit is above 0.
    fn capacity(window_ms: i64, limit: u64, own: u64) -> u64;

    /// The level of a new limiter, as if `used` permits had just been taken from it.
    fn fresh<'a>(moment: &Moment<'a>, used: u64) -> Self::Level<'a>;

    /// The level under the rule that wrote the stored state.
    fn at<'a>(&'a self, moment: &Moment<'a>) -> Self::Level<'a>;

    /// The level under another rule of this algorithm. `written` are the numbers of the rule that
    /// wrote the stored state. `None` if only the number of permits in use can be carried over.
    fn at_other_rule<'a>(
        &'a self,
        written: &PackedNumbers,
        moment: &Moment<'a>,
    ) -> Option<Self::Level<'a>>;

    /// When the state becomes void: as if nothing had ever been taken. In ms of epoch time.
    fn void_at(&self, written: &PackedNumbers) -> i64;

    /// Whether the state becomes void before `time_ms`. Every grant asks this, so implementations
    /// avoid a division where they can.
    fn is_void_before(&self, written: &PackedNumbers, time_ms: i64) -> bool;

    /// The change that moves times ahead of the clock back to it. They are ahead if the clock
    /// stepped back. `None` if no time is ahead.
    fn pull_back(&self, written: &PackedNumbers, now_ms: i64) -> Option<Self::Change>;

    /// When the lease named `id` ends. `None` if there is no such lease, or if it has ended.
    fn lease_end_ms(&self, id: &[u8], now_ms: i64) -> Option<i64>;

    /// The change that ends the live lease named `id`, and when the state is void after it. `None`
    /// if there is no such lease, or if it has ended.
    fn release(&self, id: &[u8], now_ms: i64) -> Option<(Self::Change, i64)>;

    /// Applies a change that was decided under a rule with this window. Total: any change leaves
    /// any state valid.
    fn apply(&mut self, change: &Self::Change, window_ms: i64);

    /// Applies a [`Level::step`] of a level that was made from this scheme.
    fn apply_step(&mut self, step: Self::Step);

    /// The change that tells replicas about a step that has just taken one permit. `None` for
    /// leases, whose steps need the lease's name.
    fn taken_one(&self, now_ms: i64) -> Option<Self::Change>;

    /// The number of log entries or leases that count; 0 for algorithms that have neither.
    fn entries(&self, written: &PackedNumbers, now_ms: i64) -> u64;

    /// Memory allocated besides the limiter itself.
    fn heap(&self) -> Heap;

    /// The allocations that a caller can relocate, from number `from` on.
    fn parts_mut(&mut self, from: usize) -> impl Iterator<Item = &mut Box<[u8]>>;

    /// Appends the stored form of the state. The rule is stored separately.
    fn encode(&self, out: &mut impl Sink);

    /// Reads the stored form. `None` if it breaks an invariant.
    fn decode(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<Self>;

    /// Appends the form in which a change travels.
    fn encode_change(change: &Self::Change, out: &mut impl Sink);

    /// Reads a change. `None` if it breaks an invariant.
    fn decode_change(reader: &mut Reader<'_>, numbers: &Numbers) -> Option<Self::Change>;
}

/// A scheme at one moment under one rule. Each method gets the moment for which the level was
/// made. Times are in ms of epoch time, and may saturate.
pub trait Level<S: Scheme>: Copy + Debug {
    /// Permits in use, rounded up.
    fn in_use(&self, moment: &Moment<'_>) -> u64;

    /// Permits in use by the lease that asks. They never stand in the way of its renewal: the
    /// holder may keep them whatever others hold.
    fn renewable(&self) -> u64;

    /// The earliest time at which at most `at_most` permits are in use, not counting the permits
    /// of the lease that asks. The caller knows that more are in use now.
    fn earliest(&self, moment: &Moment<'_>, at_most: u64) -> i64;

    /// Takes permits, whether or not they fit. Returns whether there is anything to write: a lease
    /// without permits does not exist.
    fn take(&mut self, moment: &Moment<'_>, permits: u64) -> bool;

    /// When the last permit is no longer in use. May be in the past.
    fn full_at(&self, moment: &Moment<'_>) -> i64;

    /// When the stored state becomes void, for a level that is full at `full_at_ms`.
    fn void_after(&self, moment: &Moment<'_>, full_at_ms: i64) -> i64;

    /// Whether storing the level takes more memory than the scheme already has. Permits that are
    /// no longer in use make room.
    fn grows(&self, moment: &Moment<'_>) -> bool;

    /// The step that stores the level in place.
    fn step(self, moment: &Moment<'_>) -> S::Step;

    /// The change that stores the level on a replica.
    fn change(&self, moment: &Moment<'_>) -> S::Change;

    /// The change that gives permits back, at most those in use, and when the state is void after
    /// it. `None` for leases, which are released instead.
    fn give_back(&self, moment: &Moment<'_>, permits: u64) -> Option<(S::Change, i64)>;
}
