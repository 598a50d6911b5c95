//! `docs/benchmarks.md`, out of what a run found.

use std::error::Error;
use std::fs;
use std::path::Path;

use crate::cases::{self, SET};
use crate::cpu::{Cost, find};
use crate::growth::Series;
use crate::latency::{CONNECTIONS, RATE};
use crate::logs::Logs;
use crate::plots;
use crate::results::Results;
use crate::table::{Table, decimals, whole};
use crate::targets::targets;
use crate::throughput::PIPELINES;

/// What a module hand-written in C costs, as a ratio to `SET PX`, without and with an effect a grant.
/// Measured once, not in this run.
const C_MODULE: [f64; 2] = [1.05, 1.32];

/// Writes the report and its pictures into a folder.
pub fn write(results: &Results, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let pictures = plots::draw(results, folder)?;
    let picture = |name: &str, text: &str| match pictures.iter().any(|drawn| drawn == name) {
        true => format!("![{text}]({name})\n\n"),
        false => String::new(),
    };
    let mut text = head(results);
    text += &target_section(results);
    text += "## CPU per command\n\n";
    text += &cpu_section(results, &picture("bench-cpu.svg", "Server CPU as ratios to SET PX"));
    text += &speed_section(results);
    text += &memory_section(results, &picture("bench-memory.svg", "Memory of a limiter"));
    text += &growth_section(results, &picture("bench-growth.svg", "Cost of a call as it grows"));
    text += TAIL;
    // Sections end with an empty line; the file does not.
    fs::write(folder.join("benchmarks.md"), text.trim_end().to_owned() + "\n")?;
    Ok(())
}

/// The report's first paragraphs.
fn head(results: &Results) -> String {
    let Results { machine, server, setup, .. } = results;
    let warning = if setup.quick {
        "**A quick run: only to see that everything works. Do not quote it.**\n\n"
    } else {
        ""
    };
    format!(
        "# Benchmarks

This page is written by `make bench`. Absolute numbers mean nothing on another machine; ratios
within one run do.

{warning}- Machine: {}, {} cores, {} GB, Linux {}.
- Server: {server}, one for the whole run, with redis-rl {} and redis-cell 0.2.2 loaded.
- The server has one core to itself, everything that makes load the other one.
- CPU is what the server's main thread used (`INFO cpu`), divided by commands. Median of {} rounds
  over {} random keys, {} commands in flight on each of 20 connections, unless another number is
  given. Rounds are interleaved: each runs every command once. The first one, which creates the
  keys, is not counted.
- The load is made by redis-benchmark; latency and memory by this program.
- The Lua scripts are our own, written to make no call that they do not need, loaded once and called
  by EVALSHA. They are in `benches/src/lua`.

",
        machine.cpu,
        machine.cores,
        machine.memory_gb,
        machine.kernel,
        env!("CARGO_PKG_VERSION"),
        setup.rounds,
        whole(f64::from(setup.keys)),
        setup.pipeline,
    )
}

const TAIL: &str = "## Again, on your machine

Two idle cores and 8 GB of memory are enough; with less, the largest database is left out.

    make bench                            # 10 minutes, and this page is written anew
    target/release/rl-bench --quick       # 1 minute, to see that everything works
    target/release/rl-bench --parts cpu   # one part of it, printed; see --help
    make bench-core                       # the limiter without a server, by criterion
    make instructions                     # instructions of the hot path against what is recorded
";

fn target_section(results: &Results) -> String {
    let mut table = Table::new(&["ratio", "target", "measured", "met"]);
    for target in targets(results) {
        let sign = if target.at_least { "≥" } else { "≤" };
        let met = match target.met() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not measured",
        };
        // Small ratios need a third decimal.
        let number = |value: f64| match value < 0.3 {
            true => format!("{value:.3}"),
            false => format!("{value:.2}"),
        };
        let measured = target.measured.map_or("-".into(), number);
        table.row([target.what, format!("{sign} {}", number(target.bound)), measured, met.into()]);
    }
    let [bare, with_effect] = C_MODULE;
    format!(
        "## Targets

What redis-rl sets out to hold. Ratios of server CPU per command unless they say otherwise, of
RL.ACQUIRE with one key, granted, unless they say otherwise.

{}For orientation: a module hand-written in C with the same arguments and reply and 16 bytes of state
costs about {bare} x SET PX, and {with_effect} x when it builds one effect a grant, whether or not
anybody listens. That was measured by us on such a machine but not in this run, so take it for what
it is.

",
        table.markdown()
    )
}

fn cpu_section(results: &Results, picture: &str) -> String {
    let mut text = picture.to_owned();
    if !results.main.is_empty() {
        text += "Without persistence:\n\n";
        text += &main_table(&results.main);
        text += &format!(
            "The spread is the distance between the quartiles of the rounds. Sliding logs, here and in Lua,
were filled with {} permits beforehand.\n\n",
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
    for (title, costs) in
        [("With an AOF, everysec", &results.aof), ("With a replica", &results.replica)]
    {
        if !costs.is_empty() {
            text += &format!("### {title}\n\n");
            text += &durable_table(costs, &results.main);
        }
    }
    if !results.aof.is_empty() {
        text +=
            "Mind that redis-cell 0.2.2 writes nothing to the AOF and sends nothing to replicas.
That is fast, and a restart or a failover forgets every limit.

";
    }
    text
}

fn main_table(costs: &[Cost]) -> String {
    let mut table = Table::new(&["command", "µs", "x SET PX", "x CL.THROTTLE", "spread"]);
    let set = find(costs, SET);
    for cost in costs {
        let denied = cost.name.ends_with("denied");
        let cell = find(costs, if denied { cases::CELL_DENIED } else { cases::CELL });
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

fn durable_table(costs: &[Cost], plain: &[Cost]) -> String {
    let mut table = Table::new(&["command", "µs", "x SET PX", "x itself without"]);
    let set = find(costs, SET);
    for cost in costs {
        let ratio = |base: Option<f64>| decimals(base.map(|base| cost.micros / base));
        let without = find(plain, &cost.name);
        table.row([cost.name.clone(), decimals(Some(cost.micros)), ratio(set), ratio(without)]);
    }
    table.markdown()
}

fn speed_section(results: &Results) -> String {
    let mut text = String::new();
    if !results.throughput.is_empty() {
        text +=
            "## Throughput\n\nCommands a second over 20 connections, by commands in flight on each.
With many in flight the cheap commands are limited by redis-benchmark, not by the server.\n\n";
        let columns = PIPELINES.map(|pipeline| pipeline.to_string());
        let mut table = Table::new(&["command", &columns[0], &columns[1], &columns[2]]);
        for throughput in &results.throughput {
            let [a, b, c] = throughput.rates.map(whole);
            table.row([throughput.name.clone(), a, b, c]);
        }
        text += &table.markdown();
    }
    if !results.latency.is_empty() {
        text += &format!(
            "## Latency\n\nIn µs at {} requests a second, offered by {CONNECTIONS} connections at fixed
times whether or not answers are back, and counted from those times.\n\n",
            whole(f64::from(RATE))
        );
        let mut table = Table::new(&["command", "p50", "p99", "p99.9"]);
        for latency in &results.latency {
            let [a, b, c] = latency.micros.map(whole);
            table.row([latency.name.clone(), a, b, c]);
        }
        text += &table.markdown();
    }
    text
}

fn memory_section(results: &Results, picture: &str) -> String {
    let mut text = String::new();
    if !results.memory.is_empty() {
        text += "## Memory\n\nBytes a key in all: the difference of `used_memory` divided by keys, \
                 names of 16 bytes and\nTTLs included, of limiters that have granted once.\n\n";
        let columns = results.setup.memory_keys.map(|keys| format!("{} keys", whole(keys.into())));
        let mut table = Table::new(&["kind", &columns[0], &columns[1]]);
        for kind in &results.memory {
            let [few, many] = kind.bytes.map(whole);
            table.row([kind.name.clone(), few, many]);
        }
        text += &table.markdown();
    }
    if let Some(logs) = &results.logs {
        text += "### One sliding limiter\n\n";
        text += picture;
        text += &log_table(logs);
        text += "Exact: a permit in each millisecond, `rl.sliding-resolution` at 65536. At its
default of 4096 a larger log rounds grants to a fraction of the window, which bounds its size. The
sorted set is as the Lua script makes it.

";
    }
    text
}

fn log_table(logs: &Logs) -> String {
    let columns = ["permits", "bytes", "MEMORY USAGE", "ZSET", "its MEMORY USAGE", "1 /"];
    let mut table = Table::new(&columns);
    for log in &logs.memory {
        let kind = if log.exact { "" } else { ", default resolution" };
        let [bytes, usage] = log.bytes.map(|bytes| whole(bytes as f64));
        let [zset, zset_usage] = log.zset_bytes.map(|bytes| whole(bytes as f64));
        let times = log.zset_bytes[0] as f64 / log.bytes[0] as f64;
        let permits = format!("{}{kind}", whole(log.permits.into()));
        table.row([permits, bytes, usage, zset, zset_usage, format!("{times:.0}")]);
    }
    table.markdown()
}

fn growth_section(results: &Results, picture: &str) -> String {
    let mut text = String::new();
    let growing = [
        ("keys in the call", &results.keys_in_a_call),
        ("keys in the database, of each of both", &results.keys_in_the_database),
        ("clients, without pipelining", &results.clients),
    ];
    if results.logs.is_none() && growing.iter().all(|(_, series)| series.is_empty()) {
        return text;
    }
    text += "## Growth\n\nServer CPU in µs a call.\n\n";
    text += picture;
    if let Some(logs) = &results.logs {
        let mut table = Table::new(&["permits in the sliding log", "a grant"]);
        for (permits, cost) in &logs.grants {
            table.row([whole((*permits).into()), decimals(Some(cost.micros))]);
        }
        text += &table.markdown();
        if let Some((entries, micros)) = logs.expiry {
            let entries = whole(entries.into());
            text += &format!("A call that expires {entries} old entries takes {micros:.0} µs.\n\n");
        }
    }
    for (number, series) in growing {
        text += &series_table(number, series);
    }
    text
}

fn series_table(number: &str, series: &[Series]) -> String {
    let Some(first) = series.first() else {
        return String::new();
    };
    let mut columns = vec![number];
    columns.extend(series.iter().map(|series| series.name.as_str()));
    let mut table = Table::new(&columns);
    for (at, (number, _)) in first.points.iter().enumerate() {
        let mut row = vec![whole((*number).into())];
        let costs = series.iter().map(|series| series.points.get(at).map(|(_, cost)| *cost));
        row.extend(costs.map(decimals));
        table.row(row);
    }
    table.markdown()
}
