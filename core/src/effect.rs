//! The effect of a call on one limiter: a result with absolute times, never the request.
//!
//! The primary applies an effect and sends it on. A replica or an AOF replay applies the same
//! effect and never looks at a clock. The size of an effect depends on neither the limiter's
//! history nor the number of permits.

use crate::algorithm::Change;
use crate::laid::Laid;
use crate::rule::Rule;

/// A change of the permits in use, and the rule under which it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The rule that the limiter is under from now on.
    pub rule: Rule,
    /// Forget the stored state first: it was void, or its permits are part of the change.
    pub start_over: bool,
    /// The change.
    pub change: Change,
}

/// A change of a limiter. Parts that are `None` leave theirs unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effect {
    /// The permits in use.
    pub write: Option<Write>,
    /// The block and the exemption.
    pub laid: Option<Laid>,
    /// When the key expires, in ms of epoch time.
    pub expire_at_ms: Option<i64>,
}
