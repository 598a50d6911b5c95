//! Rules that were parsed before. Applications repeat a few strings, and comparing a string is
//! cheaper than parsing it.
//!
//! The table has a fixed size. The hash of a string determines the only place where it can stand,
//! and the string there is compared in full. A string enters when it is missed twice in a row at
//! its place, so strings that change on each call (a cost, an ID) push nothing out. Entries depend
//! on nothing but the string. Policies change a copy of an entry, since calls nest.

use std::rc::Rc;

use super::error::RequestError;
use super::request::Options;
use super::rule_args::Named;
use super::rules::{Form, parse_rules};
use crate::terms::Ask;

/// The longest string that is remembered, in bytes.
pub const MAX_TEXT: usize = 1024;

/// The most rules of a string that is remembered.
pub const MAX_RULES: usize = 16;

/// A string and everything that was parsed from it.
#[derive(Debug)]
pub struct Remembered {
    text: Box<[u8]>,
    form: Form,
    rules: Box<[Rule]>,
    id: Option<Box<[u8]>>,
    /// All options but the ID.
    options: Options<'static>,
}

/// A [`Named`] that owns its name.
#[derive(Debug)]
struct Rule {
    ask: Ask,
    name: Option<Box<[u8]>>,
}

impl Remembered {
    fn parse(text: &[u8], form: Form) -> Result<Remembered, Box<RequestError>> {
        let mut rules = Vec::new();
        let mut sink =
            |rule: Named<'_>| rules.push(Rule { ask: rule.ask, name: rule.name.map(Box::from) });
        let options = parse_rules(text, form, &mut sink)?;
        Ok(Remembered {
            text: text.into(),
            form,
            rules: rules.into(),
            id: options.id.map(Box::from),
            options: Options { id: None, ..options },
        })
    }

    /// Passes the rules to `sink` and returns the options, as [`parse_rules`] does.
    pub fn read<'a>(&'a self, sink: &mut impl FnMut(Named<'a>)) -> Options<'a> {
        for Rule { ask, name } in &self.rules {
            sink(Named { ask: *ask, name: name.as_deref() });
        }
        Options { id: self.id.as_deref(), ..self.options }
    }

    /// The bytes that it takes.
    fn bytes(&self) -> usize {
        let names = self.rules.iter().filter_map(|rule| rule.name.as_deref());
        size_of::<Remembered>()
            + self.text.len()
            + size_of_val(&*self.rules)
            + names.chain(self.id.as_deref()).map(<[u8]>::len).sum::<usize>()
    }
}

/// A table of remembered strings.
#[derive(Debug)]
pub struct Table {
    places: Box<[Place]>,
    parsed: u64,
}

#[derive(Clone, Debug, Default)]
struct Place {
    entry: Option<Rc<Remembered>>,
    /// The hash of the string that was last missed here.
    missed: u64,
}

impl Table {
    /// An empty table with this many places, at least one.
    pub fn new(places: usize) -> Table {
        Table { places: vec![Place::default(); places.max(1)].into(), parsed: 0 }
    }

    /// The entry of a string. `None` if there is none yet, or if the string does not parse; the
    /// caller then parses it.
    pub fn recall(&mut self, text: &[u8], form: Form) -> Option<Rc<Remembered>> {
        if text.len() > MAX_TEXT {
            self.parsed += 1;
            return None;
        }
        let hash = hash(text, form);
        // Takes the upper bits of the product: a division would take longer than all the rest.
        let at = (u128::from(hash) * self.places.len() as u128) >> 64;
        let place = self.places.get_mut(at as usize)?;
        if let Some(entry) = &place.entry
            && entry.form == form
            && *entry.text == *text
        {
            return Some(Rc::clone(entry));
        }
        self.parsed += 1;
        if std::mem::replace(&mut place.missed, hash) != hash {
            return None;
        }
        let entry =
            Remembered::parse(text, form).ok().filter(|new| new.rules.len() <= MAX_RULES)?;
        let entry = Rc::new(entry);
        place.entry = Some(Rc::clone(&entry));
        Some(entry)
    }

    /// The number of strings that were not found here, and so were parsed.
    pub fn parsed(&self) -> u64 {
        self.parsed
    }

    /// The number of strings remembered, and the bytes that the table takes with them.
    pub fn size(&self) -> (usize, usize) {
        let entries = self.places.iter().filter_map(|place| place.entry.as_deref());
        let (count, bytes) =
            entries.fold((0, 0), |(n, bytes), entry| (n + 1, bytes + entry.bytes()));
        (count, size_of_val(&*self.places) + bytes)
    }
}

/// A hash that reads eight bytes at a time. Colliding strings do no harm, since strings are
/// compared in full.
fn hash(text: &[u8], form: Form) -> u64 {
    // The golden ratio in 64 bits, as in Fibonacci hashing (D. Knuth, TAOCP 3, 6.4).
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(MIX);
        mixed ^ (mixed >> 29)
    };
    let (words, rest) = text.as_chunks::<8>();
    let start = (text.len() as u64) << 1 | u64::from(form == Form::Peek);
    let hash = words.iter().fold(start, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let rest = rest.iter().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
    mix(mix(hash, rest), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form::AcquireX;

    fn rule(limit: usize) -> Vec<u8> {
        format!("WINDOW 1s LIMIT {limit} ALGO bucket NAME n{limit}").into_bytes()
    }

    fn costs(entry: &Remembered) -> Vec<u64> {
        let mut costs = Vec::new();
        entry.read(&mut |rule| costs.push(rule.ask.cost));
        costs
    }

    #[test]
    fn a_string_enters_when_it_is_missed_twice_in_a_row() {
        let mut table = Table::new(1);
        assert!(table.recall(&rule(1), FORM).is_none());
        assert!(table.recall(&rule(2), FORM).is_none());
        assert!(table.recall(&rule(1), FORM).is_none());
        let entered = table.recall(&rule(1), FORM).expect("the second miss in a row");
        assert_eq!((table.parsed(), table.size().0), (4, 1));
        for _ in 0..10 {
            let again = table.recall(&rule(1), FORM).expect("it is there");
            assert!(Rc::ptr_eq(&again, &entered));
        }
        assert_eq!(table.parsed(), 4);
        // Strings that occur only once leave it in its place.
        for limit in 3..100 {
            assert!(table.recall(&rule(limit), FORM).is_none());
        }
        assert!(table.recall(&rule(1), FORM).is_some());
    }

    #[test]
    fn an_entry_that_was_pushed_out_stays_as_it_was_for_who_reads_it() {
        let mut table = Table::new(1);
        let text = b"WINDOW 1s LIMIT 5 ALGO concurrency COST 3 ID me";
        table.recall(text, FORM);
        let entry = table.recall(text, FORM).expect("entered");
        table.recall(&rule(1), FORM);
        table.recall(&rule(1), FORM).expect("entered in its place");
        assert_eq!((costs(&entry), entry.read(&mut |_| {}).id), (vec![3], Some(&b"me"[..])));
        assert!(table.recall(text, FORM).is_none());
    }

    #[test]
    fn the_two_commands_do_not_answer_for_each_other() {
        let mut table = Table::new(1);
        let text = b"WINDOW 1s LIMIT 5 ALGO bucket TIMEOUT 5s";
        table.recall(text, Form::AcquireX);
        assert!(table.recall(text, Form::AcquireX).is_some());
        for _ in 0..3 {
            assert!(table.recall(text, Form::Peek).is_none());
        }
    }

    #[test]
    fn what_is_long_or_wrong_does_not_enter_and_the_memory_is_bounded() {
        let mut table = Table::new(4);
        let many = "WINDOW 1s LIMIT 5 ALGO bucket ".repeat(MAX_RULES + 1);
        let long = format!("{}{}", "WINDOW 1s LIMIT 5 ALGO bucket", " ".repeat(MAX_TEXT));
        for text in [many.as_bytes(), long.as_bytes(), b"WINDOW", b""] {
            for _ in 0..3 {
                assert!(table.recall(text, FORM).is_none());
            }
        }
        assert_eq!(table.size().0, 0);
        let largest =
            "WINDOW 1s LIMIT 5 ALGO bucket NAME abcdefghijklmnopqrstuvwxyz ".repeat(MAX_RULES);
        for at in 0..100 {
            let text = format!("{largest}{}", " ".repeat(at));
            let _ = (table.recall(text.as_bytes(), FORM), table.recall(text.as_bytes(), FORM));
        }
        let (count, bytes) = table.size();
        assert!(count == 4 && bytes < 4 * 4096, "{count} {bytes}");
    }
}
