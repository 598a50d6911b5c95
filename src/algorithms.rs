//! The algorithms, as the server is told of them: `INFO` counts each one, and `COMMAND DOCS` shows
//! the words that `ALGO` takes.

use rl_core::rule::Algorithm;

/// All of them. Each one's place is its number in the enum.
pub const ALL: [Algorithm; 5] = [
    Algorithm::Sliding,
    Algorithm::Bucket,
    Algorithm::Fixed,
    Algorithm::Counter,
    Algorithm::Concurrency,
];

const _: () = {
    let mut place = 0;
    while place < ALL.len() {
        assert!(ALL[place] as usize == place);
        place += 1;
    }
};

/// The words that `ALGO` takes, those of algorithms that lease permits at the end.
const WORDS: [(&str, Permits); 6] = [
    ("sliding", Permits::Spent),
    ("bucket", Permits::Spent),
    ("leaky", Permits::Spent),
    ("fixed", Permits::Spent),
    ("counter", Permits::Spent),
    ("concurrency", Permits::Leased),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Permits {
    Spent,
    Leased,
}

/// The words that `ALGO` takes.
pub fn words() -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().map(|(word, _)| word)
}

/// The words that `ALGO` takes where permits cannot be leased.
pub fn spending_words() -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().filter(|(_, permits)| *permits == Permits::Spent).map(|(word, _)| word)
}
