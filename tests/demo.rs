//! The demo of the README: a real BERT and real sentences, brought by `scripts/setup`, judged end to end, and the
//! written INT8 graph run by an independent runtime.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value as Json, json};
use support::{repository, trtforge};

fn demo() -> PathBuf {
    let folder = repository().join(".trtforge/demo");
    assert!(folder.join("model.onnx").exists(), "the demo is not there: run scripts/setup");
    folder
}

#[test]
fn the_demo_is_judged_and_an_independent_runtime_agrees() {
    let demo = demo();
    let output = tempfile::tempdir().unwrap();
    let folder = output.path().join("demo");
    let profile = repository().join("profiles/demo.yaml");
    let arguments =
        ["build", profile.to_str().unwrap(), "--output", folder.to_str().unwrap(), "--quiet"];
    trtforge(&arguments).expect(0);
    let run: Json =
        serde_json::from_str(&fs::read_to_string(folder.join("run.json")).unwrap()).unwrap();
    for precision in ["fp16", "int8"] {
        assert_eq!(run["precisions"][precision]["verdict"]["outcome"], "accepted", "{precision}");
        assert!(folder.join(format!("engines/demo.{precision}.plan")).exists());
    }
    assert_eq!(run["precisions"]["fp32"]["evaluation"]["count"], json!(2500));
    assert!(run["precisions"]["fp32"]["evaluation"]["value"].as_f64().unwrap() > 0.75);
    assert!(fs::metadata(folder.join("report.html")).unwrap().len() < 2_000_000);

    let int8 = folder.join("onnx/demo.int8.onnx");
    let ours = output.path().join("ours.jsonl");
    let (int8_text, ours_text) = (int8.to_str().unwrap(), ours.to_str().unwrap());
    trtforge(&[
        "evaluate",
        profile.to_str().unwrap(),
        "--onnx",
        int8_text,
        "--predictions",
        ours_text,
        "--quiet",
    ])
    .expect(0);
    let theirs = output.path().join("theirs.jsonl");
    let python = repository().join(".trtforge/venv/bin/python");
    let status = Command::new(&python)
        .arg(repository().join("scripts/ort_predict.py"))
        .args([int8_text, demo.join("test.jsonl").to_str().unwrap(), theirs.to_str().unwrap()])
        .args(["--tokenizer", demo.join("tokenizer.json").to_str().unwrap()])
        .status()
        .unwrap_or_else(|error| panic!("{}: {error}; run scripts/setup", python.display()));
    assert!(status.success());
    let classes = |path: &PathBuf| -> Vec<usize> {
        fs::read_to_string(path)
            .unwrap()
            .lines()
            .map(|line| class(&serde_json::from_str(line).unwrap()))
            .collect()
    };
    let (ours, theirs) = (classes(&ours), classes(&theirs));
    assert_eq!((ours.len(), theirs.len()), (2500, 2500));
    let same = ours.iter().zip(&theirs).filter(|(a, b)| a == b).count();
    assert!(same as f64 >= 0.995 * 2500.0, "only {same} of 2500 predictions agree");
}

/// The larger of two logits; ours are written as text, so that NaN can be.
fn class(row: &Json) -> usize {
    let logits: Vec<f64> = row["logits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap()))
        .collect();
    usize::from(logits[1] > logits[0])
}
