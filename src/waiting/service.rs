//! The work of the timer: it looks at waiters and serves them, a slice at a time.

use std::rc::Rc;
use std::time::{Duration, Instant};

use libc::c_void;
use redis_module::{Context, raw};
use rl_core::queue::{Queue, Task, Ticket};

use super::attempt::{Outcome, correct, make};
use super::clock::{clock_us, in_ms};
use super::look::{Look, Seen, SeenKey, at_all, at_one, denial};
use super::queue;
use super::seats::{self, Said, Seat, leave};
use crate::api::{MainThread, api, clock_ms};
use crate::counters::{self, WaitEnd};

/// The length of a slice, after which the server serves other clients. The last task of a slice
/// may take longer, since a call can have a thousand keys.
const SLICE: Duration = Duration::from_micros(400);

/// The number of clients answered in a slice. The server's own work for each of them comes later,
/// and takes longer than ours.
const MOST_ANSWERS: u64 = 32;

/// How soon the service tries again while writes are paused and nothing may be granted.
const PAUSED_MS: i64 = 5;

/// How soon the service looks again at a waiter whose hash slot the server refuses. Once the slot
/// has moved away, the server answers such clients by itself.
const MOVING_MS: i64 = 50;

/// How soon the service looks again at a waiter that could be served but was denied.
const NOT_YET_MS: i64 = 5;

/// The callback of the timer.
pub unsafe extern "C" fn on_timer(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: the server fires timers on its main thread.
    let slice = Slice { ctx: Context::new(ctx), main: unsafe { MainThread::in_callback() } };
    queue::timer_fired(&slice.main);
    // SAFETY: a plain getter.
    let paused = unsafe { api!(RedisModule_AvoidReplicaTraffic)() } != 0;
    let is_done = slice.run(match paused {
        false => &[Slice::tidy, Slice::end_one, Slice::do_one],
        // A denial writes nothing, so waiters whose time is over are denied even during a pause.
        true => &[Slice::tidy, Slice::deny_one],
    });
    match paused && is_done {
        false => queue::arm(&slice.main),
        true => queue::arm_no_earlier_than(&slice.main, in_ms(PAUSED_MS)),
    }
}

/// One run of the timer.
struct Slice {
    ctx: Context,
    main: MainThread,
}

/// Does one task of a kind, and returns whether there was one.
type Step = fn(&Slice) -> bool;

impl Slice {
    /// Takes the kinds of steps in turn. Returns whether there was nothing left to do.
    fn run(&self, steps: &[Step]) -> bool {
        let (begun, answers) = (Instant::now(), seats::answers(&self.main));
        loop {
            let mut idle = true;
            for step in steps {
                idle &= !step(self);
                let answered = seats::answers(&self.main) - answers;
                if begun.elapsed() >= SLICE || answered >= MOST_ANSWERS {
                    return false;
                }
            }
            if idle {
                return true;
            }
        }
    }

    fn queue<T>(&self, look: impl FnOnce(&mut Queue) -> T) -> T {
        queue::with(&self.main, look)
    }

    fn seat(&self, ticket: Ticket) -> Option<Rc<Seat>> {
        seats::get(&self.main, ticket)
    }

    fn tidy(&self) -> bool {
        self.queue(Queue::tidy)
    }

    /// Ends the wait of a client whose time is over.
    fn end_one(&self) -> bool {
        let Some(ticket) = self.queue(|queue| queue.expired(clock_us())) else { return false };
        if self.end(ticket) == Some(false) {
            counters::count_wait(WaitEnd::TimedOut);
        }
        true
    }

    /// Denies a client whose time is over, without calling its command.
    fn deny_one(&self) -> bool {
        let Some(ticket) = self.queue(|queue| queue.expired(clock_us())) else { return false };
        if let Some(seat) = leave(&self.main, ticket) {
            counters::count_wait(WaitEnd::TimedOut);
            let denial = seat.as_call(&self.ctx, |call| denial(call, seat.wish(), clock_ms()));
            let said = match denial {
                Ok(reply) => Said::Reply(reply),
                Err(failure) => Said::Error(failure.message()),
            };
            seat.answer(&self.main, said);
        }
        true
    }

    /// Gives a waiter the answer that its call gets now. Returns whether that was a grant or a
    /// denial.
    fn end(&self, ticket: Ticket) -> Option<bool> {
        let seat = self.seat(ticket)?;
        let said = match make(&self.ctx, &seat, clock_ms(), true) {
            Outcome::Answer(said) => said,
            Outcome::NotYet => Said::Error(c"ERR internal error".into()),
            Outcome::SlotRefused(said) => Said::Error(said.into()),
        };
        self.answer(ticket, said)
    }

    fn answer(&self, ticket: Ticket, said: Said) -> Option<bool> {
        let granted = match &said {
            Said::Reply(reply) => Some(reply.granted()),
            Said::Error(_) => None,
        };
        if granted == Some(true) {
            counters::count_wait(WaitEnd::Granted);
        }
        if let Some(seat) = leave(&self.main, ticket) {
            seat.answer(&self.main, said);
        }
        granted
    }

    /// Does the next task of the queue.
    fn do_one(&self) -> bool {
        let Some(task) = self.queue(|queue| queue.next(clock_us())) else { return false };
        match task {
            Task::Look(ticket) => self.look(ticket),
            Task::First(ticket, key) => match self.look_at_one(ticket, key) {
                Some(SeenKey::Denies { for_ms }) => self.stand(ticket, key, for_ms),
                Some(SeenKey::Else { .. }) | None => self.look(ticket),
            },
            Task::News(ticket, key) => match self.look_at_one(ticket, key) {
                Some(SeenKey::Else { has_room: false, .. }) => self.look(ticket),
                Some(SeenKey::Else { has_room: true, again_in_ms }) => {
                    self.look_again(ticket, again_in_ms);
                }
                Some(SeenKey::Denies { .. }) | None => {}
            },
        }
        true
    }

    fn look_at_one(&self, ticket: Ticket, key: usize) -> Option<SeenKey> {
        let seat = self.seat(ticket)?;
        let left_ms = seat.left_ms(clock_us());
        Some(seat.as_call(&self.ctx, |call| at_one(call, seat.wish(), key, clock_ms(), left_ms)))
    }

    fn stand(&self, ticket: Ticket, key: usize, for_ms: i64) {
        self.queue(|queue| queue.stand(ticket, key, in_ms(for_ms.max(1)), clock_us()));
    }

    fn step_aside(&self, ticket: Ticket, for_ms: i64) {
        self.queue(|queue| queue.step_aside(ticket, in_ms(for_ms), clock_us()));
    }

    fn look_again(&self, ticket: Ticket, again_in_ms: Option<i64>) {
        if let Some(ms) = again_in_ms {
            self.queue(|queue| queue.look_again(ticket, in_ms(ms.max(1))));
        }
    }

    /// Looks at all keys of a waiter and acts on the result.
    fn look(&self, ticket: Ticket) {
        let Some(seat) = self.seat(ticket) else {
            return self.queue(|queue| queue.leave(ticket, clock_us()));
        };
        let now_ms = clock_ms();
        let left_ms = seat.left_ms(clock_us());
        let look = || seat.as_call(&self.ctx, |call| at_all(call, seat.wish(), now_ms, left_ms));
        let seen = look().or_else(|ahead| match correct(&self.ctx, &seat, &ahead) {
            true => look(),
            false => Err(ahead),
        });
        let Ok(Seen { look, again_in_ms }) = seen else {
            return self.step_aside(ticket, MOVING_MS);
        };
        self.look_again(ticket, again_in_ms);
        match look {
            Look::Waits { key, for_ms } => self.stand(ticket, key, for_ms),
            Look::Over => {
                if self.end(ticket) == Some(false) {
                    counters::count_wait(WaitEnd::Denied);
                }
            }
            Look::Served { .. } => match self.queue(|queue| queue.behind(ticket)) {
                Some(key) => self.stand(ticket, key, 0),
                None => self.serve(ticket, &seat, now_ms),
            },
        }
    }

    /// Calls the command of a waiter that can be served.
    fn serve(&self, ticket: Ticket, seat: &Seat, now_ms: i64) {
        match make(&self.ctx, seat, now_ms, false) {
            Outcome::Answer(said) => {
                self.answer(ticket, said);
            }
            Outcome::NotYet => self.step_aside(ticket, NOT_YET_MS),
            Outcome::SlotRefused(_) => self.step_aside(ticket, MOVING_MS),
        }
    }
}
