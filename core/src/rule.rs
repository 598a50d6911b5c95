//! What a limiter is asked to enforce.
//!
//! A [`Rule`] can only be built by its checked constructor, so everything after it trusts the ranges
//! in [`crate::numbers`].

use std::fmt;

pub use crate::algorithm::Algorithm;
pub use crate::numbers::{MAX_IN_USE, MAX_PERMITS, MAX_TIME_MS, MAX_WINDOW_MS};

use crate::numbers::{Numbers, Own};

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
            RuleError::BurstUnsupported => write!(f, "BURST goes with {} only", with(Own::Burst)),
            RuleError::Offset => write!(f, "OFFSET must be -{MAX_WINDOW_MS} to {MAX_WINDOW_MS} ms"),
            RuleError::OffsetUnsupported => {
                write!(f, "OFFSET goes with {} only", with(Own::Offset))
            }
        }
    }
}

/// The algorithms that have this number.
fn with(own: Own) -> String {
    let having = Algorithm::ALL.iter().filter(|algorithm| algorithm.own() == own);
    let words: Vec<String> = having.map(|algorithm| format!("ALGO {}", algorithm.word())).collect();
    words.join(" and ")
}

/// The optional numbers of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// How many permits a bucket holds, unless a millisecond brings more; by default the limit.
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
            // A division less where there is none, as for most rules.
            Own::Offset => shape.offset_ms.map_or(0, |ms| ms.rem_euclid(window_ms) as u64),
        };
        let capacity = algorithm.capacity(window_ms, limit, own);
        Ok(Rule { algorithm, numbers: Numbers::new(window_ms, limit, own, capacity) })
    }

    /// How the rule counts.
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

    /// `BURST` as it was set; the limit for the algorithms that have none.
    pub fn burst(&self) -> u64 {
        match self.algorithm.own() {
            Own::Burst => self.numbers.own(),
            Own::None | Own::Offset => self.limit(),
        }
    }

    /// Where windows start: 0 to the window, in ms from the epoch.
    pub fn offset_ms(&self) -> i64 {
        match self.algorithm.own() {
            Own::Offset => self.numbers.own() as i64,
            Own::None | Own::Burst => 0,
        }
    }

    /// The most permits that a limiter under this rule can ever hold free: 0 when the limit is 0. A
    /// bucket holds the permits of a millisecond, rounded up, even if its burst is less: there is no
    /// finer time in which to take them.
    #[inline(always)]
    pub fn capacity(&self) -> u64 {
        self.numbers.capacity()
    }
}
