//! The errors that a command answers.

use std::ffi::CString;
use std::fmt;

use rl_core::grammar::error::RequestError;
use rl_core::policy::MOST_TEMPORARY;

/// The reason for which a command answers an error.
#[derive(Debug)]
pub enum Failure {
    /// A malformed request.
    Request(Box<RequestError>),
    /// The value of a key is not a limiter.
    WrongType,
    /// The keys are in several hash slots.
    CrossSlot,
    /// A new limiter or a longer log needs memory, and there is none.
    OutOfMemory,
    /// A client called a command that is for replication only.
    NotForClients,
    /// One more policy with FOR than a name can have.
    TooManyPolicies,
}

impl Failure {
    /// The error as the client reads it, with its code at the front.
    pub fn message(&self) -> CString {
        CString::new(self.to_string()).unwrap_or_default()
    }
}

impl From<Box<RequestError>> for Failure {
    fn from(error: Box<RequestError>) -> Failure {
        Failure::Request(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Request(error) => write!(f, "ERR {error}"),
            Failure::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Failure::CrossSlot => {
                f.write_str("CROSSSLOT Keys in request don't hash to the same slot")
            }
            Failure::OutOfMemory => {
                f.write_str("OOM command not allowed when used memory > 'maxmemory'.")
            }
            Failure::NotForClients => {
                f.write_str("ERR this command is sent by a primary to its replicas, not by clients")
            }
            Failure::TooManyPolicies => write!(
                f,
                "ERR a name can have {MOST_TEMPORARY} policies with FOR at once, DEL it first"
            ),
        }
    }
}
