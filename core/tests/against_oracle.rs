//! Random traffic against a naive second implementation: every field of every answer must agree, a
//! replica that only hears of the effects must stay equal, and everything stored must read back equal.
//!
//! A failure names its seed. Put it into `REGRESSIONS`, which is run before anything else. More seeds
//! than usual are tried with `RL_ORACLE_RUNS=5000 cargo test --test against_oracle`.

mod oracle;
mod strings;

use rl_core::call::peek;
use rl_core::decision::{Ask, Decision, Part, Terms, Verdict};
use rl_core::effect::Effect;
use rl_core::in_memory::InMemory;
use rl_core::limiter::Limiter;
use rl_core::limiters::Observer;
use rl_core::manage::{Lay, lay, refund, release};
use rl_core::rule::{Algorithm, MAX_PERMITS, MAX_TIME_MS, MAX_WINDOW_MS, Rule, Shape};
use rl_core::stored::effect::{Payload, decode_payload, encode_effect, encode_whole};
use rl_core::stored::limiter::{decode_limiter, encode_limiter};

/// What kind of traffic a run is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Traffic {
    /// One algorithm, with few entries in its logs or with so many that they are rounded.
    Only(Algorithm, Logs),
    /// Keys change their algorithm all the time.
    Mixed,
    /// Forced debts, up to where they saturate.
    Flood,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Logs {
    Exact,
    Stepped,
}

/// Runs that once failed.
const REGRESSIONS: &[(Traffic, u64)] = &[
    // An exemption that outlasts a block, also at LIMIT 0 and at a cost above the capacity.
    (Traffic::Only(Algorithm::Sliding, Logs::Exact), 70),
    (Traffic::Only(Algorithm::Sliding, Logs::Stepped), 58),
    (Traffic::Only(Algorithm::Fixed, Logs::Exact), 4),
    (Traffic::Only(Algorithm::Counter, Logs::Exact), 70),
    (Traffic::Flood, 0),
    // COST 0 with RESERVE.
    (Traffic::Only(Algorithm::Bucket, Logs::Exact), 0),
    // A renewed lease whose old end was the last one; COST 0 by the holder of a lease.
    (Traffic::Only(Algorithm::Concurrency, Logs::Exact), 0),
    (Traffic::Only(Algorithm::Concurrency, Logs::Exact), 7),
    // The millisecond between a carried bucket's being full and its being void.
    (Traffic::Mixed, 0),
    (Traffic::Mixed, 1),
    // Ended leases that a release forgot, and a clock that stepped back; a window refunded in full.
    (Traffic::Mixed, 352),
    (Traffic::Mixed, 2250),
];

const KEYS: usize = 3;
const STEPS: usize = 400;
/// Of each kind: 400 steps each make 110,000 operations.
const RUNS: u64 = 275;
const IDS: [&[u8]; 4] = [b"a", b"b", b"cc", b"a longer name of a lease"];

#[test]
fn sliding_exact() {
    run_all(Traffic::Only(Algorithm::Sliding, Logs::Exact));
}

#[test]
fn sliding_stepped() {
    run_all(Traffic::Only(Algorithm::Sliding, Logs::Stepped));
}

#[test]
fn bucket() {
    run_all(Traffic::Only(Algorithm::Bucket, Logs::Exact));
}

#[test]
fn fixed() {
    run_all(Traffic::Only(Algorithm::Fixed, Logs::Exact));
}

#[test]
fn counter() {
    run_all(Traffic::Only(Algorithm::Counter, Logs::Exact));
}

#[test]
fn concurrency() {
    run_all(Traffic::Only(Algorithm::Concurrency, Logs::Exact));
}

#[test]
fn mixed() {
    run_all(Traffic::Mixed);
}

#[test]
fn flood() {
    run_all(Traffic::Flood);
}

fn run_all(traffic: Traffic) {
    let again = REGRESSIONS.iter().filter(|(of, _)| *of == traffic).map(|(_, seed)| *seed);
    let runs = std::env::var("RL_ORACLE_RUNS").ok().and_then(|runs| runs.parse().ok());
    // A thousand of the largest costs make the largest debt: that takes long runs.
    let stretch = if traffic == Traffic::Flood { 25 } else { 1 };
    for seed in again.chain(0..runs.unwrap_or(RUNS) / stretch) {
        let mut world = World::new(traffic, seed);
        for step in 0..STEPS * stretch as usize {
            world.at = format!("{traffic:?}, seed {seed}, step {step}");
            world.step();
        }
    }
}

/// SplitMix64 (G. Steele, D. Lea, C. Flood, 2014): the same numbers everywhere from the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn range(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from + 1) as u64) as i64
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// The limiters of a primary, of its replica, and of the oracle.
struct World {
    at: String,
    traffic: Traffic,
    random: Random,
    now_ms: i64,
    resolution: u32,
    rules: Vec<Rule>,
    primary: Vec<Option<Limiter>>,
    replica: Vec<Option<Limiter>>,
    oracle: Vec<oracle::Key>,
    /// When the server drops each key: what effects last said.
    ttl: Vec<Option<i64>>,
}

/// What the whole decision says of a call.
#[derive(Debug, PartialEq)]
struct Answer {
    decision: Decision,
    verdicts: Vec<Verdict>,
    effects: Vec<Option<Effect>>,
    /// Whether an effect takes more memory than the limiter has.
    grows: Vec<bool>,
}

/// Hears how a call is decided.
#[derive(Default)]
struct Heard {
    /// Whether the short way must not be taken.
    in_full: bool,
    was_decided_in_full: bool,
    denied_by: Vec<usize>,
    verdicts: Vec<Verdict>,
    effects: Vec<Option<Effect>>,
    grows: Vec<bool>,
}

impl Observer for Heard {
    fn wants_answers(&self) -> bool {
        self.in_full
    }

    fn denied_by(&mut self, place: usize) {
        self.denied_by.push(place);
    }

    fn decided(&mut self, _: &Decision, parts: &[Part<'_>]) {
        self.was_decided_in_full = true;
        self.verdicts = parts.iter().map(|part| *part.verdict()).collect();
        self.effects = parts.iter().map(Part::effect).collect();
        let grows = parts.iter().zip(&self.effects);
        let grows = grows.map(|(part, effect)| effect.as_ref().is_some_and(|e| part.grows(e)));
        self.grows = grows.collect();
    }
}

impl World {
    fn new(traffic: Traffic, seed: u64) -> World {
        let mut random = Random(seed);
        let now_ms = random.pick(&[0, 3, 1_700_000_000_000, 1_700_000_000_123]);
        let resolution = match traffic {
            Traffic::Only(_, Logs::Exact) => 4096,
            _ => random.pick(&[16, 16, 17, 50]),
        };
        let mut world = World {
            at: String::new(),
            traffic,
            random,
            now_ms,
            resolution,
            rules: Vec::new(),
            primary: vec![None; KEYS],
            replica: vec![None; KEYS],
            oracle: vec![oracle::Key::default(); KEYS],
            ttl: vec![None; KEYS],
        };
        world.rules = (0..KEYS).map(|_| world.new_rule()).collect();
        world
    }

    fn new_rule(&mut self) -> Rule {
        use Algorithm::{Bucket, Fixed};
        let random = &mut self.random;
        let algorithm = match self.traffic {
            Traffic::Only(algorithm, _) => algorithm,
            Traffic::Mixed => random.pick(Algorithm::ALL),
            Traffic::Flood => {
                let spent =
                    Algorithm::ALL.iter().copied().filter(|algorithm| !algorithm.is_leased());
                random.pick(&spent.collect::<Vec<_>>())
            }
        };
        let windows = match self.traffic {
            Traffic::Flood => vec![1000, 86_400_000, 86_400_001, MAX_WINDOW_MS - 1, MAX_WINDOW_MS],
            Traffic::Only(_, Logs::Stepped) => vec![20, 100, 999, 1000, 60_000],
            _ => vec![1, 2, 7, 10, 100, 1000, 1000, 1001, 60_000, 86_400_000, MAX_WINDOW_MS],
        };
        let limits = match self.traffic {
            Traffic::Only(_, Logs::Stepped) => vec![3, 15, 16, 17, 18, 40, 100, 1000],
            _ => vec![1, 1, 2, 3, 5, 5, 10, 17, 40, 300, 5000, MAX_PERMITS],
        };
        let window_ms = random.pick(&windows);
        let limit = if random.percent(2) { 0 } else { random.pick(&limits) };
        let mut shape = Shape::default();
        if algorithm == Bucket && random.percent(60) {
            shape.burst = Some(random.pick(&[1, 1, 2, 5, 20, 1000, MAX_PERMITS]));
        }
        if algorithm == Fixed && random.percent(50) {
            let far = [-MAX_WINDOW_MS, -28_800_000, -1, 1, 500, MAX_WINDOW_MS];
            shape.offset_ms = Some(random.pick(&far));
        }
        Rule::new(algorithm, window_ms, limit, shape).unwrap()
    }

    /// The same kind of rule with one number changed.
    fn changed_rule(&mut self, rule: Rule) -> Rule {
        let other = self.new_rule();
        if other.algorithm() != rule.algorithm() {
            return other;
        }
        let mut window_ms = rule.window_ms();
        let mut limit = rule.limit();
        let mut shape = Shape::default();
        if rule.algorithm() == Algorithm::Bucket {
            shape.burst = Some(rule.burst().max(1));
        }
        if rule.algorithm() == Algorithm::Fixed {
            shape.offset_ms = Some(rule.offset_ms());
        }
        match self.random.below(4) {
            0 => window_ms = other.window_ms(),
            1 => limit = other.limit(),
            2 => limit += 1,
            _ if rule.algorithm() == Algorithm::Bucket => shape.burst = Some(other.burst().max(1)),
            _ => return other,
        }
        Rule::new(rule.algorithm(), window_ms, limit.min(MAX_PERMITS), shape).unwrap()
    }

    fn step(&mut self) {
        self.pass_time();
        self.expire();
        let changes = match self.traffic {
            Traffic::Mixed => 20,
            Traffic::Only(..) => 6,
            Traffic::Flood => 1,
        };
        if self.random.percent(changes) {
            let i = self.random.below(KEYS as u64) as usize;
            let rule = self.rules[i];
            self.rules[i] =
                if self.random.percent(50) { self.new_rule() } else { self.changed_rule(rule) };
        }
        match self.random.below(100) {
            0..5 => self.refund(),
            5..9 => self.release(),
            9..11 => self.lay(),
            11 if self.traffic != Traffic::Flood => {
                let i = self.random.below(KEYS as u64) as usize;
                self.delete(i);
            }
            _ => self.call(),
        }
        if self.random.percent(15) {
            self.check_stored();
        }
    }

    fn pass_time(&mut self) {
        let i = self.random.below(KEYS as u64) as usize;
        let (window_ms, limit) = (self.rules[i].window_ms(), self.rules[i].limit().max(1));
        let slow = self.traffic == Traffic::Flood;
        let random = &mut self.random;
        let gap = match random.below(100) {
            0..35 => 0,
            35..50 => 1,
            50..60 => random.range(2, 12),
            _ if slow => random.range(0, 20),
            60..75 => window_ms / limit.min(1 << 40) as i64 + random.range(-1, 1),
            75..85 => random.range(0, window_ms),
            85..91 => window_ms + random.range(-1, 1),
            91..94 => 2 * window_ms + random.range(-1, 1),
            94 => random.range(0, 1_000_000_000),
            95 => 0,
            96 => -1,
            97 => -random.range(0, 100),
            98 => -random.range(0, window_ms),
            _ => -random.range(0, 3 * window_ms),
        };
        // Not too near to the end of time, where the oracle's sums would leave its numbers.
        self.now_ms = (self.now_ms + gap).clamp(0, MAX_TIME_MS / 4);
    }

    /// The server drops keys at their TTL; then there must be nothing left to know.
    fn expire(&mut self) {
        for i in 0..KEYS {
            if self.primary[i].is_none() {
                continue;
            }
            let ttl = self.ttl[i].unwrap_or_else(|| panic!("{}: no TTL", self.at));
            if ttl <= self.now_ms {
                let key = &self.oracle[i];
                let last = key.void_at().max(key.blocked_until).max(key.exempt_until);
                assert!(last <= self.now_ms, "{}: {key:?} expired", self.at);
                self.delete(i);
            }
        }
    }

    /// What the caller of every command does first.
    fn pull_back(&mut self, i: usize) {
        self.oracle[i].pull_back(self.now_ms);
        let ahead = self.primary[i].as_ref();
        if let Some((pulled, effect)) = ahead.and_then(|l| l.pull_back(self.now_ms)) {
            self.apply(i, &effect);
            assert_eq!(self.primary[i].as_ref(), Some(&pulled), "{}", self.at);
        }
        let again = self.primary[i].as_ref().and_then(|l| l.pull_back(self.now_ms));
        assert_eq!(again, None, "{}: pulled back twice", self.at);
    }

    fn apply(&mut self, i: usize, effect: &Effect) {
        self.primary[i].get_or_insert_default().apply(effect);
        self.ttl[i] = effect.expire_at_ms.or(self.ttl[i]);
        let mut bytes = Vec::new();
        encode_effect(effect, &mut bytes);
        let payload = decode_payload(&bytes);
        assert_eq!(payload, Ok(Payload::Effect(effect.clone())), "{}", self.at);
        if let Ok(Payload::Effect(effect)) = payload {
            self.replica[i].get_or_insert_default().apply(&effect);
        }
        self.check_ttl(i);
    }

    /// A key that was just written goes neither too early nor much later than it may.
    fn check_ttl(&self, i: usize) {
        let (at, key) = (&self.at, &self.oracle[i]);
        let ttl = self.ttl[i].unwrap_or_else(|| panic!("{at}: no TTL"));
        let needed = key.void_at().max(key.blocked_until).max(key.exempt_until);
        assert!(
            ttl >= needed,
            "{at}: a TTL of {ttl} for {key:?}, {needed} is too early at {}",
            self.now_ms
        );
        let mut step = 1024;
        while step < key.window() / 16 {
            step *= 2;
        }
        let late = (8 * step).max(60_000);
        let latest = needed.max(self.now_ms) + 2 * step + late;
        assert!(ttl < latest, "{at}: a TTL of {ttl} for {key:?}, {} too long", ttl - latest);
    }

    fn cost(&mut self, rule: &Rule) -> u64 {
        let random = &mut self.random;
        let capacity = rule.capacity();
        let cost = match random.below(100) {
            _ if self.traffic == Traffic::Flood => random.pick(&[1, MAX_PERMITS, MAX_PERMITS]),
            0..5 => 0,
            5..65 => 1,
            65..75 => 2 + random.below(4),
            75..85 => 1 + random.below(capacity.max(1)),
            85..90 => capacity / 2 + 1,
            90..94 => capacity,
            94..97 => capacity + 1,
            97 => 2 * capacity,
            98 => 1000,
            _ => MAX_PERMITS,
        };
        cost.min(MAX_PERMITS)
    }

    fn call(&mut self) {
        let mut keys: Vec<usize> = (0..KEYS).collect();
        for i in (1..KEYS).rev() {
            keys.swap(i, self.random.below(i as u64 + 1) as usize);
        }
        keys.truncate(self.random.pick(&[1, 1, 1, 2, 3]));
        let mut asks = Vec::new();
        for &i in &keys {
            let rule = self.rules[i];
            let cost = self.cost(&rule);
            let block_ms = if self.random.percent(6) {
                self.random.pick(&[1, 5, 100, 1000, 100_000])
            } else {
                0
            };
            let shadow = self.random.percent(10);
            asks.push(Ask { rule, cost, block_ms, shadow });
        }
        let is = |algorithm: Algorithm| move |a: &Ask| a.rule.algorithm() == algorithm;
        let holds_leases = asks.iter().any(is(Algorithm::Concurrency));
        let only_buckets = asks.iter().all(is(Algorithm::Bucket));
        let forced = if self.traffic == Traffic::Flood { 95 } else { 10 };
        let mut terms =
            Terms { now_ms: self.now_ms, resolution: self.resolution, ..Terms::default() };
        terms.id = holds_leases.then(|| self.random.pick(&IDS));
        let only_leases = asks.iter().all(is(Algorithm::Concurrency));
        terms.only_renew = only_leases && self.random.percent(30);
        match self.random.below(100) {
            n if n < forced && !holds_leases => terms.force = true,
            n if n < 40 && only_buckets => {
                let window_ms = asks[0].rule.window_ms();
                terms.reserve_ms = self.random.pick(&[1, 2, 50, window_ms, 3 * window_ms]);
            }
            _ => {}
        }
        if !terms.force && self.random.percent(20) {
            let dearest = asks.iter().map(|a| a.cost).max().unwrap().max(1);
            let upto = self.random.pick(&[2, 3, 10, 20, 1000, MAX_PERMITS]);
            terms.upto = upto.min(MAX_PERMITS / dearest);
        }

        let ahead: Vec<_> = keys.iter().map(|&i| self.primary[i].clone()).collect();
        for &i in &keys {
            self.pull_back(i);
        }
        let before: Vec<oracle::Key> = keys.iter().map(|&i| self.oracle[i].clone()).collect();
        let expected = oracle::call(&before, &asks, &terms);
        let answer = self.ask(&keys, &asks, &terms);
        let again = self.ask(&keys, &asks, &terms);
        let context = || {
            let stored: Vec<_> = keys.iter().map(|&i| &self.primary[i]).collect();
            format!(
                "{}: keys {keys:?} {terms:?}\n{asks:?}\nstored {stored:?}\noracle {before:?}",
                self.at
            )
        };
        assert_eq!(again, answer, "{}", context());
        self.check_peek(&keys, &asks, &terms, &answer);
        self.check_plain(&keys, &asks, &terms, &answer);
        self.check_ahead(ahead, &keys, &asks, &terms, &answer);
        let Answer { decision, verdicts, effects, .. } = answer;
        assert_eq!(verdicts, expected.verdicts, "{}", context());
        assert_eq!(decision, expected.decision, "{}", context());
        let wrote: Vec<bool> = effects.iter().map(Option::is_some).collect();
        assert_eq!(wrote, expected.wrote, "{}", context());

        for ((i, effect), (after, ask)) in
            keys.iter().copied().zip(effects).zip(expected.after.into_iter().zip(&asks))
        {
            self.oracle[i] = after;
            if let Some(effect) = effect {
                self.apply(i, &effect);
                self.check_written(i, ask);
            }
        }
    }

    /// Makes a call in full, on copies of the limiters.
    fn ask(&self, keys: &[usize], asks: &[Ask], terms: &Terms<'_>) -> Answer {
        let mut copies: Vec<_> = keys.iter().map(|&i| self.primary[i].clone()).collect();
        let mut limiters = InMemory::new(&mut copies, asks, terms.now_ms).recorded();
        let mut heard = Heard { in_full: true, ..Heard::default() };
        let (decision, verdict) = limiters.acquire(terms, &mut heard);
        let effects = limiters.into_effects();
        let applied = keys.iter().enumerate().map(|(at, _)| {
            effects.iter().find(|(place, _)| *place == at).map(|(_, effect)| effect.clone())
        });
        let Heard { verdicts, effects, grows, .. } = heard;
        assert_eq!(applied.collect::<Vec<_>>(), effects, "{}", self.at);
        assert_eq!(verdict, verdicts[decision.binding], "{}", self.at);
        Answer { decision, verdicts, effects, grows }
    }

    /// The same by the way that changes nothing.
    fn check_peek(&self, keys: &[usize], asks: &[Ask], terms: &Terms<'_>, whole: &Answer) {
        let mut stored: Vec<_> = keys.iter().map(|&i| self.primary[i].clone()).collect();
        let limiters = InMemory::new(&mut stored, asks, terms.now_ms).recorded();
        let mut heard = Heard::default();
        let (decision, verdict) = peek(&limiters, terms, &mut heard);
        assert_eq!((&decision, &heard.verdicts), (&whole.decision, &whole.verdicts), "{}", self.at);
        assert_eq!(verdict, whole.verdicts[decision.binding], "{}", self.at);
        assert_eq!(limiters.into_effects(), [], "{}", self.at);
    }

    /// The short way must decide as the long one does, and be taken where it can.
    fn check_plain(&self, keys: &[usize], asks: &[Ask], terms: &Terms<'_>, whole: &Answer) {
        let at = &self.at;
        let Answer { decision, verdicts, effects, grows } = whole;
        let stored: Vec<_> = keys.iter().map(|&i| self.primary[i].clone()).collect();
        let mut short = stored.clone();
        let mut limiters = InMemory::new(&mut short, asks, terms.now_ms).recorded();
        let mut heard = Heard::default();
        let acquired = limiters.acquire(terms, &mut heard);
        let done = limiters.into_effects();
        assert_eq!(acquired, (*decision, verdicts[decision.binding]), "{at}: short");
        for (place, effect) in effects.iter().enumerate() {
            let done = done.iter().find(|(of, _)| *of == place).map(|(_, effect)| effect);
            assert_eq!(done, effect.as_ref(), "{at}: short");
        }
        let mut long = stored.clone();
        for (limiter, effect) in long.iter_mut().zip(effects) {
            effect.iter().for_each(|effect| limiter.get_or_insert_default().apply(effect));
        }
        assert_eq!(short, long, "{at}: short");
        if heard.was_decided_in_full {
            let extended =
                terms.upto > 1 || terms.reserve_ms > 0 || terms.force || terms.id.is_some();
            let excused = stored.iter().zip(asks).zip(grows).any(|((stored, ask), grows)| {
                let Some(stored) = stored else { return true };
                let same_rule = stored.rule() == Some(ask.rule);
                let asks_more = ask.cost != 1 || ask.block_ms > 0 || ask.shadow;
                let is_laid = stored.laid().end_ms() > self.now_ms;
                let leases = ask.rule.algorithm() == Algorithm::Concurrency;
                !same_rule || asks_more || is_laid || leases || *grows
            });
            assert!(extended || excused, "{at}: not plain");
        } else {
            let denying = (0..keys.len()).filter(|key| verdicts[*key].granted == 0);
            assert_eq!(heard.denied_by, denying.collect::<Vec<_>>(), "{at}: short");
        }
    }

    /// A call corrects limiters that are ahead of the clock by itself, and a look reads them corrected.
    fn check_ahead(
        &self,
        mut ahead: Vec<Option<Limiter>>,
        keys: &[usize],
        asks: &[Ask],
        terms: &Terms<'_>,
        whole: &Answer,
    ) {
        let mut expected: Vec<_> = keys.iter().map(|&i| self.primary[i].clone()).collect();
        if ahead == expected {
            return;
        }
        for (limiter, effect) in expected.iter_mut().zip(&whole.effects) {
            effect.iter().for_each(|effect| limiter.get_or_insert_default().apply(effect));
        }
        let answer = (whole.decision, whole.verdicts[whole.decision.binding]);
        let mut limiters = InMemory::new(&mut ahead, asks, terms.now_ms);
        assert_eq!(peek(&limiters, terms, &mut ()), answer, "{}: ahead", self.at);
        assert_eq!(limiters.acquire(terms, &mut ()), answer, "{}: ahead", self.at);
        assert_eq!(ahead, expected, "{}: ahead", self.at);
    }

    /// What holds of a key that was just written.
    fn check_written(&self, i: usize, ask: &Ask) {
        let limiter = self.primary[i].as_ref().unwrap();
        let at = &self.at;
        let void_at = limiter.void_at().max(self.now_ms);
        assert_eq!(void_at, self.oracle[i].void_at().max(self.now_ms), "{at}");
        // A key that a replica lost is made anew with this one.
        let ttl = self.ttl[i].unwrap_or_else(|| panic!("{at}: no TTL"));
        assert!(ttl >= limiter.expire_at_ms(), "{at}: another TTL follows from the state");
        assert_eq!(limiter.laid().blocked_until_ms, self.oracle[i].blocked_until, "{at}");
        assert_eq!(limiter.laid().exempt_until_ms, self.oracle[i].exempt_until, "{at}");
        if let rl_core::algorithm::State::Sliding(log) = limiter.state() {
            assert_eq!(Some(log.entries() as usize), self.oracle[i].entries(), "{at}: {ask:?}");
        }
    }

    fn refund(&mut self) {
        let i = self.random.below(KEYS as u64) as usize;
        let n = self.cost(&self.rules[i].clone());
        self.pull_back(i);
        let before = self.oracle[i].clone();
        let expected = self.oracle[i].refund(n, self.now_ms);
        let effect = self.primary[i].as_ref().and_then(|l| refund(l, n, self.now_ms));
        let stored = &self.primary[i];
        assert_eq!(
            effect.is_some(),
            expected,
            "{}: refund {n} at {}\n{stored:?}\n{before:?}",
            self.at,
            self.now_ms
        );
        if let Some(effect) = effect {
            self.apply(i, &effect);
        }
    }

    fn release(&mut self) {
        let i = self.random.below(KEYS as u64) as usize;
        let id = self.random.pick(&IDS);
        self.pull_back(i);
        let expected = self.oracle[i].release(id, self.now_ms);
        let effect = self.primary[i].as_ref().and_then(|l| release(l, id, self.now_ms));
        assert_eq!(effect.is_some(), expected, "{}: release", self.at);
        if let Some(effect) = effect {
            self.apply(i, &effect);
        }
    }

    fn lay(&mut self) {
        let i = self.random.below(KEYS as u64) as usize;
        let for_ms = self.random.pick(&[0, 0, 1, 10, 1000, 100_000]);
        let until = if for_ms == 0 { 0 } else { self.now_ms + for_ms };
        let (kind, held) = if self.random.percent(50) {
            (Lay::Block, &mut self.oracle[i].blocked_until)
        } else {
            (Lay::Exempt, &mut self.oracle[i].exempt_until)
        };
        let changes = *held != until;
        *held = until;
        if changes {
            self.oracle[i].laid = self.now_ms;
        }
        let effect = lay(self.primary[i].as_ref(), kind, for_ms, self.now_ms);
        assert_eq!(effect.is_some(), changes, "{}: lay", self.at);
        if let Some(effect) = effect {
            self.apply(i, &effect);
        }
    }

    fn delete(&mut self, i: usize) {
        self.ttl[i] = None;
        self.primary[i] = None;
        self.replica[i] = None;
        self.oracle[i] = oracle::Key::default();
    }

    /// The replica is equal, and so is what comes back from the stored form.
    fn check_stored(&mut self) {
        for i in 0..KEYS {
            assert_eq!(self.primary[i], self.replica[i], "{}: replica", self.at);
            let Some(limiter) = &self.primary[i] else { continue };
            let mut bytes = Vec::new();
            encode_limiter(limiter, &mut bytes);
            let again = decode_limiter(&bytes);
            assert_eq!(again.as_ref(), Ok(limiter), "{}: stored form", self.at);
            let mut whole = Vec::new();
            encode_whole(limiter, &mut whole);
            let payload = decode_payload(&whole);
            assert_eq!(payload, Ok(Payload::Whole(limiter.clone())), "{}: whole", self.at);
            // Go on with what was read back, now and then.
            if self.random.percent(20) {
                self.primary[i] = again.ok();
            }
        }
    }
}
