//! The configuration: redis.conf, load arguments and `CONFIG`. Wrong values are refused.

use std::time::{Duration, Instant};

use testkit::{Server, acquire, module_path};

use crate::cluster::CROSSSLOT;

const RULE: &str = "WINDOW 10d LIMIT 9 ALGO sliding";

#[test]
fn defaults() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.config("rl.slot-validation"), "cluster");
    assert_eq!(client.config("rl.sliding-resolution"), "4096");
    for (name, value) in [
        ("rl.cl-throttle", "no"),
        ("rl.enforce", "yes"),
        ("rl.max-names", "1000"),
        ("rl.max-waiters", "10000"),
        ("rl.top-capacity", "256"),
        ("rl.top-period", "60000"),
    ] {
        assert_eq!(client.config(name), value);
    }
    assert_eq!(client.texts("CONFIG GET rl.*").len(), 2 * 8);
}

#[test]
fn redis_conf_and_load_arguments() {
    for (server, resolution) in [
        (
            Server::builder().conf("rl.slot-validation always").conf("rl.sliding-resolution 16"),
            "16",
        ),
        (Server::builder().module_args("slot-validation always sliding-resolution 65536"), "65536"),
        (Server::builder().module_args("sliding-resolution 65536 slot-validation always"), "65536"),
        // The file wins over the arguments.
        (
            Server::builder()
                .module_args("slot-validation always sliding-resolution 100")
                .conf("rl.sliding-resolution 200"),
            "200",
        ),
    ] {
        let server = server.start();
        let mut client = server.client();
        assert_eq!(client.config("rl.slot-validation"), "always");
        assert_eq!(client.config("rl.sliding-resolution"), resolution);
        assert_eq!(client.error(acquire("a b", RULE)), CROSSSLOT);
    }
}

#[test]
fn config_set_takes_effect_and_config_rewrite_keeps_it() {
    let mut server = Server::builder().module_args("slot-validation always").start();
    let mut client = server.client();
    assert_eq!(client.error(acquire("a b", RULE)), CROSSSLOT);
    client.run("CONFIG SET rl.slot-validation cluster rl.sliding-resolution 64");
    client.take(1, "a b", RULE);
    client.run("CONFIG SET rl.slot-validation always");
    assert_eq!(client.error(acquire("a b", RULE)), CROSSSLOT);
    client.run("CONFIG SET rl.slot-validation ALWAYS");
    client.run("CONFIG REWRITE");
    server.crash();
    let mut client = server.client();
    assert_eq!(client.config("rl.slot-validation"), "always");
    assert_eq!(client.config("rl.sliding-resolution"), "64");
    assert_eq!(client.error(acquire("a b", RULE)), CROSSSLOT);
}

#[test]
fn config_set_refuses_what_cannot_be() {
    let server = Server::start();
    let mut client = server.client();
    for (setting, reason) in [
        ("rl.sliding-resolution 15", "argument must be between 16 and 65536 inclusive"),
        ("rl.sliding-resolution 65537", "argument must be between 16 and 65536 inclusive"),
        ("rl.sliding-resolution -1", "argument must be between 16 and 65536 inclusive"),
        ("rl.sliding-resolution x", "argument couldn't be parsed into an integer"),
        ("rl.slot-validation never", "argument(s) must be one of the following: cluster, always"),
        ("rl.slot-validation 1", "argument(s) must be one of the following: cluster, always"),
    ] {
        let name = setting.split(' ').next().expect("a name");
        assert_eq!(
            client.error(format!("CONFIG SET {setting}")),
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
        );
    }
    let line = client.error("CONFIG SET rl.unknown 1");
    assert!(line.starts_with("ERR Unknown option or number of arguments for CONFIG SET"), "{line}");
    assert_eq!(client.config("rl.slot-validation"), "cluster");
    assert_eq!(client.config("rl.sliding-resolution"), "4096");
}

/// Load arguments that are refused, and the line in the log.
const REFUSED: &[(&str, &str)] = &[
    ("sliding-resolution 15", r#"not loaded: sliding-resolution must be 16 to 65536, got "15""#),
    (
        "sliding-resolution 65537",
        r#"not loaded: sliding-resolution must be 16 to 65536, got "65537""#,
    ),
    ("sliding-resolution +16", r#"not loaded: sliding-resolution must be 16 to 65536, got "+16""#),
    ("enforce yes enforce shadow", r#"not loaded: load argument "enforce" is given twice"#),
    ("sliding-resolution 1x", r#"not loaded: sliding-resolution must be 16 to 65536, got "1x""#),
    ("slot-validation no", r#"not loaded: slot-validation must be cluster or always, got "no""#),
    ("slot-validation", r#"not loaded: load argument "slot-validation" has no value"#),
    (
        "rl.slot-validation always",
        r#"not loaded: unknown load argument "rl.slot-validation", expected one of sliding-resolution, top-capacity, top-period, max-names, max-waiters, slot-validation, enforce"#,
    ),
    (
        "sliding-resolution 16 %s%n x",
        r#"not loaded: unknown load argument "%s%n", expected one of sliding-resolution, top-capacity, top-period, max-names, max-waiters, slot-validation, enforce"#,
    ),
];

#[test]
fn a_server_does_not_start_with_what_cannot_be() {
    for (arguments, reason) in REFUSED {
        let started = Server::builder().module_args(arguments).try_start();
        let Err(log) = started else { panic!("started with {arguments}") };
        assert!(log.contains(reason), "with {arguments}:\n{log}");
    }
    for line in [
        "rl.sliding-resolution 15",
        "rl.sliding-resolution x",
        "rl.slot-validation never",
        "rl.unknown 1",
    ] {
        let started = Server::builder().conf(line).try_start();
        let Err(log) = started else { panic!("started with {line}") };
        // The server words these errors, and does not always name the parameter.
        let name = line.split(' ').next().expect("a name");
        let reasons = [name, "not loaded: ", "Module Configuration detected"];
        assert!(reasons.iter().any(|reason| log.contains(reason)), "with {line}:\n{log}");
    }
}

#[test]
fn module_load_refuses_what_cannot_be_and_can_be_tried_again() {
    let server = Server::builder().without_module().start();
    let mut client = server.client();
    let module = module_path().display().to_string();
    for (arguments, reason) in REFUSED {
        let line = client.error(format!("MODULE LOAD {module} {arguments}"));
        assert_eq!(line, "ERR Error loading the extension. Please check the server logs.");
        assert!(server.log().contains(reason), "with {arguments}:\n{}", server.log());
        assert!(client.texts("CONFIG GET rl.*").is_empty());
    }
    client.run(format!("MODULE LOAD {module} sliding-resolution 99"));
    assert_eq!(client.config("rl.sliding-resolution"), "99");
    client.take(1, "k", RULE);
    let line = client.error("MODULE UNLOAD rl");
    assert!(
        line.starts_with("ERR Error unloading module: the module exports one or more"),
        "{line}"
    );
}

#[test]
fn a_coarse_log_is_short_and_never_over_the_limit() {
    const LIMIT: usize = 200;
    const WINDOW_MS: u64 = 800;
    let server = Server::builder().conf("rl.sliding-resolution 16").start();
    let mut client = server.client();
    let rule = format!("WINDOW {WINDOW_MS} LIMIT {LIMIT} ALGO sliding");
    let begun = Instant::now();
    // For each grant, a time before it and a time after it.
    let mut grants: Vec<(Duration, Duration)> = Vec::new();
    let (mut rounded, mut largest) = (0, 0);
    while begun.elapsed() < Duration::from_millis(3 * WINDOW_MS) || grants.len() <= 2 * LIMIT {
        let asked = begun.elapsed();
        let reply = client.acquire("k", &rule);
        if reply.is_grant() {
            grants.push((asked, begun.elapsed()));
            rounded += usize::from(reply.reset_after > WINDOW_MS as i64);
            largest = largest.max(client.int("MEMORY USAGE k"));
        }
    }
    assert!(rounded > grants.len() / 2, "{rounded} of {} grants were rounded", grants.len());
    assert!(largest < 600, "{largest} bytes for at most 33 entries");
    for pair in grants.windows(LIMIT + 1) {
        // The server's clock counts whole milliseconds.
        let apart = pair[LIMIT].1 - pair[0].0 + Duration::from_millis(1);
        assert!(apart >= Duration::from_millis(WINDOW_MS), "{} grants within {apart:?}", LIMIT + 1);
    }
}
