//! `trtforge benchmark`, `gate.min_speedup` and `trtforge gpu-check`: without a GPU, and with the test double of TensorRT, whose times mean
//! nothing. No figure here comes from a GPU.

mod support;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use support::doubled::{answer, classifier, run_doubled, tokenized};
use support::{Ran, Workspace, trtforge};
use trtforge_double::Recording;

/// A tiny profile that builds no engines.
fn graphs_only() -> Workspace {
    let mut workspace = Workspace::tiny();
    workspace.set("/engine", json!({ "backend": "none" }));
    workspace.set("/benchmark", json!({ "warmup_ms": 0, "duration_ms": 5, "rounds": 5 }));
    workspace
}

#[test]
fn without_a_gpu_it_is_missing() {
    let workspace = graphs_only();
    let profile = workspace.write();
    trtforge(&["benchmark", &profile]).expect(3).says(&["needs a GPU"]);
}

#[test]
fn a_reference_is_labelled_and_never_evidence() {
    let mut workspace = graphs_only();
    workspace.set("/gate/min_speedup", json!(1.2));
    let profile = workspace.write();
    trtforge(&["build", &profile]).expect(1);
    let run = workspace.read("run.json");
    let rules = |precision: &str| {
        let rules = run["precisions"][precision]["verdict"]["rules"].as_array().unwrap().clone();
        rules.into_iter().find(|rule| rule["rule"] == "min_speedup")
    };
    // FP16 is not asked to be faster than itself.
    assert_eq!(rules("fp16"), None);
    let rule = rules("int8").unwrap();
    assert_eq!((&rule["outcome"], &rule["passes"]), (&json!("inconclusive"), &json!(false)));
    assert!(rule["reason"].as_str().unwrap().contains("no device measured"), "{rule}");

    let arguments = ["benchmark", &profile, "--reference", "--shape", "2x8", "--json"];
    let ran = trtforge(&arguments).expect(0).says(&["say nothing about a GPU"]);
    let found = ran.json();
    assert_eq!(found["measured_on"], "reference");
    let results = found["results"].as_array().unwrap();
    let names: Vec<&Json> = results.iter().map(|one| &one["precision"]).collect();
    assert_eq!(names, ["fp32", "fp16", "int8"]);
    for result in results {
        assert_eq!(result["shape"], json!({ "batch": 2, "length": 8 }));
        assert!(result["iterations"].as_u64().unwrap() >= 5, "{result}");
        assert!(result["total"]["p50"].as_f64().unwrap() > 0.0 && result["compute"].is_null());
        let real = result["real_tokens"].as_u64().unwrap();
        assert!((4..=16).contains(&real), "two real rows of at most eight tokens: {real}");
    }
    assert_eq!(found["speedups"][0]["over"], "fp16");
    // It is not recorded, and the gate is as it was.
    assert!(workspace.read("run.json")["benchmark"].is_null());
    let text = trtforge(&arguments[..5]).expect(0).stdout;
    assert!(text.starts_with("Reference, no device measured"), "{text}");
}

/// What a device would have recorded: INT8 in half of FP16's time, by these bounds.
fn measured(place: &str, interval: &Json) -> Json {
    let spread = |p50: f64| json!({ "mean": p50, "p50": p50, "p90": p50, "p95": p50, "p99": p50, "max": p50 });
    let shape = json!({ "batch": 8, "length": 32 });
    let result = |precision: &str, p50: f64| {
        json!({ "precision": precision, "shape": shape, "real_tokens": 100, "iterations": 50,
                "total": spread(p50), "rows_per_s": 1.0, "tokens_per_s": 1.0 })
    };
    json!({
        "measured_on": place,
        "device": { "name": "made up for a test" },
        "settings": { "warmup_ms": 0, "duration_ms": 1, "max_iterations": 1, "rounds": 10 },
        "results": [result("fp16", 2.0), result("int8", 1.0)],
        "speedups": [{ "precision": "int8", "over": "fp16", "shape": shape, "ratio": 2.0,
                       "interval": interval, "confidence": 0.95, "rounds": 10 }],
    })
}

#[test]
fn a_finished_run_is_judged_by_what_its_device_measured() {
    let workspace = graphs_only();
    let profile = workspace.write();
    trtforge(&["build", &profile]).expect(0);
    let folder = workspace.output("");
    let folder = folder.to_str().unwrap();
    let gate = |benchmark: Json, min: &str| {
        let mut run = workspace.read("run.json");
        run["benchmark"] = benchmark;
        fs::write(workspace.output("run.json"), run.to_string()).unwrap();
        trtforge(&["gate", folder, "--set", &format!("gate.min_speedup={min}"), "--json"])
    };
    gate(measured("device", &json!([1.8, 2.2])), "1.8").expect(0);
    let reason = |ran: Ran| {
        let found = ran.expect(1).json();
        found["verdicts"]["int8"]["reason"].as_str().unwrap().to_owned()
    };
    let refused = reason(gate(measured("device", &json!([1.8, 2.2])), "2.5"));
    assert!(refused.contains("INT8 is 2.000 times as fast as FP16 at 8 x 32"), "{refused}");
    for (benchmark, words) in [
        (measured("reference", &json!([1.8, 2.2])), "no device measured"),
        (Json::Null, "no device measured"),
    ] {
        let refused = reason(gate(benchmark, "1.2"));
        assert!(refused.contains(words), "{refused}");
    }
    // The figures are in the reports too.
    gate(measured("device", &json!([1.8, 2.2])), "1.8");
    trtforge(&["report", folder]).expect(0);
    let report = fs::read_to_string(workspace.output("report.md")).unwrap();
    assert!(report.contains("## Speed") && report.contains("made up for a test"), "{report}");
}

#[test]
fn the_profile_is_read_whole() {
    let mut workspace = graphs_only();
    let refused = |workspace: &Workspace, words: &[&str]| {
        trtforge(&["check", &workspace.write()]).expect(2).says(words);
    };
    workspace.set("/benchmark", json!({ "duration": 5 }));
    refused(&workspace, &["duration_ms"]);
    workspace.set("/benchmark", json!({ "shapes": [[1, 0]] }));
    refused(&workspace, &["benchmark.shapes", "[batch, length]"]);
    workspace.set("/benchmark", json!({ "shapes": [[1, 16]], "rounds": 3, "cuda_graph": false }));
    workspace.set("/gate/min_speedup", json!(1.2));
    trtforge(&["check", &workspace.write()]).expect(0);
    workspace.set("/precisions", json!(["int8"]));
    refused(&workspace, &["gate.min_speedup", "INT8 over FP16"]);
}

/// A tiny profile for the double, and what its engines play back.
struct Doubled {
    workspace: Workspace,
    recording: PathBuf,
}

impl Doubled {
    fn new() -> Self {
        let mut workspace = Workspace::tiny();
        workspace.set("/engine", json!({ "backend": "tensorrt" }));
        workspace.set("/calibrate", json!({ "device": "cpu" }));
        workspace.set("/evaluate", json!({ "batch_size": 4 }));
        workspace.set("/shapes", json!([{ "min": [1, 1], "opt": [4, 16], "max": [4, 32] }]));
        workspace.set("/benchmark", json!({ "warmup_ms": 0, "duration_ms": 10, "rounds": 5 }));
        let recording = workspace.folder.path().join("recording.json");
        recorded(&workspace).save(&recording);
        Doubled { workspace, recording }
    }

    fn run(&self, arguments: &[&str], fail: &str) -> Ran {
        run_doubled(arguments, &self.recording, fail)
    }
}

/// Every evaluation row with made-up logits that are right.
fn recorded(workspace: &Workspace) -> Recording {
    let row = |(row, ids): (Json, Vec<i64>)| {
        let negative = row["label"] == json!(0) || row["label"] == json!("negative");
        answer(ids, if negative { &[1.0, 0.0] } else { &[0.0, 1.0] })
    };
    classifier(tokenized(workspace, "eval.jsonl").into_iter().map(row).collect())
}

#[test]
fn a_build_times_its_engines_and_the_gate_reads_it() {
    let mut doubled = Doubled::new();
    let profile = doubled.workspace.write();
    doubled.run(&["build", &profile], "").expect(0);
    let run = doubled.workspace.read("run.json");
    let benchmark = &run["benchmark"];
    assert_eq!(benchmark["measured_on"], "device");
    assert_eq!(benchmark["device"]["name"], "TEST DOUBLE (no GPU)");
    let results = benchmark["results"].as_array().unwrap();
    let ways: Vec<(&str, bool)> = results
        .iter()
        .map(|one| (one["precision"].as_str().unwrap(), one["cuda_graph"].as_bool().unwrap()))
        .collect();
    assert_eq!(ways, [("fp16", false), ("int8", false), ("fp16", true), ("int8", true)]);
    for result in results {
        assert_eq!(result["shape"], json!({ "batch": 4, "length": 16 }));
        for part in ["total", "enqueue", "copy_in", "compute", "copy_out"] {
            assert!(result[part]["p99"].is_number(), "{part}: {result}");
        }
    }
    assert_eq!(benchmark["speedups"].as_array().unwrap().len(), 2);
    let report = fs::read_to_string(doubled.workspace.output("report.md")).unwrap();
    assert!(
        report.contains("TEST DOUBLE (no GPU)"),
        "the double is named wherever its figures are"
    );

    // A second build takes what was measured of the same engines.
    doubled.run(&["build", &profile], "").expect(0);
    let again = doubled.workspace.read("run.json");
    assert_eq!(again["benchmark"], run["benchmark"]);
    let stage = again["stages"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "benchmark")
        .unwrap()
        .clone();
    assert_eq!(stage["outcome"], "cached");

    // The command measures again, and at other shapes.
    doubled.run(&["benchmark", &profile, "--shape", "1x32", "--duration-ms", "5"], "").expect(0);
    let found = &doubled.workspace.read("run.json")["benchmark"];
    assert_eq!(found["results"][0]["shape"], json!({ "batch": 1, "length": 32 }));
    doubled
        .run(&["benchmark", &profile, "--shape", "64x32"], "")
        .expect(2)
        .says(&["no optimization profile"]);

    doubled.workspace.set("/gate/min_speedup", json!(1000));
    let profile = doubled.workspace.write();
    doubled.run(&["build", &profile], "").expect(1);
    let run = doubled.workspace.read("run.json");
    let reason = run["precisions"]["int8"]["verdict"]["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.contains("times as fast as FP16") && reason.contains("1000 required"),
        "{reason}"
    );
    assert_eq!(run["precisions"]["fp16"]["verdict"]["outcome"], "accepted");
}

#[test]
fn engines_that_cannot_be_timed_are_said() {
    let doubled = Doubled::new();
    let profile = doubled.workspace.write();
    // Both engines are loaded for their evaluation first.
    doubled
        .run(&["build", &profile], "deserializeCudaEngine:3")
        .expect(0)
        .says(&["the engines were not timed", "told to fail"]);
    assert!(doubled.workspace.read("run.json")["benchmark"].is_null());
}

#[test]
fn a_check_without_a_gpu_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("found");
    let ran = trtforge(&["gpu-check", "--output", output.to_str().unwrap()]).expect(3);
    assert!(ran.stdout.starts_with("no GPU here"), "{}", ran.stdout);
    let found: Json =
        serde_json::from_slice(&fs::read(output.join("gpu-check.json")).unwrap()).unwrap();
    assert!(found["plans_run"].is_null() && found["steps"] == json!([]), "{found}");
}

#[test]
fn a_check_goes_through_all_its_steps_whatever_fails() {
    let doubled = Doubled::new();
    let profile = doubled.workspace.write();
    let output = doubled.workspace.folder.path().join("found");
    let arguments = [
        "gpu-check",
        "--profile",
        &profile,
        "--output",
        output.to_str().unwrap(),
        "--usual-shapes",
        "--json",
    ];
    // The double plays back the profile's model alone: the small engines of the first two steps fail, by name.
    let found = doubled.run(&arguments, "").expect(4).json();
    let outcome = |name: &str| {
        let steps = found["steps"].as_array().unwrap();
        steps.iter().find(|step| step["name"] == name).map(|step| step["outcome"].clone())
    };
    assert_eq!(found["plans_run"], false, "{found:#}");
    assert!(found["answer"].as_str().unwrap().contains("does NOT run on the TEST DOUBLE (no GPU)"));
    for (name, expected) in [
        ("runs", "failed"),
        ("conformance", "failed"),
        ("build", "passed"),
        ("device", "passed"),
        ("benchmark", "passed"),
        ("diagnose", "passed"),
    ] {
        assert_eq!(outcome(name), Some(json!(expected)), "{name}: {found:#}");
    }
    for file in ["gpu-check.json", "gpu-check.log", "run.json", "report.html", "report.md"] {
        assert!(output.join(file).is_file(), "{file}");
    }
}

#[test]
fn a_service_is_diagnosed_on_its_engines() {
    let doubled = Doubled::new();
    let profile = doubled.workspace.write();
    doubled.run(&["build", &profile, "--quiet"], "").expect(0);
    let arguments = ["diagnose", &profile, "--rows", "16", "--batch", "4", "--json"];
    let found = doubled.run(&arguments, "").expect(0).json();
    assert_eq!(found["device"]["evaluated_on"], "device");
    let name = found["device"]["name"].as_str().unwrap();
    assert!(name.starts_with("TEST DOUBLE (no GPU)"), "{name}");
    // Every rung ran: FP32, FP16, from a CUDA graph, and INT8, which its gate let through.
    let ladder = found["ladder"].as_array().unwrap();
    let names: Vec<&str> = ladder.iter().map(|rung| rung["name"].as_str().unwrap()).collect();
    assert_eq!(names[3..], ["+ FP16 engine", "+ CUDA graph", "+ INT8 engine"]);
    assert!(ladder.iter().all(|rung| rung["measured"]["rows_per_s"].is_number()), "{ladder:#?}");
    let split = &found["experiment"]["split"];
    assert!(split["copy_in_ms"].is_number() && split["copy_out_ms"].is_number(), "{split}");
    let gpu = &found["gpu"];
    let rows: Vec<&Json> =
        gpu["launches"].as_array().unwrap().iter().map(|one| &one["batch_rows"]).collect();
    assert_eq!(rows, [&json!(1), &json!(4)]);
    assert!(gpu["launches"][0]["graph"]["total_ms"].is_number(), "{gpu:#}");
    assert!(gpu["copies"][0]["pageable"]["copy_in_ms"].is_number(), "{gpu:#}");
    let activity = gpu["activity"].as_array().unwrap();
    assert_eq!(activity.len(), 2, "{gpu:#}");
    assert!(activity.iter().all(|one| one["source"] == "gpm"), "{gpu:#}");
    let text = doubled.run(&arguments[..6], "").expect(0).stdout;
    assert!(text.contains("occupancy") && text.contains("CUDA graph"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
