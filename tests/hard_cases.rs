//! More faults that people met in public: memory, outliers, stale tables, branches, models that are quantized already,
//! external weights, padding. As `cases.rs`, and skipped with a word where `../shared/cases` is not there.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use support::{Feed, Workspace, case, distance, trtforge};

/// A profile whose evaluation rows are the calibration rows with made-up labels, for cases without labels.
fn unlabelled(folder: &Path, model: &str, rows: &str) -> Workspace {
    let mut workspace = Workspace::over(folder, model, rows, rows);
    workspace.label(&folder.join(rows));
    workspace
}

fn calibrate(workspace: &Workspace) -> Json {
    let table = workspace.folder.path().join("table.json");
    workspace.run("calibrate", &["-o", table.to_str().unwrap(), "--quiet"]).expect(0);
    serde_json::from_str(&fs::read_to_string(table).unwrap()).unwrap()
}

#[test]
fn b01_memory_does_not_grow_with_the_rows() {
    let Some(folder) = case("B01") else { return };
    let peak_once = |rows: &str, samples: usize| {
        let mut workspace = Workspace::over(&folder, "model.onnx", rows, rows);
        workspace.set("/data/calibration/samples", json!(samples));
        let table = workspace.folder.path().join("table.json");
        let ran = workspace
            .run("calibrate", &["-o", table.to_str().unwrap(), "--quiet", "--json"])
            .expect(0)
            .json();
        assert_eq!(ran["rows"], json!(samples));
        ran["peak_rss_mib"].as_f64().expect("the system tells")
    };
    // What the allocator happens to hold differs by a few MiB from run to run, so the least of some runs is compared.
    let peak = |rows: &str, samples: usize| {
        (0..4).map(|_| peak_once(rows, samples)).fold(f64::INFINITY, f64::min)
    };
    let (small, large) = (peak("calib_400.jsonl", 400), peak("calib_4000.jsonl", 4000));
    assert!(large <= 1.25 * small, "{large} MiB against {small} MiB");
}

#[test]
fn b02_rows_of_any_length_calibrate() {
    let Some(folder) = case("B02") else { return };
    let limits: Json =
        serde_json::from_str(&fs::read_to_string(folder.join("absmax.json")).unwrap()).unwrap();
    let mut tables = Vec::new();
    for batch in [1, 4] {
        let mut workspace = Workspace::over(&folder, "model.onnx", "calib.jsonl", "calib.jsonl");
        workspace.set("/calibrate/batch_size", json!(batch));
        let table = calibrate(&workspace);
        for (tensor, calibration) in table["tensors"].as_object().unwrap() {
            let scale = calibration["scale"].as_f64().unwrap();
            let limit =
                limits[tensor].as_f64().unwrap_or_else(|| panic!("{tensor} is not in absmax.json"));
            assert!(scale > 0.0 && scale <= limit / 127.0 * 1.02, "{tensor}: {scale}");
        }
        tables.push(table);
    }
    assert_eq!(tables[0], tables[1]);
}

#[test]
fn b06_an_outlier_word_is_clipped_and_the_gate_is_honest() {
    let Some(folder) = case("B06") else { return };
    for (model, rows) in
        [("model_rare.onnx", "eval_rare.jsonl"), ("model_channel.onnx", "eval_channel.jsonl")]
    {
        let mut workspace = Workspace::over(&folder, model, "calib.jsonl", rows);
        workspace.set("/data/calibration/samples", json!(256));
        workspace.set("/gate/max_drop", json!(0.02));
        let ran = workspace.run("build", &["--quiet", "--backend", "none"]);
        let run = workspace.read("run.json");
        let int8 = &run["precisions"]["int8"];
        let drop = int8["verdict"]["drop"].as_f64().unwrap();
        assert_eq!(run["precisions"]["fp32"]["evaluation"]["value"], json!(1.0), "{model}");
        assert_eq!(ran.code, i32::from(drop > 0.02), "{model}: drop {drop}");
        let table = workspace.read("calibration.json");
        for (tensor, calibration) in table["tensors"].as_object().unwrap() {
            let number = |key: &str| calibration[key].as_f64().unwrap();
            assert!(
                number("threshold") > 0.0 && number("threshold") <= number("absmax"),
                "{tensor}"
            );
        }
        if model == "model_rare.onnx" {
            let tensor = "/bert/encoder/layer.0/intermediate/intermediate_act_fn/Mul_1_output_0";
            let calibration = &table["tensors"][tensor];
            let share = calibration["threshold"].as_f64().unwrap()
                / calibration["absmax"].as_f64().unwrap();
            assert!(share <= 0.5, "{share}");
            assert!(int8["evaluation"]["value"].as_f64().unwrap() >= 0.97);
        }
    }
}

#[test]
fn b06_smoothing_takes_the_outlier_channel() {
    let Some(folder) = case("B06") else { return };
    let shift = |smooth: f64| {
        let mut workspace =
            Workspace::over(&folder, "model_channel.onnx", "calib.jsonl", "eval_channel.jsonl");
        workspace.set("/data/calibration/samples", json!(256));
        workspace.set("/quantize/smooth", json!(smooth));
        workspace.set("/gate/max_drop", json!(0.5));
        workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
        workspace.read("run.json")["precisions"]["int8"]["logit_shift"]["mean"].as_f64().unwrap()
    };
    let (plain, smoothed) = (shift(0.0), shift(0.8));
    assert!(smoothed < 0.75 * plain, "{smoothed} against {plain}");
}

#[test]
fn b09_a_table_serves_its_own_model_only() {
    let Some(folder) = case("B09") else { return };
    let table = unlabelled(&folder, "model_a.onnx", "calib.jsonl");
    let path = table.folder.path().join("a.json");
    table.run("calibrate", &["-o", path.to_str().unwrap(), "--quiet"]).expect(0);
    let build = |model: &str| {
        let mut workspace = unlabelled(&folder, model, "calib.jsonl");
        workspace.set("/calibrate/table", json!(path));
        workspace.run("build", &["--quiet", "--stop-after", "quantize"])
    };
    build("copy_of_a.onnx").expect(0);
    build("model_b.onnx").expect(2).says(&["model"]);
}

#[test]
fn b22_both_branches_agree() {
    let Some(folder) = case("B22") else { return };
    let workspace = unlabelled(&folder, "model.onnx", "calib.jsonl");
    workspace.run("build", &["--quiet"]).expect(0);
    let model = |precision: &str| workspace.output(&format!("onnx/m.{precision}.onnx"));
    for (feed, precision, bound) in [
        ("feed_else.json", "fp16", 0.05),
        ("feed_then.json", "fp16", 0.05),
        ("feed_then.json", "int8", 0.2),
    ] {
        let feed = Feed::open(&folder.join(feed));
        let moved = distance(&feed.logits(&model(precision)), &feed.expected());
        assert!(moved <= bound, "{precision}: {moved}");
    }
}

#[test]
fn b27_what_is_quantized_already_is_refused_by_name() {
    let Some(folder) = case("B27") else { return };
    for (model, words) in [
        ("model_uint8.onnx", ["already quant", "128"]),
        ("model_dynamic.onnx", ["already quant", "DynamicQuantizeLinear"]),
        ("model_int8.onnx", ["already quant", "QuantizeLinear"]),
    ] {
        unlabelled(&folder, model, "calib.jsonl").run("build", &["--quiet"]).expect(2).says(&words);
        trtforge(&["check", folder.join(model).to_str().unwrap()]).expect(2).says(&words);
    }
}

#[test]
fn b30_external_weights_are_found_beside_the_model_and_nowhere_else() {
    let Some(folder) = case("B30") else { return };
    let workspace = unlabelled(&folder, "good/model.onnx", "calib.jsonl");
    workspace.run("build", &["--quiet"]).expect(0);
    let feed = Feed::open(&folder.join("feed.json"));
    assert!(
        distance(&feed.logits(&workspace.output("onnx/m.fp16.onnx")), &feed.expected()) <= 0.05
    );
    for (model, word) in [
        ("missing", "model.onnx.data"),
        ("truncated", "model.onnx.data"),
        ("escape", ".."),
        ("absolute", "absolute"),
    ] {
        let workspace = unlabelled(&folder, &format!("{model}/model.onnx"), "calib.jsonl");
        workspace.run("build", &["--quiet"]).expect(2).says(&[word]);
    }
}

#[test]
fn b37_results_do_not_depend_on_padding() {
    let Some(folder) = case("B37") else { return };
    let workspace = Workspace::over(&folder, "model.onnx", "calib.jsonl", "eval.jsonl");
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
    let int8 = workspace.output("onnx/m.int8.onnx");
    let feeds = ["feed_pad16.json", "feed_pad32.json", "feed_pad64.json"]
        .map(|name| Feed::open(&folder.join(name)));
    for (model, bound) in [(folder.join("model.onnx"), 1e-4), (int8, 0.02)] {
        let logits = feeds.each_ref().map(|feed| feed.logits(&model));
        for other in &logits[1..] {
            assert!(distance(&logits[0], other) <= bound, "{}", model.display());
        }
    }
    let accuracy = |padding: &str| {
        let mut workspace = Workspace::over(&folder, "model.onnx", "calib.jsonl", "eval.jsonl");
        workspace.set("/evaluate/padding", json!(padding));
        workspace.run("evaluate", &["--quiet", "--json"]).expect(0).json()["value"].clone()
    };
    assert_eq!((accuracy("longest"), accuracy("max_length")), (json!(1.0), json!(1.0)));
}

#[test]
fn b50_the_runs_own_length_and_padding_win() {
    let Some(folder) = case("B50") else { return };
    for tokenizer in
        ["tokenizer.json", "tokenizer_pad64.json", "tokenizer_pad128.json", "tokenizer_trunc8.json"]
    {
        let mut workspace = Workspace::over(&folder, "model.onnx", "eval.jsonl", "eval.jsonl");
        workspace.set("/model/tokenizer", json!(folder.join(tokenizer)));
        let evaluation = workspace.run("evaluate", &["--quiet", "--json"]).expect(0).json();
        assert_eq!(evaluation["value"], json!(1.0), "{tokenizer}");
    }
}

#[test]
fn b57_the_padding_is_stated() {
    let Some(folder) = case("B57") else { return };
    let mut workspace = Workspace::over(&folder, "model.onnx", "eval.jsonl", "eval.jsonl");
    workspace.set("/evaluate/batch_size", json!(8));
    let shapes = workspace.run("shapes", &["--json", "--quiet"]).expect(0).json();
    let wasted: Vec<f64> = shapes["padding"]
        .as_array()
        .unwrap()
        .iter()
        .map(|figure| {
            1.0 - figure["real_tokens"].as_f64().unwrap()
                / figure["padded_tokens"].as_f64().unwrap()
        })
        .collect();
    for (found, expected) in wasted.iter().zip([0.800_781_25, 0.613_636_36, 0.346_153_85]) {
        assert!((found - expected).abs() < 1e-4, "{wasted:?}");
    }
}
