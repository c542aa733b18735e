//! `method: auto` and `smooth: auto` end to end: what is recorded, what it does not depend on, and outliers.

#[path = "support/mod.rs"]
mod support;

use std::fs;

use serde_json::{Value as Json, json};
use support::{Workspace, trtforge};
use trtforge_onnx::build::tensor_f32;
use trtforge_onnx::{ElementType, Model, Patch};

/// A tiny workspace that leaves method and smoothing open.
fn auto() -> Workspace {
    let mut workspace = Workspace::tiny();
    workspace.set("/calibrate/method", json!("auto"));
    workspace.set("/quantize/smooth", json!("auto"));
    workspace.set("/quantize/level", json!("attention"));
    workspace.set("/engine/backend", json!("none"));
    workspace
}

/// Calibrates and gives the table.
fn table(workspace: &Workspace, more: &[&str]) -> (Json, String) {
    let path = workspace.folder.path().join("table.json");
    let arguments = [&["-o", path.to_str().unwrap()], more].concat();
    let ran = workspace.run("calibrate", &arguments).expect(0);
    (serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap(), ran.stderr)
}

fn shift(tried: &Json) -> f64 {
    tried["shift"].as_f64().expect("a shift is a number")
}

#[test]
fn what_was_compared_is_recorded_and_the_least_is_chosen() {
    let workspace = auto();
    workspace.run("build", &[]).expect(0);
    let table = workspace.read("calibration.json");
    let search = &table["search"];
    // 40 rows: every second one is kept aside.
    assert_eq!(search["held_out"].as_str().unwrap().split(',').count(), 20, "{search}");
    assert_eq!(
        (&table["options"]["method"], &table["options"]["samples"]),
        (&json!("auto"), &json!(40))
    );
    let strengths = search["strengths"].as_array().unwrap();
    let methods = search["methods"].as_array().unwrap();
    assert_eq!((strengths.len(), methods.len()), (14, 6));
    let least = |tried: &[Json]| tried.iter().map(shift).fold(f64::INFINITY, f64::min);
    let strength = table["options"]["smooth"].as_f64().unwrap_or(0.0);
    let at = |strength: f64| -> Vec<Json> {
        strengths.iter().filter(|t| t["strength"] == json!(strength)).cloned().collect()
    };
    assert!(strength == 0.0 || least(&at(strength)) == least(strengths), "{search}");
    // The final choice is the best method's, or better.
    assert!(search["shift"].as_f64().unwrap() <= least(methods), "{search}");
    for (name, tensor) in table["tensors"].as_object().unwrap() {
        let method = tensor["method"].as_str().unwrap();
        assert!(methods.iter().any(|tried| tried["method"] == method), "{name}: {method}");
    }
    let run = workspace.read("run.json");
    let recorded = &run["calibration"]["search"];
    assert_eq!((&recorded["rows"], recorded["tried"].as_array().unwrap().len()), (&json!(20), 20));
    let chosen = |t: &&Json| t["chosen"] == json!(true);
    assert!(recorded["tried"].as_array().unwrap().iter().filter(chosen).count() >= 1);
    let report = fs::read_to_string(workspace.output("report.md")).unwrap();
    assert!(report.contains("on 20 calibration rows kept aside"), "{report}");
    let page = fs::read_to_string(workspace.output("report.html")).unwrap();
    assert!(page.contains("kept aside"));
    // A table that was searched for fits a profile that searches: nothing is overruled.
    let mut second = auto();
    let path = workspace.output("calibration.json");
    second.set("/model/onnx", workspace.profile["model"]["onnx"].clone());
    second.set("/calibrate/table", json!(path));
    let ran = second.run("check", &[]).expect(0);
    assert!(!ran.stderr.contains("is not used"), "{}", ran.stderr);
}

#[test]
fn the_choice_does_not_depend_on_the_batches_or_threads() {
    let mut workspace = auto();
    let (first, _) = table(&workspace, &["--quiet"]);
    // What was chosen is said, with what speaks for it.
    let path = workspace.folder.path().join("said.json");
    let said = workspace.run("calibrate", &["-o", path.to_str().unwrap(), "--json"]).expect(0);
    let (auto, chosen) = (&said.json()["auto"], &first["search"]["chosen"]);
    assert_eq!((&auto["method"], &auto["smooth"]), (&chosen["method"], &chosen["smooth"]));
    assert_eq!(auto["shift"], first["search"]["shift"]);
    let of = |tried: &&Json| tried["method"] == chosen["method"];
    let tried = first["search"]["methods"].as_array().unwrap().iter().find(of).unwrap();
    assert_eq!(auto["method_shift"], tried["shift"]);
    let least = first["search"]["methods"].as_array().unwrap().iter().map(shift);
    assert_eq!(shift(tried), least.fold(f64::INFINITY, f64::min), "{auto}");
    let said = workspace.run("calibrate", &["-o", path.to_str().unwrap()]).expect(0).stdout;
    let words = format!("auto chose method {} (shift ", chosen["method"].as_str().unwrap());
    assert!(said.contains(&words) && said.contains("20 rows kept aside"), "{said}");
    workspace.set("/calibrate/batch_size", json!(3));
    let (other, _) = table(&workspace, &["--quiet"]);
    assert_eq!(first, other);
    let path = workspace.folder.path().join("one.json");
    let profile = workspace.write();
    let arguments = ["calibrate", &profile, "-o", path.to_str().unwrap(), "--quiet"];
    support::trtforge_with(&arguments, |command| command.env("RAYON_NUM_THREADS", "1")).expect(0);
    assert_eq!(serde_json::from_str::<Json>(&fs::read_to_string(path).unwrap()).unwrap(), first);
}

#[test]
fn too_few_rows_are_warned_of_and_the_defaults_serve() {
    let mut workspace = auto();
    workspace.set("/data/calibration/samples", json!(31));
    let (few, said) = table(&workspace, &[]);
    assert!(
        said.contains("needs 32 calibration rows; with 31 it stands for method entropy"),
        "{said}"
    );
    assert!(few.get("search").is_none(), "{few}");
    workspace.set("/calibrate/method", json!("entropy"));
    workspace.set("/quantize/smooth", json!(0));
    assert_eq!(table(&workspace, &["--quiet"]).0, few);
    // One row more is enough, and the half of them is kept aside.
    workspace.set("/calibrate/method", json!("auto"));
    workspace.set("/data/calibration/samples", json!(32));
    let (enough, said) = table(&workspace, &[]);
    assert!(!said.contains("needs 32"), "{said}");
    assert_eq!(enough["search"]["held_out"].as_str().unwrap().split(',').count(), 16);
    assert_eq!(enough["search"].get("strengths"), None);
}

#[test]
fn a_fixed_method_can_search_its_strength() {
    let mut workspace = auto();
    workspace.set("/calibrate/method", json!("minmax"));
    let (found, _) = table(&workspace, &["--quiet"]);
    assert_eq!(
        (&found["options"]["method"], found["search"].get("methods")),
        (&json!("minmax"), None)
    );
    let strengths = found["search"]["strengths"].as_array().unwrap();
    assert!(strengths.len() == 7 && strengths.iter().all(|tried| tried["method"] == "minmax"));
}

#[test]
fn shards_cannot_search() {
    let workspace = auto();
    let profile = workspace.write();
    let part = workspace.folder.path().join("a.part").display().to_string();
    trtforge(&["calibrate", &profile, "--shard", "1/2", "-o", &part])
        .expect(2)
        .says(&["kept aside", "samples=512"]);
}

#[test]
fn what_is_neither_a_number_nor_auto_is_refused() {
    for wrong in [json!("automatic"), json!(1.5), json!(-0.1)] {
        let mut workspace = Workspace::tiny();
        workspace.set("/quantize/smooth", wrong.clone());
        let ran = workspace.run("check", &[]).expect(2);
        ran.says(&["quantize.smooth"]);
    }
}

/// Ten channels of V and so of the attention's context fifty times their size, and what reads them a fiftieth: FP32 stays.
fn with_outlier_channels(workspace: &mut Workspace) {
    let path = workspace.folder.path().join("model.onnx");
    let model = Model::open(&path).unwrap();
    let mut patch = Patch::new(&model);
    let graph = model.graph();
    let hidden = graph.initializer("value.bias").unwrap().len();
    let factor = |channel: usize| if channel % 3 == 1 && channel < 30 { 50.0 } else { 1.0 };
    let mut scale = |name: &str, factor: &dyn Fn(usize) -> f32| {
        let tensor = graph.initializer(name).unwrap_or_else(|| panic!("{name} is a weight"));
        let values = tensor.to_f32().unwrap();
        let scaled: Vec<f32> = values.iter().enumerate().map(|(i, x)| x * factor(i)).collect();
        let dims =
            if scaled.len() == hidden { vec![hidden as i64] } else { vec![hidden as i64; 2] };
        let made = tensor_f32(name, &dims, &scaled);
        patch.set_initializer(name, ElementType::F32, dims, made.raw_data().to_vec());
    };
    scale("value.weight", &|i| factor(i % hidden));
    scale("value.bias", &factor);
    scale("attention.weight", &|i| 1.0 / factor(i / hidden));
    patch.finish().unwrap().save(&path).unwrap();
    workspace.set("/model/onnx", json!(path));
}

/// Mean logit shift of INT8 against FP32 on the evaluation rows, and the share of rows answered alike.
fn int8(workspace: &Workspace) -> (f64, f64) {
    workspace.run("build", &["--quiet", "--stop-after", "judge"]);
    let int8 = &workspace.read("run.json")["precisions"]["int8"];
    let flips = &int8["verdict"]["flips"];
    let flipped =
        ["to_wrong", "to_right", "wrong_to_wrong"].map(|way| flips[way].as_u64().unwrap());
    let rows = int8["evaluation"]["count"].as_u64().unwrap();
    let alike = 1.0 - flipped.iter().sum::<u64>() as f64 / rows as f64;
    (int8["logit_shift"]["mean"].as_f64().unwrap(), alike)
}

#[test]
fn ten_channels_fifty_times_as_large_cost_auto_less_than_half_of_what_they_cost_min_max() {
    let mut workspace = auto();
    with_outlier_channels(&mut workspace);
    workspace.set("/precisions", json!(["int8"]));
    let (shift, alike) = int8(&workspace);
    workspace.set("/quantize/smooth", json!(0));
    workspace.set("/calibrate/method", json!("minmax"));
    let (min_max_shift, min_max_alike) = int8(&workspace);
    eprintln!("auto {shift:.4} {alike:.3}, min-max {min_max_shift:.4} {min_max_alike:.3}");
    assert!(alike >= 0.98, "{alike}");
    assert!(shift < 0.5 * min_max_shift, "auto {shift}, min-max {min_max_shift}");
}

/// Accuracy of INT8 on a model of B06; its rows are labelled by the FP32 model, whose accuracy is 1.
fn accuracy_on_b06(case: &std::path::Path, model: &str, (method, smooth): (&str, Json)) -> f64 {
    let mut workspace = Workspace::over(
        case,
        &format!("model_{model}.onnx"),
        "calib.jsonl",
        &format!("eval_{model}.jsonl"),
    );
    workspace.set("/data/calibration/samples", json!(256));
    workspace.set("/precisions", json!(["int8"]));
    workspace.set("/engine/backend", json!("none"));
    workspace.set("/quantize", json!({ "level": "attention", "smooth": smooth }));
    workspace.set("/calibrate/method", json!(method));
    workspace.run("build", &["--quiet", "--stop-after", "judge"]);
    let evaluation = &workspace.read("run.json")["precisions"]["int8"]["evaluation"];
    assert_eq!(evaluation["count"], 96);
    evaluation["value"].as_f64().unwrap()
}

#[test]
fn outliers_of_b06_cost_entropy_and_auto_no_answers() {
    let Some(case) = support::case("B06") else { return };
    for model in ["channel", "rare"] {
        for choice in [("entropy", json!(0)), ("auto", json!(0)), ("auto", json!("auto"))] {
            let accuracy = accuracy_on_b06(&case, model, choice.clone());
            assert!(accuracy >= 0.98, "{model} {choice:?}: {accuracy}");
        }
    }
    // Where min-max keeps a word that one row in 64 has, and loses the others.
    let min_max = accuracy_on_b06(&case, "rare", ("minmax", json!(0)));
    assert!(min_max < 0.98, "{min_max}");
}
