//! The algorithms, as the server is told of them: `INFO` counts each of them.

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
