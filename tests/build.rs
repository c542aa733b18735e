//! `trtforge build` end to end on a model the test makes: results, resuming, refusals, bad input.

#[path = "support/mod.rs"]
mod support;

use std::fs;

use serde_json::{Value as Json, json};
use support::{Workspace, files, trtforge, trtforge_with};

#[test]
fn one_command_gives_two_judged_engines_and_a_report() {
    let workspace = Workspace::tiny();
    let ran = workspace.run("build", &[]).expect(0);
    assert!(ran.stdout.contains("INT8") && ran.stdout.contains("accepted"), "{}", ran.stdout);
    let found = files(&workspace.output(""));
    for name in [
        "calibration.json",
        "engines/m.fp16.plan",
        "engines/m.fp16.plan.json",
        "engines/m.int8.plan",
        "onnx/m.fp16.onnx",
        "onnx/m.int8.onnx",
        "report.html",
        "report.md",
        "run.json",
    ] {
        assert!(found.iter().any(|file| file == name), "{name} is not among {found:?}");
    }
    assert!(found.iter().all(|file| !file.contains(".trtforge-") && !file.starts_with("rejected")));
    let run = workspace.read("run.json");
    let int8 = &run["precisions"]["int8"];
    assert_eq!(int8["verdict"]["outcome"], "accepted");
    assert_eq!(int8["evaluation"]["evaluated_on"], "reference");
    assert_eq!(int8["evaluation"]["count"], 60);
    // No absolute path of this machine in anything written as text.
    let folder = workspace.folder.path().display().to_string();
    for name in
        ["run.json", "report.html", "report.md", "calibration.json", "engines/m.int8.plan.json"]
    {
        assert!(!fs::read_to_string(workspace.output(name)).unwrap().contains(&folder), "{name}");
    }
}

#[test]
fn the_manifest_says_what_the_plan_was_made_from() {
    let workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    let manifest = workspace.read("engines/m.int8.plan.json");
    let hash =
        |name: &str| blake3::hash(&fs::read(workspace.output(name)).unwrap()).to_hex().to_string();
    assert_eq!(manifest["plan"]["blake3"], json!(hash("engines/m.int8.plan")));
    assert_eq!(manifest["onnx"]["blake3"], json!(hash("onnx/m.int8.onnx")));
    assert_eq!(manifest["calibration"]["blake3"], json!(hash("calibration.json")));
}

#[test]
fn models_and_plans_can_be_inspected() {
    let workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    let path = |name: &str| workspace.output(name).display().to_string();
    let model = trtforge(&["inspect", "--json", &path("onnx/m.int8.onnx")]).expect(0).json();
    assert_eq!(model["inputs"][0]["shape"], json!(["batch", "sequence"]));
    // Embedded, context, attention norm, GELU, first token and pooled: one pair each, shared by its readers.
    assert_eq!(model["operators"]["QuantizeLinear"], json!(6));
    let manifest = trtforge(&["inspect", "--json", &path("engines/m.int8.plan")]).expect(0).json();
    assert_eq!(manifest["precision"], "int8");
    // A plan that is not the one its manifest was written for.
    fs::copy(path("engines/m.fp16.plan"), path("engines/m.int8.plan")).unwrap();
    trtforge(&["inspect", &path("engines/m.int8.plan")])
        .expect(2)
        .says(&["m.int8.plan.json", "BLAKE3"]);
}

#[test]
fn a_second_run_does_nothing_and_a_changed_gate_only_judges() {
    let mut workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    let table = fs::read(workspace.output("calibration.json")).unwrap();
    workspace.run("build", &["--quiet"]).expect(0);
    let outcome = |run: &Json, stage: &str| -> String {
        let stages = run["stages"].as_array().unwrap();
        let found = stages.iter().find(|s| s["name"] == stage).expect("every stage is recorded");
        found["outcome"].as_str().unwrap().to_owned()
    };
    let run = workspace.read("run.json");
    for stage in ["calibrate", "quantize", "build", "evaluate"] {
        assert_eq!(outcome(&run, stage), "cached", "{stage}");
    }
    assert_eq!(fs::read(workspace.output("calibration.json")).unwrap(), table);
    workspace.set("/gate/max_drop", json!(0.25));
    workspace.run("build", &["--quiet"]).expect(0);
    assert_eq!(outcome(&workspace.read("run.json"), "build"), "cached");
    // Another method calibrates again and builds INT8 again.
    workspace.set("/calibrate/method", json!("minmax"));
    workspace.run("build", &["--quiet"]).expect(0);
    let run = workspace.read("run.json");
    assert_eq!((outcome(&run, "calibrate"), outcome(&run, "build")), ("ran".into(), "ran".into()));
}

#[test]
fn a_damaged_artifact_is_made_again() {
    let workspace = Workspace::tiny();
    workspace.run("build", &["--quiet", "--stop-after", "calibrate"]).expect(0);
    let artifacts = workspace.output("artifacts");
    let table = files(&artifacts)
        .into_iter()
        .find(|f| f.starts_with("table-") && !f.contains("seal"))
        .unwrap();
    let good = fs::read(artifacts.join(&table)).unwrap();
    fs::write(artifacts.join(&table), b"{}").unwrap();
    workspace.run("build", &["--quiet", "--stop-after", "calibrate"]).expect(0);
    assert_eq!(fs::read(artifacts.join(&table)).unwrap(), good);
}

#[test]
fn each_stage_can_be_the_last() {
    let workspace = Workspace::tiny();
    for (stage, present, absent) in [
        ("check", "run.json", "calibration.json"),
        ("shapes", "run.json", "calibration.json"),
        ("calibrate", "calibration.json", "onnx/m.int8.onnx"),
        ("quantize", "onnx/m.int8.onnx", "engines/m.int8.plan"),
        ("build", "logs/int8.build.log", "engines/m.int8.plan"),
        ("evaluate", "run.json", "engines/m.int8.plan"),
        ("judge", "run.json", "engines/m.int8.plan"),
    ] {
        workspace.run("build", &["--quiet", "--stop-after", stage]).expect(0);
        assert!(workspace.output(present).exists(), "after {stage}: {present}");
        assert!(!workspace.output(absent).exists(), "after {stage}: {absent}");
        assert_eq!(workspace.read("run.json")["stopped_after"], json!(stage));
    }
}

/// A table whose scales are 20 times too large: INT8 keeps a twentieth of its levels.
fn spoiled_table(workspace: &Workspace) -> String {
    let path = workspace.folder.path().join("spoiled.json");
    workspace.run("calibrate", &["--quiet", "-o", path.to_str().unwrap()]).expect(0);
    let mut table: Json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for tensor in table["tensors"].as_object_mut().unwrap().values_mut() {
        for key in ["absmax", "threshold", "scale"] {
            tensor[key] = json!(tensor[key].as_f64().unwrap() as f32 * 200.0);
        }
    }
    fs::write(&path, table.to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn a_refused_engine_is_never_published_and_takes_the_old_one_away() {
    let mut workspace = Workspace::tiny();
    label_by_model(&mut workspace);
    workspace.run("build", &["--quiet"]).expect(0);
    assert!(workspace.output("engines/m.int8.plan").exists());
    let table = spoiled_table(&workspace);
    workspace.set("/calibrate/table", json!(table));
    workspace.set("/gate", json!({ "max_drop": 0.01 }));
    workspace.run("build", &["--quiet"]).expect(1);
    assert!(!workspace.output("engines/m.int8.plan").exists());
    assert!(workspace.output("rejected/m.int8.plan").exists());
    let manifest = workspace.read("rejected/m.int8.plan.json");
    assert_ne!(manifest["verdict"]["outcome"], "accepted");
    assert_eq!(workspace.read("run.json")["precisions"]["int8"]["plan"], "rejected/m.int8.plan");
}

/// Labels the evaluation rows with the FP32 model's own answers, so that its accuracy is 1.
fn label_by_model(workspace: &mut Workspace) {
    let predictions = workspace.folder.path().join("predictions.jsonl");
    workspace
        .run("evaluate", &["--quiet", "--predictions", predictions.to_str().unwrap()])
        .expect(0);
    let classes: Vec<Json> = fs::read_to_string(&predictions)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["class"].clone())
        .collect();
    let path = workspace.folder.path().join("eval.jsonl");
    let rows = fs::read_to_string(&path).unwrap();
    let labelled: String = rows
        .lines()
        .zip(classes)
        .map(|(line, class)| {
            let mut row: Json = serde_json::from_str(line).unwrap();
            row["label"] = class;
            format!("{row}\n")
        })
        .collect();
    fs::write(path, labelled).unwrap();
}

#[test]
fn too_few_rows_are_a_refusal_that_says_how_many_would_do() {
    let mut workspace = Workspace::tiny();
    label_by_model(&mut workspace);
    let path = workspace.folder.path().join("eval.jsonl");
    let rows: String =
        fs::read_to_string(&path).unwrap().lines().take(20).map(|l| format!("{l}\n")).collect();
    fs::write(&path, rows).unwrap();
    // The first 20 rows may have one label alone.
    workspace.set("/gate", json!({ "max_drop": 0.005, "allow_chance_baseline": true }));
    workspace.set("/precisions", json!(["fp16"]));
    workspace.run("build", &["--quiet"]).expect(1);
    let verdict = workspace.read("run.json")["precisions"]["fp16"]["verdict"].clone();
    assert_eq!(verdict["outcome"], "inconclusive");
    assert!(verdict["rows_needed"].as_u64().unwrap() > 20, "{verdict}");
    // The same, tolerated.
    workspace.set("/gate/on_inconclusive", json!("accept"));
    workspace.run("build", &["--quiet"]).expect(0);
    assert!(workspace.output("engines/m.fp16.plan").exists());
    // And refused again where a device is demanded: no engine ran.
    workspace.set("/gate/require_device", json!(true));
    workspace.run("build", &["--quiet"]).expect(1);
    assert!(!workspace.output("engines/m.fp16.plan").exists());
}

#[test]
fn a_table_of_another_model_is_refused() {
    let mut workspace = Workspace::tiny();
    let table = spoiled_table(&workspace);
    let mut value: Json = serde_json::from_str(&fs::read_to_string(&table).unwrap()).unwrap();
    value["model"] = json!("0".repeat(64));
    fs::write(&table, value.to_string()).unwrap();
    workspace.set("/calibrate/table", json!(table));
    workspace.run("build", &["--quiet"]).expect(2).says(&["model", "000000"]);
}

#[test]
fn without_a_backend_the_graphs_are_the_result() {
    let workspace = Workspace::tiny();
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
    assert!(workspace.output("onnx/m.int8.onnx").exists());
    assert!(!workspace.output("engines").exists());
}

#[test]
fn a_gpu_asked_for_and_absent_is_exit_code_3_before_any_work() {
    if std::path::Path::new("/dev/nvidiactl").exists() {
        eprintln!("skipped: this machine has a GPU");
        return;
    }
    let workspace = Workspace::tiny();
    workspace.run("build", &["--quiet", "--backend", "tensorrt"]).expect(3).says(&[
        "backend `tensorrt`",
        "needs a GPU",
        "tensorrt-rtx",
    ]);
    assert!(!workspace.output("").exists(), "nothing was made");
}

#[test]
fn missing_libraries_are_exit_code_3_and_say_where_they_were_looked_for() {
    let workspace = Workspace::tiny();
    let profile = workspace.write();
    let empty = tempfile::tempdir().unwrap();
    let ran =
        trtforge_with(&["build", &profile, "--quiet", "--backend", "tensorrt-rtx"], |command| {
            command.env("TRTFORGE_TENSORRT_PATH", empty.path())
        });
    ran.expect(3).says(&[empty.path().file_name().unwrap().to_str().unwrap()]);
}

#[test]
fn bad_input_is_named_and_nothing_is_left_behind() {
    let bad = |change: &dyn Fn(&mut Workspace), words: &[&str]| {
        let mut workspace = Workspace::tiny();
        change(&mut workspace);
        workspace.run("build", &["--quiet"]).expect(2).says(words);
        let left = files(&workspace.output(""));
        assert!(left.iter().all(|file| file == "artifacts/.lock"), "{words:?}: {left:?}");
    };
    let file = |w: &Workspace, name: &str| w.folder.path().join(name);
    bad(&|w| fs::write(file(w, "model.onnx"), b"\x08\x07garbage").unwrap(), &["model.onnx"]);
    bad(&|w| fs::write(file(w, "model.onnx"), b"").unwrap(), &["model.onnx"]);
    bad(&|w| fs::remove_file(file(w, "model.onnx")).unwrap(), &["model.onnx"]);
    bad(&|w| fs::remove_file(file(w, "eval.jsonl")).unwrap(), &["eval.jsonl"]);
    bad(&|w| fs::write(file(w, "eval.jsonl"), "").unwrap(), &["eval.jsonl", "no rows"]);
    bad(
        &|w| fs::write(file(w, "eval.jsonl"), "{\"text\": \"a\"}\n").unwrap(),
        &["eval.jsonl:1", "label"],
    );
    bad(&|w| fs::write(file(w, "eval.jsonl"), "{\"text\": \n").unwrap(), &["eval.jsonl:1"]);
    bad(&|w| fs::write(file(w, "tokenizer.json"), "{}").unwrap(), &["tokenizer.json"]);
    bad(&|w| _ = w.set("/max_lenght", json!(3)), &["max_lenght", "max_length"]);
    bad(&|w| _ = w.set("/max_length", json!(64)), &["64", "32", "position"]);
    bad(&|w| _ = w.set("/task/labels", json!(["a", "b", "c"])), &["3 labels"]);
    bad(&|w| _ = w.set("/data/evaluation/text", json!("body")), &["body", "text"]);
    bad(
        &|w| _ = w.set("/model/inputs", json!({ "input_idz": "input_ids" })),
        &["input_idz", "input_ids"],
    );
    bad(&|w| _ = w.set("/model/output", json!("probabilities")), &["probabilities", "logits"]);
}

#[test]
fn patterns_that_match_nothing_are_errors() {
    let mut workspace = Workspace::tiny();
    workspace.set("/quantize/skip", json!(["*no_such_layer*"]));
    workspace.run("build", &["--quiet"]).expect(2).says(&["no_such_layer"]);
}

#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    // A small file system of its own; where mounting is not allowed the test says so.
    let mount = tempfile::tempdir().unwrap();
    let path = mount.path().to_str().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=300k", "tmpfs", path])
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        eprintln!("skipped: mounting a small file system is not allowed here");
        return;
    }
    let workspace = Workspace::tiny();
    let output = mount.path().join("out");
    let ran = workspace.run("build", &["--quiet", "--output", output.to_str().unwrap()]);
    let left = files(&output);
    let unmounted = std::process::Command::new("umount").arg(path).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    ran.expect(2).says(&["No space left"]);
    assert!(!left.iter().any(|file| file.starts_with("engines")), "{left:?}");
    assert!(!left.iter().any(|file| file.contains(".trtforge-")), "{left:?}");
}

#[test]
fn help_and_usage() {
    assert!(trtforge(&["--help"]).expect(0).stdout.contains("Exit codes"));
    trtforge(&["--version"]).expect(0);
    trtforge(&["bulid"]).expect(2).says(&["build"]);
    trtforge(&["build"]).expect(2);
    let doctor = trtforge(&["doctor", "--json"]).expect(0).json();
    assert!(doctor.is_object());
}
