//! The draft as a commented profile.

use std::path::{Component, Path, PathBuf};

use super::Draft;
use super::data::DataFile;
use super::model::Kind;

/// Writes the profile; paths are relative to `folder`.
pub fn profile(draft: &Draft, folder: &Path) -> String {
    let mut text = String::from(
        "# yaml-language-server: $schema=profile.schema.json\n\
         # Written by `trtforge init`. Check it with `trtforge check`, then run `trtforge build`.\n\
         # Paths are relative to the folder of this file; unknown keys are errors that name the nearest one.\n\
         # `trtforge schema > profile.schema.json` beside it lets an editor complete and check them.\n",
    );
    for todo in &draft.todo {
        text.push_str(&format!("# TODO: {todo}\n"));
    }
    text.push_str("version: 1\n\n");
    text.push_str(&model(draft, folder));
    text.push_str(&task(draft));
    text.push_str(&data(draft, folder));
    text.push_str(&lengths(draft));
    let stem = draft.model.path.file_stem().unwrap_or_default().to_string_lossy();
    text.push_str(&format!(
        "\n# FP32 is always evaluated, as the baseline of the gate.\n\
         precisions: [fp16, int8]\n\n\
         # Planned from row lengths, or a list of {{ min: [batch, length], opt: …, max: … }}.\n\
         shapes: {{ from: evaluation, profiles: 3, max_batch: 64 }}\n\n\
         # entropy, minmax, percentile, mse, or auto: whichever moves the logits least on calibration rows kept aside.\n\
         calibrate: {{ method: entropy }}\n\n\
         # gemm, attention or residual: how far INT8 reaches. skip: patterns of nodes that stay FP16.\n\
         quantize: {{ level: gemm, skip: [] }}\n\n\
         # Refuse an engine that loses more than this against FP32 on the same rows, or for which they prove nothing.\n\
         gate: {{ max_drop: 0.005, confidence: 0.95 }}\n\n\
         # tensorrt needs a GPU, tensorrt-rtx builds anywhere, none stops at the ONNX graphs.\n\
         engine: {{ backend: auto }}\n\n\
         output: {}\n",
        scalar(&format!("out/{stem}"))
    ));
    text
}

fn model(draft: &Draft, folder: &Path) -> String {
    let facts = &draft.model;
    let tokenizer = draft.tokenizer.as_deref().map(|path| relative(path, folder));
    let mut text = format!(
        "model:\n  onnx: {}\n  tokenizer: {}\n",
        scalar(&relative(&facts.path, folder)),
        tokenizer
            .map_or_else(|| "tokenizer.json   # TODO: not found".to_owned(), |path| scalar(&path)),
    );
    let roles: Vec<String> = facts
        .inputs
        .iter()
        .map(|(name, role, _)| match role {
            Some(role) if role.name() != name => format!("{name} ({role})"),
            _ => name.clone(),
        })
        .collect();
    text.push_str(&format!("  # Inputs: {}.\n", roles.join(", ")));
    let mapped: Vec<String> = facts
        .inputs
        .iter()
        .filter(|(_, _, told)| !told)
        .filter_map(|(name, role, _)| Some(format!("{}: {}", scalar(name), (*role)?)))
        .collect();
    if !mapped.is_empty() {
        text.push_str(&format!("  inputs: {{ {} }}\n", mapped.join(", ")));
    }
    match facts.named_outputs.as_slice() {
        [] => {}
        [one] => text.push_str(&format!("  output: {}\n", scalar(one))),
        several => text.push_str(&format!("  output: [{}]\n", scalars(several))),
    }
    text
}

fn task(draft: &Draft) -> String {
    let mut text = format!("\ntask:\n  kind: {}\n", draft.kind.name());
    match draft.kind {
        Kind::Classes(_) | Kind::Tags(_) => text.push_str(&format!(
            "  # Position = logit index. From: {}.\n  labels: [{}]\n",
            draft.labels_from,
            scalars(&draft.labels)
        )),
        Kind::Answers => {}
        Kind::Cross => text.push_str("  encoder: cross\n"),
        Kind::Bi { by_token } => {
            text.push_str(&format!("  encoder: bi\n  pooling: {}\n", pooling(by_token)));
        }
        Kind::Embedding { by_token } => {
            text.push_str(&format!("  pooling: {}\n", pooling(by_token)));
        }
    }
    text
}

const fn pooling(by_token: bool) -> &'static str {
    if by_token { "mean" } else { "none" }
}

/// The keys of a data section for the two texts and for what is right.
const fn keys(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::Classes(_) => ("text", "text_pair", "label"),
        Kind::Tags(_) => ("tokens", "", "tags"),
        Kind::Answers => ("question", "context", "answers"),
        Kind::Cross | Kind::Bi { .. } | Kind::Embedding { .. } => ("text", "text_pair", "score"),
    }
}

fn data(draft: &Draft, folder: &Path) -> String {
    let (text_key, pair_key, gold_key) = keys(draft.kind);
    let fields = &draft.fields;
    let line = |key: &str, field: &Option<String>| {
        field.as_ref().map_or_else(String::new, |field| format!("    {key}: {}\n", scalar(field)))
    };
    let path = |file: Option<&DataFile>, example: &str| match file {
        Some(file) => {
            format!("    path: {}   # {} rows\n", scalar(&relative(&file.path, folder)), file.rows)
        }
        None => format!("    path: {example}   # TODO: not given\n"),
    };
    let texts = line(text_key, &fields.text) + &line(pair_key, &fields.pair);
    let mut text = "\ndata:\n".to_owned();
    if !fields.others.is_empty() {
        text.push_str(&format!("  # Also in the rows: {}.\n", fields.others.join(", ")));
    }
    text.push_str("  # Rows that set the INT8 ranges: typical traffic, no labels needed.\n");
    text.push_str("  calibration:\n");
    text.push_str(&path(draft.calibration.as_ref(), "train.jsonl"));
    text.push_str(&texts);
    let samples = draft.calibration.as_ref().map_or(512, |file| file.rows.min(512));
    text.push_str(&format!(
        "    samples: {samples}\n    seed: 17\n    strategy: length-stratified   # or random, or first\n"
    ));
    text.push_str("  # Rows that judge the engines: never those that trained or calibrate.\n");
    text.push_str("  evaluation:\n");
    text.push_str(&path(draft.evaluation.as_ref(), "test.jsonl"));
    text.push_str(&texts);
    text.push_str(&line(gold_key, &fields.gold));
    text
}

fn lengths(draft: &Draft) -> String {
    let positions = draft.model.positions.map_or_else(
        || "the model's positions could not be told".to_owned(),
        |positions| format!("the model has {positions} positions"),
    );
    let measured = draft.lengths.as_ref().map_or_else(
        || "No rows were measured".to_owned(),
        |lengths| {
            format!(
                "Half of the rows have up to {} tokens, 99 % up to {}, the longest {}",
                lengths.p50, lengths.p99, lengths.max
            )
        },
    );
    format!(
        "\n# Tokens kept of each row. {measured}; {positions}.\nmax_length: {}\n",
        draft.max_length
    )
}

/// A string as YAML: plain where nothing could be mistaken, else in quotes.
fn scalar(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.' || c == '/')
        && text.parse::<f64>().is_err()
        && !["yes", "no", "on", "off", "true", "false", "null", "y", "n", ".", ".inf", ".nan"]
            .contains(&text.to_lowercase().as_str());
    // JSON's strings are YAML's double-quoted ones.
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

fn scalars(texts: &[String]) -> String {
    texts.iter().map(|text| scalar(text)).collect::<Vec<_>>().join(", ")
}

/// `path` as seen from `folder`, with `/` between its parts; as it is where they share nothing.
fn relative(path: &Path, folder: &Path) -> String {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (Ok(path), Ok(folder)) = (path.canonicalize(), folder.canonicalize()) else {
        return path.display().to_string();
    };
    let shared = path.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    // Only the root, or a drive: the way up would be the longer name.
    if shared <= 1 {
        return path.display().to_string();
    }
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    let down = path.components().skip(shared);
    up.chain(down).collect::<PathBuf>().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_words_stand_without_quotes() {
        for (text, expected) in [
            ("negative", "negative"),
            ("models/a-b_1.onnx", "models/a-b_1.onnx"),
            ("../x", "../x"),
            ("no", "\"no\""),
            ("1", "\"1\""),
            ("1e5", "\"1e5\""),
            ("a b", "\"a b\""),
            ("it's: #1", "\"it's: #1\""),
            ("q\"", "\"q\\\"\""),
            ("", "\"\""),
            ("- x", "\"- x\""),
        ] {
            assert_eq!(scalar(text), expected);
        }
    }

    #[test]
    fn paths_are_seen_from_the_profile() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b/c"));
        std::fs::create_dir_all(&a).unwrap();
        std::fs::create_dir_all(&b).unwrap();
        std::fs::write(a.join("m.onnx"), "").unwrap();
        assert_eq!(relative(&a.join("m.onnx"), &b), "../../a/m.onnx");
        assert_eq!(relative(&a.join("m.onnx"), &a), "m.onnx");
    }
}
