//! Decides whether a call begins to wait.

use rl_core::decision::Terms;
use rl_core::grammar::{Arguments, Named, Request};

use super::attempt;
use super::clock::{self, clock_us, in_ms};
use super::look::{self, Look, Wish};
use super::queue::{self, name};
use super::seats::{self, Seat};
use crate::call::Call;
use crate::config;
use crate::open_keys::OpenKeys;

/// Whether the client of a call with a `TIMEOUT` waits instead of getting an answer now: the call
/// would be denied, or would overtake other waiters. `asked` are its rules as they came, `rules`
/// those in force.
pub fn waits(
    call: &Call,
    request: &Request<'_>,
    asked: &[Named<'_>],
    rules: &[Named<'_>],
    keys: &mut OpenKeys<'_>,
    terms: &Terms<'_>,
) -> bool {
    let is_last = attempt::is_last();
    if is_last.unwrap_or_else(|| !may_wait(call)) {
        return false;
    }
    let seen = look::judge(request, rules, keys, terms, request.options.timeout_ms);
    if is_last.is_some() {
        // The client waits already. A look said that it can be served; if that was wrong, it goes
        // on waiting.
        let refused = !matches!(seen.look, Look::Served { .. });
        if refused {
            call.reply_null();
        }
        return refused;
    }
    let (key, wait_ms) = match seen.look {
        Look::Over => return false,
        Look::Waits { key, for_ms } => (key, for_ms),
        // A holder that renews a lease for no more than it has overtakes no waiter.
        Look::Served { asks_more } => match first_with_line(call, &asks_more) {
            Some(key) => (key, 0),
            None => return false,
        },
    };
    let wish = Wish::new(request, asked);
    let ends_in_ms = [seen.again_in_ms, wish.policy_ends_in_ms(call, terms.now_ms)];
    let deadline_us = in_ms(request.options.timeout_ms);
    let names = (0..request.keys).map(|key| name(call.db(), call.get(key))).collect::<Vec<_>>();
    if queue::waiters() == 0 {
        clock::watch_wall();
    }
    let main = call.main_thread();
    let ticket = queue::with(main, |queue| {
        let ticket = queue.join(names.iter().map(|name| name.as_slice()), deadline_us);
        queue.stand(ticket, key, in_ms(wait_ms), clock_us());
        if let Some(ms) = ends_in_ms.into_iter().flatten().min() {
            queue.look_again(ticket, in_ms(ms));
        }
        ticket
    });
    seats::put(main, ticket, Seat::take(call, wish, deadline_us));
    queue::arm(main);
    true
}

/// Whether one more client may wait, here and now.
fn may_wait(call: &Call) -> bool {
    queue::waiters() < config::max_waiters() && !call.denies_blocking()
}

/// The first of these keys that has a line. A newcomer that can wait queues there.
fn first_with_line(call: &Call, keys: &[usize]) -> Option<usize> {
    if queue::waiters() == 0 {
        return None;
    }
    let db = call.db();
    let has_line = |key: &&usize| {
        queue::with(call.main_thread(), |queue| queue.has_line(&name(db, call.get(**key))))
    };
    keys.iter().find(has_line).copied()
}
