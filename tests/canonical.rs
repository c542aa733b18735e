//! The canonical form as a user meets it: in the record, in `check` and `inspect`, in patterns, and turned off.

#[path = "support/mod.rs"]
mod support;

use std::fs;

use serde_json::{Value as Json, json};
use support::{Workspace, trtforge};
use trtforge_onnx::Model;

fn count(workspace: &Workspace, graph: &str, operator: &str) -> usize {
    let model = Model::open(&workspace.output(graph)).unwrap();
    model.graph_proto().node.iter().filter(|node| node.op_type() == operator).count()
}

fn outcome(record: &Json, stage: &str) -> String {
    let stages = record["stages"].as_array().unwrap();
    let found = stages.iter().find(|s| s["name"] == stage).unwrap();
    found["outcome"].as_str().unwrap().to_owned()
}

#[test]
fn every_stage_works_on_it_unless_it_is_turned_off() {
    let mut workspace = Workspace::tiny();
    let build = |workspace: &Workspace| {
        workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
        workspace.read("run.json")
    };
    let record = build(&workspace);
    let form = &record["canonical"];
    assert_eq!(form["counts"]["gelu_fused"], 1, "{form}");
    assert_eq!(form["opset_after"], 20);
    let rewrites = form["rewrites"].as_array().unwrap();
    let fused = rewrites.iter().find(|rewrite| rewrite["kind"] == "gelu_fused").unwrap();
    assert_eq!((&fused["tensor"], fused["nodes"].as_array().unwrap().len()), (&json!("gelu"), 5));
    for graph in ["onnx/m.fp16.onnx", "onnx/m.int8.onnx"] {
        assert_eq!((count(&workspace, graph, "Gelu"), count(&workspace, graph, "Erf")), (1, 0));
    }
    let report = |name: &str| fs::read_to_string(workspace.output(name)).unwrap();
    assert!(report("report.md").contains("Canonical form: "), "{}", report("report.md"));
    assert!(report("report.html").contains("The graph it starts from"));
    workspace.set("/model/canonical", json!(false));
    let record = build(&workspace);
    assert_eq!(record["canonical"], Json::Null);
    assert_eq!(outcome(&record, "calibrate"), "ran", "a table of the other form does not serve");
    assert_eq!(count(&workspace, "onnx/m.fp16.onnx", "Erf"), 1);
}

#[test]
fn a_pattern_that_names_what_was_fused_is_told() {
    let mut workspace = Workspace::tiny();
    workspace.set("/quantize", json!({ "skip": ["/erf"] }));
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
    let warnings = workspace.read("run.json")["warnings"].to_string();
    assert!(warnings.contains("is part of the Gelu that makes `gelu`"), "{warnings}");
    workspace.set("/quantize", json!({ "skip": ["/erff"] }));
    workspace.run("check", &["--set", "engine.backend=none"]).expect(2).says(&["/erff"]);
}

#[test]
fn check_and_inspect_tell_it() {
    let workspace = Workspace::tiny();
    let model = workspace.folder.path().join("model.onnx").display().to_string();
    for command in ["check", "inspect"] {
        let shown = trtforge(&[command, &model]).expect(0).stdout;
        assert!(shown.contains("canonical form:") && shown.contains("1 GELU fused"), "{shown}");
        let told = trtforge(&[command, &model, "--json"]).expect(0).json();
        assert_eq!(told["canonical"]["counts"]["gelu_fused"], 1, "{command}: {told}");
        assert_eq!(told["canonical"]["near_misses"], json!([]), "{command}");
    }
    let told = workspace.run("check", &["--json", "--set", "engine.backend=none"]).expect(0).json();
    assert_eq!(told["canonical"]["counts"]["gelu_fused"], 1, "{told}");
}
