//! A primary with two replicas and three Sentinels dies under load, a replica takes over, and the limits hold.
//!
//! On one machine a replica follows so closely that a death alone would lose next to nothing. So the primary loses
//! its replicas first and is killed after some more grants, as when a network fails before a machine does.

use std::thread;
use std::time::Duration;

use redis::Value;
use testkit::{Client, Server, bytes_of, wait_for, wait_for_replica, wait_up_to, words};

use crate::load::{
    Acknowledged, OUTAGE, Plan, Route, Verdict, drain, is_following, judge, under_load,
    wait_for_confirmations,
};

const NAME: &str = "limits";
const THREADS: usize = 4;

/// A primary, its two replicas, and the Sentinels that watch them.
struct Watched {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

fn sentinel(primary: &Server) -> Server {
    let sentinel = Server::sentinel()
        .conf(format!("sentinel monitor {NAME} 127.0.0.1 {} 2", primary.port()))
        .conf(format!("sentinel down-after-milliseconds {NAME} 1500"))
        .conf(format!("sentinel failover-timeout {NAME} 3000"))
        .conf(format!("sentinel parallel-syncs {NAME} 2"))
        .start();
    // By default it pings every second, hardly more often than it takes to call a server dead. (Much more often is
    // wrong too: a replica that it has not looked at for five periods is not promoted, and it looks once a second.)
    // It promotes the replica with the highest offset that it saw, so it should look often.
    let often = "ping-period 400 info-period 100 publish-period 200";
    // On a busy machine a Sentinel may not run, or save, for seconds. It would then do nothing for half a minute.
    let stoic = "tilt-trigger 10000 tilt-period 1000";
    sentinel.client().run(format!("SENTINEL DEBUG {often} {stoic}"));
    sentinel
}

fn watched() -> Watched {
    let primary = Server::start();
    let replica = || Server::builder().replica_of(&primary).start();
    let replicas = [replica(), replica()];
    for replica in &replicas {
        wait_for_replica(&primary, replica);
    }
    wait_for_confirmations(&primary, 2);
    let sentinels: Vec<Server> = (0..3).map(|_| sentinel(&primary)).collect();
    for sentinel in &sentinels {
        let mut client = sentinel.client();
        wait_for("the Sentinels to know each other", || {
            let fields = client.texts(words("SENTINEL MASTER").arg(NAME));
            let is = |name: &str, value: &str| {
                fields.chunks(2).any(|pair| pair[0] == name && pair[1] == value)
            };
            let ready =
                is("num-slaves", "2") && is("num-other-sentinels", "2") && is("flags", "master");
            ready.then_some(())
        });
    }
    let mut servers = vec![primary];
    servers.extend(replicas);
    Watched { servers, sentinels }
}

/// The port of the primary, as a Sentinel tells it.
fn primary_by(sentinel: &mut Client) -> Option<u16> {
    let address = sentinel.call(words("SENTINEL GET-MASTER-ADDR-BY-NAME").arg(NAME)).ok()?;
    let [_, port] = &redis::from_redis_value::<Vec<String>>(address).ok()?[..] else { return None };
    port.parse().ok()
}

/// Asks the Sentinels in turn, and checks that the answer is a primary.
struct SentinelRoute {
    sentinels: Vec<u16>,
    next: usize,
    client: Option<Client>,
}

impl SentinelRoute {
    fn find(&mut self) -> Option<Client> {
        self.next = (self.next + 1) % self.sentinels.len();
        let port = primary_by(&mut Client::at(self.sentinels[self.next]).ok()?)?;
        let mut client = Client::at(port).ok()?;
        let Value::Array(role) = client.call("ROLE").ok()? else { return None };
        (bytes_of(role.first()?)? == b"master").then_some(client)
    }
}

impl Route for SentinelRoute {
    fn client(&mut self, _tag: usize) -> Option<&mut Client> {
        if self.client.is_none() {
            self.client = self.find();
        }
        self.client.as_mut()
    }

    fn lost(&mut self, _tag: usize) {
        self.client = None;
    }
}

impl Watched {
    fn route(&self) -> SentinelRoute {
        let sentinels = self.sentinels.iter().map(Server::port).collect();
        SentinelRoute { sentinels, next: 0, client: None }
    }

    /// Waits until both replicas hold what the primary holds.
    fn wait_for_one_state(&self) {
        let port = primary_by(&mut self.sentinels[0].client()).expect("a primary");
        let run = |port, command| bytes_of(&Client::at(port).ok()?.call(command).ok()?);
        // Keys would go on expiring during the comparison.
        run(port, "DEBUG SET-ACTIVE-EXPIRE 0").expect("a primary");
        wait_for("the replicas", || {
            let digest = run(port, "DEBUG DIGEST")?;
            let same =
                |server: &Server| run(server.port(), "DEBUG DIGEST").as_ref() == Some(&digest);
            self.servers.iter().all(same).then_some(())
        });
    }
}

/// Cuts a primary off from its replicas and lets none come back.
pub fn cut_off_replicas(control: &mut Client) {
    control.run("CONFIG SET maxclients 1");
    assert!(control.int("CLIENT KILL TYPE replica") > 0, "no replica was connected");
}

fn fail_over(title: &str, acknowledged: Acknowledged) -> Verdict {
    let mut watched = watched();
    let plan = Plan::new(vec!["{a}".into(), "{b}".into()], 120, acknowledged);
    let routes = (0..THREADS).map(|_| watched.route()).collect();
    let mut watching: Vec<Client> = watched.sentinels.iter().map(Server::client).collect();
    let servers = &mut watched.servers;
    let mut logs = under_load(&plan, routes, |progress| {
        thread::sleep(Duration::from_millis(1500));
        let old = primary_by(&mut watching[0]).expect("a primary");
        let primary = servers.iter_mut().find(|server| server.port() == old).expect("a server");
        cut_off_replicas(&mut primary.client());
        match acknowledged {
            Acknowledged::Replica => thread::sleep(Duration::from_millis(300)),
            _ => progress.wait_for_grants(20),
        }
        // It comes back empty, when all Sentinels tell clients of its successor. (Before, some would still send them
        // to it. What it granted then would be lost as well, and all of it beyond the limits.)
        primary.crash_and(|_| {
            wait_up_to(OUTAGE, "the failover", || {
                let changed = |client| primary_by(client).is_some_and(|port| port != old);
                watching.iter_mut().all(changed).then_some(())
            });
        });
        wait_for("the old primary to follow the new one", || is_following(primary).then_some(()));
        thread::sleep(Duration::from_millis(1500));
    });
    let mut route = watched.route();
    logs.push(drain(&plan, &mut route));
    let verdict = judge(title, &plan, &logs, &mut route);
    watched.wait_for_one_state();
    verdict
}

#[test]
fn a_failover_exceeds_a_limit_by_no_more_than_it_lost() {
    let verdict = fail_over("Sentinel", Acknowledged::CountedReply);
    assert!(verdict.lost > 0, "the failover lost nothing, so nothing was shown");
}

#[test]
fn a_failover_exceeds_no_limit_when_a_replica_has_each_grant() {
    let verdict = fail_over("Sentinel, WAIT 1", Acknowledged::Replica);
    assert_eq!(verdict.lost, 0, "acknowledged grants that the new primary does not know");
    assert!(verdict.excess <= 0, "{} above a limit", verdict.excess);
    assert!(verdict.counts.unconfirmed > 0, "the cut was not felt");
}
