//! The table of commands, and what the server tells clients about them (`COMMAND DOCS`).
//!
//! Registered by hand: the crate's macro needs a function that servers before 7.2 lack.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use redis_module::{Context, Status, raw};

use crate::call::{self, Command, api};
use crate::commands::acquire::{Acquire, AcquireX, Peek};
use crate::commands::effect::ApplyEffect;
use crate::commands::info::Info;
use crate::commands::manage::{Block, Exempt, Refund, Release};
use crate::keys::Access;
use crate::limiter_type;

/// The first release with the commands of this version.
const SINCE: &CStr = c"0.1.0";

/// A command as the server is told about it.
struct Entry {
    name: &'static CStr,
    flags: &'static CStr,
    keys: Keys,
    docs: Option<Docs>,
}

/// Where the keys of a command are.
#[derive(Clone, Copy)]
struct Keys {
    /// First, last (negative: from the end) and step, for the cluster code and for clients.
    range: (c_int, c_int, c_int),
    /// What is done to them: `REDISMODULE_CMD_KEY_*`.
    access: u32,
}

const READ: u32 = Access::Read.flags();
const UPDATE: u32 = Access::Write.flags();

impl Keys {
    /// All arguments but the last `tail`.
    const fn but_last(tail: c_int) -> Keys {
        Keys { range: (1, -1 - tail, 1), access: UPDATE }
    }

    /// Found by the command itself (`getkeys-api`): the range names the first key only, which is
    /// what clients route by.
    const fn movable(access: u32) -> Keys {
        Keys { range: (1, 1, 1), access: access | raw::REDISMODULE_CMD_KEY_INCOMPLETE }
    }
}

/// What a server shows about a command.
struct Docs {
    summary: &'static CStr,
    complexity: &'static CStr,
    arity: c_int,
    args: &'static [Arg],
}

/// An argument in the syntax of a command.
struct Arg {
    name: &'static CStr,
    kind: Kind,
    token: Option<&'static CStr>,
    flags: u32,
}

enum Kind {
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
    Arg { name, kind, token: Some(token), flags: 0 }
}

const fn option(name: &'static CStr, token: &'static CStr, kind: Kind) -> Arg {
    Arg { name, kind, token: Some(token), flags: OPTIONAL }
}

const fn word(name: &'static CStr) -> Arg {
    pair(name, name, Kind::Token)
}

const KEY: Arg = Arg { name: c"key", kind: Kind::Key, token: None, flags: 0 };
const KEYS: Arg = Arg { flags: MANY, ..KEY };
const WINDOW: Arg = pair(c"window", c"WINDOW", Kind::Integer);
const LIMIT: Arg = pair(c"limit", c"LIMIT", Kind::Integer);
const WITH_KEYS: Arg = option(c"withkeys", c"WITHKEYS", Kind::Token);
const UPTO: Arg = option(c"upto", c"UPTO", Kind::Integer);
const LEASE: Arg = option(c"id", c"ID", Kind::Text);
const HOLD: &[Arg] = &[KEYS, pair(c"duration", c"FOR", Kind::Integer)];

const RULE: Arg = Arg {
    name: c"rule",
    token: None,
    flags: MANY,
    kind: Kind::Block(&[
        WINDOW,
        LIMIT,
        pair(
            c"algo",
            c"ALGO",
            Kind::OneOf(&[
                word(c"sliding"),
                word(c"bucket"),
                word(c"leaky"),
                word(c"fixed"),
                word(c"counter"),
                word(c"concurrency"),
            ]),
        ),
        option(c"burst", c"BURST", Kind::Integer),
        option(c"offset", c"OFFSET", Kind::Integer),
        option(c"block", c"BLOCK", Kind::Integer),
        option(c"cost", c"COST", Kind::Integer),
        option(c"name", c"NAME", Kind::Text),
    ]),
};

const PER_KEY: &CStr = c"O(N) with N the number of keys";

const ACQUIRE: Entry = Entry {
    name: c"rl.acquire",
    flags: c"write fast",
    keys: Keys::but_last(6),
    docs: Some(Docs {
        summary: c"Takes a permit from each limiter, or from none if one of them has no room",
        complexity: PER_KEY,
        arity: -8,
        args: &[
            KEYS,
            WINDOW,
            LIMIT,
            pair(
                c"algo",
                c"ALGO",
                Kind::OneOf(&[
                    word(c"sliding"),
                    word(c"bucket"),
                    word(c"leaky"),
                    word(c"fixed"),
                    word(c"counter"),
                ]),
            ),
        ],
    }),
};

const ACQUIREX: Entry = Entry {
    name: c"rl.acquirex",
    flags: c"write getkeys-api",
    keys: Keys::movable(UPDATE),
    docs: Some(Docs {
        summary: c"Takes permits from each limiter by its own rule, or from none",
        complexity: PER_KEY,
        arity: -8,
        args: &[
            KEYS,
            RULE,
            UPTO,
            LEASE,
            option(c"reserve", c"RESERVE", Kind::Integer),
            option(c"force", c"FORCE", Kind::Token),
            WITH_KEYS,
        ],
    }),
};

const PEEK: Entry = Entry {
    name: c"rl.peek",
    flags: c"readonly getkeys-api",
    keys: Keys::movable(READ),
    docs: Some(Docs {
        summary: c"Tells what RL.ACQUIREX would answer, and changes nothing",
        complexity: PER_KEY,
        arity: -8,
        args: &[KEYS, RULE, UPTO, LEASE, WITH_KEYS],
    }),
};

const REFUND: Entry = Entry {
    name: c"rl.refund",
    flags: c"write fast",
    keys: Keys::but_last(2),
    docs: Some(Docs {
        summary: c"Gives permits back to each limiter, never above full",
        complexity: PER_KEY,
        arity: -4,
        args: &[KEYS, pair(c"cost", c"COST", Kind::Integer)],
    }),
};

const RELEASE: Entry = Entry {
    name: c"rl.release",
    flags: c"write fast",
    keys: Keys::but_last(2),
    docs: Some(Docs {
        summary: c"Ends a lease on each concurrency limiter",
        complexity: PER_KEY,
        arity: -4,
        args: &[KEYS, pair(c"id", c"ID", Kind::Text)],
    }),
};

const BLOCK: Entry = Entry {
    name: c"rl.block",
    flags: c"write fast",
    keys: Keys::but_last(2),
    docs: Some(Docs {
        summary: c"Denies everything on each limiter for a time",
        complexity: PER_KEY,
        arity: -4,
        args: HOLD,
    }),
};

const EXEMPT: Entry = Entry {
    name: c"rl.exempt",
    flags: c"write fast",
    keys: Keys::but_last(2),
    docs: Some(Docs {
        summary: c"Lets everything through each limiter, uncounted, for a time",
        complexity: PER_KEY,
        arity: -4,
        args: HOLD,
    }),
};

const INFO: Entry = Entry {
    name: c"rl.info",
    flags: c"readonly fast",
    keys: Keys { range: (1, 1, 1), access: READ },
    docs: Some(Docs {
        summary: c"Tells the rule and the state of a limiter",
        complexity: c"O(1), O(N) for leases and old entries of a log",
        arity: 2,
        args: &[KEY],
    }),
};

const EFFECT: Entry = Entry {
    name: c"rl._effect",
    flags: c"write",
    keys: Keys { range: (1, -1, 2), access: UPDATE },
    docs: None,
};

/// The module takes part in the atomic slot migration of Valkey 9.1 and later: values travel as
/// effects, which are applied as they come. The bit is not in the header that the crate ships.
const ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;

/// Tells the server what the module can deal with.
fn set_options(ctx: &Context) {
    // SAFETY: `ctx` is the context of the load; the API table is only read.
    unsafe {
        let known = raw::RedisModule_GetModuleOptionsAll.map_or(0, |all| all() as u32);
        let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
            | known & ATOMIC_SLOT_MIGRATION;
        api!(RedisModule_SetModuleOptions)(ctx.ctx, options as c_int);
    }
}

/// Registers the data type and the commands.
pub fn register(ctx: &Context) -> Result<(), String> {
    set_options(ctx);
    limiter_type::register(ctx.ctx)?;
    command::<Acquire>(ctx, &ACQUIRE)?;
    command::<AcquireX>(ctx, &ACQUIREX)?;
    command::<Peek>(ctx, &PEEK)?;
    command::<Refund>(ctx, &REFUND)?;
    command::<Release>(ctx, &RELEASE)?;
    command::<Block>(ctx, &BLOCK)?;
    command::<Exempt>(ctx, &EXEMPT)?;
    command::<Info>(ctx, &INFO)?;
    command::<ApplyEffect>(ctx, &EFFECT)
}

fn command<C: Command>(ctx: &Context, entry: &Entry) -> Result<(), String> {
    let Entry { name, flags, keys, docs } = entry;
    let failed = |what: &str| format!("the server refused {what} of {name:?}");
    let (first, last, step) = keys.range;
    // SAFETY: `ctx` is the context of the load; the server copies the strings.
    let created = unsafe {
        let (name, flags, run) = (name.as_ptr(), flags.as_ptr(), Some(call::entry::<C> as _));
        api!(RedisModule_CreateCommand)(ctx.ctx, name, run, flags, first, last, step)
    };
    if created != Status::Ok as c_int {
        return Err(failed("the command"));
    }
    // SAFETY: as above; the command exists by now.
    let command = unsafe { api!(RedisModule_GetCommand)(ctx.ctx, name.as_ptr()) };
    if let Some(docs) = docs
        && !set_docs(command, *keys, docs)
    {
        return Err(failed("the documentation"));
    }
    set_categories(command, flags);
    Ok(())
}

/// Puts a command into the ACL categories of its flags, on servers that let modules do so (7.2).
fn set_categories(command: *mut raw::RedisModuleCommand, flags: &CStr) {
    let flags = flags.to_string_lossy();
    let categories = flags.split(' ').filter_map(|flag| match flag {
        "write" | "fast" => Some(flag),
        "readonly" => Some("read"),
        _ => None,
    });
    let categories = categories.collect::<Vec<_>>().join(" ");
    let categories = CString::new(categories).unwrap_or_default();
    // SAFETY: the API table is only read; the server copies the string.
    unsafe {
        if let Some(set) = raw::RedisModule_SetCommandACLCategories {
            set(command, categories.as_ptr());
        }
    }
}

fn set_docs(command: *mut raw::RedisModuleCommand, keys: Keys, docs: &Docs) -> bool {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut key_specs = [key_spec(keys), zeroed()];
    let mut args = Args::new(docs.args);
    let info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: docs.summary.as_ptr(),
        complexity: docs.complexity.as_ptr(),
        since: SINCE.as_ptr(),
        arity: docs.arity,
        key_specs: key_specs.as_mut_ptr(),
        args: args.list.as_mut_ptr(),
        ..zeroed()
    };
    // SAFETY: the server copies all of it.
    let set = unsafe { api!(RedisModule_SetCommandInfo)(command, &info) };
    set == Status::Ok as c_int
}

fn key_spec(keys: Keys) -> raw::RedisModuleCommandKeySpec {
    let (first, last, step) = keys.range;
    let mut spec = raw::RedisModuleCommandKeySpec {
        flags: keys.access.into(),
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
        ..zeroed()
    };
    spec.bs.index.pos = first;
    // Relative to the first key, unless counted from the end.
    spec.fk.range.lastkey = if last < 0 { last } else { last - first };
    spec.fk.range.keystep = step;
    spec
}

/// The arguments as the server wants them: a list that ends with zeroes, each with such a list of
/// its own.
struct Args {
    list: Vec<raw::RedisModuleCommandArg>,
    _nested: Vec<Args>,
}

impl Args {
    fn new(args: &[Arg]) -> Args {
        let (mut list, mut nested) = (Vec::new(), Vec::new());
        for arg in args {
            let (kind, inner) = match arg.kind {
                Kind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, None),
                Kind::Integer => {
                    (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER, None)
                }
                Kind::Text => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING, None),
                Kind::Token => {
                    (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN, None)
                }
                Kind::OneOf(choices) => {
                    (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, Some(choices))
                }
                Kind::Block(parts) => {
                    (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK, Some(parts))
                }
            };
            let mut subargs = ptr::null_mut();
            if let Some(inner) = inner {
                let mut inner = Args::new(inner);
                subargs = inner.list.as_mut_ptr();
                nested.push(inner);
            }
            list.push(raw::RedisModuleCommandArg {
                name: arg.name.as_ptr(),
                type_: kind,
                key_spec_index: if matches!(arg.kind, Kind::Key) { 0 } else { -1 },
                token: arg.token.map_or(ptr::null(), |token| token.as_ptr() as *const c_char),
                flags: arg.flags as c_int,
                subargs,
                ..zeroed()
            });
        }
        list.push(zeroed());
        Args { list, _nested: nested }
    }
}

/// A C struct of pointers and numbers with nothing filled in.
trait Zeroable {}
impl Zeroable for raw::RedisModuleCommandArg {}
impl Zeroable for raw::RedisModuleCommandKeySpec {}
impl Zeroable for raw::RedisModuleCommandInfo {}

fn zeroed<T: Zeroable>() -> T {
    // SAFETY: all-zero bytes are null pointers and zeroes, which these structs allow everywhere.
    unsafe { std::mem::zeroed() }
}
