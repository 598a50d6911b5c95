//! The keys of one call: opened together, read as limiters, written together.

use rl_core::corrections::Corrections;
use rl_core::effect::Effect;
use rl_core::grammar::Arguments;
use rl_core::limiter::Limiter;
use rl_core::limiters::FEW;
use rl_core::slot::slot;
use smallvec::SmallVec;

use crate::call::Call;
use crate::config;
use crate::failure::Failure;
use crate::key::{Access, Key};
use crate::propagation::Outbox;
use crate::waiting::queue;

/// See the file's head.
pub struct OpenKeys<'call> {
    call: &'call Call,
    keys: SmallVec<[Key<'call>; FEW]>,
    outbox: Outbox<'call>,
}

impl<'call> OpenKeys<'call> {
    /// None yet.
    pub fn new(call: &'call Call) -> OpenKeys<'call> {
        OpenKeys { call, keys: SmallVec::new(), outbox: Outbox::new(call) }
    }

    /// Opens the keys that the first `count` arguments are. In place, since it is many bytes.
    ///
    /// # Errors
    /// Keys of several hash slots where that is validated, or a key whose value is no limiter.
    pub fn open(&mut self, count: usize, access: Access) -> Result<(), Failure> {
        check_slots(self.call, count)?;
        for index in 0..count {
            self.keys.push(Key::open(self.call, index, access)?);
        }
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// The limiter under a key, `None` when there is none.
    pub fn limiter(&self, key: usize) -> Option<&Limiter> {
        self.keys.get(key)?.limiter()
    }

    /// The limiter under a key, to be changed in place. [`OpenKeys::changed`] follows a change.
    pub fn limiter_mut(&mut self, key: usize) -> Option<&mut Limiter> {
        self.keys.get_mut(key)?.stored_mut()
    }

    /// The limiters that are ahead of the clock, as they are to be read. After all keys were opened, so
    /// that the processor waits for the memory of all limiters at once.
    pub fn corrections(&self, now_ms: i64) -> Corrections {
        Corrections::of(self.count(), now_ms, |key| self.limiter(key))
    }

    /// Whether the call may take more memory.
    pub fn may_grow(&self) -> bool {
        !self.call.is_out_of_memory()
    }

    /// Sees to a limiter that was changed in place as this effect would have changed it.
    pub fn changed(
        &mut self,
        key: usize,
        expire_at_ms: Option<i64>,
        effect: impl FnOnce(&Limiter) -> Effect,
    ) {
        if let Some(key) = self.keys.get(key) {
            key.changed(expire_at_ms);
        }
        wake(self.call, key, false);
        let limiter = self.keys.get(key).and_then(Key::limiter);
        self.outbox.put(key, || limiter.map(effect));
    }

    /// Applies an effect to a key, which begins to exist if need be.
    pub fn apply(&mut self, key: usize, effect: &Effect) {
        if let Some(key) = self.keys.get_mut(key) {
            key.apply(effect);
        }
        wake(self.call, key, effect.laid.is_some());
        self.outbox.put(key, || Some(effect));
    }

    /// Sends on what was done, as one command and in the order in which it was done.
    pub fn send(&self) {
        self.outbox.send();
    }
}

/// Tells the queue that a key, an argument, changed: the first who waits for it may be served now,
/// or the key may deny everyone for longer than they wait.
#[inline(always)]
fn wake(call: &Call, key: usize, may_deny_longer: bool) {
    if queue::waiters() > 0 {
        match may_deny_longer {
            true => queue::changed(call.main_thread(), call.db(), call.get(key)),
            false => queue::has_room(call.main_thread(), call.db(), call.get(key)),
        }
    }
}

/// Refuses keys of different hash slots where the server does not.
fn check_slots(call: &Call, keys: usize) -> Result<(), Failure> {
    if keys < 2 || !config::validates_slots() {
        return Ok(());
    }
    let first = slot(call.get(0));
    match (1..keys).all(|index| slot(call.get(index)) == first) {
        true => Ok(()),
        false => Err(Failure::CrossSlot),
    }
}
