//! The list of the algorithms, and everything that is made from it: each enum gets one variant for
//! each algorithm. No other file lists them all.

use super::bucket::Bucket;
use super::counter::StoredCounter;
use super::fixed::Fixed;
use super::leases::Leases;
use super::log::Log;
use super::scheme::{Heap, Level, Moment, Scheme};
use crate::numbers::{Numbers, Own};
use crate::packed::PackedNumbers;
use crate::stored::reader::Reader;
use crate::stored::varint::Sink;

/// Work on the scheme of a [`State`]. It is written once and compiled for each algorithm, so that
/// a level stays in registers.
pub(crate) trait Visit {
    /// The result of the work.
    type Output;

    /// Does the work.
    fn visit<S: Scheme>(self, scheme: &mut S) -> Self::Output;
}

macro_rules! algorithms {
    ($($(#[$doc:meta])* $Name:ident($Scheme:ty),)*) => {
        /// How a limiter counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Algorithm {
            $($(#[$doc])* $Name,)*
        }

        impl Algorithm {
            /// All of them.
            pub const ALL: &[Algorithm] = &[$(Algorithm::$Name),*];

            /// The word that stands for it in commands and replies.
            pub const fn word(self) -> &'static str {
                match self { $(Algorithm::$Name => <$Scheme>::WORD,)* }
            }

            /// A second word for it, with the own number that the word implies.
            pub const fn alias(self) -> Option<(&'static str, u64)> {
                match self { $(Algorithm::$Name => <$Scheme>::ALIAS,)* }
            }

            /// The number that its rules have besides window and limit.
            pub const fn own(self) -> Own {
                match self { $(Algorithm::$Name => <$Scheme>::OWN,)* }
            }

            /// Whether permits are leased: held under a name until they are released or a window
            /// has passed. Otherwise they are spent, and come back with time.
            pub const fn is_leased(self) -> bool {
                match self { $(Algorithm::$Name => <$Scheme>::IS_LEASED,)* }
            }

            /// Whether a call can take permits now that come due later.
            pub const fn can_reserve(self) -> bool {
                match self { $(Algorithm::$Name => <$Scheme>::CAN_RESERVE,)* }
            }

            /// Whether permits take memory besides the limiter itself.
            pub(crate) const fn allocates(self) -> bool {
                match self { $(Algorithm::$Name => <$Scheme>::ALLOCATES,)* }
            }

            /// The byte that stands for it in stored bytes.
            pub(crate) const fn tag(self) -> u8 {
                match self { $(Algorithm::$Name => <$Scheme>::TAG,)* }
            }

            pub(crate) fn of_tag(tag: u8) -> Option<Algorithm> {
                Algorithm::ALL.iter().copied().find(|algorithm| algorithm.tag() == tag)
            }

            /// The largest number of permits that can be free; 0 if the limit is 0.
            #[inline(always)]
            pub(crate) fn capacity(self, window_ms: i64, limit: u64, own: u64) -> u64 {
                if limit == 0 {
                    return 0;
                }
                match self {
                    $(Algorithm::$Name => <$Scheme>::capacity(window_ms, limit, own),)*
                }
            }
        }

        /// The algorithm's part of a limiter.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub enum State {
            /// Nothing was ever granted: the limiter has at most a block and an exemption.
            #[default]
            Unused,
            $($(#[$doc])* $Name($Scheme),)*
        }

        // The methods do what those of the same name in `Scheme` do.
        impl State {
            /// The algorithm; `None` if nothing was ever granted.
            #[inline(always)]
            pub fn algorithm(&self) -> Option<Algorithm> {
                match self {
                    State::Unused => None,
                    $(State::$Name(_) => Some(Algorithm::$Name),)*
                }
            }

            #[inline(always)]
            pub(crate) fn visit<V: Visit>(&mut self, visitor: V) -> Option<V::Output> {
                match self {
                    State::Unused => None,
                    $(State::$Name(scheme) => Some(visitor.visit(scheme)),)*
                }
            }

            #[inline(always)]
            pub(crate) fn at<'a>(&'a self, moment: &Moment<'a>) -> Option<AnyLevel<'a>> {
                match self {
                    State::Unused => None,
                    $(State::$Name(scheme) => Some(AnyLevel::$Name(scheme.at(moment))),)*
                }
            }

            /// Also `None` if another algorithm is asked.
            pub(crate) fn at_other_rule<'a>(
                &'a self,
                written: &PackedNumbers,
                asked: Algorithm,
                moment: &Moment<'a>,
            ) -> Option<AnyLevel<'a>> {
                match (self, asked) {
                    $((State::$Name(scheme), Algorithm::$Name) => {
                        scheme.at_other_rule(written, moment).map(AnyLevel::$Name)
                    })*
                    _ => None,
                }
            }

            pub(crate) fn void_at(&self, written: &PackedNumbers) -> i64 {
                match self {
                    State::Unused => 0,
                    $(State::$Name(scheme) => Scheme::void_at(scheme, written),)*
                }
            }

            #[inline(always)]
            pub(crate) fn is_void_before(&self, written: &PackedNumbers, time_ms: i64) -> bool {
                match self {
                    State::Unused => time_ms > 0,
                    $(State::$Name(scheme) => scheme.is_void_before(written, time_ms),)*
                }
            }

            #[inline(always)]
            pub(crate) fn pull_back(&self, written: &PackedNumbers, now_ms: i64) -> Option<Change> {
                match self {
                    State::Unused => None,
                    $(State::$Name(scheme) => {
                        scheme.pull_back(written, now_ms).map(Change::$Name)
                    })*
                }
            }

            pub(crate) fn lease_end_ms(&self, id: &[u8], now_ms: i64) -> Option<i64> {
                match self {
                    State::Unused => None,
                    $(State::$Name(scheme) => scheme.lease_end_ms(id, now_ms),)*
                }
            }

            pub(crate) fn release(&self, id: &[u8], now_ms: i64) -> Option<(Change, i64)> {
                match self {
                    State::Unused => None,
                    $(State::$Name(scheme) => {
                        let (change, void_at_ms) = scheme.release(id, now_ms)?;
                        Some((Change::$Name(change), void_at_ms))
                    })*
                }
            }

            /// A change of another algorithm starts from an empty state.
            pub(crate) fn apply(&mut self, change: &Change, window_ms: i64) {
                match (&mut *self, change) {
                    $((State::$Name(scheme), Change::$Name(change)) => {
                        Scheme::apply(scheme, change, window_ms);
                    })*
                    $((_, Change::$Name(change)) => {
                        let mut scheme = <$Scheme>::default();
                        Scheme::apply(&mut scheme, change, window_ms);
                        *self = State::$Name(scheme);
                    })*
                }
            }

            pub(crate) fn taken_one(&self, now_ms: i64) -> Option<Change> {
                match self {
                    State::Unused => None,
                    $(State::$Name(scheme) => scheme.taken_one(now_ms).map(Change::$Name),)*
                }
            }

            pub(crate) fn entries(&self, written: &PackedNumbers, now_ms: i64) -> u64 {
                match self {
                    State::Unused => 0,
                    $(State::$Name(scheme) => Scheme::entries(scheme, written, now_ms),)*
                }
            }

            pub(crate) fn heap(&self) -> Heap {
                match self {
                    State::Unused => Heap::default(),
                    $(State::$Name(scheme) => scheme.heap(),)*
                }
            }

            /// Calls `each` with one allocation after the other, from number `from` on, until
            /// `each` returns false. Returns whether it never did.
            pub(crate) fn each_part(
                &mut self,
                from: usize,
                each: impl FnMut(&mut Box<[u8]>) -> bool,
            ) -> bool {
                match self {
                    State::Unused => true,
                    $(State::$Name(scheme) => Scheme::parts_mut(scheme, from).all(each),)*
                }
            }

            pub(crate) fn encode(&self, out: &mut impl Sink) {
                match self {
                    State::Unused => {}
                    $(State::$Name(scheme) => Scheme::encode(scheme, out),)*
                }
            }

            pub(crate) fn decode(
                algorithm: Algorithm,
                numbers: &Numbers,
                reader: &mut Reader<'_>,
            ) -> Option<State> {
                match algorithm {
                    $(Algorithm::$Name => {
                        <$Scheme as Scheme>::decode(reader, numbers).map(State::$Name)
                    })*
                }
            }
        }

        /// A change of the algorithm's part of a limiter, in the form that replicas get.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Change {
            $($(#[$doc])* $Name(<$Scheme as Scheme>::Change),)*
        }

        impl Change {
            #[inline]
            pub(crate) fn encode(&self, out: &mut impl Sink) {
                match self {
                    $(Change::$Name(change) => <$Scheme>::encode_change(change, out),)*
                }
            }

            pub(crate) fn decode(
                algorithm: Algorithm,
                numbers: &Numbers,
                reader: &mut Reader<'_>,
            ) -> Option<Change> {
                match algorithm {
                    $(Algorithm::$Name => {
                        <$Scheme>::decode_change(reader, numbers).map(Change::$Name)
                    })*
                }
            }
        }

        /// A level of any algorithm, for code that learns only at run time which one it is.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum AnyLevel<'a> {
            $($Name(<$Scheme as Scheme>::Level<'a>),)*
        }

        // The methods do what those of the same name in `Level` do.
        impl<'a> AnyLevel<'a> {
            pub fn fresh(algorithm: Algorithm, moment: &Moment<'a>, used: u64) -> AnyLevel<'a> {
                match algorithm {
                    $(Algorithm::$Name => AnyLevel::$Name(<$Scheme>::fresh(moment, used)),)*
                }
            }

            #[inline(always)]
            pub fn in_use(&self, moment: &Moment<'_>) -> u64 {
                match self { $(AnyLevel::$Name(level) => level.in_use(moment),)* }
            }

            #[inline(always)]
            pub fn renewable(&self) -> u64 {
                match self { $(AnyLevel::$Name(level) => level.renewable(),)* }
            }

            pub fn earliest(&self, moment: &Moment<'_>, at_most: u64) -> i64 {
                match self { $(AnyLevel::$Name(level) => level.earliest(moment, at_most),)* }
            }

            #[inline(always)]
            pub fn take(&mut self, moment: &Moment<'_>, permits: u64) -> bool {
                match self { $(AnyLevel::$Name(level) => level.take(moment, permits),)* }
            }

            #[inline(always)]
            pub fn full_at(&self, moment: &Moment<'_>) -> i64 {
                match self { $(AnyLevel::$Name(level) => level.full_at(moment),)* }
            }

            pub fn void_after(&self, moment: &Moment<'_>, full_at_ms: i64) -> i64 {
                match self {
                    $(AnyLevel::$Name(level) => level.void_after(moment, full_at_ms),)*
                }
            }

            pub fn grows(&self, moment: &Moment<'_>) -> bool {
                match self { $(AnyLevel::$Name(level) => level.grows(moment),)* }
            }

            pub fn change(&self, moment: &Moment<'_>) -> Change {
                match self { $(AnyLevel::$Name(level) => Change::$Name(level.change(moment)),)* }
            }

            pub fn give_back(&self, moment: &Moment<'_>, permits: u64) -> Option<(Change, i64)> {
                match self {
                    $(AnyLevel::$Name(level) => {
                        let (change, void_at_ms) = level.give_back(moment, permits)?;
                        Some((Change::$Name(change), void_at_ms))
                    })*
                }
            }
        }
    };
}

algorithms! {
    /// Sliding window log, exact: see [`super::sliding`].
    Sliding(Log),
    /// Token bucket: see [`super::bucket`].
    Bucket(Bucket),
    /// Fixed window: see [`super::fixed`].
    Fixed(Fixed),
    /// Sliding window counter: see [`super::counter`].
    Counter(StoredCounter),
    /// Permits that are held rather than spent: see [`super::concurrency`].
    Concurrency(Leases),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_algorithm_has_a_tag_of_its_own() {
        for algorithm in Algorithm::ALL {
            assert_ne!(algorithm.tag(), 0);
            assert_eq!(Algorithm::of_tag(algorithm.tag()), Some(*algorithm));
        }
        assert_eq!(Algorithm::of_tag(0), None);
    }
}
