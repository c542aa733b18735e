//! Latency and throughput by shape and precision.

use std::fmt::Write as _;

use super::{plain, row, rule};
use crate::{RunRecord, words};

pub fn section(record: &RunRecord, text: &mut String) {
    let Some(found) = &record.benchmark else { return };
    let place = words::place(found.measured_on);
    let _ = writeln!(text, "\n## Speed\n\n{}\n", plain(&words::benchmark(found)));
    let columns = [
        "batch × tokens",
        "precision",
        "p50",
        "p95, p99",
        "rows/s",
        "real tokens/s",
        "runs",
        "measured on",
    ];
    row(text, &columns.map(str::to_owned));
    rule(text, columns.len());
    for one in &found.results {
        let graph = if one.cuda_graph { ", CUDA graph" } else { "" };
        row(
            text,
            &[
                format!("{} × {}", one.shape.batch, one.shape.length),
                format!("{}{graph}", one.precision.name()),
                format!("{:.3} ms", one.total.p50),
                format!("{:.3}, {:.3} ms", one.total.p95, one.total.p99),
                format!("{:.1}", one.rows_per_s),
                format!("{:.0}", one.tokens_per_s),
                words::count(one.iterations),
                place.to_owned(),
            ],
        );
    }
    for one in &found.speedups {
        let interval = one.interval.map_or_else(
            || "too few rounds for an interval".to_owned(),
            |[low, high]| {
                format!("{low:.2} to {high:.2}, {} each end", words::confidence(one.confidence))
            },
        );
        let _ = writeln!(
            text,
            "\n{} × {}: {} is {:.2}× as fast as {} ({interval}).",
            one.shape.batch,
            one.shape.length,
            one.precision.name(),
            one.ratio,
            one.over.name()
        );
    }
    for note in &found.notes {
        let _ = writeln!(text, "\n{}", plain(&words::sentence(note)));
    }
}
