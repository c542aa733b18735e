//! Tokens of words, and windows over contexts longer than a row.

use tokenizers::{EncodeInput, Encoding, InputSequence, TruncationDirection};

use crate::encode::{Encoded, TextEncoder, encoded, failed, special_tokens};
use crate::error::DataError;

/// Rows given to the tokenizer at once, as in [`crate::encode`].
const CHUNK_ROWS: usize = 64;

/// The tokens of a row of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedWords {
    /// The tokens.
    pub encoded: Encoded,
    /// For each word the position of its first token; `None` for a word that gave no token or lies beyond the maximum length.
    pub first: Vec<Option<usize>>,
    /// Words beyond the maximum length; they are the last ones.
    pub beyond: usize,
}

/// A question with as much of its context as a row takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The tokens.
    pub encoded: Encoded,
    /// Position of the first token of the context.
    pub context_start: usize,
    /// For each token of the context the characters (code points) of the context that it stands for, from and up to (not including).
    pub offsets: Vec<(u32, u32)>,
}

/// Why a question cannot be cut into windows.
#[derive(Debug)]
pub struct Unfit {
    /// Position in the slice that was given.
    pub row: usize,
    /// Tokens of the question.
    pub question: usize,
    /// Tokens left for the context.
    pub window: usize,
}

impl TextEncoder {
    /// Encodes rows of words on all cores, in order. Each word is cut into tokens by itself.
    pub fn encode_words(&self, rows: &[&[String]]) -> Result<Vec<EncodedWords>, DataError> {
        let mut all = Vec::with_capacity(rows.len());
        for chunk in rows.chunks(CHUNK_ROWS) {
            let inputs: Vec<EncodeInput<'_>> = chunk
                .iter()
                .map(|words| {
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    EncodeInput::Single(InputSequence::from(words))
                })
                .collect();
            let encodings = self.tokenizer().encode_batch(inputs, true);
            let encodings = encodings.map_err(|error| failed(all.len(), &error))?;
            all.extend(
                encodings.iter().zip(chunk).map(|(encoding, words)| aligned(encoding, words.len())),
            );
        }
        Ok(all)
    }

    /// Encodes questions with their contexts on all cores, each as one window or more.
    ///
    /// - `rows`: question and context;
    /// - `stride`: tokens of the context that consecutive windows share;
    /// - returns: the windows of each row, from the context's head to its tail; the first question whose windows would not be longer than
    ///   what they share.
    pub fn encode_windows(
        &self,
        rows: &[(&str, &str)],
        stride: usize,
    ) -> Result<Result<Vec<Vec<Window>>, Unfit>, DataError> {
        let mut whole = self.tokenizer().clone();
        // With a maximum length set, the library (0.23.2) stops at it before it cuts windows, and the rest of the context is lost.
        whole.with_truncation(None).map_err(|error| failed(0, &error))?;
        let room = self.max_length().saturating_sub(special_tokens(&whole, true));
        let mut all = Vec::with_capacity(rows.len());
        for chunk in rows.chunks(CHUNK_ROWS) {
            let encode = |texts: Vec<&str>| whole.encode_batch_char_offsets(texts, false);
            let questions = encode(chunk.iter().map(|&(question, _)| question).collect());
            let contexts = encode(chunk.iter().map(|&(_, context)| context).collect());
            let (questions, contexts) = questions
                .and_then(|questions| Ok((questions, contexts?)))
                .map_err(|error| failed(all.len(), &error))?;
            for (question, mut context) in questions.into_iter().zip(contexts) {
                let row = all.len();
                let window = room.saturating_sub(question.get_ids().len());
                // The library stops the process where a window would not be longer than what it shares.
                if window <= stride {
                    let question = question.get_ids().len();
                    return Ok(Err(Unfit { row, question, window }));
                }
                context.set_type_ids(vec![1; context.len()]);
                context.truncate(window, stride, TruncationDirection::Right);
                let joined = whole.post_process(question, Some(context), true);
                all.push(windows(&joined.map_err(|error| failed(row, &error))?));
            }
        }
        Ok(Ok(all))
    }
}

fn aligned(encoding: &Encoding, words: usize) -> EncodedWords {
    let mut first = vec![None; words];
    let mut last = None;
    for (position, word) in encoding.get_word_ids().iter().enumerate() {
        let Some(word) = word.map(|word| word as usize) else { continue };
        // Words have tokens in order, so the last one seen is the last one kept.
        last = Some(word);
        if let Some(slot @ None) = first.get_mut(word) {
            *slot = Some(position);
        }
    }
    let cut = !encoding.get_overflowing().is_empty();
    let beyond = if cut { words - last.map_or(0, |last| last + 1) } else { 0 };
    EncodedWords { encoded: encoded(encoding), first, beyond }
}

fn windows(encoding: &Encoding) -> Vec<Window> {
    std::iter::once(encoding).chain(encoding.get_overflowing()).map(window).collect()
}

fn window(encoding: &Encoding) -> Window {
    let sequence = encoding.get_sequence_ids();
    let is_context = |position: &usize| sequence[*position] == Some(1);
    let context: Vec<usize> = (0..sequence.len()).filter(is_context).collect();
    let offset = |&position: &usize| {
        let (from, to) = encoding.get_offsets()[position];
        (from as u32, to as u32)
    };
    Window {
        encoded: Encoded {
            ids: encoding.get_ids().to_vec(),
            type_ids: encoding.get_type_ids().to_vec(),
            // Nothing is lost: the next window goes on.
            truncated: false,
        },
        context_start: context.first().copied().unwrap_or(0),
        offsets: context.iter().map(offset).collect(),
    }
}
