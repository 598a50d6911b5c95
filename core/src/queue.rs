//! The calls that wait for permits: their order, and when to look at which.
//!
//! A waiter stands in the *line* of one of its keys: the key that denies it for longest. A line is
//! in the order of arrival. The caller looks only at the first waiter of a line: when the key may
//! have room for it, or when something happened to the key. A waiter that can be served leaves. A
//! waiter that another key now denies moves to the line of that key. In both cases the next one in
//! the line has its turn at once. If the key still denies the waiter, the next look is at the time
//! when the key expects to have room.
//!
//! # Promises
//!
//! 1. **No waiter sleeps past the moment at which it could be served.** Each line that is not
//!    empty has a time at which its first waiter is looked at. That time is no later than the one
//!    that the key named when it last denied this waiter. It is now if something happened to the
//!    key, or if the waiter has just become the first. A look removes the first waiter or names a
//!    new time. So there is no position in a line to remember or to lose: work that was cut short
//!    goes on with the first.
//! 2. **A waiter that cannot be served never holds up one that can.** It stands in the way only of
//!    those behind it in its own line. They may not overtake it for as long as that very key
//!    denies it. A waiter that is refused for a reason other than its keys stands in no line
//!    ([`Queue::step_aside`]).
//! 3. **A look changes nothing.** Only its result does, and two equal results have the effect of
//!    one.
//! 4. **No step takes work in waiters times keys.** An event on a key, on all keys or on a waiter
//!    is noted in a few steps. [`Queue::next`] and [`Queue::tidy`] do the rest in small pieces.
//!    Between them the caller may stop at any time and note more.
//!
//! Bad news needs more than that: a key in whose line a waiter does not stand may have made it
//! hopeless. So a change that may be bad for the waiters of a key ([`Queue::changed`]) is shown
//! once to each of them, and one that may be bad for all waiters ([`Queue::all_changed`]) to all.
//!
//! This module knows no limiters, server or clock. The caller finds out which waiters can be
//! served, and times are plain numbers that grow. The caller must answer each [`Task`] by one of
//! the functions that it names, or the waiter sleeps until its deadline.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

mod pass;

use self::pass::Pass;
pub use self::pass::Ticket;

/// The internal name of a key: its place in `Queue::keys`.
type Id = usize;

/// All waiters, and their keys, which are byte strings.
#[derive(Debug, Default)]
pub struct Queue {
    waiters: BTreeMap<Ticket, Waiter>,
    keys: Vec<Key>,
    ids: HashMap<Rc<[u8]>, Id>,
    /// Places of `keys` that are free.
    free: Vec<Id>,
    /// When to look at the first waiter of each line.
    due: BTreeSet<(i64, Id)>,
    deadlines: BTreeSet<(i64, Ticket)>,
    /// Waiters to look at at a time of their own.
    again: BTreeSet<(i64, Ticket)>,
    /// Keys whose waiters are being shown what happened to the key.
    news: VecDeque<Id>,
    /// The pass over all waiters, if one is under way.
    round: Option<Pass>,
    /// Waiters that left, and the keys that still know them.
    gone: VecDeque<(Ticket, Vec<Id>)>,
    next_ticket: Ticket,
    /// The kind of the last task.
    turn: usize,
}

#[derive(Debug)]
struct Waiter {
    /// In the caller's order.
    keys: Vec<Id>,
    line: Option<Id>,
    deadline: i64,
    again: Option<i64>,
}

#[derive(Debug)]
struct Key {
    name: Rc<[u8]>,
    /// All that wait for this key, whichever key denies them.
    members: BTreeSet<Ticket>,
    /// The waiters in its line.
    line: BTreeSet<Ticket>,
    due: Option<i64>,
    news: Option<Pass>,
}

/// A task for the caller. It names a key by its place among the waiter's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Look at all keys of the waiter. Then call [`Queue::leave`], [`Queue::stand`] or
    /// [`Queue::step_aside`].
    Look(Ticket),
    /// The waiter is the first in the line of this key. If the key still denies it, call
    /// [`Queue::stand`]; otherwise go on as for [`Task::Look`].
    First(Ticket, usize),
    /// Something happened to this key. If it is bad news, go on as for [`Task::Look`]; otherwise
    /// do nothing.
    News(Ticket, usize),
}

/// The number of keys that forget a waiter in one step.
const TIDY: usize = 32;

impl Queue {
    /// The number of waiters.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Adds a waiter behind all others, in no line yet; the caller goes on with [`Queue::stand`].
    /// The keys are all different.
    pub fn join<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>, deadline: i64) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let keys: Vec<Id> = names.map(|name| self.id(name)).collect();
        for id in &keys {
            self.keys[*id].members.insert(ticket);
        }
        self.deadlines.insert((deadline, ticket));
        self.waiters.insert(ticket, Waiter { keys, line: None, deadline, again: None });
        ticket
    }

    fn id(&mut self, name: &[u8]) -> Id {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let name: Rc<[u8]> = name.into();
        let key = Key {
            name: name.clone(),
            members: BTreeSet::new(),
            line: BTreeSet::new(),
            due: None,
            news: None,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.keys[id] = key;
                id
            }
            None => {
                self.keys.push(key);
                self.keys.len() - 1
            }
        };
        self.ids.insert(name, id);
        id
    }

    /// Removes a waiter that was answered or has gone.
    pub fn leave(&mut self, ticket: Ticket, now: i64) {
        self.step_out(ticket, now);
        let Some(waiter) = self.waiters.remove(&ticket) else { return };
        self.deadlines.remove(&(waiter.deadline, ticket));
        waiter.again.map(|at| self.again.remove(&(at, ticket)));
        self.gone.push_back((ticket, waiter.keys));
        self.tidy();
    }

    /// Puts a waiter into the line of one of its keys, given by its place. Either the key denies
    /// it until `until`, or the key has room, but not for a waiter behind those in its line.
    pub fn stand(&mut self, ticket: Ticket, key: usize, until: i64, now: i64) {
        let Some(waiter) = self.waiters.get(&ticket) else { return };
        let Some(id) = waiter.keys.get(key).copied() else {
            return self.step_aside(ticket, until, now);
        };
        if waiter.line != Some(id) {
            self.step_out(ticket, now);
            self.keys[id].line.insert(ticket);
            self.waiters.entry(ticket).and_modify(|waiter| waiter.line = Some(id));
        }
        if self.keys[id].line.first() == Some(&ticket) {
            self.plan(id, until);
        }
    }

    /// Puts a waiter into no line, and looks at it again at `at`.
    pub fn step_aside(&mut self, ticket: Ticket, at: i64, now: i64) {
        self.step_out(ticket, now);
        self.look_again(ticket, at);
    }

    /// Looks at a waiter again at `at`, without moving it.
    pub fn look_again(&mut self, ticket: Ticket, at: i64) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        if waiter.again.is_some_and(|planned| planned <= at) {
            return;
        }
        if let Some(planned) = waiter.again.replace(at) {
            self.again.remove(&(planned, ticket));
        }
        self.again.insert((at, ticket));
    }

    /// Takes a waiter out of its line.
    fn step_out(&mut self, ticket: Ticket, now: i64) {
        let line = self.waiters.get_mut(&ticket).and_then(|waiter| waiter.line.take());
        let Some(id) = line else { return };
        let line = &mut self.keys[id].line;
        let was_first = line.first() == Some(&ticket);
        line.remove(&ticket);
        if line.is_empty() {
            self.forget_plan(id);
        } else if was_first {
            self.plan(id, now);
        }
    }

    /// Plans a look at the first in the line of a key, unless an earlier one is planned.
    fn plan(&mut self, id: Id, at: i64) {
        if self.keys[id].due.is_some_and(|planned| planned <= at) {
            return;
        }
        self.forget_plan(id);
        self.keys[id].due = Some(at);
        self.due.insert((at, id));
    }

    fn forget_plan(&mut self, id: Id) {
        if let Some(at) = self.keys[id].due.take() {
            self.due.remove(&(at, id));
        }
    }

    /// The first of its keys that has a line in which an earlier waiter stands.
    pub fn behind(&self, ticket: Ticket) -> Option<usize> {
        let earlier = |id: &Id| self.keys[*id].line.first().is_some_and(|first| *first < ticket);
        self.waiters.get(&ticket)?.keys.iter().position(earlier)
    }

    /// Whether any waiter stands in the line of a key.
    pub fn has_line(&self, name: &[u8]) -> bool {
        self.ids.get(name).is_some_and(|id| !self.keys[*id].line.is_empty())
    }

    /// Notes that a key may have room. Returns whether that concerns any waiter.
    pub fn has_room(&mut self, name: &[u8], now: i64) -> bool {
        let Some(id) = self.ids.get(name).copied() else { return false };
        let has_line = !self.keys[id].line.is_empty();
        if has_line {
            self.plan(id, now);
        }
        has_line
    }

    /// Notes that a key may have room, or may now deny for longer. Returns whether that concerns
    /// any waiter.
    pub fn changed(&mut self, name: &[u8], now: i64) -> bool {
        self.has_room(name, now);
        let Some(id) = self.ids.get(name).copied() else { return false };
        if Pass::begin(&mut self.keys[id].news, self.next_ticket) {
            self.news.push_back(id);
        }
        true
    }

    /// Notes that any key may have room, or may now deny for longer.
    pub fn all_changed(&mut self) {
        if !self.is_empty() {
            Pass::begin(&mut self.round, self.next_ticket);
        }
    }

    /// When the next task is due. May be long ago.
    pub fn next_at(&self) -> Option<i64> {
        if self.round.is_some() || !self.news.is_empty() || !self.gone.is_empty() {
            return Some(i64::MIN);
        }
        let firsts = [
            self.due.first().map(|(at, _)| *at),
            self.deadlines.first().map(|(at, _)| *at),
            self.again.first().map(|(at, _)| *at),
        ];
        firsts.into_iter().flatten().min()
    }

    /// The next waiter whose deadline has passed. It stays until it leaves.
    pub fn expired(&self, now: i64) -> Option<Ticket> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, ticket)| *ticket)
    }

    /// The next task. Takes the kinds in turn, so that many tasks of one kind do not put off the
    /// others. Deadlines are not among them: see [`Queue::expired`].
    pub fn next(&mut self, now: i64) -> Option<Task> {
        const KINDS: usize = 4;
        (0..KINDS).find_map(|_| {
            self.turn = (self.turn + 1) % KINDS;
            match self.turn {
                0 => self.next_first(now),
                1 => self.next_again(now),
                2 => self.next_of_round(),
                _ => self.next_news(),
            }
        })
    }

    fn next_first(&mut self, now: i64) -> Option<Task> {
        let (_, id) = self.due.first().filter(|(at, _)| *at <= now).copied()?;
        self.forget_plan(id);
        let ticket = *self.keys[id].line.first()?;
        Some(Task::First(ticket, self.place(ticket, id)?))
    }

    fn next_again(&mut self, now: i64) -> Option<Task> {
        let (at, ticket) = self.again.first().filter(|(at, _)| *at <= now).copied()?;
        self.again.remove(&(at, ticket));
        self.waiters.entry(ticket).and_modify(|waiter| waiter.again = None);
        Some(Task::Look(ticket))
    }

    fn next_of_round(&mut self) -> Option<Task> {
        loop {
            let pass = self.round.as_mut()?;
            if let Some((ticket, _)) = self.waiters.range(pass.next..pass.end).next() {
                pass.next = ticket + 1;
                return Some(Task::Look(*ticket));
            }
            self.round = pass.another(self.next_ticket);
        }
    }

    fn next_news(&mut self) -> Option<Task> {
        // Waiters that left are still among the members of a key.
        if !self.gone.is_empty() {
            return None;
        }
        while let Some(id) = self.news.pop_front() {
            let key = &mut self.keys[id];
            let Some(pass) = &mut key.news else { continue };
            // The first of the line is looked at anyway.
            let first = key.line.first();
            let mut rest = key.members.range(pass.next..pass.end);
            if let Some(ticket) = rest.find(|ticket| Some(*ticket) != first).copied() {
                pass.next = ticket + 1;
                self.news.push_back(id);
                return Some(Task::News(ticket, self.place(ticket, id)?));
            }
            key.news = pass.another(self.next_ticket);
            if key.news.is_some() {
                self.news.push_back(id);
            } else {
                self.forget_unused(id);
            }
        }
        None
    }

    /// The place of a key among those of a waiter.
    fn place(&self, ticket: Ticket, id: Id) -> Option<usize> {
        self.waiters.get(&ticket)?.keys.iter().position(|key| *key == id)
    }

    /// Makes some keys forget waiters that left. Returns whether there was anything to do.
    pub fn tidy(&mut self) -> bool {
        let Some((ticket, keys)) = self.gone.front_mut() else { return false };
        let (ticket, from) = (*ticket, keys.len().saturating_sub(TIDY));
        let some: Vec<Id> = keys.drain(from..).collect();
        if from == 0 {
            self.gone.pop_front();
        }
        for id in some {
            self.keys[id].members.remove(&ticket);
            self.forget_unused(id);
        }
        if self.is_empty() && self.gone.is_empty() {
            // Gives back the room of many waiters once the last one is gone.
            *self = Queue { next_ticket: self.next_ticket, ..Queue::default() };
        }
        true
    }

    fn forget_unused(&mut self, id: Id) {
        let key = &mut self.keys[id];
        if key.members.is_empty() && key.news.is_none() {
            self.ids.remove(&std::mem::take(&mut key.name));
            self.free.push(id);
        }
    }
}
