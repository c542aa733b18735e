//! A benchmark as a table, for terminals.

use std::fmt::Write as _;

use crate::record::{Benchmark, BenchmarkResult, DeviceState, Place, Speedup, Spread};

const HEAD: [&str; 11] = [
    "precision",
    "shape",
    "graph",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "in ms",
    "compute ms",
    "out ms",
    "enqueue ms",
    "rows/s",
];

/// Plain text: the device, one line per result, the speed-ups, and what to know of them.
pub fn render_benchmark(found: &Benchmark) -> String {
    let mut text = format!("{}\n\n", headline(found));
    let rows: Vec<[String; 11]> = found.results.iter().map(cells).collect();
    let mut widths = HEAD.map(|head| head.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&HEAD.map(str::to_owned)).chain(&rows) {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(
                |(at, (cell, width))| {
                    if at < 3 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    if !found.speedups.is_empty() {
        text.push('\n');
    }
    for speedup in &found.speedups {
        let _ = writeln!(text, "{}", speedup_line(speedup));
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Where and how.
fn headline(found: &Benchmark) -> String {
    let device = &found.device;
    let part = |name: &str, value: &Option<String>| {
        value.as_ref().map_or_else(String::new, |value| format!(", {name} {value}"))
    };
    let place = match found.measured_on {
        Place::Device => "Measured on",
        Place::Reference => "Reference, no device measured:",
    };
    let settings = &found.settings;
    let clocks = |state: &Option<DeviceState>| {
        let state = state.as_ref()?;
        Some(format!("{} MHz {} °C", state.sm_clock_mhz?, state.temperature_c?))
    };
    let clocks = match (clocks(&found.before), clocks(&found.after)) {
        (Some(before), Some(after)) => format!("; {before} before, {after} after"),
        _ => String::new(),
    };
    format!(
        "{place} {}{}{}{}{}: {} ms each in {} rounds by turns, after {} ms to warm up; token ids of {}{clocks}",
        device.name,
        part("compute capability", &device.compute_capability),
        part("driver", &device.driver),
        part("CUDA", &device.cuda),
        device.library.as_ref().map_or_else(String::new, |library| format!(", {library}")),
        settings.duration_ms,
        settings.rounds,
        settings.warmup_ms,
        settings.rows_from,
    )
}

fn cells(one: &BenchmarkResult) -> [String; 11] {
    let ms = |value: f64| format!("{value:.3}");
    let median = |spread: &Option<Spread>| spread.map_or_else(|| "-".to_owned(), |s| ms(s.p50));
    [
        one.precision.name().to_owned(),
        format!("{} x {}", one.shape.batch, one.shape.length),
        if one.cuda_graph { "yes" } else { "no" }.to_owned(),
        ms(one.total.p50),
        ms(one.total.p95),
        ms(one.total.p99),
        median(&one.copy_in),
        median(&one.compute),
        median(&one.copy_out),
        median(&one.enqueue),
        format!("{:.1}", one.rows_per_s),
    ]
}

fn speedup_line(one: &Speedup) -> String {
    let sure = format!("{} %", (one.confidence * 1e6).round() / 1e4);
    let bounds = match one.interval {
        Some([low, high]) => {
            format!("at least {low:.3} and at most {high:.3}, each with {sure} confidence")
        }
        None => format!("too few rounds for bounds of {sure} confidence"),
    };
    format!(
        "{} is {:.3} times as fast as {} at {} x {}{} ({bounds}; {} rounds)",
        one.precision.name(),
        one.ratio,
        one.over.name(),
        one.shape.batch,
        one.shape.length,
        if one.cuda_graph { " with CUDA graphs" } else { "" },
        one.rounds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{BenchmarkDevice, BenchmarkSettings, BenchmarkShape, Precision};

    fn benchmark() -> Benchmark {
        let spread = |p50: f64| Spread {
            mean: p50,
            p50,
            p90: p50,
            p95: p50 * 2.0,
            p99: p50 * 3.0,
            max: p50 * 3.0,
        };
        let result = BenchmarkResult {
            precision: Precision::Int8,
            artifact: None,
            profile: 1,
            shape: BenchmarkShape { batch: 32, length: 128 },
            real_tokens: 864,
            cuda_graph: true,
            iterations: 400,
            total: spread(2.0),
            enqueue: None,
            copy_in: Some(spread(0.1)),
            compute: Some(spread(1.5)),
            copy_out: Some(spread(0.05)),
            rows_per_s: 16_000.0,
            tokens_per_s: 432_000.0,
        };
        Benchmark {
            measured_on: Place::Device,
            device: BenchmarkDevice {
                name: "Some GPU".into(),
                compute_capability: Some("9.0".into()),
                ..BenchmarkDevice::default()
            },
            settings: BenchmarkSettings {
                warmup_ms: 200,
                duration_ms: 1000,
                max_iterations: 10_000,
                rounds: 10,
                rows_from: "test.jsonl".into(),
            },
            results: vec![result],
            speedups: vec![Speedup {
                precision: Precision::Int8,
                over: Precision::Fp16,
                shape: BenchmarkShape { batch: 32, length: 128 },
                cuda_graph: true,
                ratio: 1.5,
                interval: Some([1.4, 1.6]),
                confidence: 0.95,
                rounds: 10,
            }],
            before: None,
            after: None,
            notes: vec!["a doubt".into()],
        }
    }

    #[test]
    fn every_figure_is_in_its_column() {
        let text = render_benchmark(&benchmark());
        let line = text.lines().find(|line| line.starts_with("INT8 ")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "INT8", "32", "x", "128", "yes", "2.000", "4.000", "6.000", "0.100", "1.500",
                "0.050", "-", "16000.0"
            ]
        );
        assert!(
            text.starts_with(
                "Measured on Some GPU, compute capability 9.0: 1000 ms each in 10 rounds"
            ),
            "{text}"
        );
        assert!(text.contains("INT8 is 1.500 times as fast as FP16 at 32 x 128 with CUDA graphs (at least 1.400 and at most 1.600, each with 95 % confidence; 10 rounds)"), "{text}");
        assert!(text.ends_with("note: a doubt\n"));
    }

    #[test]
    fn a_reference_says_so_first() {
        let reference = Benchmark { measured_on: Place::Reference, ..benchmark() };
        assert!(
            render_benchmark(&reference).starts_with("Reference, no device measured: Some GPU")
        );
    }
}
