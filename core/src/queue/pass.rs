//! How all waiters, or all of a key, are shown something.

/// The place of a waiter in the order of arrival.
pub type Ticket = u64;

/// A way through waiters, in the order of arrival.
#[derive(Debug)]
pub(super) struct Pass {
    pub next: Ticket,
    /// Who came later need not be shown anything.
    pub end: Ticket,
    /// Something happened once more meanwhile: those who are behind us need another one.
    pub again: bool,
}

impl Pass {
    /// Shows something to all who came before `end`. False if something else is being shown, and
    /// another pass will follow.
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

    /// What follows when everybody was shown what happened.
    pub fn another(&self, end: Ticket) -> Option<Pass> {
        self.again.then_some(Pass { next: 0, end, again: false })
    }
}
