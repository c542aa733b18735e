//! What went into two runs: files, profile, tool and machine.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::{InputFile, RunRecord};

/// One input of both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InputChange {
    /// `model`, `tokenizer`, `calibration` or `evaluation`.
    pub input: &'static str,
    /// The baseline's.
    pub before: Option<InputFile>,
    /// The run's.
    pub after: Option<InputFile>,
    /// Whether both are the same content.
    pub same: bool,
}

/// One key with another value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyChange {
    /// Such as `calibrate.method`.
    pub key: String,
    /// The baseline's; `null` where it does not say.
    pub before: Value,
    /// The run's.
    pub after: Value,
}

/// Inputs that either run has.
pub fn inputs(before: &RunRecord, after: &RunRecord) -> Vec<InputChange> {
    let (before, after) = (&before.inputs, &after.inputs);
    [
        ("model", &before.model, &after.model),
        ("tokenizer", &before.tokenizer, &after.tokenizer),
        ("calibration", &before.calibration, &after.calibration),
        ("evaluation", &before.evaluation, &after.evaluation),
    ]
    .into_iter()
    .filter(|(_, before, after)| before.is_some() || after.is_some())
    .map(|(input, before, after)| {
        let fingerprint = |file: &Option<InputFile>| file.as_ref().map(|f| f.fingerprint.clone());
        let same = fingerprint(before) == fingerprint(after);
        InputChange { input, before: before.clone(), after: after.clone(), same }
    })
    .collect()
}

/// Keys of the profiles that differ. Where results go is no difference, and neither is where files lie: their contents are inputs.
pub fn profile(before: &RunRecord, after: &RunRecord) -> Vec<KeyChange> {
    changes(&profile_keys(before), &profile_keys(after))
}

/// Leaves of a profile by their path.
pub fn profile_keys(record: &RunRecord) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    flatten("", &record.relative_profile(), &mut leaves);
    let place = |key: &str| {
        let last = key.rsplit('.').next().unwrap_or_default();
        key == "output" || ["onnx", "tokenizer", "path"].contains(&last)
    };
    leaves.retain(|key, _| !place(key));
    leaves
}

/// What made the runs, where it differs.
pub fn environment(before: &RunRecord, after: &RunRecord) -> Vec<KeyChange> {
    changes(&environment_keys(before), &environment_keys(after))
}

fn environment_keys(record: &RunRecord) -> BTreeMap<String, Value> {
    let machine = &record.machine;
    let engine = record.engine.as_ref();
    let text = |text: Option<&String>| text.map_or(Value::Null, |text| text.as_str().into());
    BTreeMap::from([
        ("tool".to_owned(), Value::from(format!("{} {}", record.tool.name, record.tool.version))),
        ("engine library".to_owned(), text(engine.map(|engine| &engine.backend))),
        ("engine library version".to_owned(), text(engine.and_then(|e| e.version.as_ref()))),
        ("machine".to_owned(), Value::from(format!("{} {}", machine.os, machine.arch))),
        ("GPU".to_owned(), text(machine.gpu.as_ref())),
        ("GPU driver".to_owned(), text(machine.driver.as_ref())),
    ])
}

/// Objects by key; lists and everything else are leaves.
fn flatten(path: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, field, leaves);
            }
        }
        Value::Null => {}
        leaf => {
            leaves.insert(path.to_owned(), leaf.clone());
        }
    }
}

fn changes(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<KeyChange> {
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let side = |keys: &BTreeMap<String, Value>, key: &String| {
        keys.get(key).cloned().unwrap_or(Value::Null)
    };
    keys.into_iter()
        .filter(|key| side(before, key) != side(after, key))
        .map(|key| KeyChange {
            key: key.clone(),
            before: side(before, key),
            after: side(after, key),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_compared_one_by_one() {
        let with = |profile| RunRecord { profile, ..RunRecord::default() };
        let before = with(json!({
            "model": { "onnx": "/a/m.onnx" }, "output": "a",
            "calibrate": { "method": "entropy" }, "quantize": { "skip": ["x"], "level": "gemm" },
        }));
        let after = with(json!({
            "model": { "onnx": "b/n.onnx" }, "output": "b", "gate": { "max_drop": 0.01 },
            "calibrate": { "method": "mse" }, "quantize": { "skip": ["x", "y"], "level": "gemm" },
        }));
        let found: Vec<_> = profile(&before, &after)
            .into_iter()
            .map(|change| (change.key, change.before, change.after))
            .collect();
        let expected = [
            ("calibrate.method".to_owned(), json!("entropy"), json!("mse")),
            ("gate.max_drop".to_owned(), json!(null), json!(0.01)),
            ("quantize.skip".to_owned(), json!(["x"]), json!(["x", "y"])),
        ];
        assert_eq!(found, expected);
        assert!(profile(&before, &before).is_empty());
    }

    #[test]
    fn files_are_the_same_by_content() {
        let mut before = RunRecord::default();
        before.inputs.model =
            Some(InputFile { name: "a".into(), fingerprint: "1".into(), ..InputFile::default() });
        let mut after = before.clone();
        after.inputs.model.as_mut().unwrap().name = "b".into();
        after.inputs.evaluation = Some(InputFile::default());
        let same: Vec<_> =
            inputs(&before, &after).iter().map(|one| (one.input, one.same)).collect();
        assert_eq!(same, [("model", true), ("evaluation", false)]);
    }
}
