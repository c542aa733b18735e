//! Small drawings, as inline SVG without text: every figure in them is also in a table.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::{HistogramSketch, LengthBin, words};

/// Width of an interval strip, in SVG units.
const STRIP: f64 = 200.0;

/// A range of values mapped to the width of a strip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
}

impl Scale {
    /// A range that shows every finite value with some room; none when there is no finite value.
    pub fn around(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            return None;
        }
        // A run whose values all agree still needs a width to draw on.
        let room = ((high - low) * 0.08).max(0.000_5);
        Some(Self { low: low - room, high: high + room })
    }

    fn x(self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low) * STRIP).clamp(0.0, STRIP)
    }
}

/// A line across a strip.
#[derive(Debug, Clone, Copy)]
pub enum Mark {
    /// What the value is compared with.
    Baseline(f64),
    /// What the gate allows.
    Limit(f64),
}

/// A value as a dot on its interval; nothing is drawn for what is not finite.
pub fn strip(
    scale: Scale,
    value: f64,
    interval: [f64; 2],
    marks: &[Option<Mark>],
    kind: &str,
) -> Markup {
    let label = format!("{} in an interval of {}", words::figure(value), words::interval(interval));
    html! {
        svg.strip.(kind) viewBox="0 0 200 24" role="img" aria-label=(label) {
            line.track x1="0" x2="200" y1="12" y2="12" { }
            @for mark in marks.iter().flatten() { (mark_line(scale, *mark)) }
            @if interval.iter().all(|end| end.is_finite()) {
                @let (from, to) = (scale.x(interval[0]), scale.x(interval[1]));
                rect.interval x=(coordinate(from)) y="8" width=(coordinate((to - from).max(1.0))) height="8" rx="4" { }
            }
            @if value.is_finite() { circle cx=(coordinate(scale.x(value))) cy="12" r="4.5" { } }
        }
    }
}

fn mark_line(scale: Scale, mark: Mark) -> Markup {
    let (class, value) = match mark {
        Mark::Baseline(value) => ("baseline", value),
        Mark::Limit(value) => ("limit", value),
    };
    html! { @if value.is_finite() {
        @let x = coordinate(scale.x(value));
        line.(class) x1=(x) x2=(x) y1="1" y2="23" { }
    } }
}

/// Columns of a tensor's histogram.
const COLUMNS: usize = 40;

/// A tensor's magnitudes on a logarithmic count axis, the threshold as a line; what saturates lies right of it.
pub fn histogram(sketch: &HistogramSketch, threshold: f32) -> Markup {
    let merged = HistogramSketch::from_fine(sketch.width, &sketch.counts, COLUMNS);
    let span = merged.width * merged.counts.len() as f64;
    let column = 160.0 / merged.counts.len().max(1) as f64;
    let top =
        merged.counts.iter().max().map_or(0.0, |&count| log_count(count)).max(f64::MIN_POSITIVE);
    // One outline, not a shape per column: a page may hold a thousand of these.
    let mut path = String::from("M0 32");
    for &count in &merged.counts {
        let height = if count == 0 { 0.0 } else { (log_count(count) / top * 30.0).max(1.0) };
        let _ = write!(path, "V{}h{}", coordinate(32.0 - height), coordinate(column));
    }
    path.push_str("V32z");
    let line = (span.is_finite() && span > 0.0 && threshold.is_finite())
        .then(|| f64::from(threshold) / span * 160.0);
    html! {
        svg.histogram viewBox="0 0 160 32" aria-hidden="true" {
            path d=(path) { }
            @if let Some(x) = line { @let x = coordinate(x.clamp(0.0, 160.0)); line x1=(x) x2=(x) y1="0" y2="32" { } }
        }
    }
}

fn log_count(count: u64) -> f64 {
    (count as f64 + 1.0).ln()
}

/// Rows by length, with a line where each shape profile ends. Stretches to the width it is given.
pub fn lengths(bins: &[LengthBin], ends: &[u64]) -> Markup {
    let last = bins.iter().map(|bin| bin.to).chain(ends.iter().copied()).max().unwrap_or(0) + 1;
    let x = |length: u64| coordinate(length as f64 / last as f64 * 1000.0);
    let top = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1) as f64;
    let mut path = String::new();
    for bin in bins.iter().filter(|bin| bin.count > 0) {
        let height = coordinate((bin.count as f64 / top * 96.0).max(0.5));
        let width =
            coordinate((bin.to + 1).saturating_sub(bin.from) as f64 / last as f64 * 1000.0 * 0.92);
        let _ = write!(path, "M{} 100v-{height}h{width}V100", x(bin.from));
    }
    html! {
        svg.lengths viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true" {
            path d=(path) { }
            @for &end in ends { @let x = x(end + 1); line x1=(x) x2=(x) y1="0" y2="100" { } }
        }
        p.axis aria-hidden="true" { span { "0 tokens" } span { (words::count(last - 1)) } }
    }
}

/// A bar as long as a share of the full width; what is not finite or beyond fills it.
pub fn bar(share: f64, kind: &str) -> Markup {
    let length = if share.is_nan() { 1.0 } else { share.clamp(0.0, 1.0) };
    html! {
        svg.cost.(kind) viewBox="0 0 160 12" aria-hidden="true" {
            rect.track x="0" y="2" width="160" height="8" rx="4" { }
            @if length > 0.0 { rect.filled x="0" y="2" width=(coordinate((length * 160.0).max(1.0))) height="8" rx="4" { } }
        }
    }
}

/// A coordinate with one decimal, without a needless one.
fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ignores_what_is_not_finite() {
        let scale = Scale::around([f64::NAN, 0.0, f64::INFINITY, 1.0].into_iter()).unwrap();
        assert!((scale.low + 0.08).abs() < 1e-12 && (scale.high - 1.08).abs() < 1e-12, "{scale:?}");
        assert_eq!(Scale::around([f64::NAN].into_iter()), None);
    }

    #[test]
    fn equal_values_still_have_a_width() {
        // By hand: 0.5 ± 0.0005, so the value lies in the middle of the 200 units.
        let scale = Scale::around([0.5, 0.5].into_iter()).unwrap();
        assert!((scale.x(0.5) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_histogram_draws_a_column_per_used_bin_and_the_threshold() {
        // By hand: four columns of 160 / 4 = 40 units, the full ones 30 high; threshold 2 of a span of 4 lies at 80.
        let sketch = HistogramSketch { width: 1.0, counts: vec![7, 0, 0, 7] };
        let svg = histogram(&sketch, 2.0).into_string();
        assert!(svg.contains(r#"d="M0 32V2h40V32h40V32h40V2h40V32z""#), "{svg}");
        assert!(svg.contains(r#"x1="80""#), "{svg}");
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert!(bar(0.25, "cost").into_string().contains(r#"width="40""#));
        assert!(!bar(0.0, "cost").into_string().contains("filled"));
        for full in [1.0, 7.0, f64::INFINITY, f64::NAN] {
            assert_eq!(bar(full, "cost").into_string().matches(r#"width="160""#).count(), 2);
        }
    }

    #[test]
    fn nothing_to_draw_is_no_error() {
        assert!(histogram(&HistogramSketch::default(), f32::NAN).into_string().contains("svg"));
        assert!(lengths(&[], &[]).into_string().contains("svg"));
    }
}
