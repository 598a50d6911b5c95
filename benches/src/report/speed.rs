//! The sections on throughput and latency.

use crate::latency::{CONNECTIONS, RATE};
use crate::results::Results;
use crate::table::{Table, whole};
use crate::throughput::PIPELINES;

/// See the file's head.
pub fn section(results: &Results) -> String {
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
