//! Whether `task.labels` is in the order that the model's own `config.json` states.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// What matters here of the `config.json` that exporters leave beside a model.
#[derive(Deserialize)]
struct Config {
    id2label: BTreeMap<usize, String>,
}

/// A warning where the `config.json` beside the model has the same labels in another order. Other names prove nothing: `LABEL_0` is nobody's
/// label, and names are often translated.
pub fn warning(model: &Path, labels: &[String]) -> Option<String> {
    let text = std::fs::read_to_string(model.with_file_name("config.json")).ok()?;
    let stated: Vec<String> =
        serde_json::from_str::<Config>(&text).ok()?.id2label.into_values().collect();
    let plain = |labels: &[String]| -> Vec<String> {
        labels.iter().map(|label| label.trim().to_lowercase()).collect()
    };
    let (own, stated_plain) = (plain(labels), plain(&stated));
    let sorted = |mut labels: Vec<String>| {
        labels.sort();
        labels
    };
    let other_order = own != stated_plain && sorted(own) == sorted(stated_plain);
    other_order.then(|| {
        format!(
            "`task.labels` is [{}], and config.json beside the model says that its logits are [{}]: every answer is read as another label unless config.json is wrong",
            labels.join(", "),
            stated.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_order_is_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model.onnx");
        let labels = ["negative", "positive"].map(str::to_owned);
        assert_eq!(warning(&model, &labels), None, "there is no config.json");
        for (config, expected) in [
            (r#"{"id2label": {"0": "Positive", "1": "Negative"}, "hidden_size": 4}"#, true),
            (r#"{"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}}"#, false),
            (r#"{"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}"#, false),
            (r#"{"id2label": {"0": "positive"}}"#, false),
            (r#"{"hidden_size": 4}"#, false),
            ("not JSON", false),
        ] {
            std::fs::write(folder.path().join("config.json"), config).unwrap();
            let found = warning(&model, &labels);
            assert_eq!(found.is_some(), expected, "{config}: {found:?}");
            assert!(found.is_none_or(|text| text.contains("[Positive, Negative]")));
        }
    }

    #[test]
    fn ten_labels_are_ordered_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let labels: Vec<String> = (0..12).map(|label| format!("class {label}")).collect();
        let config = serde_json::json!({
            "id2label": labels.iter().enumerate().map(|(id, label)| (id.to_string(), label)).collect::<BTreeMap<_, _>>()
        });
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        assert_eq!(warning(&folder.path().join("model.onnx"), &labels), None);
    }
}
