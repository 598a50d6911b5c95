//! Many that wait, and what they cost. `RL_WAITERS` says how many, by default 2000; where fewer files can be open, nothing is
//! measured and the output says so.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::calls::info;
use crate::harness::{Client, Random, Server, wait_for, wait_up_to, words};
use crate::waiting::{no_waiters, only, waiters};

/// Other files of this process and of the server.
const OTHERS: usize = 200;

fn count() -> usize {
    env::var("RL_WAITERS").map_or(2000, |count| count.parse().expect("a number in RL_WAITERS"))
}

/// A server for so many clients, if both it and this process may have them.
fn server_for(count: usize) -> Option<Server> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits.lines().find_map(|line| {
        line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok()
    });
    let server = Server::builder()
        .conf(format!("maxclients {}", count + OTHERS))
        .conf("tcp-backlog 4096")
        .module_args(&format!("max-waiters {count}"))
        .start();
    let clients: usize = server.client().config("maxclients").parse().expect("a number");
    if soft.unwrap_or(usize::MAX) < count + OTHERS || clients < count + OTHERS {
        eprintln!("skipped: {count} waiters want {} open files (ulimit -n)", count + OTHERS);
        return None;
    }
    Some(server)
}

/// A bare connection that sends a command and waits.
fn wait_on(server: &Server, line: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    stream.write_all(format!("RL.ACQUIREX {line}\r\n").as_bytes()).expect("a server that reads");
    stream
}

/// Reads the first line and the six integers of an answer: how many were granted.
fn granted(stream: &mut TcpStream) -> i64 {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let mut text = String::new();
    let mut buffer = [0; 256];
    while text.matches("\r\n").count() < 7 {
        let len = stream.read(&mut buffer).expect("an answer");
        assert!(len > 0, "the connection ended after {text:?}");
        text.push_str(&String::from_utf8_lossy(&buffer[..len]));
    }
    assert!(text.starts_with("*6\r\n:"), "{text:?}");
    text[5..].lines().next().and_then(|line| line.parse().ok()).expect("an integer")
}

fn cpu(client: &mut Client) -> Duration {
    let mut field = |name| client.info("cpu", name).parse::<f64>().expect("a number");
    Duration::from_secs_f64(field("used_cpu_user_main_thread") + field("used_cpu_sys_main_thread"))
}

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

/// Lets `count` wait for as many permits under `keys` keys, gives some back, and reports what it cost.
fn measure(title: &str, count: usize, keys: usize) {
    let Some(server) = server_for(count) else { return };
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

    // The same calls, without anybody to hand on to and with.
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
    eprintln!(
        "{title}: {count} waiters, {} bytes each with their connections, {arrival:?} CPU to arrive, {:.1} % while \
         they wait, {wake:?} CPU a wake, p99 of SET {busy:?}, idle {idle:?}",
        taken / count as i64,
        100.0 * idling
    );
    assert!(idling < 0.05, "the server was busy for {idling:.3} of the time");
    assert!(wake < Duration::from_micros(50), "a wake costs {wake:?}");
    assert!(busy < 2 * idle + Duration::from_millis(2), "p99 {busy:?}, idle {idle:?}");
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
}

#[test]
fn many_wait_on_as_many_keys() {
    measure("On many keys", count(), count());
}

#[test]
fn many_wait_on_one_key() {
    measure("On one key", count(), 1);
}

/// What was waited for comes to all at the same moment.
#[test]
fn all_come_due_at_once() {
    let count = count().min(2000);
    let Some(server) = server_for(count) else { return };
    let mut client = server.client();
    client.run("RL.BLOCK k FOR 10m");
    let rule = format!("WINDOW 10d LIMIT {count} ALGO fixed TIMEOUT 20m");
    let mut streams: Vec<TcpStream> =
        (0..count).map(|i| wait_on(&server, &format!("k own{i} '{rule}'"))).collect();
    wait_for("all to wait", || (waiters(&mut client) == count as i64).then_some(()));
    let begun = Instant::now();
    client.run("RL.BLOCK k FOR 0");
    let mut longest = Duration::ZERO;
    while waiters(&mut client) > 0 {
        let asked = Instant::now();
        client.run("PING");
        longest = longest.max(asked.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(20), "{} still wait", waiters(&mut client));
    }
    eprintln!("{count} were served in {:?}, others waited for {longest:?}", begun.elapsed());
    assert!(streams.iter_mut().all(|stream| granted(stream) == 1));
    assert_eq!(info(&mut client, "k", "used"), count as i64);
}

#[test]
fn many_waits_leave_no_memory_behind() {
    let server = Server::start();
    let mut client = server.client();
    client.run("RL.ACQUIREX k 'WINDOW 10d LIMIT 1 ALGO concurrency ID holder'");
    let mut others: Vec<Client> = (0..20).map(|_| server.client()).collect();
    let mut round = |client: &mut Client| {
        for (i, other) in others.iter_mut().enumerate() {
            let id = "x".repeat(200) + &i.to_string();
            other.send([words("RL.ACQUIREX").then(&only("k", &id, "1"))]);
        }
        others.iter_mut().for_each(|other| drop(other.receive().expect("a reply")));
        for other in &mut others[..4] {
            other.send([words("RL.ACQUIREX k").arg("WINDOW 2ms LIMIT 1 ALGO bucket TIMEOUT 1s")]);
        }
        others[..4].iter_mut().for_each(|other| drop(other.receive()));
        client.run("PING");
    };
    let mut used = Vec::new();
    for _ in 0..4 {
        (0..40).for_each(|_| round(&mut client));
        no_waiters(&mut client);
        used.push(client.info_number("memory", "used_memory"));
    }
    let grown = used[3] - used[1];
    assert!(grown < 50_000, "{used:?}");
}

/// Everything at random, from many clients; nothing may crash, hang or be left over.
#[test]
fn random_waits_and_what_ends_them() {
    const CLIENTS: usize = 24;
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let end = Instant::now() + Duration::from_secs(4);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let primary = &primary;
            scope.spawn(move || {
                let mut random = Random(number as u64);
                let mut client = primary.client();
                while Instant::now() < end {
                    client.send([words(&waiting_call(&mut random, number))]);
                    if random.one_in(20) {
                        // Gone without looking at the answer.
                        thread::sleep(Duration::from_millis(random.below(20) as u64));
                        client = primary.client();
                    } else if client.receive().is_err_and(|line| {
                        !line.starts_with("UNBLOCKED") && !line.starts_with("WRONGTYPE")
                    }) {
                        client = primary.client();
                    }
                }
            });
        }
        let primary = &primary;
        scope.spawn(move || {
            let mut random = Random(99);
            let mut client = primary.client();
            while Instant::now() < end {
                let line = disturbance(&mut random, &mut client);
                let _ = client.call(line);
                if random.one_in(4) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            client.run("CLIENT UNPAUSE");
        });
    });
    let mut client = primary.client();
    no_waiters(&mut client);
    let (granted, timed_out) = ["rl_waits_granted", "rl_waits_timed_out"]
        .map(|name| client.info_number("rl", name))
        .into();
    eprintln!("{granted} waits were granted, {timed_out} timed out");
    assert!(granted > 50 && timed_out > 10, "{granted} granted, {timed_out} timed out");
    for server in [&primary, &replica] {
        server.client().run("DEBUG SET-ACTIVE-EXPIRE 0");
    }
    client.run("RL.ACQUIREX last 'WINDOW 10d LIMIT 1 ALGO fixed'");
    crate::calls::assert_same_digest(&primary, &replica);
}

fn waiting_call(random: &mut Random, number: usize) -> String {
    let keys = random.pick(&["a", "b", "c", "a b", "b c", "c a b"]);
    let timeout = random.below(80);
    let cost = 1 + random.below(2);
    let rule = match random.below(4) {
        0 => "WINDOW 50ms LIMIT 3 ALGO sliding",
        1 => "WINDOW 50ms LIMIT 3 ALGO bucket NAME plan",
        2 => "WINDOW 50ms LIMIT 3 ALGO fixed",
        _ => {
            return format!(
                "RL.ACQUIREX {keys} 'WINDOW 100ms LIMIT 3 ALGO concurrency COST {cost} NAME plan ID {number} TIMEOUT {timeout}'"
            );
        }
    };
    format!("RL.ACQUIREX {keys} '{rule} COST {cost} TIMEOUT {timeout}'")
}

fn disturbance(random: &mut Random, client: &mut Client) -> String {
    let key = random.pick(&["a", "b", "c"]);
    let blocked = |client: &mut Client| {
        // Redis 7.0 crashes when it is told to unblock a client that only a pause holds up.
        client.run("CLIENT UNPAUSE");
        let list = client.text("CLIENT LIST TYPE normal");
        let id = |line: &str| {
            let flags = line.split_whitespace().find_map(|field| field.strip_prefix("flags="))?;
            let id = line.split_whitespace().next()?.strip_prefix("id=")?.to_owned();
            flags.contains('b').then_some(id)
        };
        list.lines().filter_map(id).next().unwrap_or("0".into())
    };
    match random.below(16) {
        0 => format!("DEL {key}"),
        1 => format!("RL.BLOCK {key} FOR {}", random.below(20)),
        2 => format!("RL.EXEMPT {key} FOR {}", random.below(5)),
        3 => format!("RL.REFUND {key} COST 2"),
        4 => "RL.POLICY SET plan WINDOW 20ms LIMIT 5 ALGO bucket".into(),
        5 => "RL.POLICY DEL plan".into(),
        6 => format!("CLIENT KILL ID {}", blocked(client)),
        7 => format!("CLIENT UNBLOCK {}", blocked(client)),
        8 => format!("CLIENT UNBLOCK {} ERROR", blocked(client)),
        9 => "CLIENT PAUSE 20 WRITE".into(),
        10 => "SWAPDB 0 1".into(),
        11 => format!("RENAME {key} b"),
        12 if random.one_in(5) => "FLUSHALL".into(),
        13 => format!("PEXPIRE {key} 5"),
        14 if random.one_in(5) => format!("SET {key} text PX 5"),
        _ => format!("RL.RELEASE a b c ID {}", random.below(24)),
    }
}
