//! Markdown tables with aligned columns, and numbers for people.

use std::fmt::Write;

/// A table to fill row by row. All columns but the first are numbers.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[&str]) -> Table {
        Table { rows: vec![columns.iter().map(|column| (*column).to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table, and an empty line.
    pub fn markdown(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 => write!(text, "| {cell:<width$} "),
                    _ => write!(text, "| {cell:>width$} "),
                };
            }
            text.push_str("|\n");
            if number == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let _ = match column {
                        0 => write!(text, "| {:-<width$} ", ""),
                        _ => write!(text, "| {:->1$}: ", "", width - 1),
                    };
                }
                text.push_str("|\n");
            }
        }
        text.push('\n');
        text
    }
}

/// A number with two decimals, or a dash.
pub fn decimals(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.2}"))
}

/// A whole number with commas.
pub fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0.0, 999.0, 1e3, 1_234_567.0].map(whole));
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["a", "b"]);
        table.row(["PING".into(), "1".into()]);
        assert_eq!(table.markdown(), "| a    |   b |\n| ---- | --: |\n| PING |   1 |\n\n");
    }
}
