//! Long runs of nonsense: every call ends in an error or a valid reply, and errors write nothing.

use redis::Value;
use testkit::{Random, Reply, Server, Words, args};

const CALLS: usize = 20_000;
const SEED: u64 = 0x0bad_cafe;

const KEYS: &[&[u8]] = &[
    b"k1",
    b"k2",
    b"k3",
    b"text",
    b"list",
    b"hash",
    b"",
    b"%s%n%s%n",
    b"a\0b",
    b"\r\n$3\r\nx\r\n",
    b"{tag}",
    b"{",
    b"}{",
    b"\xff\xfe",
    b"window",
    b"LIMIT",
    b"cost",
    b"'",
    b"\\",
    b"../../etc",
];

const NUMBERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"2",
    b"100",
    b"4097",
    b"-1",
    b"-0",
    b"+1",
    b"01",
    b" 1",
    b"1 ",
    b"1.0",
    b"1e9",
    b"0x10",
    b"1000000000000",
    b"1000000000001",
    b"315360000000",
    b"315360000001",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"18446744073709551615",
    b"999999999999999999999999999999",
    b"nan",
    b"inf",
    b"",
    b"\0",
    b"1\0",
];

/// Windows that matter are long, so that no key expires during the test.
const WINDOWS: &[&[u8]] = &[
    b"1d",
    b"10h",
    b"3650d",
    b"315360000000",
    b"3600000",
    b"3651d",
    b"0",
    b"0s",
    b"-1d",
    b"1w",
    b"d",
    b"1dd",
    b"1D",
    b"9223372036854775807d",
    b"106751991167d",
    b"%n",
    b"",
    b"1d\0",
];

const ALGOS: &[&[u8]] = &[
    b"sliding",
    b"bucket",
    b"leaky",
    b"fixed",
    b"counter",
    b"concurrency",
    b"SLIDING",
    b"slidin",
    b"slidingg",
    b"",
    b"\0",
    b"%s",
];

const WORDS: &[&[u8]] = &[
    b"WINDOW",
    b"LIMIT",
    b"ALGO",
    b"window",
    b"Limit",
    b"BURST",
    b"COST",
    b"WITHKEYS",
    b"KEYS",
    b"",
    b"WINDOW\0",
    b"FORCE",
];

fn pick(random: &mut Random, choices: &[&'static [u8]]) -> Vec<u8> {
    random.pick(choices).to_vec()
}

fn random_key(random: &mut Random) -> Vec<u8> {
    if random.one_in(6) { random.bytes(30) } else { pick(random, KEYS) }
}

/// Mostly well-formed calls with a few mistakes.
fn acquire_call(random: &mut Random) -> Vec<Vec<u8>> {
    let mut call = vec![b"RL.ACQUIRE".to_vec()];
    for _ in 0..random.below(4) + usize::from(!random.one_in(20)) {
        call.push(random_key(random));
    }
    let limit = if random.one_in(3) { b"50".to_vec() } else { pick(random, NUMBERS) };
    let window = if random.one_in(2) { b"1d".to_vec() } else { pick(random, WINDOWS) };
    let pairs = [
        (b"WINDOW".to_vec(), window),
        (b"LIMIT".to_vec(), limit),
        (b"ALGO".to_vec(), pick(random, ALGOS)),
    ];
    let first = random.below(3);
    for (word, value) in pairs.iter().cycle().skip(first).take(3) {
        call.push(if random.one_in(15) { pick(random, WORDS) } else { word.clone() });
        call.push(value.clone());
    }
    match random.below(12) {
        0 => {
            let at = random.below(call.len() - 1) + 1;
            call.remove(at);
        }
        1 => {
            let at = random.below(call.len()) + 1;
            call.insert(at, random_key(random));
        }
        _ => {}
    }
    call
}

fn random_call(random: &mut Random) -> Words {
    let call = match random.below(10) {
        // Random bytes. They never begin with digits, which could be a short window.
        0 => {
            let mut call = vec![b"RL.ACQUIRE".to_vec()];
            call.extend((0..random.below(12)).map(|_| [b"x".to_vec(), random.bytes(20)].concat()));
            call
        }
        1 => {
            let mut call = vec![b"RL._EFFECT".to_vec()];
            for _ in 0..random.below(4) {
                call.push(random_key(random));
                let mut blob = random.bytes(40);
                if random.one_in(2) {
                    blob.splice(0..0, [1, random.below(32) as u8]);
                }
                call.push(blob);
            }
            call
        }
        _ => acquire_call(random),
    };
    args(call)
}

/// A reply that `RL.ACQUIRE` could give.
fn is_plausible(reply: &Reply) -> bool {
    let Reply { granted, limit, remaining, retry_after, reset_after, key } = *reply;
    let times = -1..=(1 << 53) - 1;
    (0..=1).contains(&granted)
        && (0..=1_000_000_000_000).contains(&limit)
        && (0..=limit).contains(&remaining)
        && times.contains(&retry_after)
        && (granted == 1) == (retry_after == 0)
        && reset_after >= 0
        && times.contains(&reset_after)
        && (0..8).contains(&key)
}

#[test]
fn nonsense_ends_in_errors_that_write_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.run("DEBUG SET-ACTIVE-EXPIRE 0");
    client.run("SET text x");
    client.run("RPUSH list x");
    client.run("HSET hash f x");
    let mut random = Random(SEED);
    let (mut errors, mut grants, mut denials) = (0, 0, 0);
    let state = |digest: &Result<Value, String>, size: &Result<Value, String>| {
        (digest.clone().expect("a digest"), size.clone().expect("a size"))
    };
    let mut before = None;
    for at in (0..CALLS).step_by(100) {
        let calls: Vec<Words> = (0..100).map(|_| random_call(&mut random)).collect();
        let mut commands: Vec<Words> = Vec::new();
        for call in &calls {
            commands.extend([call.clone(), "DEBUG DIGEST".into(), "DBSIZE".into(), "PING".into()]);
        }
        let replies = client.pipeline(commands);
        for (i, reply) in replies.chunks(4).enumerate() {
            let [reply, digest, size, ping] = reply else { panic!("missing replies") };
            let case = || format!("call {} of seed {SEED:#x}: {:?}", at + i, calls[i].lossy());
            assert_eq!(*ping, Ok(Value::SimpleString("PONG".into())), "{}", case());
            let after = state(digest, size);
            match reply {
                Err(line) => {
                    assert!(!line.contains("internal"), "{line}, {}", case());
                    assert!(!line.starts_with("no reply"), "{line}, {}", case());
                    assert!(line.len() < 400, "{line}, {}", case());
                    if let Some(before) = &before {
                        assert_eq!(&after, before, "{line} wrote, {}", case());
                    }
                    errors += 1;
                }
                Ok(value) => {
                    let reply =
                        Reply::read(value).unwrap_or_else(|| panic!("{value:?}, {}", case()));
                    assert!(is_plausible(&reply), "{reply:?}, {}", case());
                    if reply.is_grant() { grants += 1 } else { denials += 1 }
                }
            }
            before = Some(after);
        }
    }
    let counts = format!("{errors} errors, {grants} grants, {denials} denials");
    assert!(errors > CALLS / 4 && grants > CALLS / 100 && denials > CALLS / 100, "{counts}");
}
