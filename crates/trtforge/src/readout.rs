//! Which outputs of a model are read for a task, and what of them belongs to each run, padding left out.

use miette::Diagnostic;
use ndarray::ArrayViewD;
use thiserror::Error;
use trtforge_data::Encoded;
use trtforge_evaluate::Prediction;
use trtforge_exec::{NamedValue, Value};

use crate::error::PipelineError;
use crate::profile::{Pooling, Task, TextEncoders, Vectors};

/// What does not fit between a model's outputs and the task.
#[derive(Debug, Diagnostic, Error)]
pub enum ReadoutError {
    /// The output cannot be told.
    #[error("the model has the outputs {}; which one to read for {kind} cannot be told", outputs.join(", "))]
    #[diagnostic(
        code(check::output),
        help("name it in the profile: `model: {{ output: {example} }}`")
    )]
    Output {
        /// All outputs.
        outputs: Vec<String>,
        /// Of the task.
        kind: &'static str,
        /// What to write.
        example: &'static str,
    },
    /// `model.output` names none.
    #[error("`model.output` is `{wanted}`, which the model does not have; it has {}", outputs.join(", "))]
    #[diagnostic(code(check::unknown_output), help("use one of these names"))]
    UnknownOutput {
        /// As in the profile.
        wanted: String,
        /// All outputs.
        outputs: Vec<String>,
    },
    /// `model.output` names more outputs than the task reads.
    #[error("`model.output` names {count} outputs; {kind} reads {expected}")]
    #[diagnostic(
        code(check::output_count),
        help("name one output, and for question-answering one or two (start before end)")
    )]
    OutputCount {
        /// Named.
        count: usize,
        /// Of the task.
        kind: &'static str,
        /// In words.
        expected: &'static str,
    },
    /// Logits of another width than there are labels.
    #[error(
        "output `{output}` has shape {shape:?} for one row, and the profile names {labels} labels"
    )]
    #[diagnostic(code(check::classes), help("{help}"))]
    Classes {
        /// The output.
        output: String,
        /// Found.
        shape: Vec<usize>,
        /// Names in the profile.
        labels: usize,
        /// What the shape says.
        help: String,
    },
    /// An output of another shape than the task has.
    #[error(
        "output `{output}` has shape {shape:?} for {rows} rows of {length} tokens; {kind} needs {expected}"
    )]
    #[diagnostic(code(check::output_shape), help("{help}"))]
    Shape {
        /// The output.
        output: String,
        /// Found.
        shape: Vec<usize>,
        /// Rows that ran.
        rows: usize,
        /// Tokens they were padded to.
        length: usize,
        /// Of the task.
        kind: &'static str,
        /// In words.
        expected: &'static str,
        /// What to change.
        help: &'static str,
    },
    /// The model has other outputs than the profile's.
    #[error("the model has no output `{output}`; its outputs are {}", outputs.join(", "))]
    #[diagnostic(
        code(check::absent_output),
        help("give a model of the profile's task, with the outputs that its `model.onnx` has")
    )]
    Absent {
        /// What the task reads.
        output: String,
        /// What there is.
        outputs: Vec<String>,
    },
    /// The output is not made of floats.
    #[error("output `{output}` does not hold floating-point values")]
    #[diagnostic(
        code(check::output_type),
        help("export the model's logits or vectors as float output")
    )]
    OutputType {
        /// The output.
        output: String,
    },
}

/// What is read of a model's outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Readout {
    kind: &'static str,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    /// `[batch, width]`
    Logits { output: String, width: usize },
    /// `[batch, tokens, labels]`
    Tokens { output: String, labels: usize },
    /// `[batch, tokens]` each.
    Spans { start: String, end: String },
    /// `[batch, tokens, 2]`
    JoinedSpans { output: String },
    /// `[batch, hidden]`, or `[batch, tokens, hidden]` to be pooled.
    Vectors { output: String, vectors: Vectors },
}

impl Readout {
    /// Chooses the outputs that a task reads.
    ///
    /// - `wanted`: `model.output`; where it is empty the outputs' names or their number must tell.
    pub fn of(task: &Task, wanted: &[String], outputs: &[String]) -> Result<Self, ReadoutError> {
        let kind = task.kind();
        if let Some(unknown) = wanted.iter().find(|name| !outputs.contains(name)) {
            let (wanted, outputs) = (unknown.clone(), outputs.to_vec());
            return Err(ReadoutError::UnknownOutput { wanted, outputs });
        }
        let (most, expected) = match task {
            Task::QuestionAnswering(_) => (2, "one or two"),
            _ => (1, "one"),
        };
        if wanted.len() > most {
            return Err(ReadoutError::OutputCount { count: wanted.len(), kind, expected });
        }
        let one = |usual: &[&str]| match wanted {
            [output] => Ok(output.clone()),
            _ => choose(outputs, usual, kind),
        };
        let logits = ["logits"];
        let what = match task {
            Task::TextClassification { labels } => {
                What::Logits { output: one(&logits)?, width: labels.len() }
            }
            Task::TokenClassification { labels, .. } => {
                What::Tokens { output: one(&logits)?, labels: labels.len() }
            }
            Task::QuestionAnswering(_) => match (wanted, span_outputs(outputs)) {
                ([start, end], _) => What::Spans { start: start.clone(), end: end.clone() },
                ([], Some((start, end))) => What::Spans { start, end },
                _ => What::JoinedSpans { output: one(&logits)? },
            },
            Task::SentenceSimilarity(TextEncoders::Cross) => {
                What::Logits { output: one(&["logits", "score", "scores"])?, width: 1 }
            }
            Task::SentenceSimilarity(TextEncoders::Bi(vectors)) | Task::Embedding(vectors) => {
                What::Vectors { output: one(vector_outputs(vectors.pooling))?, vectors: *vectors }
            }
        };
        Ok(Self { kind, what })
    }

    /// The outputs that are read.
    pub fn outputs(&self) -> Vec<&str> {
        match &self.what {
            What::Logits { output, .. }
            | What::Tokens { output, .. }
            | What::JoinedSpans { output }
            | What::Vectors { output, .. } => vec![output],
            What::Spans { start, end } => vec![start, end],
        }
    }

    /// Whether two models answer a run in another way: another class, another tag of any token, another best start or end. Of scores and
    /// vectors only whether they are finite.
    pub fn changed(&self, before: &Prediction, after: &Prediction) -> bool {
        let (before, after) = (before.logits.as_slice(), after.logits.as_slice());
        let piece = match &self.what {
            What::Logits { width, .. } => *width,
            What::Tokens { labels, .. } => *labels,
            What::Spans { .. } | What::JoinedSpans { .. } => before.len() / 2,
            What::Vectors { .. } => 1,
        };
        let answer = |logits: &[f32]| Prediction { logits: logits.to_vec() }.class();
        let answers = |logits: &[f32]| -> Vec<Option<usize>> {
            logits.chunks(piece.max(1)).map(answer).collect()
        };
        answers(before) != answers(after)
    }

    /// What the outputs of one batch say of each run.
    ///
    /// - `rows`: the runs of the batch; what lies behind their own length is padding and is left out;
    /// - `length`: tokens that they were padded to;
    /// - returns: for each run `[labels]`, `[tokens · labels]`, `[start | end · tokens]` or `[hidden]`.
    pub fn read(
        &self,
        outputs: &[NamedValue],
        rows: &[&Encoded],
        length: usize,
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let batch = Batch { readout: self, outputs, rows, length };
        Ok(match &self.what {
            What::Logits { output, width } => batch.logits(output, *width)?,
            What::Tokens { output, labels } => batch.tokens(output, *labels)?,
            What::Spans { start, end } => batch.spans(start, end)?,
            What::JoinedSpans { output } => batch.joined_spans(output)?,
            What::Vectors { output, vectors } => batch.vectors(output, *vectors)?,
        })
    }
}

/// The only output, or the one with a usual name, with tf2onnx's suffix or without.
fn choose(outputs: &[String], usual: &[&str], kind: &'static str) -> Result<String, ReadoutError> {
    if let [only] = outputs {
        return Ok(only.clone());
    }
    let found = usual.iter().find_map(|name| outputs.iter().find(|output| bare(output) == *name));
    found.cloned().ok_or_else(|| {
        let example = if kind == "question-answering" { "[START, END]" } else { "NAME" };
        ReadoutError::Output { outputs: outputs.to_vec(), kind, example }
    })
}

fn bare(output: &str) -> &str {
    output.strip_suffix(":0").unwrap_or(output)
}

/// Start and end by the names that exporters give them.
fn span_outputs(outputs: &[String]) -> Option<(String, String)> {
    let pairs = [
        ("start_logits", "end_logits"),
        ("output_start_logits", "output_end_logits"),
        ("start", "end"),
        ("start_scores", "end_scores"),
    ];
    let find = |name: &str| outputs.iter().find(|output| bare(output) == name).cloned();
    pairs.into_iter().find_map(|(start, end)| Some((find(start)?, find(end)?)))
}

fn vector_outputs(pooling: Pooling) -> &'static [&'static str] {
    match pooling {
        Pooling::Mean | Pooling::Cls => {
            &["last_hidden_state", "token_embeddings", "hidden_states", "output_0"]
        }
        Pooling::PoolerOutput => &["pooler_output", "pooled_output", "output_1"],
        Pooling::None => &[
            "sentence_embedding",
            "sentence_embeddings",
            "embeddings",
            "embedding",
            "text_embeds",
            "pooler_output",
        ],
    }
}

/// One batch as it came out.
struct Batch<'a> {
    readout: &'a Readout,
    outputs: &'a [NamedValue],
    rows: &'a [&'a Encoded],
    length: usize,
}

impl<'a> Batch<'a> {
    fn array(&self, output: &str) -> Result<ArrayViewD<'a, f32>, ReadoutError> {
        match self.outputs.iter().find(|(name, _)| name == output) {
            Some((_, Value::F32(array))) => Ok(array.view()),
            None => {
                let outputs = self.outputs.iter().map(|(name, _)| name.clone()).collect();
                Err(ReadoutError::Absent { output: output.to_owned(), outputs })
            }
            Some(_) => Err(ReadoutError::OutputType { output: output.to_owned() }),
        }
    }

    fn unfit(
        &self,
        output: &str,
        shape: &[usize],
        expected: &'static str,
        help: &'static str,
    ) -> ReadoutError {
        ReadoutError::Shape {
            output: output.to_owned(),
            shape: shape.to_vec(),
            rows: self.rows.len(),
            length: self.length,
            kind: self.readout.kind,
            expected,
            help,
        }
    }

    fn logits(&self, output: &str, width: usize) -> Result<Vec<Vec<f32>>, ReadoutError> {
        let array = self.array(output)?;
        let (shape, rows) = (array.shape().to_vec(), self.rows.len());
        let one_a_row = width == 1 && shape == [rows];
        if shape != [rows, width] && !one_a_row {
            if self.readout.kind == "sentence-similarity" {
                let help = "a cross-encoder has one logit a pair; for a model that makes a vector of each text write `encoder: bi`";
                return Err(self.unfit(output, &shape, "[batch, 1]", help));
            }
            let output = output.to_owned();
            let help = classes_help(&shape, rows, self.length);
            return Err(ReadoutError::Classes { output, shape, labels: width, help });
        }
        Ok(chunks(&array, width))
    }

    /// The real positions of an output `[batch, tokens, width]`.
    fn positions(
        &self,
        output: &str,
        width: Option<usize>,
        expected: &'static str,
        help: &'static str,
    ) -> Result<(Vec<Vec<f32>>, usize), ReadoutError> {
        let array = self.array(output)?;
        let shape = array.shape();
        let found = match *shape {
            [rows, length, found] if [rows, length] == [self.rows.len(), self.length] => found,
            // One value a position, without an axis of its own.
            [rows, length]
                if width == Some(1) && [rows, length] == [self.rows.len(), self.length] =>
            {
                1
            }
            _ => return Err(self.unfit(output, shape, expected, help)),
        };
        if width.is_some_and(|width| width != found) {
            return Err(self.unfit(output, shape, expected, help));
        }
        let mut runs = chunks(&array, self.length * found);
        for (run, row) in runs.iter_mut().zip(self.rows) {
            run.truncate(row.ids.len() * found);
        }
        Ok((runs, found))
    }

    fn tokens(&self, output: &str, labels: usize) -> Result<Vec<Vec<f32>>, ReadoutError> {
        let expected = "[batch, tokens, labels], one logit for each of `task.labels`";
        let help = "`task.labels` needs one name per logit, in the order of the logits; an output [batch, labels] is of a text-classification model";
        Ok(self.positions(output, Some(labels), expected, help)?.0)
    }

    fn spans(&self, start: &str, end: &str) -> Result<Vec<Vec<f32>>, ReadoutError> {
        let (expected, help) = (
            "[batch, tokens] for the start and for the end",
            "name the two outputs in the profile: `model: { output: [START, END] }`",
        );
        let mut runs = self.positions(start, Some(1), expected, help)?.0;
        let ends = self.positions(end, Some(1), expected, help)?.0;
        for (run, end) in runs.iter_mut().zip(ends) {
            run.extend(end);
        }
        Ok(runs)
    }

    fn joined_spans(&self, output: &str) -> Result<Vec<Vec<f32>>, ReadoutError> {
        let (expected, help) = (
            "[batch, tokens, 2], or two outputs [batch, tokens]",
            "export the model with its question-answering head; two outputs are named as `model: { output: [START, END] }`",
        );
        let (runs, _) = self.positions(output, Some(2), expected, help)?;
        let side = |run: &[f32], side: usize| -> Vec<f32> {
            run.iter().skip(side).step_by(2).copied().collect()
        };
        Ok(runs.iter().map(|run| [side(run, 0), side(run, 1)].concat()).collect())
    }

    fn vectors(&self, output: &str, vectors: Vectors) -> Result<Vec<Vec<f32>>, ReadoutError> {
        let pooled = match vectors.pooling {
            Pooling::PoolerOutput | Pooling::None => {
                let array = self.array(output)?;
                let shape = array.shape();
                match *shape {
                    [rows, hidden] if rows == self.rows.len() && hidden > 0 => {
                        chunks(&array, hidden)
                    }
                    _ => {
                        let help = "a vector for every token is pooled: write `pooling: mean` or `pooling: cls`, as the model was trained";
                        return Err(self.unfit(output, shape, "[batch, hidden]", help));
                    }
                }
            }
            Pooling::Mean | Pooling::Cls => {
                let (expected, help) = (
                    "[batch, tokens, hidden]",
                    "for an output that is one vector a text already write `pooling: none`; an output of logits is of another task",
                );
                let (runs, hidden) = self.positions(output, None, expected, help)?;
                let pool = if vectors.pooling == Pooling::Cls { first } else { mean };
                runs.iter().map(|run| pool(run, hidden)).collect()
            }
        };
        let finish = |vector: Vec<f32>| if vectors.normalize { unit(&vector) } else { vector };
        Ok(pooled.into_iter().map(finish).collect())
    }
}

fn classes_help(shape: &[usize], rows: usize, length: usize) -> String {
    let usual = "`task.labels` needs one name per logit, in the order of the logits; the output must be [batch, labels]";
    match *shape {
        [batch, tokens, 2] if [batch, tokens] == [rows, length] => {
            format!(
                "{usual}. Logits for each token: `kind: question-answering` or `token-classification`?"
            )
        }
        [batch, tokens, _] if [batch, tokens] == [rows, length] => {
            format!("{usual}. Values for each token: `kind: token-classification` or `embedding`?")
        }
        [_, 1] => format!("{usual}. One logit: `kind: sentence-similarity` with `encoder: cross`?"),
        _ => usual.to_owned(),
    }
}

/// The values of an array in pieces of `size`; of none when that is 0.
fn chunks(array: &ArrayViewD<'_, f32>, size: usize) -> Vec<Vec<f32>> {
    let values: Vec<f32> = array.iter().copied().collect();
    values.chunks(size.max(1)).map(<[f32]>::to_vec).collect()
}

fn first(run: &[f32], hidden: usize) -> Vec<f32> {
    run[..hidden.min(run.len())].to_vec()
}

/// The mean over the tokens, summed in double precision in the order of the tokens.
fn mean(run: &[f32], hidden: usize) -> Vec<f32> {
    let tokens = run.len() / hidden.max(1);
    let mut sums = vec![0.0f64; hidden];
    for token in run.chunks_exact(hidden.max(1)) {
        for (sum, &value) in sums.iter_mut().zip(token) {
            *sum += f64::from(value);
        }
    }
    sums.into_iter().map(|sum| (sum / tokens.max(1) as f64) as f32).collect()
}

/// The vector scaled to length 1; one without length stays as it is.
fn unit(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter().map(|&value| (f64::from(value) / length) as f32).collect()
    } else {
        vector.to_vec()
    }
}

#[cfg(test)]
mod tests;
