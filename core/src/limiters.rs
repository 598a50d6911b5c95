//! The limiters of a call, wherever they are, and the listener that hears the decision.

use crate::decision::Decision;
use crate::effect::Effect;
use crate::limiter::Limiter;
use crate::part::Part;
use crate::terms::Ask;

/// The largest number of limiters for which a call allocates nothing.
pub const FEW: usize = 8;

/// What happened to a limiter from which one permit was taken in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The new TTL, in ms of epoch time; `None` if the present one reaches far enough.
    pub expire_at_ms: Option<i64>,
}

/// The limiters of a call and the requests to them, each at a place from 0 on. There is at least
/// one.
pub trait Limiters {
    /// The number of limiters.
    fn count(&self) -> usize;

    /// The limiter at a place; `None` if there is none yet.
    fn get(&self, place: usize) -> Option<&Limiter>;

    /// The request to the limiter at a place; `None` beyond the last.
    fn ask(&self, place: usize) -> Option<&Ask>;

    /// The limiter and the request, for taking permits in place. `None` if there is no limiter
    /// yet.
    fn asked(&mut self, place: usize) -> Option<(&mut Limiter, &Ask)>;

    /// Notes that one permit was taken in place from the limiter that [`Limiters::asked`]
    /// returned.
    fn taken(&mut self, place: usize, taken: Taken);

    /// Applies an effect to the limiter at a place. Creates the limiter if there is none.
    fn apply(&mut self, place: usize, effect: &Effect);

    /// Whether limiters may take more memory. Only a call that needs more asks this.
    fn may_grow(&self) -> bool;
}

/// A listener that hears how a call is decided, before anything is written.
pub trait Observer {
    /// Whether it wants the answer of each limiter. The short way does not compute those.
    fn wants_answers(&self) -> bool;

    /// The limiter at `place` denies a plain call. Does not count if [`Observer::decided`] follows,
    /// because then the call was not plain.
    fn denied_by(&mut self, place: usize);

    /// A call that is not plain is decided.
    fn decided(&mut self, decision: &Decision, parts: &[Part<'_>]);
}

/// A listener that ignores everything.
impl Observer for () {
    fn wants_answers(&self) -> bool {
        false
    }

    fn denied_by(&mut self, _: usize) {}

    fn decided(&mut self, _: &Decision, _: &[Part<'_>]) {}
}
