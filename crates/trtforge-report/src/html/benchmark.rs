//! Latency and throughput by shape and precision. Every figure says what it was measured on.

use maud::{Markup, html};

use super::draw::bar;
use super::{absent, typeset};
use crate::{
    Benchmark, BenchmarkResult, BenchmarkShape, DeviceState, Place, RunRecord, Speedup, Spread,
    words,
};

pub fn section(record: &RunRecord) -> Option<Markup> {
    let found = record.benchmark.as_ref()?;
    Some(html! {
        p { (typeset(&words::benchmark(found))) }
        @if found.measured_on == Place::Reference {
            p.unsure { "Measured on the reference executor, on the CPU: these figures say nothing about a GPU." }
        }
        (results(found))
        @if !found.speedups.is_empty() { (speedups(found)) }
        @if let (Some(before), Some(after)) = (&found.before, &found.after) { (states(before, after)) }
        @for note in &found.notes { p.legend { (typeset(&words::sentence(note))) } }
    })
}

fn results(found: &Benchmark) -> Markup {
    let rates = found.results.iter().map(|one| one.tokens_per_s).filter(|rate| rate.is_finite());
    let most = rates.fold(f64::MIN_POSITIVE, f64::max);
    let apart = found.results.iter().any(|one| one.compute.is_some());
    html! {
        table.stack {
            caption { "Latency from the first copy until the outputs are on the host, and throughput, on the " (words::place(found.measured_on)) }
            thead { tr {
                th scope="col" { "Batch × tokens" }
                th scope="col" { "Precision" }
                th.n scope="col" { "p50" }
                th.n scope="col" { "p95, p99" }
                @if apart { th.n scope="col" { "In, compute, out (p50)" } }
                th.n scope="col" { "Rows/s" }
                th.n scope="col" { "Real tokens/s" }
                th scope="col" aria-hidden="true" { }
                th.n scope="col" { "Runs" }
                th scope="col" { "Measured on" }
            } }
            tbody { @for shape in found.shapes() {
                @for one in found.results.iter().filter(|one| one.shape == shape) {
                    (result(one, apart, most, found.measured_on))
                }
            } }
        }
    }
}

fn shape(shape: BenchmarkShape) -> String {
    format!("{} × {}", shape.batch, shape.length)
}

fn result(one: &BenchmarkResult, apart: bool, most: f64, place: Place) -> Markup {
    let median = |spread: Option<Spread>| {
        spread.map_or_else(|| "–".to_owned(), |found| format!("{:.3}", found.p50))
    };
    html! { tr {
        th scope="row" { (shape(one.shape)) }
        td data-label="Precision" {
            (one.precision.name())
            @if one.cuda_graph { br; small { "CUDA graph" } }
        }
        td.n.lead data-label="p50" { (milliseconds(one.total.p50)) }
        td.n data-label="p95, p99" { (format!("{:.3}, {:.3} ms", one.total.p95, one.total.p99)) }
        @if apart {
            td.n data-label="In, compute, out (p50)" {
                (median(one.copy_in)) ", " (median(one.compute)) ", " (median(one.copy_out)) " ms"
            }
        }
        td.n data-label="Rows/s" { (format!("{:.1}", one.rows_per_s)) }
        td.n data-label="Real tokens/s" { (format!("{:.0}", one.tokens_per_s)) }
        td.drawn { (bar(one.tokens_per_s / most, "share")) }
        td.n data-label="Runs" { (words::count(one.iterations)) }
        td data-label="Measured on" { (words::place(place)) }
    } }
}

fn milliseconds(value: f64) -> String {
    if value.is_finite() { format!("{value:.3} ms") } else { words::figure(value) }
}

fn speedups(found: &Benchmark) -> Markup {
    html! {
        table.stack {
            caption { "How many times as fast, by medians of turns that were run side by side" }
            thead { tr {
                th scope="col" { "Batch × tokens" }
                th scope="col" { "Precision" }
                th scope="col" { "Against" }
                th.n scope="col" { "Times as fast" }
                th scope="col" { "Interval" }
                th.n scope="col" { "Rounds" }
            } }
            tbody { @for one in &found.speedups { (speedup(one)) } }
        }
    }
}

fn speedup(one: &Speedup) -> Markup {
    html! { tr {
        th scope="row" { (shape(one.shape)) }
        td data-label="Precision" { (one.precision.name()) @if one.cuda_graph { " " small { "CUDA graph" } } }
        td data-label="Against" { (one.over.name()) }
        td.n.lead data-label="Times as fast" { (format!("{:.2}×", one.ratio)) }
        td data-label="Interval" {
            @match one.interval {
                Some([low, high]) => {
                    (format!("{low:.2} to {high:.2}")) " " small { (words::confidence(one.confidence)) " each end" }
                    @if low <= 1.0 && high >= 1.0 { br; small.unsure { "within noise" } }
                }
                None => { (absent()) " " small { "too few rounds" } }
            }
        }
        td.n data-label="Rounds" { (words::count(one.rounds)) }
    } }
}

fn states(before: &DeviceState, after: &DeviceState) -> Markup {
    let number =
        |value: Option<u32>| value.map_or_else(|| "–".to_owned(), |value| value.to_string());
    let power = |state: &DeviceState| {
        state.power_w.map_or_else(|| "–".to_owned(), |watts| format!("{watts:.0}"))
    };
    let rows = [
        (
            "Clock of the multiprocessors, MHz",
            number(before.sm_clock_mhz),
            number(after.sm_clock_mhz),
        ),
        (
            "Clock of the memory, MHz",
            number(before.memory_clock_mhz),
            number(after.memory_clock_mhz),
        ),
        ("Temperature, °C", number(before.temperature_c), number(after.temperature_c)),
        ("Power, W", power(before), power(after)),
        ("Clocks held down by", reasons(before), reasons(after)),
        ("Other processes", number(before.other_processes), number(after.other_processes)),
    ];
    html! {
        details {
            summary { "The device before and after" }
            table.stack {
                thead { tr { th scope="col" { "What" } th scope="col" { "Before" } th scope="col" { "After" } } }
                tbody { @for (what, before, after) in rows { tr {
                    th scope="row" { (what) }
                    td data-label="Before" { (before) }
                    td data-label="After" { (after) }
                } } }
            }
        }
    }
}

fn reasons(state: &DeviceState) -> String {
    if state.throttle_reasons.is_empty() {
        return "nothing".to_owned();
    }
    words::name(&state.throttle_reasons.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BenchmarkDevice, BenchmarkSettings, Precision};

    fn benchmark(measured_on: Place) -> Benchmark {
        let spread = |p50: f64| Spread {
            mean: p50,
            p50,
            p90: p50,
            p95: p50 * 1.1,
            p99: p50 * 1.2,
            max: p50 * 2.0,
        };
        let shape = BenchmarkShape { batch: 32, length: 64 };
        let result = |precision, p50: f64, compute| BenchmarkResult {
            precision,
            artifact: None,
            profile: 0,
            shape,
            real_tokens: 1_280,
            cuda_graph: false,
            iterations: 200,
            total: spread(p50),
            enqueue: None,
            copy_in: None,
            compute,
            copy_out: None,
            rows_per_s: 32_000.0 / p50,
            tokens_per_s: 1_280_000.0 / p50,
        };
        Benchmark {
            measured_on,
            device: BenchmarkDevice { name: "<a device>".into(), ..BenchmarkDevice::default() },
            settings: BenchmarkSettings {
                warmup_ms: 500,
                duration_ms: 2_000,
                rounds: 10,
                ..BenchmarkSettings::default()
            },
            results: vec![
                result(Precision::Fp16, 4.0, None),
                result(Precision::Int8, 2.0, Some(spread(1.5))),
            ],
            speedups: vec![Speedup {
                precision: Precision::Int8,
                over: Precision::Fp16,
                shape,
                cuda_graph: false,
                ratio: 2.0,
                interval: Some([0.95, 2.1]),
                confidence: 0.95,
                rounds: 10,
            }],
            before: Some(DeviceState::default()),
            after: Some(DeviceState {
                throttle_reasons: vec!["power cap".into()],
                ..DeviceState::default()
            }),
            notes: vec!["clocks moved".into()],
        }
    }

    #[test]
    fn every_figure_says_what_it_was_measured_on() {
        let mut record = RunRecord::default();
        assert!(section(&record).is_none());
        record.benchmark = Some(benchmark(Place::Device));
        let html = section(&record).unwrap().into_string();
        assert_eq!(html.matches(r#"data-label="Measured on">device<"#).count(), 2, "{html}");
        assert!(!html.contains("says nothing") && !html.contains("say nothing"), "{html}");
        for part in [
            "&lt;a device&gt;",
            "4.000 ms",
            "2.200, 2.400 ms",
            "–, 1.500, – ms",
            "2.00×",
            "within noise",
            "power cap",
            "Clocks moved.",
        ] {
            assert!(html.contains(part), "`{part}` is not in {html}");
        }
        record.benchmark = Some(benchmark(Place::Reference));
        let html = section(&record).unwrap().into_string();
        assert!(html.contains("these figures say nothing about a GPU"), "{html}");
        assert_eq!(html.matches(r#"data-label="Measured on">reference<"#).count(), 2, "{html}");
        let markdown = crate::render_markdown(&record);
        assert!(markdown.contains("| 32 × 64 | INT8 | 2.000 ms | 2.200, 2.400 ms | 16000.0 | 640000 | 200 | reference |"), "{markdown}");
    }
}
