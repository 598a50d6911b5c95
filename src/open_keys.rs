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

/// The open keys of a call.
pub struct OpenKeys<'call> {
    call: &'call Call,
    keys: SmallVec<[Key<'call>; FEW]>,
    outbox: Outbox<'call>,
}

impl<'call> OpenKeys<'call> {
    /// An empty set of keys.
    pub fn new(call: &'call Call) -> OpenKeys<'call> {
        OpenKeys { call, keys: SmallVec::new(), outbox: Outbox::new(call) }
    }

    /// Opens the keys named by the first `count` arguments. Works in place, since a return value
    /// would copy many bytes.
    ///
    /// # Errors
    /// The keys are in several hash slots and the module must validate them, or the value of a key
    /// is not a limiter.
    pub fn open(&mut self, count: usize, access: Access) -> Result<(), Failure> {
        check_slots(self.call, count)?;
        for index in 0..count {
            self.keys.push(Key::open(self.call, index, access)?);
        }
        Ok(())
    }

    /// The number of keys.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// The limiter under a key; `None` if there is none.
    pub fn limiter(&self, key: usize) -> Option<&Limiter> {
        self.keys.get(key)?.limiter()
    }

    /// The limiter under a key, to be changed in place. The caller must call [`OpenKeys::changed`]
    /// after a change.
    pub fn limiter_mut(&mut self, key: usize) -> Option<&mut Limiter> {
        self.keys.get_mut(key)?.stored_mut()
    }

    /// The corrections of limiters that are ahead of the clock. Runs once all keys are open, so
    /// that the processor fetches the memory of all limiters at the same time.
    pub fn corrections(&self, now_ms: i64) -> Corrections {
        Corrections::of(self.count(), now_ms, |key| self.limiter(key))
    }

    /// Whether the call may take more memory.
    pub fn may_grow(&self) -> bool {
        !self.call.is_out_of_memory()
    }

    /// Completes a change in place: sets the TTL, wakes waiters and records the effect.
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

    /// Applies an effect to a key. Creates the key if it does not exist.
    pub fn apply(&mut self, key: usize, effect: &Effect) {
        if let Some(key) = self.keys.get_mut(key) {
            key.apply(effect);
        }
        wake(self.call, key, effect.laid.is_some());
        self.outbox.put(key, || Some(effect));
    }

    /// Sends all changes on as one command, in the order in which they were made.
    pub fn send(&self) {
        self.outbox.send();
    }
}

/// Tells the queue that the key named by an argument has changed. The first waiter of the key may
/// now be served, or the key may deny waiters for longer than they wait.
#[inline(always)]
fn wake(call: &Call, key: usize, may_deny_longer: bool) {
    if queue::waiters() > 0 {
        match may_deny_longer {
            true => queue::changed(call.main_thread(), call.db(), call.get(key)),
            false => queue::has_room(call.main_thread(), call.db(), call.get(key)),
        }
    }
}

/// Refuses keys of several hash slots if the configuration says that the module must.
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
