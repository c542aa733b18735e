//! From texts to token ids.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::{EncodeInput, Encoding, PostProcessor, Tokenizer, TruncationParams};

use crate::error::DataError;
use crate::vocabulary;

/// Rows given to the tokenizer at once: enough to keep the cores busy, few enough to forget its large intermediate results soon.
const CHUNK_ROWS: usize = 64;

/// The token ids of one row, without padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids, special tokens included.
    pub ids: Vec<u32>,
    /// 0 for the first text, 1 for the second; as long as `ids`.
    pub type_ids: Vec<u32>,
    /// Whether the text was longer than the maximum and was cut.
    pub truncated: bool,
}

/// A tokenizer with the run's maximum length.
#[derive(Debug, Clone)]
pub struct TextEncoder {
    tokenizer: Tokenizer,
    max_length: usize,
    pad_id: u32,
    max_id: u32,
    fingerprint: String,
    notes: Vec<String>,
}

impl TextEncoder {
    /// Opens a `tokenizer.json` (by its extension), a WordPiece `vocab.txt`, or a folder that holds one of them.
    ///
    /// - `max_length`: tokens of a row at most, special tokens included. Padding and truncation settings inside the file are ignored: the
    ///   run decides.
    ///
    /// Beside a `vocab.txt`, `tokenizer_config.json` or `config.json` says whether to lower-case.
    pub fn open(path: &Path, max_length: usize) -> Result<Self, DataError> {
        let path = &file_of(path);
        let bytes =
            std::fs::read(path).map_err(|source| DataError::Read { path: path.clone(), source })?;
        let mut notes = Vec::new();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes);
        let mut tokenizer = if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) {
            from_json(path, &bytes, &mut notes)?
        } else {
            let (tokenizer, casing) = vocabulary::tokenizer(path, &bytes)?;
            hasher.update(
                format!("{:?}", (casing.lowercase, casing.strip_accents, casing.chinese))
                    .as_bytes(),
            );
            if casing.guessed {
                let kind = if casing.lowercase { "lower-cased" } else { "case kept" };
                notes.push(format!(
                    "no `do_lower_case` beside the vocabulary; by its tokens: {kind}"
                ));
            }
            tokenizer
        };
        hasher.update(&(max_length as u64).to_le_bytes());
        let pad_id = pad_id(&tokenizer);
        let special = special_tokens(&tokenizer, false);
        if max_length <= special {
            return Err(DataError::MaxLength { max_length, special });
        }
        tokenizer.with_padding(None);
        let truncation = TruncationParams { max_length, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(|error| unusable(path, &error))?;
        let max_id = tokenizer.get_vocab(true).values().copied().max().unwrap_or(0);
        let fingerprint = hasher.finalize().to_hex().to_string();
        let encoder = Self { tokenizer, max_length, pad_id, max_id, fingerprint, notes };
        encoder.probe(path)?;
        Ok(encoder)
    }

    /// Encodes one row.
    pub fn encode(&self, text: &str, pair: Option<&str>) -> Result<Encoded, DataError> {
        self.check_pair(pair.is_some())?;
        let encoding = self.tokenizer.encode_fast(self.input(text, pair), true);
        encoding.map(|encoding| encoded(&encoding)).map_err(|error| failed(0, &error))
    }

    /// Encodes rows on all cores, in order.
    pub fn encode_all(&self, rows: &[(&str, Option<&str>)]) -> Result<Vec<Encoded>, DataError> {
        self.check_pair(rows.iter().any(|(_, pair)| pair.is_some()))?;
        let mut all = Vec::with_capacity(rows.len());
        for chunk in rows.chunks(CHUNK_ROWS) {
            let inputs: Vec<EncodeInput<'_>> =
                chunk.iter().map(|&(text, pair)| self.input(text, pair)).collect();
            let encodings = match self.tokenizer.encode_batch_fast(inputs, true) {
                Ok(encodings) => encodings,
                Err(error) => return Err(self.first_failure(chunk, all.len(), &error)),
            };
            all.extend(encodings.iter().map(encoded));
        }
        Ok(all)
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    /// The largest id that a text can get: the model's word embedding needs more rows than this.
    pub fn max_id(&self) -> u32 {
        self.max_id
    }

    /// The id that fills rows up; 0 where the tokenizer names none.
    pub fn pad_id(&self) -> u32 {
        self.pad_id
    }

    /// Tokens of a row at most.
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// BLAKE3 (hex) of everything that decides the ids: the file, the case rules and the maximum length.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// What a person should know about the tokenizer, in words.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The tokenizer, cutting at the maximum length.
    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn check_pair(&self, pair: bool) -> Result<(), DataError> {
        let special = special_tokens(&self.tokenizer, pair);
        if self.max_length > special {
            return Ok(());
        }
        Err(DataError::MaxLength { max_length: self.max_length, special })
    }

    /// The tokenizer's input; of a long text only a head that is certain to be longer than the maximum, so that a document costs no more
    /// than the part of it that is used.
    fn input<'t>(&self, text: &'t str, pair: Option<&'t str>) -> EncodeInput<'t> {
        // A word gives a token or more; the factor leaves room for tokens that a vocabulary adds for several words.
        let words = 4 * (self.max_length + 1);
        match pair {
            Some(pair) => (head(text, words), head(pair, words)).into(),
            None => head(text, words).into(),
        }
    }

    /// The batch doesn't say which row failed, so this looks for it.
    fn first_failure(
        &self,
        rows: &[(&str, Option<&str>)],
        before: usize,
        error: &tokenizers::Error,
    ) -> DataError {
        let fails = |&(text, pair): &(&str, Option<&str>)| self.encode(text, pair).is_err();
        failed(before + rows.iter().position(fails).unwrap_or(0), error)
    }

    /// Encodes a word and a character that no vocabulary has, so that a broken file fails here and not at row 40,000.
    fn probe(&self, path: &Path) -> Result<(), DataError> {
        let probe = self.tokenizer.encode_fast("a \u{F8FFF}", true);
        probe.map(|_| ()).map_err(|error| unusable(path, &error))
    }
}

fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        let json = path.join("tokenizer.json");
        return if json.exists() { json } else { path.join("vocab.txt") };
    }
    path.to_owned()
}

fn from_json(path: &Path, bytes: &[u8], notes: &mut Vec<String>) -> Result<Tokenizer, DataError> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| unusable(path, &error))?;
    // The library reads such a file and then panics on the first row.
    if let Some(token) = serde_json::from_slice::<Value>(bytes)
        .ok()
        .and_then(|file| undefined_special_token(&file["post_processor"]))
    {
        let message = format!("its post_processor uses the undefined special token `{token}`");
        return Err(DataError::Tokenizer { path: path.to_owned(), message });
    }
    if let Some(truncation) = tokenizer.get_truncation() {
        notes.push(format!(
            "the tokenizer file's own truncation to {} tokens is ignored",
            truncation.max_length
        ));
    }
    if tokenizer.get_padding().is_some() {
        notes.push("the tokenizer file's own padding is ignored".to_owned());
    }
    if special_tokens(&tokenizer, false) == 0 {
        notes.push("the tokenizer adds no special tokens such as [CLS] and [SEP]".to_owned());
    }
    Ok(tokenizer)
}

/// The first special token that a template (also one in a sequence of processors) uses without defining it.
fn undefined_special_token(processor: &Value) -> Option<String> {
    let list = |key: &str| processor[key].as_array().into_iter().flatten();
    let undefined = |piece: &Value| {
        let token = piece["SpecialToken"]["id"].as_str()?;
        processor["special_tokens"].get(token).is_none().then(|| token.to_owned())
    };
    list("single")
        .chain(list("pair"))
        .find_map(undefined)
        .or_else(|| list("processors").find_map(undefined_special_token))
}

fn pad_id(tokenizer: &Tokenizer) -> u32 {
    let declared = tokenizer.get_padding().map(|padding| padding.pad_id);
    let named = || ["[PAD]", "<pad>"].iter().find_map(|token| tokenizer.token_to_id(token));
    declared.or_else(named).unwrap_or(0)
}

pub(crate) fn special_tokens(tokenizer: &Tokenizer, pair: bool) -> usize {
    tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(pair))
}

/// The text up to the end of its first `words` words, of those that hold an ASCII letter or digit and so never vanish in normalization.
fn head(text: &str, words: usize) -> &str {
    // A word and its space are two bytes at least.
    if text.len() < 2 * words {
        return text;
    }
    let (mut seen, mut inside) = (0, false);
    for (index, byte) in text.bytes().enumerate() {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            inside = false;
            if seen == words {
                return &text[..index];
            }
        } else if byte.is_ascii_alphanumeric() && !inside {
            inside = true;
            seen += 1;
        }
    }
    text
}

pub(crate) fn encoded(encoding: &Encoding) -> Encoded {
    Encoded {
        ids: encoding.get_ids().to_vec(),
        type_ids: encoding.get_type_ids().to_vec(),
        truncated: !encoding.get_overflowing().is_empty(),
    }
}

fn unusable(path: &Path, error: &tokenizers::Error) -> DataError {
    DataError::Tokenizer { path: path.to_owned(), message: error.to_string() }
}

pub(crate) fn failed(row: usize, error: &tokenizers::Error) -> DataError {
    DataError::Encode { row, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_end_behind_whole_words() {
        assert_eq!(head("one two three four", 2), "one two");
        assert_eq!(head("one, – two\n\nthree four", 2), "one, – two");
        assert_eq!(head("one two", 2), "one two");
        assert_eq!(head("好 好 好 好 one two three", 2), "好 好 好 好 one two");
        assert_eq!(head(&"x".repeat(100), 2).len(), 100);
        assert_eq!(head("", 2), "");
    }
}
