//! `trtforge calibrate` end to end: shards and merging, schedulers, tables, caches of other tools.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use support::{Ran, Workspace, trtforge, trtforge_with};

/// Variables of schedulers that this machine may run under.
const SCHEDULER: [&str; 7] = [
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_STEP",
    "JOB_COMPLETION_INDEX",
    "TRTFORGE_SHARDS",
];

fn at(workspace: &Workspace, name: &str) -> String {
    workspace.folder.path().join(name).display().to_string()
}

fn read(path: &str) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The table of one machine.
fn alone(workspace: &Workspace) -> Vec<u8> {
    let path = at(workspace, "alone.json");
    workspace.run("calibrate", &["-q", "-o", &path]).expect(0);
    read(&path)
}

/// Runs every shard and gives the paths of the parts.
fn run_shards(workspace: &Workspace, of: usize, name: &str, more: &[&str]) -> Vec<String> {
    let run = |index: usize| {
        let (shard, path) =
            (format!("{index}/{of}"), at(workspace, &format!("{name}-{index}-{of}.part")));
        let mut arguments = vec!["-q", "--shard", &shard, "-o", &path];
        arguments.extend(more);
        workspace.run("calibrate", &arguments).expect(0);
        path
    };
    (1..=of).map(run).collect()
}

fn merge(parts: &[String], output: &str) -> Ran {
    let mut arguments = vec!["calibrate", "merge", "-q", "-o", output];
    arguments.extend(parts.iter().map(String::as_str));
    trtforge(&arguments)
}

#[test]
fn any_number_of_machines_gives_the_table_of_one() {
    let mut workspace = Workspace::tiny();
    let merged = at(&workspace, "merged.json");
    let whole = alone(&workspace);
    for of in [1, 2, 3, 7] {
        let mut parts = run_shards(&workspace, of, "part", &[]);
        parts.reverse();
        merge(&parts, &merged).expect(0);
        assert!(read(&merged) == whole, "{of} shards");
    }
    // More machines than rows: some have nothing to do.
    workspace.set("/data/calibration/samples", json!(3));
    let whole = alone(&workspace);
    let parts = run_shards(&workspace, 5, "few", &[]);
    merge(&parts, &merged).expect(0);
    assert!(read(&merged) == whole, "more shards than rows");
}

#[test]
fn shards_give_the_table_of_one_machine_with_every_method() {
    let mut workspace = Workspace::tiny();
    workspace.set("/quantize", json!({ "level": "residual" }));
    let merged = at(&workspace, "merged.json");
    for method in ["minmax", "mse", "percentile"] {
        workspace.set("/calibrate/method", json!(method));
        let whole = alone(&workspace);
        merge(&run_shards(&workspace, 2, method, &[]), &merged).expect(0);
        assert!(read(&merged) == whole, "{method}");
    }
    // The batch size of a machine is its own business.
    let first = run_shards(&workspace, 2, "batched", &[]).remove(0);
    let second = at(&workspace, "second.part");
    let more = ["-q", "--shard", "2/2", "-o", &second, "--set", "calibrate.batch_size=1"];
    workspace.run("calibrate", &more).expect(0);
    merge(&[second, first], &merged).expect(0);
    assert!(read(&merged) == alone(&workspace));
}

#[test]
fn smoothing_takes_two_steps_and_gives_the_same_bytes() {
    let mut workspace = Workspace::tiny();
    workspace.set("/quantize", json!({ "level": "attention", "smooth": 0.8 }));
    let whole = alone(&workspace);
    let part = at(&workspace, "part");
    workspace.run("calibrate", &["-q", "--shard", "1/3", "-o", &part]).expect(2).says(&[
        "`quantize.smooth` is 0.8",
        "--observe channels",
        "--channels channels.part",
    ]);
    let (channels, merged) = (at(&workspace, "channels.part"), at(&workspace, "merged.json"));
    let measured = run_shards(&workspace, 3, "channels", &["--observe", "channels"]);
    merge(&measured, &channels).expect(0);
    // One machine measures the same ranges.
    let one = run_shards(&workspace, 1, "all-channels", &["--observe", "channels"]).remove(0);
    assert!(read(&one) == read(&channels), "channel ranges differ");
    let parts = run_shards(&workspace, 3, "part", &["--channels", &channels]);
    merge(&parts, &merged).expect(0);
    assert!(read(&merged) == whole);
    assert!(
        !serde_json::from_slice::<Json>(&whole).unwrap()["channels"]
            .as_object()
            .unwrap()
            .is_empty()
    );
    // A shard's own ranges, activations in their place, and ranges of another calibration are no use.
    let with = |channels: &str, more: &[&str]| {
        let mut arguments = vec!["-q", "--shard", "1/3", "-o", &part, "--channels", channels];
        arguments.extend(more);
        workspace.run("calibrate", &arguments).expect(2)
    };
    with(&measured[1], &[]).says(&["channel ranges of shard 2/3", "merge"]);
    with(&parts[0], &[]).says(&["activations of shard 1/3"]);
    with(&channels, &["--set", "data.calibration.seed=5"]).says(&["seed is 17 there and 5 here"]);
    with(&channels, &["--set", "quantize.smooth=0.5"]).says(&["smooth is 0.8 there and 0.5 here"]);
    with(&channels, &["--set", "quantize.smooth=0"]).says(&["does not smooth", "--channels"]);
    merge(&[measured[0].clone(), parts[1].clone(), parts[2].clone()], &merged)
        .expect(2)
        .says(&["it holds activations there and channel ranges here"]);
}

#[test]
fn merging_says_which_file_is_at_fault() {
    let workspace = Workspace::tiny();
    let parts = run_shards(&workspace, 3, "part", &[]);
    let merged = at(&workspace, "merged.json");
    merge(&parts[1..], &merged).expect(2).says(&["1 of 3 shards are missing: 1"]);
    merge(&[&parts[..], &parts[..1]].concat(), &merged)
        .expect(2)
        .says(&["shard 1/3 is there twice", "part-1-3.part"]);
    let other = run_shards(
        &workspace,
        3,
        "other",
        &["--set", "data.calibration.seed=3", "--set", "data.calibration.samples=20"],
    );
    merge(&[parts[0].clone(), other[1].clone(), parts[2].clone()], &merged).expect(2).says(&[
        "other-2-3.part belongs to another calibration than",
        "seed is 3 there and 17 here",
        "samples is 20 there and 40 here",
    ]);
    let bytes = read(&parts[1]);
    let cut = at(&workspace, "cut.part");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    merge(&[parts[0].clone(), cut, parts[2].clone()], &merged)
        .expect(2)
        .says(&["cut.part is damaged", "cut off"]);
    for (name, content, what) in [
        ("empty.part", &b""[..], "it is empty"),
        ("table.part", &alone(&workspace)[..], "calibration table already"),
        ("cache.part", &b"TRT-8501-EntropyCalibration2\n"[..], "calibrate import"),
    ] {
        let path = at(&workspace, name);
        fs::write(&path, content).unwrap();
        merge(&[path], &merged).expect(2).says(&[name, what]);
    }
    merge(&[at(&workspace, "absent.part")], &merged).expect(2).says(&["absent.part"]);
    merge(&parts, &parts[0]).expect(2).says(&["part-1-3.part", "will not be written over"]);
    assert!(!Path::new(&merged).exists());
}

/// Runs with `--shard auto` and these variables alone.
fn under(workspace: &Workspace, variables: &[(&str, &str)], more: &[&str]) -> Ran {
    let profile = workspace.write();
    let output = at(workspace, "auto-{shard}-{shards}.part");
    let mut arguments = vec!["calibrate", &profile, "-q", "--shard", "auto", "-o", &output];
    arguments.extend(more);
    trtforge_with(&arguments, |command| {
        for name in SCHEDULER {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied())
    })
}

#[test]
fn slurm_and_kubernetes_number_the_shards() {
    let workspace = Workspace::tiny();
    let whole = alone(&workspace);
    let merged = at(&workspace, "merged.json");
    for id in ["10", "12", "14"] {
        let array = [
            ("SLURM_ARRAY_TASK_ID", id),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_ARRAY_TASK_MIN", "10"),
            ("SLURM_ARRAY_TASK_MAX", "14"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
        ];
        under(&workspace, &array, &[]).expect(0);
    }
    let parts: Vec<String> = (1..=3).map(|i| at(&workspace, &format!("auto-{i}-3.part"))).collect();
    merge(&parts, &merged).expect(0);
    assert!(read(&merged) == whole);
    let kubernetes = |index| [("JOB_COMPLETION_INDEX", index), ("TRTFORGE_SHARDS", "2")];
    under(&workspace, &kubernetes("0"), &[]).expect(0);
    under(&workspace, &[("JOB_COMPLETION_INDEX", "1")], &["--shards", "2"]).expect(0);
    let parts: Vec<String> = (1..=2).map(|i| at(&workspace, &format!("auto-{i}-2.part"))).collect();
    merge(&parts, &merged).expect(0);
    assert!(read(&merged) == whole);
    under(&workspace, &[], &[]).expect(2).says(&["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"]);
    under(&workspace, &[("JOB_COMPLETION_INDEX", "1")], &[])
        .expect(2)
        .says(&["TRTFORGE_SHARDS is not", "--shards N"]);
    under(&workspace, &kubernetes("2"), &[]).expect(2).says(&["JOB_COMPLETION_INDEX says 2"]);
}

#[test]
fn flags_that_do_not_go_together_are_refused_before_any_work() {
    let workspace = Workspace::tiny();
    let part = at(&workspace, "part");
    for (arguments, words) in [
        (vec!["--shard", "4/3"], vec!["4/3", "from 1 to 3"]),
        (vec!["--shard", "three"], vec!["three", "I/N"]),
        (vec!["--shard", "1/3", "--shards", "4"], vec!["--shard 1/3", "--shards says 4"]),
        (vec!["--shards", "4"], vec!["--shard"]),
        (vec!["--channels", "x"], vec!["--shard"]),
        (vec!["--observe", "channels"], vec!["needs `--shard`"]),
        (vec!["--observe", "none", "--shard", "1/2"], vec!["--observe none"]),
        (vec!["--observe", "channels", "--shard", "1/2"], vec!["does not smooth"]),
        (vec!["--observe", "channels", "--shard", "1/2", "--channels", "x"], vec!["one of them"]),
    ] {
        let mut all = vec!["-q", "-o", &part];
        all.extend(arguments);
        workspace.run("calibrate", &all).expect(2).says(&words);
    }
    assert!(!Path::new(&part).exists());
    let pattern = at(&workspace, "x-{shard}.json");
    workspace.run("calibrate", &["-o", &pattern]).expect(2).says(&["needs `--shard`"]);
    assert!(!Path::new(&pattern).exists());
    let import = ["calibrate", "import", "c", "--model", "m", "-o", &part, "--set", "max_length=8"];
    trtforge(&import).expect(2).says(&["cannot be used with"]);
    trtforge(&["calibrate"]).expect(2).says(&["--output"]);
    trtforge(&["calibrate", "merge"]).expect(2).says(&["PART"]);
}

#[test]
fn a_table_names_the_rows_it_was_made_from() {
    let mut workspace = Workspace::tiny();
    let table: Json = serde_json::from_slice(&alone(&workspace)).unwrap();
    assert_eq!(table["lines"], "1-40");
    workspace.set("/data/calibration/samples", json!(3));
    workspace.set("/data/calibration/strategy", json!("first"));
    workspace.run("build", &["-q", "--stop-after", "calibrate"]).expect(0);
    assert_eq!(workspace.read("calibration.json")["lines"], "1-3");
    assert_eq!(workspace.read("run.json")["calibration"]["lines"], "1-3");
}

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

#[test]
fn rows_that_repeat_judge_or_are_cut_are_counted() {
    let mut workspace = Workspace::tiny();
    let warnings = |workspace: &Workspace| {
        workspace.run("check", &["--json"]).expect(0).json()["warnings"].to_string()
    };
    let plain = warnings(&workspace);
    for absent in ["same as an earlier", "evaluation rows too", "rows calibrate", "cut to"] {
        assert!(!plain.contains(absent), "{absent}: {plain}");
    }
    let row = |text: &str, label: u8| format!("{}\n", json!({ "text": text, "label": label }));
    let long = "good ".repeat(60);
    let rows = [row("the film", 0), row("The  FILM", 1), row("a plot", 0), row(&long, 1)].concat();
    fs::write(workspace.folder.path().join("calib.jsonl"), &rows).unwrap();
    fs::write(
        workspace.folder.path().join("eval.jsonl"),
        [row("bad cast", 0), row("a plot", 1)].concat(),
    )
    .unwrap();
    let said = warnings(&workspace);
    for words in [
        "1 of 4 calibration rows are to the model the same as an earlier one (line 2 is line 1)",
        "1 of 4 calibration rows are evaluation rows too (line 3 is line 2 there)",
        "only 4 rows calibrate",
        "1 of 4 calibration rows were cut to `max_length` 32 (line 4)",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // Only rows that were sampled count.
    workspace.set("/data/calibration/samples", json!(1));
    workspace.set("/data/calibration/strategy", json!("first"));
    let said = warnings(&workspace);
    assert!(
        !said.contains("same as an earlier") && !said.contains("rows were cut to `max"),
        "{said}"
    );
}

/// The fenced blocks of a language in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let path = support::repository().join("docs").join(document);
    let text = fs::read_to_string(&path).unwrap();
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_manifests_of_the_documentation_are_well_formed() {
    let jobs: Vec<Json> = blocks("distributed-calibration.md", "yaml")
        .iter()
        .map(|block| serde_yaml::from_str(block).unwrap())
        .collect();
    assert_eq!(jobs.len(), 2);
    for job in &jobs {
        assert_eq!((&job["apiVersion"], &job["kind"]), (&json!("batch/v1"), &json!("Job")));
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["name"], pod["containers"][0]["volumeMounts"][0]["name"]);
    }
    let indexed = &jobs[0]["spec"];
    let container = &indexed["template"]["spec"]["containers"][0];
    assert_eq!(indexed["completionMode"], "Indexed");
    assert_eq!(container["env"][0]["name"], "TRTFORGE_SHARDS");
    assert_eq!(container["env"][0]["value"], indexed["completions"].to_string());
    // Its very command line, on a model that is there and as the pod of index 1.
    let workspace = Workspace::tiny();
    let profile = workspace.write();
    let mut command: Vec<String> = serde_json::from_value(container["command"].clone()).unwrap();
    let local = |text: &str| text.replace("/data/parts", &at(&workspace, "parts"));
    for argument in &mut command {
        *argument =
            if argument == "/data/profile.yaml" { profile.clone() } else { local(argument) };
    }
    let arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
    let shards = container["env"][0]["value"].as_str().unwrap().to_owned();
    trtforge_with(&arguments, |command| {
        for name in SCHEDULER {
            command.env_remove(name);
        }
        command.env("TRTFORGE_SHARDS", shards).env("JOB_COMPLETION_INDEX", "1")
    })
    .expect(0);
    assert!(workspace.folder.path().join("parts/part-2.part").exists());
}

#[test]
fn the_scripts_of_the_documentation_are_well_formed() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let scripts = ["distributed-calibration.md", "calibration-caches.md"];
    let scripts: Vec<String> = scripts.iter().flat_map(|name| blocks(name, "bash")).collect();
    assert!(scripts.iter().any(|script| script.contains("#SBATCH --array=1-8")));
    for script in scripts {
        let mut bash =
            Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash is there");
        bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(bash.wait().unwrap().success(), "{script}");
    }
}
