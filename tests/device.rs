//! Engines that run: builds and evaluations with the test double of TensorRT and of the CUDA driver, whose engine plays
//! back recorded logits. No figure here comes from a GPU.

#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use support::doubled::{account_of, answer, classifier, run_doubled, tokenized};
use support::{Ran, Workspace};
use trtforge_double::{Account, Batch, Recording, Tensor, TensorType, Values};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, Executor, NamedValue, Value};
use trtforge_onnx::{ElementType, Model};

/// How far the recorded logits lie from those of the graph: what a result moved by has run the engine.
const SHIFT: f32 = 0.25;

/// A tiny profile for the double, and what its engines play back: FP32's logits, the first moved by [`SHIFT`].
struct Doubled {
    workspace: Workspace,
    recording: PathBuf,
}

impl Doubled {
    fn new() -> Self {
        let mut workspace = Workspace::tiny();
        workspace.set("/engine", json!({ "backend": "tensorrt" }));
        workspace.set("/calibrate", json!({ "device": "cpu" }));
        // These tests count calls; engines are timed in tests/benchmark.rs.
        workspace.set("/benchmark", json!({ "duration_ms": 0 }));
        // Batches of 16 rows are cut to 4, and the last ones are filled up to 2.
        workspace.set("/evaluate", json!({ "batch_size": 16 }));
        workspace.set(
            "/shapes",
            json!([{ "min": [2, 6], "opt": [4, 16], "max": [4, 16] }, { "min": [2, 1], "opt": [2, 8], "max": [3, 32] }]),
        );
        let recording = workspace.folder.path().join("recording.json");
        recorded(&workspace).save(&recording);
        Doubled { workspace, recording }
    }

    fn run(&self, command: &str, more: &[&str], fail: &str) -> Ran {
        let profile = self.workspace.write();
        let mut arguments = vec![command, profile.as_str()];
        arguments.extend(more);
        run_doubled(&arguments, &self.recording, fail)
    }

    fn account(&self) -> Account {
        Account::read(&account_of(&self.recording))
    }
}

/// Token ids of every row of a file, by the words of the vocabulary.
fn rows(workspace: &Workspace, file: &str) -> Vec<Vec<i64>> {
    tokenized(workspace, file).into_iter().map(|(_, ids)| ids).collect()
}

/// So many copies of one row.
fn inputs(ids: &[i64], rows: usize) -> [NamedValue; 2] {
    let matrix = |values: Vec<i64>| -> Value {
        ndarray::ArrayD::from_shape_vec(vec![rows, ids.len()], values).unwrap().into()
    };
    let mask = matrix(vec![1; rows * ids.len()]);
    [("input_ids".to_owned(), matrix(ids.repeat(rows))), ("attention_mask".to_owned(), mask)]
}

fn recorded(workspace: &Workspace) -> Recording {
    let model = workspace.folder.path().join("model.onnx");
    let executor = EmbeddedExecutor::load(&model, EmbeddedOptions::default()).unwrap();
    let row = |ids: Vec<i64>| {
        let outputs = executor.run(&inputs(&ids, 1)).unwrap();
        let mut logits: Vec<f32> = outputs[0].1.as_f32().unwrap().iter().copied().collect();
        logits[0] += SHIFT;
        answer(ids, &logits)
    };
    classifier(rows(workspace, "eval.jsonl").into_iter().map(row).collect())
}

#[test]
fn a_build_with_a_gpu_judges_the_engines_themselves() {
    let doubled = Doubled::new();
    doubled.run("build", &[], "").expect(0);
    let run = doubled.workspace.read("run.json");
    assert_eq!(run["machine"]["gpu"], "TEST DOUBLE (no GPU)");
    assert_eq!(run["precisions"]["fp32"]["evaluation"]["evaluated_on"], "reference");
    for precision in ["fp16", "int8"] {
        let found = &run["precisions"][precision];
        assert_eq!(found["evaluation"]["evaluated_on"], "device", "{precision}");
        assert_eq!(found["evaluation"]["count"], 60);
        // Both logits of a row count, and one of them moved.
        let mean = found["logit_shift"]["mean"].as_f64().unwrap();
        assert!((mean - f64::from(SHIFT) / 2.0).abs() < 1e-6, "{precision}: {mean}");
        let predictions = doubled.workspace.read(&format!("predictions/{precision}.json"));
        assert_eq!(predictions["evaluated_on"], "device");
        let manifest = doubled.workspace.read(&format!("engines/m.{precision}.plan.json"));
        assert_eq!(manifest["verdict"]["evaluated_on"], "device");
    }
    let warnings = run["warnings"].to_string();
    let compared =
        "INT8: what was compared: the engine on the GPU with FP32 on the reference executor";
    assert!(warnings.contains(compared), "{warnings}");
    doubled.account().assert_clean();
    // Again: nothing is run that was run before.
    doubled.run("build", &[], "").expect(0);
    assert!(!doubled.account().calls.contains_key("enqueueV3"));
}

#[test]
fn a_plan_that_does_not_load_is_judged_by_its_graph_unless_the_gate_wants_the_engine() {
    // Engines are brought to life to be asked for their layers, and last of all for FP16's answers; INT8's plan is the same
    // to the byte here, and so are its answers.
    let doubled = Doubled::new();
    doubled.run("build", &[], "").expect(0);
    let last =
        format!("deserializeCudaEngine:{}", doubled.account().calls["deserializeCudaEngine"]);
    let doubled = Doubled::new();
    doubled.run("build", &[], &last).expect(0).says(&[
        "fp16: its engine does not load here",
        "reference executor",
        "told to fail",
    ]);
    let run = doubled.workspace.read("run.json");
    let place =
        |precision: &str| run["precisions"][precision]["evaluation"]["evaluated_on"].clone();
    assert_eq!((place("fp16"), place("int8")), (json!("reference"), json!("device")));
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("fp16: its engine does not load here"), "{warnings}");
    doubled.account().assert_clean();
    let mut doubled = Doubled::new();
    doubled.workspace.set("/gate/require_device", json!(true));
    doubled.run("build", &[], &last).expect(2).says(&["refused the plan", "told to fail"]);
    doubled.account().assert_clean();
    doubled.run("build", &[], "").expect(0);
}

#[test]
fn an_engine_that_fails_while_it_runs_ends_the_build() {
    for (fail, words) in [
        ("enqueueV3:1", ["enqueueV3", "told to fail"]),
        ("enqueueV3/asynchronous:1", ["cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        ("cuMemHostAlloc:1", ["cuMemHostAlloc", "evaluate.batch_size"]),
    ] {
        let doubled = Doubled::new();
        doubled.run("build", &[], fail).expect(4).says(&words);
        assert!(!doubled.workspace.output("run.json").exists(), "{fail}");
        let mut account = doubled.account();
        if fail.contains("asynchronous") {
            // After an error that stays, the driver takes not even the context back.
            account.live.remove("primary context");
        }
        account.assert_clean();
    }
}

#[test]
fn a_plan_is_evaluated_by_itself() {
    let doubled = Doubled::new();
    doubled.run("build", &["--quiet"], "").expect(0);
    let plan = doubled.workspace.output("engines/m.int8.plan").display().to_string();
    let lines = doubled.workspace.folder.path().join("lines.jsonl").display().to_string();
    let arguments = ["--plan", &plan, "--json", "--predictions", &lines];
    let found = doubled.run("evaluate", &arguments, "").expect(0).json();
    assert_eq!(found["evaluated_on"], "device");
    assert_eq!(found["count"], 60);
    assert_eq!(fs::read_to_string(&lines).unwrap().lines().count(), 60);
    let text = doubled.run("evaluate", &["--plan", &plan], "").expect(0).stdout;
    assert!(text.contains("on TEST DOUBLE (no GPU)"), "{text}");
    // Without a GPU it is missing, not wrong.
    let profile = doubled.workspace.write();
    support::trtforge(&["evaluate", &profile, "--plan", &plan])
        .expect(3)
        .says(&["needs a GPU", "no CUDA driver"]);
}

/// Values of every tensor, by name.
type Shown = BTreeMap<String, Vec<f32>>;

/// What an engine with every float tensor as an output says of each calibration row. Batches of one row run as two copies.
fn recorded_taps(workspace: &Workspace) -> Recording {
    let model = Model::open(&workspace.folder.path().join("model.onnx")).unwrap();
    let graph = model.graph();
    let produced = graph.nodes().iter().flat_map(|node| &node.output);
    let float = |name: &&String| graph.element_type(name).is_some_and(ElementType::is_float);
    let all: Vec<String> = produced.filter(float).cloned().collect();
    let options = EmbeddedOptions { keep: all.clone(), ..EmbeddedOptions::default() };
    let executor = EmbeddedExecutor::from_model(&model, options).unwrap();
    let names: Vec<String> = all.into_iter().filter(|name| executor.can_tap(name)).collect();
    let runs: Vec<(Vec<i64>, Shown)> = rows(workspace, "calib.jsonl")
        .into_iter()
        .map(|ids| {
            let mut shown = BTreeMap::new();
            let run = executor.run_tapped(&inputs(&ids, 2), &names, &mut |name, values| {
                shown.insert(name.to_owned(), values.to_vec());
            });
            run.unwrap();
            (ids, shown)
        })
        .collect();
    let dims: BTreeMap<String, Vec<String>> = names
        .iter()
        .map(|name| {
            let counts = runs.iter().map(|(ids, shown)| (ids.len(), shown[name].len()));
            (name.clone(), pattern(&counts.collect::<Vec<_>>()))
        })
        .collect();
    let tensor = |(name, dims): (&String, &Vec<String>)| {
        Tensor::new(name, TensorType::Float32, &dims.iter().map(String::as_str).collect::<Vec<_>>())
    };
    Recording {
        outputs: dims.iter().map(tensor).collect(),
        batches: runs.into_iter().map(|(ids, shown)| batch(&ids, &shown, &dims)).collect(),
        rows: Vec::new(),
        ..recorded(workspace)
    }
}

/// Dimensions that give a tensor its number of values for every length (two rows each): all that a tap is seen by.
fn pattern(counts: &[(usize, usize)]) -> Vec<String> {
    let candidates = [(2, 0), (2, 1), (2, 2), (1, 0), (1, 1), (1, 2)];
    let whole = |rows: usize, times: u32| -> Option<usize> {
        let rest = |&(length, count): &(usize, usize)| {
            let unit = rows * length.pow(times);
            (count % unit == 0).then_some(count / unit)
        };
        let first = rest(&counts[0])?;
        counts.iter().all(|one| rest(one) == Some(first)).then_some(first)
    };
    let found = candidates.into_iter().find_map(|(rows, times)| {
        let batch = (rows == 2).then(|| "batch".to_owned());
        let lengths = (0..times).map(|_| "sequence".to_owned());
        Some(batch.into_iter().chain(lengths).chain([whole(rows, times)?.to_string()]).collect())
    });
    found.unwrap_or_else(|| panic!("{counts:?}"))
}

fn batch(ids: &[i64], shown: &Shown, dims: &BTreeMap<String, Vec<String>>) -> Batch {
    let size = |dim: &String| match dim.as_str() {
        "batch" => 2,
        "sequence" => ids.len() as i64,
        number => number.parse().unwrap(),
    };
    let values = |(name, values): (&String, &Vec<f32>)| {
        let dims: Vec<i64> = dims[name].iter().map(size).collect();
        (name.clone(), Values::f32(&dims, values))
    };
    let shape = [2, ids.len() as i64];
    let given = [("input_ids", ids.repeat(2)), ("attention_mask", vec![1; 2 * ids.len()])]
        .map(|(name, values)| (name.to_owned(), Values::i64(&shape, &values)));
    Batch { inputs: given.into(), outputs: shown.iter().map(values).collect() }
}

#[test]
fn a_gpu_calibrates_to_the_table_of_its_figures_and_is_named_in_it() {
    let mut doubled = Doubled::new();
    doubled.workspace.set("/model/canonical", json!(false));
    doubled.workspace.set("/calibrate", json!({ "batch_size": 1, "device": "cpu" }));
    let table = |doubled: &Doubled, name: &str, fail: &str| -> (Json, Ran) {
        let path = doubled.workspace.folder.path().join(name).display().to_string();
        let ran = doubled.run("calibrate", &["-o", &path], fail);
        let text = fs::read_to_string(&path).unwrap_or_else(|_| "null".to_owned());
        (serde_json::from_str(&text).unwrap(), ran)
    };
    let (cpu, ran) = table(&doubled, "cpu.json", "");
    ran.expect(0);
    assert_eq!(cpu.get("device"), None);
    recorded_taps(&doubled.workspace).save(&doubled.recording);
    doubled.workspace.set("/calibrate/device", json!("gpu"));
    let (mut gpu, ran) = table(&doubled, "gpu.json", "");
    ran.expect(0);
    let device = gpu.as_object_mut().unwrap().remove("device");
    assert_eq!(device, Some(json!("TEST DOUBLE (no GPU) (9.0), TensorRT 11.4.0")));
    // The recorded figures are those of the CPU, so all else is the same.
    assert_eq!(gpu, cpu);
    doubled.account().assert_clean();
    // An engine that cannot be had is an error where the GPU was asked for, and a reason to go on without where not.
    let (none, ran) = table(&doubled, "none.json", "buildSerializedNetwork:1");
    ran.expect(4).says(&["told to fail"]);
    assert_eq!(none, Json::Null);
    doubled.workspace.set("/calibrate/device", json!("auto"));
    let (auto, ran) = table(&doubled, "auto.json", "buildSerializedNetwork:1");
    ran.expect(0).says(&["calibration runs on the CPU", "told to fail"]);
    assert_eq!(auto, cpu);
    doubled.account().assert_clean();
    // Where no GPU is, asking for one is an error of its own kind.
    doubled.workspace.set("/calibrate/device", json!("gpu"));
    let path = doubled.workspace.folder.path().join("no.json").display().to_string();
    doubled.workspace.run("calibrate", &["-o", &path]).expect(3).says(&["no CUDA driver"]);
}
