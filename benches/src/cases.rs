//! The commands that are measured. `__rand_int__` is replaced by a random key number.

/// A command under load.
pub struct Case {
    /// The name in the report.
    pub name: &'static str,
    /// Whether it is denied in all but the first round.
    pub denied: bool,
    /// The command, for redis-benchmark.
    pub command: &'static [&'static str],
}

const fn granted(name: &'static str, command: &'static [&'static str]) -> Case {
    Case { name, denied: false, command }
}

const fn denied(name: &'static str, command: &'static [&'static str]) -> Case {
    Case { name, denied: true, command }
}

/// The yardstick.
pub const SET: &str = "SET PX";
/// The peer, granted.
pub const CELL_GRANTED: &str = "CL.THROTTLE";
/// The peer, denied.
pub const CELL_DENIED: &str = "CL.THROTTLE denied";

/// More than any run asks for.
const PLENTY: &str = "1000000000";

/// All cases, in the order of the report.
pub const CASES: &[Case] = &[
    granted("PING", &["PING"]),
    granted("INCR", &["INCR", "incr:__rand_int__"]),
    granted(SET, &["SET", "set:__rand_int__", "v", "PX", "60000"]),
    granted(
        "RL.ACQUIRE bucket",
        &["RL.ACQUIRE", "b:__rand_int__", "WINDOW", "60000", "LIMIT", PLENTY, "ALGO", "bucket"],
    ),
    granted(
        "RL.ACQUIRE sliding",
        &["RL.ACQUIRE", "s:__rand_int__", "WINDOW", "60000", "LIMIT", "4000", "ALGO", "sliding"],
    ),
    granted(
        "RL.ACQUIRE fixed",
        &["RL.ACQUIRE", "f:__rand_int__", "WINDOW", "60000", "LIMIT", PLENTY, "ALGO", "fixed"],
    ),
    granted(
        "RL.ACQUIRE counter",
        &["RL.ACQUIRE", "c:__rand_int__", "WINDOW", "60000", "LIMIT", PLENTY, "ALGO", "counter"],
    ),
    granted(
        "RL.ACQUIRE bucket, 3 keys",
        &[
            "RL.ACQUIRE",
            "b1:__rand_int__",
            "b2:__rand_int__",
            "b3:__rand_int__",
            "WINDOW",
            "60000",
            "LIMIT",
            PLENTY,
            "ALGO",
            "bucket",
        ],
    ),
    granted(
        "RL.ACQUIRE bucket, 8 keys",
        &[
            "RL.ACQUIRE",
            "b1:__rand_int__",
            "b2:__rand_int__",
            "b3:__rand_int__",
            "b4:__rand_int__",
            "b5:__rand_int__",
            "b6:__rand_int__",
            "b7:__rand_int__",
            "b8:__rand_int__",
            "WINDOW",
            "60000",
            "LIMIT",
            PLENTY,
            "ALGO",
            "bucket",
        ],
    ),
    granted(CELL_GRANTED, &["CL.THROTTLE", "cell:__rand_int__", "1000000", "1000000", "60"]),
    denied(
        "RL.ACQUIRE bucket denied",
        &["RL.ACQUIRE", "bd:__rand_int__", "WINDOW", "1d", "LIMIT", "1", "ALGO", "bucket"],
    ),
    denied(
        "RL.ACQUIRE sliding denied",
        &["RL.ACQUIRE", "sd:__rand_int__", "WINDOW", "1d", "LIMIT", "1", "ALGO", "sliding"],
    ),
    denied(CELL_DENIED, &["CL.THROTTLE", "celld:__rand_int__", "0", "1", "86400"]),
];
