//! Profiles right and wrong, one by one.

use super::*;
use trtforge_evaluate::Tolerance;

const GOOD: &str = "\
version: 1
model:
  onnx: models/m.onnx
  tokenizer: models/tokenizer.json
task:
  kind: text-classification
  labels: [negative, positive]
data:
  calibration: { path: train.jsonl, samples: 64 }
  evaluation: { path: test.jsonl, label: stars }
max_length: 128
output: out/m
";

fn read(text: &str, assignments: &[&str]) -> Result<Profile, ProfileError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.yaml");
    std::fs::write(&path, text).unwrap();
    let assignments: Vec<String> = assignments.iter().map(|a| (*a).to_owned()).collect();
    Profile::read(&path, &assignments)
}

/// The error with all it relates to and its help texts.
fn complaint(text: &str, assignments: &[&str]) -> String {
    fn collect(error: &ProfileError, into: &mut String) {
        use miette::Diagnostic;
        into.push_str(&error.to_string());
        if let Some(help) = error.help() {
            into.push_str(&format!(" [{help}]"));
        }
        into.push('\n');
        if let ProfileError::Several { errors, .. } = error {
            for error in errors {
                collect(error, into);
            }
        }
    }
    let mut text_of = String::new();
    collect(&read(text, assignments).expect_err("the profile is wrong"), &mut text_of);
    text_of
}

#[test]
fn a_short_profile_has_defaults() {
    let profile = read(GOOD, &[]).unwrap();
    assert_eq!(profile.max_length, 128);
    assert_eq!(profile.precisions, [Precision::Fp16, Precision::Int8]);
    assert_eq!(profile.calibration.samples, 64);
    assert_eq!(profile.calibration.text, "text");
    assert_eq!(profile.evaluation.label, "stars");
    assert_eq!(profile.gate.tolerance, Tolerance::Absolute(0.005));
    assert_eq!(profile.calibrate.method, Method::Entropy);
    assert!(profile.model.onnx.ends_with("models/m.onnx"));
    assert!(profile.model.onnx.is_absolute(), "paths are relative to the profile's folder");
    assert!(matches!(profile.shapes, Shapes::FromLengths { profiles: 3, max_batch: 64, .. }));
}

#[test]
fn overrides_apply_and_are_checked() {
    let profile = read(GOOD, &["gate.max_drop=0.01", "precisions=[int8]"]).unwrap();
    assert_eq!(profile.gate.tolerance, Tolerance::Absolute(0.01));
    assert_eq!(profile.precisions, [Precision::Int8]);
    let text = complaint(GOOD, &["gate.max_dorp=0.01"]);
    assert!(text.contains("--set gate.max_dorp=0.01"), "{text}");
    assert!(text.contains("did you mean `max_drop`"), "{text}");
}

#[test]
fn each_mistake_names_line_key_and_remedy() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "max_length: 128",
            "max_lenght: 128",
            &["p.yaml:11", "`max_lenght`", "did you mean `max_length`"],
        ),
        ("version: 1", "version: 2", &["p.yaml:1", "`version` is `2`"]),
        ("labels: [negative, positive]", "labels: [one]", &["p.yaml:7", "two or more"]),
        ("labels: [negative, positive]", "labels: [a, a]", &["p.yaml:7", "different names"]),
        ("kind: text-classification", "kind: text-clasification", &["p.yaml:6", "did you mean"]),
        ("samples: 64", "samples: -1", &["p.yaml:9", "data.calibration.samples"]),
        ("samples: 64", "samples: many", &["p.yaml:9", "`many`", "whole number"]),
        ("samples: 64", "strategy: sorted", &["`random`", "`first`"]),
        ("  onnx: models/m.onnx\n", "", &["`model.onnx` is missing"]),
        ("output: out/m\n", "", &["`output` is missing"]),
        (
            "max_length: 128",
            "max_length: 128\ngate: { max_drop: 2 }",
            &["p.yaml:12", "gate.max_drop"],
        ),
        ("max_length: 128", "max_length: 128\ngate: strict", &["`gate` is `strict`", "a mapping"]),
        ("max_length: 128", "max_length: 128\nprecisions: [int4]", &["`fp16` and `int8`"]),
        ("max_length: 128", "max_length: 128\nshapes: []", &["at least one"]),
        (
            "max_length: 128",
            "max_length: 128\nshapes: [{ min: [1, 16], opt: [32, 200], max: [64, 128] }]",
            &["shapes[0]", "length 16 / 200 / 128", "min ≤ opt ≤ max"],
        ),
        ("max_length: 128", "max_length: 128\nengine: { backend: cuda }", &["`tensorrt-rtx`"]),
        ("max_length: 128", "max_length: 128\ncalibrate: { method: kl }", &["`entropy`"]),
        ("max_length: 128", "max_length: [", &["not valid YAML"]),
        ("max_length: 128", "max_length: 128\nmax_length: 64", &["p.yaml:12", "not valid YAML"]),
    ];
    for (from, to, expected) in cases {
        let text = complaint(&GOOD.replace(from, to), &[]);
        for part in *expected {
            assert!(text.contains(part), "`{to}`: `{part}` is not in: {text}");
        }
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let wrong =
        GOOD.replace("max_length: 128", "max_lenght: 128").replace("samples: 64", "samples: 0");
    let text = complaint(&wrong, &[]);
    assert!(text.contains("has 3 mistakes"), "{text}");
    assert!(text.contains("max_lenght") && text.contains("samples"), "{text}");
}

#[test]
fn what_is_not_a_profile_is_refused() {
    for text in ["", "- 1\n", "just text", "\u{0}\u{1}", "a: &x [*x]"] {
        assert!(read(text, &[]).is_err(), "{text:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let error = Profile::read(folder.path(), &[]).unwrap_err().to_string();
    assert!(error.contains("folder"), "{error}");
    let error = Profile::read(&folder.path().join("absent.yaml"), &[]).unwrap_err().to_string();
    assert!(error.contains("absent.yaml"), "{error}");
}

#[test]
fn gates_of_several_rules() {
    use trtforge_evaluate::{Metric, Rule, Scored};
    let gate = |section: &str| {
        read(&GOOD.replace("max_length: 128", &format!("max_length: 128\ngate: {section}")), &[])
            .map(|profile| profile.gate.gate(&Scored::Classes(Vec::new())))
    };
    let short = gate("{ metric: accuracy, max_drop: 0.01 }").unwrap();
    assert_eq!(short.rules.len(), 1);
    let long = gate(
        "{ metrics: [{ metric: macro-f1, max_relative_drop: 0.02 }, { metric: mcc, max_drop: 0.1, min_value: 0.5 }], per_class: { max_drop: 0.1 }, per_slice: { field: source, max_drop: 0.1 }, max_flip_rate: 0.1, require_int8_share: 0.5, min_speedup: 1.2 }",
    )
    .unwrap();
    let names: Vec<&str> = long.rules.iter().map(Rule::name).collect();
    assert_eq!(
        names,
        [
            "max_relative_drop",
            "max_drop",
            "min_value",
            "max_drop",
            "max_drop",
            "max_flip_rate",
            "require_int8_share",
            "min_speedup"
        ]
    );
    assert!(matches!(long.rules[0], Rule::MaxDrop { metric: Metric::MacroF1, .. }));
    for (section, expected) in [
        ("{ metric: acuracy }", "did you mean `accuracy`"),
        ("{ metric: [mcc, mcc] }", "name each metric once"),
        ("{ metric: mcc, metrics: [] }", "only one of `metric` and `metrics`"),
        ("{ max_drop: 0.1, max_relative_drop: 0.1 }", "only one of `max_drop` and"),
        ("{ metrics: [{ max_drop: 0.1 }] }", "`gate.metrics[0].metric` is missing"),
        ("{ per_class: {} }", "`gate.per_class.max_drop` is missing"),
        ("{ per_slice: { max_drop: 0.1 } }", "`gate.per_slice.field` is missing"),
        ("{ max_flip_rate: 5 }", "gate.max_flip_rate"),
        ("{ baseline: { precision: fp32 } }", "`gate.baseline.run` is missing"),
        ("{ baseline: { run: a, precision: fp8 } }", "gate.baseline.precision"),
    ] {
        let text = complaint(
            &GOOD.replace("max_length: 128", &format!("max_length: 128\ngate: {section}")),
            &[],
        );
        assert!(text.contains(expected), "{section}: {text}");
    }
}
