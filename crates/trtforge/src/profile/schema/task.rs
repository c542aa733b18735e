//! `task:` and `data:`, whose keys depend on the kind of task.

use serde_json::{Value as Json, json};
use trtforge_evaluate::{Scored, TaggedRows};

use super::super::task::{KINDS, Kind};
use super::parts::{boolean, integer, number, object, path, text, with_default, words};

/// `task:` with the keys of every kind; [`per_kind`] says which of them go together.
pub fn task() -> Json {
    let pooling = words(
        "How token vectors become one: their mean, the first token's, or none (the output is one vector a text already, as pooler-output).",
        &["mean", "cls", "pooler-output", "none"],
    );
    let count = |description: &str| integer(description, 1..=65_536);
    object(
        "What the model does.",
        &["kind"],
        &[
            ("kind", words("The kind of task.", &KINDS.map(|(name, _)| name))),
            ("labels", labels()),
            (
                "scheme",
                with_default(
                    words("How tags become entities.", &["lenient", "strict-iob2"]),
                    "lenient",
                ),
            ),
            (
                "stride",
                integer(
                    "Tokens of the context that consecutive windows share; a third of max_length, at most 128, when absent.",
                    0..=65_536,
                ),
            ),
            ("max_answer_tokens", with_default(count("Tokens of an answer at most."), 30)),
            (
                "n_best",
                with_default(count("Positions tried as start and as end, of each window."), 20),
            ),
            ("no_answer", with_default(boolean("Whether \"no answer\" is one."), false)),
            (
                "no_answer_threshold",
                number(
                    "With no_answer: how far its score must be above the best answer's; 0 when absent.",
                    -1e6,
                    1e6,
                ),
            ),
            (
                "encoder",
                words(
                    "cross: both texts are read together; bi: each becomes a vector.",
                    &["cross", "bi"],
                ),
            ),
            ("pooling", with_default(pooling, "mean")),
            ("normalize", with_default(boolean("Whether vectors are scaled to length 1."), false)),
        ],
    )
}

fn labels() -> Json {
    json!({
        "description": "Names in the order of the logits: position = logit index. Words like \"yes\" and \"no\" in quotes.",
        "type": "array",
        "items": { "type": ["string", "number"], "pattern": "\\S" },
        "minItems": 2,
        "uniqueItems": true,
    })
}

/// The fields of every kind: key, description, name when absent, whether it is what is right.
const FIELDS: [(&str, &str, Option<&str>, bool); 9] = [
    ("text", "The field that holds the text.", Some("text"), false),
    ("text_pair", "The field with the second text, where rows are pairs.", None, false),
    (
        "label",
        "The field with the label: a label name or, as an integer, its index.",
        Some("label"),
        true,
    ),
    ("tokens", "The field with the list of words.", Some("tokens"), false),
    ("tags", "The field with the list of tags.", Some("ner_tags"), true),
    ("question", "The field with the question.", Some("question"), false),
    ("context", "The field with the text that answers.", Some("context"), false),
    ("answers", "The field with the right answers.", Some("answers"), true),
    ("score", "The field that says how alike the two texts are.", Some("score"), true),
];

fn fields(with_gold: bool) -> Vec<(&'static str, Json)> {
    let field = |&(key, description, usual, _): &(&'static str, &str, Option<&str>, bool)| {
        let schema = text(description);
        (key, usual.map_or_else(|| schema.clone(), |usual| with_default(schema.clone(), usual)))
    };
    FIELDS.iter().filter(|(.., gold)| with_gold || !gold).map(field).collect()
}

/// `data:` with the fields of every kind.
pub fn data() -> Json {
    let mut calibration = vec![("path", path("A .jsonl, .csv, .tsv or .parquet file."))];
    calibration.extend(fields(false));
    calibration.extend([
        ("samples", with_default(integer("Rows to calibrate on.", 1..=100_000_000), 512)),
        ("seed", with_default(integer("Seed of the sampler.", 0..=i64::MAX), 17)),
        (
            "strategy",
            with_default(
                words("How rows are chosen.", &["length-stratified", "random", "first"]),
                "length-stratified",
            ),
        ),
    ]);
    let mut evaluation = vec![("path", path("A .jsonl, .csv, .tsv or .parquet file."))];
    evaluation.extend(fields(true));
    let calibration = object(
        "Rows that set the INT8 ranges: typical traffic, no labels needed.",
        &["path"],
        &calibration,
    );
    let evaluation = object(
        "Labelled rows that judge the engines; never those that calibrate.",
        &["path"],
        &evaluation,
    );
    object(
        "Rows that calibrate and rows that judge.",
        &["calibration", "evaluation"],
        &[("calibration", calibration), ("evaluation", evaluation)],
    )
}

/// The field keys of one kind.
const fn field_keys(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Classes => &["text", "text_pair", "label"],
        Kind::Tags => &["tokens", "tags"],
        Kind::Answers => &["question", "context", "answers"],
        Kind::Similarity => &["text", "text_pair", "score"],
        Kind::Embedding => &["text"],
    }
}

/// For each kind, which keys there are and which of them must be written.
pub fn per_kind() -> Json {
    KINDS
        .iter()
        .map(|&(name, kind)| {
            let keys = |own: &[&'static str], with_gold: bool| {
                let gold = |key: &&str| FIELDS.iter().any(|(name, .., gold)| name == key && *gold);
                let fields = field_keys(kind).iter().filter(|key| with_gold || !gold(key));
                json!({ "enum": own.iter().chain(fields).collect::<Vec<_>>() })
            };
            json!({
                "if": {
                    "required": ["task"],
                    "properties": {
                        "task": { "required": ["kind"], "properties": { "kind": { "const": name } } },
                    },
                },
                "then": {
                    "properties": {
                        "task": of_task(kind),
                        "gate": of_gate(kind),
                        "data": {
                            "properties": {
                                "calibration": {
                                    "propertyNames": keys(&["path", "samples", "seed", "strategy"], false),
                                },
                                "evaluation": { "propertyNames": keys(&["path"], true) },
                            },
                        },
                    },
                },
            })
        })
        .collect()
}

/// The metrics that fit.
fn of_gate(kind: Kind) -> Json {
    let rows = match kind {
        Kind::Classes => Scored::Classes(Vec::new()),
        Kind::Tags => Scored::Tags(TaggedRows::default()),
        Kind::Answers => Scored::Answers(Vec::new()),
        Kind::Similarity => Scored::Similarities(Vec::new()),
        Kind::Embedding => Scored::Cosines(Vec::new()),
    };
    let fits =
        json!({ "enum": rows.metrics().iter().map(|metric| metric.name()).collect::<Vec<_>>() });
    json!({
        "properties": {
            "metric": { "anyOf": [fits, { "type": "array", "items": fits }] },
            "metrics": { "items": { "properties": { "metric": fits } } },
        },
    })
}

fn of_task(kind: Kind) -> Json {
    let mut schema = json!({ "propertyNames": { "enum": kind.keys() } });
    match kind {
        Kind::Classes | Kind::Tags => schema["required"] = json!(["labels"]),
        Kind::Similarity => {
            schema["required"] = json!(["encoder"]);
            schema["if"] = json!({ "properties": { "encoder": { "const": "cross" } } });
            schema["then"] = json!({ "not": { "anyOf": [{ "required": ["pooling"] }, { "required": ["normalize"] }] } });
        }
        Kind::Answers => {
            schema["if"] = json!({ "required": ["no_answer_threshold"] });
            schema["then"] = json!({
                "required": ["no_answer"],
                "properties": { "no_answer": { "const": true } },
            });
        }
        Kind::Embedding => {}
    }
    schema
}
