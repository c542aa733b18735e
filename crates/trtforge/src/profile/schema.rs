//! The JSON Schema of a profile, for editors that complete and check while a profile is written.
//!
//! It stands beside the reader, and a test holds the two together: for every key and for many values, right and wrong,
//! schema and reader must say the same (`schema/tests.rs`).

mod benchmark;
mod engine;
mod parts;
mod task;

use serde_json::{Map, Value as Json, json};

use parts::{
    boolean, either, gate, integer, list, number, object, path, text, text_list, with_default,
    words,
};

/// The schema of a profile (JSON Schema, draft 7: what editors know best).
pub fn profile_schema() -> Json {
    let mut schema = object(
        "A trtforge profile: everything one build is made from. Paths are relative to its folder.",
        &["version", "model", "task", "data", "max_length", "output"],
        &[
            ("version", json!({ "description": "Version of the profile format.", "const": 1 })),
            ("model", model()),
            ("task", task::task()),
            ("data", task::data()),
            (
                "max_length",
                integer(
                    "Tokens a row may have, special tokens included; longer rows are cut and counted.",
                    2..=65_536,
                ),
            ),
            ("precisions", precisions()),
            ("shapes", shapes()),
            ("calibrate", calibrate()),
            ("quantize", quantize()),
            ("evaluate", evaluate()),
            ("gate", gate()),
            ("engine", engine::engine()),
            ("benchmark", benchmark::benchmark()),
            ("output", path("Where results go; --output overrides it.")),
        ],
    );
    let head = [
        ("$schema", json!("http://json-schema.org/draft-07/schema#")),
        ("title", json!("trtforge profile")),
    ];
    let mut whole: Map<String, Json> =
        head.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    if let Json::Object(keys) = &mut schema {
        whole.append(keys);
    }
    whole.insert("allOf".to_owned(), task::per_kind());
    Json::Object(whole)
}

fn model() -> Json {
    object(
        "The model and its tokenizer.",
        &["onnx", "tokenizer"],
        &[
            ("onnx", path("The FP32 ONNX model; external data lies beside it.")),
            (
                "tokenizer",
                path(
                    "tokenizer.json, or a WordPiece vocab.txt (lower-casing is read from tokenizer_config.json or config.json beside it).",
                ),
            ),
            (
                "inputs",
                json!({
                    "description": "Roles of inputs whose name does not tell: model input to role.",
                    "type": "object",
                    "additionalProperties": {
                        "enum": ["input_ids", "attention_mask", "token_type_ids", "position_ids"],
                    },
                }),
            ),
            (
                "output",
                either(
                    "The output that is read, where a model has several; of question answering two, start before end.",
                    vec![text("Its name."), text_list("Their names.")],
                ),
            ),
            (
                "canonical",
                with_default(
                    boolean(
                        "Work on the canonical form of the graph; false works on the graph as it is.",
                    ),
                    true,
                ),
            ),
        ],
    )
}

fn precisions() -> Json {
    json!({
        "description": "Engines to build; FP32 is always evaluated, as the baseline.",
        "type": "array",
        "items": { "enum": ["fp16", "int8"] },
        "minItems": 1,
        "default": ["fp16", "int8"],
    })
}

fn shapes() -> Json {
    let pair = |name: &str| {
        json!({
            "description": format!("{name}: [batch, length]."),
            "type": "array",
            "items": { "type": "integer", "minimum": 1, "maximum": 1_000_000 },
            "minItems": 2,
            "maxItems": 2,
        })
    };
    let explicit = object(
        "One optimization profile; on each axis min ≤ opt ≤ max.",
        &["min", "opt", "max"],
        &[
            ("min", pair("Smallest")),
            ("opt", pair("The one tactics are chosen for")),
            ("max", pair("Largest")),
        ],
    );
    let planned = object(
        "Optimization profiles planned from row lengths.",
        &[],
        &[
            (
                "from",
                with_default(
                    words("Whose row lengths count.", &["evaluation", "calibration"]),
                    "evaluation",
                ),
            ),
            ("profiles", with_default(integer("Optimization profiles.", 1..=16), 3)),
            ("max_batch", with_default(integer("Rows of the largest batch.", 1..=4096), 64)),
        ],
    );
    with_default(
        either(
            "Shapes the engines take: planned from the data, or a list.",
            vec![planned, list("Optimization profiles.", explicit)],
        ),
        json!({ "from": "evaluation", "profiles": 3, "max_batch": 64 }),
    )
}

fn calibrate() -> Json {
    object(
        "How INT8 ranges are found.",
        &[],
        &[
            (
                "method",
                with_default(
                    words(
                        "How a range is chosen from the histogram of a tensor; auto tries on rows kept aside.",
                        &["entropy", "minmax", "percentile", "mse", "auto"],
                    ),
                    "entropy",
                ),
            ),
            ("percentile", with_default(number("For method: percentile.", 50.0, 100.0), 99.99)),
            ("table", path("A recorded table of this model to use instead of calibrating.")),
            (
                "batch_size",
                with_default(
                    integer(
                        "Most rows per forward pass; the table does not depend on it.",
                        1..=4096,
                    ),
                    8,
                ),
            ),
            (
                "device",
                with_default(
                    words(
                        "What runs the rows: an FP32 engine on the GPU, or the CPU; auto takes the GPU where there is one that can.",
                        &["auto", "cpu", "gpu"],
                    ),
                    "auto",
                ),
            ),
        ],
    )
}

fn quantize() -> Json {
    object(
        "What becomes INT8.",
        &[],
        &[
            (
                "level",
                with_default(
                    words(
                        "gemm: inputs and weights of every weighted MatMul and Gemm; attention: also Q, K, V and the softmax output; residual: also both inputs of each residual Add.",
                        &["gemm", "attention", "residual"],
                    ),
                    "gemm",
                ),
            ),
            (
                "skip",
                with_default(
                    text_list(
                        "Patterns (* and ?) over node, output or weight names that stay FP16.",
                    ),
                    json!([]),
                ),
            ),
            (
                "only",
                with_default(
                    text_list("When not empty: patterns that alone become INT8."),
                    json!([]),
                ),
            ),
            (
                "smooth",
                with_default(
                    either(
                        "Strength of SmoothQuant, 0 (off) to 1, or auto: tried on rows kept aside.",
                        vec![
                            json!({ "type": "number", "minimum": 0, "maximum": 1 }),
                            json!({ "enum": ["auto"] }),
                        ],
                    ),
                    0,
                ),
            ),
        ],
    )
}

fn evaluate() -> Json {
    object(
        "How rows are batched when accuracy is measured.",
        &[],
        &[
            ("batch_size", with_default(integer("Rows per batch.", 1..=4096), 32)),
            (
                "padding",
                with_default(
                    words("To what length rows are padded.", &["longest", "max_length"]),
                    "longest",
                ),
            ),
        ],
    )
}

#[cfg(test)]
mod tests;
