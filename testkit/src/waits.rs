//! Waiting with a bound, for what a server does by itself.

use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::server::{Server, wrapper};

/// How long anything may take before the test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// [`PATIENCE`], more of it where a wrapper slows the server down.
pub(crate) fn patience() -> Duration {
    if wrapper().is_empty() { PATIENCE } else { 10 * PATIENCE }
}

/// Polls until `check` gives a value.
pub fn wait_for<T>(what: &str, check: impl FnMut() -> Option<T>) -> T {
    wait_up_to(patience(), what, check)
}

/// Polls until `check` gives a value, with a patience of its own.
pub fn wait_up_to<T>(limit: Duration, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(begun.elapsed() < limit, "gave up waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a replica has applied all that its primary sent.
pub fn wait_for_replica(primary: &Server, replica: &Server) {
    let (mut ahead, mut behind) = (primary.client(), replica.client());
    wait_for("the replica", || {
        let up = behind.info("replication", "master_link_status") == "up";
        let sent = ahead.info_number("replication", "master_repl_offset");
        (up && behind.info_number("replication", "slave_repl_offset") == sent).then_some(())
    });
}

/// Waits until no child of the server saves or rewrites any more, and the last one succeeded.
pub fn wait_for_children(client: &mut Client) {
    wait_for("the saving child", || {
        let field = |client: &mut Client, name| client.info("persistence", name);
        let idle = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .all(|name| field(client, name) == "0");
        idle.then_some(())
    });
    assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "ok");
    assert_eq!(client.info("persistence", "aof_last_bgrewrite_status"), "ok");
}
