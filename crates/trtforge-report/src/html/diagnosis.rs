//! Where a service's time goes: the two loops drawn from their measured spans, the ladder, and the causes.

use maud::{Markup, html};

use super::draw::{STAGES, bar, timeline};
use super::{absent, typeset};
use crate::diagnosis::{Cause, Diagnosis, Rung};
use crate::{RunRecord, words};

/// Nothing for a run without a diagnosis, or with one of a layout that this version does not know.
pub fn section(record: &RunRecord) -> Option<Markup> {
    let found = Diagnosis::of(record)?;
    Some(html! {
        p {
            (words::counted(found.traffic.rows, "request")) " in batches of " (found.traffic.batch_rows) ", padded to "
            (found.traffic.max_length) " tokens, on the " (words::name(&found.device.name)) " (" (words::name(&found.device.evaluated_on)) ")."
        }
        @if let Some(words) = found.experiment_words() { p { (typeset(&words)) } }
        (timelines(&found))
        (ladder(&found.ladder))
        (causes(&found.causes))
        @if !found.not_measured.is_empty() {
            p.legend {
                "Not measured: "
                @for (index, one) in found.not_measured.iter().enumerate() {
                    @if index > 0 { "; " } (words::one_line(&one.what)) " (" (words::one_line(&one.reason)) ")"
                }
                "."
            }
        }
        @for note in &found.notes { p.legend { (typeset(&words::sentence(note))) } }
    })
}

fn timelines(found: &Diagnosis) -> Markup {
    let busy = |measured: f64, predicted: f64| {
        format!(
            "device busy {}, the model says {}",
            words::share(measured),
            words::share(predicted)
        )
    };
    let (model, drawn) = (&found.model, &found.timelines);
    html! {
        figure.timeline {
            figcaption { b { "Blocking" } ": " (busy(model.blocking_measured, model.blocking_predicted)) }
            (timeline(&drawn.blocking, drawn.length_us, "blocking loop"))
            figcaption { b { "Overlapped" } ", " (words::counted(model.workers_used, "worker")) ": " (busy(model.overlapped_measured, model.overlapped_predicted)) }
            (timeline(&drawn.overlapped, drawn.length_us, "overlapped loop"))
            p.legend {
                @for (class, _, what) in STAGES { span.entry { span.key.(class) { } " " (what) } " " }
                "The upper line of each is the thread that drives the device."
            }
        }
    }
}

fn ladder(rungs: &[Rung]) -> Markup {
    let rates = rungs.iter().filter_map(|rung| rung.measured.as_ref()).map(|one| one.rows_per_s);
    let most = rates.filter(|rate| rate.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
    html! {
        table.stack {
            caption { "The same requests with one thing more at each step" }
            thead { tr {
                th scope="col" { "Step" }
                th.n scope="col" { "Rows/s" }
                th scope="col" aria-hidden="true" { }
                th.n scope="col" { "Latency p50, p95" }
                th.n scope="col" { "Device busy" }
                th.n scope="col" { "Padding" }
                th.n scope="col" { "Gain" }
            } }
            tbody { @for rung in rungs { tr {
                th scope="row" { (words::name(&rung.name)) }
                @match &rung.measured {
                    Some(figures) => {
                        td.n data-label="Rows/s" { (format!("{:.1}", figures.rows_per_s)) }
                        td.drawn { (bar(figures.rows_per_s / most, "share")) }
                        td.n data-label="Latency p50, p95" { (format!("{:.1}, {:.1} ms", figures.latency_p50_ms, figures.latency_p95_ms)) }
                        td.n data-label="Device busy" { (words::share(figures.utilization)) }
                        td.n data-label="Padding" { (words::share(figures.padding_share)) }
                        td.n data-label="Gain" { (format!("{:.2}×", figures.gain)) }
                    }
                    None => {
                        td.wide colspan="6" data-label="Not run" {
                            "not run: " @match &rung.not_run { Some(reason) => { (typeset(reason)) } None => { (absent()) } }
                        }
                    }
                }
            } } }
        }
    }
}

fn causes(causes: &[Cause]) -> Markup {
    html! {
        @if causes.is_empty() {
            p { "Nothing but the device's own work takes a hundredth of the time." }
        } @else {
            table.stack {
                caption { "What costs time, most first" }
                thead { tr {
                    th scope="col" { "Cause" }
                    th.n scope="col" { "Time lost" }
                    th scope="col" { "Evidence" }
                    th scope="col" { "What to do" }
                    th.n scope="col" { "At most" }
                } }
                tbody { @for cause in causes { tr {
                    th scope="row" { (typeset(&cause.title)) }
                    td.n data-label="Time lost" { (words::share(cause.share)) }
                    td.wide data-label="Evidence" { @for line in &cause.evidence { div { (typeset(line)) } } }
                    td.wide data-label="What to do" { @for fix in &cause.fixes { div { (typeset(&fix.what)) " " span.tag { (fix.cost.replace('_', " ")) } } } }
                    td.n data-label="At most" { (format!("{:.2}×", cause.gain.times)) }
                } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Machine, Tool};

    fn record() -> RunRecord {
        let figures = json!({
            "rows_per_s": 40.0, "latency_p50_ms": 24.0, "latency_p95_ms": 25.5, "utilization": 0.25,
            "padding_share": 0.79, "gain": 1.0
        });
        let span = |lane: usize, stage: &str, start: f64, end: f64| json!({ "lane": lane, "stage": stage, "start_us": start, "end_us": end });
        let mut record = RunRecord::new("demo", Tool::default(), Machine::default());
        record.diagnosis = Some(json!({
            "device": { "name": "embedded CPU executor", "evaluated_on": "reference" },
            "traffic": { "rows": 1, "batch_rows": 1, "max_length": 128 },
            "model": {
                "blocking_predicted": 0.25, "blocking_measured": 0.24, "workers_used": 3,
                "overlapped_predicted": 1.0, "overlapped_measured": 0.97
            },
            "ladder": [
                { "name": "blocking, padded to max", "measured": figures, "not_run": null },
                { "name": "+ FP16 engine", "measured": null, "not_run": "there is no GPU <here>" }
            ],
            "causes": [{
                "title": "the device waits for the tokenizer", "share": 0.75, "evidence": ["18 of 24 ms"],
                "fixes": [{ "what": "prepare ahead", "cost": "free_and_safe" }], "gain": { "times": 4.0 }
            }],
            "timelines": {
                "length_us": 24_000.0,
                "blocking": [span(0, "tokenize", 0.0, 18_000.0), span(0, "device", 18_000.0, 24_000.0)],
                "overlapped": [span(1, "tokenize", 0.0, 18_000.0)]
            },
            "notes": ["a note"]
        }));
        record
    }

    #[test]
    fn timelines_are_drawn_from_the_spans() {
        let html = section(&record()).unwrap().into_string();
        assert_eq!(html.matches("<title>Timeline of the").count(), 2, "{html}");
        assert!(html.contains("tokenization 75.0 % and device 25.0 %."), "{html}");
        for words in [
            "device busy 24.0 %",
            "not run: there is no GPU &lt;here&gt;",
            "4.00×",
            "free and safe",
        ] {
            assert!(html.contains(words), "`{words}` is not in {html}");
        }
    }

    #[test]
    fn other_layouts_and_none_show_nothing() {
        assert!(section(&RunRecord::default()).is_none());
        let mut record = record();
        record.diagnosis = Some(json!({ "schema": 99 }));
        assert!(section(&record).is_none());
    }
}
