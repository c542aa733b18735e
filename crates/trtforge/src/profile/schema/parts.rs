//! The pieces a schema is made of, and the section with the most of them: `gate`.

use std::ops::RangeInclusive;

use serde_json::{Map, Value as Json, json};
use trtforge_evaluate::Metric;

/// A mapping with these keys and no others.
pub fn object(description: &str, required: &[&str], keys: &[(&str, Json)]) -> Json {
    let properties: Map<String, Json> =
        keys.iter().map(|(key, schema)| ((*key).to_owned(), schema.clone())).collect();
    let mut schema = json!({ "description": description, "type": "object" });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["additionalProperties"] = json!(false);
    schema["properties"] = Json::Object(properties);
    schema
}

/// A string; numbers and booleans written without quotes are taken as they read.
pub fn text(description: &str) -> Json {
    json!({ "description": description, "type": ["string", "number", "boolean"], "minLength": 1 })
}

/// A file or folder.
pub fn path(description: &str) -> Json {
    text(description)
}

/// A whole number.
pub fn integer(description: &str, range: RangeInclusive<i64>) -> Json {
    json!({
        "description": description,
        "type": "integer",
        "minimum": range.start(),
        "maximum": range.end(),
    })
}

/// A number.
pub fn number(description: &str, minimum: f64, maximum: f64) -> Json {
    json!({ "description": description, "type": "number", "minimum": minimum, "maximum": maximum })
}

/// `true` or `false`.
pub fn boolean(description: &str) -> Json {
    json!({ "description": description, "type": "boolean" })
}

/// One of some words.
pub fn words(description: &str, words: &[&str]) -> Json {
    json!({ "description": description, "enum": words })
}

/// A list of strings. `no` and `yes` without quotes are YAML's truth values, not the words.
pub fn text_list(description: &str) -> Json {
    json!({
        "description": description,
        "type": "array",
        "items": { "type": ["string", "number"] },
    })
}

/// One of these or more.
pub fn list(description: &str, item: Json) -> Json {
    let mut schema = json!({ "description": description, "type": "array", "minItems": 1 });
    schema["items"] = item;
    schema
}

/// One of several forms.
pub fn either(description: &str, forms: Vec<Json>) -> Json {
    let mut schema = json!({ "description": description });
    schema["anyOf"] = Json::Array(forms);
    schema
}

/// The same, with what stands for an absent key.
pub fn with_default(mut schema: Json, default: impl Into<Json>) -> Json {
    schema["default"] = default.into();
    schema
}

/// Only one of the two keys.
fn not_both(mut schema: Json, one: &str, other: &str) -> Json {
    let rule = json!({ "not": { "required": [one, other] } });
    match schema.get_mut("allOf").and_then(Json::as_array_mut) {
        Some(rules) => rules.push(rule),
        None => schema["allOf"] = json!([rule]),
    }
    schema
}

fn max_drop() -> Json {
    number("Largest tolerated drop against the baseline, in the metric's units.", 0.0, 0.999)
}

fn max_relative_drop() -> Json {
    number("Instead of max_drop: as a share of the baseline's value.", 0.0, 0.999)
}

fn min_value() -> Json {
    number("Least value of the metric.", -1.0, 1.0)
}

fn on_inconclusive() -> Json {
    words("What too little evidence means.", &["fail", "accept"])
}

/// Limits of a part of the rows, with `more` keys before them.
fn part(description: &str, required: &[&str], more: &[(&str, Json)]) -> Json {
    let mut keys = more.to_vec();
    keys.extend([
        ("max_drop", max_drop()),
        ("max_relative_drop", max_relative_drop()),
        ("on_inconclusive", on_inconclusive()),
    ]);
    let mut schema =
        not_both(object(description, required, &keys), "max_drop", "max_relative_drop");
    schema["anyOf"] = json!([{ "required": ["max_drop"] }, { "required": ["max_relative_drop"] }]);
    schema
}

fn metric() -> Json {
    words("What is measured; it must fit the task.", &Metric::ALL.map(Metric::name))
}

fn metrics_with_limits() -> Json {
    let one = object(
        "A metric with limits of its own.",
        &["metric"],
        &[
            ("metric", metric()),
            ("max_drop", max_drop()),
            ("max_relative_drop", max_relative_drop()),
            ("min_value", min_value()),
        ],
    );
    list(
        "Metrics with limits of their own, the headline first.",
        not_both(one, "max_drop", "max_relative_drop"),
    )
}

fn baseline() -> Json {
    let recorded = object(
        "One precision of an earlier run.",
        &["run"],
        &[
            ("run", path("The output folder of an earlier build.")),
            ("precision", words("Which of its engines.", &["fp32", "fp16", "int8"])),
        ],
    );
    let run = text("The output folder of an earlier build, or fp32: that of this run.");
    with_default(either("What engines are compared with.", vec![run, recorded]), "fp32")
}

fn slices() -> Json {
    let field = ("field", text("A field of the evaluation data."));
    let one = part("Limits within each value of a data field.", &["field"], &[field]);
    either(
        "Largest drop within each value of a data field.",
        vec![one.clone(), json!({ "type": "array", "items": one })],
    )
}

fn rules() -> Vec<(&'static str, Json)> {
    let share = |description: &str| number(description, 0.0, 1.0);
    vec![
        ("per_class", part("Largest drop of the F1 of each class.", &[], &[])),
        ("per_slice", slices()),
        ("max_flip_rate", share("Largest share of changed answers.")),
        ("max_logit_divergence", number("Largest mean absolute difference of logits.", 0.0, 1e6)),
        (
            "require_device",
            with_default(boolean("Refuse verdicts that did not run the engine itself."), false),
        ),
        ("require_int8_share", share("Least share of the arithmetic in INT8, on the device.")),
        (
            "min_speedup",
            number(
                "Least speed-up of INT8 over FP16, timed on the device at every shape of `benchmark`.",
                0.01,
                1e6,
            ),
        ),
    ]
}

fn fallback() -> Json {
    let time = json!({
        "description": "No candidate is begun after this: a number with its unit, as 90s, 30m or 2h.",
        "anyOf": [
            { "type": "string", "pattern": "^\\s*(0+|[0-9]+(\\.[0-9]+)?\\s*(ms|s|m|h))$" },
            { "const": 0 },
        ],
    });
    object(
        "Limits of the search that on_reject: fallback begins; unused with on_reject: fail.",
        &[],
        &[
            ("time_limit", with_default(time, "30m")),
            ("max_steps", with_default(integer("Most looks at the evaluation rows.", 1..=64), 8)),
            (
                "rows",
                with_default(
                    integer("Calibration rows on which candidates are compared.", 1..=1_000_000),
                    64,
                ),
            ),
        ],
    )
}

/// `gate:`
pub fn gate() -> Json {
    let several = json!({ "type": "array", "items": metric(), "minItems": 1, "uniqueItems": true });
    let mut keys = vec![
        ("metric", either("What is measured: one metric, or several.", vec![metric(), several])),
        ("metrics", metrics_with_limits()),
        ("max_drop", with_default(max_drop(), 0.005)),
        ("max_relative_drop", max_relative_drop()),
        ("min_value", min_value()),
    ];
    keys.extend(rules());
    keys.extend([
        (
            "confidence",
            with_default(
                number("Of the one-sided bound that must lie within max_drop.", 0.5, 0.9999),
                0.95,
            ),
        ),
        (
            "on_reject",
            with_default(
                words(
                    "What a refusal means: fallback looks for the most INT8 that passes.",
                    &["fail", "fallback"],
                ),
                "fail",
            ),
        ),
        ("fallback", fallback()),
        ("on_inconclusive", with_default(on_inconclusive(), "fail")),
        (
            "allow_chance_baseline",
            with_default(boolean("Tolerate a baseline that answers no better than chance."), false),
        ),
        ("baseline", baseline()),
    ]);
    let gate = object("When an engine is good enough.", &[], &keys);
    not_both(not_both(gate, "max_drop", "max_relative_drop"), "metric", "metrics")
}
