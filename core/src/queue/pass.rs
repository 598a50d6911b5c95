//! A pass that shows something to all waiters, or to all waiters of a key.

/// The place of a waiter in the order of arrival.
pub type Ticket = u64;

/// A pass over waiters, in the order of arrival.
#[derive(Debug)]
pub(super) struct Pass {
    pub next: Ticket,
    /// Waiters that came later need not be shown anything.
    pub end: Ticket,
    /// Whether something happened again meanwhile: the waiters already passed need another pass.
    pub again: bool,
}

impl Pass {
    /// Begins a pass over all that came before `end`. If one is under way, returns false; another
    /// pass will follow it.
    pub fn begin(pass: &mut Option<Pass>, end: Ticket) -> bool {
        match pass {
            Some(pass) => {
                pass.again = true;
                false
            }
            None => {
                *pass = Some(Pass { next: 0, end, again: false });
                true
            }
        }
    }

    /// The pass that follows this one, if one is needed.
    pub fn another(&self, end: Ticket) -> Option<Pass> {
        self.again.then_some(Pass { next: 0, end, again: false })
    }
}
