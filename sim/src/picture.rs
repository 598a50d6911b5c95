//! Demand against admitted over time, as an SVG.

use std::error::Error;
use std::path::Path;

use jiff::Timestamp;
use plotters::prelude::*;

/// A panel: what was asked of a rule, and what it granted.
pub struct Panel<'a> {
    /// What stands above it.
    pub title: String,
    /// For each request of the log, whether it concerns the rule.
    pub concerned: Box<dyn Fn(usize) -> bool + 'a>,
    /// For each request of the log, whether it was granted.
    pub granted: &'a [bool],
}

const DEMAND: RGBColor = RGBColor(205, 210, 217);
const ADMITTED: RGBColor = RGBColor(31, 111, 178);

/// At most so many bars.
const BARS: i64 = 240;

/// Widths of a bar that read well, in ms; from a day on, whole days.
const WIDTHS_MS: [i64; 25] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000,
    120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, DAY_MS,
];

const DAY_MS: i64 = 86_400_000;

/// The time that the picture shows, in bars.
#[derive(Clone, Copy)]
struct Axis {
    first_ms: i64,
    width_ms: i64,
    bars: i64,
}

impl Axis {
    fn new(first_ms: i64, last_ms: i64) -> Axis {
        let bars = |width_ms: i64| last_ms.div_euclid(width_ms) - first_ms.div_euclid(width_ms) + 1;
        let fits = WIDTHS_MS.into_iter().find(|width_ms| bars(*width_ms) <= BARS);
        let width_ms = fits.unwrap_or(DAY_MS * (bars(DAY_MS) as u64).div_ceil(BARS as u64) as i64);
        let first_bar = first_ms.div_euclid(width_ms);
        Axis { first_ms: first_bar * width_ms, width_ms, bars: bars(width_ms) }
    }

    fn bar(&self, time_ms: i64) -> usize {
        ((time_ms - self.first_ms) / self.width_ms) as usize
    }

    /// The label of a time: as much of it as differs within the picture.
    fn label(&self, bar: f64) -> String {
        let time_ms = self.first_ms + (bar * self.width_ms as f64) as i64;
        let format = match (self.bars * self.width_ms, self.width_ms) {
            (..10_000, _) => "%H:%M:%S.%3f",
            (..=DAY_MS, ..60_000) => "%H:%M:%S",
            (..=DAY_MS, _) => "%H:%M",
            (_, ..DAY_MS) => "%d %b %H:%M",
            _ => "%Y-%m-%d",
        };
        let time = Timestamp::from_millisecond(time_ms).unwrap_or_default();
        time.strftime(format).to_string()
    }
}

/// Draws one panel below the other. The times are ascending, one for each request of the log.
///
/// # Errors
/// What the drawing or the file came to.
pub fn draw(path: &Path, times_ms: &[i64], panels: &[Panel<'_>]) -> Result<(), Box<dyn Error>> {
    let (first_ms, last_ms) = (times_ms.first(), times_ms.last());
    let axis = Axis::new(*first_ms.unwrap_or(&0), *last_ms.unwrap_or(&0));
    let root = SVGBackend::new(path, (900, 170 * panels.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
        draw_panel(area, axis, times_ms, panel)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    axis: Axis,
    times_ms: &[i64],
    panel: &Panel<'_>,
) -> Result<(), Box<dyn Error>> {
    let mut demand = vec![0u32; axis.bars as usize];
    let mut admitted = demand.clone();
    for (at, time_ms) in times_ms.iter().enumerate().filter(|(at, _)| (panel.concerned)(*at)) {
        demand[axis.bar(*time_ms)] += 1;
        admitted[axis.bar(*time_ms)] += u32::from(panel.granted[at]);
    }
    let highest = demand.iter().max().copied().unwrap_or(0).max(1);
    let sum = |bars: &[u32]| bars.iter().copied().map(u64::from).sum::<u64>();
    let (granted, asked) = (sum(&admitted), sum(&demand));
    let width = crate::timestamp::show_duration(axis.width_ms);
    let title = format!("{} ({granted} of {asked} admitted, in bars of {width})", panel.title);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 13))
        .margin_right(12)
        .margin_top(4)
        .x_label_area_size(20)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..axis.bars as f64, 0u32..highest + highest.div_ceil(16))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(7)
        .y_labels(5)
        .x_label_formatter(&|bar| axis.label(*bar))
        .draw()?;
    for (bars, colour) in [(&demand, DEMAND), (&admitted, ADMITTED)] {
        let bars = bars.iter().enumerate().filter(|(_, count)| **count > 0);
        chart.draw_series(bars.map(|(bar, count)| {
            let from = bar as f64;
            Rectangle::new([(from, 0), (from + 0.9, *count)], colour.filled())
        }))?;
    }
    Ok(())
}
