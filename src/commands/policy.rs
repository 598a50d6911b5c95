//! `RL.POLICY SET|GET|DEL|LIST|HELP`: numbers by which an operator replaces those that
//! applications send.
//!
//! Replicas get `RL._POLICY`: the policies of each name that changed, with absolute times.

use redis_module::{Context, RedisResult, RedisValue};
use rl_core::grammar::Arguments;
use rl_core::grammar::operator::parse_policy_set;
use rl_core::policy::{Entry as PolicyEntry, Policy};
use rl_core::stored::policies::encode;

use crate::call::Call;
use crate::command::Command;
use crate::entry::{Arg, Docs, Entry, KeyRange, Kind, LIMIT, WINDOW, pair, value};
use crate::failure::Failure;
use crate::waiting::queue;
use crate::{log, policies, propagation};

/// `RL.POLICY` itself, which is only a container of subcommands.
pub const CONTAINER: Entry = Entry {
    name: c"rl.policy",
    flags: c"",
    keys: KeyRange::NONE,
    docs: Docs {
        summary: c"Replaces the numbers of the rules that carry a name, while the server runs",
        complexity: c"depends on the subcommand",
        arity: -2,
        args: &[],
    },
};

const NAME: Arg = value(c"name", Kind::Text);

/// The arguments after a subcommand's name.
struct Behind<'a>(&'a Call);

impl Arguments for Behind<'_> {
    fn count(&self) -> usize {
        self.0.count().saturating_sub(1)
    }

    fn get(&self, index: usize) -> &[u8] {
        self.0.get(index + 1)
    }
}

/// `RL.POLICY SET`
pub struct Set;

impl Command for Set {
    const ENTRY: Entry = Entry {
        name: c"set",
        flags: c"write admin",
        keys: KeyRange::NONE,
        docs: Docs {
            summary: c"Sets the numbers of the rules that carry a name",
            complexity: c"O(N) with N the number of policies",
            arity: -9,
            args: &[
                NAME,
                WINDOW,
                LIMIT,
                pair(c"algo", c"ALGO", Kind::Algorithm),
                pair(c"burst", c"BURST", Kind::Integer).optional(),
                pair(c"offset", c"OFFSET", Kind::Integer).optional(),
                pair(c"block", c"BLOCK", Kind::Integer).optional(),
                pair(c"shadow", c"SHADOW", Kind::Token).optional(),
                pair(c"duration", c"FOR", Kind::Integer).optional(),
            ],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let args = Behind(call);
        let request = parse_policy_set(&args)?;
        let now_ms = call.now_ms();
        let until_ms = request.for_ms.map(|for_ms| now_ms.saturating_add(for_ms));
        let before = policies::with(call.main_thread(), |policies| policies.get(request.name));
        let entry = before.with(request.policy, until_ms, now_ms);
        let entry = entry.ok_or(Failure::TooManyPolicies)?;
        change(call, vec![(request.name, entry)]);
        if server_config_is(call, "appendonly", "yes")
            && server_config_is(call, "aof-use-rdb-preamble", "no")
        {
            log::warning(
                "policies are not part of an AOF that is rewritten without its RDB preamble: \
                 set aof-use-rdb-preamble to yes",
            );
        }
        call.reply_ok();
        Ok(())
    }
}

/// Whether a directive of the server has this value.
fn server_config_is(call: &Call, directive: &str, value: &str) -> bool {
    let reply: RedisResult = Context::new(call.context()).call("CONFIG", &["GET", directive]);
    match reply {
        Ok(RedisValue::Array(pair)) => pair.get(1).is_some_and(|found| match found {
            RedisValue::SimpleString(found) => found == value,
            RedisValue::StringBuffer(found) => found == value.as_bytes(),
            RedisValue::BulkString(found) => found == value,
            _ => false,
        }),
        _ => false,
    }
}

/// `RL.POLICY DEL`: replies the number of policies that it removed.
pub struct Del;

impl Command for Del {
    const ENTRY: Entry = Entry {
        name: c"del",
        flags: c"write admin",
        keys: KeyRange::NONE,
        docs: Docs {
            summary: c"Goes back to the numbers that applications send",
            complexity: c"O(N) with N the number of policies",
            arity: -3,
            args: &[NAME.many()],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let args = Behind(call);
        let now_ms = call.now_ms();
        let mut names: Vec<_> = (0..args.count()).map(|i| args.get(i)).collect();
        names.sort_unstable();
        names.dedup();
        policies::with(call.main_thread(), |policies| {
            names.retain(|name| policies.in_force(name, now_ms).is_some());
        });
        let removed = names.len() as i64;
        change(call, names.into_iter().map(|name| (name, PolicyEntry::default())).collect());
        call.reply_integers(&[removed]);
        Ok(())
    }
}

/// Replaces or removes the policies of names, here and on replicas.
fn change(call: &Call, entries: Vec<(&[u8], PolicyEntry)>) {
    if entries.is_empty() {
        return;
    }
    propagation::send_policies(call, &encode(entries.iter().map(|(name, entry)| (*name, entry))));
    policies::with(call.main_thread(), |policies| {
        entries.into_iter().for_each(|(name, entry)| policies.put(name, entry));
    });
    queue::all_changed(call.main_thread());
}

/// `RL.POLICY GET`
pub struct Get;

impl Command for Get {
    const ENTRY: Entry = Entry {
        name: c"get",
        flags: c"readonly admin",
        keys: KeyRange::NONE,
        docs: Docs {
            summary: c"Tells the numbers that are set for a name",
            complexity: c"O(1)",
            arity: 3,
            args: &[NAME],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let now_ms = call.now_ms();
        policies::with(call.main_thread(), |policies| {
            match policies.in_force(Behind(call).get(0), now_ms) {
                None => call.reply_null(),
                Some((policy, until_ms)) => reply_policy(call, policy, until_ms, now_ms),
            }
        });
        Ok(())
    }
}

/// `RL.POLICY LIST`: a name and its policy, one after the other, in the order of the names.
pub struct List;

impl Command for List {
    const ENTRY: Entry = Entry {
        name: c"list",
        flags: c"readonly admin",
        keys: KeyRange::NONE,
        docs: Docs {
            summary: c"Tells all names with the numbers that are set for them",
            complexity: c"O(N log N) with N the number of policies",
            arity: 2,
            args: &[],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        let now_ms = call.now_ms();
        policies::with(call.main_thread(), |policies| {
            let all = policies.iter();
            let in_force = all.filter_map(|(name, entry)| Some((name, entry.in_force(now_ms)?)));
            let in_force: Vec<_> = in_force.collect();
            call.reply_array(in_force.len());
            for (name, (policy, until_ms)) in in_force {
                call.reply_array(2);
                call.reply_bytes(name);
                reply_policy(call, policy, until_ms, now_ms);
            }
        });
        Ok(())
    }
}

/// `RL.POLICY HELP`
pub struct Help;

impl Command for Help {
    const ENTRY: Entry = Entry {
        name: c"help",
        flags: c"allow-loading allow-stale",
        keys: KeyRange::NONE,
        docs: Docs {
            summary: c"Tells about the subcommands",
            complexity: c"O(1)",
            arity: 2,
            args: &[],
        },
    };

    fn run(call: &Call) -> Result<(), Failure> {
        const LINES: [&str; 11] = [
            "RL.POLICY <subcommand> [<arg> ...]. Subcommands are:",
            "SET <name> WINDOW <ms> LIMIT <n> ALGO <algorithm> [BURST <n>] [OFFSET <ms>] [BLOCK <ms>]",
            "    [SHADOW] [FOR <ms>]",
            "    Sets the numbers of all rules that carry the name, for a time or for good.",
            "GET <name>",
            "    Tells the numbers that are set for the name.",
            "DEL <name> [<name> ...]",
            "    Goes back to the numbers that applications send.",
            "LIST",
            "    Tells all names with the numbers that are set for them.",
            "HELP",
        ];
        call.reply_array(LINES.len());
        LINES.iter().for_each(|line| call.reply_string(line));
        Ok(())
    }
}

/// Later versions add their fields after these. `for` is the time left in ms; -1 without an end.
fn reply_policy(call: &Call, policy: &Policy, until_ms: Option<i64>, now_ms: i64) {
    let Policy { rule, block_ms, shadow } = policy;
    let numbers = [
        ("window", rule.window_ms()),
        ("limit", rule.limit() as i64),
        ("burst", rule.burst() as i64),
        ("offset", rule.offset_ms()),
        ("block", *block_ms),
        ("shadow", i64::from(*shadow)),
        ("for", until_ms.map_or(-1, |until_ms| until_ms - now_ms)),
    ];
    call.reply_map(1 + numbers.len());
    call.reply_string("algo");
    call.reply_string(rule.algorithm().word());
    for (name, number) in numbers {
        call.reply_string(name);
        call.reply_integers(&[number]);
    }
}
