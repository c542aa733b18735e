//! `trtforge compare`: runs side by side, what it refuses, and what a pipeline sees.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use support::{Ran, Workspace, trtforge};

/// Two runs of the tiny model, by min-max and by MSE.
fn two() -> (Workspace, String, String) {
    let mut workspace = Workspace::tiny();
    for (method, name) in [("minmax", "one"), ("mse", "two")] {
        workspace.set("/calibrate", json!({ "method": method }));
        let output = workspace.folder.path().join(name).display().to_string();
        workspace.run("build", &["--quiet", "--backend", "none", "--output", &output]).expect(0);
    }
    let path = |name: &str| workspace.folder.path().join(name).display().to_string();
    let (one, two) = (path("one"), path("two"));
    (workspace, one, two)
}

fn compare(arguments: &[&str]) -> Ran {
    trtforge(&[&["compare"], arguments].concat())
}

fn change<'a>(comparison: &'a Json, precision: &str) -> &'a Json {
    let all = comparison["differences"][0]["accuracy"].as_array().unwrap();
    all.iter().find(|one| one["precision"] == precision).unwrap()
}

fn edit(folder: &str, change: impl FnOnce(&mut Json)) {
    let path = Path::new(folder).join("run.json");
    let mut record: Json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut record);
    fs::write(path, record.to_string()).unwrap();
}

#[test]
fn two_runs_side_by_side() {
    let (workspace, one, two) = two();
    let page = workspace.folder.path().join("compare.html");
    let ran = compare(&[&one, &two, "--json", "-o", page.to_str().unwrap()]).expect(0);
    let found = ran.json();
    assert_eq!((&found["schema"], &found["baseline"]), (&json!(1), &json!("one")));
    // FP32 is the same model on the same rows.
    let fp32 = change(&found, "fp32");
    assert_eq!((&fp32["standing"], &fp32["change"]), (&json!("same-answers"), &json!(0.0)));
    let int8 = change(&found, "int8");
    assert_eq!((&int8["basis"], &int8["rows"]), (&json!("paired"), &json!([60, 60])));
    let difference = &found["differences"][0];
    assert_eq!(
        difference["profile"],
        json!([{ "key": "calibrate.method", "before": "minmax", "after": "mse" }])
    );
    assert!(difference["inputs"].as_array().unwrap().iter().all(|input| input["same"] == true));
    let scales = &difference["scales"];
    let moved = scales["moved"].as_array().unwrap();
    let total = moved.len() as u64 + scales["unchanged"].as_u64().unwrap();
    assert_eq!(scales["common"], json!(total));
    assert!(!moved.is_empty());
    // What is said of a tensor is what the tables say.
    let name = moved[0]["tensor"].as_str().unwrap();
    for (folder, side) in [(&one, "before"), (&two, "after")] {
        let text = fs::read_to_string(Path::new(folder).join("calibration.json")).unwrap();
        let table: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(table["tensors"][name]["threshold"], moved[0][side], "{name}");
    }
    let html = fs::read_to_string(&page).unwrap();
    for part in [
        "calibrate.method",
        "Thresholds that moved",
        "FP32: the same answer on each of 60 rows",
        name,
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<script") && !html.contains(workspace.folder.path().to_str().unwrap()));

    let text = compare(&[&one, &two]).expect(0).stdout;
    for part in ["two against one:", "calibrate.method", "minmax", "Every engine", "same answers"] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    let markdown = compare(&[&one, &two, "--markdown"]).expect(0).stdout;
    assert!(markdown.starts_with("# two against one: "), "{markdown}");
    // The same runs give the same bytes, and a baseline may stand anywhere.
    assert_eq!(compare(&[&one, &two]).expect(0).stdout, text);
    assert_eq!(compare(&[&two, &one, "--baseline", &one]).expect(0).stdout, text);
    assert_eq!(compare(&[&two, "--baseline", &one]).expect(0).stdout, text);
}

#[test]
fn records_alone_are_compared_without_their_rows() {
    let (workspace, one, two) = two();
    let copies =
        ["a.json", "b.json"].map(|name| workspace.folder.path().join(name).display().to_string());
    for (from, to) in [(&one, &copies[0]), (&two, &copies[1])] {
        fs::copy(Path::new(from).join("run.json"), to).unwrap();
    }
    let found = compare(&[&copies[0], &copies[1], "--json"]).expect(0).json();
    let int8 = change(&found, "int8");
    assert_eq!(int8["basis"], "unpaired");
    assert_eq!(int8["flips"], json!(null));
    let wide = |found: &Json| {
        let interval = found["interval"].as_array().unwrap();
        interval[1].as_f64().unwrap() - interval[0].as_f64().unwrap()
    };
    let paired = compare(&[&one, &two, "--json"]).expect(0).json();
    assert!(wide(int8) > wide(change(&paired, "int8")));
    let text = compare(&[&copies[0], &copies[1]]).expect(0).stdout;
    assert!(text.contains("not paired"), "{text}");
}

#[test]
fn plans_are_engines_of_their_run() {
    let (_workspace, one, _) = two();
    fs::create_dir_all(Path::new(&one).join("engines")).unwrap();
    // No library builds engines here; the record says where they would be.
    for precision in ["fp16", "int8"] {
        fs::write(Path::new(&one).join(format!("engines/m.{precision}.plan")), precision).unwrap();
    }
    edit(&one, |record| {
        for precision in ["fp16", "int8"] {
            record["precisions"][precision]["plan"] = json!(format!("engines/m.{precision}.plan"));
        }
    });
    let plan = |precision: &str| format!("{one}/engines/m.{precision}.plan");
    let found = compare(&[&plan("fp16"), &plan("int8"), "--json"]).expect(0).json();
    assert_eq!(
        (&found["baseline"], &found["differences"][0]["run"]),
        (&json!("one fp16"), &json!("one int8"))
    );
    let int8 = change(&found, "int8");
    assert_eq!((&int8["against"], &int8["basis"]), (&json!("fp16"), &json!("paired")));
    assert_eq!(found["engines"].as_array().unwrap().len(), 2);
    compare(&[&plan("int8"), &plan("int8")]).expect(2).says(&["is given twice"]);
    fs::write(format!("{one}/engines/other.plan"), "").unwrap();
    let other = format!("{one}/engines/other.plan");
    compare(&[&other, &one])
        .expect(2)
        .says(&["has no plan `other.plan`", "m.fp16.plan, m.int8.plan"]);
}

#[test]
fn other_rows_are_not_comparable() {
    let (_workspace, one, two) = two();
    edit(&two, |record| record["inputs"]["evaluation"]["fingerprint"] = json!("0".repeat(64)));
    let found = compare(&[&one, &two, "--json"]).expect(0).json();
    let int8 = change(&found, "int8");
    assert_eq!((&int8["standing"], &int8["change"]), (&json!("unknown"), &json!(null)));
    assert!(found["engines"][3]["same_rows"] == json!(false));
    let ran = compare(&[&one, &two, "--fail-on-regression"]).expect(1);
    assert!(ran.stdout.contains("not comparable"), "{}", ran.stdout);
    ran.says(&["regression: two INT8: whether accuracy is worse cannot be told"]);
}

#[test]
fn a_regression_is_an_exit_code() {
    let (_workspace, one, two) = two();
    compare(&[&one, &two, "--fail-on-regression"]).expect(0);
    // Every answer of INT8 becomes another: 60 rows cannot hide that.
    let path = Path::new(&two).join("predictions/int8.json");
    let mut answers: Json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for row in answers["scored"]["classes"].as_array_mut().unwrap() {
        // A row is its label and its answer.
        row[1] = json!(1 - row[0].as_i64().unwrap());
    }
    fs::write(&path, answers.to_string()).unwrap();
    let found = compare(&[&one, &two, "--json"]).expect(0).json();
    assert_eq!(change(&found, "int8")["standing"], "worse");
    compare(&[&one, &two, "--fail-on-regression"])
        .expect(1)
        .says(&["regression: two INT8:", "worse"]);
    compare(&[&two, &one, "--fail-on-regression"]).expect(0);
    // The gate's word counts too, and so does an engine that is gone.
    edit(&two, |record| {
        record["precisions"]["fp16"]["verdict"]["outcome"] = json!("rejected");
        record["precisions"].as_object_mut().unwrap().remove("int8");
    });
    let ran = compare(&[&one, &two, "--fail-on-regression"]).expect(1);
    ran.says(&["two FP16: the gate refuses it", "two INT8: it is gone"]);
}

#[test]
fn what_makes_no_comparison_is_refused_by_name() {
    let (workspace, one, two) = two();
    let path = |name: &str| workspace.folder.path().join(name).display().to_string();
    compare(&[&one]).expect(2).says(&["needs at least two runs"]);
    compare(&[&one, &format!("{one}/run.json")]).expect(2).says(&["is given twice"]);
    compare(&[&one, &one]).expect(2).says(&["is given twice"]);
    compare(&[&one, &path("three")]).expect(2).says(&["three", "neither a run folder nor a file"]);
    fs::create_dir(path("empty")).unwrap();
    compare(&[&one, &path("empty")]).expect(2).says(&["no run.json in"]);
    let broken = path("broken.json");
    for (text, said) in [
        ("", "broken.json"),
        ("[1]", "a list where the fields of a run belong"),
        ("{\"schema\": 99}", "schema 99; this version reads schemas 1 to 2"),
    ] {
        fs::write(&broken, text).unwrap();
        compare(&[&one, &broken]).expect(2).says(&["broken.json", said]);
    }
    fs::write(&broken, [0xff, 0xfe, 0x00]).unwrap();
    compare(&[&one, &broken]).expect(2).says(&["broken.json", "UTF-8"]);
    let record = format!("{one}/run.json");
    compare(&[&one, &two, "-o", &record]).expect(2).says(&["will not be written over"]);
    edit(&two, |record| record["profile"]["task"]["kind"] = json!("embedding"));
    compare(&[&one, &two])
        .expect(2)
        .says(&["`one` is text-classification, and `two` is embedding"]);
    edit(&two, |record| {
        record["profile"]["task"]["kind"] = json!("text-classification");
        for precision in ["fp32", "fp16", "int8"] {
            let one = &mut record["precisions"][precision];
            one["evaluation"]["metric"] = json!("f7");
            one["metrics"] = json!([one["evaluation"]]);
        }
    });
    compare(&[&one, &two]).expect(2).says(&["measured by accuracy, and `two` by f7"]);
}

#[test]
fn a_run_that_stopped_early_has_no_accuracy_to_compare() {
    let (workspace, one, _) = two();
    let stopped = workspace.folder.path().join("stopped").display().to_string();
    let arguments =
        ["--quiet", "--backend", "none", "--stop-after", "calibrate", "--output", &stopped];
    workspace.run("build", &arguments).expect(0);
    let ran = compare(&[&one, &stopped]).expect(0);
    assert!(ran.stdout.contains("accuracy was not measured in both"), "{}", ran.stdout);
    let ran = compare(&[&one, &stopped, "--fail-on-regression"]).expect(1);
    ran.says(&["FP16: it is gone"]);
}
