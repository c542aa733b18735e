//! What the end-to-end tests share: running the binary, writing profiles, reading artifacts.

#![allow(dead_code, reason = "each test program uses its own part of this")]

pub mod calibrating;
pub mod doubled;
pub mod tiny;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value as Json, json};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, Executor, NamedValue, Value};

/// The top folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository exists")
}

/// A folder of the shared fault cases, when they are there; says so when they are not.
pub fn case(name: &str) -> Option<PathBuf> {
    let folder = repository().join("../shared/cases").join(name);
    if !folder.is_dir() {
        eprintln!("skipped: ../shared/cases/{name} is not there");
        return None;
    }
    Some(folder)
}

/// What a run of the binary gave.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Asserts the exit code, with everything printed on failure.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that the error output has all of these words.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        // Errors are wrapped to the terminal's width; compare without line breaks and frame characters.
        let flat = self.stderr.replace(['\n', '│', '×', '╰', '─', '▶', '├'], " ");
        let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(flat.contains(word), "`{word}` is not in: {flat}");
        }
        self
    }

    pub fn json(&self) -> Json {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

/// Runs the binary.
pub fn trtforge(arguments: &[&str]) -> Ran {
    trtforge_with(arguments, |command| command)
}

/// Runs the binary with a changed command (environment, folder).
pub fn trtforge_with(arguments: &[&str], change: impl FnOnce(&mut Command) -> &mut Command) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trtforge"));
    command.args(arguments);
    let Output { status, stdout, stderr } =
        change(&mut command).output().expect("the binary starts");
    Ran {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Asserts that a record is what `run.schema.json` describes.
#[track_caller]
pub fn fits_schema(record: &Json) {
    let validator = jsonschema::validator_for(&trtforge_report::run_schema()).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(record)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// A profile in a temporary folder, its paths pointing elsewhere.
pub struct Workspace {
    pub folder: tempfile::TempDir,
    pub profile: Json,
}

impl Workspace {
    /// A profile over the files of a folder like those of the shared cases.
    pub fn over(case: &Path, model: &str, calibration: &str, evaluation: &str) -> Self {
        let path = |name: &str| case.join(name).display().to_string();
        let profile = json!({
            "version": 1,
            "model": { "onnx": path(model), "tokenizer": path("tokenizer.json") },
            "task": { "kind": "text-classification", "labels": ["negative", "positive"] },
            "data": {
                "calibration": { "path": path(calibration), "samples": 48 },
                "evaluation": { "path": path(evaluation) },
            },
            "max_length": 64,
            // What runs with a test double of a GPU is timed for a moment only.
            "benchmark": { "warmup_ms": 0, "duration_ms": 10, "rounds": 2 },
            "shapes": { "from": "evaluation", "profiles": 2, "max_batch": 8 },
            // Made-up models know nothing about made-up labels.
            "gate": { "max_drop": 0.05, "on_inconclusive": "accept", "allow_chance_baseline": true },
            "output": "out/m",
        });
        Workspace { folder: tempfile::tempdir().expect("a temporary folder"), profile }
    }

    /// A profile over the model and rows that [`tiny`] makes.
    pub fn tiny() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        tiny::write(folder.path());
        let mut workspace =
            Workspace::over(folder.path(), "model.onnx", "calib.jsonl", "eval.jsonl");
        workspace.folder = folder;
        workspace.set("/max_length", json!(32));
        workspace.set("/gate/max_drop", json!(0.2));
        workspace
    }

    /// Evaluates on these rows with made-up labels, so that the chain runs where a case has none.
    ///
    /// Half of the labels are wrong by construction: accuracy means nothing, and only a collapse may count as a drop.
    pub fn label(&mut self, rows: &Path) {
        let labelled: String = fs::read_to_string(rows)
            .unwrap()
            .lines()
            .enumerate()
            .map(|(row, line)| {
                let mut value: Json = serde_json::from_str(line).unwrap();
                value["label"] = json!(row % 2);
                format!("{value}\n")
            })
            .collect();
        let path = self.folder.path().join("labelled.jsonl");
        fs::write(&path, labelled).unwrap();
        self.set("/data/evaluation/path", json!(path));
        self.set("/gate/max_drop", json!(0.5));
    }

    /// Sets one field by its JSON pointer, making objects on the way.
    pub fn set(&mut self, pointer: &str, value: Json) -> &mut Self {
        let mut node = &mut self.profile;
        for key in pointer.trim_start_matches('/').split('/') {
            node = &mut node[key];
        }
        *node = value;
        self
    }

    /// The profile's path, written as it is now (JSON is YAML).
    pub fn write(&self) -> String {
        let path = self.folder.path().join("profile.yaml");
        fs::write(&path, serde_json::to_string_pretty(&self.profile).unwrap()).unwrap();
        path.display().to_string()
    }

    /// Runs a subcommand on the profile.
    pub fn run(&self, command: &str, more: &[&str]) -> Ran {
        let profile = self.write();
        let mut arguments = vec![command, profile.as_str()];
        arguments.extend(more);
        let ran = trtforge(&arguments);
        if command == "build" && self.output("run.json").is_file() {
            fits_schema(&self.read("run.json"));
        }
        ran
    }

    /// A path in the output folder.
    pub fn output(&self, name: &str) -> PathBuf {
        self.folder.path().join("out/m").join(name)
    }

    /// A JSON artifact of the output folder.
    pub fn read(&self, name: &str) -> Json {
        let path = self.output(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).unwrap()
    }
}

/// Token ids with the FP32 logits for them, as in `feed.json` of a case.
pub struct Feed {
    values: Json,
}

impl Feed {
    pub fn open(path: &Path) -> Self {
        Feed { values: serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap() }
    }

    /// The inputs a model asks for.
    fn bind(&self, executor: &dyn Executor) -> Vec<NamedValue> {
        let matrix = |key: &str| -> Option<Vec<Vec<i64>>> {
            serde_json::from_value(self.values.get(key)?.clone()).ok()
        };
        let ids = matrix("input_ids").expect("a feed has input_ids");
        let (rows, length) = (ids.len(), ids[0].len());
        let bind = |name: &str| {
            let key = match name.trim_end_matches(":0") {
                "input_mask" => "attention_mask",
                "segment_ids" => "token_type_ids",
                other => other,
            };
            let values: Vec<i64> = match matrix(key) {
                Some(values) => values.concat(),
                None if key == "position_ids" => (0..rows).flat_map(|_| 0..length as i64).collect(),
                None => vec![0; rows * length],
            };
            let array = ndarray::ArrayD::from_shape_vec(vec![rows, length], values).unwrap();
            (name.to_owned(), Value::I64(array))
        };
        executor.inputs().iter().map(|port| bind(&port.name)).collect()
    }

    /// Logits of a model on this feed.
    pub fn logits(&self, model: &Path) -> Vec<f32> {
        let executor = EmbeddedExecutor::load(model, EmbeddedOptions::default()).unwrap();
        let outputs = executor.run(&self.bind(&executor)).unwrap();
        outputs[0].1.as_f32().expect("logits are floats").iter().copied().collect()
    }

    /// The FP32 logits stated in the feed.
    pub fn expected(&self) -> Vec<f32> {
        let rows: Vec<Vec<f32>> = serde_json::from_value(self.values["logits"].clone()).unwrap();
        rows.concat()
    }
}

/// Largest absolute difference; NaN anywhere is infinite.
#[track_caller]
pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let difference = |(a, b): (&f32, &f32)| {
        let d = (a - b).abs();
        if d.is_nan() { f32::INFINITY } else { d }
    };
    a.iter().zip(b).map(difference).fold(0.0, f32::max)
}

/// Names of all files below a folder, sorted.
pub fn files(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, base: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, base, found);
            } else {
                found.push(path.strip_prefix(base).unwrap().display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}
