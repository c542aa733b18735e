//! The shared example models: all open, check, rewrite and save; the broken ones say what is wrong.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use trtforge_onnx::{
    Dim, Model, Patch, SaveOptions, attr, convert_opset, is_op, minimum_ir_version,
};

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

fn outputs(model: &Model) -> BTreeSet<&str> {
    model.graph_proto().node.iter().flat_map(|n| &n.output).map(String::as_str).collect()
}

#[test]
fn every_model_rises_to_a_newer_operator_set() {
    // Operators whose attributes of these names became inputs; none may be left.
    let gone = [
        ("ReduceMean", "axes"),
        ("ReduceSum", "axes"),
        ("Unsqueeze", "axes"),
        ("Squeeze", "axes"),
        ("Split", "split"),
    ];
    for path in good_models() {
        let model = Model::open(&path).unwrap();
        for target in [19, 21] {
            let converted = convert_opset(&model, target).unwrap();
            assert_eq!(converted.opset(), target.max(model.opset()));
            assert!(converted.proto().ir_version() >= minimum_ir_version(target));
            assert!(outputs(&converted).is_superset(&outputs(&model)), "{}", path.display());
            assert_eq!(converted.graph_proto().initializer, model.graph_proto().initializer);
            assert_eq!(converted.graph().inputs(), model.graph().inputs());
            for node in converted.graph().nodes() {
                let old = gone
                    .iter()
                    .find(|(op, attribute)| is_op(node, op) && attr(node, attribute).is_some());
                assert_eq!(old, None, "{}", path.display());
                assert!(
                    !is_op(node, "Flatten"),
                    "every softmax here is over the last axis, so none is flattened"
                );
            }
        }
    }
}

#[test]
fn every_tensor_of_the_base_models_has_a_shape() {
    for path in good_models().iter().filter(|p| p.parent().unwrap().ends_with("BASE")) {
        let model = Model::open(path).unwrap();
        let graph = model.graph();
        for node in graph.nodes() {
            let shape =
                graph.shape(&node.output[0]).unwrap_or_else(|| panic!("{}", node.output[0]));
            if is_op(node, "Softmax") {
                // [batch, heads, queries, keys]
                assert_eq!(
                    (shape.len(), shape[1].clone()),
                    (4, Dim::Fixed(4)),
                    "{}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn weights_among_the_inputs() {
    let Some(folder) = cases() else { return };
    for (file, ir) in [("model_ir3.onnx", 6), ("model_ir6.onnx", 6), ("model_ir7_first.onnx", 7)] {
        let model = Model::open(&folder.join("B31").join(file)).unwrap();
        assert_eq!(model.graph_proto().input.len(), 45);
        let names: Vec<_> = model.graph().inputs().into_iter().map(|i| i.name).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        let mut patch = Patch::new(&model);
        patch.remove_inputs_that_are_initializers();
        let clean = patch.finish().unwrap();
        assert_eq!((clean.graph_proto().input.len(), clean.proto().ir_version()), (3, ir));
    }
}

#[test]
fn external_weights() {
    let Some(folder) = cases() else { return };
    let open = |name: &str| Model::open(&folder.join("B30").join(name).join("model.onnx"));
    let model = open("good").unwrap();
    model.check().unwrap();
    let target = tempfile::tempdir().unwrap();
    // Written in one file, and again with a data file: both are the same model, complete by themselves.
    for (file, external_above) in [("one.onnx", u64::MAX), ("two.onnx", 100_000)] {
        let path = target.path().join(file);
        let written = model.save_with(&path, &SaveOptions { external_above }).unwrap();
        assert_eq!(written.data.is_some(), file == "two.onnx");
        assert_eq!(Model::open(&path).unwrap().fingerprint(), model.fingerprint());
    }
    for (name, parts) in [
        ("missing", ["model.onnx.data", "word_embeddings"]),
        ("truncated", ["model.onnx.data", "177024 bytes"]),
        ("escape", ["../good/model.onnx.data", "outside"]),
        ("absolute", ["absolute path", "word_embeddings"]),
    ] {
        let message = open(name).unwrap_err().to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    // A symbolic link where links survived the copy, else its text: works, or says so.
    if let Err(error) = open("linked") {
        assert!(error.to_string().contains("as a symbolic link does"), "{error}");
    }
}
