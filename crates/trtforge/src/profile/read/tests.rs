//! Profiles right and wrong, one by one.

use trtforge_data::{Fields, QuestionFields, WordFields};
use trtforge_evaluate::{Metric, TagScheme};

use super::*;
use crate::profile::{AnswerRules, Pooling, RowFields, Task, TextEncoders, Vectors};
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
    let labelled = RowFields::Texts(Fields::labelled("text", "stars"));
    assert_eq!(profile.calibration.fields, RowFields::Texts(Fields::text("text")));
    assert_eq!(profile.evaluation.fields, labelled);
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

/// [`GOOD`] of another task: its `task:` and `data:` sections.
fn of_task(task: &str, calibration: &str, evaluation: &str) -> String {
    format!(
        "version: 1\nmodel: {{ onnx: m.onnx, tokenizer: t.json }}\ntask: {task}\ndata:\n  calibration: {calibration}\n  \
         evaluation: {evaluation}\nmax_length: 96\noutput: out/m\n"
    )
}

const PATH: &str = "{ path: x.jsonl }";

/// The metric that decides.
fn usual(profile: &Profile) -> Metric {
    profile.gate.measured(&profile.task.no_rows())[0]
}

#[test]
fn each_kind_has_its_defaults() {
    let kind = |task: &str| read(&of_task(task, PATH, PATH), &[]).unwrap();
    let tags = kind("{ kind: token-classification, labels: [O, B-X] }");
    let labels = vec!["O".to_owned(), "B-X".to_owned()];
    assert_eq!(tags.task, Task::TokenClassification { labels, scheme: TagScheme::Lenient });
    assert_eq!(usual(&tags), Metric::EntityF1);
    let words = |tags: Option<&str>| {
        RowFields::Words(WordFields { words: "tokens".into(), tags: tags.map(str::to_owned) })
    };
    assert_eq!(tags.calibration.fields, words(None));
    assert_eq!(tags.evaluation.fields, words(Some("ner_tags")));
    let answers = kind("{ kind: question-answering }");
    let rules = AnswerRules {
        stride: 32,
        max_answer_tokens: 30,
        n_best: 20,
        no_answer: false,
        no_answer_threshold: 0.0,
    };
    assert_eq!(answers.task, Task::QuestionAnswering(rules));
    let fields = |answers: Option<&str>| {
        let (question, context) = ("question".into(), "context".into());
        RowFields::Questions(QuestionFields {
            question,
            context,
            answers: answers.map(str::to_owned),
        })
    };
    assert_eq!(answers.calibration.fields, fields(None));
    assert_eq!(answers.evaluation.fields, fields(Some("answers")));
    let pair = Fields { text_pair: Some("text_pair".into()), ..Fields::text("text") };
    let scored = RowFields::Texts(Fields { score: Some("score".into()), ..pair.clone() });
    let cross = kind("{ kind: sentence-similarity, encoder: cross }");
    assert_eq!(cross.task, Task::SentenceSimilarity(TextEncoders::Cross));
    assert_eq!(cross.calibration.fields, RowFields::Texts(pair));
    assert_eq!(usual(&cross), Metric::Spearman);
    assert_eq!(cross.evaluation.fields, scored);
    let vectors = Vectors { pooling: Pooling::Cls, normalize: true };
    let bi = kind("{ kind: sentence-similarity, encoder: bi, pooling: cls, normalize: true }");
    assert_eq!(bi.task, Task::SentenceSimilarity(TextEncoders::Bi(vectors)));
    assert_eq!(bi.calibration.fields, RowFields::Texts(Fields::text("text")));
    assert_eq!(bi.evaluation.fields, scored);
    let embedding = kind("{ kind: embedding }");
    let vectors = Vectors { pooling: Pooling::Mean, normalize: false };
    assert_eq!(embedding.task, Task::Embedding(vectors));
    assert_eq!(embedding.evaluation.fields, RowFields::Texts(Fields::text("text")));
    assert_eq!(usual(&embedding), Metric::Cosine);
}

#[test]
fn each_kind_refuses_what_is_another_kinds() {
    let labels = "labels: [O, B-X]";
    let tags = format!("{{ kind: token-classification, {labels} }}");
    let cases: &[(&str, &str, &[&str])] = &[
        ("{ kind: token-classification }", PATH, &["`task.labels` is missing"]),
        (
            "{ kind: question-answering, labels: [a, b] }",
            PATH,
            &["unknown key `labels` in `task`", "stride"],
        ),
        ("{ kind: embedding, labels: [a, b] }", PATH, &["unknown key `labels`", "pooling"]),
        ("{ kind: embedding, poling: cls }", PATH, &["did you mean `pooling`"]),
        ("{ kind: embedding, pooling: max }", PATH, &["`mean`", "`pooler-output`"]),
        (
            "{ kind: question-answering, stride: 96 }",
            PATH,
            &["`task.stride` is `96`", "less than the window", "96"],
        ),
        ("{ kind: question-answering, stride: 93 }", PATH, &["`task.stride` is `93`"]),
        ("{ kind: question-answering, stride: -1 }", PATH, &["`task.stride` is `-1`"]),
        ("{ kind: question-answering, no_answer_threshold: 1 }", PATH, &["no_answer: true"]),
        ("{ kind: sentence-similarity }", PATH, &["`task.encoder` is missing", "encoder: bi"]),
        (
            "{ kind: sentence-similarity, encoder: cross, pooling: cls }",
            PATH,
            &["`task.pooling`", "encoder: cross"],
        ),
        ("{ labels: [a, b] }", PATH, &["`task.kind` is missing"]),
        ("{ kind: ner }", PATH, &["`token-classification`"]),
        (&tags, "{ path: x, text: t }", &["unknown key `text` in `data.evaluation`", "tokens"]),
        (&tags, "{ path: x, label: t }", &["unknown key `label`"]),
        ("{ kind: embedding }", "{ path: x, score: t }", &["unknown key `score`"]),
        ("{ kind: question-answering }", "{ path: x, answer: t }", &["did you mean `answers`"]),
    ];
    for (task, evaluation, expected) in cases {
        let text = complaint(&of_task(task, PATH, evaluation), &[]);
        for part in *expected {
            assert!(text.contains(part), "`{task}`: `{part}` is not in: {text}");
        }
    }
    let gold = complaint(&of_task(&tags, "{ path: x, tags: t }", PATH), &[]);
    assert!(gold.contains("unknown key `tags` in `data.calibration`"), "{gold}");
}

#[test]
fn the_metric_fits_the_task() {
    let metric = |task: &str, metric: &str| {
        let text = of_task(task, PATH, PATH) + &format!("gate: {{ metric: {metric} }}\n");
        read(&text, &[]).map(|profile| usual(&profile)).map_err(|_| complaint(&text, &[]))
    };
    let answers = "{ kind: question-answering }";
    assert_eq!(metric(answers, "f1"), Ok(Metric::AnswerF1));
    let error = metric(answers, "accuracy").unwrap_err();
    for part in ["p.yaml:9", "`gate.metric` is `accuracy`", "question-answering: exact-match, f1"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(metric("{ kind: embedding }", "spearman").unwrap_err().contains("cosine"));
    assert!(metric(answers, "exact-macth").unwrap_err().contains("did you mean `exact-match`"));
}
