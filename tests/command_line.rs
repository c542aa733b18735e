//! `init`, `schema`, `completions`, `man`, and how commands show their work.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;

use serde_json::json;
use support::{tiny, trtforge};

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

#[test]
fn init_writes_a_profile_that_check_accepts() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path());
    let config = r#"{ "id2label": { "0": "dull", "1": "bright" } }"#;
    fs::write(folder.path().join("config.json"), config).unwrap();
    fs::create_dir(folder.path().join("profiles")).unwrap();
    let (model, profile) = (path(&folder, "model.onnx"), path(&folder, "profiles/p.yaml"));
    let (calibration, evaluation) = (path(&folder, "calib.jsonl"), path(&folder, "eval.jsonl"));
    let arguments = ["init", &model, "--data", &evaluation, &calibration, "-o", &profile, "--json"];
    let found = trtforge(&arguments).expect(0).json();
    assert_eq!(found["task"], "text-classification");
    assert_eq!(found["labels"], serde_json::json!(["dull", "bright"]));
    assert_eq!(found["todo"], serde_json::json!([]));
    let text = fs::read_to_string(&profile).unwrap();
    for part in [
        "onnx: ../model.onnx",
        "tokenizer: ../tokenizer.json",
        "# Inputs: input_ids, attention_mask.",
        "labels: [dull, bright]",
        "path: ../calib.jsonl   # 40 rows",
        "path: ../eval.jsonl   # 60 rows",
        "the model has 32 positions",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains("TODO"), "{text}");
    let checked = trtforge(&["check", &profile, "--json"]).expect(0).json();
    assert_eq!(checked["evaluation_rows"], 60);

    // It stays, unless told otherwise.
    trtforge(&arguments).expect(2).says(&["exists", "--force"]);
    assert_eq!(fs::read_to_string(&profile).unwrap(), text);
    trtforge(&[arguments.as_slice(), &["--force"]].concat()).expect(0);
    assert_eq!(fs::read_to_string(&profile).unwrap(), text, "the same files, the same bytes");
}

#[test]
fn init_says_what_cannot_be_told() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path());
    let (model, profile) = (path(&folder, "model.onnx"), path(&folder, "p.yaml"));
    let data = path(&folder, "eval.jsonl");
    let ran = trtforge(&["init", &model, "--data", &data, "-o", &profile]).expect(0);
    let ran =
        ran.says(&["TODO: one file calibrates and judges", "TODO: nothing names the classes"]);
    assert!(ran.stdout.contains("text-classification"), "{}", ran.stdout);
    let text = fs::read_to_string(&profile).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("# TODO: ")).count(), 2, "{text}");
    assert!(text.contains("labels: [class_0, class_1]"), "{text}");
    // What was found is right as far as it goes.
    trtforge(&["check", &profile]).expect(0);

    // Without data the profile still reads; its files are to be named.
    let profile = path(&folder, "q.yaml");
    trtforge(&["init", &model, "-o", &profile]).expect(0).says(&["no data was given"]);
    trtforge(&["check", &profile]).expect(2).says(&["train.jsonl"]);
}

#[test]
fn init_tells_every_task_and_check_accepts_it() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path());
    let (model, profile, data) =
        (path(&folder, "model.onnx"), path(&folder, "p.yaml"), path(&folder, "rows.jsonl"));
    let pair = json!({ "id": 7, "sentence1": "good film", "sentence2": "bad plot", "score": 2.5 });
    let cases = [
        (
            tiny::Head::Tokens(3),
            json!({ "tokens": ["good", "film"], "ner_tags": ["O", "B-X"] }),
            "token-classification",
            "tags: ner_tags",
        ),
        (
            tiny::Head::Spans,
            json!({ "question": "good", "context": "the film good", "answers": { "text": ["film"], "answer_start": [4] } }),
            "question-answering",
            "context: context",
        ),
        (tiny::Head::Classes(1), pair.clone(), "sentence-similarity", "encoder: cross"),
        (tiny::Head::Hidden, pair, "sentence-similarity", "encoder: bi"),
        (tiny::Head::Hidden, json!({ "text": "good film" }), "embedding", "pooling: mean"),
    ];
    // Three tags, of which the rows show two: the names come from the configuration.
    let config = r#"{ "id2label": { "0": "O", "1": "B-X", "2": "I-X" } }"#;
    fs::write(folder.path().join("config.json"), config).unwrap();
    for (head, row, task, part) in cases {
        tiny::write_head(Path::new(&model), head);
        fs::write(&data, format!("{row}\n").repeat(40)).unwrap();
        let arguments = ["init", &model, "--data", &data, "-o", &profile, "--force", "--json"];
        let found = trtforge(&arguments).expect(0).json();
        assert_eq!(found["task"], task, "{found}");
        let text = fs::read_to_string(&profile).unwrap();
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
        trtforge(&["check", &profile]).expect(0);
    }
}

#[test]
fn init_reads_columns_of_words_and_nested_questions() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path());
    let (model, profile) = (path(&folder, "model.onnx"), path(&folder, "p.yaml"));
    let init = |data: &str| {
        let arguments = ["init", &model, "--data", data, "-o", &profile, "--force", "--json"];
        trtforge(&arguments).expect(0).json()
    };
    let words = path(&folder, "words.conll");
    fs::write(&words, "good O\nfilm B-X\n\nbad O\nplot I-X\n\n".repeat(20)).unwrap();
    tiny::write_head(Path::new(&model), tiny::Head::Tokens(3));
    let found = init(&words);
    assert_eq!(
        (&found["task"], &found["labels"]),
        (&json!("token-classification"), &json!(["B-X", "I-X", "O"]))
    );
    assert!(fs::read_to_string(&profile).unwrap().contains("# 40 rows"));
    trtforge(&["check", &profile]).expect(0);

    let answer = json!({ "text": "film", "answer_start": 4 });
    let asked = json!({ "id": "1", "question": "good", "answers": [answer] });
    let article =
        json!({ "title": "t", "paragraphs": [{ "context": "the film good", "qas": [asked] }] });
    let questions = path(&folder, "squad.json");
    fs::write(&questions, json!({ "version": "1.1", "data": vec![article; 30] }).to_string())
        .unwrap();
    tiny::write_head(Path::new(&model), tiny::Head::Spans);
    let found = init(&questions);
    assert_eq!(found["task"], "question-answering");
    let text = fs::read_to_string(&profile).unwrap();
    for part in
        ["question: question", "context: context", "answers: answers", "# 30 rows", "or auto"]
    {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(text.starts_with("# yaml-language-server: $schema=profile.schema.json\n"), "{text}");
    trtforge(&["check", &profile]).expect(0);
}

#[test]
fn init_refuses_what_it_cannot_use() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path());
    let (model, profile) = (path(&folder, "model.onnx"), path(&folder, "p.yaml"));
    fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    let empty = path(&folder, "empty.jsonl");
    trtforge(&["init", &model, "--data", &empty, "-o", &profile]).expect(2).says(&["no rows"]);
    trtforge(&["init", &empty, "-o", &profile]).expect(2);
    let (calib, eval) = (path(&folder, "calib.jsonl"), path(&folder, "eval.jsonl"));
    trtforge(&["init", &model, "--data", &calib, &eval, &calib, "-o", &profile])
        .expect(2)
        .says(&["3 data files", "one that judges"]);
    trtforge(&["init", &model, "-o", &model, "--force"])
        .expect(2)
        .says(&["will not be written over"]);
    assert!(!folder.path().join("p.yaml").exists());
}

#[test]
fn shells_and_editors_get_what_they_read() {
    let schema = trtforge(&["schema"]).expect(0);
    let file = support::repository().join("profiles/profile.schema.json");
    assert_eq!(schema.stdout, fs::read_to_string(file).unwrap());
    assert_eq!(trtforge(&["schema", "profile"]).expect(0).stdout, schema.stdout);
    let schema = trtforge(&["schema", "run"]).expect(0);
    let file = support::repository().join("crates/trtforge-report/run.schema.json");
    assert_eq!(schema.stdout, fs::read_to_string(file).unwrap());
    for shell in ["bash", "zsh", "fish"] {
        let script = trtforge(&["completions", shell]).expect(0).stdout;
        for word in ["calibrate", "--stop-after", "tensorrt-rtx"] {
            // fish writes long options without their dashes.
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.contains(word), "{shell}: `{word}`");
        }
    }
    trtforge(&["completions", "tcsh"]).expect(2);
    let page = trtforge(&["man"]).expect(0).stdout;
    for part in [".TH trtforge 1", "trtforge calibrate merge", "stop\\-after", "Exit codes"] {
        assert!(page.to_lowercase().contains(&part.to_lowercase()), "`{part}` is not in the page");
    }
}

#[test]
fn colour_and_log_obey_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path());
    let absent = path(&folder, "absent.yaml");
    let escape = '\u{1b}';
    let plain = trtforge(&["check", &absent, "--color", "never"]).expect(2);
    assert!(!plain.stderr.contains(escape), "{}", plain.stderr);
    let coloured = trtforge(&["check", &absent, "--color=always"]).expect(2);
    assert!(coloured.stderr.contains(escape), "{}", coloured.stderr);
    assert!(trtforge(&["--color", "always", "--help"]).expect(0).stdout.contains(escape));
    assert!(!trtforge(&["--help"]).expect(0).stdout.contains(escape));

    // No terminal and NO_COLOR: both plain; `always` is said more plainly than either.
    let no_color = |arguments: &[&str]| {
        support::trtforge_with(arguments, |command| command.env("NO_COLOR", "1")).expect(2).stderr
    };
    assert!(!no_color(&["check", &absent]).contains(escape));
    assert!(no_color(&["check", &absent, "--color=always"]).contains(escape));

    let log = path(&folder, "run.log");
    let workspace = support::Workspace::tiny();
    let quiet = ["--quiet", "--stop-after", "calibrate", "--log-file", log.as_str()];
    let ran = workspace.run("build", &quiet).expect(0);
    assert_eq!(ran.stderr, "");
    let first = fs::read_to_string(&log).unwrap();
    assert!(first.contains("making artifact") && first.contains("calibrate"), "{first}");
    // A second run says what it takes from the first.
    let ran = workspace.run("build", &["--stop-after", "calibrate", "--verbose"]).expect(0);
    ran.says(&["calibrate cached", "reusing artifact"]);
    let nowhere = path(&folder, "none/run.log");
    trtforge(&["check", &absent, "--log-file", &nowhere]).expect(2).says(&["none/run.log"]);
}
