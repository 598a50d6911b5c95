//! The table of commands: names, flags, keys, and what the server tells clients about them.

use std::ffi::CStr;

use libc::c_int;
use redis_module::raw;

use crate::keys::Access;

/// A command as the server is told about it.
pub struct Entry {
    pub name: &'static CStr,
    pub flags: &'static CStr,
    pub keys: Keys,
    pub docs: Docs,
}

/// Where the keys of a command are.
#[derive(Clone, Copy)]
pub struct Keys {
    /// First, last (negative: from the end) and step, for the cluster code and for clients.
    pub range: (c_int, c_int, c_int),
    /// What is done to them: `REDISMODULE_CMD_KEY_*`.
    pub access: u32,
}

const READ: u32 = Access::Read.flags();
const UPDATE: u32 = Access::Write.flags();

impl Keys {
    /// All arguments but the last `tail`.
    const fn but_last(tail: c_int, access: u32) -> Keys {
        Keys { range: (1, -1 - tail, 1), access }
    }

    /// There are none.
    pub const NONE: Keys = Keys { range: (0, 0, 0), access: 0 };
}

/// What a server shows about a command.
pub struct Docs {
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    pub arity: c_int,
    pub args: &'static [Arg],
}

/// An argument in the syntax of a command.
pub struct Arg {
    pub name: &'static CStr,
    pub kind: Kind,
    pub token: Option<&'static CStr>,
    pub flags: u32,
    pub summary: Option<&'static CStr>,
}

pub enum Kind {
    Key,
    Integer,
    Text,
    /// A word that stands for itself.
    Token,
    OneOf(&'static [Arg]),
    /// Arguments that go together.
    Block(&'static [Arg]),
}

const MANY: u32 = raw::REDISMODULE_CMD_ARG_MULTIPLE;
const OPTIONAL: u32 = raw::REDISMODULE_CMD_ARG_OPTIONAL;

const fn pair(name: &'static CStr, token: &'static CStr, kind: Kind) -> Arg {
    Arg { name, kind, token: Some(token), flags: 0, summary: None }
}

const fn option(name: &'static CStr, token: &'static CStr, kind: Kind) -> Arg {
    Arg { name, kind, token: Some(token), flags: OPTIONAL, summary: None }
}

const fn word(name: &'static CStr) -> Arg {
    pair(name, name, Kind::Token)
}

const fn number(name: &'static CStr) -> Arg {
    Arg { name, kind: Kind::Integer, token: None, flags: 0, summary: None }
}

const KEY: Arg = Arg { name: c"key", kind: Kind::Key, token: None, flags: 0, summary: None };
const KEYS: Arg = Arg { flags: MANY, ..KEY };
const WINDOW: Arg = pair(c"window", c"WINDOW", Kind::Integer);
const LIMIT: Arg = pair(c"limit", c"LIMIT", Kind::Integer);
const HOLD: &[Arg] = &[KEYS, pair(c"duration", c"FOR", Kind::Integer)];

/// Rules and options as they stand in one argument, for those who look at a command's syntax.
const fn rules(grammar: &'static CStr) -> Arg {
    Arg { name: c"rules", kind: Kind::Text, token: None, flags: 0, summary: Some(grammar) }
}

/// The algorithms of `RL.ACQUIRE`: those without leases.
const SPENDING: &[Arg] = ALGORITHMS.split_at(5).0;

const ALGORITHMS: &[Arg] = &[
    word(c"sliding"),
    word(c"bucket"),
    word(c"leaky"),
    word(c"fixed"),
    word(c"counter"),
    word(c"concurrency"),
];

const PER_KEY: &CStr = c"O(N) with N the number of keys";

pub const ACQUIRE: Entry = Entry {
    name: c"rl.acquire",
    flags: c"write fast",
    keys: Keys::but_last(6, UPDATE),
    docs: Docs {
        summary: c"Takes a permit from each limiter, or from none if one of them has no room",
        complexity: PER_KEY,
        arity: -8,
        args: &[KEYS, WINDOW, LIMIT, pair(c"algo", c"ALGO", Kind::OneOf(SPENDING))],
    },
};

pub const ACQUIREX: Entry = Entry {
    name: c"rl.acquirex",
    flags: c"write blocking",
    keys: Keys::but_last(1, UPDATE),
    docs: Docs {
        summary: c"Takes permits from each limiter by its own rule, or from none",
        complexity: PER_KEY,
        arity: -3,
        args: &[
            KEYS,
            rules(
                c"One rule, or one for each key: WINDOW ms LIMIT n ALGO \
                sliding|bucket|leaky|fixed|counter|concurrency [BURST n] [OFFSET ms] [BLOCK ms] \
                [COST n] [NAME name]; then [UPTO n] [ID id] [XX] [RESERVE ms] [TIMEOUT ms] [FORCE] \
                [WITHKEYS]",
            ),
        ],
    },
};

pub const THROTTLE: Entry = Entry {
    name: c"cl.throttle",
    flags: c"write fast",
    keys: Keys { range: (1, 1, 1), access: UPDATE },
    docs: Docs {
        summary: c"Takes permits from a bucket, called and answered as by redis-cell",
        complexity: c"O(1)",
        arity: -5,
        args: &[
            KEY,
            number(c"max-burst"),
            number(c"count"),
            number(c"period"),
            Arg { flags: OPTIONAL, ..number(c"quantity") },
        ],
    },
};

pub const PEEK: Entry = Entry {
    name: c"rl.peek",
    flags: c"readonly",
    keys: Keys::but_last(1, READ),
    docs: Docs {
        summary: c"Tells what RL.ACQUIREX would answer, and changes nothing",
        complexity: PER_KEY,
        arity: -3,
        args: &[
            KEYS,
            rules(
                c"One rule, or one for each key, as in RL.ACQUIREX; then [UPTO n] [ID id] \
                [WITHKEYS]",
            ),
        ],
    },
};

pub const REFUND: Entry = Entry {
    name: c"rl.refund",
    flags: c"write fast",
    keys: Keys::but_last(2, UPDATE),
    docs: Docs {
        summary: c"Gives permits back to each limiter, never above full",
        complexity: PER_KEY,
        arity: -4,
        args: &[KEYS, pair(c"cost", c"COST", Kind::Integer)],
    },
};

pub const RELEASE: Entry = Entry {
    name: c"rl.release",
    flags: c"write fast",
    keys: Keys::but_last(2, UPDATE),
    docs: Docs {
        summary: c"Ends a lease on each concurrency limiter",
        complexity: PER_KEY,
        arity: -4,
        args: &[KEYS, pair(c"id", c"ID", Kind::Text)],
    },
};

pub const BLOCK: Entry = Entry {
    name: c"rl.block",
    flags: c"write fast",
    keys: Keys::but_last(2, UPDATE),
    docs: Docs {
        summary: c"Denies everything on each limiter for a time",
        complexity: PER_KEY,
        arity: -4,
        args: HOLD,
    },
};

pub const EXEMPT: Entry = Entry {
    name: c"rl.exempt",
    flags: c"write fast",
    keys: Keys::but_last(2, UPDATE),
    docs: Docs {
        summary: c"Lets everything through each limiter, uncounted, for a time",
        complexity: PER_KEY,
        arity: -4,
        args: HOLD,
    },
};

pub const INFO: Entry = Entry {
    name: c"rl.info",
    flags: c"readonly fast",
    keys: Keys { range: (1, 1, 1), access: READ },
    docs: Docs {
        summary: c"Tells the rule and the state of a limiter",
        complexity: c"O(1), O(N) for leases and old entries of a log",
        arity: 2,
        args: &[KEY],
    },
};

pub const EFFECT: Entry = Entry {
    name: c"rl._effect",
    flags: c"write",
    keys: Keys { range: (1, -1, 2), access: UPDATE },
    docs: Docs {
        summary:
            c"Not for clients: the results of a call, from a primary to its replicas and to the AOF",
        complexity: PER_KEY,
        arity: -1,
        args: &[Arg {
            name: c"effect",
            kind: Kind::Block(&[KEY, Arg { name: c"blob", kind: Kind::Text, ..KEY }]),
            token: None,
            flags: MANY,
            summary: None,
        }],
    },
};

pub const POLICY: Entry = Entry {
    name: c"rl.policy",
    flags: c"",
    keys: Keys::NONE,
    docs: Docs {
        summary: c"Replaces the numbers of the rules that carry a name, while the server runs",
        complexity: c"depends on the subcommand",
        arity: -2,
        args: &[],
    },
};

const NAME: Arg = Arg { name: c"name", kind: Kind::Text, token: None, flags: 0, summary: None };

pub const POLICY_SET: Entry = Entry {
    name: c"set",
    flags: c"write admin",
    keys: Keys::NONE,
    docs: Docs {
        summary: c"Sets the numbers of the rules that carry a name",
        complexity: c"O(N) with N the number of policies",
        arity: -9,
        args: &[
            NAME,
            WINDOW,
            LIMIT,
            pair(c"algo", c"ALGO", Kind::OneOf(ALGORITHMS)),
            option(c"burst", c"BURST", Kind::Integer),
            option(c"offset", c"OFFSET", Kind::Integer),
            option(c"block", c"BLOCK", Kind::Integer),
            option(c"shadow", c"SHADOW", Kind::Token),
            option(c"duration", c"FOR", Kind::Integer),
        ],
    },
};

pub const POLICY_DEL: Entry = Entry {
    name: c"del",
    flags: c"write admin",
    keys: Keys::NONE,
    docs: Docs {
        summary: c"Goes back to the numbers that applications send",
        complexity: c"O(N) with N the number of policies",
        arity: -3,
        args: &[Arg { flags: MANY, ..NAME }],
    },
};

pub const POLICY_GET: Entry = Entry {
    name: c"get",
    flags: c"readonly admin",
    keys: Keys::NONE,
    docs: Docs {
        summary: c"Tells the numbers that are set for a name",
        complexity: c"O(1)",
        arity: 3,
        args: &[NAME],
    },
};

pub const POLICY_LIST: Entry = Entry {
    name: c"list",
    flags: c"readonly admin",
    keys: Keys::NONE,
    docs: Docs {
        summary: c"Tells all names with the numbers that are set for them",
        complexity: c"O(N log N) with N the number of policies",
        arity: 2,
        args: &[],
    },
};

pub const TOP: Entry = Entry {
    name: c"rl.top",
    flags: c"readonly admin",
    keys: Keys::NONE,
    docs: Docs {
        summary: c"Tells the keys that were denied most",
        complexity: c"O(N log N) with N the number of tracked keys",
        arity: -1,
        args: &[option(c"count", c"COUNT", Kind::Integer)],
    },
};

pub const POLICY_HELP: Entry = Entry {
    name: c"help",
    flags: c"allow-loading allow-stale",
    keys: Keys::NONE,
    docs: Docs {
        summary: c"Tells about the subcommands",
        complexity: c"O(1)",
        arity: 2,
        args: &[],
    },
};

pub const APPLY_POLICY: Entry = Entry {
    name: c"rl._policy",
    flags: c"write",
    keys: Keys::NONE,
    docs: Docs {
        summary: c"Not for clients: policies, from a primary to its replicas and to the AOF",
        complexity: c"O(N) with N the number of policies that changed",
        arity: -1,
        args: &[],
    },
};
