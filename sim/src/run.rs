//! A simulation from beginning to end.

use std::fs::File;
use std::io::{self, BufWriter, Write, stdout};
use std::path::Path;

use crate::cli::Options;
use crate::error::Error;
use crate::input;
use crate::log::{Column, Log};
use crate::picture::{Panel, draw};
use crate::progress::Progress;
use crate::replay::{Outcome, Together, replay, replay_together};
use crate::report::{LogReport, Report, RuleReport, TogetherReport};
use crate::rule::{By, Simulated};
use crate::stream::Stream;
use crate::table::Table;

/// Reads, replays, and shows what came of it.
///
/// # Errors
/// A log without a request, and files that cannot be read or written.
pub fn run(options: &Options) -> Result<(), Error> {
    let progress = Progress::new();
    let bys: Vec<By> = options.rules.iter().map(|rule| rule.by).collect();
    let (path, told) = (options.log.as_deref(), options.told());
    let mut input = input::read(path, &told, &bys, options.ipv6, &progress)?;
    input.log.sort();
    if options.spread {
        input.log.spread_seconds();
    }
    let log = &input.log;
    progress.steps("replaying".into(), options.rules.len() as u64, log.len());
    let mut outcomes = Vec::new();
    let mut rules = Vec::new();
    for rule in &options.rules {
        let (outcome, report) = simulate(log, rule, options);
        outcomes.push(outcome);
        rules.push(report);
        progress.step();
    }
    let together =
        options.together.then(|| replay_together(log, &options.rules, options.resolution));
    progress.done();
    let report = Report {
        log: LogReport::new(&input),
        rules,
        together: together.as_ref().map(|together| {
            let columns: Vec<&Column> = bys.iter().map(|by| log.column(*by)).collect();
            TogetherReport::new(&options.rules, &columns, together, options.top)
        }),
    };
    if let Some(path) = &options.decisions {
        written(path, write_decisions(path, log, &outcomes, together.as_ref()))?;
    }
    if let Some(path) = &options.svg {
        let panels = panels(log, &options.rules, &outcomes, together.as_ref());
        let drawn = draw(path, &log.times_ms, &panels);
        written(path, drawn.map_err(|error| io::Error::other(error.to_string())))?;
    }
    match print(&report, options.json) {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(|error| Error::Write { name: "stdout".into(), error }),
    }
}

/// One rule on its own.
fn simulate(log: &Log, rule: &Simulated, options: &Options) -> (Outcome, RuleReport) {
    let stream = Stream::new(log, rule);
    let outcome = replay(log, &stream, rule, options.resolution);
    let (column, top) = (log.column(rule.by), options.top);
    let report = RuleReport::new(rule, column, &stream, &outcome, options.resolution, top);
    (outcome, report)
}

fn written(path: &Path, result: io::Result<()>) -> Result<(), Error> {
    result.map_err(|error| Error::Write { name: path.display().to_string(), error })
}

/// Writes a line for each request, in the order of the input.
fn write_decisions(
    path: &Path,
    log: &Log,
    outcomes: &[Outcome],
    together: Option<&Together>,
) -> io::Result<()> {
    let columns: Vec<&[bool]> = match together {
        Some(together) => vec![&together.granted],
        None => outcomes.iter().map(|outcome| &outcome.granted[..]).collect(),
    };
    let mut order = vec![0; log.len()];
    for (at, place) in log.places.iter().enumerate() {
        order[*place as usize] = at;
    }
    let mut file = BufWriter::new(File::create(path)?);
    for at in order {
        for granted in &columns {
            file.write_all(if granted[at] { b"1" } else { b"0" })?;
        }
        file.write_all(b"\n")?;
    }
    file.flush()
}

fn panels<'a>(
    log: &'a Log,
    rules: &[Simulated],
    outcomes: &'a [Outcome],
    together: Option<&'a Together>,
) -> Vec<Panel<'a>> {
    let panel = |(rule, outcome): (&Simulated, &'a Outcome)| {
        let ids = &log.column(rule.by).ids;
        Panel {
            title: rule.text.clone(),
            concerned: Box::new(|at| ids[at] != Column::NONE),
            granted: &outcome.granted,
        }
    };
    let mut panels: Vec<Panel<'_>> = rules.iter().zip(outcomes).map(panel).collect();
    panels.extend(together.map(|together| Panel {
        title: "all rules in one call".into(),
        concerned: Box::new(|_| true),
        granted: &together.granted,
    }));
    panels
}

fn print(report: &Report, json: bool) -> io::Result<()> {
    let mut out = stdout().lock();
    match json {
        true => {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)?;
        }
        false => write!(out, "{}", Table(report))?,
    }
    out.flush()
}
