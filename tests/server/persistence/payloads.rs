//! `RESTORE` of damaged payloads with a right checksum: each byte is flipped in turn, and the payload is cut
//! everywhere. The answer is an error, or a limiter on which every command works.

use redis::Value;
use testkit::{Client, Reply, Server, Words, bytes_of, field, int, text, words};

use crate::calls::{ALGORITHMS, long_rule};

/// A version of two bytes and a checksum of eight.
const FOOTER: usize = 10;
/// A type, the type's ID, an opcode and at least one byte of length come before the value's own bytes.
const HEADER: usize = 12;
/// Far more than any intact limiter of these tests takes.
const MOST_BYTES: i64 = 4_000;

/// The checksum of Redis: CRC-64 of Jones' polynomial, reflected, from 0.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 }
        })
    })
}

/// A payload whose checksum is right.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc64(bytes).to_le_bytes()].concat()
}

/// Payloads of limiters of every kind, each with a description.
fn samples(client: &mut Client) -> Vec<(String, Vec<u8>)> {
    let mut samples = Vec::new();
    let mut add = |client: &mut Client, what: &str, calls: &[String]| {
        client.run("DEL k");
        for call in calls {
            client.run(call.as_str());
        }
        samples.push((what.to_string(), bytes_of(&client.run("DUMP k")).expect("a dump")));
    };
    for algorithm in ALGORITHMS {
        let call = format!("RL.ACQUIRE k {}", long_rule(algorithm, 5));
        add(client, algorithm, std::slice::from_ref(&call));
        let held = format!("{algorithm}, held");
        let holds = ["RL.BLOCK k FOR 1h", "RL.EXEMPT k FOR 1d"].map(String::from);
        add(client, &held, &[&[call], &holds[..]].concat());
    }
    let entries =
        (0..6).map(|i| format!("RL.ACQUIREX k 'WINDOW 10d LIMIT 60 ALGO sliding COST {i}'"));
    add(
        client,
        "a log",
        &entries.flat_map(|call| [call, "DEBUG SLEEP 0.002".into()]).collect::<Vec<_>>(),
    );
    let lease = |i| format!("RL.ACQUIREX k 'WINDOW 10d LIMIT 60 ALGO concurrency COST 3 ID id{i}'");
    add(client, "leases", &(0..4).map(lease).collect::<Vec<_>>());
    let debt =
        "RL.ACQUIREX k 'WINDOW 3650d LIMIT 7 ALGO bucket BURST 3 COST 100 FORCE'".to_string();
    add(client, "debt", &[debt]);
    add(client, "only held", &["RL.BLOCK k FOR 1h".into()]);
    samples
}

/// Commands for a key after the attempt to restore it. The first ones show its state.
fn exercise() -> Vec<Words> {
    let mut calls: Vec<Words> = [
        "MEMORY USAGE k",
        "DEBUG DIGEST-VALUE k",
        "DUMP k",
        "RL.INFO k",
        "RL.PEEK k 'WINDOW 10d LIMIT 5 ALGO sliding COST 2'",
        "RL.ACQUIREX k 'WINDOW 10d LIMIT 5 ALGO concurrency ID a'",
        "RL.RELEASE k ID id1",
        "RL.ACQUIREX k 'WINDOW 1h LIMIT 5 ALGO bucket COST 2 RESERVE 1d'",
        "RL.REFUND k COST 2",
    ]
    .map(words)
    .into();
    for algorithm in ALGORITHMS {
        calls.push(words(&format!("RL.ACQUIREX k '{} UPTO 3'", long_rule(algorithm, 5))));
        calls.push(words("RL.REFUND k COST 1"));
    }
    calls.extend(["RL.EXEMPT k FOR 0", "RL.BLOCK k FOR 0", "RL.INFO k", "DUMP k"].map(words));
    calls
}

/// Asserts that the numbers of a limiter are in range.
fn assert_sane(info: &Value, case: &dyn Fn() -> String) {
    if *info == Value::Nil {
        return;
    }
    let number = |name| int(field(info, name));
    let times = 0..1i64 << 53;
    text(field(info, "algo"));
    for name in ["reset_after", "blocked_for", "exempt_for"] {
        assert!(times.contains(&number(name)), "{name} in {info:?}, {}", case());
    }
    let permits = 0..=1_000_000_000_000;
    for name in ["limit", "burst", "remaining"] {
        assert!(permits.contains(&number(name)), "{name} in {info:?}, {}", case());
    }
    assert!(number("remaining") <= number("burst"), "{info:?}, {}", case());
    assert!((0..=1_000_000_000_000_000).contains(&number("used")), "{info:?}, {}", case());
    assert!((0..=200).contains(&number("entries")), "{info:?}, {}", case());
}

/// Restores a payload and runs commands on the result. Returns whether the server took it.
fn restore(client: &mut Client, payload: &[u8], case: &dyn Fn() -> String) -> bool {
    let mut commands = vec![words("DEL k copy"), words("RESTORE k 0").arg(payload)];
    commands.extend(exercise());
    let calls = commands.clone();
    let replies = client.pipeline(commands);
    let restored = match &replies[1] {
        Ok(_) => true,
        Err(line) => {
            assert_eq!(line, "ERR Bad data format", "{}", case());
            false
        }
    };
    for (call, reply) in calls.iter().zip(&replies).skip(2) {
        let case = || format!("{:?}, {}", call.lossy(), case());
        let reply = reply.as_ref().unwrap_or_else(|line| panic!("{line}: {}", case()));
        match call.lossy()[0].as_str() {
            "RL.INFO" => assert_sane(reply, &case),
            "RL.ACQUIREX" | "RL.PEEK" => {
                let Reply { granted, limit, remaining, retry_after, reset_after, .. } =
                    Reply::of(reply);
                assert!((0..=3).contains(&granted) && (0..=5).contains(&limit), "{}", case());
                assert!((0..=limit).contains(&remaining), "{reply:?}, {}", case());
                assert!((-1..1 << 53).contains(&retry_after), "{reply:?}, {}", case());
                assert!((0..1 << 53).contains(&reset_after), "{reply:?}, {}", case());
            }
            _ => {}
        }
    }
    if restored {
        let usage = int(replies[2].as_ref().expect("a size"));
        assert!(usage < MOST_BYTES, "{usage} bytes, {}", case());
        // The server takes back what it dumps, and dumps the same again.
        for dump in [&replies[4], replies.last().expect("a dump")] {
            let dump = bytes_of(dump.as_ref().expect("a dump")).expect("a dump");
            client.run(words("RESTORE copy 0").arg(&dump).then("REPLACE"));
            assert_eq!(bytes_of(&client.run("DUMP copy")), Some(dump), "{}", case());
        }
    }
    restored
}

#[test]
fn the_checksum_is_that_of_the_server() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    let server = Server::start();
    for (what, dump) in samples(&mut server.client()) {
        assert_eq!(sealed(&dump[..dump.len() - 8]), dump, "{what}");
    }
}

#[test]
fn every_byte_of_a_payload_flipped_in_turn() {
    let server = Server::start();
    let mut client = server.client();
    let samples = samples(&mut client);
    let before = client.info_number("memory", "used_memory");
    client.run("CONFIG RESETSTAT");
    let (mut taken, mut refused) = (0, 0);
    for (what, dump) in &samples {
        for at in HEADER..dump.len() - FOOTER {
            for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                let mut damaged = dump[..dump.len() - 8].to_vec();
                damaged[at] ^= flip;
                let case = || format!("{what}, byte {at} of {} by {flip}: {dump:?}", dump.len());
                if restore(&mut client, &sealed(&damaged), &case) {
                    taken += 1
                } else {
                    refused += 1
                }
            }
        }
    }
    assert!(taken > 300 && refused > 300, "{taken} taken, {refused} refused");
    let peak = client.info_number("memory", "used_memory_peak");
    assert!(peak - before < 3_000_000, "from {before} to {peak} bytes");
}

/// The server's own part before the value: the type's ID, the opcode, the length.
#[test]
fn a_flipped_header_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    for (what, dump) in samples(&mut client) {
        for at in 1..HEADER {
            for bit in 0..8 {
                let mut damaged = dump[..dump.len() - 8].to_vec();
                damaged[at] ^= 1 << bit;
                let case = || format!("{what}, byte {at}, bit {bit}: {dump:?}");
                restore(&mut client, &sealed(&damaged), &case);
            }
        }
    }
    client.run("DEL k copy");
    assert!(client.info_number("memory", "used_memory") < 20_000_000);
}

#[test]
fn a_payload_cut_anywhere() {
    let server = Server::start();
    let mut client = server.client();
    for (what, dump) in samples(&mut client) {
        let (body, version) = (&dump[..dump.len() - FOOTER], &dump[dump.len() - FOOTER..][..2]);
        for cut in 1..body.len() {
            let case = || format!("{what}, cut at {cut} of {}: {dump:?}", dump.len());
            // The server may read the version as the end of the value.
            restore(&mut client, &sealed(&[&body[..cut], version].concat()), &case);
            // With the length and the end of the value put right.
            if cut < HEADER || body[HEADER - 1] >= 64 {
                continue;
            }
            let mut whole = body[..cut].to_vec();
            whole[HEADER - 1] = (cut - HEADER) as u8;
            let payload = sealed(&[&whole, &[0][..], version].concat());
            let is_whole = cut == body.len() - 1;
            assert_eq!(restore(&mut client, &payload, &case), is_whole, "{}", case());
        }
    }
}
