//! The grammar of `RL.ACQUIREX` and `RL.PEEK`: `key [key ...] rules`.
//!
//! Rules and options are the words of one argument, separated by white space, so the keys stand at
//! fixed places. A server therefore never asks the module for them. Cluster nodes with I/O threads
//! would ask from threads that must not call a module.

use super::arguments::{Arguments, MAX_KEYS};
use super::error::{Partner, RequestError, Shown};
use super::keys::check_keys;
use super::request::Options;
use super::rule_args::{Named, RuleArgs};
use super::values::{Words, check_id, is_space};
use super::word::Word;
use crate::algorithm::Algorithm;
use crate::numbers::MAX_PERMITS;
use crate::terms::Ask;

/// One of the two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `RL.ACQUIREX`
    AcquireX,
    /// `RL.PEEK`: the answer of `RL.ACQUIREX`, without its effect.
    Peek,
}

impl Form {
    /// The words that may follow the rules, for an error message.
    fn options(self) -> &'static str {
        match self {
            Form::AcquireX => "a rule or UPTO, ID, XX, RESERVE, TIMEOUT, FORCE or WITHKEYS",
            Form::Peek => "a rule or UPTO, ID or WITHKEYS",
        }
    }
}

/// Separates the keys from the rules, the last argument. Returns the number of keys, and the
/// rules.
///
/// # Errors
/// Keys that no call can have. `WINDOW` among them means that the rules were typed as several
/// arguments.
pub fn keys_and_rules<A: Arguments + ?Sized>(
    args: &A,
) -> Result<(usize, &[u8]), Box<RequestError>> {
    let keys = args.count().checked_sub(1).filter(|keys| *keys > 0);
    let keys = keys.ok_or(RequestError::ArgumentCount)?;
    check_keys(args, keys, |key| {
        key.eq_ignore_ascii_case(b"WINDOW").then_some(RequestError::RulesNotQuoted)
    })?;
    Ok((keys, args.get(keys)))
}

/// Parses `rule [rule ...] [option ...]`. Passes each rule to `sink`, in order, so that nothing is
/// allocated. [`super::Request::new`] checks their number.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_rules<'a>(
    text: &'a [u8],
    form: Form,
    sink: &mut impl FnMut(Named<'a>),
) -> Result<Options<'a>, Box<RequestError>> {
    let mut words = text.split(is_space).filter(|word| !word.is_empty());
    let mut call = OptionArgs { form, options: Options::default(), seen: Seen::default() };
    let mut open: Option<RuleArgs<'a>> = None;
    let mut rules = 0;
    while let Some(text) = words.next() {
        let word = Word::parse(text);
        let options_begun = !call.seen.options.is_empty();
        match (word, &mut open) {
            (Some(Word::Window), rule) if !options_begun => {
                if let Some(rule) = rule.take() {
                    sink(call.finish(rule, rules)?);
                }
                rules += 1;
                if rules > MAX_KEYS {
                    return Err(RequestError::TooManyRules.into());
                }
                let value = words.next().ok_or(RequestError::NoValue(Word::Window))?;
                rule.insert(RuleArgs::new()).set(Word::Window, value)?;
            }
            (Some(word), Some(rule)) if RuleArgs::has(word) => {
                rule.set(word, words.next().ok_or(RequestError::NoValue(word))?)?;
            }
            (_, None) if !options_begun => return Err(RequestError::NoRule.into()),
            (word, rule) => {
                if let Some(rule) = rule.take() {
                    sink(call.finish(rule, rules)?);
                }
                let word = word.ok_or_else(|| call.expected(text))?;
                call.set(word, text, || words.next())?;
            }
        }
    }
    if let Some(rule) = open {
        sink(call.finish(rule, rules)?);
    }
    if rules == 0 {
        return Err(RequestError::NoRule.into());
    }
    call.check_together()?;
    if call.options.only_renew {
        // Whoever keeps a lease alive wants to know at once whether it has lapsed.
        call.options.timeout_ms = 0;
    }
    Ok(call.options)
}

/// The options of a call as they are read, and the facts that the checks over all of them need.
struct OptionArgs<'a> {
    form: Form,
    options: Options<'a>,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    /// An algorithm of leases, if there was one.
    leased: Option<Algorithm>,
    /// Whether there was an algorithm whose permits are spent.
    spent: bool,
    /// Whether there was an algorithm that cannot reserve.
    unreservable: bool,
    highest_cost: u64,
    options: Words,
}

impl<'a> OptionArgs<'a> {
    /// Builds the rule. `number` counts the rules from 1.
    fn finish(
        &mut self,
        rule: RuleArgs<'a>,
        number: usize,
    ) -> Result<Named<'a>, Box<RequestError>> {
        let named = rule.finish(number)?;
        let Ask { rule, cost, .. } = named.ask;
        match rule.algorithm().is_leased() {
            true => self.seen.leased = Some(rule.algorithm()),
            false => self.seen.spent = true,
        }
        self.seen.unreservable |= !rule.algorithm().can_reserve();
        self.seen.highest_cost = self.seen.highest_cost.max(cost);
        Ok(named)
    }

    fn expected(&self, got: &[u8]) -> RequestError {
        RequestError::Syntax { expected: self.form.options(), got: Shown::new(got) }
    }

    /// Takes an option, as it was written, and its value if it has one.
    fn set(
        &mut self,
        word: Word,
        text: &[u8],
        value: impl FnOnce() -> Option<&'a [u8]>,
    ) -> Result<(), Box<RequestError>> {
        self.seen.options.add(word)?;
        let value = || value().ok_or(RequestError::NoValue(word));
        let options = &mut self.options;
        match word {
            Word::Xx | Word::Reserve | Word::Force | Word::Timeout if self.form == Form::Peek => {
                let place = "to RL.ACQUIREX, not RL.PEEK";
                return Err(RequestError::Misplaced { word, place }.into());
            }
            Word::Upto => options.upto = word.count(value()?, 1, MAX_PERMITS)?,
            Word::Id => options.id = Some(check_id(value()?)?),
            Word::Xx => options.only_renew = true,
            Word::Reserve => options.reserve_ms = word.duration(value()?, 0)?,
            Word::Timeout => options.timeout_ms = word.duration(value()?, 0)?,
            Word::Force => options.force = true,
            Word::WithKeys => options.with_keys = true,
            Word::For | Word::Shadow | Word::Count => return Err(self.expected(text).into()),
            Word::Window
            | Word::Limit
            | Word::Algo
            | Word::Burst
            | Word::Offset
            | Word::Block
            | Word::Cost
            | Word::Name => {
                let place = "to a rule, before UPTO, ID, XX, RESERVE, TIMEOUT, FORCE and WITHKEYS";
                return Err(RequestError::Misplaced { word, place }.into());
            }
        }
        Ok(())
    }

    /// Checks that rules and options go together.
    fn check_together(&self) -> Result<(), Box<RequestError>> {
        let OptionArgs { form, options, seen } = self;
        let excluded = |word, with| Err(RequestError::Excluded { word, with }.into());
        if options.force {
            let words = [Word::Upto, Word::Reserve, Word::Timeout];
            if let Some(word) = words.into_iter().find(|word| seen.options.has(*word)) {
                return excluded(Word::Force, Partner::Option(word));
            }
            if let Some(leased) = seen.leased {
                return excluded(Word::Force, Partner::Algo(leased.word()));
            }
        }
        if seen.options.has(Word::Reserve) && seen.options.has(Word::Timeout) {
            return excluded(Word::Reserve, Partner::Option(Word::Timeout));
        }
        if seen.options.has(Word::Reserve) && seen.unreservable {
            return excluded(Word::Reserve, Partner::Unreservable);
        }
        if options.only_renew && seen.spent {
            return excluded(Word::Xx, Partner::Spent);
        }
        match (options.id, seen.leased) {
            (Some(_), None) => return excluded(Word::Id, Partner::Spent),
            (None, Some(by)) if *form == Form::AcquireX => {
                return Err(RequestError::Required { word: Word::Id, by }.into());
            }
            _ => {}
        }
        let batch = seen.highest_cost.checked_mul(options.upto).filter(|n| *n <= MAX_PERMITS);
        batch.map(|_| ()).ok_or_else(|| RequestError::BatchTooLarge.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The costs of the rules, and the options.
    fn parse(text: &str) -> Result<(Vec<u64>, Options<'_>), String> {
        let mut costs = Vec::new();
        let sink = &mut |rule: Named<'_>| costs.push(rule.ask.cost);
        let options = parse_rules(text.as_bytes(), Form::AcquireX, sink);
        options.map(|options| (costs, options)).map_err(|error| error.to_string())
    }

    #[test]
    fn white_space_of_any_kind_separates_words_in_any_case() {
        let plain =
            parse("WINDOW 1s LIMIT 5 ALGO bucket COST 2 WINDOW 1m LIMIT 9 ALGO fixed UPTO 3");
        let (costs, options) = plain.clone().expect("two rules");
        assert_eq!((costs, options.upto), (vec![2, 1], 3));
        let spaced =
            "\n\tWindow  1s\r\nlimit\t5 algo BUCKET cost 2\r window 1m limit 9 algo fixed upto 3 ";
        assert_eq!(parse(spaced), plain);
        // Only these four: any other byte is part of a word.
        for other in ["\u{b}", "\u{c}", "\0", "\u{a0}"] {
            parse(&format!("WINDOW{other}1s LIMIT 5 ALGO bucket")).expect_err("one word");
        }
    }

    #[test]
    fn what_begins_with_no_rule_is_none() {
        for text in ["", " ", "\r\n", "LIMIT 5 WINDOW 1s ALGO bucket", "UPTO 2", "bucket"] {
            let error = parse(text).expect_err("no rule");
            assert!(error.contains("expected a rule that starts with WINDOW"), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_word_at_the_end_lacks_its_value() {
        for word in ["WINDOW", "LIMIT", "COST", "UPTO", "ID", "TIMEOUT"] {
            let text = format!("WINDOW 1s LIMIT 5 ALGO bucket {word}");
            assert_eq!(parse(&text), Err(format!("syntax error, {word} has no value")));
        }
    }

    #[test]
    fn more_rules_than_keys_can_be_are_refused_whatever_follows() {
        let many = "WINDOW 1s LIMIT 5 ALGO bucket ".repeat(MAX_KEYS);
        assert_eq!(parse(&many).expect("as many as keys").0.len(), MAX_KEYS);
        let error = parse(&format!("{many} WINDOW x")).expect_err("one too many");
        assert_eq!(error, "at most 1024 rules");
    }

    #[test]
    fn rules_fit_when_there_is_one_or_one_for_each_key() {
        let request = |keys, rules| super::super::Request::new(keys, rules, Options::default());
        assert!(request(1, 1).is_ok() && request(3, 1).is_ok() && request(3, 3).is_ok());
        let error = request(3, 2).expect_err("one too few").to_string();
        assert_eq!(error, "3 keys need 1 or 3 rules, got 2");
    }

    #[test]
    fn words_typed_as_arguments_are_told_how_it_is_written() {
        let words =
            |line: &'static str| -> Vec<&[u8]> { line.split(' ').map(str::as_bytes).collect() };
        let error = keys_and_rules(&*words("k window 1s LIMIT 5 ALGO bucket")).expect_err("words");
        assert!(error.to_string().starts_with("the rules are one argument, in quotes:"));
        assert_eq!(keys_and_rules(&*words("LIMIT COST x")), Ok((2, &b"x"[..])));
    }
}
