//! The sections on what other applications notice: what their commands cost, and how long they may
//! have to wait.

use crate::longest::Call;
use crate::others::{STATES, State, Tax};
use crate::results::Results;
use crate::table::{Table, decimals};

/// See the file's head.
pub fn section(results: &Results) -> String {
    let mut text = String::new();
    if !results.others.is_empty() {
        text += "## Commands of other applications

Server CPU as a ratio to a server without the module, which runs beside. Ratios are taken within
rounds, the median is over the rounds of several starts of all servers, and in brackets is the
distance between the quartiles.

";
        text += &tax_table(&results.others);
    }
    if !results.longest.is_empty() {
        text += "## What holds the server longest

The server's own time for one call, the median of several. Where no call does the work, the longest
that a PING of another client took. Bulk calls answer, copy or read as much as there is, and that is
what takes the time.

";
        text += &longest_table(&results.longest);
    }
    text
}

fn tax_table(taxes: &[Tax]) -> String {
    let states = || STATES.into_iter().filter(|state| *state != State::Absent);
    let mut columns = vec!["command", "without, µs"];
    columns.extend(states().map(State::name));
    let mut table = Table::new(&columns);
    for tax in taxes {
        let ratios = tax.ratios.iter().filter(|(state, _)| *state != State::Absent);
        let ratios =
            ratios.map(|(_, cost)| format!("{:.3} ({:.1} %)", cost.micros, 100.0 * cost.spread));
        let row = [tax.name.clone(), decimals(Some(tax.micros))];
        table.row(row.into_iter().chain(ratios));
    }
    table.markdown()
}

fn longest_table(calls: &[Call]) -> String {
    let mut table = Table::new(&["call", "ms", "bulk"]);
    for call in calls {
        let ms = format!("{:.2}", call.micros / 1000.0);
        let bulk = if call.is_bulk() { "yes" } else { "" };
        table.row([format!("{}: {}", call.what, call.on), ms, bulk.into()]);
    }
    table.markdown()
}
