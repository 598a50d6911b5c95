//! The limiters of a call, wherever they are, and who wants to know how it is decided.

use crate::decision::Decision;
use crate::effect::Effect;
use crate::limiter::Limiter;
use crate::part::Part;
use crate::terms::Ask;

/// Up to this number of limiters a call allocates nothing.
pub const FEW: usize = 8;

/// A limiter that one permit was taken from in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Where the TTL must move to, in ms of epoch time; `None` when it reaches far enough.
    pub expire_at_ms: Option<i64>,
}

/// The limiters of a call, and what is asked of each, by their place from 0. There is at least one.
pub trait Limiters {
    /// How many there are.
    fn count(&self) -> usize;

    /// The limiter at a place, `None` when there is none yet.
    fn get(&self, place: usize) -> Option<&Limiter>;

    /// What is asked of it; `None` beyond the last.
    fn ask(&self, place: usize) -> Option<&Ask>;

    /// Both, to take permits in place; `None` when there is no limiter yet.
    fn asked(&mut self, place: usize) -> Option<(&mut Limiter, &Ask)>;

    /// One permit was taken in place from the limiter that [`Limiters::asked`] returned.
    fn taken(&mut self, place: usize, taken: Taken);

    /// Applies an effect to the limiter at a place, which begins to exist if need be.
    fn apply(&mut self, place: usize, effect: &Effect);

    /// Whether limiters may take more memory. Asked only where a call needs more.
    fn may_grow(&self) -> bool;
}

/// Who wants to know how a call is decided, before anything is written.
pub trait Told {
    /// Whether it wants the answer of each limiter, which the short way does not make.
    fn wants_answers(&self) -> bool;

    /// A plain call is denied, and this limiter denies it. Counts for nothing if [`Told::decided`]
    /// follows: the call was not plain.
    fn denied_by(&mut self, place: usize);

    /// A call that is not plain is decided.
    fn decided(&mut self, decision: &Decision, parts: &[Part<'_>]);
}

/// Nobody wants to know.
impl Told for () {
    fn wants_answers(&self) -> bool {
        false
    }

    fn denied_by(&mut self, _: usize) {}

    fn decided(&mut self, _: &Decision, _: &[Part<'_>]) {}
}
