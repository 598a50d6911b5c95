//! Medians and percentiles.

/// The value below which a part (0 to 1) of the values lie.
pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}

/// The middle value.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}
