//! Plans and their manifests through the binary: what `inspect` shows, what is refused before TensorRT sees it, and what
//! an engine's own layers prove.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use support::{Ran, Workspace, trtforge, trtforge_with};
use trtforge_double::{Recording, Tensor, TensorType};

fn inspect(plan: &Path, more: &[&str]) -> Ran {
    let mut arguments = vec!["inspect", plan.to_str().unwrap()];
    arguments.extend(more);
    trtforge(&arguments)
}

/// The same where the double of TensorRT is installed.
fn inspect_with_double(plan: &Path, more: &[&str]) -> Ran {
    let mut arguments = vec!["inspect", plan.to_str().unwrap()];
    arguments.extend(more);
    trtforge_with(&arguments, |command| command.envs(trtforge_double::environment()))
}

#[test]
fn a_published_plan_says_what_it_is_and_where_it_runs() {
    let workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    let plan = workspace.output("engines/m.int8.plan");
    let shown = inspect(&plan, &["--json"]).expect(0).json();
    assert_eq!(shown["schema"], 2);
    assert_eq!(shown["precision"], "int8");
    assert_eq!(shown["sdk"], "TensorRT-RTX");
    // To the build number, which only the plan itself states.
    assert_eq!(shown["sdk_version"], shown["header"]["version"]);
    assert_eq!(shown["sdk_version"].as_str().unwrap().split('.').count(), 4);
    let hash = |name: &str| blake3::hash(&fs::read(workspace.output(name)).unwrap());
    for (field, name) in [
        ("plan", "engines/m.int8.plan"),
        ("onnx", "onnx/m.int8.onnx"),
        ("calibration", "calibration.json"),
    ] {
        assert_eq!(shown[field]["name"], name);
        assert_eq!(shown[field]["blake3"], hash(name).to_hex().to_string(), "{field}");
        assert_eq!(shown[field]["bytes"], fs::metadata(workspace.output(name)).unwrap().len());
    }
    assert_eq!(shown["runs_on"], json!({ "rule": "at-least", "compute_capability": "8.0" }));
    assert_eq!(shown["inputs"][0]["shape"], json!(["batch", "sequence"]));
    assert_eq!(shown["verdict"]["outcome"], "accepted");
    assert_eq!(shown["verdict"]["evaluated_on"], "reference");
    let folder = workspace.folder.path().display().to_string();
    assert!(!shown.to_string().contains(&folder), "a folder of this machine is in the manifest");
    let text = inspect(&plan, &[]).expect(0).stdout;
    for words in ["TensorRT-RTX 1.7.1", "compute capability 8.0 or higher", "input_ids", "accepted"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// What is done to a plan, and what is said of it.
type Case<'a> = (&'a str, &'a dyn Fn(), &'a [&'a str]);

#[test]
fn a_plan_that_is_not_what_it_should_be_is_refused_by_name() {
    let workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    let (source, folder) = (workspace.output("engines/m.int8.plan"), tempfile::tempdir().unwrap());
    let plan = folder.path().join("m.int8.plan");
    let beside = folder.path().join("m.int8.plan.json");
    let fresh = || {
        fs::copy(&source, &plan).unwrap();
        fs::copy(workspace.output("engines/m.int8.plan.json"), &beside).unwrap();
    };
    let edit = |change: &dyn Fn(&mut Json)| {
        let mut manifest: Json = serde_json::from_slice(&fs::read(&beside).unwrap()).unwrap();
        change(&mut manifest);
        fs::write(&beside, manifest.to_string()).unwrap();
    };
    let bytes = fs::read(&source).unwrap();
    let mut flipped = bytes.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let cases: [Case<'_>; 8] = [
        ("truncated", &|| fs::write(&plan, &bytes[..bytes.len() / 3]).unwrap(), &["cut off"]),
        ("tampered", &|| fs::write(&plan, &flipped).unwrap(), &["m.int8.plan.json", "BLAKE3"]),
        ("foreign", &|| fs::write(&plan, b"PK\x03\x04....").unwrap(), &["ZIP archive"]),
        ("empty", &|| fs::write(&plan, b"").unwrap(), &["it is empty"]),
        ("newer", &|| edit(&|m| m["schema"] = json!(7)), &["schema 7", "newer"]),
        (
            "another SDK",
            &|| edit(&|m| m["sdk"] = json!("TensorRT")),
            &["TensorRT-RTX 1.7", "says TensorRT "],
        ),
        ("wrong type", &|| edit(&|m| m["profiles"] = json!(3)), &["m.int8.plan.json", "line 1"]),
        ("no JSON", &|| fs::write(&beside, "{").unwrap(), &["m.int8.plan.json", "EOF"]),
    ];
    for (what, change, words) in cases {
        fresh();
        change();
        let ran = inspect(&plan, &[]).expect(2);
        eprintln!("{what}");
        ran.says(words);
    }
    // Alone it can be looked at, and says that it is alone.
    fresh();
    fs::remove_file(&beside).unwrap();
    let text = inspect(&plan, &[]).expect(0).stdout;
    assert!(text.contains("none beside it"), "{text}");
    let shown = inspect(&plan, &["--json"]).expect(0).json();
    assert_eq!(
        (&shown["manifest"], &shown["header"]["sdk"]),
        (&json!(false), &json!("TensorRT-RTX"))
    );
    // What a hand put into a manifest never drives the terminal.
    fresh();
    edit(&|m| m["tool"] = json!("\u{1b}[2Jtrtforge"));
    let text = inspect(&plan, &[]).expect(0).stdout;
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[2Jtrtforge"), "{text}");
}

/// A plan of the double with two layers, and its manifest.
fn doubled(folder: &Path) -> PathBuf {
    let shape = ["batch", "sequence"];
    let tensor =
        |kind: &str| json!({ "Name": "t", "Dimensions": [-1, 8], "Format/Datatype": kind });
    let recording = Recording {
        inputs: vec![Tensor::new("ids", TensorType::Int64, &shape)],
        outputs: vec![Tensor::new("logits", TensorType::Float32, &["batch", "2"])],
        layers: vec![
            json!({ "Name": "__myl_Cas_myl0_0", "LayerType": "kgen", "Inputs": [tensor("Float")],
                    "Outputs": [tensor("Half")], "Metadata": "[ONNX Layer: cast]" }),
            json!({ "Name": "q_myl0_1", "LayerType": "gemm", "Inputs": [tensor("Int8"), tensor("Int8")],
                    "Outputs": [tensor("Half")], "Metadata": "[ONNX Layer: q]",
                    "TacticName": "sm80_xmma_gemm_i8f32_i8i32_f32_tn_n_tilesize64x64x64" }),
        ],
        ..Recording::default()
    };
    let plan = folder.join("m.int8.plan");
    let bytes = recording.plan();
    fs::write(&plan, &bytes).unwrap();
    let hash = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    let manifest = json!({
        "schema": 2, "tool": "trtforge 0.1.0", "precision": "int8",
        "plan": { "name": "engines/m.int8.plan", "bytes": bytes.len(), "blake3": hash(&bytes) },
        "onnx": { "name": "onnx/m.int8.onnx", "bytes": 1, "blake3": hash(b"x") },
        "sdk": "TensorRT", "sdk_version": "11.4.0",
        "runs_on": { "rule": "exactly", "compute_capability": "9.0" }, "profiles": [],
    });
    fs::write(folder.join("m.int8.plan.json"), manifest.to_string()).unwrap();
    plan
}

#[test]
fn layers_are_shown_where_there_is_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let plan = doubled(folder.path());
    let text = inspect_with_double(&plan, &["--layers"]).expect(0).stdout;
    assert!(text.contains("INT8  gemm         q_myl0_1"), "{text}");
    assert!(text.contains("--onnx FILE"), "{text}");
    let shown = inspect_with_double(&plan, &["--layers", "--json"]).expect(0).json();
    assert_eq!(shown["layers"][1]["compute"]["number"], "int8");
    assert_eq!(shown["layers"][1]["compute"]["basis"], "tactic");
    assert_eq!(shown["layers"][0]["inputs"][0]["number"], "fp32");
}

#[test]
fn a_plan_for_another_machine_is_refused_before_the_library_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = doubled(folder.path());
    let beside = folder.path().join("m.int8.plan.json");
    let edit = |field: &str, value: Json| {
        let mut manifest: Json = serde_json::from_slice(&fs::read(&beside).unwrap()).unwrap();
        manifest[field] = value;
        fs::write(&beside, manifest.to_string()).unwrap();
    };
    edit("runs_on", json!({ "rule": "exactly", "compute_capability": "8.9" }));
    let account = folder.path().join("account.json");
    let refused = |words: &[&str]| {
        let ran = trtforge_with(&["inspect", plan.to_str().unwrap(), "--layers"], |command| {
            command.envs(trtforge_double::environment()).env("TRTFORGE_DOUBLE_ACCOUNT", &account)
        });
        ran.expect(3).says(words);
        let account = trtforge_double::Account::read(&account);
        assert_eq!(account.calls.get("deserializeCudaEngine"), None, "{:?}", account.calls);
    };
    refused(&["compute capability 8.9 alone", "TEST DOUBLE (no GPU)", "9.0"]);
    edit("runs_on", json!({ "rule": "at-least", "compute_capability": "8.0" }));
    edit("sdk_version", json!("11.3.0.5"));
    refused(&["TensorRT 11.3.0.5", "11.4.0", "exactly"]);
    // One that later versions run is let through.
    edit("version_compatible", json!(true));
    inspect_with_double(&plan, &["--layers"]).expect(0);
}

#[test]
fn without_a_gpu_layers_are_an_error_of_the_machine() {
    if trtforge_with(&["doctor", "--json"], |command| command).json()["gpus"] != json!([]) {
        eprintln!("skipped: this machine has a GPU");
        return;
    }
    let workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    inspect(&workspace.output("engines/m.int8.plan"), &["--layers"]).expect(3).says(&["GPU"]);
}

#[test]
fn a_required_share_that_nobody_can_prove_refuses() {
    let mut workspace = Workspace::tiny();
    workspace.set("/gate/require_int8_share", json!(0.5));
    let ran = workspace.run("build", &[]).expect(1);
    assert!(ran.stdout.contains("not proven"), "{}", ran.stdout);
    let run = workspace.read("run.json");
    let rules = |precision: &str| run["precisions"][precision]["verdict"]["rules"].clone();
    let named = |rules: &Json| -> Option<Json> {
        rules.as_array().unwrap().iter().find(|rule| rule["rule"] == "require_int8_share").cloned()
    };
    let rule = named(&rules("int8")).unwrap();
    assert_eq!(rule["outcome"], "inconclusive");
    assert!(rule["reason"].as_str().unwrap().contains("GPU"), "{rule}");
    // An FP16 engine is never asked how much of it is INT8.
    assert_eq!(named(&rules("fp16")), None);
    assert_eq!(run["precisions"]["fp16"]["verdict"]["outcome"], "accepted");
    // How much of the graph is INT8 is another figure, and stands apart.
    let int8 = &run["precisions"]["int8"];
    assert!(int8["proof"]["missing"].as_str().unwrap().contains("GPU"), "{}", int8["proof"]);
    assert!(int8["arithmetic"]["share"].as_f64().unwrap() > 0.5);
}

#[test]
fn a_run_is_judged_again_by_what_its_engine_proved() {
    let workspace = Workspace::tiny();
    workspace.run("build", &["--quiet"]).expect(0);
    let output = workspace.output("");
    let gate = |share: f64, unproven: f64| {
        let mut run = workspace.read("run.json");
        run["precisions"]["int8"]["proof"] = json!({
            "summary": "measured", "int8_share": share, "unproven_share": unproven,
        });
        fs::write(workspace.output("run.json"), run.to_string()).unwrap();
        trtforge(&[
            "gate",
            output.to_str().unwrap(),
            "--set",
            "gate.require_int8_share=0.9",
            "--json",
        ])
    };
    gate(0.95, 0.0).expect(0);
    let cases = [(0.2, 0.1, "rejected"), (0.85, 0.1, "inconclusive"), (0.0, 1.0, "inconclusive")];
    for (share, unproven, outcome) in cases {
        let judged = gate(share, unproven).expect(1).json();
        let verdict = &judged["verdicts"]["int8"];
        assert_eq!(verdict["outcome"], outcome, "{share} {unproven}: {verdict}");
        assert!(verdict["reason"].as_str().unwrap().contains("INT8"), "{verdict}");
    }
}
