//! The findings as text for people.

use std::fmt::{self, Display, Write};

use crate::report::{FoundLimit, LogReport, RefusedKey, Report, RuleReport, TogetherReport};
use crate::timestamp::show_duration;

/// Shows a report.
pub struct Table<'a>(pub &'a Report);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { log, rules, together } = self.0;
        write_log(f, log)?;
        f.write_str("\nEach rule on its own\n\n")?;
        write_rules(f, rules)?;
        for rule in rules {
            write_top(f, &rule.rule, &rule.top, rule.keys_refused)?;
        }
        match together {
            Some(together) => write_together(f, together),
            None => Ok(()),
        }
    }
}

fn write_log(f: &mut fmt::Formatter<'_>, log: &LogReport) -> fmt::Result {
    let LogReport { name, format, requests, first, last, span_ms, .. } = log;
    let span = show_duration(*span_ms);
    writeln!(f, "{name} ({format}): {requests} requests in {span}, {first} to {last}")?;
    if log.out_of_order > 0 {
        let many = log.out_of_order;
        writeln!(f, "{many} came earlier than the line before: the log was sorted by time")?;
    }
    if log.assumed_utc {
        f.write_str("times without a zone were read as UTC (--zone)\n")?;
    }
    if log.malformed.count > 0 {
        writeln!(f, "{} malformed lines were left out:", log.malformed.count)?;
    }
    log.malformed.first.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
    match log.malformed.count > log.malformed.first.len() as u64 {
        true => f.write_str("  ...\n"),
        false => Ok(()),
    }
}

fn write_rules(f: &mut fmt::Formatter<'_>, rules: &[RuleReport]) -> fmt::Result {
    const HEAD: [&str; 8] = [
        "requests",
        "keys",
        "refused",
        "refused %",
        "longest wait",
        "LIMIT for 0 %",
        "for 0.1 %",
        "rule",
    ];
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(rules.iter().map(|rule| {
        [
            rule.requests.to_string(),
            rule.keys.to_string(),
            rule.refused.to_string(),
            show_percent(rule.refused_percent),
            show_wait(rule.longest_wait_ms, rule.never),
            show_limit(rule.limit_for_none.as_ref()),
            show_limit(rule.limit_for_1_in_1000.as_ref()),
            rule.rule.clone(),
        ]
    }));
    write_rows(f, &rows)
}

fn write_together(f: &mut fmt::Formatter<'_>, together: &TogetherReport) -> fmt::Result {
    f.write_str("\nAll rules in one call\n\n")?;
    write_rows(
        f,
        &[
            ["requests", "refused", "refused %", "longest wait"].map(String::from),
            [
                together.requests.to_string(),
                together.refused.to_string(),
                show_percent(together.refused_percent),
                show_wait(together.longest_wait_ms, together.never),
            ],
        ],
    )?;
    f.write_char('\n')?;
    let mut rows = vec![["refused by it", "by it alone", "rule"].map(String::from)];
    let row = |share: &crate::report::ShareReport| {
        [share.refused.to_string(), share.alone.to_string(), share.rule.clone()]
    };
    rows.extend(together.rules.iter().map(row));
    write_rows(f, &rows)
}

/// Writes columns, all to the right, but the last to the left when it is a rule.
fn write_rows<const N: usize>(f: &mut fmt::Formatter<'_>, rows: &[[String; N]]) -> fmt::Result {
    let last_is_rule = rows.first().is_some_and(|head| head[N - 1] == "rule");
    let right = if last_is_rule { N - 1 } else { N };
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells = row.iter().zip(widths).enumerate();
        for (i, (cell, width)) in cells {
            let gap = if i == 0 { "" } else { "  " };
            match i < right {
                true => write!(f, "{gap}{cell:>width$}")?,
                false => write!(f, "{gap}{cell}")?,
            }
        }
        f.write_char('\n')?;
    }
    Ok(())
}

fn write_top(
    f: &mut fmt::Formatter<'_>,
    rule: &str,
    top: &[RefusedKey],
    refused: usize,
) -> fmt::Result {
    if top.is_empty() {
        return Ok(());
    }
    let of = if refused > top.len() { format!("{} of {refused}", top.len()) } else { "all".into() };
    writeln!(f, "\nRefused most ({of}) by {rule}\n")?;
    let width = top.iter().map(|key| key.refused.to_string().len()).max().unwrap_or(0);
    top.iter().try_for_each(|key| writeln!(f, "{:>width$}  {}", key.refused, key.key))
}

/// With two decimals; a few are not shown as none.
fn show_percent(percent: f64) -> String {
    match percent {
        percent if percent > 0.0 && percent < 0.01 => "<0.01".into(),
        percent => format!("{percent:.2}"),
    }
}

fn show_wait(longest_ms: Option<i64>, never: u64) -> String {
    match (longest_ms, never) {
        (_, 1..) => "for ever".into(),
        (Some(longest_ms), 0) => show_duration(longest_ms),
        (None, 0) => "-".into(),
    }
}

fn show_limit(found: Option<&FoundLimit>) -> String {
    match found {
        None => "none".into(),
        Some(FoundLimit { limit, burst: None }) => limit.to_string(),
        Some(FoundLimit { limit, burst: Some(burst) }) => format!("{limit} BURST {burst}"),
    }
}
