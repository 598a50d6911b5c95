//! The grammar: any arguments are a request or an error, and the error's message is short and printable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rl_core::grammar::acquire::parse_acquire;
use rl_core::grammar::by_hand::{parse_lay, parse_refund, parse_release};
use rl_core::grammar::error::RequestError;
use rl_core::grammar::operator::{parse_policy_set, parse_top};
use rl_core::grammar::remembered::Table;
use rl_core::grammar::rules::{Form, keys_and_rules, parse_rules};
use rl_core::grammar::{Named, Options};
use rl_core::rule::{MAX_PERMITS, MAX_WINDOW_MS};

fn check<T>(result: Result<T, Box<RequestError>>) -> Option<T> {
    result
        .map_err(|error| {
            let line = error.to_string();
            assert!(
                line.len() < 400 && line.bytes().all(|byte| (32..127).contains(&byte)),
                "{line}"
            );
        })
        .ok()
}

/// Rules and options of a string that parses, however often it comes.
fn check_rules(text: &[u8], form: Form) {
    let mut rules = Vec::new();
    let read = check(parse_rules(text, form, &mut |rule| rules.push(rule)));
    let mut table = Table::new(1);
    assert!(table.recall(text, form).is_none());
    if let Some(again) = table.recall(text, form) {
        let mut remembered = Vec::new();
        let options = again.read(&mut |rule| remembered.push(rule));
        assert_eq!((Some(options), remembered), (read, rules.clone()));
    }
    let Some(Options { upto, id, .. }) = read else { return };
    assert!(!rules.is_empty());
    for Named { ask, .. } in &rules {
        let numbers = ask.rule;
        assert!((1..=MAX_WINDOW_MS).contains(&numbers.window_ms()));
        assert!(numbers.limit() <= MAX_PERMITS && numbers.burst() <= MAX_PERMITS);
        assert!(ask.cost * upto <= MAX_PERMITS);
    }
    if let Some(id) = id {
        let args = [b"k", &b"ID"[..], id];
        let released = parse_release(&args[..]).expect("an ID can be released");
        assert_eq!(released.value, id);
    }
}

// The whole is a rules argument; what lies between spaces are the arguments of the others.
fuzz_target!(|data: &[u8]| {
    let args: Vec<&[u8]> = data.split(|byte| *byte == b' ').collect();
    let args = &args[..];
    if let Some((request, _)) = check(parse_acquire(args)) {
        assert!(request.keys == args.len() - 6);
    }
    if let Some((keys, _)) = check(keys_and_rules(args)) {
        assert!(keys == args.len() - 1);
    }
    for form in [Form::AcquireX, Form::Peek] {
        check_rules(data, form);
    }
    check(parse_refund(args));
    check(parse_release(args));
    check(parse_lay(args));
    check(parse_top(args));
    check(parse_policy_set(args));
});
