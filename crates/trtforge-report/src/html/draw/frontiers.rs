//! Accuracy against what it costs: a point for every engine, the frontier as a line.

use std::collections::BTreeMap;

use maud::{Markup, html};
use plotters::prelude::{ChartBuilder, Circle, Color, PathElement, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::plot::{ACCENT, Frame, LINE, PAGE, SOFT, draw, label};
use super::{CHART_TEXT, CHART_WIDTH, Scale};
use crate::compare::{Comparison, Engine, on_frontier};
use crate::words;

/// Units down.
const HEIGHT: u32 = 300;
/// Fewer points than this are read faster in the table.
const FEWEST: usize = 3;

/// One engine in a chart.
#[derive(Debug, Clone, PartialEq)]
struct Point {
    /// Line of the table.
    number: usize,
    cost: f64,
    value: f64,
    interval: [f64; 2],
    best: bool,
    name: String,
}

/// A chart of accuracy against size, and one against latency where that was measured.
pub fn frontiers(comparison: &Comparison) -> Markup {
    let metric = comparison.metric.as_deref().map_or_else(String::new, words::name);
    let plans = comparison.engines.iter().any(|one| one.plan_bytes.is_some());
    let size = points(&comparison.engines, |one| {
        let bytes = if plans { one.plan_bytes } else { one.onnx_bytes };
        bytes.map(|bytes| bytes as f64 / 1e6)
    });
    let latency = points(&comparison.engines, |one| one.latency.as_ref().map(|found| found.p50_ms));
    let of = if plans { "engine" } else { "ONNX file" };
    let size_title = format!("{} against size of the {of}, MB", words::capital(&metric));
    let latency_title = format!("{} against median latency, ms", words::capital(&metric));
    let charts: Vec<Markup> = [(size, size_title), (latency, latency_title)]
        .into_iter()
        .filter(|(points, _)| points.len() >= FEWEST)
        .map(|(points, title)| chart(&points, &title))
        .collect();
    html! { @if !charts.is_empty() { div.frontiers { @for chart in charts { (chart) } } } }
}

fn points(engines: &[Engine], cost: impl Fn(&Engine) -> Option<f64>) -> Vec<Point> {
    let mut points: Vec<Point> = engines
        .iter()
        .enumerate()
        .filter(|(_, one)| one.same_rows)
        .filter_map(|(index, one)| {
            let found = one.evaluation.as_ref()?;
            let point = Point {
                number: index + 1,
                cost: cost(one)?,
                value: found.value,
                interval: found.interval,
                best: false,
                name: format!("{} {}", words::name(&one.run), one.precision.name()),
            };
            (point.cost.is_finite() && point.value.is_finite()).then_some(point)
        })
        .collect();
    let places: Vec<_> = points.iter().map(|one| Some([one.value, one.cost])).collect();
    for (point, best) in points.iter_mut().zip(on_frontier(&places)) {
        point.best = best;
    }
    points
}

fn chart(points: &[Point], title: &str) -> Markup {
    let range = |values: &mut dyn Iterator<Item = f64>| {
        Scale::around(values).unwrap_or(Scale { low: 0.0, high: 1.0 })
    };
    let costs = range(&mut points.iter().map(|one| one.cost));
    let values =
        range(&mut points.iter().flat_map(|one| [one.value, one.interval[0], one.interval[1]]));
    let text = description(points);
    let frame = Frame {
        class: "chart",
        size: (CHART_WIDTH, HEIGHT),
        title: Some(title),
        description: Some(&text),
    };
    let drawing = draw(frame, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_right(48)
            .margin_top(10)
            .x_label_area_size(26)
            .y_label_area_size(60)
            .build_cartesian_2d(costs.low..costs.high, values.low..values.high)?;
        chart
            .configure_mesh()
            .light_line_style(LINE.mix(0.0))
            .bold_line_style(LINE)
            .axis_style(SOFT)
            .label_style(label(CHART_TEXT))
            .x_labels(7)
            .y_labels(6)
            .x_label_formatter(&|cost| words::magnitude(*cost as f32))
            .y_label_formatter(&|value| words::figure(*value))
            .draw()?;
        let mut frontier: Vec<(f64, f64)> =
            points.iter().filter(|one| one.best).map(|one| (one.cost, one.value)).collect();
        frontier.sort_by(|a, b| a.0.total_cmp(&b.0));
        // A step: up to the next engine, nothing more accurate can be had.
        let steps: Vec<(f64, f64)> = frontier
            .windows(2)
            .flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)])
            .chain(frontier.last().copied())
            .collect();
        chart.draw_series([PathElement::new(steps, ACCENT.mix(0.65))])?;
        let finite = |one: &&Point| one.interval.iter().all(|end| end.is_finite());
        chart.draw_series(points.iter().filter(finite).map(|one| {
            let ends = vec![(one.cost, one.interval[0]), (one.cost, one.interval[1])];
            PathElement::new(ends, SOFT.mix(0.65))
        }))?;
        chart.draw_series(
            points.iter().map(|one| Circle::new((one.cost, one.value), 8, PAGE.filled())),
        )?;
        chart.draw_series(points.iter().map(|one| {
            let color = if one.best { ACCENT } else { SOFT };
            Circle::new((one.cost, one.value), 6, color.filled())
        }))?;
        // Engines at the same place share a label.
        let mut labels: BTreeMap<(i32, i32), Vec<String>> = BTreeMap::new();
        for one in points {
            let place = chart.backend_coord(&(one.cost, one.value));
            labels.entry(place).or_default().push(one.number.to_string());
        }
        for ((x, y), numbers) in labels {
            let style = label(CHART_TEXT).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(numbers.join(", "), (x + 10, y), style))?;
        }
        Ok(())
    });
    html! { figure {
        figcaption { (title) }
        (drawing)
        p.legend {
            "Numbers are the lines of the table; a stroke is the confidence interval. The line joins what no other engine beats: "
            (words::list(&points.iter().filter(|one| one.best).map(|one| format!("{} ({})", one.number, one.name)).collect::<Vec<_>>())) "."
        }
    } }
}

fn description(points: &[Point]) -> String {
    let best: Vec<String> =
        points.iter().filter(|one| one.best).map(|one| one.name.clone()).collect();
    format!(
        "{}; on the frontier: {}.",
        words::counted(points.len() as u64, "engine"),
        words::list(&best)
    )
}
