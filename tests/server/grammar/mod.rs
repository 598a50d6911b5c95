//! What is refused, and in which words: options and their values, keys, rules in one argument, nonsense. No refusal
//! changes anything.

use testkit::{Client, Server};

mod hostile;
mod keys;
mod options;
mod remembered;
mod rules_argument;

/// A correct rule, to which tests add mistakes.
pub const RULE: &str = "WINDOW 1s LIMIT 1 ALGO bucket";
/// The commands that take rules in one argument.
pub const FORMS: [&str; 2] = ["RL.ACQUIREX", "RL.PEEK"];

/// Every option word of the module.
pub const WORDS: [&str; 18] = [
    "WINDOW", "LIMIT", "ALGO", "BURST", "OFFSET", "BLOCK", "COST", "NAME", "UPTO", "ID", "XX",
    "RESERVE", "TIMEOUT", "FORCE", "WITHKEYS", "FOR", "SHADOW", "COUNT",
];

/// Checks calls that are refused.
pub struct Refusals {
    pub client: Client,
    count: usize,
}

impl Refusals {
    /// Runs a call that must be answered by this error.
    pub fn refuse(&mut self, call: &str, line: &str) {
        assert_eq!(self.client.error(call), line, "for: {call}");
        self.count += 1;
    }
}

/// Runs refusals against a server that holds a limiter and a text, neither of which may change.
pub fn with_refusals(at_least: usize, run: impl FnOnce(&mut Refusals)) {
    let server = Server::start();
    let mut client = server.client();
    client.take(1, "k", "WINDOW 10d LIMIT 3 ALGO sliding");
    client.run("SET text x");
    let before = client.text("DEBUG DIGEST");
    let changes = client.info_number("persistence", "rdb_changes_since_last_save");
    let mut refusals = Refusals { client, count: 0 };
    run(&mut refusals);
    let Refusals { mut client, count } = refusals;
    assert!(count >= at_least, "only {count}");
    assert_eq!(client.text("DEBUG DIGEST"), before);
    assert_eq!(client.info_number("persistence", "rdb_changes_since_last_save"), changes);
}
