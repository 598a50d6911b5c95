//! Many clients wait. `RL_WAITERS` says how many, by default 2000. Where fewer files can be open, these tests do
//! nothing and say so. `timing/waiting_load.rs` measures what waiters cost.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Random, Server, wait_for, words};

use crate::calls::info;
use crate::waiting::{no_waiters, only, waiters};

/// Other files of this process and of the server.
const OTHERS: usize = 200;

/// How many clients wait at once.
pub fn count() -> usize {
    env::var("RL_WAITERS").map_or(2000, |count| count.parse().expect("a number in RL_WAITERS"))
}

/// A server for this many clients, if it and this process may open that many files.
pub fn server_for(count: usize) -> Option<Server> {
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

/// A bare connection that has sent RL.ACQUIREX.
pub fn wait_on(server: &Server, line: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    stream.write_all(format!("RL.ACQUIREX {line}\r\n").as_bytes()).expect("a server that reads");
    stream
}

/// Reads the six integers of an answer, and returns how many acquisitions were granted.
pub fn granted(stream: &mut TcpStream) -> i64 {
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

/// All waiters can be served at the same moment.
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

/// Random waits of many clients, and random events: nothing may crash, hang or be left over.
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
                        // The client goes without reading the answer.
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
