use serde_json::json;

use super::*;
use crate::error::ErrorKind as Fault;

/// A manifest as a build with TensorRT-RTX leaves it.
pub(crate) fn example(plan: &[u8]) -> Value {
    let hash = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    json!({
        "schema": 2,
        "tool": "trtforge 0.1.0",
        "precision": "int8",
        "plan": { "name": "engines/m.int8.plan", "bytes": plan.len(), "blake3": hash(plan) },
        "onnx": { "name": "onnx/m.int8.onnx", "bytes": 12, "blake3": hash(b"onnx") },
        "calibration": { "name": "calibration.json", "bytes": 3, "blake3": hash(b"table") },
        "sdk": "TensorRT-RTX",
        "sdk_version": "1.7.1.116",
        "runs_on": { "rule": "at-least", "compute_capability": "8.0" },
        "inputs": [{ "name": "input_ids", "type": "int64", "shape": ["batch", "sequence"] }],
        "profiles": [{ "input_ids": [[1, 8], [4, 16], [8, 32]] }],
        "options": { "optimization_level": 3 },
        "verdict": {
            "outcome": "accepted", "publish": true, "metric": "accuracy", "baseline": 0.9,
            "candidate": 0.89, "count": 100, "drop": 0.01, "interval": [-0.01, 0.02], "max_drop": 0.05,
        },
    })
}

fn read(value: &Value) -> Result<PlanManifest, PlanError> {
    PlanManifest::from_json(value.to_string().as_bytes(), "m.plan.json")
}

#[test]
fn a_manifest_survives_its_file() {
    let manifest = read(&example(b"plan")).unwrap();
    assert_eq!(manifest.sdk, Sdk::TensorRtRtx);
    assert_eq!(manifest.profiles[0].inputs["input_ids"].max, [8, 32]);
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("m.int8.plan");
    assert_eq!(PlanManifest::beside(&plan).unwrap(), None);
    manifest.save(&plan).unwrap();
    assert!(folder.path().join("m.int8.plan.json").is_file());
    assert_eq!(PlanManifest::beside(&plan).unwrap().unwrap(), manifest);
    let names: Vec<_> = folder.path().read_dir().unwrap().collect();
    assert_eq!(names.len(), 1, "something was left behind: {names:?}");
}

#[test]
fn the_first_layout_is_read_too() {
    let mut old = example(b"plan");
    old["schema"] = json!(1);
    old["calibration"] = old["calibration"]["blake3"].take();
    for gone in ["runs_on", "inputs", "options"] {
        old.as_object_mut().unwrap().remove(gone);
    }
    old["sdk_version"] = json!("1.7.1");
    let manifest = read(&old).unwrap();
    assert_eq!(manifest.calibration.unwrap().blake3, blake3::hash(b"table").to_hex().to_string());
    assert_eq!(manifest.runs_on, None);
}

#[test]
fn a_newer_layout_is_named_before_anything_else() {
    let newer = json!({ "schema": 3, "plan": "elsewhere now" });
    let error = read(&newer).unwrap_err();
    assert_eq!(error, PlanError::NewerManifest { path: "m.plan.json".to_owned(), found: 3 });
    assert_eq!(error.kind(), Fault::BadInput);
}

#[test]
fn hand_edited_fields_are_named() {
    let changes: [(&str, Value, &str); 12] = [
        ("/schema", json!("two"), "invalid type: string \"two\""),
        ("/schema", json!(-1), "invalid value"),
        ("/plan", json!("engines/m.plan"), "expected struct FileHash"),
        ("/plan/blake3", json!("abc"), "`plan.blake3` is `abc`"),
        ("/plan/blake3", json!("G".repeat(64)), "64 hexadecimal digits"),
        ("/plan/bytes", json!(-5), "invalid value: integer `-5`"),
        ("/onnx/name", json!("../../etc/passwd"), "`onnx.name` is `../../etc/passwd`"),
        ("/onnx/name", json!("/etc/passwd"), "leads out of the run's folder"),
        ("/calibration/name", json!(""), "`calibration.name` is ``"),
        ("/sdk", json!("OpenVINO"), "`sdk` is `OpenVINO`"),
        ("/sdk_version", json!("latest"), "`latest` is no version"),
        ("/runs_on/compute_capability", json!("Ampere"), "no compute capability"),
    ];
    for (pointer, value, expected) in changes {
        let mut manifest = example(b"plan");
        *manifest.pointer_mut(pointer).unwrap() = value;
        let error = read(&manifest).unwrap_err();
        assert!(matches!(error, PlanError::BadManifest { .. }), "{pointer}: {error}");
        let text = error.to_string();
        assert!(text.contains("m.plan.json") && text.contains(expected), "{pointer}: {text}");
    }
}

#[test]
fn hostile_files_are_refused_and_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("m.plan");
    let path = PlanManifest::path_of(&plan);
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep_field = format!(r#"{{"schema": 2, "options": {{"a": {deep}}}}}"#);
    let twice = r#"{"schema": 2, "schema": 2}"#.to_owned();
    let cases = [
        (String::new(), "EOF while parsing"),
        ("null".to_owned(), "invalid type: null"),
        ("[]".to_owned(), "invalid length 0"),
        (r#"{"schema": 2"#.to_owned(), "EOF while parsing"),
        (r#"{"schema": 2}"#.to_owned(), "missing field `tool`"),
        (deep, "invalid type: sequence"),
        (deep_field, "recursion limit exceeded"),
        (twice, "duplicate field `schema`"),
        ("\u{feff}{}".to_owned(), "expected value"),
    ];
    for (text, expected) in cases {
        std::fs::write(&path, &text).unwrap();
        let error = PlanManifest::beside(&plan).unwrap_err().to_string();
        let start: String = text.chars().take(20).collect();
        assert!(error.contains(expected), "{start}: {error}");
        assert!(error.len() < 400, "{start}: {} characters", error.len());
    }
    std::fs::write(&path, b"{\"schema\": 2, \"tool\": \"\xff\xfe\"}").unwrap();
    assert!(matches!(PlanManifest::beside(&plan), Err(PlanError::BadManifest { .. })));
}

#[test]
fn a_huge_manifest_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("m.plan");
    // 100 MB that take no room on disk.
    let file = File::create(PlanManifest::path_of(&plan)).unwrap();
    file.set_len(100 << 20).unwrap();
    let error = PlanManifest::beside(&plan).unwrap_err().to_string();
    assert!(error.contains("more than 16 MiB"), "{error}");
}

#[test]
fn what_is_no_file_is_no_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("m.plan");
    std::fs::create_dir(PlanManifest::path_of(&plan)).unwrap();
    let error = PlanManifest::beside(&plan).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
}
