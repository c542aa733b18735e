//! Faults that people met in public, end to end through the real binary. The inputs lie beside the repository in
//! `../shared/cases`; where they are not, each test says that it was skipped. `build.rs` covers the same ground on a
//! model made by the tests themselves.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use support::{Feed, Ran, Workspace, case, distance, trtforge};

/// The usual profile over a case.
fn workspace(folder: &Path, model: &str) -> Workspace {
    let first = |names: &[&str]| {
        names
            .iter()
            .find(|name| folder.join(name).exists())
            .map_or("calib.jsonl", |name| *name)
            .to_owned()
    };
    let evaluation = first(&["eval.jsonl", "eval_rare.jsonl", "calib.jsonl"]);
    let calibration = first(&["calib.jsonl", "calib_mixed.jsonl", "eval.jsonl"]);
    let mut workspace = Workspace::over(folder, model, &calibration, &evaluation);
    if !folder.join("eval.jsonl").exists() {
        workspace.label(&folder.join(&calibration));
    }
    workspace
}

fn onnx(workspace: &Workspace, precision: &str) -> std::path::PathBuf {
    workspace.output(&format!("onnx/m.{precision}.onnx"))
}

fn decisions<'r>(run: &'r Json, precision: &str, action: &str) -> Vec<&'r Json> {
    let all = run["decisions"].as_array().expect("a run has decisions").iter();
    all.filter(|d| d["precision"] == precision && d["action"] == action).collect()
}

/// Every scale is positive and finite, no threshold is beyond what was seen.
fn assert_scales_are_sane(workspace: &Workspace) {
    let table = workspace.read("calibration.json");
    for (name, tensor) in table["tensors"].as_object().unwrap() {
        let number = |key: &str| tensor[key].as_f64().unwrap_or_else(|| panic!("{name}.{key}"));
        assert!(number("scale") > 0.0 && number("scale").is_finite(), "{name}");
        assert!(number("threshold") <= number("absmax") * 1.000_001, "{name}");
    }
}

fn base(model: &str) {
    let Some(folder) = case("BASE") else { return };
    let mut workspace = workspace(&folder, model);
    // FP32 plans of the same models with three profiles: trtforge-tensorrt's `base_models_build_with_three_profiles`.
    let up_to = |min: u32, max: u32| json!({ "min": [1, min], "opt": [8, max], "max": [8, max] });
    workspace.set("/shapes", json!([up_to(1, 16), up_to(17, 32), up_to(33, 64)]));
    workspace.run("build", &["--quiet"]).expect(0);
    let run = workspace.read("run.json");
    assert_eq!(run["shapes"]["profiles"].as_array().unwrap().len(), 3);
    let feed = Feed::open(&folder.join("feed.json"));
    assert!(distance(&feed.logits(&folder.join(model)), &feed.expected()) <= 1e-4);
    let moved =
        |precision: &str| distance(&feed.logits(&onnx(&workspace, precision)), &feed.expected());
    let (half, int8) = (moved("fp16"), moved("int8"));
    assert!(half <= 0.05 && int8 <= 0.2, "fp16 {half}, int8 {int8}");
    assert_eq!(decisions(&run, "int8", "int8_weight").len(), 14);
    let accuracy =
        |precision: &str| run["precisions"][precision]["evaluation"]["value"].as_f64().unwrap();
    assert_eq!((accuracy("fp32"), accuracy("fp16")), (1.0, 1.0));
    assert!(accuracy("int8") >= 0.95, "{}", accuracy("int8"));
    assert_scales_are_sane(&workspace);
    for precision in ["fp16", "int8"] {
        let plan = run["precisions"][precision]["plan"].as_str().unwrap();
        assert_eq!(plan, format!("engines/m.{precision}.plan"));
        assert!(fs::metadata(workspace.output(plan)).unwrap().len() > 100_000);
        let plan = workspace.output(plan).display().to_string();
        let manifest = trtforge(&["inspect", "--json", &plan]).expect(0).json();
        assert_eq!(manifest["profiles"].as_array().unwrap().len(), 3, "{manifest}");
    }
}

macro_rules! base_models {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            base(concat!(stringify!($name), ".onnx"));
        }
    )*};
}

base_models!(
    old_opset11,
    old_opset11_const_reshape,
    ts_opset13,
    ts_opset14_fltmin,
    ts_opset17,
    ts_opset17_layernorm,
    ts_opset13_where_inf,
    ts_opset13_runtime_transpose,
    tf_opset13,
    dynamo_opset18,
    dynamo_opset21_gelu
);

/// Runs up to the graphs, which need no engine.
fn graphs(workspace: &Workspace) -> Ran {
    workspace.run("build", &["--quiet", "--stop-after", "quantize"])
}

fn scales(workspace: &Workspace) -> Json {
    workspace.read("calibration.json")["tensors"].clone()
}

#[test]
fn b05_the_mask_sentinel_widens_nothing() {
    let Some(folder) = case("B05") else { return };
    let absmax: Json =
        serde_json::from_str(&fs::read_to_string(folder.join("absmax.json")).unwrap()).unwrap();
    let mut seen: Vec<Json> = Vec::new();
    for model in ["model_fltmin.onnx", "model_where_inf.onnx", "model_m10000.onnx"] {
        let mut workspace = workspace(&folder, model);
        workspace.set("/calibrate/batch_size", json!(8));
        graphs(&workspace).expect(0);
        let scales = scales(&workspace);
        for (tensor, limit) in absmax.as_object().unwrap() {
            if let Some(scale) = scales[tensor]["scale"].as_f64() {
                assert!(scale <= limit.as_f64().unwrap() / 127.0 * 1.02, "{model}: {tensor}");
            }
        }
        assert_scales_are_sane(&workspace);
        let run = workspace.read("run.json");
        for decision in decisions(&run, "int8", "int8_activation") {
            let tensor = decision["tensor"].as_str().unwrap().to_lowercase();
            assert!(!tensor.contains("mask") && !tensor.contains("softmax"), "{tensor}");
        }
        let feed = Feed::open(&folder.join("feed.json"));
        assert!(
            distance(&feed.logits(&onnx(&workspace, "int8")), &feed.expected()) <= 0.2,
            "{model}"
        );
        seen.push(scales);
    }
    let values = |scales: &Json| -> Vec<f64> {
        scales
            .as_object()
            .unwrap()
            .values()
            .map(|tensor| tensor["scale"].as_f64().unwrap())
            .collect()
    };
    assert_eq!(values(&seen[0]), values(&seen[2]));
    assert_eq!(values(&seen[0]), values(&seen[1]));
}

#[test]
fn b07_the_table_does_not_depend_on_the_batch_size() {
    let Some(folder) = case("B07") else { return };
    for data in ["calib_equal.jsonl", "calib_mixed.jsonl"] {
        let mut tables = Vec::new();
        for batch in [1, 4, 48] {
            let mut workspace = workspace(&folder, "model.onnx");
            workspace.set("/data/calibration/path", json!(folder.join(data)));
            workspace.set("/calibrate/batch_size", json!(batch));
            let table = workspace.folder.path().join("table.json");
            workspace.run("calibrate", &["-o", table.to_str().unwrap(), "--quiet"]).expect(0);
            tables.push(fs::read(table).unwrap());
        }
        assert!(tables[0] == tables[1] && tables[1] == tables[2], "{data}: tables differ in bytes");
    }
    // Two runs with the same input give byte-identical models.
    let models: Vec<Vec<u8>> = (0..2)
        .map(|_| {
            let workspace = workspace(&folder, "model.onnx");
            graphs(&workspace).expect(0);
            fs::read(onnx(&workspace, "int8")).unwrap()
        })
        .collect();
    assert!(models[0] == models[1]);
}

#[test]
fn b11_ids_are_fed_in_the_type_the_graph_declares() {
    let Some(folder) = case("B11") else { return };
    let feed = Feed::open(&folder.join("feed.json"));
    let mut tables = Vec::new();
    for model in ["model_int32.onnx", "model_int64.onnx", "model_mixed.onnx"] {
        assert!(distance(&feed.logits(&folder.join(model)), &feed.expected()) <= 1e-4, "{model}");
        let workspace = workspace(&folder, model);
        workspace.run("build", &["--quiet"]).expect(0);
        assert_scales_are_sane(&workspace);
        tables.push(scales(&workspace));
    }
    assert!(tables[0] == tables[1] && tables[1] == tables[2]);
}

#[test]
fn b12_inputs_the_tokenizer_does_not_give() {
    let Some(folder) = case("B12") else { return };
    let feed = Feed::open(&folder.join("feed.json"));
    for model in
        ["model_3in.onnx", "model_2in.onnx", "model_position_ids.onnx", "model_segment_ids.onnx"]
    {
        let workspace = workspace(&folder, model);
        workspace.run("build", &["--quiet"]).expect(0);
        assert!(distance(&feed.logits(&folder.join(model)), &feed.expected()) <= 1e-4, "{model}");
        assert!(
            distance(&feed.logits(&onnx(&workspace, "fp16")), &feed.expected()) <= 0.05,
            "{model}"
        );
    }
}

#[test]
fn b14_mask_constants_beyond_fp16_give_no_nan() {
    let Some(folder) = case("B14") else { return };
    let feed = Feed::open(&folder.join("feed.json"));
    for model in ["model_fltmin.onnx", "model_1e12.onnx", "model_where_fltmin.onnx"] {
        let mut workspace = workspace(&folder, model);
        workspace.set("/precisions", json!(["fp16"]));
        workspace.run("build", &["--quiet"]).expect(0);
        let run = workspace.read("run.json");
        assert!(
            distance(&feed.logits(&onnx(&workspace, "fp16")), &feed.expected()) <= 0.05,
            "{model}"
        );
        assert_eq!(run["precisions"]["fp16"]["evaluation"]["value"], json!(1.0), "{model}");
        let warned = run["warnings"].as_array().unwrap().iter().any(|warning| {
            let text = warning.as_str().unwrap();
            text.contains("65504") || text.contains("FP16")
        });
        assert!(warned, "{model}: {}", run["warnings"]);
    }
}

#[test]
fn b15_layer_norm_statistics_stay_fp32() {
    let Some(folder) = case("B15") else { return };
    let feed = Feed::open(&folder.join("feed.json"));
    for model in ["model_decomposed.onnx", "model_layernorm_op.onnx"] {
        let mut workspace = workspace(&folder, model);
        workspace.set("/precisions", json!(["fp16"]));
        workspace.run("build", &["--quiet"]).expect(0);
        assert!(
            distance(&feed.logits(&onnx(&workspace, "fp16")), &feed.expected()) <= 0.05,
            "{model}"
        );
        let run = workspace.read("run.json");
        assert_eq!(run["precisions"]["fp16"]["evaluation"]["value"], json!(1.0), "{model}");
        // The embedded executor computes FP16 graphs in FP32, so the types themselves are looked at.
        let written = trtforge_onnx::Model::open(&onnx(&workspace, "fp16")).unwrap();
        let graph = written.graph();
        for node in graph.nodes() {
            // The fused operator states its own: statistics in FP32 (`stash_type`) whatever its input.
            if node.op_type() == "LayerNormalization" {
                assert_eq!(trtforge_onnx::attr_i(node, "stash_type").unwrap_or(1), 1, "{model}");
            }
            if matches!(node.op_type(), "Pow" | "ReduceMean" | "Sqrt") {
                let kept = graph.element_type(&node.input[0]);
                assert_eq!(
                    kept,
                    Some(trtforge_onnx::ElementType::F32),
                    "{model}: {}",
                    node.op_type()
                );
            }
        }
    }
}

#[test]
fn b20_nodes_without_names() {
    let Some(folder) = case("B20") else { return };
    let mut workspace = workspace(&folder, "model.onnx");
    workspace.run("build", &["--quiet"]).expect(0);
    let run = workspace.read("run.json");
    let quantized = decisions(&run, "int8", "int8_weight");
    assert_eq!(quantized.len(), 14);
    let feed = Feed::open(&folder.join("feed.json"));
    assert!(distance(&feed.logits(&onnx(&workspace, "int8")), &feed.expected()) <= 0.2);
    // One of them excluded by what the report calls it, `MatMul(output)`: by its output tensor.
    let label = quantized[0]["node"].as_str().unwrap();
    let output = label.split_once('(').map_or(label, |(_, rest)| rest.trim_end_matches(')'));
    workspace.set("/quantize/skip", json!([output]));
    graphs(&workspace).expect(0);
    assert_eq!(decisions(&workspace.read("run.json"), "int8", "int8_weight").len(), 13);
}

#[test]
fn b25_scales_lie_on_the_output_channels() {
    let Some(folder) = case("B25") else { return };
    let feed = Feed::open(&folder.join("feed.json"));
    let expected = [1.269_223_5e-5_f32, 0.005_351_872, 0.054_907_862];
    let mut logits = Vec::new();
    for (model, axis) in [("model_transB1.onnx", 0), ("model_transB0.onnx", 1)] {
        let mut workspace = workspace(&folder, model);
        workspace.set("/task/labels", json!(["a", "b", "c"]));
        graphs(&workspace).expect(0);
        let path = onnx(&workspace, "int8");
        let written = trtforge_onnx::Model::open(&path).unwrap();
        let graph = written.graph();
        let found =
            graph.nodes().iter().filter(|node| node.op_type() == "DequantizeLinear").any(|node| {
                let Some(scales) = graph.constant(&node.input[1]) else { return false };
                let Ok(values) = scales.to_f32() else { return false };
                values.len() == 3
                    && values.iter().zip(expected).all(|(a, b)| ((a - b) / b).abs() < 1e-3)
                    && trtforge_onnx::attr_i(node, "axis") == Some(axis)
            });
        assert!(found, "{model}: no DequantizeLinear has the three scales on axis {axis}");
        logits.push(feed.logits(&path));
    }
    assert!(distance(&logits[0], &logits[1]) <= 1e-5);
}

#[test]
fn b31_weights_listed_as_inputs_are_weights() {
    let Some(folder) = case("B31") else { return };
    let feed = Feed::open(&folder.join("feed.json"));
    for model in ["model_ir3.onnx", "model_ir6.onnx", "model_ir7_first.onnx"] {
        let workspace = workspace(&folder, model);
        workspace.run("build", &["--quiet"]).expect(0);
        let run = workspace.read("run.json");
        assert_eq!(decisions(&run, "int8", "int8_weight").len(), 14, "{model}");
        let profiles = run["shapes"]["profiles"][0]["inputs"].as_object().unwrap();
        let mut names: Vec<&str> = profiles.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["attention_mask", "input_ids", "token_type_ids"], "{model}");
        let written = trtforge_onnx::Model::open(&onnx(&workspace, "int8")).unwrap();
        assert_eq!(written.graph_proto().input.len(), 3, "{model}");
        assert!(
            distance(&feed.logits(&onnx(&workspace, "int8")), &feed.expected()) <= 0.2,
            "{model}"
        );
    }
}

#[test]
fn b40_bad_labels_are_named_by_line() {
    let Some(folder) = case("B40") else { return };
    let evaluate = |data: &str| {
        let mut workspace =
            Workspace::over(&folder, "model.onnx", "eval_string.jsonl", "eval_string.jsonl");
        workspace.set("/data/evaluation/path", json!(folder.join(data)));
        workspace.run("evaluate", &["--quiet", "--json"])
    };
    for (data, line, value) in [
        ("eval_minus1.jsonl", ":1", "-1"),
        ("eval_out_of_range.jsonl", ":7", "2"),
        ("eval_missing.jsonl", ":5", "label"),
        ("eval_fraction.jsonl", ":1", "0.5"),
        ("eval_unknown_name.jsonl", ":1", "label"),
    ] {
        evaluate(data).expect(2).says(&[
            &format!("{data}{line}"),
            value,
            "negative (0), positive (1)",
        ]);
    }
    for data in ["eval_float.jsonl", "eval_string.jsonl"] {
        let ran = evaluate(data);
        if ran.code == 0 {
            assert_eq!(ran.json()["value"], json!(1.0), "{data}");
        } else {
            ran.expect(2).says(&["label"]);
        }
    }
}

#[test]
fn b41_nan_logits_are_no_predictions() {
    let Some(folder) = case("B41") else { return };
    let workspace = workspace(&folder, "model.onnx");
    let evaluation = workspace.run("evaluate", &["--quiet", "--json"]).expect(0).json();
    assert_eq!((&evaluation["value"], &evaluation["not_finite"]), (&json!(0.4), &json!(18)));
    workspace.run("build", &["--quiet"]).expect(2).says(&["NaN", "row", "word_embeddings"]);
    assert!(!workspace.output("engines").exists());
}

#[test]
fn b43_every_row_counts_once() {
    let Some(folder) = case("B43") else { return };
    for batch in [1, 8, 16, 37, 64] {
        let mut workspace = Workspace::over(&folder, "model.onnx", "eval.jsonl", "eval.jsonl");
        workspace.set("/evaluate/batch_size", json!(batch));
        let evaluation = workspace.run("evaluate", &["--quiet", "--json"]).expect(0).json();
        assert_eq!(evaluation["value"], json!(32.0 / 37.0), "batch {batch}");
        assert_eq!(evaluation["count"], json!(37));
    }
}

#[test]
fn b45_marks_and_line_ends_change_nothing() {
    let Some(folder) = case("B45") else { return };
    let data = [
        "eval.jsonl",
        "eval_bom.jsonl",
        "eval_crlf.jsonl",
        "eval_no_final_newline.jsonl",
        "eval_blank_tail.jsonl",
        "eval_bom_crlf.tsv",
    ];
    for vocabulary in ["tokenizer.json", "vocab.txt", "vocab_crlf.txt", "vocab_bom.txt"] {
        for file in data {
            let mut workspace = Workspace::over(&folder, "model.onnx", "eval.jsonl", file);
            workspace.set("/model/tokenizer", json!(folder.join(vocabulary)));
            if Path::new(file).extension().is_some_and(|extension| extension == "tsv") {
                workspace.set("/data/evaluation/text", json!("sentence"));
            }
            let evaluation = workspace.run("evaluate", &["--quiet", "--json"]).expect(0).json();
            let found = (&evaluation["value"], &evaluation["count"]);
            assert_eq!(found, (&json!(1.0), &json!(16)), "{vocabulary} {file}");
        }
    }
}

#[test]
fn b47_empty_text_is_a_row_and_no_text_is_an_error() {
    let Some(folder) = case("B47") else { return };
    let evaluate = |data: &str| {
        let workspace = Workspace::over(&folder, "model.onnx", data, data);
        workspace.run("evaluate", &["--quiet", "--json"])
    };
    let evaluation = evaluate("eval_empty.jsonl").expect(0).json();
    assert_eq!((&evaluation["value"], &evaluation["count"]), (&json!(1.0), &json!(4)));
    for data in ["eval_null.jsonl", "eval_no_text.jsonl", "eval_number.jsonl"] {
        evaluate(data).expect(2).says(&[&format!("{data}:2"), "text"]);
    }
}
