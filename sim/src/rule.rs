//! A rule to simulate: what to count by, then a rule in the words of `RL.ACQUIREX`.
//!
//! The words are read by the parser of the commands, so that what is simulated here can be pasted
//! into a call there.

use std::fmt;
use std::str::FromStr;

use rl_core::decision::Ask;
use rl_core::grammar::Word;
use rl_core::grammar::error::RequestError;
use rl_core::grammar::rules::{Form, parse_rules};
use rl_core::numbers::Own;
use rl_core::rule::{Algorithm, MAX_PERMITS, Rule, Shape};

/// What makes the key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// The client's address: the first field of a combined log.
    Ip,
    /// The authenticated user. A request without one is none of the rule's business.
    User,
    /// The path, without the query.
    Path,
    /// Address and path together.
    IpPath,
    /// The second column of a CSV.
    Key,
    /// One key for everything.
    Global,
}

impl By {
    const ALL: [By; 6] = [By::Ip, By::User, By::Path, By::IpPath, By::Key, By::Global];
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            By::Ip => "ip",
            By::User => "user",
            By::Path => "path",
            By::IpPath => "ip+path",
            By::Key => "key",
            By::Global => "global",
        })
    }
}

/// What becomes of a bucket's burst under another limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Burst {
    /// It is the limit.
    IsLimit,
    /// It stays: `leaky` and `BURST 1`, which pace, and whatever was written beside LIMIT 0.
    Stays(u64),
    /// It keeps its ratio to the limit, rounded up.
    Scales {
        /// The burst as it was asked.
        burst: u64,
        /// The limit that it was asked with.
        limit: u64,
    },
}

/// A rule to simulate.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// What it counts by.
    pub by: By,
    /// Its words, with one blank between them.
    pub text: String,
    /// What it asks of a limiter.
    pub ask: Ask,
    /// `COST` stands in the rule, so the log's costs are not its own.
    has_cost: bool,
    burst: Burst,
}

/// Why a rule cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleProblem {
    /// It does not begin with what to count by.
    NoKey(String),
    /// The words after that are no rule.
    Grammar(RequestError),
    /// An option of a call, not of a rule.
    NotARule,
    /// An algorithm of leases.
    Leased(Algorithm),
}

impl std::error::Error for RuleProblem {}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleProblem::NoKey(got) => write!(
                f,
                "a rule begins with what to count by (ip, user, path, ip+path, key or global), \
                 got '{}'",
                got.escape_debug()
            ),
            RuleProblem::Grammar(error) => error.fmt(f),
            RuleProblem::NotARule => f.write_str(
                "a rule has WINDOW, LIMIT, ALGO, BURST, OFFSET, BLOCK, COST and NAME, the other \
                 options belong to a call",
            ),
            RuleProblem::Leased(algorithm) => write!(
                f,
                "ALGO {} counts permits held, and a log does not tell for how long",
                algorithm.word()
            ),
        }
    }
}

impl FromStr for Simulated {
    type Err = RuleProblem;

    fn from_str(text: &str) -> Result<Simulated, RuleProblem> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let first = words.first().copied().unwrap_or_default();
        let by = By::ALL.into_iter().find(|by| by.to_string().eq_ignore_ascii_case(first));
        let by = by.ok_or_else(|| RuleProblem::NoKey(first.into()))?;
        let words_of_rule = words.get(1..).unwrap_or_default();
        let ask = parse_ask(words_of_rule)?;
        let value_of = |wanted: Word| {
            let mut pairs = words_of_rule.chunks_exact(2);
            let pair = pairs.find(|pair| Word::parse(pair[0].as_bytes()) == Some(wanted));
            pair.map(|pair| pair[1])
        };
        let rule = &ask.rule;
        let algorithm = rule.algorithm();
        let alias = algorithm.alias().filter(|_| algorithm.own() == Own::Burst);
        let is_alias =
            |word: &str| alias.is_some_and(|(alias, _)| word.eq_ignore_ascii_case(alias));
        let burst = match value_of(Word::Burst) {
            _ if value_of(Word::Algo).is_some_and(is_alias) => Burst::Stays(rule.burst()),
            None => Burst::IsLimit,
            Some(_) if rule.limit() == 0 || rule.burst() == 1 => Burst::Stays(rule.burst()),
            Some(_) => Burst::Scales { burst: rule.burst(), limit: rule.limit() },
        };
        let has_cost = value_of(Word::Cost).is_some();
        Ok(Simulated { by, text: words.join(" "), ask, has_cost, burst })
    }
}

/// Reads `WINDOW ...` as the rule of a call.
fn parse_ask(words: &[&str]) -> Result<Ask, RuleProblem> {
    let text = words.join(" ");
    let mut asks = Vec::new();
    let options = parse_rules(text.as_bytes(), Form::AcquireX, &mut |rule| asks.push(rule.ask));
    options.map_err(|error| match *error {
        RequestError::Required { word: Word::Id, by } => RuleProblem::Leased(by),
        error => RuleProblem::Grammar(error),
    })?;
    let [ask] = asks[..] else {
        let (keys, rules) = (1, asks.len());
        return Err(RuleProblem::Grammar(RequestError::RuleCount { keys, rules }));
    };
    let algorithm = ask.rule.algorithm();
    if algorithm.is_leased() {
        return Err(RuleProblem::Leased(algorithm));
    }
    // Options of a call come after its rule, so the first of them is where a pair would begin.
    match words.chunks(2).flat_map(<[&str]>::first).all(|word| belongs_to_rule(word)) {
        true => Ok(ask),
        false => Err(RuleProblem::NotARule),
    }
}

fn belongs_to_rule(word: &str) -> bool {
    use Word::{Algo, Block, Burst, Cost, Limit, Name, Offset, Window};
    let word = Word::parse(word.as_bytes());
    matches!(word, Some(Window | Limit | Algo | Burst | Offset | Block | Cost | Name))
}

impl Simulated {
    /// What the rule asks for a request whose line tells this cost. The rule's own `COST` wins.
    pub fn ask_for(&self, line_cost: u64) -> Ask {
        Ask { cost: if self.has_cost { self.ask.cost } else { line_cost }, ..self.ask }
    }

    /// The same rule with another limit; `None` beyond what a rule can have.
    pub fn with_limit(&self, limit: u64) -> Option<Simulated> {
        let rule = &self.ask.rule;
        let shape = Shape {
            burst: self.burst_at(limit),
            offset_ms: (rule.algorithm().own() == Own::Offset).then_some(rule.offset_ms()),
        };
        let rule = Rule::new(rule.algorithm(), rule.window_ms(), limit, shape).ok()?;
        Some(Simulated { ask: Ask { rule, ..self.ask }, ..self.clone() })
    }

    /// The burst that goes with another limit; `None` when it is the limit.
    pub fn burst_at(&self, limit: u64) -> Option<u64> {
        match self.burst {
            Burst::IsLimit => None,
            Burst::Stays(burst) => Some(burst),
            Burst::Scales { burst, limit: asked } => {
                let scaled = (u128::from(burst) * u128::from(limit)).div_ceil(asked.into());
                Some(scaled.clamp(1, MAX_PERMITS.into()) as u64)
            }
        }
    }

    /// The burst to write beside another limit, when it is not the one of this rule.
    pub fn burst_to_show(&self, limit: u64) -> Option<u64> {
        self.burst_at(limit).filter(|_| matches!(self.burst, Burst::Scales { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Simulated {
        text.parse().expect("a rule")
    }

    fn problem(text: &str) -> String {
        text.parse::<Simulated>().expect_err("no rule").to_string()
    }

    #[test]
    fn a_rule_is_read_in_the_words_of_the_commands() {
        let read = rule(" IP  window 1m limit 100 algo bucket BURST 20 BLOCK 5s COST 2");
        assert_eq!(read.by, By::Ip);
        assert_eq!(read.text, "IP window 1m limit 100 algo bucket BURST 20 BLOCK 5s COST 2");
        assert_eq!((read.ask.rule.window_ms(), read.ask.rule.limit()), (60_000, 100));
        assert_eq!((read.ask.rule.burst(), read.ask.block_ms), (20, 5000));
        assert_eq!(read.ask_for(7).cost, 2);
        assert_eq!(rule("ip WINDOW 1m LIMIT 1 ALGO fixed").ask_for(7).cost, 7);
    }

    #[test]
    fn what_is_no_rule_says_why() {
        let cases = [
            (
                "WINDOW 1m LIMIT 5 ALGO sliding",
                "a rule begins with what to count by (ip, user, path, ip+path, key or global), \
                 got 'WINDOW'",
            ),
            ("ip WINDOW 1m LIMIT 5", "syntax error, rule 1 has no ALGO"),
            ("ip LIMIT 5", "syntax error, expected a rule that starts with WINDOW after the keys"),
            (
                "ip WINDOW 1m LIMIT 5 ALGO sliding FORCE",
                "a rule has WINDOW, LIMIT, ALGO, BURST, OFFSET, BLOCK, COST and NAME, the other \
                 options belong to a call",
            ),
            (
                "ip WINDOW 1m LIMIT 5 ALGO concurrency",
                "ALGO concurrency counts permits held, and a log does not tell for how long",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(problem(text), message, "{text}");
        }
    }

    #[test]
    fn a_burst_keeps_its_ratio_and_leaky_stays_leaky() {
        let burst = |text: &str, limit| {
            rule(text).with_limit(limit).expect("within range").ask.rule.burst()
        };
        assert_eq!(burst("ip WINDOW 1s LIMIT 50 ALGO bucket", 70), 70);
        assert_eq!(burst("ip WINDOW 1s LIMIT 50 ALGO bucket BURST 100", 70), 140);
        assert_eq!(burst("ip WINDOW 1s LIMIT 50 ALGO bucket BURST 20", 1), 1);
        assert_eq!(burst("ip WINDOW 1s LIMIT 50 ALGO bucket BURST 20", 3), 2);
        assert_eq!(burst("ip WINDOW 1s LIMIT 0 ALGO bucket BURST 20", 3), 20);
        assert_eq!(burst("ip WINDOW 1s LIMIT 1 ALGO leaky", 9), 1);
        assert_eq!(burst("ip WINDOW 1s LIMIT 5 ALGO bucket BURST 1", 50), 1);
        let moved = rule("ip WINDOW 1d LIMIT 5 ALGO fixed OFFSET -8h").with_limit(6).expect("one");
        assert_eq!(moved.ask.rule.offset_ms(), 57_600_000);
        assert!(rule("ip WINDOW 1s LIMIT 1 ALGO fixed").with_limit(MAX_PERMITS + 1).is_none());
    }
}
