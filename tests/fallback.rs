//! `trtforge sensitivity` and `gate.on_reject: fallback`, end to end on a model with one poisoned node.

mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use support::tiny::shift_bias;
use support::{Workspace, trtforge};
use trtforge_onnx::{ElementType, Model, Patch};

/// The node whose input has the outlier.
const POISONED: &str = "/attention.product";
/// Of the tiny model.
const HIDDEN: usize = 32;
/// How much larger one channel of the context is than FP32 needs it to be.
const OUTLIER: f32 = 4096.0;

/// Changes weights in place, which keeps the FP32 model as it is: what one multiplies, the next divides.
fn poison(path: &Path) {
    let model = Model::open(path).unwrap();
    let scaled = |name: &str, factor: &dyn Fn(usize) -> f32| {
        let tensor = model.graph().initializer(name).unwrap();
        let values = tensor.to_f32().unwrap().to_vec();
        let bytes: Vec<u8> = (0..values.len())
            .flat_map(|index| (values[index] * factor(index)).to_le_bytes())
            .collect();
        (tensor.dims.clone(), bytes)
    };
    let column = |index: usize| if index % HIDDEN == 3 { OUTLIER } else { 1.0 };
    let row = |index: usize| if index / HIDDEN == 3 { 1.0 / OUTLIER } else { 1.0 };
    let mut patch = Patch::new(&model);
    for (name, (dims, bytes)) in [
        ("value.weight", scaled("value.weight", &column)),
        ("value.bias", scaled("value.bias", &column)),
        ("attention.weight", scaled("attention.weight", &row)),
    ] {
        patch.set_initializer(name, ElementType::F32, dims, bytes);
    }
    patch.finish().unwrap().save(path).unwrap();
}

/// The tiny workspace with a poisoned model, and with FP32's own answers as labels: every flipped answer is a loss.
fn poisoned() -> Workspace {
    let mut workspace = Workspace::tiny();
    let folder = workspace.folder.path().to_owned();
    poison(&folder.join("model.onnx"));
    let words = ["good", "bad", "dull", "warm", "cold", "rich", "poor", "fine", "sad", "glad"];
    let texts = |count: usize, seed: usize| -> Vec<String> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % (1 << 32);
            state >> 16
        };
        let mut text = || {
            let words: Vec<&str> = (0..4 + next() % 8).map(|_| words[next() % 10]).collect();
            words.join(" ")
        };
        (0..count).map(|_| text()).collect()
    };
    let write = |name: &str, rows: Vec<Json>| {
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(folder.join(name), lines).unwrap();
    };
    write("calib.jsonl", texts(80, 7).iter().map(|text| json!({ "text": text })).collect());
    let evaluated = texts(300, 3);
    let labelled = |class: &dyn Fn(usize) -> Json| {
        let row = |(row, text): (usize, &String)| json!({ "text": text, "label": class(row) });
        evaluated.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    write("eval.jsonl", labelled(&|_| json!(0)));
    workspace.set("/calibrate/method", json!("minmax"));
    workspace.set("/precisions", json!(["int8"]));
    workspace.set("/gate", json!({ "max_drop": 0.08 }));
    let answers = folder.join("answers.jsonl");
    let evaluate = |workspace: &Workspace| -> Vec<Json> {
        let path = answers.display().to_string();
        workspace.run("evaluate", &["--predictions", &path]).expect(0);
        let lines = fs::read_to_string(&answers).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // Half of the rows on each side, or no answer would ever flip.
    let logit = |row: &Json, class: usize| row["logits"][class].as_f64().unwrap();
    let mut lead: Vec<f64> =
        evaluate(&workspace).iter().map(|row| logit(row, 1) - logit(row, 0)).collect();
    lead.sort_by(f64::total_cmp);
    shift_bias(&folder.join("model.onnx"), lead[lead.len() / 2] as f32);
    let classes: Vec<Json> = evaluate(&workspace).iter().map(|row| row["class"].clone()).collect();
    assert_eq!(classes.len(), 300);
    write("eval.jsonl", labelled(&|row| classes[row].clone()));
    workspace
}

const NO_ENGINE: [&str; 2] = ["--backend", "none"];

#[test]
fn sensitivity_ranks_the_poisoned_node_first() {
    let workspace = poisoned();
    let found = workspace.run("sensitivity", &["--json", "--rows", "32"]).expect(0).json();
    let units = found["units"].as_array().unwrap();
    assert_eq!(units[0]["node"], POISONED, "{found:#}");
    assert_eq!(units[0]["kind"], "attention-output");
    assert_eq!(units[0]["encoder_layer"], 0);
    let shift = |unit: usize| units[unit]["shift"].as_f64().unwrap();
    assert!(shift(0) > 5.0 * shift(1), "{found:#}");
    assert_eq!((&found["rows"], &found["fresh_rows"]), (&json!(32), &json!(32)));
    assert_eq!(found["table"]["from"], "calibrated");
    // Eight products have weights; the poisoned one is as large as Q, K and V.
    assert_eq!(units.len(), 8);
    let total: f64 = units.iter().map(|unit| unit["share"].as_f64().unwrap()).sum();
    assert!((total - found["arithmetic"]["share"].as_f64().unwrap()).abs() < 1e-12);

    let text = workspace.run("sensitivity", &["--rows", "32", "--top", "2"]).expect(0).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("… and 6 more"), "{text}");
    assert!(text.contains("by kind: attention-output"), "{text}");
    // The same figures again: nothing depends on chance or on who runs it.
    let again = workspace.run("sensitivity", &["--json", "--rows", "32"]).expect(0).json();
    assert_eq!(again["units"], found["units"]);
}

/// What a search chose keeps the price of the search, whatever rules it is judged by later.
fn judged_again(workspace: &Workspace) {
    let run = workspace.output("").display().to_string();
    let plain = workspace.folder.path().join("plain.yaml");
    fs::write(&plain, "gate: { max_drop: 0.08 }\n").unwrap();
    let plain = plain.display().to_string();
    let split = "judged at 97.5 % confidence for the 95 %";
    for more in [
        &[][..],
        &["--profile", plain.as_str()],
        &["--set", "gate.on_reject=fail"],
        &["--set", "gate.on_reject=fail", "--set", "gate.fallback={ max_steps: 3 }"],
    ] {
        let arguments = [&["gate", run.as_str()], more].concat();
        let text = trtforge(&arguments).expect(0).stdout;
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(split), "{more:?}: {text}");
        assert!(flat.contains("Under the rules of the build, INT8 as a whole"), "{text}");
        let json = trtforge(&[&arguments[..], &["--json"]].concat()).expect(0).json();
        assert_eq!(json["verdicts"]["int8"]["confidence"], 0.975, "{more:?}");
        assert_eq!(json["verdicts"]["fp16"], Json::Null, "only INT8 was built");
        assert!(json["warnings"][0].as_str().unwrap().contains(split), "{json}");
    }
    let arguments = ["gate", &run, "--profile", &plain, "--set", "gate.confidence=0.9", "--json"];
    let json = trtforge(&arguments).json();
    assert_eq!(json["verdicts"]["int8"]["confidence"], 0.95);
    let report = fs::read_to_string(workspace.output("report.md")).unwrap();
    assert!(!report.contains("Under the rules of the build"), "of the build itself: {report}");
}

#[test]
fn fallback_returns_the_poisoned_node_alone() {
    let mut workspace = poisoned();
    workspace.run("build", &NO_ENGINE).expect(1);
    assert_eq!(workspace.read("run.json")["fallback"], Json::Null);
    let whole = workspace.read("run.json")["precisions"]["int8"].clone();
    assert_eq!(whole["verdict"]["outcome"], "rejected", "{whole:#}");

    workspace.set("/gate/on_reject", json!("fallback"));
    let ran = workspace.run("build", &NO_ENGINE).expect(0);
    assert!(ran.stdout.contains(POISONED), "{}", ran.stdout);
    let record = workspace.read("run.json");
    let path = &record["fallback"];
    let steps = path["steps"].as_array().unwrap();
    let chosen = &steps[path["chosen"].as_u64().unwrap() as usize];
    assert_eq!(chosen["returned"], json!([POISONED]), "{path:#}");
    assert_eq!(chosen["look"]["passed"], true);
    assert_eq!(steps[0]["returned"], json!([]));
    assert_eq!(steps[0]["look"]["outcome"], "rejected");
    assert_eq!(record["sensitivity"]["units"][0]["node"], POISONED);
    let int8 = &record["precisions"]["int8"];
    assert_eq!(int8["verdict"]["outcome"], "accepted");
    assert_eq!(int8["verdict"]["confidence"], 0.975);
    assert_eq!(int8["arithmetic"], chosen["arithmetic"]);
    let share = |value: &Json| value["share"].as_f64().unwrap();
    assert!(share(&int8["arithmetic"]) < share(&whole["arithmetic"]));
    assert!(share(&int8["arithmetic"]) > 0.5);
    let skipped: Vec<&Json> = record["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|decision| decision["action"] == "skipped")
        .collect();
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert!(skipped[0]["reason"].as_str().unwrap().contains("returned to FP16"));
    for report in ["report.md", "report.html"] {
        let text = fs::read_to_string(workspace.output(report)).unwrap();
        assert!(text.contains(POISONED), "{report}");
    }

    judged_again(&workspace);

    // Everything is in the store: the same answer, nothing measured again.
    let kept = || -> Vec<(String, std::time::SystemTime)> {
        let entries = fs::read_dir(workspace.output("artifacts")).unwrap().flatten();
        let made = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let measured = ["sensitivity-", "shift-", "predictions-"];
            let wanted = measured.iter().any(|stage| name.starts_with(stage));
            wanted.then(|| (name, entry.metadata().unwrap().modified().unwrap()))
        };
        let mut kept: Vec<_> = entries.filter_map(made).collect();
        kept.sort();
        kept
    };
    let before = kept();
    assert!(before.len() > 4, "{before:?}");
    workspace.run("build", &NO_ENGINE).expect(0);
    assert_eq!(kept(), before);
    assert_eq!(workspace.read("run.json")["fallback"], *path);
}

#[test]
fn without_time_int8_stays_refused_and_the_next_run_goes_on() {
    let mut workspace = poisoned();
    workspace.set("/gate/on_reject", json!("fallback"));
    workspace.set("/gate/fallback/time_limit", json!("0s"));
    workspace.run("build", &NO_ENGINE).expect(1);
    let record = workspace.read("run.json");
    assert!(record["fallback"]["ended"].as_str().unwrap().contains("time limit of 0 s"));
    assert_eq!(record["fallback"]["chosen"], Json::Null);
    assert_eq!(record["precisions"]["int8"]["verdict"]["outcome"], "rejected");
    workspace.set("/gate/fallback/time_limit", json!("1h"));
    workspace.run("build", &NO_ENGINE).expect(0);
}

#[test]
fn what_no_candidate_can_prove_is_refused_with_its_path() {
    let mut workspace = poisoned();
    workspace.set("/gate/on_reject", json!("fallback"));
    // No drop at all cannot be proven on any number of rows.
    workspace.set("/gate/max_drop", json!(0.0));
    workspace.run("build", &NO_ENGINE).expect(1);
    let path = workspace.read("run.json")["fallback"].clone();
    assert_eq!(path["chosen"], Json::Null, "{path:#}");
    let steps = path["steps"].as_array().unwrap();
    let looks = steps.iter().filter(|step| !step["look"].is_null()).count();
    assert_eq!(looks, 2, "INT8 as a whole, and the candidate with the least INT8: {path:#}");
    assert!(!workspace.output("engines").join("m.int8.plan").exists());
}

#[test]
fn mistakes_in_the_profile_are_named() {
    let mut workspace = Workspace::tiny();
    workspace.set("/engine/backend", json!("none"));
    // Limits of a search that is not asked for are unused, and yet they are read.
    workspace.set("/gate/fallback/max_steps", json!(3));
    workspace.run("check", &[]).expect(0);
    workspace.set("/gate/on_reject", json!("fail"));
    workspace.run("check", &[]).expect(0);
    workspace.set("/gate/fallback/max_steps", json!(0));
    workspace.run("check", &[]).expect(2).says(&["gate.fallback.max_steps"]);
    workspace.set("/gate/fallback/max_steps", json!(3));
    workspace.set("/gate/on_reject", json!("falback"));
    workspace.run("check", &[]).expect(2).says(&["did you mean `fallback`?"]);
    workspace.set("/gate/on_reject", json!("fallback"));
    workspace.set("/gate/fallback", json!({ "time_limit": 30 }));
    workspace.run("check", &[]).expect(2).says(&["gate.fallback.time_limit", "30m"]);
    workspace.set("/gate/fallback", json!({ "time_limt": "30m" }));
    workspace.run("check", &[]).expect(2).says(&["did you mean `time_limit`?"]);
}
