//! Random calls of everything: the module's commands and those of Redis on the same few keys, alone, in transactions
//! and in scripts.

use redis::Value;
use testkit::{Client, Random, Server, Words, wait_for, wait_for_replica, words};

/// All algorithms.
const ALGORITHMS: [&str; 6] = ["sliding", "bucket", "leaky", "fixed", "counter", "concurrency"];
const WINDOWS: [&str; 7] = ["1ms", "20ms", "300ms", "2s", "1m", "1d", "3650d"];
const LIMITS: [&str; 7] = ["0", "1", "3", "20", "300", "100000", "1000000000000"];
const COSTS: [&str; 6] = ["0", "1", "2", "7", "150", "1000000000000"];
const TIMES: [&str; 6] = ["0", "1", "30", "2s", "1h", "3650d"];
const NAMES: [&str; 4] = ["gold", "free", "a.b-c_d", "x"];
const KEYS: usize = 24;

/// A script that runs each of its arguments that follows a count of its words.
const SCRIPT: &str = "local at, n = 1, 0 while at <= #ARGV do \
    local words = {} for i = 1, tonumber(ARGV[at]) do words[i] = ARGV[at + i] end \
    redis.pcall(unpack(words)) at = at + #words + 1 n = n + 1 end return n";

/// The generator.
pub struct Anything {
    /// Where its choices come from.
    pub random: Random,
}

impl Anything {
    /// The same calls for the same seed.
    pub fn new(seed: u64) -> Anything {
        Anything { random: Random(seed) }
    }

    fn key(&mut self) -> String {
        format!("k{}", self.random.below(KEYS))
    }

    /// Some different keys, rarely many.
    fn keys(&mut self) -> String {
        let count = match self.random.below(40) {
            0 => KEYS,
            1..8 => 4,
            8..20 => 2,
            _ => 1,
        };
        let first = self.random.below(KEYS);
        let keys: Vec<String> = (0..count).map(|i| format!("k{}", (first + i) % KEYS)).collect();
        keys.join(" ")
    }

    /// A rule without options, of an algorithm that `RL.ACQUIRE` knows or of any.
    fn numbers(&mut self, algorithms: &[&'static str]) -> String {
        let random = &mut self.random;
        let (window, limit) = (random.pick(&WINDOWS), random.pick(&LIMITS));
        format!("WINDOW {window} LIMIT {limit} ALGO {}", random.pick(algorithms))
    }

    /// Sometimes an option, otherwise nothing.
    fn sometimes(&mut self, n: usize, option: &str, values: &[&str]) -> String {
        if !self.random.one_in(n) {
            return String::new();
        }
        format!(" {option} {}", self.random.pick(values))
    }

    fn rule(&mut self) -> (String, bool) {
        let mut rule = self.numbers(&ALGORITHMS);
        if rule.ends_with("bucket") {
            rule += &self.sometimes(3, "BURST", &["1", "5", "400", "1000000000000"]);
        }
        if rule.ends_with("fixed") {
            rule += &self.sometimes(3, "OFFSET", &["-8h", "1", "30m", "-3650d"]);
        }
        let leases = rule.contains("concurrency");
        rule += &self.sometimes(3, "COST", &COSTS);
        rule += &self.sometimes(8, "BLOCK", &["5", "1s", "1d"]);
        rule += &self.sometimes(6, "NAME", &NAMES);
        (rule, leases)
    }

    /// `RL.ACQUIREX` or `RL.PEEK`, mostly without mistakes.
    fn extended(&mut self, name: &str) -> Words {
        let keys = self.keys();
        let rules = if self.random.one_in(3) { keys.split(' ').count() } else { 1 };
        let mut line = String::new();
        let mut leases = false;
        for _ in 0..rules {
            let (rule, with_leases) = self.rule();
            line += &format!("{rule} ");
            leases |= with_leases;
        }
        if leases || self.random.one_in(40) {
            line += &format!("ID id{}", self.random.below(9));
        }
        line += &self.sometimes(6, "UPTO", &["1", "3", "50"]);
        line += &self.sometimes(12, "RESERVE", &TIMES);
        line += if self.random.one_in(10) { " FORCE" } else { "" };
        if name == "RL.ACQUIREX" {
            line += &self.sometimes(25, "TIMEOUT", &["0", "1", "5"]);
        }
        line += if self.random.one_in(6) { " WITHKEYS" } else { "" };
        words(name).then(&keys).arg(line)
    }

    fn policy(&mut self) -> Words {
        let name = self.random.pick(&NAMES);
        let call = match self.random.below(6) {
            0 => format!("RL.POLICY GET {name}"),
            1 => "RL.POLICY LIST".into(),
            2 => format!("RL.POLICY DEL {name}"),
            _ => {
                let numbers = self.numbers(&ALGORITHMS);
                let block = self.sometimes(5, "BLOCK", &["5", "1s"]);
                let lasting = self.sometimes(2, "FOR", &["1", "50", "1h"]);
                let shadow = if self.random.one_in(4) { " SHADOW" } else { "" };
                format!("RL.POLICY SET {name} {numbers}{block}{shadow}{lasting}")
            }
        };
        words(&call)
    }

    /// One of our commands.
    pub fn ours(&mut self) -> Words {
        let keys = self.keys();
        let line = match self.random.below(32) {
            0..10 => format!("RL.ACQUIRE {keys} {}", self.numbers(&ALGORITHMS[..5])),
            10..22 => return self.extended("RL.ACQUIREX"),
            22 | 23 => return self.extended("RL.PEEK"),
            24 | 25 => format!("RL.REFUND {keys} COST {}", self.random.pick(&COSTS)),
            26 | 27 => format!("RL.RELEASE {keys} ID id{}", self.random.below(9)),
            28 => format!("RL.BLOCK {keys} FOR {}", self.random.pick(&TIMES)),
            29 => format!("RL.EXEMPT {keys} FOR {}", self.random.pick(&TIMES)),
            30 => format!("RL.INFO {}", self.key()),
            _ if self.random.one_in(20) => "RL.TOP COUNT 5".into(),
            _ => return self.policy(),
        };
        words(&line)
    }

    /// A command of Redis on the same keys.
    pub fn theirs(&mut self) -> Words {
        let (key, other) = (self.key(), self.key());
        let line = match self.random.below(26) {
            0..4 => format!("DEL {key} {other}"),
            4 => format!("UNLINK {key}"),
            5 => format!("PEXPIRE {key} {}", self.random.below(60)),
            6 => format!("EXPIRE {key} 100"),
            7 => format!("PEXPIREAT {key} 1"),
            8 | 9 => format!("PERSIST {key}"),
            10 => format!("RENAME {key} {other}"),
            11 => format!("RENAMENX {key} {other}"),
            12 | 13 => format!("COPY {key} {other} REPLACE"),
            14 => format!("SET {key} text"),
            15 => format!("SET {key} text PX 20"),
            16 => format!("GETEX {key} PX 500"),
            17 => format!("GETDEL {key}"),
            18 => format!("APPEND {key} x"),
            19 => format!("LPUSH {key} x"),
            20 => format!("MOVE {key} 1"),
            21 => format!("DUMP {key}"),
            22 => format!("MEMORY USAGE {key}"),
            23 => format!("OBJECT ENCODING {key}"),
            24 if self.random.one_in(20) => "SWAPDB 0 1".into(),
            24 if self.random.one_in(60) => "FLUSHDB".into(),
            _ => format!("TOUCH {key}"),
        };
        words(&line)
    }

    fn single(&mut self) -> Words {
        if self.random.one_in(6) { self.theirs() } else { self.ours() }
    }

    /// The commands of one call, transaction or script, and how many of [`Anything::ours`] and `theirs` are among
    /// them.
    pub fn step(&mut self) -> (Vec<Words>, usize) {
        let count = 1 + self.random.below(5);
        match self.random.below(20) {
            0 => {
                let mut commands = vec![words("MULTI")];
                commands.extend((0..count).map(|_| self.single()));
                commands.push(words(if self.random.one_in(8) { "DISCARD" } else { "EXEC" }));
                if self.random.one_in(4) {
                    commands.insert(0, words(&format!("WATCH {}", self.key())));
                }
                (commands, count)
            }
            1 => {
                let mut call = words("EVAL").arg(SCRIPT).arg("0");
                for _ in 0..count {
                    let single = self.single();
                    call = call.arg(single.count().to_string()).append(single);
                }
                (vec![call], count)
            }
            _ => (vec![self.single()], 1),
        }
    }

    /// Sends pipelines of this many calls, and checks that no answer is a failure of the server.
    pub fn run(&mut self, client: &mut Client, calls: usize) {
        let mut done = 0;
        while done < calls {
            let mut commands = Vec::new();
            while commands.len() < 400 && done < calls {
                let (step, count) = self.step();
                commands.extend(step);
                done += count;
            }
            for (i, reply) in client.pipeline(commands.iter().cloned()).iter().enumerate() {
                assert_healthy(reply, || format!("{:?}", commands[i].lossy()));
            }
        }
    }
}

/// An answer that a client may get.
fn assert_healthy(reply: &Result<Value, String>, command: impl Fn() -> String) {
    let is_broken = |line: &str| line.contains("internal") || line.starts_with("no reply");
    match reply {
        Err(line) => assert!(!is_broken(line), "{line}: {}", command()),
        Ok(Value::Array(replies)) => {
            for reply in replies {
                if let Value::ServerError(error) = reply {
                    let line = format!("{error:?}");
                    assert!(!is_broken(&line), "{line}: {}", command());
                }
            }
        }
        Ok(_) => {}
    }
}

/// Asserts that both have the same keys, with the same values and the same expiry.
pub fn assert_alike(primary: &Server, replica: &Server) {
    let (mut ahead, mut behind) = (primary.client(), replica.client());
    // Keys would go on expiring during the comparison.
    ahead.run("DEBUG SET-ACTIVE-EXPIRE 0");
    wait_for_replica(primary, replica);
    let digests = |client: &mut Client| {
        let mut digests = Vec::new();
        for db in [0, 1] {
            client.run(format!("SELECT {db}"));
            let keys = (0..KEYS).map(|i| format!("DEBUG DIGEST-VALUE k{i}"));
            digests.extend(client.pipeline(keys));
        }
        (client.text("DEBUG DIGEST"), digests)
    };
    // This comes before any command that looks keys up, which deletes those that are due.
    assert_eq!(digests(&mut ahead), digests(&mut behind));
    // A key that is due looks missing on both sides, but not at the same moment.
    let expiry = |client: &mut Client, db: usize, key: usize| {
        client.run(format!("SELECT {db}"));
        client.int(format!("PEXPIRETIME k{key}"))
    };
    for (db, key) in (0..2).flat_map(|db| (0..KEYS).map(move |key| (db, key))) {
        let [a, b] = [&mut ahead, &mut behind].map(|client| expiry(client, db, key));
        assert!(a == b || a == -2 || b == -2, "k{key} of {db} expires at {a} and {b}");
    }
    // The digest of policies in force, whose time could run out between two looks.
    let digest = |client: &mut Client| client.info("rl", "rl_policies_digest");
    wait_for("the same policies", || (digest(&mut ahead) == digest(&mut behind)).then_some(()));
    ahead.run("DEBUG SET-ACTIVE-EXPIRE 1");
}
