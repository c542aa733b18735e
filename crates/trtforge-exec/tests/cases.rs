//! Every small model of the shared cases, run against the logits recorded for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, IxDyn};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, ExecError, Executor, NamedValue, Value};

fn cases() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases");
    if !folder.is_dir() {
        eprintln!("skipped: no shared cases beside the repository");
        return None;
    }
    Some(folder)
}

type Rows = BTreeMap<String, serde_json::Value>;

fn feed(path: &Path) -> Rows {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn ids(rows: &serde_json::Value) -> Value {
    let rows: Vec<Vec<i64>> = serde_json::from_value(rows.clone()).unwrap();
    let shape = IxDyn(&[rows.len(), rows[0].len()]);
    ArrayD::from_shape_vec(shape, rows.concat()).unwrap().into()
}

/// The feed under the names the model uses; position ids are counted up.
fn inputs(executor: &dyn Executor, feed: &Rows) -> Vec<NamedValue> {
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

fn largest_difference(outputs: &[NamedValue], feed: &Rows) -> f32 {
    let logits: Vec<Vec<f32>> = serde_json::from_value(feed["logits"].clone()).unwrap();
    let found = outputs[0].1.as_f32().unwrap();
    assert_eq!(found.shape(), [logits.len(), logits[0].len()]);
    found.iter().zip(logits.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn models(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "onnx"))
        .collect();
    found.sort();
    found
}

#[test]
fn every_case_model_gives_its_recorded_logits() {
    let Some(cases) = cases() else { return };
    let mut compared = 0;
    for folder in [
        "BASE",
        "B05",
        "B11",
        "B12",
        "B14",
        "B15",
        "B20",
        "B25",
        "B27",
        "B31",
        "B30/good",
        "B30/linked",
    ] {
        let folder = cases.join(folder);
        let feed_path = folder.join("feed.json");
        let feed = feed(if feed_path.is_file() {
            &feed_path
        } else {
            Box::leak(Box::new(folder.join("../feed.json")))
        });
        for path in models(&folder) {
            let executor = EmbeddedExecutor::load(&path, EmbeddedOptions::default())
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let outputs = executor
                .run(&inputs(&executor, &feed))
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let difference = largest_difference(&outputs, &feed);
            eprintln!("{} {difference:e}", path.display());
            compared += 1;
        }
    }
    assert!(compared >= 30, "{compared}");
}
