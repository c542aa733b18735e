//! The shared cases and how to feed them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, IxDyn};
use trtforge_exec::{Executor, NamedValue, Value};

/// The shared cases, where they lie beside the repository.
pub fn cases() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases");
    if !folder.is_dir() {
        eprintln!("skipped: no shared cases beside the repository");
        return None;
    }
    Some(folder)
}

/// A feed file: rows of each input by name, and recorded outputs.
pub type Rows = BTreeMap<String, serde_json::Value>;

pub fn feed(path: &Path) -> Rows {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn ids(rows: &serde_json::Value) -> Value {
    let rows: Vec<Vec<i64>> = serde_json::from_value(rows.clone()).unwrap();
    let shape = IxDyn(&[rows.len(), rows[0].len()]);
    ArrayD::from_shape_vec(shape, rows.concat()).unwrap().into()
}

/// The feed under the names the model uses; position ids are counted up.
pub fn inputs(executor: &dyn Executor, feed: &Rows) -> Vec<NamedValue> {
    let key = |name: &str| {
        match name.trim_end_matches(":0") {
            "segment_ids" => "token_type_ids",
            "input_mask" => "attention_mask",
            "ids" => "input_ids",
            other => other,
        }
        .to_owned()
    };
    let bind = |name: &str| match feed.get(name).or_else(|| feed.get(&key(name))) {
        Some(rows) => ids(rows),
        None if name == "position_ids" => {
            let shape = ids(&feed["input_ids"]).shape().to_vec();
            ArrayD::from_shape_fn(IxDyn(&shape), |i| i[1] as i64).into()
        }
        None => panic!("the feed has nothing for {name}"),
    };
    executor.inputs().iter().map(|port| (port.name.clone(), bind(&port.name))).collect()
}

/// Every ONNX file of a folder, by name.
pub fn models(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "onnx"))
        .collect();
    found.sort();
    found
}
