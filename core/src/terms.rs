//! What is asked: of one limiter, and of all limiters of a call alike.

use crate::algorithm::sliding::DEFAULT_RESOLUTION;
use crate::rule::Rule;

/// What is asked of one limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The rule to judge by.
    pub rule: Rule,
    /// Permits that one acquisition takes.
    pub cost: u64,
    /// For how long the limiter goes on denying once it lacks room, in ms; 0: only while it does.
    pub block_ms: i64,
    /// Only see whether there is room, and never be in anyone's way.
    pub shadow: bool,
}

/// What is asked of all limiters of a call alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms<'a> {
    /// The server's clock, read once for the call, in ms of epoch time.
    pub now_ms: i64,
    /// Above how many entries a sliding log rounds: see [`crate::algorithm::sliding`].
    pub resolution: u32,
    /// As many acquisitions as all limiters allow, up to this number; at least 1.
    pub upto: u64,
    /// Take now what comes due within so many ms. For buckets.
    pub reserve_ms: i64,
    /// Deduct whatever the check says.
    pub force: bool,
    /// The name of the lease, for concurrency limiters.
    pub id: Option<&'a [u8]>,
    /// Only renew: take nothing where a lease of that name has lapsed.
    pub only_renew: bool,
}

impl Terms<'_> {
    /// Whether one acquisition is asked for and nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        self.upto == 1 && self.reserve_ms == 0 && !self.force && self.id.is_none()
    }
}

impl Default for Terms<'_> {
    /// One plain acquisition, with the time left to fill in.
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
