//! A change of leases, and the form in which it travels.

use std::sync::Arc;

use super::lease::{self, Lease};
use crate::stored::reader::Reader;
use crate::stored::varint::{self, Sink};

const PUT: u8 = 0;
const END: u8 = 1;
const PULL_BACK: u8 = 2;

/// A change of leases, as the primary decides it and replicas apply it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// Forget the leases that ended by `now_ms`, then take or renew one.
    Put {
        /// When the call was made.
        now_ms: i64,
        /// The lease's name.
        id: Arc<[u8]>,
        /// The new lease.
        lease: Lease,
        /// Permits of another algorithm, which become a nameless lease with the same times; 0 for
        /// none.
        carried: u64,
    },
    /// Forget the leases that ended by `now_ms`, then end one.
    End {
        /// When the call was made.
        now_ms: i64,
        /// The lease's name.
        id: Arc<[u8]>,
    },
    /// Move leases that were taken after `now_ms` to that time, and shift their ends with them,
    /// because the clock stepped back.
    PullBack {
        /// The clock.
        now_ms: i64,
    },
}

impl LeaseChange {
    /// Appends the change.
    pub fn encode(&self, out: &mut impl Sink) {
        match self {
            LeaseChange::Put { now_ms, id, lease, carried } => {
                out.put_byte(PUT);
                varint::write_time(out, *now_ms);
                lease::encode(id, lease, out);
                varint::write(out, *carried);
            }
            LeaseChange::End { now_ms, id } => {
                out.put_byte(END);
                varint::write_time(out, *now_ms);
                lease::encode_id(id, out);
            }
            LeaseChange::PullBack { now_ms } => {
                out.put_byte(PULL_BACK);
                varint::write_time(out, *now_ms);
            }
        }
    }

    /// Reads a change. `None` if it breaks an invariant.
    pub fn decode(reader: &mut Reader<'_>) -> Option<LeaseChange> {
        Some(match reader.byte()? {
            PUT => {
                let now_ms = reader.time()?;
                let (id, lease) = lease::decode(reader)?;
                LeaseChange::Put { now_ms, id: id.into(), lease, carried: reader.permits()? }
            }
            END => {
                let now_ms = reader.time()?;
                LeaseChange::End { now_ms, id: lease::decode_id(reader)?.into() }
            }
            PULL_BACK => LeaseChange::PullBack { now_ms: reader.time()? },
            _ => return None,
        })
    }
}
