//! `docs/benchmarks.md`, out of what a run found.

mod cpu;
mod others;
mod sizes;
mod speed;

use std::error::Error;
use std::fs;
use std::path::Path;

use crate::plots;
use crate::results::Results;
use crate::table::{Table, whole};
use crate::targets::targets;

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
    text += &cpu::section(results, &picture("bench-cpu.svg", "Server CPU as ratios to SET PX"));
    text += &others::section(results);
    text += &speed::section(results);
    text += &sizes::memory_section(results, &picture("bench-memory.svg", "Memory of a limiter"));
    text +=
        &sizes::growth_section(results, &picture("bench-growth.svg", "Cost of a call as it grows"));
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
- Server: {server}, one for all of the run that names no other, with redis-rl {} and redis-cell
  0.2.2 loaded. That is the newest redis-cell in the crates registry.
- The server has one core to itself, everything that makes load the other one.
- CPU is what the server's main thread used (`INFO cpu`), divided by commands. Median of {} rounds
  over {} random keys, {} commands in flight on each of 20 connections, unless another number is
  given. Rounds are interleaved: each runs every command once. The first one, which creates the
  keys, is not counted.
- A hot key is one that all calls go to.
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

    make bench                            # 20 minutes, and this page is written anew
    target/release/rl-bench --quick       # 1 minute, to see that everything works
    target/release/rl-bench --parts cpu   # one part of it, printed; see --help
    make bench-core                       # the limiter without a server, by criterion
    make instructions                     # instructions of the hot path against what is recorded
";

/// With as many digits as a ratio or a number of bytes needs.
fn number(value: f64) -> String {
    match value {
        small if small < 0.3 => format!("{small:.3}"),
        ratio if ratio < 100.0 => format!("{ratio:.2}"),
        large => whole(large),
    }
}

fn target_section(results: &Results) -> String {
    let mut table = Table::new(&["ratio", "target", "measured", "met"]);
    for target in targets(results) {
        let sign = if target.at_least { "≥" } else { "≤" };
        let met = match target.met() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not measured",
        };
        let bound = number(target.bound);
        let measured = target.measured.map_or("-".into(), |measured| match number(measured) {
            // What was missed by little.
            same if same == bound && target.met() == Some(false) => format!("{measured:.3}"),
            other => other,
        });
        table.row([target.what, format!("{sign} {bound}"), measured, met.into()]);
    }
    let [bare, with_effect] = C_MODULE;
    format!(
        "## Targets

What redis-rl sets out to hold. Ratios of server CPU per command unless they say otherwise. A call
has one key and is granted unless it says otherwise.

{}For orientation: a module hand-written in C with the same arguments and reply and 16 bytes of state
costs about {bare} x SET PX, and {with_effect} x when it builds one effect a grant, whether or not
anybody listens. That was measured by us on such a machine but not in this run, so take it for what
it is.

",
        table.markdown()
    )
}
