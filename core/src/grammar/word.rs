//! The option words of all commands.

use std::fmt;

/// An option word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// `WINDOW ms`
    Window,
    /// `LIMIT n`
    Limit,
    /// `ALGO algorithm`
    Algo,
    /// `BURST n`
    Burst,
    /// `OFFSET ms`
    Offset,
    /// `BLOCK ms`
    Block,
    /// `COST n`
    Cost,
    /// `NAME name`
    Name,
    /// `UPTO n`
    Upto,
    /// `ID id`
    Id,
    /// `XX`
    Xx,
    /// `RESERVE ms`
    Reserve,
    /// `TIMEOUT ms`
    Timeout,
    /// `FORCE`
    Force,
    /// `WITHKEYS`
    WithKeys,
    /// `FOR ms`
    For,
    /// `SHADOW`
    Shadow,
    /// `COUNT n`
    Count,
}

const WORDS: [(Word, &str); 18] = [
    (Word::Window, "WINDOW"),
    (Word::Limit, "LIMIT"),
    (Word::Algo, "ALGO"),
    (Word::Burst, "BURST"),
    (Word::Offset, "OFFSET"),
    (Word::Block, "BLOCK"),
    (Word::Cost, "COST"),
    (Word::Name, "NAME"),
    (Word::Upto, "UPTO"),
    (Word::Id, "ID"),
    (Word::Xx, "XX"),
    (Word::Reserve, "RESERVE"),
    (Word::Timeout, "TIMEOUT"),
    (Word::Force, "FORCE"),
    (Word::WithKeys, "WITHKEYS"),
    (Word::For, "FOR"),
    (Word::Shadow, "SHADOW"),
    (Word::Count, "COUNT"),
];

const LONGEST_WORD: usize = 8;

/// The letters of up to eight bytes in one number, whatever their case; each call uses it to tell
/// keys from words. The number consists of the first four bytes and the last four, which may
/// overlap, so only numbers of words of equal length may be compared. A byte that is no letter
/// never folds to one.
pub(super) const fn folded(bytes: &[u8]) -> u64 {
    let letters = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            (u32::from_be_bytes(*first) as u64) << 32 | u32::from_be_bytes(*last) as u64
        }
        _ => {
            let mut letters = 0;
            let mut i = 0;
            while i < bytes.len() {
                letters = letters << 8 | bytes[i] as u64;
                i += 1;
            }
            letters
        }
    };
    letters & !0x2020_2020_2020_2020
}

const FOLDED: [u64; WORDS.len()] = {
    let mut all = [0; WORDS.len()];
    let mut i = 0;
    while i < WORDS.len() {
        all[i] = folded(WORDS[i].1.as_bytes());
        i += 1;
    }
    all
};

impl Word {
    /// The word that these bytes spell, in any case.
    pub fn parse(bytes: &[u8]) -> Option<Word> {
        if bytes.len() > LONGEST_WORD {
            return None;
        }
        let folded = folded(bytes);
        let (word, text) = WORDS.get(FOLDED.iter().position(|known| *known == folded)?)?;
        (text.len() == bytes.len()).then_some(*word)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = WORDS.iter().find(|(word, _)| word == self).map_or("", |(_, text)| text);
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_in_any_case_and_spell_themselves() {
        for (word, text) in WORDS {
            assert!(text.len() <= LONGEST_WORD);
            assert_eq!(Word::parse(text.as_bytes()), Some(word));
            assert_eq!(Word::parse(text.to_lowercase().as_bytes()), Some(word));
            assert_eq!(word.to_string(), text);
        }
        for other in ["", "WINDOWS", "WINDOW ", " LIMIT", "LIMIT\0", "W1NDOW", "withkeysx"] {
            assert_eq!(Word::parse(other.as_bytes()), None, "{other:?}");
        }
    }
}
