//! The table of commands, and what the server tells clients about them (`COMMAND DOCS`).
//!
//! Registered by hand: the crate's macro needs a function that servers before 7.2 lack.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use redis_module::{Context, Status, raw};

use crate::call::{Command, api, entry};
use crate::commands::acquire::Acquire;
use crate::commands::effect::ApplyEffect;
use crate::limiter_type;

/// The first release with the commands of this version.
const SINCE: &CStr = c"0.1.0";

/// Where the keys of a command are, as `COMMAND` tells it: first, last (negative: from the end) and step.
type Range = (c_int, c_int, c_int);

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
    multiple: bool,
}

enum Kind {
    Key,
    Integer,
    /// A word that stands for itself.
    Token,
    OneOf(&'static [Arg]),
}

const fn option(name: &'static CStr, token: &'static CStr, kind: Kind) -> Arg {
    Arg { name, kind, token: Some(token), multiple: false }
}

const fn word(name: &'static CStr, token: &'static CStr) -> Arg {
    option(name, token, Kind::Token)
}

const KEYS: Arg = Arg { name: c"key", kind: Kind::Key, token: None, multiple: true };

const ALGORITHMS: &[Arg] = &[
    word(c"sliding", c"sliding"),
    word(c"bucket", c"bucket"),
    word(c"leaky", c"leaky"),
    word(c"fixed", c"fixed"),
    word(c"counter", c"counter"),
];

const ACQUIRE: Docs = Docs {
    summary: c"Takes a permit from each limiter, or from none if one of them has no room",
    complexity: c"O(N) with N the number of keys",
    arity: -8,
    args: &[
        KEYS,
        option(c"window", c"WINDOW", Kind::Integer),
        option(c"limit", c"LIMIT", Kind::Integer),
        option(c"algo", c"ALGO", Kind::OneOf(ALGORITHMS)),
    ],
};

/// Registers the data type and the commands.
pub fn register(ctx: &Context) -> Result<(), String> {
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED;
    // SAFETY: `ctx` is the context of the load.
    unsafe { api!(RedisModule_SetModuleOptions)(ctx.ctx, options as c_int) };
    limiter_type::register(ctx.ctx)?;
    command::<Acquire>(ctx, c"rl.acquire", c"write fast", (1, -7, 1), Some(&ACQUIRE))?;
    command::<ApplyEffect>(ctx, c"rl._effect", c"write", (1, -1, 2), None)
}

fn command<C: Command>(
    ctx: &Context,
    name: &CStr,
    flags: &CStr,
    keys: Range,
    docs: Option<&Docs>,
) -> Result<(), String> {
    let failed = |what: &str| format!("the server refused {what} of {name:?}");
    let (first, last, step) = keys;
    // SAFETY: `ctx` is the context of the load; the server copies the strings.
    let created = unsafe {
        let (name, flags, run) = (name.as_ptr(), flags.as_ptr(), Some(entry::<C> as _));
        api!(RedisModule_CreateCommand)(ctx.ctx, name, run, flags, first, last, step)
    };
    if created != Status::Ok as c_int {
        return Err(failed("the command"));
    }
    // SAFETY: as above; the command exists by now.
    let command = unsafe { api!(RedisModule_GetCommand)(ctx.ctx, name.as_ptr()) };
    if let Some(docs) = docs
        && !set_docs(command, keys, docs)
    {
        return Err(failed("the documentation"));
    }
    set_categories(command, flags);
    Ok(())
}

/// Puts a command into the ACL categories of its flags, on servers that let modules do so (7.2).
fn set_categories(command: *mut raw::RedisModuleCommand, flags: &CStr) {
    // SAFETY: the API table is only read; the server copies the string.
    unsafe {
        if let Some(set) = raw::RedisModule_SetCommandACLCategories {
            set(command, flags.as_ptr());
        }
    }
}

fn set_docs(command: *mut raw::RedisModuleCommand, keys: Range, docs: &Docs) -> bool {
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

fn key_spec((first, last, step): Range) -> raw::RedisModuleCommandKeySpec {
    let flags = raw::REDISMODULE_CMD_KEY_RW
        | raw::REDISMODULE_CMD_KEY_ACCESS
        | raw::REDISMODULE_CMD_KEY_UPDATE;
    let mut spec = raw::RedisModuleCommandKeySpec {
        flags: flags.into(),
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
        ..zeroed()
    };
    spec.bs.index.pos = first;
    spec.fk.range.lastkey = last;
    spec.fk.range.keystep = step;
    spec
}

/// The arguments as the server wants them: a list that ends with zeroes, each with such a list of its own.
struct Args {
    list: Vec<raw::RedisModuleCommandArg>,
    _nested: Vec<Args>,
}

impl Args {
    fn new(args: &[Arg]) -> Args {
        let (mut list, mut nested) = (Vec::new(), Vec::new());
        for arg in args {
            let mut subargs = ptr::null_mut();
            let kind = match arg.kind {
                Kind::Key => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
                Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
                Kind::Token => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
                Kind::OneOf(choices) => {
                    let mut choices = Args::new(choices);
                    subargs = choices.list.as_mut_ptr();
                    nested.push(choices);
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF
                }
            };
            let multiple = if arg.multiple { raw::REDISMODULE_CMD_ARG_MULTIPLE } else { 0 };
            list.push(raw::RedisModuleCommandArg {
                name: arg.name.as_ptr(),
                type_: kind,
                key_spec_index: if matches!(arg.kind, Kind::Key) { 0 } else { -1 },
                token: arg.token.map_or(ptr::null(), |token| token.as_ptr() as *const c_char),
                flags: multiple as c_int,
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
