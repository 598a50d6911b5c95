//! The report's pictures.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::cases::SET;
use crate::cpu::{Cost, find};
use crate::growth::Series;
use crate::logs::Logs;
use crate::results::Results;

/// The height of a chart's title and legend, and where in it the legend is.
const HEAD: i32 = 44;
const LEGEND: i32 = 36;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const OURS: RGBColor = RGBColor(31, 111, 178);
const OTHERS: RGBColor = RGBColor(160, 168, 178);
/// Of the lines of a chart, in order.
const LINES: [RGBColor; 4] =
    [OURS, RGBColor(214, 124, 28), RGBColor(66, 146, 84), RGBColor(140, 86, 160)];

/// Draws what there are results for. Returns the names of the files.
pub fn draw(results: &Results, folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut drawn = Vec::new();
    if find(&results.main, SET).is_some() {
        cpu(&results.main, &folder.join("bench-cpu.svg"))?;
        drawn.push("bench-cpu.svg".to_owned());
    }
    if let Some(logs) = &results.logs {
        memory(logs, &folder.join("bench-memory.svg"))?;
        drawn.push("bench-memory.svg".to_owned());
    }
    let growing = growing(results);
    if !growing.is_empty() {
        growth(&growing, &folder.join("bench-growth.svg"))?;
        drawn.push("bench-growth.svg".to_owned());
    }
    Ok(drawn)
}

/// A bar for each command, as a ratio to `SET PX`; long ones are cut.
fn cpu(costs: &[Cost], path: &Path) -> Result<(), Box<dyn Error>> {
    const ROW: i32 = 20;
    const LABELS: i32 = 270;
    const UNIT: f64 = 60.0;
    /// The width of a number.
    const NUMBER: i32 = 36;
    const LONGEST: f64 = 10.0;
    let set = find(costs, SET).unwrap_or(f64::NAN);
    let height = 50 + ROW * costs.len() as i32;
    let root = SVGBackend::new(path, (960, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let font = |size: i32| ("sans-serif", size).into_font();
    root.draw(&Text::new("Server CPU per command, as a ratio to SET PX", (10, 10), font(15)))?;
    // SET PX itself.
    let line = LABELS + UNIT as i32;
    for (row, cost) in costs.iter().enumerate() {
        let top = 38 + ROW * row as i32;
        let ratio = cost.micros / set;
        let end = LABELS + (ratio.min(LONGEST) * UNIT) as i32;
        let colour = if cost.name.starts_with("RL.") { OURS } else { OTHERS };
        let bar = [(LABELS, top), (end, top + ROW - 6)];
        root.draw(&Rectangle::new(bar, colour.filled()))?;
        root.draw(&Text::new(cost.name.clone(), (10, top + 1), font(13)))?;
        let cut = if ratio > LONGEST { " (cut)" } else { "" };
        // Behind the line, where it would cross it.
        let crosses = end <= line && end + 6 + NUMBER > line;
        let number = if crosses { line } else { end } + 6;
        root.draw(&Text::new(format!("{ratio:.2}{cut}"), (number, top + 1), font(13)))?;
    }
    root.draw(&PathElement::new([(line, 32), (line, height - 12)], BLACK.mix(0.5)))?;
    root.present()?;
    Ok(())
}

/// Bytes of a sliding limiter and of a sorted set.
fn memory(logs: &Logs, path: &Path) -> Result<(), Box<dyn Error>> {
    let line = |name: &str, bytes: &dyn Fn(usize) -> f64| Series {
        name: name.to_owned(),
        points: logs.memory.iter().enumerate().map(|(at, l)| (l.permits, bytes(at))).collect(),
    };
    let mut ours = line("sliding limiter", &|at| logs.memory[at].bytes[0] as f64);
    // Of a size that was measured twice, the exact one comes first.
    ours.points.dedup_by_key(|(permits, _)| *permits);
    let mut zset = line("ZSET", &|at| logs.memory[at].zset_bytes[0] as f64);
    zset.points.dedup_by_key(|(permits, _)| *permits);
    let root = SVGBackend::new(path, (700, 340)).into_drawing_area();
    root.fill(&WHITE)?;
    chart(&root, &Chart { title: "Bytes of one limiter, by permits", lines: vec![&ours, &zset] })?;
    root.present()?;
    Ok(())
}

/// Lines over one axis. Both axes are logarithmic.
struct Chart<'a> {
    title: &'static str,
    lines: Vec<&'a Series>,
}

fn growing(results: &Results) -> Vec<(&'static str, Vec<Series>)> {
    let copy = |series: &[Series]| -> Vec<Series> {
        let copy = |s: &Series| Series { name: s.name.clone(), points: s.points.clone() };
        series.iter().map(copy).collect()
    };
    let grants = results.logs.as_ref().map(|logs| Series {
        name: "RL.ACQUIRE sliding".to_owned(),
        points: logs.grants.iter().map(|(permits, cost)| (*permits, cost.micros)).collect(),
    });
    let charts = [
        ("µs a call, by keys in the call", copy(&results.keys_in_a_call)),
        ("µs a grant, by permits in the log", grants.into_iter().collect()),
        ("µs a call, by keys in the database", copy(&results.keys_in_the_database)),
        ("µs a call, by clients", copy(&results.clients)),
    ];
    charts.into_iter().filter(|(_, series)| !series.is_empty()).collect()
}

fn growth(charts: &[(&'static str, Vec<Series>)], path: &Path) -> Result<(), Box<dyn Error>> {
    let rows = charts.len().div_ceil(2);
    let root = SVGBackend::new(path, (900, 300 * rows as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, (title, series)) in root.split_evenly((rows, 2)).iter().zip(charts) {
        chart(area, &Chart { title, lines: series.iter().collect() })?;
    }
    root.present()?;
    Ok(())
}

fn chart(area: &Area<'_>, chart: &Chart<'_>) -> Result<(), Box<dyn Error>> {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let xs = points().map(|(x, _)| f64::from(*x));
    let (left, right) = xs.fold((f64::MAX, 1.0f64), |(a, b), x| (a.min(x), b.max(x)));
    let ys = points().map(|(_, y)| *y);
    let (low, high) = ys.fold((f64::MAX, f64::MIN), |(a, b), y| (a.min(y), b.max(y)));
    // Whole decades at the bottom and at the top.
    let low = 10f64.powf(low.max(1e-3).log10().floor());
    let high = 10f64.powf(high.max(low * 1.01).log10().ceil());
    let right = right.max(left * 10.0);
    let (head, body) = area.split_vertically(HEAD);
    let middle = head.dim_in_pixel().0 as i32 / 2;
    let centred =
        ("sans-serif", 15).into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Top));
    head.draw(&Text::new(chart.title, (middle, 8), centred))?;
    legend(&head, &chart.lines)?;
    let mut context = ChartBuilder::on(&body)
        .margin(10)
        .x_label_area_size(24)
        .y_label_area_size(58)
        .build_cartesian_2d(
            (left..right).log_scale().with_key_points(ticks(left, right)),
            (low..high).log_scale().with_key_points(ticks(low, high)),
        )?;
    let mesh = |value: &f64| match *value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{value}"),
    };
    context
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&mesh)
        .y_label_formatter(&mesh)
        .draw()?;
    for (line, colour) in chart.lines.iter().zip(LINES) {
        let points = line.points.iter().map(|(x, y)| (f64::from(*x), *y));
        context.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?;
    }
    Ok(())
}

/// The names of the lines in a row below the title, where they hide nothing.
fn legend(head: &Area<'_>, lines: &[&Series]) -> Result<(), Box<dyn Error>> {
    const SAMPLE: i32 = 16;
    const GAP: i32 = 14;
    let font = ("sans-serif", 12).into_font();
    let width = |name: &str| font.box_size(name).map(|(width, _)| width as i32);
    let mut total = -GAP;
    for line in lines {
        total += SAMPLE + 5 + width(&line.name)? + GAP;
    }
    let mut left = (head.dim_in_pixel().0 as i32 - total) / 2;
    for (line, colour) in lines.iter().zip(LINES) {
        let sample = [(left, LEGEND), (left + SAMPLE, LEGEND)];
        head.draw(&PathElement::new(sample, colour.stroke_width(2)))?;
        left += SAMPLE + 5;
        head.draw(&Text::new(line.name.clone(), (left, LEGEND - 6), font.clone()))?;
        left += width(&line.name)? + GAP;
    }
    Ok(())
}

/// Powers of ten; 1, 2 and 5 of them where they would be too few.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if high / low > 11.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
    all.filter(|tick| (low * 0.999..=high * 1.001).contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn an_axis_has_a_label_for_each_decade_or_several_within_one() {
        assert_eq!(ticks(1.0, 1024.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(1.0, 10.0), [1.0, 2.0, 5.0, 10.0]);
    }
}
