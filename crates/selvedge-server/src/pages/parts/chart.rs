//! Curves over time as SVG: charts of the last hour, sparklines, and bars of use.

use super::{duration, number};
use maud::{Markup, html};
use std::fmt::Write;

/// The size of a chart's drawing area. It is stretched to the width of its place.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;

/// A curve of a chart.
pub struct Curve {
    /// The label in the legend.
    pub label: &'static str,
    /// The number of its colour, from 1 to 4.
    pub colour: u8,
    /// The values, oldest first; none where there is no value.
    pub values: Vec<Option<f64>>,
    /// The value of the whole hour, for the legend.
    pub whole: String,
}

/// Draws a chart. `text` formats a value.
pub fn chart(title: &str, curves: &[Curve], text: fn(f64) -> String) -> Markup {
    let values = curves.iter().flat_map(|curve| curve.values.iter().flatten());
    let top = round_up(values.copied().fold(0.0, f64::max));
    let described: Vec<String> =
        curves.iter().map(|curve| format!("{} {}", curve.label, curve.whole)).collect();
    let label = format!("{title}, in the whole hour: {}", described.join(", "));
    html! {
        figure.card.chart {
            figcaption.heading { h3 { (title) } span.faint { "max " (text(top)) } }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(label) {
                @for y in [0.5, HEIGHT / 2.0, HEIGHT - 0.5] { line.grid x1="0" x2=(WIDTH) y1=(y) y2=(y) {} }
                @for (index, curve) in curves.iter().enumerate() {
                    @let path = path(&curve.values, top, WIDTH, HEIGHT);
                    @if index == 0 { path class=(format!("area curve-{}", curve.colour)) d=(area(&curve.values, top)) {} }
                    path class=(format!("curve curve-{}{}", curve.colour, dashed(index))) d=(path) {}
                }
            }
            div.axis aria-hidden="true" { span { "1 hour ago" } span { "30 min" } span { "now" } }
            ul.legend {
                @for (index, curve) in curves.iter().enumerate() {
                    li {
                        svg viewBox="0 0 22 8" aria-hidden="true" {
                            path class=(format!("curve curve-{}{}", curve.colour, dashed(index))) d="M0 4H22" {}
                        }
                        (curve.label)
                        b { (curve.whole) }
                    }
                }
            }
        }
    }
}

/// The second and later curves are dashed, so that they differ by more than their colour.
fn dashed(index: usize) -> &'static str {
    if index == 0 { "" } else { " dashed" }
}

/// Draws a small curve without axes.
pub fn sparkline(label: &str, values: &[f64]) -> Markup {
    let top = values.iter().copied().fold(1.0, f64::max);
    let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
    html! {
        svg.spark viewBox="0 0 120 28" preserveAspectRatio="none" role="img" aria-label=(label) {
            path class="curve curve-1" d=(path(&values, top, 120.0, 28.0)) {}
        }
    }
}

/// Draws the use of a limit, full from the whole on.
pub fn bar(used: f64, label: &str) -> Markup {
    let class = if used >= 1.0 { "bar full" } else { "bar" };
    amount_bar(class, used, 0.0, None, label)
}

/// Draws an amount: what is used, what is reserved beyond it, and the soft limit, as shares of the whole. The class is `bar`, with
/// `warns` past a soft limit, and with `full` at a hard one.
pub fn amount_bar(class: &str, used: f64, reserved: f64, soft: Option<f64>, label: &str) -> Markup {
    let percent = |share: f64| format!("{:.1}", share.clamp(0.0, 1.0) * 100.0);
    html! {
        svg class=(class) viewBox="0 0 100 10" preserveAspectRatio="none"
            role="img" aria-label=(label) {
            rect.reserved width=(percent(used + reserved)) height="10" {}
            rect.used width=(percent(used)) height="10" {}
            @if let Some(soft) = soft { line.soft x1=(percent(soft)) x2=(percent(soft)) y1="0" y2="10" vector-effect="non-scaling-stroke" {} }
        }
    }
}

/// Returns the path of a curve, interrupted where there is no value.
fn path(values: &[Option<f64>], top: f64, width: f64, height: f64) -> String {
    let step = width / values.len().saturating_sub(1).max(1) as f64;
    let mut path = String::new();
    let mut is_drawing = false;
    for (index, value) in values.iter().enumerate() {
        let Some(value) = value else {
            is_drawing = false;
            continue;
        };
        let (x, y) = (index as f64 * step, place(*value, top, height));
        let _ = write!(path, "{}{x:.1} {y:.1}", if is_drawing { "L" } else { "M" });
        if !is_drawing && values.get(index + 1).is_none_or(Option::is_none) {
            // A single value is a short line.
            path.push_str("h4");
        }
        is_drawing = true;
    }
    path
}

/// Returns the path of the area under a curve. A missing value counts as zero.
fn area(values: &[Option<f64>], top: f64) -> String {
    let step = WIDTH / values.len().saturating_sub(1).max(1) as f64;
    let mut path = format!("M0 {HEIGHT}");
    for (index, value) in values.iter().enumerate() {
        let _ = write!(path, "L{:.1} {:.1}", index as f64 * step, place(value.unwrap_or(0.0), top, HEIGHT));
    }
    let _ = write!(path, "V{HEIGHT}z");
    path
}

fn place(value: f64, top: f64, height: f64) -> f64 {
    height - 1.0 - value / top.max(f64::MIN_POSITIVE) * (height - 2.0)
}

/// Rounds the largest value of a chart up to one, two or five times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|top| *top >= value).unwrap_or(value)
}

/// Formats a count.
pub fn count(value: f64) -> String {
    number(value as u64)
}

/// Formats milliseconds, short ones with a fraction.
pub fn milliseconds(value: f64) -> String {
    match value < 10.0 {
        true => format!("{value:.1} ms"),
        false => duration(value as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_chart_is_a_round_number() {
        for (value, top) in [(0.0, 1.0), (1.0, 1.0), (3.0, 5.0), (11.0, 20.0), (99.0, 100.0), (501.0, 1000.0)]
        {
            assert_eq!(round_up(value), top);
        }
    }

    #[test]
    fn a_curve_is_interrupted_where_there_is_no_value() {
        let values = [Some(0.0), Some(1.0), None, Some(1.0)];
        assert_eq!(path(&values, 1.0, 30.0, 10.0), "M0.0 9.0L10.0 1.0M30.0 1.0h4");
    }
}
