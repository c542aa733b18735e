//! Every kind of task from a profile to verdicts, on models and rows the tests make.
//!
//! What is right is what the FP32 model says, so FP32 has 1.0 in every metric and the arithmetic of a kind is seen from outside.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use support::tiny::{self, Head};
use support::{Workspace, distance, trtforge};

const WORDS: &[&str] =
    &["the", "film", "plot", "good", "bad", "dull", "slow", "warm", "rich", "sad"];

/// Words that look random and are the same everywhere.
fn words(seed: usize, count: usize) -> Vec<&'static str> {
    (0..count).map(|at| WORDS[(seed * 7 + at * at * 3 + at * seed) % WORDS.len()]).collect()
}

fn text(seed: usize, count: usize) -> String {
    words(seed, count).join(" ")
}

/// A workspace of one task, its model with this head.
fn workspace(head: Head, task: Json, rows: &[Json]) -> Workspace {
    let mut workspace = Workspace::tiny();
    tiny::write_head(&workspace.folder.path().join("model.onnx"), head);
    workspace.set("/task", task);
    let path = write(&workspace, "rows.jsonl", rows);
    workspace.set(
        "/data",
        json!({ "calibration": { "path": path, "samples": 40 }, "evaluation": { "path": path } }),
    );
    workspace
}

fn write(workspace: &Workspace, name: &str, rows: &[Json]) -> PathBuf {
    let path = workspace.folder.path().join(name);
    fs::write(&path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    path
}

/// What a model says of every row.
fn predictions(workspace: &Workspace, more: &[&str]) -> Vec<Json> {
    let path = workspace.folder.path().join("predictions.jsonl");
    let path = path.to_str().unwrap();
    let arguments = [&["--quiet", "--predictions", path][..], more].concat();
    workspace.run("evaluate", &arguments).expect(0);
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Gives every row what FP32 says of it, under `field`.
fn relabel(workspace: &mut Workspace, rows: &[Json], field: &str, said: &str) {
    let told = predictions(workspace, &[]);
    assert_eq!(told.len(), rows.len(), "one prediction a row");
    let right = |(row, told): (&Json, &Json)| {
        let mut row = row.clone();
        row[field] = told[said].clone();
        row
    };
    let rows: Vec<Json> = rows.iter().zip(&told).map(right).collect();
    let path = write(workspace, "right.jsonl", &rows);
    workspace.set("/data/evaluation/path", json!(path));
}

/// The whole chain; FP32 is right everywhere and both engines' graphs stay near it.
fn build(workspace: &Workspace, metric: &str, rows: usize) -> Json {
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
    let run = workspace.read("run.json");
    for precision in ["fp32", "fp16", "int8"] {
        let evaluation = &run["precisions"][precision]["evaluation"];
        assert_eq!(evaluation["metric"], metric, "{precision}");
        assert_eq!(evaluation["count"], rows, "{precision}");
        let value = evaluation["value"].as_f64().unwrap();
        let least = if precision == "fp32" { 1.0 - 1e-9 } else { 0.8 };
        assert!(value >= least, "{precision}: {evaluation}");
    }
    let int8 = &run["precisions"]["int8"];
    assert_ne!(int8["verdict"]["outcome"], "rejected", "{int8}");
    assert!(int8["logit_shift"]["mean"].as_f64().unwrap() > 0.0, "INT8 is not FP32");
    let calibrated = run["calibration"]["tensors"].as_object().unwrap();
    assert!(!calibrated.is_empty());
    let report = fs::read_to_string(workspace.output("report.md")).unwrap();
    assert!(report.contains(metric), "{report}");
    run
}

/// The raw values of every row do not depend on batching or padding.
fn pure_of_padding(workspace: &Workspace) {
    let logits = |more: &[&str]| -> Vec<Vec<f32>> {
        let rows = predictions(workspace, more);
        rows.iter().map(|row| serde_json::from_value(row["logits"].clone()).unwrap()).collect()
    };
    let usual = logits(&[]);
    for more in [
        &["--set", "evaluate.batch_size=1"][..],
        &["--set", "evaluate.batch_size=3"],
        &["--set", "evaluate.padding=max_length"],
    ] {
        let other = logits(more);
        assert_eq!(other.len(), usual.len());
        for (a, b) in usual.iter().zip(&other) {
            assert!(distance(a, b) < 1e-4, "{more:?}: {a:?} {b:?}");
        }
    }
}

fn tagged_rows() -> Vec<Json> {
    let row = |seed: usize| {
        // Every third word is one that the vocabulary spells in pieces or not at all.
        let mut words: Vec<String> =
            words(seed, 3 + seed % 9).into_iter().map(str::to_owned).collect();
        words[seed % 3] = String::from("unheard, of");
        json!({ "tokens": words, "ner_tags": vec!["O"; words.len()] })
    };
    (0..40).map(row).collect()
}

fn tagging() -> (Workspace, Vec<Json>) {
    let task =
        json!({ "kind": "token-classification", "labels": ["O", "B-A", "I-A", "B-B", "I-B"] });
    let rows = tagged_rows();
    (workspace(Head::Tokens(5), task, &rows), rows)
}

#[test]
fn token_classification() {
    let (mut workspace, rows) = tagging();
    let told = predictions(&workspace, &[]);
    for (told, row) in told.iter().zip(&rows) {
        let words = row["tokens"].as_array().unwrap().len();
        assert_eq!(told["tags"].as_array().unwrap().len(), words, "a tag a word");
        // [CLS] and [SEP], and three tokens for "unheard, of": five logits each.
        assert_eq!(told["logits"].as_array().unwrap().len(), 5 * (words + 2 + 2));
    }
    pure_of_padding(&workspace);
    relabel(&mut workspace, &rows, "ner_tags", "tags");
    let run = build(&workspace, "entity-f1", 40);
    assert!(
        run["warnings"].as_array().unwrap().iter().all(|w| !w.as_str().unwrap().contains("beyond"))
    );
    // The same sentences in columns are the same data.
    let right = fs::read_to_string(workspace.folder.path().join("right.jsonl")).unwrap();
    let mut columns = String::new();
    for line in right.lines() {
        let row: Json = serde_json::from_str(line).unwrap();
        let pairs =
            row["tokens"].as_array().unwrap().iter().zip(row["ner_tags"].as_array().unwrap());
        for (word, tag) in pairs {
            columns.push_str(&format!("{}\t{}\n", word.as_str().unwrap(), tag.as_str().unwrap()));
        }
        columns.push('\n');
    }
    let path = workspace.folder.path().join("right.conll");
    fs::write(&path, columns).unwrap();
    let fingerprint = |run: &Json| run["inputs"]["evaluation"]["blake3"].clone();
    workspace.set("/data/evaluation/path", json!(path));
    assert_eq!(fingerprint(&build(&workspace, "entity-f1", 40)), fingerprint(&run));
}

#[test]
fn words_beyond_the_maximum_are_reported_and_not_judged() {
    let (mut workspace, _) = tagging();
    let long = vec!["film"; 40];
    let row = json!({ "tokens": long, "ner_tags": vec!["O"; 40] });
    let path = write(&workspace, "long.jsonl", &[row]);
    workspace.set("/data/evaluation/path", json!(path));
    let told = &predictions(&workspace, &[])[0];
    assert_eq!(told["tags"].as_array().unwrap().len(), 30, "32 tokens, two of them special");
    workspace.run("check", &[]).expect(0);
    let check = workspace.run("check", &["--json"]).expect(0).json();
    let warnings = check["warnings"].to_string();
    assert!(warnings.contains("10 of 40 words lie beyond `max_length`"), "{warnings}");
}

fn question_rows() -> Vec<Json> {
    let row = |seed: usize| {
        // From contexts that fit by far to such of four windows.
        let context = text(seed, 4 + (seed * 5) % 70);
        json!({ "question": text(seed + 3, 1 + seed % 4), "context": context, "answers": { "text": ["film"], "answer_start": [] } })
    };
    (0..40).map(row).collect()
}

#[test]
fn question_answering_over_windows() {
    let task = json!({ "kind": "question-answering", "stride": 6, "max_answer_tokens": 5 });
    let rows = question_rows();
    let mut workspace = workspace(Head::Spans, task, &rows);
    let told = predictions(&workspace, &[]);
    for (told, row) in told.iter().zip(&rows) {
        let (answer, context) =
            (told["answer"].as_str().unwrap(), row["context"].as_str().unwrap());
        assert!(context.contains(answer) && !answer.is_empty(), "`{answer}` in `{context}`");
        assert!(answer.split(' ').count() <= 5, "{answer}");
        // Windows of 32 tokens: [CLS] question [SEP] context [SEP], six shared, start and end of each token.
        let (question, tokens) = (1 + row_seed(&told["line"]) % 4, context.split(' ').count());
        let room = 32 - 3 - question;
        let windows = if tokens <= room { 1 } else { 1 + (tokens - room).div_ceil(room - 6) };
        let all = windows * (3 + question) + tokens + (windows - 1) * 6;
        assert_eq!(told["logits"].as_array().unwrap().len(), 2 * all, "{row}");
    }
    pure_of_padding(&workspace);
    // The same file calibrates and judges: every sampled window is a window that judges.
    let found = workspace.run("check", &["--json"]).expect(0).json()["warnings"].to_string();
    assert!(found.contains("40 of 40 calibration rows are evaluation rows too"), "{found}");
    // A model of another task has other outputs, and they are named.
    let tags = workspace.folder.path().join("tags.onnx");
    tiny::write_head(&tags, Head::Tokens(3));
    workspace
        .run("evaluate", &["--onnx", tags.to_str().unwrap()])
        .expect(2)
        .says(&["no output `start_logits`", "its outputs are logits"]);
    relabel(&mut workspace, &rows, "answers", "answer");
    let run = build(&workspace, "exact-match", 40);
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("contexts are longer than a window"), "{warnings}");
    // Shapes are planned for windows, not for contexts.
    assert_eq!(run["shapes"]["lengths"]["max"], 32);
    assert!(run["shapes"]["lengths"]["count"].as_u64().unwrap() > 40, "windows are what runs");
    let f1 = workspace.run("evaluate", &["--json", "--set", "gate.metric=f1"]).expect(0).json();
    assert_eq!((f1["metric"].as_str(), f1["value"].as_f64()), (Some("f1"), Some(1.0)));
}

#[test]
fn windows_go_through_shards_sensitivity_and_diagnosis() {
    let task = json!({ "kind": "question-answering", "stride": 6 });
    let rows = question_rows();
    let workspace = workspace(Head::Spans, task, &rows);
    let path = |name: &str| workspace.folder.path().join(name).display().to_string();
    let whole = path("whole.json");
    workspace.run("calibrate", &["--quiet", "-o", &whole]).expect(0);
    for shard in ["1/2", "2/2"] {
        let part = path(&format!("part{}.json", &shard[..1]));
        workspace.run("calibrate", &["--quiet", "--shard", shard, "-o", &part]).expect(0);
    }
    let merged = path("merged.json");
    let (one, two) = (path("part1.json"), path("part2.json"));
    trtforge(&["calibrate", "merge", "--quiet", "-o", &merged, &one, &two]).expect(0);
    assert_eq!(fs::read(&whole).unwrap(), fs::read(&merged).unwrap());
    let costs = workspace.run("sensitivity", &["--quiet", "--json"]).expect(0).json();
    let units = costs["units"].as_array().unwrap();
    assert!(units.len() > 3, "{costs}");
    let moved = |unit: &Json| unit["shift"].as_f64().is_some_and(|shift| shift > 0.0);
    assert!(units.iter().all(moved), "both outputs are looked at: {costs}");
    workspace.run("diagnose", &["--quiet", "--json", "--rows", "20"]).expect(0);
}

fn row_seed(line: &Json) -> usize {
    line.as_u64().unwrap() as usize - 1
}

#[test]
fn squad_files_and_questions_without_an_answer() {
    let task = json!({ "kind": "question-answering", "stride": 6, "no_answer": true, "no_answer_threshold": -1000.0 });
    let rows = question_rows();
    let mut workspace = workspace(Head::Spans, task, &rows);
    // A threshold below every difference: always "no answer", so only the question without one is right.
    let squad = json!({ "version": "v2.0", "data": [{ "title": "t", "paragraphs": [{ "context": "the film, 😀 good", "qas": [
        { "id": "a", "question": "good plot", "is_impossible": false, "answers": [{ "text": "good", "answer_start": 12 }] },
        { "id": "b", "question": "bad", "is_impossible": true, "answers": [], "plausible_answers": [{ "text": "film", "answer_start": 4 }] },
    ] }] }] });
    let path = workspace.folder.path().join("dev.json");
    fs::write(&path, serde_json::to_string_pretty(&squad).unwrap()).unwrap();
    workspace.set("/data/evaluation/path", json!(path));
    let evaluation = workspace.run("evaluate", &["--json"]).expect(0).json();
    assert_eq!((evaluation["value"].as_f64(), evaluation["count"].as_u64()), (Some(0.5), Some(2)));
    workspace.set("/task/no_answer_threshold", json!(1000.0));
    let told = predictions(&workspace, &[]);
    assert!(told.iter().all(|row| !row["answer"].as_str().unwrap().is_empty()), "{told:?}");
    // All in one line, and two questions that are the same: rows are counted, not lines.
    let twice = json!({ "question": "bad", "is_impossible": true, "answers": [] });
    let mut squad = squad;
    squad["data"][0]["paragraphs"][0]["qas"].as_array_mut().unwrap().push(twice);
    fs::write(&path, squad.to_string()).unwrap();
    workspace.set("/data/calibration", json!({ "path": path, "samples": 40 }));
    let found = workspace.run("check", &["--json"]).expect(0).json()["warnings"].to_string();
    for words in [
        "3 of 3 calibration rows are evaluation rows too (line 1 is line 1 there)",
        "1 of 3 calibration rows are to the model the same as an earlier one (line 1 is line 1)",
    ] {
        assert!(found.contains(words), "{words}: {found}");
    }
    fs::write(&path, serde_json::to_string_pretty(&squad).unwrap()).unwrap();
    workspace.set("/task", json!({ "kind": "question-answering", "stride": 6 }));
    workspace.run("check", &[]).expect(2).says(&["dev.json:", "no answer", "task.no_answer: true"]);
}

fn pair_rows() -> Vec<Json> {
    let row = |seed: usize| json!({ "text": text(seed, 2 + seed % 9), "text_pair": text(seed * 3 + 1, 2 + seed % 5), "score": seed % 6 });
    (0..40).map(row).collect()
}

#[test]
fn sentence_similarity_of_a_cross_encoder() {
    let task = json!({ "kind": "sentence-similarity", "encoder": "cross" });
    let rows = pair_rows();
    let mut workspace = workspace(Head::Classes(1), task, &rows);
    pure_of_padding(&workspace);
    relabel(&mut workspace, &rows, "score", "score");
    build(&workspace, "spearman", 40);
}

#[test]
fn pairs_that_all_have_one_score_prove_nothing() {
    let rows = pair_rows();
    let task = json!({ "kind": "sentence-similarity", "encoder": "cross" });
    let mut workspace = workspace(Head::Classes(1), task, &rows);
    let alike: Vec<Json> = rows
        .into_iter()
        .map(|mut row| {
            row["score"] = json!(3);
            row
        })
        .collect();
    let path = write(&workspace, "alike.jsonl", &alike);
    workspace.set("/data/evaluation/path", json!(path));
    workspace.set("/engine/backend", json!("none"));
    let why = "every row has the same gold score";
    let checked = workspace.run("check", &["--json"]).expect(0).json();
    assert!(checked["warnings"].to_string().contains(why), "{checked}");
    workspace.run("build", &["--quiet"]).expect(1);
    let verdict = workspace.read("run.json")["precisions"]["int8"]["verdict"].clone();
    assert_eq!((&verdict["outcome"], &verdict["passed"]), (&json!("inconclusive"), &json!(false)));
    assert!(verdict["reason"].as_str().unwrap().contains(why), "{verdict}");
}

#[test]
fn sentence_similarity_of_a_bi_encoder() {
    let task = json!({ "kind": "sentence-similarity", "encoder": "bi" });
    let rows = pair_rows();
    let mut workspace = workspace(Head::Hidden, task, &rows);
    workspace.set("/data/calibration/text_pair", json!("text_pair"));
    let told = predictions(&workspace, &[]);
    assert_eq!(told[0]["logits"].as_array().unwrap().len(), 64, "two vectors of 32");
    pure_of_padding(&workspace);
    relabel(&mut workspace, &rows, "score", "score");
    let run = build(&workspace, "spearman", 40);
    assert_eq!(run["shapes"]["lengths"]["count"], 80, "each text runs by itself");
}

#[test]
fn embeddings_are_compared_with_fp32() {
    let rows: Vec<Json> =
        (0..40).map(|seed| json!({ "text": text(seed, 2 + seed % 11) })).collect();
    let task = json!({ "kind": "embedding", "pooling": "cls", "normalize": true });
    let mut workspace = workspace(Head::Hidden, task, &rows);
    pure_of_padding(&workspace);
    let run = build(&workspace, "cosine", 40);
    workspace.set("/engine/backend", json!("none"));
    // What the build would refuse at once, the check refuses too.
    for (rule, words) in [
        (json!({ "max_flip_rate": 0.1 }), "gate.max_flip_rate"),
        (json!({ "per_class": { "max_drop": 0.1 } }), "gate.per_class"),
    ] {
        let gate = std::mem::replace(&mut workspace.profile["gate"], rule);
        for command in ["check", "build"] {
            workspace.run(command, &[]).expect(2).says(&[words]);
        }
        workspace.set("/gate", gate);
    }
    let int8 = run["precisions"]["int8"]["evaluation"]["value"].as_f64().unwrap();
    assert!(int8 < 1.0, "INT8 is compared with FP32, not with itself: {int8}");
    let onnx = workspace.output("onnx/m.int8.onnx").display().to_string();
    let alone = workspace.run("evaluate", &["--json", "--onnx", &onnx]).expect(0).json();
    assert!((alone["value"].as_f64().unwrap() - int8).abs() < 1e-12, "{alone}");
}

#[test]
fn vectors_that_are_all_alike_prove_nothing() {
    let rows: Vec<Json> = (0..40).map(|_| json!({ "text": text(3, 7) })).collect();
    let task = json!({ "kind": "embedding", "pooling": "cls" });
    let mut workspace = workspace(Head::Hidden, task, &rows);
    workspace.set("/gate", json!({ "max_drop": 0.5, "on_inconclusive": "accept" }));
    workspace.run("build", &["--quiet", "--backend", "none"]).expect(1);
    let run = workspace.output("").display().to_string();
    let again = trtforge(&["gate", &run, "--json"]).expect(1).json();
    let built = workspace.read("run.json");
    for verdict in [&built["precisions"]["int8"]["verdict"], &again["verdicts"]["int8"]] {
        let reason = verdict["reason"].as_str().unwrap();
        assert!(reason.contains("the baseline gives every row the same vector"), "{reason}");
    }
    trtforge(&["gate", &run, "--set", "gate.allow_chance_baseline=true"]).expect(0);
}

#[test]
fn a_model_of_another_task_is_told_from_one_row() {
    let vectors = json!({ "kind": "embedding" });
    let tags = json!({ "kind": "token-classification", "labels": ["O", "B-A"] });
    let classes = json!({ "kind": "text-classification", "labels": ["a", "b"] });
    let answers = json!({ "kind": "question-answering" });
    let cases: &[(Head, &Json, Json, &[&str])] = &[
        (
            Head::Classes(2),
            &tags,
            json!({ "tokens": ["film"], "ner_tags": [0] }),
            &["needs [batch, tokens, labels]", "[1, 2]"],
        ),
        (
            Head::Tokens(3),
            &tags,
            json!({ "tokens": ["film"], "ner_tags": [0] }),
            &["[1, 32, 3]", "task.labels"],
        ),
        (
            Head::Tokens(2),
            &classes,
            json!({ "text": "film", "label": 0 }),
            &["2 labels", "for each token"],
        ),
        (
            Head::Classes(2),
            &answers,
            json!({ "question": "a", "context": "film", "answers": ["film"] }),
            &["needs [batch, tokens, 2]"],
        ),
        (
            Head::Classes(2),
            &vectors,
            json!({ "text": "film" }),
            &["needs [batch, tokens, hidden]", "pooling: none"],
        ),
        (
            Head::Spans,
            &vectors,
            json!({ "text": "film" }),
            &["start_logits, end_logits", "model: { output: NAME }"],
        ),
    ];
    for (head, task, row, words) in cases {
        let workspace = workspace(*head, (*task).clone(), std::slice::from_ref(row));
        workspace.run("check", &[]).expect(2).says(words);
    }
}

#[test]
fn a_question_too_long_for_its_context_is_named() {
    let task = json!({ "kind": "question-answering", "stride": 6 });
    let rows = [
        json!({ "question": "film", "context": "good film", "answers": ["good"] }),
        json!({ "question": text(1, 24), "context": "good film", "answers": ["good"] }),
    ];
    let workspace = workspace(Head::Spans, task, &rows);
    workspace.run("check", &[]).expect(2).says(&[
        "rows.jsonl:2",
        "24 of 32 tokens",
        "5 remain",
        "share 6",
    ]);
}

#[test]
fn the_example_profiles_are_valid() {
    let folder = support::repository().join("profiles");
    let mut kinds = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        // Their models are the reader's own, so the first thing that is wrong is that the model is not there.
        let ran =
            trtforge(&["check", path.to_str().unwrap(), "--set", "model.onnx=not-there.onnx"]);
        ran.expect(2).says(&["not-there.onnx"]);
        kinds.push(kind(&path));
    }
    for wanted in [
        "text-classification",
        "token-classification",
        "question-answering",
        "sentence-similarity",
        "embedding",
    ] {
        assert!(kinds.iter().any(|kind| kind == wanted), "no example of {wanted}");
    }
}

fn kind(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("kind: "));
    line.unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
}
