//! Runs of the binary with the test double in place of TensorRT and the CUDA driver.

use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, IxDyn};
use serde_json::Value as Json;
use trtforge_data::TextEncoder;
use trtforge_double::{Account, Recorder, Recording, Row, Tensor, TensorType, Values};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, NamedValue};

use super::{Ran, Workspace, trtforge_with};

/// A workspace whose engines play back what the FP32 model says of every row it evaluates and calibrates on.
pub struct Doubled {
    pub workspace: Workspace,
    recording: PathBuf,
}

impl Doubled {
    /// Over [`Workspace::tiny`].
    pub fn tiny() -> Doubled {
        let workspace = Workspace::tiny();
        let recording = workspace.folder.path().join("recording.json");
        record(workspace.folder.path()).save(&recording);
        Doubled { workspace, recording }
    }

    /// Changes what was recorded.
    pub fn change(&self, change: impl FnOnce(&mut Recording)) {
        let mut recording =
            serde_json::from_str(&fs::read_to_string(&self.recording).unwrap()).unwrap();
        change(&mut recording);
        recording.save(&self.recording);
    }

    /// Runs a subcommand on the profile, with this failing (`call:n`; nothing where empty), and gives what the double saw.
    pub fn run(&self, command: &str, more: &[&str], failing: &str) -> (Ran, Account) {
        let profile = self.workspace.write();
        let mut arguments = vec![command, profile.as_str()];
        arguments.extend(more);
        self.run_on(&arguments, failing)
    }

    /// The same with any arguments.
    pub fn run_on(&self, arguments: &[&str], failing: &str) -> (Ran, Account) {
        let account = account_of(&self.recording);
        let _ = fs::remove_file(&account);
        let ran = run_doubled(arguments, &self.recording, failing);
        // A run that ended before it came to the double has no account.
        let nothing = r#"{"live":{},"destroyed":[],"misuses":[],"calls":{},"options":{}}"#;
        let account = account.is_file().then(|| Account::read(&account));
        (ran, account.unwrap_or_else(|| serde_json::from_str(nothing).unwrap()))
    }
}

/// Runs the binary with the double, which plays back this recording and fails at this call (`call:n`; nothing where empty).
pub fn run_doubled(arguments: &[&str], recording: &Path, failing: &str) -> Ran {
    trtforge_with(arguments, |run| {
        run.envs(trtforge_double::environment())
            .env("TRTFORGE_DOUBLE_RECORDING", recording)
            .env("TRTFORGE_DOUBLE_ACCOUNT", account_of(recording))
            .env("TRTFORGE_DOUBLE_FAIL", failing)
    })
}

/// Where [`run_doubled`] leaves the double's account: beside the recording.
pub fn account_of(recording: &Path) -> PathBuf {
    recording.with_file_name("account.json")
}

/// A classifier of two labels that plays these rows back.
pub fn classifier(rows: Vec<Row>) -> Recording {
    let shape = ["batch", "sequence"];
    Recording {
        inputs: vec![
            Tensor::new("input_ids", TensorType::Int64, &shape),
            Tensor::new("attention_mask", TensorType::Int64, &shape),
        ],
        outputs: vec![Tensor::new("logits", TensorType::Float32, &["batch", "2"])],
        mask: Some("attention_mask".to_owned()),
        keys: vec!["input_ids".to_owned()],
        rows,
        ..Recording::default()
    }
}

/// What it says of one row.
pub fn answer(ids: Vec<i64>, logits: &[f32]) -> Row {
    Row { key: vec![ids], outputs: [("logits".to_owned(), Values::f32(&[2], logits))].into() }
}

/// Every row of one of the workspace's files, with the token ids of its text by the words of the vocabulary.
pub fn tokenized(workspace: &Workspace, file: &str) -> Vec<(Json, Vec<i64>)> {
    let folder = workspace.folder.path();
    let vocabulary = fs::read_to_string(folder.join("vocab.txt")).unwrap();
    let id = |word: &str| vocabulary.lines().position(|known| known == word).unwrap() as i64;
    let row = |line: &str| {
        let row: Json = serde_json::from_str(line).unwrap();
        let words = row["text"].as_str().unwrap().split(' ').map(id);
        let ids = [2].into_iter().chain(words).chain([3]).collect();
        (row, ids)
    };
    fs::read_to_string(folder.join(file)).unwrap().lines().map(row).collect()
}

/// Every row of the workspace's data, through the FP32 model.
fn record(folder: &Path) -> Recording {
    let encoder = TextEncoder::open(&folder.join("tokenizer.json"), 32).unwrap();
    let texts = ["eval.jsonl", "calib.jsonl"].map(|name| fs::read_to_string(folder.join(name)));
    let texts: Vec<String> = texts.into_iter().map(Result::unwrap).collect();
    let rows = texts.iter().flat_map(|text| text.lines()).map(|line| {
        let row: Json = serde_json::from_str(line).unwrap();
        let ids = encoder.encode(row["text"].as_str().unwrap(), None).unwrap().ids;
        let length = ids.len();
        let named = |name: &str, values: Vec<i64>| -> NamedValue {
            let array = ArrayD::from_shape_vec(IxDyn(&[1, length]), values).unwrap();
            (name.to_owned(), array.into())
        };
        let ids = ids.into_iter().map(i64::from).collect();
        vec![named("input_ids", ids), named("attention_mask", vec![1; length])]
    });
    let executor =
        EmbeddedExecutor::load(&folder.join("model.onnx"), EmbeddedOptions::default()).unwrap();
    let recorder = Recorder::new(executor, &[]);
    let mut recording = recorder.record_rows("attention_mask", &["input_ids"], rows);
    recording.layers = vec!["double_layer".into()];
    recording
}
