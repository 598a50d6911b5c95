//! The request: what a call asks of one limiter, and what it asks of all of them.

use crate::algorithm::sliding::DEFAULT_RESOLUTION;
use crate::rule::Rule;

/// The request to one limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The rule to judge by.
    pub rule: Rule,
    /// Permits that one acquisition takes.
    pub cost: u64,
    /// How long a block lasts that starts when the limiter lacks room, in ms; 0 for no block.
    pub block_ms: i64,
    /// Whether the limiter only watches: it counts, but denies nothing.
    pub shadow: bool,
}

/// What a call asks of all its limiters alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms<'a> {
    /// The server's clock, read once for the call, in ms of epoch time.
    pub now_ms: i64,
    /// The number of entries above which a sliding log rounds its times: see
    /// [`crate::algorithm::sliding`].
    pub resolution: u32,
    /// The most acquisitions to grant, at least 1. Fewer are granted if the limiters allow fewer.
    pub upto: u64,
    /// Take permits now that come due within this many ms. For algorithms that can reserve.
    pub reserve_ms: i64,
    /// Deduct even if the permits do not fit.
    pub force: bool,
    /// The name of the lease, for concurrency limiters.
    pub id: Option<&'a [u8]>,
    /// Only renew: take nothing if a lease of that name has lapsed.
    pub only_renew: bool,
}

impl Terms<'_> {
    /// Whether the call asks for one acquisition and nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        self.upto == 1 && self.reserve_ms == 0 && !self.force && self.id.is_none()
    }
}

impl Default for Terms<'_> {
    /// One plain acquisition. The caller fills in the time.
    fn default() -> Self {
        Terms {
            now_ms: 0,
            resolution: DEFAULT_RESOLUTION,
            upto: 1,
            reserve_ms: 0,
            force: false,
            id: None,
            only_renew: false,
        }
    }
}
