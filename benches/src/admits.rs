//! Draws `docs/admits.svg`: what each algorithm admits of the same bursty traffic, by the real
//! implementation on a simulated clock.

use std::error::Error;

use plotters::prelude::*;
use rl_core::decision::{Ask, Terms};
use rl_core::in_memory::acquire_one;
use rl_core::manage::release;
use rl_core::rule::{Algorithm, Rule, Shape};

/// How long the traffic is, in ms.
const TOTAL_MS: i64 = 6000;
/// The width of a bar, in ms.
const BIN_MS: i64 = 50;
/// How long a holder keeps a permit of the concurrency limiter, in ms.
const HELD_MS: i64 = 400;
/// Any moment will do; windows of a second start at it.
const START_MS: i64 = 1_700_000_000_000;

const DEMAND: RGBColor = RGBColor(205, 210, 217);
const ADMITTED: RGBColor = RGBColor(31, 111, 178);

/// Request times in ms: a burst around a window's boundary, a steady load above the limit, a
/// trickle, a burst after a pause.
fn traffic() -> Vec<i64> {
    let mut times = Vec::new();
    times.extend((850..1150).step_by(10));
    times.extend((1800..3800).step_by(50));
    times.extend((3900..4700).step_by(200));
    times.extend((5300..5400).step_by(4));
    times
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "docs/admits.svg".into());
    let burst = |permits| Shape { burst: Some(permits), ..Shape::default() };
    let plain = Shape::default();
    let panels = [
        ("sliding: at most 10 in any second", Rule::new(Algorithm::Sliding, 1000, 10, plain)?),
        ("bucket: 10 at once, then 10 a second", Rule::new(Algorithm::Bucket, 1000, 10, plain)?),
        (
            "bucket, BURST 3: 3 at once, then 10 a second",
            Rule::new(Algorithm::Bucket, 1000, 10, burst(3))?,
        ),
        ("leaky: one every 100 ms", Rule::new(Algorithm::Bucket, 1000, 10, burst(1))?),
        ("fixed: 10 in each second of the clock", Rule::new(Algorithm::Fixed, 1000, 10, plain)?),
        ("counter: about 10 in any second", Rule::new(Algorithm::Counter, 1000, 10, plain)?),
        (
            "concurrency: 10 at a time, each held for 400 ms",
            Rule::new(Algorithm::Concurrency, 1000, 10, plain)?,
        ),
    ];
    let demand = traffic();
    let root = SVGBackend::new(&path, (900, 110 * panels.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, (title, rule)) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
        let granted = admitted(rule, &demand);
        let title = format!("{title} ({} of {} admitted)", granted.len(), demand.len());
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 13))
            .margin_right(12)
            .margin_top(4)
            .x_label_area_size(18)
            .y_label_area_size(30)
            .build_cartesian_2d(0.0..TOTAL_MS as f64 / 1000.0, 0u32..14u32)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(7)
            .y_labels(3)
            .x_label_formatter(&|seconds| format!("{seconds} s"))
            .draw()?;
        for (times, colour) in [(&demand, DEMAND), (&granted, ADMITTED)] {
            chart.draw_series(bars(times).map(|(bin, count)| {
                let from = (bin * BIN_MS) as f64 / 1000.0;
                let to = from + BIN_MS as f64 / 1000.0 * 0.9;
                Rectangle::new([(from, 0), (to, count)], colour.filled())
            }))?;
        }
    }
    root.present()?;
    Ok(())
}

/// The times at which a limiter under the rule grants.
fn admitted(rule: Rule, demand: &[i64]) -> Vec<i64> {
    let mut limiter = None;
    let mut granted: Vec<i64> = Vec::new();
    for time in demand {
        let now_ms = START_MS + time;
        // Holders that are done let go of their permit.
        for taken in granted.iter().filter(|taken| **taken + HELD_MS <= *time) {
            if let Some(limiter) = &mut limiter
                && let Some(effect) = release(limiter, &taken.to_be_bytes(), now_ms)
            {
                limiter.apply(&effect);
            }
        }
        let id = time.to_be_bytes();
        let terms = Terms { now_ms, id: Some(&id), ..Terms::default() };
        let ask = Ask { rule, cost: 1, block_ms: 0, shadow: false };
        let (decision, _) = acquire_one(&mut limiter, &ask, &terms);
        if decision.granted > 0 {
            granted.push(*time);
        }
    }
    granted
}

/// How many of the times are in each bin that has any.
fn bars(times: &[i64]) -> impl Iterator<Item = (i64, u32)> {
    (0..TOTAL_MS / BIN_MS).filter_map(|bin| {
        let count = times.iter().filter(|time| **time / BIN_MS == bin).count() as u32;
        (count > 0).then_some((bin, count))
    })
}
