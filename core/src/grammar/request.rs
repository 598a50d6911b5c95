//! The part of a request besides its rules.

use super::error::RequestError;

/// The options of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// `UPTO`, by default 1.
    pub upto: u64,
    /// `ID`
    pub id: Option<&'a [u8]>,
    /// `XX`
    pub only_renew: bool,
    /// `RESERVE` in ms, by default 0.
    pub reserve_ms: i64,
    /// `TIMEOUT` in ms, by default 0; 0 with `XX`.
    pub timeout_ms: i64,
    /// `FORCE`
    pub force: bool,
    /// `WITHKEYS`
    pub with_keys: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            upto: 1,
            id: None,
            only_renew: false,
            reserve_ms: 0,
            timeout_ms: 0,
            force: false,
            with_keys: false,
        }
    }
}

/// A request for permits. Its keys are the first arguments; its rules are passed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The number of keys.
    pub keys: usize,
    /// The options, which apply to all keys.
    pub options: Options<'a>,
}

impl<'a> Request<'a> {
    /// A request over `keys` keys by one rule, without options.
    pub(crate) fn plain(keys: usize) -> Request<'a> {
        Request { keys, options: Options::default() }
    }

    /// A request over `keys` keys by `rules` rules.
    ///
    /// # Errors
    /// There is neither one rule nor one for each key.
    pub fn new(
        keys: usize,
        rules: usize,
        options: Options<'a>,
    ) -> Result<Request<'a>, Box<RequestError>> {
        match rules == 1 || rules == keys {
            true => Ok(Request { keys, options }),
            false => Err(RequestError::RuleCount { keys, rules }.into()),
        }
    }
}
