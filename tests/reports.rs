//! Reports of real runs: a bad table that is refused with the parts that hurt, texts only where they are asked for, and tables that no
//! build writes over.

mod support;

use std::fs;

use serde_json::{Value as Json, json};
use support::tiny::shift_bias;
use support::{Workspace, files, trtforge};

/// The tiny workspace with FP32's own answers as labels, so that every flipped answer is a loss, and half of the rows on each side.
fn sure() -> Workspace {
    let mut workspace = Workspace::tiny();
    let folder = workspace.folder.path().to_owned();
    let told = || -> Vec<Json> {
        let answers = folder.join("answers.jsonl");
        let options = ["--predictions", answers.to_str().unwrap(), "--quiet"];
        workspace.run("evaluate", &options).expect(0);
        let lines = fs::read_to_string(answers).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let logit = |row: &Json, class: usize| row["logits"][class].as_f64().unwrap();
    let mut lead: Vec<f64> = told().iter().map(|row| logit(row, 1) - logit(row, 0)).collect();
    lead.sort_by(f64::total_cmp);
    shift_bias(&folder.join("model.onnx"), lead[lead.len() / 2] as f32);
    let rows = folder.join("eval.jsonl");
    let texts = fs::read_to_string(&rows).unwrap();
    let labelled = texts.lines().zip(told()).map(|(row, answer)| {
        let mut row: Json = serde_json::from_str(row).unwrap();
        row["label"] = answer["class"].clone();
        format!("{row}\n")
    });
    fs::write(&rows, labelled.collect::<String>()).unwrap();
    workspace.set("/gate/max_drop", json!(0.01));
    workspace
}

/// The table of a calibration with every scale multiplied, and what belongs to it: a scale alone is refused as edited.
fn bad_table(workspace: &mut Workspace, factor: f32) {
    let path = workspace.folder.path().join("table.json");
    workspace.run("calibrate", &["-o", path.to_str().unwrap(), "--quiet"]).expect(0);
    let mut table: Json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for tensor in table["tensors"].as_object_mut().unwrap().values_mut() {
        for key in ["absmax", "threshold", "scale"] {
            let value = tensor[key].as_f64().unwrap() as f32 * factor;
            tensor[key] = json!(value);
        }
    }
    fs::write(&path, table.to_string()).unwrap();
    workspace.set("/calibrate", json!({ "table": path }));
}

#[test]
fn a_bad_table_is_refused_and_the_report_names_what_hurts() {
    let mut workspace = sure();
    bad_table(&mut workspace, 20.0);
    let ran = workspace.run("build", &[]).expect(1);
    assert!(ran.stdout.contains("What hurts most when quantized alone"), "{}", ran.stdout);
    let engines = files(&workspace.output("engines"));
    assert!(!engines.iter().any(|name| name.contains("int8")), "{engines:?}");
    let run = workspace.read("run.json");
    assert_eq!(run["precisions"]["int8"]["verdict"]["outcome"], "rejected");
    let worst = &run["sensitivity"]["units"][0];
    let (node, tensor) = (worst["node"].as_str().unwrap(), worst["reads"][0].as_str().unwrap());
    for name in ["report.html", "report.md"] {
        let text = fs::read_to_string(workspace.output(name)).unwrap();
        let text = text.replace("\\_", "_");
        assert!(text.contains("What hurts most when quantized alone"), "{name}");
        assert!(text.contains(node) && text.contains(tensor), "{name}: {node} {tensor}");
    }
    // The good table passes with the same gate.
    bad_table(&mut workspace, 1.0);
    workspace.set("/gate/max_drop", json!(0.5));
    workspace.run("build", &["--quiet"]).expect(0);
    assert!(workspace.read("run.json")["sensitivity"].is_null());

    texts_are_shown_only_where_they_are_asked_for();
}

fn texts_are_shown_only_where_they_are_asked_for() {
    let mut workspace = sure();
    bad_table(&mut workspace, 20.0);
    workspace.set("/engine", json!({ "backend": "none" }));
    workspace.run("build", &["--quiet"]).expect(1);
    let run = workspace.read("run.json");
    let flipped = run["precisions"]["int8"]["flipped"].as_array().unwrap();
    let changes = &run["precisions"]["int8"]["verdict"]["flips"];
    assert!(!flipped.is_empty());
    assert_eq!(json!(flipped.len()), changes["to_wrong"], "labels are FP32's answers");
    let line = flipped[0]["line"].as_u64().unwrap() as usize;
    let rows = fs::read_to_string(workspace.folder.path().join("eval.jsonl")).unwrap();
    let row: Json = serde_json::from_str(rows.lines().nth(line - 1).unwrap()).unwrap();
    let text = row["text"].as_str().unwrap();
    assert_eq!(
        flipped[0]["label"],
        ["negative", "positive"][row["label"].as_u64().unwrap() as usize]
    );

    let (folder, profile) = (workspace.output("").display().to_string(), workspace.write());
    let holds = |name: &str| fs::read_to_string(workspace.output(name)).unwrap().contains(text);
    let nowhere = |when: &str| {
        for name in ["report.html", "report.md", "run.json", "junit.xml"] {
            assert!(!holds(name), "{when}: `{text}` is in {name}");
        }
    };
    nowhere("after the build");
    trtforge(&["report", &folder, "--show-text", &profile]).expect(0).says(&["as private as"]);
    assert!(holds("report.html"));
    assert!(!holds("run.json") && !holds("report.md"));
    let again = trtforge(&["report", &folder, "--json"]).expect(0).json();
    assert_eq!(again["precisions"], run["precisions"]);
    nowhere("rendered again");
    // Rows of another file are not these rows.
    let other = workspace.folder.path().join("other.jsonl");
    fs::write(&other, rows.replace("film", "plot")).unwrap();
    workspace.set("/data/evaluation/path", json!(other));
    let other = workspace.write();
    trtforge(&["report", &folder, "--show-text", &other])
        .expect(2)
        .says(&["another evaluation data"]);
}

#[test]
fn a_table_of_no_build_is_not_written_over() {
    let mut workspace = Workspace::tiny();
    workspace.set("/engine", json!({ "backend": "none" }));
    let table = workspace.output("calibration.json");
    fs::create_dir_all(table.parent().unwrap()).unwrap();
    fs::write(&table, "mine").unwrap();
    let stop = ["--stop-after", "calibrate", "--quiet"];
    workspace.run("build", &stop).expect(2).says(&["calibration.json", "no run.json beside it"]);
    assert_eq!(fs::read_to_string(&table).unwrap(), "mine");
    assert_eq!(files(&workspace.output("")), ["calibration.json"], "nothing was begun");
    fs::remove_file(&table).unwrap();
    workspace.run("build", &stop).expect(0);
    // Its own table it may replace.
    workspace.run("build", &stop).expect(0);
}
