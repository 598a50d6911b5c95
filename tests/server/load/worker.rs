//! The threads that make the load, and their logs.

use redis::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use testkit::{Client, Random, Reply, Words, wait_for, words};

use super::*;

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after the epoch");
    since.as_millis() as i64
}

/// An acknowledged grant.
pub(super) struct Grant {
    pub(super) call: Call,
    pub(super) span: Span,
    /// The ledger that counts it, and its number there.
    pub(super) entry: Option<(usize, i64)>,
}

/// Counts the calls of one thread in one slot.
pub(super) struct Ledger {
    pub(super) tag: usize,
    pub(super) key: String,
    pub(super) calls: i64,
}

/// How often each kind of answer came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Calls that were granted and acknowledged.
    pub granted: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// Calls that were granted, but not confirmed by a replica in time.
    pub unconfirmed: u64,
    /// Calls without a reply, since the connection broke.
    pub unknown: u64,
    /// `MOVED`.
    pub moved: u64,
    /// `ASK`.
    pub ask: u64,
    /// `TRYAGAIN`.
    pub try_again: u64,
    /// Other errors that mean "not now".
    pub away: u64,
}

/// The log of a thread.
#[derive(Default)]
pub struct Log {
    pub(super) grants: Vec<Grant>,
    /// Calls of which the client does not know whether they took permits.
    pub(super) uncertain: Vec<Call>,
    pub(super) ledgers: Vec<Ledger>,
    /// See [`Counts`].
    pub counts: Counts,
}

impl Log {
    /// The limiters of all acknowledged grants.
    pub fn granted_limiters(&self) -> impl Iterator<Item = Limiter> {
        self.grants.iter().flat_map(|grant| grant.call.limiters())
    }
}

/// How far the threads have come, and whether they should go on.
#[derive(Default)]
pub struct Progress {
    granted: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// Waits until this many more calls were granted and acknowledged.
    pub fn wait_for_grants(&self, count: u64) {
        let goal = self.granted.load(Ordering::Relaxed) + count;
        wait_for("grants", || (self.granted.load(Ordering::Relaxed) >= goal).then_some(()));
    }
}

/// Ends the threads on a panic too.
struct StopOnDrop<'a>(&'a Progress);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// The answer to one call.
struct Answer {
    reply: Result<Reply, String>,
    span: Span,
    /// The number that the ledger has reached.
    calls: Option<i64>,
    /// Whether a replica has it.
    confirmed: bool,
}

/// Sends a call and its ledger's count together.
fn exchange(
    client: &mut Client,
    asking: bool,
    call: Words,
    ledger: Option<&str>,
    wait: bool,
) -> Answer {
    let mut commands = Vec::new();
    commands.extend(asking.then(|| words("ASKING")));
    commands.push(call);
    commands.extend(ledger.map(|key| words("INCR").arg(key)));
    commands.extend(wait.then(|| words(&format!("WAIT 1 {CONFIRM_MS}"))));
    let from_ms = now_ms();
    let reply = client.try_send(&commands).and_then(|()| {
        if asking {
            client.receive()?;
        }
        client.receive()
    });
    let span = Span { from_ms, to_ms: now_ms() };
    let broken = reply.as_ref().is_err_and(|line| matches!(refusal(line), Refusal::Unknown));
    let mut next = |sent: bool| match (sent && !broken).then(|| client.receive()) {
        Some(Ok(Value::Int(integer))) => Some(integer),
        _ => None,
    };
    let calls = next(ledger.is_some());
    let confirmed = !wait || next(true).is_some_and(|replicas| replicas >= 1);
    Answer { reply: reply.map(|value| Reply::of(&value)), span, calls, confirmed }
}

struct Worker<'a> {
    plan: &'a Plan,
    route: &'a mut dyn Route,
    progress: &'a Progress,
    name: String,
    log: Log,
    /// The ledger in use for each tag.
    ledgers: HashMap<usize, usize>,
}

impl<'a> Worker<'a> {
    fn new(
        plan: &'a Plan,
        route: &'a mut dyn Route,
        progress: &'a Progress,
        name: String,
    ) -> Worker<'a> {
        Worker { plan, route, progress, name, log: Log::default(), ledgers: HashMap::new() }
    }

    /// The ledger for a tag: the one in use, or a new one.
    fn ledger(&mut self, tag: usize) -> usize {
        let ledgers = &mut self.log.ledgers;
        *self.ledgers.entry(tag).or_insert_with(|| {
            let key = format!("{}:calls:{}:{}", self.plan.tags[tag], self.name, ledgers.len());
            ledgers.push(Ledger { tag, key, calls: 0 });
            ledgers.len() - 1
        })
    }

    /// Sends a call until it is answered. Returns whether it was granted, `None` if nobody can tell.
    fn perform(&mut self, call: Call) -> Option<bool> {
        let begun = Instant::now();
        let mut ask = None;
        loop {
            assert!(begun.elapsed() < OUTAGE, "gave up on {call:?}: {:?}", self.log.counts);
            let counted = self.plan.acknowledged != Acknowledged::Reply;
            let ledger = counted.then(|| self.ledger(call.tag));
            let client = match ask {
                Some(port) => self.route.at(port),
                None => self.route.client(call.tag),
            };
            let Some(client) = client else {
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let answer = exchange(
                client,
                ask.take().is_some(),
                self.plan.command(&call),
                ledger.map(|i| self.log.ledgers[i].key.as_str()),
                self.plan.acknowledged == Acknowledged::Replica,
            );
            let line = match answer.reply {
                Ok(reply) => {
                    self.record(call, &answer, reply.is_grant(), ledger);
                    return Some(reply.is_grant());
                }
                Err(line) => line,
            };
            // Other tags may share the connection.
            self.ledgers.clear();
            let counts = &mut self.log.counts;
            match refusal(&line) {
                Refusal::Again => {
                    counts.try_again += 1;
                    thread::sleep(Duration::from_millis(1));
                }
                Refusal::Moved(port) => {
                    counts.moved += 1;
                    self.route.moved(call.tag, port);
                }
                Refusal::Ask(port) => {
                    counts.ask += 1;
                    ask = Some(port);
                }
                Refusal::Away => {
                    counts.away += 1;
                    self.route.lost(call.tag);
                    thread::sleep(Duration::from_millis(10));
                }
                Refusal::Unknown => {
                    counts.unknown += 1;
                    self.route.lost(call.tag);
                    self.log.uncertain.push(call);
                    return None;
                }
            }
        }
    }

    fn record(&mut self, call: Call, answer: &Answer, granted: bool, ledger: Option<usize>) {
        let counts = &mut self.log.counts;
        let entry = ledger.map(|i| {
            let ledger = &mut self.log.ledgers[i];
            ledger.calls += 1;
            let calls = answer.calls.unwrap_or(ledger.calls);
            assert_eq!(calls, ledger.calls, "the ledger of a connection that did not break");
            (i, calls)
        });
        if ledger.is_some() && answer.calls.is_none() {
            // The connection broke between the reply and that of the ledger.
            self.ledgers.clear();
        }
        if !granted {
            counts.denied += 1;
        } else if answer.confirmed {
            counts.granted += 1;
            self.progress.granted.fetch_add(1, Ordering::Relaxed);
            self.log.grants.push(Grant { call, span: answer.span, entry });
        } else {
            counts.unconfirmed += 1;
            self.log.uncertain.push(call);
        }
    }
}

/// Runs a thread for each route while `during` runs. Returns the logs.
pub fn under_load<R: Route>(
    plan: &Plan,
    routes: Vec<R>,
    during: impl FnOnce(&Progress),
) -> Vec<Log> {
    let progress = Progress::default();
    thread::scope(|scope| {
        let start = |(i, mut route): (usize, R)| {
            let progress = &progress;
            scope.spawn(move || {
                let mut random = Random(i as u64 + 1);
                let mut worker = Worker::new(plan, &mut route, progress, i.to_string());
                while !progress.stop.load(Ordering::Relaxed) {
                    worker.perform(plan.pick(&mut random));
                    thread::sleep(PAUSE);
                }
                worker.log
            })
        };
        let threads: Vec<_> = routes.into_iter().enumerate().map(start).collect();
        let stop = StopOnDrop(&progress);
        during(&progress);
        drop(stop);
        threads.into_iter().map(|thread| thread.join().expect("a thread of clients")).collect()
    })
}

/// Takes all permits that are left in limiters with a long window.
pub fn drain(plan: &Plan, route: &mut dyn Route) -> Log {
    let progress = Progress::default();
    let mut worker = Worker::new(plan, route, &progress, "drain".into());
    for limiter in plan.limiters().filter(|limiter| plan.rule(*limiter).is_long()) {
        let Limiter { tag, rule, key } = limiter;
        let call = || Call { tag, rule, keys: vec![key] };
        // Enough even for a limiter that has forgotten everything.
        let limit = 2 * plan.rule(limiter).limit;
        let denied = (0..=limit).any(|_| worker.perform(call()) == Some(false));
        assert!(denied, "no end of permits in {}", plan.key(limiter));
    }
    worker.log
}
