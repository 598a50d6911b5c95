//! The grammar: any arguments are a request or an error, and the error's message is short and printable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rl_core::error::RequestError;
use rl_core::request::{
    Form, keys_before_rules, parse_acquire, parse_acquirex, parse_hold, parse_policy_set,
    parse_refund, parse_release, parse_top,
};
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

// Arguments are what lies between spaces.
fuzz_target!(|data: &[u8]| {
    let args: Vec<&[u8]> = data.split(|byte| *byte == b' ').collect();
    let args = &args[..];
    let mut rules = Vec::new();
    if let Some((request, _)) = check(parse_acquire(args)) {
        assert!(request.keys == args.len() - 6 && request.rules == 1);
    }
    for form in [Form::AcquireX, Form::Peek] {
        rules.clear();
        let Some(request) = check(parse_acquirex(args, form, &mut |rule| rules.push(rule))) else {
            continue;
        };
        assert_eq!(Some(request.keys), keys_before_rules(args));
        assert_eq!(rules.len(), request.rules);
        assert!(request.rules == 1 || request.rules == request.keys);
        for rule in &rules {
            let numbers = rule.ask.rule;
            assert!((1..=MAX_WINDOW_MS).contains(&numbers.window_ms()));
            assert!(numbers.limit() <= MAX_PERMITS && numbers.burst() <= MAX_PERMITS);
            assert!(rule.ask.cost * request.upto <= MAX_PERMITS);
        }
    }
    check(parse_refund(args));
    check(parse_release(args));
    check(parse_hold(args));
    check(parse_top(args));
    check(parse_policy_set(args));
});
