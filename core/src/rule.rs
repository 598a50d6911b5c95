//! What a limiter is asked to enforce.
//!
//! A [`Rule`] can only be built by its checked constructor, so everything after it trusts the
//! ranges below. They are what keeps the arithmetic of the algorithms from overflowing: a bucket
//! holds at most `MAX_IN_USE * MAX_WINDOW_MS` credits, about 3.2e26, and converting it to another
//! window multiplies that by `MAX_WINDOW_MS` again, about 9.9e37, below the 1.7e38 of an `i128`.

use std::fmt;

/// Ten years, in milliseconds: the longest window.
pub const MAX_WINDOW_MS: i64 = 315_360_000_000;

/// The largest `LIMIT`, `BURST`, cost, and cost times batch, in permits.
pub const MAX_PERMITS: u64 = 1_000_000_000_000;

/// Where the permits in use of one limiter saturate (forced debt included), in permits.
pub const MAX_IN_USE: u64 = 1_000_000_000_000_000;

/// Where times and durations in replies, and expiries, saturate: 2^53-1, the largest integer that
/// every client language reads exactly, in milliseconds.
pub const MAX_TIME_MS: i64 = (1 << 53) - 1;

/// How a limiter counts. `leaky` has no variant of its own: it is a bucket whose burst is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Sliding window log, exact: see [`crate::sliding`].
    Sliding,
    /// Token bucket: see [`crate::bucket`].
    Bucket,
    /// Fixed window: see [`crate::fixed`].
    Fixed,
    /// Sliding window counter: see [`crate::counter`].
    Counter,
    /// Permits held, not spent: see [`crate::concurrency`].
    Concurrency,
}

impl Algorithm {
    /// The word that stands for the algorithm in commands and replies.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sliding => "sliding",
            Algorithm::Bucket => "bucket",
            Algorithm::Fixed => "fixed",
            Algorithm::Counter => "counter",
            Algorithm::Concurrency => "concurrency",
        }
    }
}

/// A number of a rule that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The window is not 1 ms to ten years.
    Window,
    /// The limit is above [`MAX_PERMITS`].
    Limit,
    /// The burst is not 1 to [`MAX_PERMITS`].
    Burst,
    /// A burst with an algorithm that has none.
    BurstUnsupported,
    /// The offset is not within ten years.
    Offset,
    /// An offset with an algorithm that has none.
    OffsetUnsupported,
}

impl std::error::Error for RuleError {}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Window => write!(f, "WINDOW must be 1 to {MAX_WINDOW_MS} ms"),
            RuleError::Limit => write!(f, "LIMIT must be 0 to {MAX_PERMITS}"),
            RuleError::Burst => write!(f, "BURST must be 1 to {MAX_PERMITS}"),
            RuleError::BurstUnsupported => write!(f, "BURST goes with ALGO bucket only"),
            RuleError::Offset => write!(f, "OFFSET must be -{MAX_WINDOW_MS} to {MAX_WINDOW_MS} ms"),
            RuleError::OffsetUnsupported => write!(f, "OFFSET goes with ALGO fixed only"),
        }
    }
}

/// The optional numbers of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// What a bucket holds, unless a millisecond brings more; by default the limit.
    pub burst: Option<u64>,
    /// Where fixed windows start, in ms from the epoch; by default 0.
    pub offset_ms: Option<i64>,
}

/// `LIMIT` permits per `WINDOW` under an algorithm: how many permits, how fast.
///
/// ```
/// use rl_core::rule::{Algorithm, Rule, Shape};
///
/// let burst = Shape { burst: Some(20), ..Shape::default() };
/// let rule = Rule::new(Algorithm::Bucket, 60_000, 100, burst).unwrap();
/// assert_eq!(rule.capacity(), 20);
/// assert!(Rule::new(Algorithm::Sliding, 60_000, 100, burst).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    algorithm: Algorithm,
    window_ms: i64,
    limit: u64,
    /// The burst of a bucket or the offset of a fixed window; 0 for others.
    shape: u64,
    capacity: u64,
}

impl Rule {
    /// Checks the numbers and builds the rule.
    ///
    /// # Errors
    /// The first number that is out of its range, or that the algorithm does not have.
    #[inline(always)]
    pub fn new(
        algorithm: Algorithm,
        window_ms: i64,
        limit: u64,
        shape: Shape,
    ) -> Result<Rule, RuleError> {
        if !(1..=MAX_WINDOW_MS).contains(&window_ms) {
            return Err(RuleError::Window);
        }
        if limit > MAX_PERMITS {
            return Err(RuleError::Limit);
        }
        match shape.burst {
            Some(_) if algorithm != Algorithm::Bucket => return Err(RuleError::BurstUnsupported),
            Some(burst) if !(1..=MAX_PERMITS).contains(&burst) => return Err(RuleError::Burst),
            _ => {}
        }
        match shape.offset_ms {
            Some(_) if algorithm != Algorithm::Fixed => return Err(RuleError::OffsetUnsupported),
            Some(offset_ms) if !(-MAX_WINDOW_MS..=MAX_WINDOW_MS).contains(&offset_ms) => {
                return Err(RuleError::Offset);
            }
            _ => {}
        }
        let burst = shape.burst.unwrap_or(limit);
        let capacity = match burst == limit {
            true => limit,
            false => bucket_capacity(window_ms, limit, burst),
        };
        let shape = match shape.offset_ms {
            Some(offset_ms) => offset_ms.rem_euclid(window_ms) as u64,
            None if algorithm == Algorithm::Bucket => burst,
            None => 0,
        };
        Ok(Rule { algorithm, window_ms, limit, shape, capacity })
    }

    /// How the rule counts.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The window, in milliseconds.
    pub fn window_ms(&self) -> i64 {
        self.window_ms
    }

    /// Permits per window.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// `BURST` as it was set; the limit for the other algorithms.
    pub fn burst(&self) -> u64 {
        if self.algorithm == Algorithm::Bucket { self.shape } else { self.limit }
    }

    /// Where fixed windows start: 0 to the window, in ms from the epoch.
    pub fn offset_ms(&self) -> i64 {
        if self.algorithm == Algorithm::Fixed { self.shape as i64 } else { 0 }
    }

    /// The burst of a bucket or the offset of a fixed window; 0 for others.
    pub(crate) fn shape(&self) -> u64 {
        self.shape
    }

    /// The most permits that a limiter under this rule can ever hold free: 0 when the limit is 0. A
    /// bucket holds what a millisecond brings, rounded up, even if its burst is less: there is no
    /// finer time in which to take it.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}

/// See [`Rule::capacity`].
fn bucket_capacity(window_ms: i64, limit: u64, burst: u64) -> u64 {
    if limit == 0 { 0 } else { burst.max(limit.div_ceil(window_ms as u64)) }
}
