//! The words after `ALGO`, taken from the list of algorithms.

use std::fmt;

use super::word::folded;
use crate::algorithm::Algorithm;

/// An algorithm, as named by a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Algo {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The alias and its own number, if the word is an alias: it stands for both.
    pub alias: Option<(&'static str, u64)>,
}

/// A word of the list of algorithms, folded.
#[derive(Clone, Copy)]
struct Known {
    folded: u64,
    word: &'static str,
    algo: Algo,
}

impl Known {
    const fn new(word: &'static str, algo: Algo) -> Known {
        Known { folded: folded(word.as_bytes()), word, algo }
    }
}

/// The number of words of all algorithms.
const ALGO_WORDS: usize = {
    let (mut words, mut i) = (0, 0);
    while i < Algorithm::ALL.len() {
        words += 1 + Algorithm::ALL[i].alias().is_some() as usize;
        i += 1;
    }
    words
};

/// The words, in the order of the list.
static KNOWN: [Known; ALGO_WORDS] = {
    let first = Algo { algorithm: Algorithm::ALL[0], alias: None };
    let mut known = [Known::new("", first); ALGO_WORDS];
    let (mut at, mut i) = (0, 0);
    while i < Algorithm::ALL.len() {
        let algorithm = Algorithm::ALL[i];
        known[at] = Known::new(algorithm.word(), Algo { algorithm, alias: None });
        at += 1;
        if let Some((word, own)) = algorithm.alias() {
            known[at] = Known::new(word, Algo { algorithm, alias: Some((word, own)) });
            at += 1;
        }
        i += 1;
    }
    known
};

impl Algo {
    /// The algorithm that these bytes spell, in any case.
    #[inline(always)]
    pub fn find(bytes: &[u8]) -> Option<Algo> {
        let folded = folded(bytes);
        let is_it = |known: &&Known| known.folded == folded && known.word.len() == bytes.len();
        let known = KNOWN.iter().find(is_it)?;
        // Folding covers no more than eight bytes.
        let same = bytes.len() <= 8 || bytes.eq_ignore_ascii_case(known.word.as_bytes());
        same.then_some(known.algo)
    }
}

/// The words of all algorithms for which `is_of_kind` is true, in the order of the list.
pub fn algo_words(is_of_kind: fn(Algorithm) -> bool) -> impl Iterator<Item = &'static str> {
    let known = KNOWN.iter().filter(move |known| is_of_kind(known.algo.algorithm));
    known.map(|known| known.word)
}

/// Writes words as in a sentence: `a, b or c`.
pub(super) fn write_words<'a>(
    f: &mut fmt::Formatter<'_>,
    words: impl Iterator<Item = &'a str>,
    before_last: &str,
) -> fmt::Result {
    let mut words = words.peekable();
    let mut first = true;
    while let Some(word) = words.next() {
        let separator = match (first, words.peek()) {
            (true, _) => "",
            (false, Some(_)) => ", ",
            (false, None) => before_last,
        };
        first = false;
        write!(f, "{separator}{word}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Own;

    #[test]
    fn each_word_stands_for_one_algorithm_in_any_case() {
        for Known { word, algo, .. } in &KNOWN {
            assert!(word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word}");
            assert_eq!(Algo::find(word.as_bytes()), Some(*algo));
            assert_eq!(Algo::find(word.to_uppercase().as_bytes()), Some(*algo));
            assert!(algo.alias.is_none() || algo.algorithm.own() != Own::None, "{word}");
        }
        let aliases = Algorithm::ALL.iter().filter(|algorithm| algorithm.alias().is_some());
        assert_eq!(KNOWN.len(), Algorithm::ALL.len() + aliases.count());
        for other in ["", "slidin", "slidings", "sl1ding", "fixed ", "concxxxency"] {
            assert_eq!(Algo::find(other.as_bytes()), None, "{other:?}");
        }
    }
}
