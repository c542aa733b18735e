//! What the threads of a service did, moment by moment.

use maud::Markup;
use plotters::prelude::{ChartBuilder, Color, RGBColor, Rectangle};

use super::super::plot::{ACCENT, FULL, Frame, GOOD, SOFT, UNSURE, draw, label};
use super::{CHART_TEXT, CHART_WIDTH};
use crate::diagnosis::Span;

/// Stages by their name in the record, with their colour and their words.
pub const STAGES: [(&str, RGBColor, &str); 4] = [
    ("tokenize", UNSURE, "tokenization"),
    ("collate", FULL, "collation"),
    ("device", GOOD, "device"),
    ("post_process", ACCENT, "post-processing"),
];

/// Units of one thread's line.
const LANE: u32 = 22;
/// Units of the time axis.
const AXIS: u32 = 26;
/// Threads that are drawn.
const LANES: usize = 24;

/// One line a thread, one bar a span.
pub fn timeline(spans: &[Span], length_us: f64, what: &str) -> Markup {
    let lanes = spans.iter().map(|span| span.lane + 1).max().unwrap_or(1).min(LANES);
    let length_ms = if length_us.is_finite() && length_us > 0.0 { length_us / 1e3 } else { 1.0 };
    let title = format!("Timeline of the {what}, {length_ms:.1} ms");
    let size = (CHART_WIDTH, LANE * lanes as u32 + AXIS);
    let frame = Frame {
        class: "chart",
        size,
        title: Some(&title),
        description: Some(&description(spans, length_us)),
    };
    draw(frame, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_right(24)
            .margin_left(20)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(0.0..length_ms, lanes as f64..0.0)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(SOFT)
            .label_style(label(CHART_TEXT))
            .x_labels(7)
            .x_label_formatter(&|ms| format!("{} ms", (ms * 1e3).round() / 1e3))
            .draw()?;
        for (stage, color, _) in STAGES {
            let spans = spans.iter().filter(|span| span.stage == stage && span.lane < lanes);
            chart.draw_series(spans.map(|span| {
                let ms = |us: f64| (us / 1e3).clamp(0.0, length_ms);
                let y = span.lane as f64;
                Rectangle::new(
                    [(ms(span.start_us), y + 0.15), (ms(span.end_us), y + 0.85)],
                    color.filled(),
                )
            }))?;
        }
        Ok(())
    })
}

/// How much of the time each stage takes on the thread that drives the device.
fn description(spans: &[Span], length_us: f64) -> String {
    let share = |stage: &str| {
        let busy: f64 = spans
            .iter()
            .filter(|span| span.stage == stage && span.lane == 0)
            .map(|span| span.end_us - span.start_us)
            .sum();
        crate::words::share(busy / length_us)
    };
    let parts: Vec<String> = STAGES
        .iter()
        .filter(|(stage, ..)| spans.iter().any(|span| span.stage == *stage && span.lane == 0))
        .map(|(stage, _, words)| format!("{words} {}", share(stage)))
        .collect();
    format!("Time of the thread that drives the device: {}.", crate::words::list(&parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(lane: usize, stage: &str, start_us: f64, end_us: f64) -> Span {
        Span { lane, stage: stage.into(), start_us, end_us }
    }

    #[test]
    fn spans_are_drawn_where_they_happened() {
        let spans = [span(0, "tokenize", 0.0, 18_000.0), span(0, "device", 18_000.0, 24_000.0)];
        let svg = timeline(&spans, 24_000.0, "blocking loop").into_string();
        // By hand: 716 units (760 - 20 - 24) for 24 ms: 18 ms are 537, 6 ms are 179 (less the unit that rounding
        // of both ends takes).
        let width = |color: &str| {
            let (before, _) = svg.split_once(&format!("fill=\"#{color}\"")).unwrap();
            let (_, width) = before.rsplit_once("width=\"").unwrap();
            width.split('"').next().unwrap().parse::<f64>().unwrap()
        };
        assert!((width("855800") - 537.0).abs() <= 1.0, "{svg}");
        assert!((width("23704A") - 179.0).abs() <= 1.0, "{svg}");
        assert!(svg.contains("tokenization 75.0 % and device 25.0 %."), "{svg}");
        assert!(svg.contains("<title>Timeline of the blocking loop, 24.0 ms</title>"), "{svg}");
    }

    #[test]
    fn hostile_figures_are_no_error() {
        for length in [0.0, f64::NAN, f64::INFINITY, -1.0] {
            let spans = [span(usize::MAX - 1, "device", f64::NAN, 1e300)];
            assert!(timeline(&spans, length, "x").into_string().contains("</svg>"));
        }
    }
}
