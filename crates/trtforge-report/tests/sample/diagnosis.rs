//! The diagnosis of a made-up service.

use serde_json::{Value, json};

/// As `trtforge diagnose --record` puts it into a record.
pub fn diagnosis() -> Value {
    let figures = |rows_per_s: f64, utilization: f64, padding: f64, gain: f64| {
        json!({
            "rows_per_s": rows_per_s, "latency_p50_ms": 24_000.0 / rows_per_s, "latency_p95_ms": 26_000.0 / rows_per_s,
            "utilization": utilization, "padding_share": padding, "gain": gain
        })
    };
    let span = |lane: usize, stage: &str, start_ms: f64, end_ms: f64| json!({ "lane": lane, "stage": stage, "start_us": start_ms * 1e3, "end_us": end_ms * 1e3 });
    let blocking = (0..4).flat_map(|batch| {
        let at = f64::from(batch) * 24.0;
        [
            span(0, "tokenize", at, at + 14.0),
            span(0, "collate", at + 14.0, at + 15.5),
            span(0, "device", at + 15.5, at + 22.0),
            span(0, "post_process", at + 22.0, at + 24.0),
        ]
    });
    let overlapped = (0..10).flat_map(|batch| {
        let at = f64::from(batch) * 7.0;
        [
            span(1 + batch as usize % 3, "tokenize", at, at + 14.0),
            span(0, "device", at + 15.5, at + 22.0),
        ]
    });
    json!({
        "device": { "name": "embedded CPU executor", "evaluated_on": "reference" },
        "traffic": { "rows": 512, "batch_rows": 32, "max_length": 128 },
        "experiment": { "device_only_ms": 6.5, "end_to_end_ms": 24.0, "host_share": 0.729 },
        "model": {
            "blocking_predicted": 0.27, "blocking_measured": 0.26, "workers_used": 3,
            "overlapped_predicted": 0.98, "overlapped_measured": 0.93
        },
        "ladder": [
            { "name": "blocking, padded to max", "measured": figures(1_333.0, 0.26, 0.79, 1.0), "not_run": null },
            { "name": "+ overlapped host", "measured": figures(4_571.0, 0.93, 0.79, 3.43), "not_run": null },
            { "name": "+ FP16 engine", "measured": null, "not_run": "there is no GPU here" }
        ],
        "causes": [{
            "title": "the device waits for the tokenizer", "share": 0.583, "evidence": ["14 of 24 ms a batch"],
            "fixes": [{ "what": "prepare batches ahead, on three workers", "cost": "free_and_safe" }], "gain": { "times": 3.43 }
        }],
        "timelines": { "length_us": 96_000.0, "blocking": blocking.collect::<Vec<_>>(), "overlapped": overlapped.collect::<Vec<_>>() },
        "not_measured": [{ "what": "SM activity", "reason": "there is no GPU here" }],
        "notes": ["16 batches are few"]
    })
}
