//! A BERT tokenizer from `vocab.txt`: one token a line, its id is the line's number.

use std::path::Path;

use serde_json::{Value, json};
use tokenizers::Tokenizer;

use crate::error::{DataError, Place};

/// What a `vocab.txt` leaves to its neighbours to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Casing {
    pub lowercase: bool,
    pub strip_accents: Option<bool>,
    pub chinese: bool,
    /// No neighbour said it: taken from the vocabulary.
    pub guessed: bool,
}

/// Builds the tokenizer of a vocabulary, with BERT's normalizer, WordPiece and `[CLS] … [SEP]`.
pub(crate) fn tokenizer(path: &Path, bytes: &[u8]) -> Result<(Tokenizer, Casing), DataError> {
    let tokens = tokens(path, bytes)?;
    let id = |token: &str| tokens.iter().rposition(|known| known == token);
    let missing: Vec<String> = ["[UNK]", "[CLS]", "[SEP]"]
        .into_iter()
        .filter(|token| id(token).is_none())
        .map(str::to_owned)
        .collect();
    let (Some(cls), Some(sep)) = (id("[CLS]"), id("[SEP]")) else {
        return Err(DataError::SpecialTokens { path: path.to_owned(), missing });
    };
    if !missing.is_empty() {
        return Err(DataError::SpecialTokens { path: path.to_owned(), missing });
    }
    let casing = casing(path, &tokens);
    let special: Vec<Value> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        .into_iter()
        .filter_map(|token| id(token).map(|id| added_token(id, token)))
        .collect();
    let vocabulary: serde_json::Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    let description = json!({
        "version": "1.0",
        "added_tokens": special,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": casing.chinese,
            "strip_accents": casing.strip_accents, "lowercase": casing.lowercase,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "BertProcessing", "sep": ["[SEP]", sep], "cls": ["[CLS]", cls] },
        "decoder": null,
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary,
        },
    });
    let tokenizer = Tokenizer::from_bytes(description.to_string()).map_err(|error| {
        DataError::Tokenizer { path: path.to_owned(), message: error.to_string() }
    })?;
    Ok((tokenizer, casing))
}

fn added_token(id: usize, token: &str) -> Value {
    json!({
        "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true,
    })
}

/// The tokens by id; a byte-order mark and CR before the line end belong to the file, not to a token.
fn tokens(path: &Path, bytes: &[u8]) -> Result<Vec<String>, DataError> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let token = |(index, line): (usize, &[u8])| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        std::str::from_utf8(line).map(str::to_owned).map_err(|error| DataError::NotUtf8 {
            place: Place::new(path, index + 1),
            column: error.valid_up_to() + 1,
        })
    };
    bytes.split(|&byte| byte == b'\n').enumerate().map(token).collect()
}

/// How to treat letter case: `tokenizer_config.json` or `config.json` beside the vocabulary say it, or else the vocabulary itself, since one
/// with capital letters in its words is of a cased model.
fn casing(path: &Path, tokens: &[String]) -> Casing {
    let neighbour = |name: &str| -> Value {
        let read = std::fs::read(path.with_file_name(name)).unwrap_or_default();
        serde_json::from_slice(read.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&read))
            .unwrap_or_default()
    };
    let files = [neighbour("tokenizer_config.json"), neighbour("config.json")];
    let flag = |key: &str| files.iter().find_map(|file| file.get(key)?.as_bool());
    let declared = flag("do_lower_case");
    let has_capitals =
        tokens.iter().any(|token| !token.starts_with('[') && token.chars().any(char::is_uppercase));
    Casing {
        lowercase: declared.unwrap_or(!has_capitals),
        strip_accents: flag("strip_accents"),
        chinese: flag("tokenize_chinese_chars").unwrap_or(true),
        guessed: declared.is_none(),
    }
}
