use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::error::ErrorKind;
use crate::plan::header::tests::rtx_plan;
use crate::plan::manifest::tests::example;
use crate::sdk::Sdk;

/// A folder with a plan and a manifest, each changed.
fn folder(change_plan: impl Fn(&mut Vec<u8>), change: impl Fn(&mut Value)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = rtx_plan(200);
    let mut manifest = example(&plan);
    change_plan(&mut plan);
    change(&mut manifest);
    fs::write(folder.path().join("m.plan"), plan).unwrap();
    fs::write(folder.path().join("m.plan.json"), manifest.to_string()).unwrap();
    folder
}

fn open(folder: &tempfile::TempDir) -> Result<PlanFile, PlanError> {
    PlanFile::open(&folder.path().join("m.plan"))
}

#[test]
fn a_whole_plan_with_its_manifest_opens() {
    let folder = folder(|_| (), |_| ());
    let plan = open(&folder).unwrap();
    assert_eq!(plan.bytes(), rtx_plan(200));
    assert_eq!(plan.version().unwrap().to_string(), "1.7.1.116");
    assert_eq!(plan.manifest().unwrap().precision, "int8");
}

#[test]
fn every_fault_has_its_own_error() {
    type Change = fn(&mut Vec<u8>);
    let cut: Change = |plan| plan.truncate(150);
    let cut_in_the_header: Change = |plan| plan.truncate(20);
    let grown: Change = |plan| plan.push(0);
    let flipped: Change = |plan| plan[100] ^= 1;
    let other_version: Change = |plan| plan[27] = 115;
    let foreign: Change = |plan| plan[..4].copy_from_slice(b"\x08\x0a\x12\x00");
    let empty: Change = |plan| plan.clear();
    let cases = [
        (cut, "plan::truncated", "has 150 bytes, and by its own header it should have 264"),
        (
            cut_in_the_header,
            "plan::truncated",
            "has 20 bytes, and by its manifest it should have 264",
        ),
        (grown, "plan::overlong", "265 bytes"),
        (flipped, "plan::changed", "its BLAKE3 is"),
        (other_version, "plan::changed", "m.plan.json"),
        (foreign, "plan::not_a_plan", "it looks like an ONNX model"),
        (empty, "plan::not_a_plan", "it is empty"),
    ];
    for (change, code, words) in cases {
        let error = open(&folder(change, |_| ())).unwrap_err();
        let found = miette::Diagnostic::code(&error).unwrap().to_string();
        assert_eq!(found, code, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(miette::Diagnostic::help(&error).is_some());
        assert_eq!(error.kind(), ErrorKind::BadInput);
    }
}

#[test]
fn a_manifest_that_contradicts_the_plan_is_refused() {
    let contradictions: [(&str, Value, &str); 2] = [
        ("sdk_version", json!("1.7.2"), "TensorRT-RTX 1.7.1.116 of itself"),
        ("sdk", json!("TensorRT"), "says TensorRT 1.7.1.116"),
    ];
    for (field, value, words) in contradictions {
        let error = open(&folder(|_| (), |manifest| manifest[field] = value.clone())).unwrap_err();
        assert!(matches!(error, PlanError::Contradiction { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn alone_a_plan_only_opens_where_that_is_allowed() {
    let folder = folder(|_| (), |_| ());
    fs::remove_file(folder.path().join("m.plan.json")).unwrap();
    let error = open(&folder).unwrap_err();
    assert!(matches!(error, PlanError::NoManifest { .. }), "{error}");
    assert!(error.to_string().contains("`m.plan.json`"), "{error}");
    let plan = PlanFile::open_alone(&folder.path().join("m.plan")).unwrap();
    assert!(plan.manifest().is_none());
    let host = |version: &str| Host {
        sdk: Sdk::TensorRtRtx,
        part: Part::Builder,
        version: version.to_owned().try_into().unwrap(),
        gpu: None,
    };
    plan.check_host(host("1.7.1.116")).unwrap();
    // Its own header is enough to know that another version cannot run it.
    let error = plan.check_host(host("1.8.0.5")).unwrap_err();
    assert!(matches!(error, PlanError::OtherVersion { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Missing);
}

#[test]
fn the_gpu_of_the_manifest_is_asked_for() {
    let folder = folder(|_| (), |_| ());
    let plan = open(&folder).unwrap();
    let turing = Gpu {
        name: "NVIDIA T4".to_owned(),
        compute_capability: "7.5".to_owned(),
        memory_bytes: 16 << 30,
    };
    let host = Host {
        sdk: Sdk::TensorRtRtx,
        part: Part::Builder,
        version: "1.7.1.116".to_owned().try_into().unwrap(),
        gpu: Some(&turing),
    };
    let error = plan.check_host(host).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the plan runs on compute capability 8.0 or higher, and the GPU here is NVIDIA T4 (compute capability 7.5)"
    );
    let ampere = Gpu { compute_capability: "8.6".to_owned(), ..turing.clone() };
    assert!(plan.check_host(Host { gpu: Some(&ampere), ..host }).unwrap().is_empty());
}

#[test]
fn folders_devices_and_absent_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    for (path, words) in [
        (folder.path().to_owned(), "folder"),
        (PathBuf::from("/dev/zero"), "no regular file"),
        (folder.path().join("none.plan"), "No such file"),
    ] {
        let error = PlanFile::open(&path).unwrap_err();
        assert!(matches!(error, PlanError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}
