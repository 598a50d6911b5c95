//! The report's pictures.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::cases::SET;
use crate::cpu::{Cost, find};
use crate::growth::Series;
use crate::logs::Logs;
use crate::results::Results;

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
    const LABELS: i32 = 230;
    const UNIT: f64 = 60.0;
    const LONGEST: f64 = 10.0;
    let set = find(costs, SET).unwrap_or(f64::NAN);
    let height = 50 + ROW * costs.len() as i32;
    let root = SVGBackend::new(path, (900, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let font = |size: i32| ("sans-serif", size).into_font();
    root.draw(&Text::new("Server CPU per command, as a ratio to SET PX", (10, 10), font(15)))?;
    for (row, cost) in costs.iter().enumerate() {
        let top = 38 + ROW * row as i32;
        let ratio = cost.micros / set;
        let end = LABELS + (ratio.min(LONGEST) * UNIT) as i32;
        let colour = if cost.name.starts_with("RL.") { OURS } else { OTHERS };
        let bar = [(LABELS, top), (end, top + ROW - 6)];
        root.draw(&Rectangle::new(bar, colour.filled()))?;
        root.draw(&Text::new(cost.name.clone(), (10, top + 1), font(13)))?;
        let cut = if ratio > LONGEST { " (cut)" } else { "" };
        root.draw(&Text::new(format!("{ratio:.2}{cut}"), (end + 6, top + 1), font(13)))?;
    }
    // SET PX itself.
    let line = LABELS + UNIT as i32;
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
    let mut context = ChartBuilder::on(area)
        .caption(chart.title, ("sans-serif", 15))
        .margin(10)
        .x_label_area_size(24)
        .y_label_area_size(58)
        .build_cartesian_2d((left..right.max(left * 10.0)).log_scale(), (low..high).log_scale())?;
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
        let style = colour.stroke_width(2);
        context
            .draw_series(LineSeries::new(points, style).point_size(3))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    context
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .label_font(("sans-serif", 12))
        .draw()?;
    Ok(())
}
