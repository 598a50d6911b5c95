//! Changes to one limiter by hand: refund permits, release a lease, lay or lift a block or an
//! exemption.
//!
//! Like a decision, each function only makes an [`Effect`]. `None` means that there is nothing to
//! change.

use crate::effect::{Effect, Write};
use crate::laid::Laid;
use crate::limiter::{Limiter, moved_expiry};
use crate::numbers::MAX_TIME_MS;
use crate::ttl::expiry;
use crate::view::own_view;

/// The two things that can be laid on a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lay {
    /// Deny everything.
    Block,
    /// Let everything through, uncounted.
    Exempt,
}

/// Gives back `permits`, at most those in use. Leases are released instead: see [`release`].
pub fn refund(stored: &Limiter, permits: u64, now_ms: i64) -> Option<Effect> {
    let (write, void_at_ms) = own_view(stored, now_ms, |view| view.give_back(permits))??;
    Some(less_used(stored, write, void_at_ms))
}

/// The effect of a write that makes a limiter void sooner than before.
fn less_used(stored: &Limiter, write: Write, void_at_ms: i64) -> Effect {
    let window_ms = stored.window_ms();
    let expire_at_ms = expiry(window_ms, void_at_ms, stored.laid().end_ms());
    let expire_at_ms = stored.moved_ttl(window_ms, expire_at_ms);
    Effect { write: Some(write), laid: None, expire_at_ms }
}

/// Ends the live lease named `id`.
pub fn release(stored: &Limiter, id: &[u8], now_ms: i64) -> Option<Effect> {
    let (change, void_at_ms) = stored.release(id, now_ms)?;
    let write = Write { rule: stored.rule()?, start_over: false, change };
    Some(less_used(stored, write, void_at_ms))
}

/// Lays a block or an exemption on a limiter for `for_ms`; 0 lifts it.
pub fn lay(stored: Option<&Limiter>, what: Lay, for_ms: i64, now_ms: i64) -> Option<Effect> {
    let before = stored.map_or(Laid::default(), Limiter::laid);
    let until_ms = match for_ms {
        0 => 0,
        _ => now_ms.saturating_add(for_ms).min(MAX_TIME_MS),
    };
    let laid = match what {
        Lay::Block => Laid { blocked_until_ms: until_ms, laid_ms: now_ms, ..before },
        Lay::Exempt => Laid { exempt_until_ms: until_ms, laid_ms: now_ms, ..before },
    };
    let laid = laid.or_none();
    let ends = |laid: &Laid| (laid.blocked_until_ms, laid.exempt_until_ms);
    if ends(&laid) == ends(&before) {
        return None;
    }
    let void_at_ms = stored.map_or(0, Limiter::void_at);
    let window_ms = stored.map_or(0, Limiter::window_ms);
    // When a block or an exemption is shortened, the key must not stay for as long as the old one
    // said.
    let expire_at_ms = match laid.end_ms() < before.end_ms() {
        true => Some(expiry(window_ms, void_at_ms.max(now_ms), laid.end_ms())),
        false => moved_expiry(stored, window_ms, expiry(window_ms, void_at_ms, laid.end_ms())),
    };
    Some(Effect { write: None, laid: Some(laid), expire_at_ms })
}
