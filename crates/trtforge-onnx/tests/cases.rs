//! The shared example models: all open, check, rewrite and save; the broken ones say what is wrong.

use std::path::{Path, PathBuf};

use trtforge_onnx::{Model, Patch};

fn cases() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: the shared cases are not beside this checkout");
    None
}

fn models_below(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            models_below(&path, into);
        } else if path.extension().is_some_and(|e| e == "onnx") {
            into.push(path);
        }
    }
}

/// Models that must be refused (external data missing, outside, cut).
fn is_broken(path: &Path) -> bool {
    ["absolute", "escape", "linked", "missing", "truncated"]
        .iter()
        .any(|part| path.parent().unwrap().ends_with(part))
}

fn good_models() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some(folder) = cases() {
        models_below(&folder, &mut paths);
    }
    paths.retain(|p| !is_broken(p));
    paths
}

#[test]
fn every_tensor_of_every_model_has_a_type() {
    for path in good_models() {
        let model = Model::open(&path).unwrap();
        model.check().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let graph = model.graph();
        for node in graph.nodes() {
            for output in node.output.iter().filter(|o| !o.is_empty()) {
                assert!(graph.element_type(output).is_some(), "{}: {output}", path.display());
            }
        }
    }
}

#[test]
fn an_empty_patch_changes_nothing() {
    for path in good_models() {
        let model = Model::open(&path).unwrap();
        let same = Patch::new(&model).finish().unwrap();
        if path.ends_with("model_ir3.onnx") {
            // IR 3 carries operator set 11 here, which needs IR 6.
            assert_eq!(same.proto().ir_version(), 6);
        } else {
            assert_eq!(model.proto(), same.proto(), "{}", path.display());
            assert_eq!(model.fingerprint(), same.fingerprint());
        }
    }
}
