//! What those who wait cost the server: CPU time while they arrive, wait and are served, the latency of others, and
//! memory.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, wait_for, wait_up_to};

use super::{cpu, within_bounds};
use crate::waiting::load::{count, granted, server_for, wait_on};
use crate::waiting::waiters;

/// The 99th percentile of round trips.
fn p99(client: &mut Client) -> Duration {
    const CALLS: usize = 2000;
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|i| {
            let begun = Instant::now();
            client.run(format!("SET plain:{} v", i % 10));
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[CALLS * 99 / 100]
}

/// Lets `count` clients wait for as many permits under `keys` keys, gives some back, and reports the cost. An error
/// says that it was too high.
fn measure(title: &str, count: usize, keys: usize) -> Result<(), String> {
    let Some(server) = server_for(count) else { return Ok(()) };
    let mut client = server.client();
    let limit = count / keys;
    let rule = format!("WINDOW 10d LIMIT {limit} ALGO fixed");
    let wakes = count.min(1000);
    let key = |i: usize| format!("k{}", i % keys);
    for i in 0..keys {
        client.run(format!("RL.ACQUIREX {} '{rule} UPTO {limit}'", key(i)));
    }
    client.run(format!("RL.ACQUIREX control 'WINDOW 10d LIMIT {wakes} ALGO fixed UPTO {wakes}'"));
    let idle = (0..3).map(|_| p99(&mut client)).max().expect("one");
    let memory = client.info_number("memory", "used_memory");
    let begun = cpu(&mut client);
    let mut streams: Vec<TcpStream> =
        (0..count).map(|i| wait_on(&server, &format!("{} '{rule} TIMEOUT 11d'", key(i)))).collect();
    wait_up_to(Duration::from_secs(60), "all to wait", || {
        (waiters(&mut client) == count as i64).then_some(())
    });
    let arrival = (cpu(&mut client) - begun) / count as u32;
    let taken = client.info_number("memory", "used_memory") - memory;
    let begun = cpu(&mut client);
    thread::sleep(Duration::from_millis(500));
    let idling = (cpu(&mut client) - begun).as_secs_f64() / 0.5;
    let busy = (0..3).map(|_| p99(&mut client)).min().expect("one");

    // The same calls, first without waiters and then with them.
    let begun = cpu(&mut client);
    (0..wakes).for_each(|_| assert_eq!(client.int("RL.REFUND control COST 1"), 1));
    let control = cpu(&mut client) - begun;
    let begun = cpu(&mut client);
    (0..wakes).for_each(|i| assert_eq!(client.int(format!("RL.REFUND {} COST 1", key(i))), 1));
    wait_for("them to be served", || {
        (client.info_number("rl", "rl_waits_granted") == wakes as i64).then_some(())
    });
    let wake = (cpu(&mut client) - begun).saturating_sub(control) / wakes as u32;
    assert_eq!(waiters(&mut client), (count - wakes) as i64);
    if keys == count {
        assert!(streams[..wakes].iter_mut().all(|stream| granted(stream) == 1));
    }
    let found = format!(
        "{title}: {count} waiters, {} bytes each with their connections, {arrival:?} CPU to arrive, {:.1} % while \
         they wait, {wake:?} CPU a wake, p99 of SET {busy:?}, idle {idle:?}",
        taken / count as i64,
        100.0 * idling
    );
    eprintln!("{found}");
    let quick = wake < Duration::from_micros(50) && busy < 2 * idle + Duration::from_millis(2);
    drop(streams);
    wait_up_to(Duration::from_secs(60), "the queue to be empty", || {
        (waiters(&mut client) == 0).then_some(())
    });
    let mut left = 0;
    let returned = || {
        left = client.info_number("memory", "used_memory") - memory;
        (left < taken / 10).then_some(())
    };
    // Redis 7.0 lets go of what it keeps for blocked clients little by little.
    wait_up_to(Duration::from_secs(60), "the memory to return", returned);
    eprintln!("{title}: {left} of {taken} bytes are still in use");
    if quick && idling < 0.05 { Ok(()) } else { Err(found) }
}

#[test]
fn many_wait_on_as_many_keys() {
    within_bounds(|| measure("On many keys", count(), count()));
}

#[test]
fn many_wait_on_one_key() {
    within_bounds(|| measure("On one key", count(), 1));
}
