//! Taking the module away (`docs/operations.md`), and what a server without it can load.

use std::fs;

use testkit::{Client, Server, args, wait_for, wait_for_children, wait_for_replica};

use crate::policies::set;

/// Redis 7.0 saves a header for the module even when nothing follows.
fn always_saves_a_header(client: &mut Client) -> bool {
    client.info("server", "redis_version").starts_with("7.0.")
}

fn write_and_delete(client: &mut Client) {
    client.run("SET other 1");
    client.take(1, "k", "WINDOW 1h LIMIT 5 ALGO bucket");
    set(client, "p", 5, "");
    assert_eq!(client.int("DEL k"), 1);
    assert_eq!(client.int("RL.POLICY DEL p"), 1);
    assert_eq!(client.info("rl", "rl_limiters"), "0");
    assert_eq!(client.info("rl", "rl_policies"), "0");
}

/// Takes the module out of redis.conf and adds lines to it.
fn change_conf(server: &Server, lines: &str) {
    let conf = fs::read_to_string(server.file("redis.conf")).expect("redis.conf");
    let kept: Vec<&str> = conf.lines().filter(|line| !line.starts_with("loadmodule")).collect();
    let conf = format!("{}\n{lines}\n", kept.join("\n"));
    fs::write(server.file("redis.conf"), conf).expect("redis.conf");
}

#[test]
fn the_module_is_not_unloaded_even_when_it_was_never_used() {
    let server = Server::start();
    assert_eq!(
        server.client().error("MODULE UNLOAD rl"),
        "ERR Error unloading module: the module exports one or more module-side data types, can't unload"
    );
}

#[test]
fn an_rdb_without_limiters_and_policies_does_not_need_the_module_but_on_redis_7_0() {
    for leave in ["nothing", "a limiter", "a policy"] {
        let mut server = Server::start();
        let mut client = server.client();
        let fails = always_saves_a_header(&mut client) || leave != "nothing";
        write_and_delete(&mut client);
        match leave {
            "a limiter" => client.take(1, "k", "WINDOW 1h LIMIT 5 ALGO bucket"),
            "a policy" => set(&mut client, "p", 5, ""),
            _ => {}
        }
        client.run("SAVE");
        server.kill();
        change_conf(&server, "");
        match server.try_respawn() {
            Ok(()) => assert!(!fails, "{leave}: loaded"),
            Err(log) => assert!(fails && log.contains("module"), "{leave}: {log}"),
        }
    }
}

#[test]
fn a_server_goes_on_without_the_module_after_the_steps_of_the_documentation() {
    for appendonly in ["no", "yes"] {
        let mut primary = Server::builder().conf(format!("appendonly {appendonly}")).start();
        let mut replica = Server::builder().replica_of(&primary).start();
        let mut client = primary.client();
        write_and_delete(&mut client);
        wait_for_replica(&primary, &replica);
        wait_for_children(&mut client);
        replica.client().run("SAVE");
        let rewrite = |client: &mut Client, appendonly: &str| {
            let switch_on = "CONFIG SET appendonly yes";
            client.run(if appendonly == "no" { switch_on } else { "BGREWRITEAOF" });
            wait_for_children(client);
        };
        let old = always_saves_a_header(&mut client);
        if old {
            client.run(args(["CONFIG", "SET", "save", ""]));
            client.run("CONFIG SET aof-use-rdb-preamble no");
            rewrite(&mut client, appendonly);
            change_conf(&primary, "appendonly yes");
        } else {
            client.run("SAVE");
            if appendonly == "yes" {
                rewrite(&mut client, appendonly);
            }
            change_conf(&primary, "");
        }
        primary.shut_down("NOSAVE");
        primary.try_respawn().expect("a primary without the module");
        let mut client = primary.client();
        assert_eq!(client.text("GET other"), "1");
        if old {
            client.run("SAVE");
            client.run("CONFIG SET aof-use-rdb-preamble yes");
            rewrite(&mut client, "yes");
            client.run(format!("CONFIG SET appendonly {appendonly}"));
            change_conf(&primary, &format!("appendonly {appendonly}"));
            primary.shut_down("NOSAVE");
            primary.try_respawn().expect("a primary with its own persistence");
            assert_eq!(primary.client().text("GET other"), "1");
        }
        wait_for_replica(&primary, &replica);
        replica.kill();
        fs::remove_file(replica.file("dump.rdb")).expect("the RDB of the replica");
        change_conf(&replica, "");
        replica.try_respawn().expect("a replica without the module");
        wait_for_replica(&primary, &replica);
        wait_for("the data", || (replica.client().keys() == ["other"]).then_some(()));
    }
}
