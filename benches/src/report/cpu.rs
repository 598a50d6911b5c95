//! The section on the limiters' CPU.

use crate::cases::{self, SET};
use crate::cpu::{Cost, find};
use crate::report::C_MODULE;
use crate::results::Results;
use crate::table::{Table, decimals};

/// See the file's head.
pub fn section(results: &Results, picture: &str) -> String {
    let mut text = picture.to_owned();
    if !results.main.is_empty() {
        text += "Without persistence:\n\n";
        text += &main_table(&results.main);
        text += &format!(
            "The spread is the distance between the quartiles of the rounds. Sliding logs, here and in Lua,
were filled with {} permits beforehand. A new lease lasts 100 ms and is taken by another holder each
time, from limiters with a few; without these words a lease is renewed.\n\n",
            cases::LOG_PERMITS
        );
    }
    if !results.algorithms.is_empty() {
        text += "### Each algorithm\n\nAs a ratio to SET PX in the same rounds";
        text += &format!(" ({} µs).\n\n", decimals(find(&results.algorithms, SET)));
        text += &algorithm_table(&results.algorithms);
        text += "RL.ACQUIREX for `concurrency`: granted is a holder who renews its lease. Of the
calls of `leaky` that count as granted a few are denied: it has one permit a millisecond.

";
    }
    if !results.servers.is_empty() {
        text += "### On other servers\n\nAs ratios to SET PX on the same server";
        text += &format!(", medians of {} rounds.\n\n", results.setup.server_rounds);
        text += &server_table(results);
    }
    if !results.aof.is_empty() {
        text += "### With an AOF, and with a replica\n\n";
        text += &durable_table(results);
        text += "The AOF is synchronized once a second, by another thread (`appendfsync everysec`,
the default); the main thread writes it. What is under way to the replica is waited for. Mind that
redis-cell 0.2.2 writes nothing to the AOF and sends nothing to replicas. That is fast, and a
restart or a failover forgets every limit.

";
    }
    text
}

/// What a case is compared with.
fn peer(name: &str) -> String {
    match name.split_once(" denied") {
        Some((_, hot)) => format!("{}{hot}", cases::CELL_DENIED),
        None => cases::CELL.to_owned(),
    }
}

fn main_table(costs: &[Cost]) -> String {
    let mut table = Table::new(&["command", "µs", "x SET PX", "x CL.THROTTLE", "spread"]);
    let set = find(costs, SET);
    for cost in costs {
        let cell = find(costs, &peer(&cost.name));
        let ratio = |base: Option<f64>| decimals(base.map(|base| cost.micros / base));
        let spread = format!("{:.0} %", cost.spread * 100.0);
        table.row([
            cost.name.clone(),
            decimals(Some(cost.micros)),
            ratio(set),
            ratio(cell),
            spread,
        ]);
    }
    let missing = || "-".to_owned();
    let [bare, _] = C_MODULE;
    let by_hand = "C module, by hand (not in this run)".to_owned();
    table.row([by_hand, missing(), format!("about {bare}"), missing(), missing()]);
    table.markdown()
}

fn algorithm_table(costs: &[Cost]) -> String {
    let numbers: Vec<usize> = [1, 2, 3, 8]
        .into_iter()
        .filter(|keys| find(costs, &cases::acquire_name("bucket", *keys, false)).is_some())
        .collect();
    let mut columns = vec!["algorithm".to_owned()];
    for outcome in ["granted", "denied"] {
        columns.extend(numbers.iter().map(|keys| match keys {
            1 => format!("{outcome}, 1 key"),
            keys => format!("{keys} keys"),
        }));
    }
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let set = find(costs, SET).unwrap_or(f64::NAN);
    for algorithm in cases::ALGORITHMS {
        let mut row = vec![(*algorithm).to_owned()];
        for denied in [false, true] {
            row.extend(numbers.iter().map(|keys| {
                let cost = find(costs, &cases::acquire_name(algorithm, *keys, denied));
                decimals(cost.map(|cost| cost / set))
            }));
        }
        table.row(row);
    }
    table.markdown()
}

fn server_table(results: &Results) -> String {
    let main = Some((&results.server, &results.main)).filter(|(_, costs)| !costs.is_empty());
    let others = results.servers.iter().map(|server| (&server.version, &server.costs));
    let servers: Vec<_> = main.into_iter().chain(others).collect();
    let mut columns = vec!["command".to_owned()];
    columns.extend(servers.iter().map(|(version, costs)| {
        let set = decimals(find(costs, SET));
        format!("{version} (SET PX {set} µs)")
    }));
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let Some(first) = results.servers.first() else {
        return String::new();
    };
    for Cost { name, .. } in &first.costs {
        let ratio = |costs: &[Cost]| Some(find(costs, name)? / find(costs, SET)?);
        let ratios = servers.iter().map(|(_, costs)| decimals(ratio(costs)));
        table.row([name.clone()].into_iter().chain(ratios));
    }
    table.markdown()
}

fn durable_table(results: &Results) -> String {
    let mut table = Table::new(&[
        "command",
        "AOF, µs",
        "x SET PX",
        "x itself without",
        "replica, µs",
        "x SET PX",
        "x itself without",
    ]);
    for Cost { name, .. } in &results.aof {
        let mut row = vec![name.clone()];
        for costs in [&results.aof, &results.replica] {
            let micros = find(costs, name);
            let ratio = |base: Option<f64>| decimals(micros.zip(base).map(|(a, b)| a / b));
            let without = find(&results.main, name);
            row.extend([decimals(micros), ratio(find(costs, SET)), ratio(without)]);
        }
        table.row(row);
    }
    table.markdown()
}
