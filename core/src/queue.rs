//! Who waits for permits, in which order, and whom to look at when.
//!
//! A waiter stands in the *line* of one of its keys: the one that denies it for longest. A line is in
//! the order of arrival, and only its first is looked at: when its key may have room for it, and when
//! something happened to the key. One that can be served leaves; one that another key denies now moves
//! to the line of that key; in both cases the next in the line is looked at at once. One that its key
//! still denies is looked at again when the key said that it would have room.
//!
//! # What always holds
//!
//! 1. **Nobody sleeps past the moment at which it could be served.** A line that is not empty has a
//!    time at which its first is looked at. That is no later than the key's own word when it last
//!    denied this waiter, and it is now when something happened to the key or when the waiter has
//!    only become the first. A look removes the first or names a new time, so there is no place in a
//!    line to remember or to lose: work that was cut short goes on with the first.
//! 2. **A waiter that cannot be served holds up nobody who can.** It is in the way of those behind it
//!    in its line, where they may not overtake it as long as that very key denies it, and nowhere
//!    else. One that is refused for another reason than its keys stands in no line
//!    ([`Queue::step_aside`]).
//! 3. **A look changes nothing.** Only what a look found does, and what was found twice is as if it
//!    were found once.
//! 4. **No work in waiters times keys.** What happens to a key, to all keys or to a waiter is noted
//!    in a few steps; the rest is done in small ones by [`Queue::next`] and [`Queue::tidy`], between
//!    which the caller may stop at any time and note more.
//!
//! Bad news is another matter than room: a waiter may have become hopeless by a key in whose line it
//! does not stand. So what may be bad for those who wait for a key ([`Queue::changed`]) is shown to
//! each of them once, and what may be bad for everybody ([`Queue::all_changed`]) to all.
//!
//! Nothing here knows a limiter, a server or a clock: who can be served is the caller's to find out,
//! and times are numbers that grow. A caller must answer each [`Task`] by one of the functions that
//! it names, or the waiter sleeps until its deadline.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

mod pass;

use self::pass::Pass;
pub use self::pass::Ticket;

/// What a key is called inside: its place in `Queue::keys`.
type Id = usize;

/// Those who wait, over keys that are byte strings.
#[derive(Debug, Default)]
pub struct Queue {
    waiters: BTreeMap<Ticket, Waiter>,
    keys: Vec<Key>,
    ids: HashMap<Rc<[u8]>, Id>,
    /// Places of `keys` that are not in use.
    free: Vec<Id>,
    /// When the first of a line is to be looked at.
    due: BTreeSet<(i64, Id)>,
    deadlines: BTreeSet<(i64, Ticket)>,
    /// Who is to be looked at again at a time of its own.
    again: BTreeSet<(i64, Ticket)>,
    /// Keys whose waiters are being shown what happened to it.
    news: VecDeque<Id>,
    /// All waiters are being looked at.
    round: Option<Pass>,
    /// Who left, and those of its keys that still know it.
    gone: VecDeque<(Ticket, Vec<Id>)>,
    next_ticket: Ticket,
    /// Which kind of work came last.
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
    /// Who waits for it, whatever key it is that denies them.
    members: BTreeSet<Ticket>,
    /// Those whom it keeps waiting.
    line: BTreeSet<Ticket>,
    due: Option<i64>,
    news: Option<Pass>,
}

/// Something to do for a waiter. Keys are told by their place among the waiter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Look at all its keys. Then [`Queue::leave`], [`Queue::stand`] or [`Queue::step_aside`].
    Look(Ticket),
    /// It is the first in the line of this key. If the key still denies it, [`Queue::stand`]; else as
    /// [`Task::Look`].
    First(Ticket, usize),
    /// Something happened to this key. If that is no bad news, nothing; else as [`Task::Look`].
    News(Ticket, usize),
}

/// How many keys forget one who left, in one step.
const TIDY: usize = 32;

impl Queue {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Joins behind everybody else, until the deadline, in no line yet: to be followed by
    /// [`Queue::stand`]. The keys are all different.
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

    /// It was answered, or is not there any more.
    pub fn leave(&mut self, ticket: Ticket, now: i64) {
        self.step_out(ticket, now);
        let Some(waiter) = self.waiters.remove(&ticket) else { return };
        self.deadlines.remove(&(waiter.deadline, ticket));
        waiter.again.map(|at| self.again.remove(&(at, ticket)));
        self.gone.push_back((ticket, waiter.keys));
        self.tidy();
    }

    /// One of its keys, by its place among them, denies it until then; or has room, but not for those
    /// behind the waiters in its line.
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

    /// It is in nobody's way, and is looked at again then.
    pub fn step_aside(&mut self, ticket: Ticket, at: i64, now: i64) {
        self.step_out(ticket, now);
        self.look_again(ticket, at);
    }

    /// It stays where it stands, and is also looked at again then.
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

    /// Leaves the line that it stands in.
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

    /// The first in the line of a key is looked at then, or sooner if that was planned.
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

    /// The first of its keys in whose line somebody stands who came before it.
    pub fn behind(&self, ticket: Ticket) -> Option<usize> {
        let earlier = |id: &Id| self.keys[*id].line.first().is_some_and(|first| *first < ticket);
        self.waiters.get(&ticket)?.keys.iter().position(earlier)
    }

    /// Whether a key keeps anybody waiting.
    pub fn has_line(&self, name: &[u8]) -> bool {
        self.ids.get(name).is_some_and(|id| !self.keys[*id].line.is_empty())
    }

    /// A key may have room. Says whether that is of interest to anybody.
    pub fn has_room(&mut self, name: &[u8], now: i64) -> bool {
        let Some(id) = self.ids.get(name).copied() else { return false };
        let has_line = !self.keys[id].line.is_empty();
        if has_line {
            self.plan(id, now);
        }
        has_line
    }

    /// A key may have room, or may now deny for longer. Says whether that is of interest to anybody.
    pub fn changed(&mut self, name: &[u8], now: i64) -> bool {
        self.has_room(name, now);
        let Some(id) = self.ids.get(name).copied() else { return false };
        if Pass::begin(&mut self.keys[id].news, self.next_ticket) {
            self.news.push_back(id);
        }
        true
    }

    /// Any key may have room, or may now deny for longer.
    pub fn all_changed(&mut self) {
        if !self.is_empty() {
            Pass::begin(&mut self.round, self.next_ticket);
        }
    }

    /// When there is something to do. May be long ago.
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

    /// The next waiter whose deadline has come. It stays until it leaves.
    pub fn expired(&self, now: i64) -> Option<Ticket> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, ticket)| *ticket)
    }

    /// The next thing to do, of each kind in turn, so that much of one kind does not put off the
    /// others. Deadlines are apart.
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
        // Those who left are still among the waiters of a key.
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

    /// The place of a key among a waiter's.
    fn place(&self, ticket: Ticket, id: Id) -> Option<usize> {
        self.waiters.get(&ticket)?.keys.iter().position(|key| *key == id)
    }

    /// Lets some keys forget those who left. Says whether there was anything to do.
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
            // Room for many is not kept when nobody is left.
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
