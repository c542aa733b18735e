//! Calibration tables end to end: of another model, edited by hand, from and for other tools, and where they are written.

#[path = "support/mod.rs"]
mod support;

use std::fs;

use serde_json::{Value as Json, json};
use support::calibrating::{alone, at, read};
use support::{Workspace, trtforge};

/// A sibling workspace whose model has other weights and the same names.
fn retrained(workspace: &Workspace) -> Workspace {
    let other = Workspace::tiny();
    let path = other.folder.path().join("model.onnx");
    let mut bytes = fs::read(workspace.folder.path().join("model.onnx")).unwrap();
    // The last byte of a stored float: another weight, the same graph.
    let weight = 0.1_f32.to_le_bytes();
    let at = bytes.windows(4).rposition(|window| {
        let value = f32::from_le_bytes(window.try_into().unwrap());
        value.is_normal() && value.abs() < 0.2 && value.abs() > 0.05
    });
    let at = at.expect("some weight is near 0.1");
    bytes[at..at + 4].copy_from_slice(&weight);
    fs::write(path, bytes).unwrap();
    other
}

#[test]
fn a_table_of_another_model_is_refused_with_what_differs() {
    let workspace = Workspace::tiny();
    let table = at(&workspace, "alone.json");
    let bytes = alone(&workspace);
    let mut other = retrained(&workspace);
    other.set("/calibrate", json!({ "table": table }));
    other.run("check", &[]).expect(2).says(&[
        "it was made for model",
        "all of its tensors are in this model, so the weights are others",
    ]);
    other
        .run("quantize", &["--table", &table, "-o", &at(&other, "graphs")])
        .expect(2)
        .says(&["for model"]);
    // Other names too.
    let mut json: Json = serde_json::from_slice(&bytes).unwrap();
    json["model"] = json!("0".repeat(64));
    let tensors = json["tensors"].as_object_mut().unwrap();
    let gelu = tensors.remove("gelu").unwrap();
    tensors.insert("relu".into(), gelu);
    fs::write(&table, json.to_string()).unwrap();
    other.run("check", &[]).expect(2).says(&["for model 0000", "this model has no tensor `relu`"]);
}

#[test]
fn b09_a_table_is_for_the_model_whatever_its_file_name() {
    let Some(folder) = support::case("B09") else { return };
    let over = |model: &str| {
        let mut workspace = Workspace::over(&folder, model, "calib.jsonl", "calib.jsonl");
        workspace.label(&folder.join("calib.jsonl"));
        workspace
    };
    let first = over("model_a.onnx");
    let path = at(&first, "a.json");
    first.run("calibrate", &["-q", "-o", &path]).expect(0);
    let mut copy = over("copy_of_a.onnx");
    copy.set("/calibrate", json!({ "table": path }));
    copy.run("build", &["-q", "--backend", "none"]).expect(0);
    assert!(fs::read(copy.output("calibration.json")).unwrap() == read(&path));
    let mut other = over("model_b.onnx");
    other.set("/calibrate", json!({ "table": path }));
    other
        .run("build", &["-q", "--backend", "none"])
        .expect(2)
        .says(&["it was made for model", "the weights are others"]);
}

#[test]
fn a_table_of_other_rows_or_of_a_lower_level_is_used_with_a_warning() {
    let mut workspace = Workspace::tiny();
    let table = at(&workspace, "alone.json");
    alone(&workspace);
    workspace.set("/calibrate", json!({ "table": table, "method": "mse" }));
    workspace.set("/quantize", json!({ "level": "attention" }));
    let rows = workspace.folder.path().join("calib.jsonl");
    let text = fs::read_to_string(&rows).unwrap();
    fs::write(&rows, text.replacen("good", "bad", 1)).unwrap();
    let warnings = workspace.run("check", &["--json"]).expect(0).json()["warnings"].to_string();
    for words in [
        "made with method entropy",
        "made with data ",
        "no scale for 3 of the tensors that level `attention`",
    ] {
        assert!(warnings.contains(words), "{words}: {warnings}");
    }
    // Its own profile has nothing to warn of.
    fs::write(&rows, text).unwrap();
    workspace.set("/calibrate", json!({ "table": table }));
    workspace.set("/quantize", json!({ "level": "gemm" }));
    let warnings = workspace.run("check", &["--json"]).expect(0).json()["warnings"].to_string();
    assert!(!warnings.contains("calibrate.table"), "{warnings}");
}

#[test]
fn a_table_edited_by_hand_is_refused_by_tensor() {
    let mut workspace = Workspace::tiny();
    let path = at(&workspace, "alone.json");
    let good: Json = serde_json::from_slice(&alone(&workspace)).unwrap();
    workspace.set("/calibrate", json!({ "table": path }));
    for (field, value, words) in [
        ("scale", json!(0.5), "`gelu` has scale 0.5, and threshold / 127 is"),
        ("scale", json!(-1.0), "`gelu` has scale -1"),
        ("threshold", json!(1e9), "`gelu` has scale"),
        ("absmax", json!(1e-6), "above absmax"),
        (
            "method",
            json!("guess"),
            "`gelu` has an entry that cannot be read: unknown calibration method `guess`",
        ),
        ("values", json!(-3), "`gelu` has an entry that cannot be read"),
        ("threshold", json!("two"), "`gelu` has an entry that cannot be read"),
    ] {
        let mut table = good.clone();
        let gelu = table["tensors"]["gelu"].as_object_mut().unwrap();
        // A guard may have its reasons for a threshold above the largest magnitude.
        gelu.remove("guard");
        gelu.insert(field.to_owned(), value.clone());
        fs::write(&path, table.to_string()).unwrap();
        workspace.run("check", &[]).expect(2).says(&[words]);
    }
}

#[test]
fn tables_without_lines_and_tokenizer_still_load() {
    let mut workspace = Workspace::tiny();
    let path = at(&workspace, "alone.json");
    let mut table: Json = serde_json::from_slice(&alone(&workspace)).unwrap();
    for key in ["lines", "tokenizer"] {
        table.as_object_mut().unwrap().remove(key).unwrap();
    }
    fs::write(&path, table.to_string()).unwrap();
    workspace.set("/calibrate", json!({ "table": path }));
    workspace.run("build", &["-q", "--stop-after", "quantize"]).expect(0);
    assert!(workspace.read("run.json")["calibration"].get("lines").is_none());
}

#[test]
fn a_cache_and_back_keeps_every_scale_to_the_bit() {
    let workspace = Workspace::tiny();
    let path = |name: &str| at(&workspace, name);
    let (model, table, cache) = (path("model.onnx"), path("alone.json"), path("int8.cache"));
    let made: Json = serde_json::from_slice(&alone(&workspace)).unwrap();
    trtforge(&["calibrate", "export", &table, "-o", &cache]).expect(2).says(&["--trt-version"]);
    let export = ["calibrate", "export", &table, "-o", &cache, "--trt-version", "8.6.1"];
    trtforge(&export).expect(0);
    let text = fs::read_to_string(&cache).unwrap();
    assert!(text.starts_with("TRT-8601-EntropyCalibration2\n"), "{text}");
    let back = path("back.json");
    trtforge(&["calibrate", "import", &cache, "--model", &model, "-o", &back]).expect(0);
    let imported: Json = serde_json::from_slice(&read(&back)).unwrap();
    assert_eq!(imported["model"], made["model"]);
    assert_eq!(imported["imported"]["header"], "TRT-8601-EntropyCalibration2");
    for (tensor, entry) in made["tensors"].as_object().unwrap() {
        let scale = &imported["tensors"][tensor]["scale"];
        assert_eq!(
            scale.as_f64().unwrap() as f32,
            entry["scale"].as_f64().unwrap() as f32,
            "{tensor}"
        );
    }
    // An imported table knows its own version and kind, and gives the same bytes back.
    let again = path("again.cache");
    trtforge(&["calibrate", "export", &back, "-o", &again]).expect(0);
    assert_eq!(fs::read_to_string(&again).unwrap(), text);
    let more = [
        "calibrate",
        "export",
        &back,
        "-o",
        &again,
        "--kind",
        "LegacyCalibration",
        "--trt-version",
        "10.3.0",
    ];
    trtforge(&more).expect(0);
    assert!(fs::read_to_string(&again).unwrap().starts_with("TRT-100300-LegacyCalibration\n"));
    trtforge(&["calibrate", "export", &back, "-o", &again, "--trt-version", "11"])
        .expect(2)
        .says(&["`11`"]);
}

#[test]
fn an_imported_table_builds_and_knows_its_model() {
    let mut workspace = Workspace::tiny();
    let path = |name: &str| workspace.folder.path().join(name).display().to_string();
    let (model, table, cache, back) =
        (path("model.onnx"), path("alone.json"), path("int8.cache"), path("back.json"));
    alone(&workspace);
    trtforge(&["calibrate", "export", &table, "-o", &cache, "--trt-version", "8501"]).expect(0);
    // A cache of TensorRT holds more: tensors that the ONNX file does not have, constants, mixed line ends.
    let mut text = fs::read_to_string(&cache).unwrap().replacen('\n', "\r\n", 2);
    text.push_str("(Unnamed Layer* 4) [Fully Connected]_output: 3d65992f\nquery.weight: 3c008912\nlogits: 3c008912\n");
    fs::write(&cache, &text).unwrap();
    let ran = trtforge(&["calibrate", "import", &cache, "--model", &model, "-o", &back, "--json"])
        .expect(0);
    let account = ran.json()["account"].clone();
    assert_eq!(account["unknown"], json!(["(Unnamed Layer* 4) [Fully Connected]_output"]));
    assert_eq!(account["constants"], json!(["query.weight"]));
    assert_eq!(account["missing"], json!([]));
    ran.says(&["1 tensors of the cache are not in the model", "(Unnamed Layer* 4)"]);
    workspace.set("/calibrate", json!({ "table": back }));
    workspace.run("build", &["-q", "--backend", "none"]).expect(0);
    assert_eq!(workspace.read("run.json")["calibration"]["method"], "imported");
    let mut other = retrained(&workspace);
    other.set("/calibrate", json!({ "table": back }));
    other.run("check", &[]).expect(2).says(&["it was made for model"]);
    // A cache of some other model.
    fs::write(&cache, "TRT-8501-EntropyCalibration2\nconv1: 3c60dd38\n").unwrap();
    trtforge(&["calibrate", "import", &cache, "--model", &model, "-o", &back])
        .expect(2)
        .says(&["none of the 1 tensors", "`conv1`"]);
}

#[test]
fn what_a_cache_lacks_is_refused_left_or_calibrated() {
    let mut workspace = Workspace::tiny();
    let path = |name: &str| workspace.folder.path().join(name).display().to_string();
    let (model, table, cache, back) =
        (path("model.onnx"), path("alone.json"), path("int8.cache"), path("back.json"));
    alone(&workspace);
    trtforge(&["calibrate", "export", &table, "-o", &cache, "--trt-version", "8501"]).expect(0);
    let text = fs::read_to_string(&cache).unwrap();
    let without: String = text
        .lines()
        .filter(|line| !line.starts_with("gelu: "))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&cache, without).unwrap();
    let import = ["calibrate", "import", &cache, "-o", &back];
    let with = |more: &[&str]| trtforge(&[&import[..], more].concat());
    with(&["--model", &model]).expect(2).says(&[
        "no scale for 1 of the tensors",
        "`gelu`",
        "--missing leave",
    ]);
    with(&["--model", &model, "--level", "attention"]).expect(2).says(&["no scale for 4", "`q`"]);
    with(&["--model", &model, "--missing", "leave"])
        .expect(0)
        .says(&["1 tensors have no scale", "`gelu`"]);
    let profile = workspace.write();
    let ran = with(&["--profile", &profile, "--json"]).expect(0);
    assert_eq!(ran.json()["account"]["calibrated"], json!(["gelu"]));
    let (made, filled): (Json, Json) = (
        serde_json::from_slice(&read(&table)).unwrap(),
        serde_json::from_slice(&read(&back)).unwrap(),
    );
    assert_eq!(filled["tensors"]["gelu"], made["tensors"]["gelu"]);
    assert_eq!(filled["ranges"], made["ranges"]);
    assert_eq!(filled["tensors"]["context"]["method"], "imported");
    assert_eq!(filled["tensors"]["context"]["scale"], made["tensors"]["context"]["scale"]);
    with(&["--profile", &profile, "--set", "quantize.smooth=0.5"]).expect(2).says(&["smooth"]);
    with(&[]).expect(2).says(&["--model"]);
    with(&["--model", &model, "--profile", &profile]).expect(2).says(&["cannot be used with"]);
    workspace.set("/calibrate", json!({ "table": back }));
    workspace.run("build", &["-q", "--backend", "none"]).expect(0);
}

#[test]
fn caches_of_onnx_runtime_hold_ranges() {
    let workspace = Workspace::tiny();
    let path = |name: &str| at(&workspace, name);
    let (model, cache, back) = (path("model.onnx"), path("calibration.cache"), path("back.json"));
    fs::write(&cache, "context 2.54\ngelu 1.27\n").unwrap();
    let import =
        ["calibrate", "import", &cache, "--model", &model, "--missing", "leave", "-o", &back];
    trtforge(&import).expect(2).says(&["ONNX Runtime", "--onnx-runtime-ranges"]);
    trtforge(&[&import[..], &["--onnx-runtime-ranges"]].concat()).expect(0);
    let table: Json = serde_json::from_slice(&read(&back)).unwrap();
    assert_eq!(table["tensors"]["context"]["scale"].as_f64().unwrap() as f32, 2.54_f32 / 127.0);
    assert_eq!(table["imported"]["header"], "");
}

#[test]
fn a_recorded_table_is_not_used_to_make_one() {
    let mut workspace = Workspace::tiny();
    let made = alone(&workspace);
    // Missing, no table at all, or the very file that is written: none is read, and that is said.
    let output = at(&workspace, "new.json");
    fs::write(at(&workspace, "foreign.json"), "nothing").unwrap();
    for table in ["missing.json", "foreign.json", "new.json"] {
        workspace.set("/calibrate/table", json!(at(&workspace, table)));
        let words = [table, "is not used", "makes a new table"];
        workspace.run("calibrate", &["-o", &output]).expect(0).says(&words);
        assert_eq!(read(&output), made, "{table}");
    }
}

#[cfg(unix)]
#[test]
fn results_go_where_links_and_fifos_lead() {
    let workspace = Workspace::tiny();
    let made = alone(&workspace);
    let (link, real) = (at(&workspace, "link.json"), at(&workspace, "real.json"));
    fs::write(&real, "old").unwrap();
    std::os::unix::fs::symlink("real.json", &link).unwrap();
    workspace.run("calibrate", &["--quiet", "-o", &link]).expect(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read(&real), made);
    let cache = at(&workspace, "cache");
    let export = ["calibrate", "export", "--quiet", "--trt-version", "10.3.0", &link, "-o"];
    trtforge(&[&export[..], &[&cache]].concat()).expect(0);
    let fifo = at(&workspace, "fifo");
    if !std::process::Command::new("mkfifo").arg(&fifo).status().is_ok_and(|s| s.success()) {
        eprintln!("skipped: no mkfifo here");
        return;
    }
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read(fifo).unwrap()
    });
    trtforge(&[&export[..], &[&fifo]].concat()).expect(0);
    assert_eq!(reader.join().unwrap(), read(&cache));
    assert!(!fs::symlink_metadata(&fifo).unwrap().is_file());
    let folder = workspace.folder.path().to_str().unwrap();
    workspace.run("calibrate", &["--quiet", "-o", folder]).expect(2).says(&["a folder is there"]);
}
