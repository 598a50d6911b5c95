//! The grammar of the commands: bytes in, a checked request out.
//!
//! Nothing here touches a limiter, so a request that fails to parse changes nothing.
//!
//! | module | what it is for |
//! |---|---|
//! | [`acquire`] | `RL.ACQUIRE` and `CL.THROTTLE`: a rule in several arguments |
//! | [`rules`] | `RL.ACQUIREX` and `RL.PEEK`: rules and options in one argument |
//! | [`remembered`] | rules that were parsed before |
//! | [`by_hand`] | `RL.REFUND`, `RL.RELEASE`, `RL.BLOCK`, `RL.EXEMPT` |
//! | [`operator`] | `RL.POLICY SET`, `RL.TOP` |
//! | `keys`, `twice`, `rule_args`, `word`, `algo`, `values`, [`error`] | parts that they share |

pub mod acquire;
mod algo;
mod arguments;
pub mod by_hand;
pub mod error;
mod keys;
pub mod operator;
pub mod remembered;
mod request;
mod rule_args;
pub mod rules;
mod twice;
mod values;
mod word;

pub use algo::algo_words;
pub use arguments::{Arguments, MAX_KEYS};
pub use request::{Options, Request};
pub(crate) use rule_args::{MAX_NAME, is_in_name};
pub use rule_args::{Named, rule_of};
pub use values::integer;
pub use word::Word;
