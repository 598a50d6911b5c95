//! Registers the data type and the commands of [`crate::table`].
//!
//! By hand: the crate's macro needs a function that servers before 7.2 lack.

use std::ffi::{CStr, CString};
use std::ptr;

use libc::{c_char, c_int};
use redis_module::{Context, Status, raw};

use crate::api::api;
use crate::command::{Command, guarded};
use crate::commands::acquire::{Acquire, AcquireX, Peek};
use crate::commands::effect::ApplyEffect;
use crate::commands::info::Info;
use crate::commands::manage::{Block, Exempt, Refund, Release};
use crate::commands::policy::{self, ApplyPolicy, TopKeys};
use crate::commands::throttle::Throttle;
use crate::table::{self, Arg, Docs, Entry, Keys, Kind};
use crate::{config, limiter_type, listener, policies, waiting};

/// The first release with the commands of this version.
const SINCE: &CStr = c"0.1.0";

/// The module takes part in the atomic slot migration of Valkey 9.1 and later: values travel as
/// effects, which are applied as they come. The bit is not in the header that the crate ships.
const ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;

/// Tells the server what the module can deal with.
fn set_options(ctx: &Context) {
    // SAFETY: `ctx` is the context of the load; the API table is only read.
    unsafe {
        let known = raw::RedisModule_GetModuleOptionsAll.map_or(0, |all| all() as u32);
        let mut options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
            | known & ATOMIC_SLOT_MIGRATION;
        if policies::subscribe(ctx) {
            options |= raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
        }
        api!(RedisModule_SetModuleOptions)(ctx.ctx, options as c_int);
    }
}

/// Registers the data type and the commands.
pub fn register(ctx: &Context) -> Result<(), String> {
    set_options(ctx);
    limiter_type::register(ctx.ctx)?;
    waiting::subscribe(ctx.ctx)?;
    listener::subscribe(ctx);
    command::<Acquire>(ctx, &table::ACQUIRE)?;
    command::<AcquireX>(ctx, &table::ACQUIREX)?;
    command::<Peek>(ctx, &table::PEEK)?;
    command::<Refund>(ctx, &table::REFUND)?;
    command::<Release>(ctx, &table::RELEASE)?;
    command::<Block>(ctx, &table::BLOCK)?;
    command::<Exempt>(ctx, &table::EXEMPT)?;
    command::<Info>(ctx, &table::INFO)?;
    command::<ApplyEffect>(ctx, &table::EFFECT)?;
    command::<TopKeys>(ctx, &table::TOP)?;
    command::<ApplyPolicy>(ctx, &table::APPLY_POLICY)?;
    if config::has_throttle() {
        command::<Throttle>(ctx, &table::THROTTLE)
            .map_err(|reason| format!("{reason}: is redis-cell loaded as well?"))?;
    }
    create(ctx, &table::POLICY, None)?;
    describe(ctx, &table::POLICY, table::POLICY.name)?;
    subcommand::<policy::Set>(ctx, &table::POLICY, &table::POLICY_SET)?;
    subcommand::<policy::Del>(ctx, &table::POLICY, &table::POLICY_DEL)?;
    subcommand::<policy::Get>(ctx, &table::POLICY, &table::POLICY_GET)?;
    subcommand::<policy::List>(ctx, &table::POLICY, &table::POLICY_LIST)?;
    subcommand::<policy::Help>(ctx, &table::POLICY, &table::POLICY_HELP)
}

/// What runs a command.
type Run = raw::RedisModuleCmdFunc;

fn command<C: Command>(ctx: &Context, entry: &Entry) -> Result<(), String> {
    create(ctx, entry, Some(guarded::<C>))?;
    describe(ctx, entry, entry.name)
}

fn create(ctx: &Context, entry: &Entry, run: Run) -> Result<(), String> {
    let (first, last, step) = entry.keys.range;
    let (name, flags) = (entry.name.as_ptr(), entry.flags.as_ptr());
    // SAFETY: `ctx` is the context of the load; the server copies the strings.
    let created =
        unsafe { api!(RedisModule_CreateCommand)(ctx.ctx, name, run, flags, first, last, step) };
    accepted(created, entry)
}

fn subcommand<C: Command>(ctx: &Context, parent: &Entry, entry: &Entry) -> Result<(), String> {
    let (name, flags) = (entry.name.as_ptr(), entry.flags.as_ptr());
    let run: Run = Some(guarded::<C>);
    // SAFETY: `ctx` is the context of the load; the server copies the strings.
    let created = unsafe {
        let parent = api!(RedisModule_GetCommand)(ctx.ctx, parent.name.as_ptr());
        api!(RedisModule_CreateSubcommand)(parent, name, run, flags, 0, 0, 0)
    };
    accepted(created, entry)?;
    let full = [parent.name.to_bytes(), b"|", entry.name.to_bytes()].concat();
    describe(ctx, entry, &CString::new(full).unwrap_or_default())
}

fn accepted(status: c_int, entry: &Entry) -> Result<(), String> {
    match status.into() {
        Status::Ok => Ok(()),
        Status::Err => Err(format!("the server refused {:?}", entry.name)),
    }
}

/// Tells the server what it shows about a command.
fn describe(ctx: &Context, entry: &Entry, full_name: &CStr) -> Result<(), String> {
    // SAFETY: `ctx` is the context of the load; the command was created before.
    let command = unsafe { api!(RedisModule_GetCommand)(ctx.ctx, full_name.as_ptr()) };
    accepted(set_docs(command, entry.keys, &entry.docs), entry)?;
    set_categories(command, entry.flags);
    Ok(())
}

/// Puts a command into the ACL categories of its flags, on servers that let modules do so (7.2).
fn set_categories(command: *mut raw::RedisModuleCommand, flags: &CStr) {
    let flags = flags.to_string_lossy();
    let categories = flags.split(' ').filter_map(|flag| match flag {
        "write" | "fast" | "admin" => Some(flag),
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

fn set_docs(command: *mut raw::RedisModuleCommand, keys: Keys, docs: &Docs) -> c_int {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut key_specs = match keys.range {
        (0, ..) => [zeroed(), zeroed()],
        _ => [key_spec(keys), zeroed()],
    };
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
    unsafe { api!(RedisModule_SetCommandInfo)(command, &info) }
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
                summary: arg.summary.map_or(ptr::null(), CStr::as_ptr),
                flags: arg.flags as c_int,
                subargs,
                ..zeroed()
            });
        }
        list.push(zeroed());
        Args { list, _nested: nested }
    }
}

/// A C struct that can be empty.
///
/// # Safety
/// Zeroes are a value of each of its fields.
unsafe trait Zeroable {}
// SAFETY: pointers that may be null, and numbers.
unsafe impl Zeroable for raw::RedisModuleCommandArg {}
// SAFETY: as above, and unions of such.
unsafe impl Zeroable for raw::RedisModuleCommandKeySpec {}
// SAFETY: as above.
unsafe impl Zeroable for raw::RedisModuleCommandInfo {}

fn zeroed<T: Zeroable>() -> T {
    // SAFETY: that is what `Zeroable` promises.
    unsafe { std::mem::zeroed() }
}
