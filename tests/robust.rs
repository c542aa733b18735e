//! What must not be lost, left stale, or pass in silence: the release step at 2 a.m.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use support::{Workspace, files, trtforge_with};

#[test]
fn what_is_read_is_never_written_over() {
    let mut workspace = Workspace::tiny();
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
    // A run whose input is a file that it would publish.
    let model = workspace.output("onnx/m.fp16.onnx");
    fs::copy(workspace.folder.path().join("model.onnx"), &model).unwrap();
    let before = fs::read(&model).unwrap();
    workspace.set("/model/onnx", json!(model));
    workspace
        .run("build", &["--quiet", "--backend", "none"])
        .expect(2)
        .says(&["m.fp16.onnx", "reads"]);
    assert_eq!(fs::read(&model).unwrap(), before);
    for name in ["calib.jsonl", "profile.yaml", "vocab.txt"] {
        let path = workspace.folder.path().join(name);
        if name == "vocab.txt" {
            workspace.set("/model/tokenizer", json!(path));
        }
        let before = fs::read(&path).unwrap();
        workspace.set("/model/onnx", json!(workspace.folder.path().join("model.onnx")));
        workspace.write();
        let expected = fs::read(&path).unwrap();
        workspace
            .run("calibrate", &["--quiet", "-o", path.to_str().unwrap()])
            .expect(2)
            .says(&[name]);
        assert_eq!(
            fs::read(&path).unwrap(),
            if name == "profile.yaml" { expected } else { before }
        );
    }
    let evaluation = workspace.folder.path().join("eval.jsonl");
    workspace
        .run("evaluate", &["--quiet", "--predictions", evaluation.to_str().unwrap()])
        .expect(2);
}

#[test]
fn a_reader_that_goes_away_changes_no_result() {
    let workspace = Workspace::tiny();
    let profile = workspace.write();
    let mut child = Command::new(env!("CARGO_BIN_EXE_trtforge"))
        .args(["build", &profile, "--backend", "none"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(workspace.output("report.html").exists());
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let workspace = Workspace::tiny();
    let profile = workspace.write();
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        eprintln!("skipped: no /dev/full here");
        return;
    };
    let ran =
        trtforge_with(&["evaluate", &profile, "--json", "--quiet"], |command| command.stdout(full));
    ran.expect(2).says(&["standard output"]);
}

#[test]
fn rows_that_no_shape_takes_are_refused() {
    let mut workspace = Workspace::tiny();
    workspace.set("/shapes", json!([{ "min": [1, 2], "opt": [2, 4], "max": [4, 6] }]));
    workspace.run("check", &[]).expect(2).says(&["6 tokens", "shapes"]);
    workspace.run("build", &["--quiet"]).expect(2);
}

#[test]
fn check_finds_what_build_would_refuse() {
    let refused = |pointer: &str, value: Json, words: &[&str]| {
        let mut workspace = Workspace::tiny();
        workspace.set(pointer, value);
        workspace.run("check", &[]).expect(2).says(words);
    };
    refused("/gate/max_drop", json!(1), &["gate.max_drop"]);
    refused("/quantize/skip", json!(["nope*"]), &["nope*"]);
    refused("/calibrate/table", json!("nope.json"), &["nope.json"]);
    refused("/engine/version_compatible", json!(true), &["version_compatible"]);
    refused("/engine/timing_cache", json!("tactics.cache"), &["timing_cache"]);
    refused("/shapes", json!([{ "min": [1, 2], "opt": [2, 16], "max": [4, 64] }]), &["32"]);
    refused("/task/labels", json!([false, true]), &["quotes"]);
}

#[test]
fn int8_in_name_only_is_refused() {
    let mut workspace = Workspace::tiny();
    workspace.set("/quantize/skip", json!(["*"]));
    workspace.run("build", &["--quiet"]).expect(2).says(&["INT8"]);
    workspace.set("/precisions", json!(["fp16"]));
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
}

/// Every published file with its bytes.
fn state(workspace: &Workspace) -> Vec<(String, Vec<u8>)> {
    let published =
        files(&workspace.output("")).into_iter().filter(|file| !file.starts_with("artifacts"));
    published.map(|file| (file.clone(), fs::read(workspace.output(&file)).unwrap())).collect()
}

#[test]
fn a_failed_run_leaves_the_folder_of_the_last_good_one() {
    let mut workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    let before = state(&workspace);
    // It fails at the rewriting, after another calibration.
    workspace.set("/calibrate/method", json!("minmax"));
    workspace.set("/quantize/skip", json!(["*"]));
    workspace.run("build", &["--quiet"]).expect(2);
    assert!(before == state(&workspace));
}

#[test]
fn files_of_the_run_before_do_not_stay_as_if_they_were_this_ones() {
    let mut workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    // The folder under another name, and a narrower run.
    fs::rename(workspace.output(""), workspace.folder.path().join("out/n")).unwrap();
    workspace.set("/output", json!("out/n"));
    workspace.set("/precisions", json!(["int8"]));
    workspace.run("build", &["--quiet"]).expect(0);
    let left: Vec<String> = files(&workspace.folder.path().join("out/n"))
        .into_iter()
        .filter(|file| !file.starts_with("artifacts"))
        .collect();
    assert!(
        left.iter().all(|file| !file.contains("m.fp16") && !file.contains("m.int8")),
        "{left:?}"
    );
    assert!(left.iter().all(|file| !file.contains("fp16")), "{left:?}");
    assert!(left.iter().any(|file| file == "engines/n.int8.plan"), "{left:?}");
}

#[test]
fn an_engine_goes_when_a_stopped_run_changes_what_it_was_made_from() {
    let mut workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    workspace.run("build", &["--quiet", "--stop-after", "check"]).expect(0);
    assert!(workspace.output("engines/m.int8.plan").exists(), "nothing it depends on has changed");
    workspace.run("build", &["--quiet"]).expect(0);
    workspace.set("/calibrate/method", json!("minmax"));
    workspace.run("build", &["--quiet", "--stop-after", "quantize"]).expect(0);
    assert!(!workspace.output("engines/m.int8.plan").exists(), "its graph is gone");
}

#[test]
fn a_table_that_overrules_the_profile_says_so() {
    let mut workspace = Workspace::tiny();
    let table = workspace.folder.path().join("table.json");
    workspace.run("calibrate", &["--quiet", "-o", table.to_str().unwrap()]).expect(0);
    workspace.set("/calibrate/table", json!(table));
    workspace.set("/calibrate/method", json!("minmax"));
    workspace.set("/quantize/smooth", json!(0.8));
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
    let warnings = workspace.read("run.json")["warnings"].to_string();
    assert!(warnings.contains("method entropy") && warnings.contains("smooth 0"), "{warnings}");
}

#[test]
fn empty_overrides_are_refused() {
    Workspace::tiny().run("check", &["--set", "gate.max_drop="]).expect(2).says(&["empty"]);
}

#[test]
fn calibrating_on_the_evaluation_rows_is_said() {
    let mut workspace = Workspace::tiny();
    let rows = workspace.folder.path().join("eval.jsonl");
    workspace.set("/data/calibration/path", json!(rows));
    let ran = workspace.run("check", &[]).expect(0);
    assert!(ran.stdout.contains("same file"), "{}", ran.stdout);
}
