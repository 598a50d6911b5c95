//! The Java libraries of `docs/migrating.md`: models of a few lines, written after the sources of Spring Cloud
//! Gateway 4.3.5 and 5.0.1, Redisson 4.7.0 and Guava 33.4.8, and compared with them by hand. The calls in the
//! document let as many through as the models.

use testkit::{Reply, Server, Words, words};

use super::migrating::{AT_ANY_TIME, BURST, block, calls, play, section, spans};

use crate::calls::{acquirex, timed};

/// How many requests of a burst at each of these times a model lets through.
fn modelled(times: &[i64], mut passes: impl FnMut(i64) -> bool) -> Vec<[usize; 1]> {
    times.iter().map(|now_ms| [(0..BURST).filter(|_| passes(*now_ms)).count()]).collect()
}

/// The rules of a call: its last argument.
fn rules_of(call: &str) -> String {
    words(call).lossy().pop().expect("an argument")
}

/// The first call of a section, in a window of a second.
fn first_call(section: &str) -> [Words; 1] {
    [words(&calls(section)[0].replace("WINDOW 1m", "WINDOW 1s"))]
}

#[test]
fn spring_cloud_gateway_lets_as_many_through_by_the_second() {
    let server = Server::start();
    let mut client = server.client();
    let section = section("From Spring Cloud Gateway");
    let numbers: Vec<i64> = block(&section, "yaml")
        .lines()
        .map(|line| line.split(": ").nth(1).expect("a value").parse().expect("a number"))
        .collect();
    let [rate, capacity, cost] = numbers[..] else { panic!("not three numbers: {numbers:?}") };
    let shown = format!("WINDOW 1s LIMIT {rate} ALGO bucket BURST {capacity} COST {cost}");
    assert_eq!(rules_of(calls(&section)[0]), shown);
    let gateway = || {
        let (mut tokens, mut at_s) = (capacity, 0);
        move |now_ms: i64| {
            let now_s = now_ms / 1000;
            tokens = capacity.min(tokens + (now_s - at_s) * rate);
            at_s = now_s;
            let passes = tokens >= cost;
            tokens -= if passes { cost } else { 0 };
            passes
        }
    };
    let call = first_call(&section);
    let (counts, times) = play(&mut client, &call, 0..=20, &[1000, 2000]);
    assert_eq!(counts, [[20], [10], [10]]);
    assert_eq!(modelled(&times, gateway()), counts);
    // Within a second no token comes.
    let (counts, times) = play(&mut client, &call, 0..=20, &[550]);
    assert_eq!((counts[1], modelled(&times, gateway())[1]), ([5], [0]));
}

#[test]
fn redisson_lets_as_many_through() {
    let server = Server::start();
    let mut client = server.client();
    let section = section("From Redisson's RRateLimiter");
    let java = block(&section, "java");
    assert!(java.contains("(RateType.OVERALL, 10, Duration.ofMinutes(1))"));
    assert!(java.contains("tryAcquire(3)"));
    assert_eq!(rules_of(calls(&section)[0]), "WINDOW 1m LIMIT 10 ALGO sliding COST 3");
    let (counts, times) = play(&mut client, &first_call(&section), AT_ANY_TIME, &[500, 1000]);
    assert_eq!(counts, [[3], [0], [3]]);
    let mut log: Vec<(i64, i64)> = Vec::new();
    let redisson = modelled(&times, |now_ms| {
        log.retain(|(at_ms, _)| *at_ms > now_ms - 1000);
        let passes = log.iter().map(|(_, permits)| permits).sum::<i64>() + 3 <= 10;
        log.extend(passes.then_some((now_ms, 3)));
        passes
    });
    assert_eq!(redisson, counts);
    // More than the rate, and waiting in the server rather than in a script.
    let rule = "WINDOW 1s LIMIT 10 ALGO sliding";
    let denied = acquirex(&mut client, "more", format!("{rule} COST 11"));
    assert_eq!((denied.granted, denied.retry_after), (0, -1));
    assert_eq!(acquirex(&mut client, "wait", format!("{rule} COST 10")).granted, 1);
    let call = format!("RL.ACQUIREX wait '{rule} TIMEOUT 10s'");
    let lua = "return redis.call(unpack(ARGV))";
    let scripted = client.run(words("EVAL").arg(lua).then("1 wait").then(&call));
    assert_eq!(Reply::of(&scripted).granted, 0);
    assert_eq!(Reply::of(&client.run(call)).granted, 1);
}

/// A RateLimiter of Guava: the permits it has saved, negative while the next request must wait.
struct Guava {
    rate: f64,
    saved: f64,
    at_ms: i64,
}

impl Guava {
    fn idle(rate: f64) -> Guava {
        Guava { rate, saved: rate, at_ms: 0 }
    }

    /// How long an acquisition must wait; `None` if that is too long.
    fn wait_ms(&mut self, now_ms: i64, at_most_ms: i64) -> Option<i64> {
        let new = (now_ms - self.at_ms) as f64 * self.rate / 1000.0;
        self.saved = self.rate.min(self.saved + new);
        self.at_ms = now_ms;
        let wait_ms = (-self.saved / self.rate * 1000.0).max(0.0);
        let passes = wait_ms <= at_most_ms as f64;
        self.saved -= if passes { 1.0 } else { 0.0 };
        passes.then_some(wait_ms.ceil() as i64)
    }
}

#[test]
fn guava_lets_as_many_through_after_the_same_waits() {
    let server = Server::start();
    let mut client = server.client();
    let section = section("From Guava's RateLimiter");
    let spans = spans(&section);
    for (rate, expected) in [("5", 6), ("2.5", 3), ("0.5", 1)] {
        let at = spans.iter().position(|span| *span == format!("create({rate})")).expect(rate);
        let rule = &spans[at + 1];
        let call = [words("RL.ACQUIREX k").arg(rule)];
        let later: &[i64] = if rate == "5" { &[1050, 2050] } else { &[] };
        let (counts, times) = play(&mut client, &call, AT_ANY_TIME, later);
        let mut guava = Guava::idle(rate.parse().expect("a rate"));
        assert_eq!(modelled(&times, |now_ms| guava.wait_ms(now_ms, 0).is_some()), counts, "{rate}");
        assert_eq!(counts[0], [expected], "{rate}");
    }
    // A new one has no permits saved.
    let mut new = Guava { saved: 0.0, ..Guava::idle(5.0) };
    new.at_ms = 1000;
    assert_eq!(modelled(&[1000], |now_ms| new.wait_ms(now_ms, 0).is_some()), [[1]]);

    // tryAcquire(500 ms) and acquire().
    assert!(block(&section, "java").contains("create(5)"));
    let shown = calls(&section)[0];
    for (call, at_most_ms) in [(shown.replace("1d", "500"), 500), (shown.into(), 86_400_000)] {
        let (replies, now_ms) = loop {
            client.run("FLUSHALL");
            let (replies, when) = timed(&mut client, (0..BURST).map(|_| call.as_str()));
            if when.start() == when.end() {
                break (replies, *when.start());
            }
        };
        let mut guava = Guava::idle(5.0);
        for reply in replies.iter().map(Reply::of) {
            let waits = (reply.granted == 1).then_some(reply.retry_after);
            assert_eq!(waits, guava.wait_ms(now_ms, at_most_ms), "{call}");
        }
    }
}
