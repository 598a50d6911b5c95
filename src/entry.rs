//! The declaration of a command: its name, flags and keys, and what the server tells clients about
//! it.

use std::ffi::CStr;

use libc::c_int;
use redis_module::raw;

/// The declaration of a command.
pub struct Entry {
    /// In lower case. The name of a subcommand comes without that of its parent.
    pub name: &'static CStr,
    /// In the form of `RedisModule_CreateCommand`: separated by spaces.
    pub flags: &'static CStr,
    /// The position of its keys.
    pub keys: KeyRange,
    /// The contents of `COMMAND DOCS`.
    pub docs: Docs,
}

/// The position of a command's keys. The cluster code looks at nothing else.
#[derive(Clone, Copy)]
pub struct KeyRange {
    /// The position of the first key, counted from the command's name; 0 without keys.
    pub first: c_int,
    /// The position of the last key, counted from the end if negative.
    pub last: c_int,
    /// The distance from each key to the next.
    pub step: c_int,
    /// How the command uses the keys: `REDISMODULE_CMD_KEY_*`.
    pub access: u32,
}

/// Keys that are only read.
pub const READ: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;

/// Keys whose value is read and changed.
pub const UPDATE: u32 =
    raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE;

impl KeyRange {
    /// No keys.
    pub const NONE: KeyRange = KeyRange { first: 0, last: 0, step: 0, access: 0 };

    /// The first argument.
    pub const fn first(access: u32) -> KeyRange {
        KeyRange { first: 1, last: 1, step: 1, access }
    }

    /// All arguments but the last `tail`.
    pub const fn but_last(tail: c_int, access: u32) -> KeyRange {
        KeyRange { first: 1, last: -1 - tail, step: 1, access }
    }
}

/// The documentation of a command, as the server shows it.
pub struct Docs {
    /// One sentence.
    pub summary: &'static CStr,
    /// How its running time grows.
    pub complexity: &'static CStr,
    /// The number of arguments including the name. If negative, the smallest number.
    pub arity: c_int,
    /// The syntax.
    pub args: &'static [Arg],
}

/// An argument in the syntax of a command.
#[derive(Clone, Copy)]
pub struct Arg {
    /// The name of its value.
    pub name: &'static CStr,
    /// The kind of its value.
    pub kind: Kind,
    /// The word before the value.
    pub token: Option<&'static CStr>,
    /// `REDISMODULE_CMD_ARG_*`.
    pub flags: u32,
    /// Text shown beside the syntax. [`ALGORITHMS`] in it stands for the words of the algorithms.
    pub summary: Option<&'static str>,
}

/// A placeholder in a summary, for the words that `ALGO` takes.
pub const ALGORITHMS: &str = "{algorithms}";

/// The kinds of an argument.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A key.
    Key,
    /// A whole number.
    Integer,
    /// Any bytes.
    Text,
    /// A word that stands for itself.
    Token,
    /// A word that `ALGO` takes.
    Algorithm,
    /// A word that `ALGO` takes, of an algorithm without leases.
    SpendingAlgorithm,
    /// Arguments that go together.
    Block(&'static [Arg]),
}

impl Arg {
    /// Says that the argument can come several times.
    pub const fn many(self) -> Arg {
        Arg { flags: self.flags | raw::REDISMODULE_CMD_ARG_MULTIPLE, ..self }
    }

    /// Says that the argument can be left out.
    pub const fn optional(self) -> Arg {
        Arg { flags: self.flags | raw::REDISMODULE_CMD_ARG_OPTIONAL, ..self }
    }
}

/// An argument known by its position.
pub const fn value(name: &'static CStr, kind: Kind) -> Arg {
    Arg { name, kind, token: None, flags: 0, summary: None }
}

/// A word and the value after it.
pub const fn pair(name: &'static CStr, token: &'static CStr, kind: Kind) -> Arg {
    Arg { token: Some(token), ..value(name, kind) }
}

/// Rules and options in one argument. The summary shows their grammar, since the server cannot.
pub const fn rules(grammar: &'static str) -> Arg {
    Arg { summary: Some(grammar), ..value(c"rules", Kind::Text) }
}

/// One key.
pub const KEY: Arg = value(c"key", Kind::Key);

/// One key or more.
pub const KEYS: Arg = KEY.many();

/// The window of a rule.
pub const WINDOW: Arg = pair(c"window", c"WINDOW", Kind::Integer);

/// The limit of a rule.
pub const LIMIT: Arg = pair(c"limit", c"LIMIT", Kind::Integer);

/// The complexity of a command that does the same to each key.
pub const PER_KEY: &CStr = c"O(N) with N the number of keys";
