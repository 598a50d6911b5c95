//! `TIMEOUT`: calls that wait. This file has what the tests share. [`served`] and [`turns`] are about whose turn it
//! is, [`ends`] and [`news`] about other ends of a wait, [`load`] and [`rounds`] about many waiters. `timing`
//! measures how late they are served.

pub mod ends;
pub mod load;
mod news;
mod rounds;
pub mod served;
mod turns;

use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use testkit::{Client, Reply, Server, wait_for, words};

/// How long something may take that happens at once. All deadlines are far beyond it.
pub const AT_ONCE: Duration = Duration::from_millis(20);
/// How many more commands the server answers after that time before a test fails. Each takes it once round its event
/// loop, so a machine that stood still is no failure.
pub const GRACE: usize = 10;

/// A client that waits.
pub struct Waiter {
    pub client: Client,
    pub id: i64,
}

impl Waiter {
    /// Sends `RL.ACQUIREX`, and waits until the client waits.
    pub fn queue(server: &Server, line: impl AsRef<str>) -> Waiter {
        let mut control = server.client();
        Waiter::queue_by(server, &mut control, line)
    }

    /// The same as another user, given with its password.
    pub fn queue_as(server: &Server, user: &str, line: impl AsRef<str>) -> Waiter {
        let mut client = server.client();
        client.run(format!("AUTH {user}"));
        Waiter::queue_with(client, &mut server.client(), line)
    }

    /// The same; `control` looks whether the client waits.
    pub fn queue_by(server: &Server, control: &mut Client, line: impl AsRef<str>) -> Waiter {
        Waiter::queue_with(server.client(), control, line)
    }

    fn queue_with(client: Client, control: &mut Client, line: impl AsRef<str>) -> Waiter {
        let mut waiter = Waiter::send_with(client, line);
        wait_for("the client to wait", || waiter.waits(control).then_some(()));
        waiter
    }

    /// Sends `RL.ACQUIREX`, and does not look whether it waits.
    pub fn send(server: &Server, line: impl AsRef<str>) -> Waiter {
        Waiter::send_with(server.client(), line)
    }

    fn send_with(mut client: Client, line: impl AsRef<str>) -> Waiter {
        let id = client.int("CLIENT ID");
        client.send([words("RL.ACQUIREX").then(line.as_ref())]);
        Waiter { client, id }
    }

    /// Whether the server says that it is blocked.
    pub fn waits(&mut self, control: &mut Client) -> bool {
        let list = control.text(format!("CLIENT LIST ID {}", self.id));
        list.split_whitespace()
            .any(|field| field.strip_prefix("flags=").is_some_and(|flags| flags.contains('b')))
    }

    /// The reply, or the error's line.
    pub fn end(&mut self) -> Result<Value, String> {
        self.client.receive()
    }

    /// The same; the server must answer within `most` from now.
    pub fn end_within(
        &mut self,
        most: Duration,
        control: &mut Client,
        what: &str,
    ) -> Result<Value, String> {
        let begun = Instant::now();
        let mut grace = GRACE;
        while self.waits(control) {
            if begun.elapsed() > most {
                assert!(grace > 0, "{what}: it still waits after {:?}", begun.elapsed());
                grace -= 1;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.end()
    }

    /// Receives a grant, which must come at once.
    pub fn granted_at_once(&mut self, control: &mut Client, what: &str) {
        let reply = Reply::of(&self.end_within(AT_ONCE, control, what).expect("an answer"));
        assert!(reply.is_grant(), "{what}: {reply:?}");
    }

    /// The answer to its call.
    pub fn reply(&mut self) -> Reply {
        Reply::of(&self.end().expect("an answer"))
    }
}

pub fn waiters(client: &mut Client) -> i64 {
    client.info_number("rl", "rl_waiters")
}

pub fn no_waiters(client: &mut Client) {
    wait_for("the queue to be empty", || (waiters(client) == 0).then_some(()));
}

/// A call for the only lease of each key.
pub fn only(keys: &str, id: &str, timeout: &str) -> String {
    format!("{keys} 'WINDOW 10d LIMIT 1 ALGO concurrency ID {id} TIMEOUT {timeout}'")
}

pub fn take(client: &mut Client, line: impl AsRef<str>) {
    let reply = Reply::of(&client.run(words("RL.ACQUIREX").then(line.as_ref())));
    assert!(reply.is_grant(), "{}: {reply:?}", line.as_ref());
}

/// A call of RL.ACQUIREX without the command's name.
pub fn line(keys: &str, rules: &str) -> String {
    format!("{keys} '{rules}'")
}

/// A server by itself, and a node of a cluster.
pub fn two_kinds() -> [Server; 2] {
    let node = Server::builder().cluster_node().start();
    let mut client = node.client();
    client.run("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_for("the cluster", || {
        client.text("CLUSTER INFO").contains("cluster_state:ok").then_some(())
    });
    [Server::start(), node]
}
