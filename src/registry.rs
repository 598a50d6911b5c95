//! Registers the data type and the commands.
//!
//! Does not use the crate's macro, since that needs a function that servers before 7.2 lack.

use std::ffi::{CStr, CString};

use libc::c_int;
use redis_module::{Context, Status, raw};

use crate::api::api;
use crate::command::{Command, guarded};
use crate::commands::acquire::Acquire;
use crate::commands::acquirex::AcquireX;
use crate::commands::apply_effect::ApplyEffect;
use crate::commands::apply_policy::ApplyPolicy;
use crate::commands::block::Block;
use crate::commands::exempt::Exempt;
use crate::commands::info::Info;
use crate::commands::peek::Peek;
use crate::commands::policy;
use crate::commands::refund::Refund;
use crate::commands::release::Release;
use crate::commands::throttle::Throttle;
use crate::commands::top::TopKeys;
use crate::data_type::{self, Beside};
use crate::description::describe;
use crate::entry::Entry;
use crate::waiting::events;
use crate::{config, listener, policies};

/// A command to register.
struct Registered {
    entry: Entry,
    run: raw::RedisModuleCmdFunc,
}

const fn of<C: Command>() -> Registered {
    Registered { entry: C::ENTRY, run: Some(guarded::<C>) }
}

/// The commands.
const COMMANDS: &[Registered] = &[
    of::<Acquire>(),
    of::<AcquireX>(),
    of::<Peek>(),
    of::<Refund>(),
    of::<Release>(),
    of::<Block>(),
    of::<Exempt>(),
    of::<Info>(),
    of::<ApplyEffect>(),
    of::<TopKeys>(),
    of::<ApplyPolicy>(),
];

/// The command named after that of redis-cell. It exists only if the configuration says so.
const THROTTLE: Registered = of::<Throttle>();

/// The command that only has subcommands, and its subcommands.
const POLICY: Registered = Registered { entry: policy::CONTAINER, run: None };
const POLICY_SUBCOMMANDS: &[Registered] = &[
    of::<policy::Set>(),
    of::<policy::Del>(),
    of::<policy::Get>(),
    of::<policy::List>(),
    of::<policy::Help>(),
];

/// Option of a module that supports the atomic slot migration of Valkey 9.1 and later: values
/// travel as effects, which are applied as they come. The header that the crate ships does not
/// have this bit.
const ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;

/// Tells the server which features the module supports.
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
    let beside = Beside {
        aux_save: Some(policies::aux_save),
        aux_save_always: Some(policies::aux_save_always),
        aux_load: Some(policies::aux_load),
        unlink: Some(events::on_unlink),
    };
    data_type::register(ctx, beside)?;
    events::subscribe(ctx)?;
    listener::subscribe(ctx);
    COMMANDS.iter().try_for_each(|command| create(ctx, command))?;
    if config::has_throttle() {
        create(ctx, &THROTTLE)
            .map_err(|reason| format!("{reason}: is redis-cell loaded as well?"))?;
    }
    create(ctx, &POLICY)?;
    POLICY_SUBCOMMANDS.iter().try_for_each(|command| create_subcommand(ctx, &POLICY, command))
}

fn create(ctx: &Context, command: &Registered) -> Result<(), String> {
    let Registered { entry, run } = command;
    let (name, flags, keys) = (entry.name.as_ptr(), entry.flags.as_ptr(), entry.keys);
    // SAFETY: `ctx` is the context of the load; the server copies the strings.
    let created = unsafe {
        let (first, last, step) = (keys.first, keys.last, keys.step);
        api!(RedisModule_CreateCommand)(ctx.ctx, name, *run, flags, first, last, step)
    };
    accepted(created, entry)?;
    tell(ctx, entry, entry.name)
}

fn create_subcommand(
    ctx: &Context,
    parent: &Registered,
    command: &Registered,
) -> Result<(), String> {
    let Registered { entry, run } = command;
    let (name, flags) = (entry.name.as_ptr(), entry.flags.as_ptr());
    // SAFETY: `ctx` is the context of the load; the server copies the strings.
    let created = unsafe {
        let parent = api!(RedisModule_GetCommand)(ctx.ctx, parent.entry.name.as_ptr());
        api!(RedisModule_CreateSubcommand)(parent, name, *run, flags, 0, 0, 0)
    };
    accepted(created, entry)?;
    let full = [parent.entry.name.to_bytes(), b"|", entry.name.to_bytes()].concat();
    tell(ctx, entry, &CString::new(full).unwrap_or_default())
}

fn accepted(status: c_int, entry: &Entry) -> Result<(), String> {
    match status.into() {
        Status::Ok => Ok(()),
        Status::Err => Err(format!("the server refused {:?}", entry.name)),
    }
}

/// Gives the server the documentation and the ACL categories of a command that was created.
fn tell(ctx: &Context, entry: &Entry, full_name: &CStr) -> Result<(), String> {
    // SAFETY: `ctx` is the context of the load; the command was created before.
    unsafe {
        let command = api!(RedisModule_GetCommand)(ctx.ctx, full_name.as_ptr());
        accepted(describe(command, entry), entry)?;
        set_categories(command, entry.flags);
    }
    Ok(())
}

/// Puts a command into the ACL categories of its flags, on servers that let modules do so (from
/// 7.2).
///
/// # Safety
/// The server returned the command while loading the module.
unsafe fn set_categories(command: *mut raw::RedisModuleCommand, flags: &CStr) {
    let flags = flags.to_string_lossy();
    let categories = flags.split(' ').filter_map(|flag| match flag {
        "write" | "fast" | "admin" => Some(flag),
        "readonly" => Some("read"),
        _ => None,
    });
    let categories = categories.collect::<Vec<_>>().join(" ");
    let categories = CString::new(categories).unwrap_or_default();
    // SAFETY: the command is the caller's, and the server copies the string.
    unsafe {
        if let Some(set) = raw::RedisModule_SetCommandACLCategories {
            set(command, categories.as_ptr());
        }
    }
}
