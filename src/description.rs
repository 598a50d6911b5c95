//! The declaration of a command in the form that the server takes.

use std::ffi::{CStr, CString};
use std::ptr;

use libc::c_int;
use redis_module::raw;
use rl_core::grammar::algo_words;

use crate::api::api;
use crate::entry::{ALGORITHMS, Arg, Docs, Entry, KeyRange, Kind};

/// The first release with the commands of this version.
const SINCE: &CStr = c"0.1.0";

/// Gives the server the documentation of a command. Returns the server's status.
///
/// # Safety
/// The server returned the command while loading the module.
pub unsafe fn describe(command: *mut raw::RedisModuleCommand, entry: &Entry) -> c_int {
    let Entry { keys, docs: Docs { summary, complexity, arity, args }, .. } = entry;
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut key_specs = match keys.first {
        0 => [zeroed(), zeroed()],
        _ => [key_spec(keys), zeroed()],
    };
    let mut args = Args::new(args);
    let info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: summary.as_ptr(),
        complexity: complexity.as_ptr(),
        since: SINCE.as_ptr(),
        arity: *arity,
        key_specs: key_specs.as_mut_ptr(),
        args: args.list.as_mut_ptr(),
        ..zeroed()
    };
    // SAFETY: the command is the caller's, and the server copies everything else.
    unsafe { api!(RedisModule_SetCommandInfo)(command, &info) }
}

fn key_spec(keys: &KeyRange) -> raw::RedisModuleCommandKeySpec {
    let KeyRange { first, last, step, access } = *keys;
    let mut spec = raw::RedisModuleCommandKeySpec {
        flags: access.into(),
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

/// The arguments in the form of the server: a list that ends with zeroes. An argument can have a
/// list of its own.
struct Args {
    list: Vec<raw::RedisModuleCommandArg>,
    /// Keeps the lists and the strings alive to which `list` points.
    _nested: Vec<Args>,
    _texts: Vec<CString>,
}

impl Args {
    fn new(args: &[Arg]) -> Args {
        let (mut list, mut nested, mut texts) = (Vec::new(), Vec::new(), Vec::new());
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
                Kind::Algorithm => (
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
                    Some(Args::of_words(algo_words(|_| true))),
                ),
                Kind::SpendingAlgorithm => (
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
                    Some(Args::of_words(algo_words(|algorithm| !algorithm.is_leased()))),
                ),
                Kind::Block(parts) => (
                    raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
                    Some(Args::new(parts)),
                ),
            };
            let mut subargs = ptr::null_mut();
            if let Some(mut inner) = inner {
                subargs = inner.list.as_mut_ptr();
                nested.push(inner);
            }
            let summary = arg.summary.map(summary);
            list.push(raw::RedisModuleCommandArg {
                name: arg.name.as_ptr(),
                type_: kind,
                key_spec_index: if matches!(arg.kind, Kind::Key) { 0 } else { -1 },
                token: arg.token.map_or(ptr::null(), CStr::as_ptr),
                summary: summary.as_ref().map_or(ptr::null(), |summary| summary.as_ptr()),
                flags: arg.flags as c_int,
                subargs,
                ..zeroed()
            });
            texts.extend(summary);
        }
        list.push(zeroed());
        Args { list, _nested: nested, _texts: texts }
    }

    /// A choice of words that stand for themselves.
    fn of_words(words: impl Iterator<Item = &'static str>) -> Args {
        let texts: Vec<_> = words.map(|word| CString::new(word).unwrap_or_default()).collect();
        let mut list = Vec::new();
        for text in &texts {
            list.push(raw::RedisModuleCommandArg {
                name: text.as_ptr(),
                type_: raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
                key_spec_index: -1,
                token: text.as_ptr(),
                ..zeroed()
            });
        }
        list.push(zeroed());
        Args { list, _nested: Vec::new(), _texts: texts }
    }
}

fn summary(text: &str) -> CString {
    let words: Vec<_> = algo_words(|_| true).collect();
    CString::new(text.replace(ALGORITHMS, &words.join("|"))).unwrap_or_default()
}

/// A C struct for which all zeroes are a valid value.
///
/// # Safety
/// Zeroes are a valid value of each field.
unsafe trait Zeroable {}
// SAFETY: pointers that may be null, and numbers.
unsafe impl Zeroable for raw::RedisModuleCommandArg {}
// SAFETY: as above, and unions of such.
unsafe impl Zeroable for raw::RedisModuleCommandKeySpec {}
// SAFETY: as above.
unsafe impl Zeroable for raw::RedisModuleCommandInfo {}

fn zeroed<T: Zeroable>() -> T {
    // SAFETY: `Zeroable` promises that.
    unsafe { std::mem::zeroed() }
}
