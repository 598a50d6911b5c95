//! The sections on memory, and on what grows.

use crate::growth::Series;
use crate::logs::Logs;
use crate::memory::LeaseBytes;
use crate::results::Results;
use crate::table::{Table, decimals, whole};

/// Memory, with its picture.
pub fn memory_section(results: &Results, picture: &str) -> String {
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
    if !results.leases.is_empty() {
        text += "### One concurrency limiter\n\nIn all, its key included. Names of leases have 16 bytes.\n\n";
        text += &lease_table(&results.leases);
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

fn lease_table(limiters: &[LeaseBytes]) -> String {
    let mut table = Table::new(&["leases", "bytes", "bytes a lease"]);
    for LeaseBytes { leases, bytes } in limiters {
        let each = bytes / f64::from(*leases);
        table.row([whole((*leases).into()), whole(*bytes), whole(each)]);
    }
    table.markdown()
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
        table.row([permits, bytes, usage, zset, zset_usage, whole(times)]);
    }
    table.markdown()
}

/// Costs against numbers, with their picture.
pub fn growth_section(results: &Results, picture: &str) -> String {
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
