//! `trtforge gate`, the rules of a profile, recorded baselines, and what a pipeline sees.

#[path = "support/mod.rs"]
mod support;

use std::fs;

use serde_json::{Value as Json, json};
use support::{Workspace, repository, trtforge, trtforge_with};

/// A tiny run whose evaluation rows have a field `source`, built once without engines.
fn built() -> Workspace {
    let workspace = Workspace::tiny();
    let path = workspace.folder.path().join("eval.jsonl");
    let rows: String = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .enumerate()
        .map(|(row, line)| {
            let mut value: Json = serde_json::from_str(line).unwrap();
            value["source"] = json!(if row % 3 == 0 { "phone" } else { "web" });
            format!("{value}\n")
        })
        .collect();
    fs::write(&path, rows).unwrap();
    workspace
}

fn build(workspace: &Workspace, code: i32) {
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(code);
}

fn gate(workspace: &Workspace, more: &[&str]) -> support::Ran {
    let run = workspace.output("").display().to_string();
    let mut arguments = vec!["gate", run.as_str()];
    arguments.extend(more);
    trtforge(&arguments)
}

fn rules(verdict: &Json) -> Vec<String> {
    let name = |rule: &Json| {
        let scope = rule["scope"].as_str().map_or_else(String::new, |scope| format!(" {scope}"));
        format!("{}{scope}", rule["rule"].as_str().unwrap())
    };
    verdict["rules"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn every_rule_of_a_profile_is_in_the_record_and_the_reports() {
    let mut workspace = built();
    workspace.set("/gate/metric", json!(["accuracy", "macro-f1"]));
    workspace.set("/gate/max_drop", json!(0.5));
    workspace.set("/gate/min_value", json!(0.0));
    workspace.set("/gate/per_class", json!({ "max_drop": 0.9 }));
    workspace.set("/gate/per_slice", json!([{ "field": "source", "max_drop": 0.9 }]));
    workspace.set("/gate/max_flip_rate", json!(1.0));
    workspace.set("/gate/max_logit_divergence", json!(10.0));
    build(&workspace, 0);
    let run = workspace.read("run.json");
    let int8 = &run["precisions"]["int8"];
    let found = rules(&int8["verdict"]);
    for rule in ["finite_logits", "baseline_above_chance", "max_drop", "min_value"] {
        assert!(found.contains(&rule.to_owned()), "{rule}: {found:?}");
    }
    for rule in ["max_drop source=phone", "max_drop source=web", "max_drop class positive"] {
        assert!(found.contains(&rule.to_owned()), "{rule}: {found:?}");
    }
    let metrics: Vec<&str> =
        int8["metrics"].as_array().unwrap().iter().map(|m| m["metric"].as_str().unwrap()).collect();
    assert_eq!(metrics, ["accuracy", "macro-f1", "micro-f1", "mcc"]);
    assert_eq!(int8["confusion"]["classes"], json!(["negative", "positive"]));
    assert_eq!(int8["verdict"]["slices"].as_array().unwrap().len(), 2);
    for (report, part) in [
        ("report.html", "source=phone"),
        ("report.md", "source=phone"),
        ("junit.xml", "int8 max_drop, accuracy, source=phone"),
    ] {
        assert!(fs::read_to_string(workspace.output(report)).unwrap().contains(part), "{report}");
    }
}

#[test]
fn a_finished_run_is_judged_again_without_running_anything() {
    let workspace = built();
    build(&workspace, 0);
    // Neither model nor data is needed any more.
    for file in ["model.onnx", "eval.jsonl", "calib.jsonl"] {
        fs::remove_file(workspace.folder.path().join(file)).unwrap();
    }
    let before = fs::read(workspace.output("run.json")).unwrap();
    let same = gate(&workspace, &["--json"]).expect(0).json();
    let recorded = workspace.read("run.json");
    assert_eq!(same["verdicts"]["int8"], recorded["precisions"]["int8"]["verdict"]);
    assert_eq!(same["accepted"], true);
    let junit = workspace.folder.path().join("gate.xml");
    let strict = ["--set", "gate.min_value=0.9999", "--set", "gate.metric=macro-f1", "--json"];
    let mut arguments = strict.to_vec();
    arguments.extend(["--junit", junit.to_str().unwrap()]);
    let refused = gate(&workspace, &arguments).expect(1).json();
    let verdict = &refused["verdicts"]["int8"];
    assert_eq!((&verdict["outcome"], &refused["accepted"]), (&json!("rejected"), &json!(false)));
    assert!(verdict["reason"].as_str().unwrap().contains("below the 0.9999 required"), "{verdict}");
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("int8 min_value, macro-f1") && xml.contains("<failure"), "{xml}");
    assert_eq!(fs::read(workspace.output("run.json")).unwrap(), before, "the run is as it was");
}

#[test]
fn questions_that_a_run_cannot_answer_are_bad_input() {
    let workspace = built();
    build(&workspace, 0);
    for (more, words) in [
        (["--set", "gate.metric=f1"], ["`f1` cannot be measured on classes", "`macro-f1`"]),
        (["--set", "gate.metric=acuracy"], ["`acuracy`", "did you mean `accuracy`"]),
        (["--set", "gate.max_dorp=1"], ["gate.max_dorp", "did you mean `max_drop`"]),
        (["--set", "quantize.level=gemm"], ["quantize.level=gemm", "another `gate`"]),
        (
            ["--set", "gate.per_slice={field: source, max_drop: 0.1}"],
            ["no field `source`", "gate.per_slice"],
        ),
        (["--set", "gate.baseline=nowhere"], ["nowhere", "predictions/rows.json"]),
    ] {
        gate(&workspace, &more).expect(2).says(&words);
    }
    fs::write(workspace.output("predictions/int8.json"), "{}").unwrap();
    gate(&workspace, &[]).expect(2).says(&["predictions/int8.json", "build again"]);
    fs::remove_file(workspace.output("predictions/int8.json")).unwrap();
    gate(&workspace, &[]).expect(2).says(&[
        "holds no `predictions/int8.json`",
        "`trtforge build` that ran to its verdict on this precision, or build again",
    ]);
    for given in [workspace.folder.path().to_str().unwrap(), "nope"] {
        for command in ["gate", "report"] {
            trtforge(&[command, given]).expect(2).says(&[
                "not a run folder: no run.json",
                given,
                "`trtforge build`",
            ]);
        }
    }
}

#[test]
fn views_of_another_gate_show_its_metric_everywhere() {
    let workspace = built();
    build(&workspace, 0);
    let summary = workspace.folder.path().join("summary.md");
    let run = workspace.output("").display().to_string();
    let arguments = ["gate", &run, "--set", "gate.metric=mcc", "--set", "gate.confidence=0.9"];
    let ran = trtforge_with(&arguments, |command| command.env("GITHUB_STEP_SUMMARY", &summary));
    let head = ran.stdout.lines().find(|line| line.contains("verdict")).unwrap_or_default();
    assert!(head.contains("mcc [90 %]"), "{}", ran.stdout);
    let recorded = workspace.read("run.json");
    let mcc = &recorded["precisions"]["fp32"]["metrics"][3];
    assert_eq!(mcc["metric"], "mcc");
    let value = format!("{:.4} [", mcc["value"].as_f64().unwrap());
    let fp32 = ran.stdout.lines().find(|line| line.starts_with("fp32")).unwrap_or_default();
    assert!(fp32.contains(&value), "{value} is not in {fp32}");
    assert!(!ran.stdout.contains("accuracy ["), "{}", ran.stdout);
    let text = fs::read_to_string(&summary).unwrap();
    assert!(text.contains("| precision | mcc | interval |"), "{text}");
}

#[test]
fn what_a_build_refuses_at_once_the_check_refuses_too() {
    let mut workspace = built();
    let ids: String = fs::read_to_string(workspace.folder.path().join("eval.jsonl"))
        .unwrap()
        .lines()
        .cycle()
        .take(300)
        .enumerate()
        .map(|(row, line)| {
            let mut value: Json = serde_json::from_str(line).unwrap();
            value["id"] = json!(format!("row {row}"));
            format!("{value}\n")
        })
        .collect();
    fs::write(workspace.folder.path().join("eval.jsonl"), ids).unwrap();
    workspace.set("/engine/backend", json!("none"));
    workspace.run("check", &[]).expect(0);
    let usual = workspace.profile["gate"].clone();
    let refused = |workspace: &mut Workspace, rule: &str, value: Json, words: &[&str]| {
        workspace.set("/gate", usual.clone()).set(&format!("/gate/{rule}"), value);
        for command in ["check", "build"] {
            workspace.run(command, &[]).expect(2).says(words);
        }
    };
    let slice = |field: &str| json!({ "field": field, "max_drop": 0.1 });
    refused(&mut workspace, "per_slice", slice("nowhere"), &["nowhere"]);
    refused(&mut workspace, "per_slice", slice("id"), &["`id` has 300 different values"]);
    refused(&mut workspace, "baseline", json!("no-run"), &["no-run", "predictions/rows.json"]);
    refused(&mut workspace, "metric", json!("pearson"), &["pearson"]);
    // A recorded run that lacks the precision it would be compared with.
    workspace.set("/gate", usual.clone()).set("/precisions", json!(["int8"]));
    build(&workspace, 0);
    fs::rename(workspace.output(""), workspace.folder.path().join("earlier")).unwrap();
    workspace.set("/precisions", json!(["fp16", "int8"]));
    refused(&mut workspace, "baseline", json!("earlier"), &["holds no `predictions/fp16.json`"]);
    // An output over its own input.
    workspace.set("/gate", usual.clone());
    fs::create_dir_all(workspace.output("")).unwrap();
    let table = workspace.output("junit.xml");
    fs::copy(workspace.folder.path().join("eval.jsonl"), &table).unwrap();
    workspace.set("/data/evaluation/path", json!(table));
    for command in ["check", "build"] {
        workspace.run(command, &[]).expect(2).says(&["junit.xml"]);
    }
}

#[test]
fn todays_engine_is_judged_against_the_one_in_production() {
    let mut workspace = built();
    build(&workspace, 0);
    fs::rename(workspace.output(""), workspace.folder.path().join("production")).unwrap();
    workspace.set("/gate/baseline", json!("production"));
    build(&workspace, 0);
    let run = workspace.read("run.json");
    let verdict = &run["precisions"]["int8"]["verdict"];
    // The same engine against itself: nothing flips, whatever INT8 does to FP32.
    assert_eq!((&verdict["baseline"], &verdict["drop"]), (&json!("production"), &json!(0.0)));
    assert_eq!(verdict["flips"]["to_wrong"], 0);
    // One of its precisions by name.
    workspace.set("/gate/baseline", json!({ "run": "production", "precision": "fp32" }));
    build(&workspace, 0);
    assert_eq!(
        workspace.read("run.json")["precisions"]["int8"]["verdict"]["baseline"],
        "production fp32"
    );
    // Other data are refused before any work.
    let path = workspace.folder.path().join("eval.jsonl");
    let rows = fs::read_to_string(&path).unwrap();
    let fewer: String = rows.lines().skip(1).map(|line| format!("{line}\n")).collect();
    fs::write(&path, fewer).unwrap();
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(2).says(&[
        "evaluated on other data",
        "60 rows",
        "has 59",
    ]);
}

#[test]
fn labels_in_another_order_are_named_and_refused() {
    let mut workspace = built();
    let predictions = workspace.folder.path().join("predictions.jsonl");
    workspace
        .run("evaluate", &["--quiet", "--predictions", predictions.to_str().unwrap()])
        .expect(0);
    // Right labels, made from the model's own logits; then the profile names them the other way round.
    let margin = |line: &str| {
        let row: Json = serde_json::from_str(line).unwrap();
        row["logits"][0].as_f64().unwrap() - row["logits"][1].as_f64().unwrap()
    };
    let text = fs::read_to_string(&predictions).unwrap();
    let positive: Vec<bool> = text.lines().map(|line| margin(line) < 0.0).collect();
    if positive.iter().all(|one| *one == positive[0]) {
        // Made-up models may answer one class alone; then there is nothing to swap.
        eprintln!("skipped: the made-up model answers one class only");
        return;
    }
    let path = workspace.folder.path().join("eval.jsonl");
    let rows: String = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .zip(positive)
        .map(|(line, positive)| {
            let mut row: Json = serde_json::from_str(line).unwrap();
            row["label"] = json!(if positive { "positive" } else { "negative" });
            format!("{row}\n")
        })
        .collect();
    fs::write(&path, rows).unwrap();
    workspace.set("/gate/allow_chance_baseline", json!(false));
    build(&workspace, 0);
    workspace.set("/task/labels", json!(["positive", "negative"]));
    build(&workspace, 1);
    let verdict = workspace.read("run.json")["precisions"]["int8"]["verdict"].clone();
    let reason = verdict["reason"].as_str().unwrap();
    assert!(reason.contains("worse than chance"), "{reason}");
    assert!(reason.contains("in the order [negative, positive]"), "{reason}");
}

#[test]
fn a_pipeline_gets_a_summary_and_annotations() {
    let workspace = built();
    build(&workspace, 0);
    let summary = workspace.folder.path().join("summary.md");
    fs::write(&summary, "# before\n").unwrap();
    let run = workspace.output("").display().to_string();
    let arguments = ["gate", &run, "--json", "--set", "gate.min_value=1.0"];
    let ran = trtforge_with(&arguments, |command| {
        command.env("GITHUB_STEP_SUMMARY", &summary).env("GITHUB_ACTIONS", "true")
    })
    .expect(1);
    ran.json();
    assert!(ran.stderr.contains("::error title=INT8 rejected::"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("::error"), "standard output is data");
    let text = fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("# before\n") && text.contains("## Gate"), "{text}");
    let quiet = trtforge_with(&["gate", &run], |command| {
        command.env_remove("GITHUB_STEP_SUMMARY").env_remove("GITHUB_ACTIONS")
    });
    assert!(!quiet.stderr.contains("::"), "{}", quiet.stderr);
}

#[test]
fn the_ready_workflows_are_yaml_and_call_what_exists() {
    for (file, jobs) in
        [("docs/ci/github-actions.yml", "jobs"), ("docs/ci/gitlab-ci.yml", "engines")]
    {
        let text = fs::read_to_string(repository().join(file)).unwrap();
        let parsed: Json = serde_yaml::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(parsed.get(jobs).is_some(), "{file}: {parsed}");
        assert!(text.contains("trtforge build") && text.contains("junit.xml"), "{file}");
        let commands = text.lines().filter_map(|line| line.trim().strip_prefix("- trtforge "));
        for command in commands {
            let subcommand = command.split_whitespace().next().unwrap();
            trtforge(&[subcommand, "--help"]).expect(0);
        }
    }
}
