//! `trtforge diagnose` with the real binary: traces of every kind, and a profile's service.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value as Json, json};
use support::{Ran, Workspace, repository, trtforge};

/// Spans on a device that overlap, touch and leave gaps: `(category, stream, start, length)` in microseconds.
const WORK: [(&str, u64, u64, u64); 6] = [
    ("kernel", 7, 1_000, 400),
    ("kernel", 13, 1_200, 500),
    ("gpu_memcpy", 7, 1_700, 100),
    ("kernel", 7, 5_000, 250),
    ("gpu_memset", 7, 5_100, 20),
    ("gpu_memcpy", 13, 5_240, 60),
];

fn event(category: &str, name: &str, start: u64, length: u64, arguments: &Json) -> Json {
    json!({ "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length, "args": arguments })
}

/// A trace with the device work above, its calls, and 3 ms of tokenizer before the second burst.
fn trace(device: bool) -> Json {
    let mut events = vec![
        event("user_annotation", "serve", 0, 6_000, &json!({})),
        event("python_function", "service.py(3): tokenize_batch", 1_850, 3_100, &json!({})),
    ];
    for (index, (category, stream, start, length)) in WORK.iter().enumerate().filter(|_| device) {
        let call = index + 1;
        let arguments = json!({ "device": 0, "stream": stream, "correlation": call, "bytes": 64 });
        events.push(event(category, "work", *start, *length, &arguments));
        let call = json!({ "correlation": call });
        events.push(event("cuda_runtime", "cudaLaunchKernel", start - 6, 4, &call));
    }
    json!({ "schemaVersion": 1, "traceEvents": events })
}

/// Microseconds covered by any of the spans, counted one by one: nothing of the tool's own way.
fn covered(spans: &[(&str, u64, u64, u64)]) -> f64 {
    let inside =
        |at: &u64| spans.iter().any(|(_, _, from, length)| (*from..from + length).contains(at));
    (0..10_000_u64).filter(inside).count() as f64
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

fn diagnosed(path: &str, more: &[&str]) -> Ran {
    trtforge(&[&["diagnose", "--trace", path], more].concat())
}

fn gzip(path: &str) -> String {
    let status = Command::new("gzip").args(["--keep", "--force", path]).status();
    assert!(status.is_ok_and(|status| status.success()), "gzip is part of every system");
    format!("{path}.gz")
}

#[test]
fn busy_time_is_the_union_plain_and_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let plain = write(folder.path(), "t.json", trace(true).to_string().as_bytes());
    let compressed = gzip(&plain);
    for path in [&plain, &compressed] {
        let found = diagnosed(path, &["--json"]).expect(0).json();
        let device = &found["devices"][0];
        assert_eq!(device["busy_us"], covered(&WORK), "{found:#}");
        // 700 to 1800 and 5000 to 5300 by hand: 800 + 300.
        assert_eq!(device["busy_us"], 1_100.0);
        assert_eq!(device["idle_us"], 5_000.0 - 1_800.0);
        assert_eq!(found["causes"][0]["cause"], "host_input_pipeline", "{found:#}");
        let function = found["causes"][0]["functions"][0]["name"].as_str().unwrap();
        assert!(function.contains("tokenize_batch"));
    }
    let text = diagnosed(&plain, &[]).expect(0).stdout;
    assert!(
        text.contains("Causes, most costly first") && text.contains("tokenize_batch"),
        "{text}"
    );
}

#[test]
fn traces_that_are_not_whole_are_refused_or_read_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let whole = trace(true).to_string();
    let cut = write(folder.path(), "cut.json", &whole.as_bytes()[..whole.len() - 40]);
    diagnosed(&cut, &[]).expect(2).says(&["cut off at byte", "--partial"]);
    let found = diagnosed(&cut, &["--partial", "--json"]).expect(0).json();
    assert_eq!(found["truncated"], true);
    assert!(found["devices"][0]["busy_share"].as_f64().unwrap() < 1.0);

    let broken = whole.replacen("\"dur\":400", "\"dur\" 400", 1);
    let broken = write(folder.path(), "broken.json", broken.as_bytes());
    diagnosed(&broken, &[]).expect(2).says(&["is broken at byte"]);
    let empty = write(folder.path(), "empty.json", b"");
    diagnosed(&empty, &["--partial"]).expect(2).says(&["is empty"]);
    let other = write(folder.path(), "model.onnx", b"\x08\x07onnx");
    diagnosed(&other, &[]).expect(2).says(&["is not a trace"]);
    diagnosed("no-such-trace.json", &[]).expect(2).says(&["cannot read"]);

    let packed = gzip(&write(folder.path(), "p.json", whole.as_bytes()));
    let mut bytes = fs::read(&packed).unwrap();
    let middle = bytes.len() / 2;
    bytes.truncate(middle);
    diagnosed(&write(folder.path(), "p2.json.gz", &bytes), &[]).expect(2);
}

#[test]
fn a_trace_without_gpu_work_never_reads_as_busy() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "cpu.json", trace(false).to_string().as_bytes());
    let found = diagnosed(&path, &["--json"]).expect(0).json();
    assert_eq!(found["devices"], json!([]));
    assert_eq!(found["causes"], json!([]));
    let text = diagnosed(&path, &[]).expect(0).stdout;
    assert!(text.contains("No work on any device") && !text.contains("100 %"), "{text}");
    diagnosed(&path, &["--steps"]).expect(2).says(&["no profiler steps"]);
}

#[test]
fn an_nsight_database_is_read_as_a_trace() {
    let path = repository().join("crates/trtforge-diagnose/tests/data/nsight.sqlite");
    let found = diagnosed(&path.display().to_string(), &["--json"]).expect(0).json();
    assert_eq!(found["devices"][0]["kernels"], 150);
    assert_eq!(found["causes"][0]["cause"], "host_input_pipeline");
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(&path).unwrap();
    let cut = write(folder.path(), "cut.sqlite", &bytes[..bytes.len() / 2]);
    diagnosed(&cut, &[]).expect(2).says(&[
        "no SQLite database that can be read",
        "malformed",
        "nsys export",
    ]);
}

/// Real traces, where they are: busy time against a union that is computed here, from the file's own numbers.
#[test]
fn shared_traces_have_the_busy_time_of_their_events() {
    let folder = repository().join("../shared/traces");
    if !folder.is_dir() {
        eprintln!("skipped: ../shared/traces is not there");
        return;
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        // The largest would take the test a minute to parse; the crate's own tests read it.
        if fs::metadata(&path).unwrap().len() > 4 << 20 {
            continue;
        }
        let found = diagnosed(&path.display().to_string(), &["--json"]).expect(0).json();
        let unpacked =
            Command::new("gzip").args(["-dc", &path.display().to_string()]).output().unwrap();
        let text = String::from_utf8_lossy(&unpacked.stdout)
            .replace(": NaN", ": 0")
            .replace(": Infinity", ": 0");
        let Ok(whole) = serde_json::from_str::<Json>(&text) else { continue };
        for device in found["devices"].as_array().unwrap() {
            let expected = busy_of(&whole, &device["device"]);
            let busy = device["busy_us"].as_f64().unwrap();
            assert!((busy - expected).abs() < 1e-3, "{}: {busy} {expected}", path.display());
            assert!(device["busy_share"].as_f64().unwrap() < 1.0);
        }
    }
}

/// The union of a device's spans, by counting how many are open from one edge to the next.
fn busy_of(trace: &Json, device: &Json) -> f64 {
    let events = trace["traceEvents"].as_array().unwrap();
    let work = ["kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"];
    // Whole microseconds first: as nanoseconds since 1970 they are more than a double holds.
    let nanoseconds = |value: &Json| {
        let us = value.as_f64().unwrap();
        us.trunc() as i64 * 1_000 + (us.fract() * 1e3).round() as i64
    };
    let mut edges: Vec<(i64, i64)> = Vec::new();
    for event in events {
        let ours = event["ph"] == "X"
            && work.iter().any(|category| event["cat"] == *category)
            && event["args"].get("device").unwrap_or(&event["pid"]) == device;
        if ours {
            let start = nanoseconds(&event["ts"]);
            edges.push((start, 1));
            edges.push((start + nanoseconds(&event["dur"]), -1));
        }
    }
    edges.sort_unstable_by_key(|&(at, change)| (at, -change));
    let (mut open, mut since, mut busy) = (0, 0, 0);
    for (at, change) in edges {
        if open == 0 {
            since = at;
        }
        open += change;
        if open == 0 {
            busy += at - since;
        }
    }
    busy as f64 / 1e3
}

#[test]
fn a_profile_is_measured_and_recorded() {
    let mut workspace = Workspace::tiny();
    workspace.set("/engine", json!({ "backend": "none" }));
    let folder = workspace.output("");
    let record = folder.display().to_string();
    // Without a run to put it into, nothing is measured.
    workspace
        .run("diagnose", &["--record", &record])
        .expect(2)
        .says(&["not a run folder: no run.json", "trtforge build"]);
    workspace.run("build", &["--quiet", "--stop-after", "quantize"]).expect(0);
    let arguments = ["--rows", "24", "--batch", "4", "--record", &record, "--json", "--quiet"];
    let found = workspace.run("diagnose", &arguments).expect(0).json();
    assert_eq!(found["traffic"]["rows"], 24);
    assert_eq!(found["traffic"]["batch_rows"], 4);
    assert_eq!(found["experiment"]["batches"], 6);
    assert_eq!(found["device"]["evaluated_on"], "reference");
    let ladder = found["ladder"].as_array().unwrap();
    assert_eq!(ladder.len(), 6);
    assert!(ladder[..3].iter().all(|rung| rung["measured"]["rows_per_s"].as_f64().unwrap() > 0.0));
    assert!(ladder[3..].iter().all(|rung| rung["not_run"].is_string()));
    assert!(ladder[5]["not_run"].as_str().unwrap().contains("gate"), "{}", ladder[5]);
    // The same rows at every rung give the same answers, to the last bits of a float.
    for rung in &ladder[..3] {
        assert!(rung["measured"]["largest_difference"].as_f64().unwrap() < 1e-4, "{rung}");
    }
    assert!(
        found["padding"]["waste"]["flops"].as_f64() >= found["padding"]["waste"]["tokens"].as_f64()
    );
    assert_eq!(workspace.read("run.json")["diagnosis"], found);
    let page = fs::read_to_string(workspace.output("report.html")).unwrap();
    assert!(page.contains("Where the time goes") && page.contains("Timeline of the blocking loop"));
    assert!(!page.contains(&workspace.folder.path().display().to_string()));
    // The run of another model, or of other rows, does not take it.
    let before = fs::read(workspace.output("run.json")).unwrap();
    let rows = workspace.folder.path().join("calib.jsonl");
    let own = workspace.profile.clone();
    workspace.set("/data/evaluation/path", serde_json::json!(rows));
    workspace.run("diagnose", &["--record", &record]).expect(2).says(&[
        "another evaluation data",
        "`eval.jsonl`",
        "`calib.jsonl`",
    ]);
    workspace.profile = own;
    let other = workspace.folder.path().join("other.onnx");
    support::tiny::write_head(&other, support::tiny::Head::Spans);
    workspace.set("/model/onnx", serde_json::json!(other));
    workspace.set("/task", serde_json::json!({ "kind": "question-answering" }));
    let squad = workspace.folder.path().join("squad.jsonl");
    fs::write(&squad, r#"{"question": "good", "context": "film", "answers": ["film"]}"#).unwrap();
    for data in ["calibration", "evaluation"] {
        workspace.set(&format!("/data/{data}"), serde_json::json!({ "path": squad }));
    }
    workspace.set("/gate", serde_json::json!({}));
    workspace.run("diagnose", &["--record", &record]).expect(2).says(&[
        "another model",
        "`model.onnx`",
        "`other.onnx`",
    ]);
    assert_eq!(fs::read(workspace.output("run.json")).unwrap(), before);
}

#[test]
fn what_cannot_be_asked_is_refused() {
    trtforge(&["diagnose"]).expect(2);
    trtforge(&["diagnose", "p.yaml", "--trace", "t.json"]).expect(2);
    trtforge(&["diagnose", "p.yaml", "--rows", "0"]).expect(2);
    for only_of_traces in ["--steps", "--partial"] {
        trtforge(&["diagnose", "p.yaml", only_of_traces]).expect(2).says(&["cannot be used with"]);
    }
    trtforge(&["diagnose", "--trace", "t.json", "--batch", "4"]).expect(2);
    trtforge(&["diagnose", "no-such-profile.yaml"]).expect(2).says(&["no-such-profile.yaml"]);
}
