//! The rule that a limiter enforces.
//!
//! Only the checked constructor builds a [`Rule`], so all other code can rely on the ranges in
//! [`crate::numbers`].

use std::fmt;

pub use crate::algorithm::Algorithm;
pub use crate::numbers::{MAX_IN_USE, MAX_PERMITS, MAX_TIME_MS, MAX_WINDOW_MS};

use crate::numbers::{Numbers, Own};

/// A number of a rule that is out of its range, or that the algorithm does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The window is not 1 ms to ten years.
    Window,
    /// The limit is above [`MAX_PERMITS`].
    Limit,
    /// The burst is not 1 to [`MAX_PERMITS`].
    Burst,
    /// The algorithm has no burst.
    BurstUnsupported,
    /// The offset is not within ten years.
    Offset,
    /// The algorithm has no offset.
    OffsetUnsupported,
}

impl std::error::Error for RuleError {}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Window => write!(f, "WINDOW must be 1 to {MAX_WINDOW_MS} ms"),
            RuleError::Limit => write!(f, "LIMIT must be 0 to {MAX_PERMITS}"),
            RuleError::Burst => write!(f, "BURST must be 1 to {MAX_PERMITS}"),
            RuleError::BurstUnsupported => write!(f, "BURST goes with {} only", with(Own::Burst)),
            RuleError::Offset => write!(f, "OFFSET must be -{MAX_WINDOW_MS} to {MAX_WINDOW_MS} ms"),
            RuleError::OffsetUnsupported => {
                write!(f, "OFFSET goes with {} only", with(Own::Offset))
            }
        }
    }
}

/// The algorithms that have this number, as in `ALGO x and ALGO y`.
fn with(own: Own) -> String {
    let having = Algorithm::ALL.iter().filter(|algorithm| algorithm.own() == own);
    let words: Vec<String> = having.map(|algorithm| format!("ALGO {}", algorithm.word())).collect();
    words.join(" and ")
}

/// The optional numbers of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The capacity of a bucket, unless a millisecond brings more; by default the limit.
    pub burst: Option<u64>,
    /// Where fixed windows start, in ms from the epoch; by default 0.
    pub offset_ms: Option<i64>,
}

/// `LIMIT` permits per `WINDOW`, counted by an algorithm.
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
    numbers: Numbers,
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
        let own = algorithm.own();
        match shape.burst {
            Some(_) if own != Own::Burst => return Err(RuleError::BurstUnsupported),
            Some(burst) if !(1..=MAX_PERMITS).contains(&burst) => return Err(RuleError::Burst),
            _ => {}
        }
        match shape.offset_ms {
            Some(_) if own != Own::Offset => return Err(RuleError::OffsetUnsupported),
            Some(offset_ms) if !(-MAX_WINDOW_MS..=MAX_WINDOW_MS).contains(&offset_ms) => {
                return Err(RuleError::Offset);
            }
            _ => {}
        }
        let own = match own {
            Own::None => 0,
            Own::Burst => shape.burst.unwrap_or(limit),
            // Most rules have no offset, and so need no division.
            Own::Offset => shape.offset_ms.map_or(0, |ms| ms.rem_euclid(window_ms) as u64),
        };
        let capacity = algorithm.capacity(window_ms, limit, own);
        Ok(Rule { algorithm, numbers: Numbers::new(window_ms, limit, own, capacity) })
    }

    /// The algorithm that counts.
    #[inline(always)]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Window, limit and the algorithm's own number.
    #[inline(always)]
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The window, in milliseconds.
    pub fn window_ms(&self) -> i64 {
        self.numbers.window_ms()
    }

    /// Permits per window.
    pub fn limit(&self) -> u64 {
        self.numbers.limit()
    }

    /// `BURST` as it was set; the limit for algorithms that have none.
    pub fn burst(&self) -> u64 {
        match self.algorithm.own() {
            Own::Burst => self.numbers.own(),
            Own::None | Own::Offset => self.limit(),
        }
    }

    /// Where windows start, in ms from the epoch: from 0 up to the window.
    pub fn offset_ms(&self) -> i64 {
        match self.algorithm.own() {
            Own::Offset => self.numbers.own() as i64,
            Own::None | Own::Burst => 0,
        }
    }

    /// The largest number of permits that can be free under this rule; 0 if the limit is 0. For a
    /// bucket, that is never less than what a millisecond brings, rounded up, since there is no
    /// finer time in which to take those permits.
    #[inline(always)]
    pub fn capacity(&self) -> u64 {
        self.numbers.capacity()
    }
}
