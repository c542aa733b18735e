//! Rows of a data file as the model runs them, and what is right for each.
//!
//! A *row* is what the data file holds and what is judged; a *run* is one sequence of tokens that goes through the model. A long context
//! is several runs of one row (its windows), and a bi-encoder runs the two texts of a pair apart.

use std::ops::Range;
use std::path::{Path, PathBuf};

use trtforge_data::{
    DataError, Dataset, Encoded, EncodedWords, Fields, Place, QuestionRows, RowError, TextEncoder,
    Unfit, Window, WordRows,
};

use crate::error::PipelineError;
use crate::profile::{CalibrationData, EvaluationData, RowFields, Task, TextEncoders};

/// Runs of one data file, ready to feed.
#[derive(Debug)]
pub struct EncodedRows {
    /// Fingerprint of the file's content as read.
    pub fingerprint: String,
    /// Token ids of each run.
    pub rows: Vec<Encoded>,
    /// Line of each run's row in the file, from 1: for messages.
    pub lines: Vec<usize>,
    /// Number of each run's row among the rows of the file, from 0.
    pub owners: Vec<usize>,
    /// What names each run in a record: its line, or a running number from 1 where a row has several runs or shares its line.
    pub numbers: Vec<u64>,
    /// Runs cut at `max_length`.
    pub truncated: usize,
    /// What a person should know about the data.
    pub notes: Vec<String>,
}

impl EncodedRows {
    /// Tokens of each run.
    pub fn lengths(&self) -> Vec<usize> {
        self.rows.iter().map(|row| row.ids.len()).collect()
    }
}

/// The rows that judge, with what is right.
#[derive(Debug)]
pub struct EvaluationRows {
    /// The task that they judge.
    pub task: Task,
    /// All runs.
    pub runs: EncodedRows,
    /// The runs of each row.
    pub spans: Vec<Range<usize>>,
    /// Line of each row in the file, from 1.
    pub lines: Vec<usize>,
    /// What is right for each row.
    pub gold: Gold,
}

impl EvaluationRows {
    /// Rows.
    pub fn len(&self) -> usize {
        self.spans.len()
    }
}

/// What is right for each row.
#[derive(Debug)]
pub enum Gold {
    /// The class.
    Classes(Vec<usize>),
    /// The judged words: position of the first token, and tag.
    Tags(Vec<Vec<(usize, usize)>>),
    /// The answers.
    Answers(Vec<Question>),
    /// What people say.
    Scores(Vec<f64>),
    /// Nothing but the baseline's vectors.
    Vectors,
}

/// A question as it is judged.
#[derive(Debug)]
pub struct Question {
    /// The text that holds the answer.
    pub context: String,
    /// Every right answer.
    pub answers: Vec<String>,
    /// Where the context's tokens stand, window by window.
    pub windows: Vec<WindowTokens>,
}

/// Where the tokens of one window stand in the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowTokens {
    /// Tokens of the run.
    pub length: usize,
    /// Position of the first token of the context.
    pub context_start: usize,
    /// For each token of the context its characters, from and up to (not including).
    pub offsets: Vec<(u32, u32)>,
}

/// Reads and encodes rows for one task.
pub struct RowReader<'a> {
    /// The tokenizer.
    pub encoder: &'a TextEncoder,
    /// The task.
    pub task: &'a Task,
}

/// Runs of the rows of one file as they are collected.
struct Collected<'a> {
    path: &'a Path,
    runs: Vec<Encoded>,
    spans: Vec<Range<usize>>,
    lines: Vec<usize>,
    notes: Vec<String>,
}

impl<'a> Collected<'a> {
    fn new(path: &'a Path, notes: &[String]) -> Self {
        let (runs, spans, lines, notes) = (Vec::new(), Vec::new(), Vec::new(), notes.to_vec());
        Self { path, runs, spans, lines, notes }
    }

    /// Adds one row.
    fn add(&mut self, line: usize, runs: impl IntoIterator<Item = Encoded>) {
        let start = self.runs.len();
        self.runs.extend(runs);
        self.spans.push(start..self.runs.len());
        self.lines.push(line);
    }

    /// The runs, and for each row its runs and its line.
    fn finish(
        self,
        fingerprint: String,
        longest: usize,
    ) -> (EncodedRows, Vec<Range<usize>>, Vec<usize>) {
        let truncated = self.runs.iter().filter(|row| row.truncated).count();
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut notes: Vec<String> =
            self.notes.iter().map(|note| format!("{name}: {note}")).collect();
        let count = self.runs.len();
        if truncated > 0 {
            notes.push(format!("{name}: {truncated} of {count} rows were cut to {longest} tokens"));
        }
        let run_lines = self.spans.iter().zip(&self.lines);
        let lines: Vec<usize> =
            run_lines.flat_map(|(span, &line)| std::iter::repeat_n(line, span.len())).collect();
        let unique = lines.windows(2).all(|pair| pair[0] < pair[1]);
        let numbers = if unique {
            lines.iter().map(|&line| line as u64).collect()
        } else {
            (1..=count as u64).collect()
        };
        let spans = self.spans.iter().enumerate();
        let owners = spans.flat_map(|(row, span)| std::iter::repeat_n(row, span.len())).collect();
        let rows = self.runs;
        let runs = EncodedRows { fingerprint, rows, lines, owners, numbers, truncated, notes };
        (runs, self.spans, self.lines)
    }
}

impl RowReader<'_> {
    /// Reads and encodes the calibration file. What is right is not asked for.
    pub fn calibration(&self, data: &CalibrationData) -> Result<EncodedRows, PipelineError> {
        let longest = self.encoder.max_length();
        let (rows, fingerprint, _) = self.read(&data.path, &data.fields, false)?;
        Ok(rows.finish(fingerprint, longest).0)
    }

    /// Reads and encodes the evaluation file, every row with what is right.
    pub fn evaluation(&self, data: &EvaluationData) -> Result<EvaluationRows, PipelineError> {
        let longest = self.encoder.max_length();
        let (rows, fingerprint, gold) = self.read(&data.path, &data.fields, true)?;
        let (runs, spans, lines) = rows.finish(fingerprint, longest);
        Ok(EvaluationRows { task: self.task.clone(), runs, spans, lines, gold })
    }

    fn read<'p>(
        &self,
        path: &'p Path,
        fields: &RowFields,
        judged: bool,
    ) -> Result<(Collected<'p>, String, Gold), PipelineError> {
        match (self.task, fields) {
            (Task::TokenClassification { labels, .. }, RowFields::Words(fields)) => {
                let data = WordRows::load(path, fields, labels)?;
                let (rows, gold) = self.words(path, &data)?;
                Ok((rows, data.fingerprint, gold))
            }
            (Task::QuestionAnswering(rules), RowFields::Questions(fields)) => {
                let data = QuestionRows::load(path, fields, rules.no_answer || !judged)?;
                let fingerprint = derived(&data.fingerprint, &format!("stride {}", rules.stride));
                let (rows, gold) = self.questions(path, data, rules.stride, judged)?;
                Ok((rows, fingerprint, gold))
            }
            (_, RowFields::Texts(fields)) => self.texts(path, fields, judged),
            (task, _) => unreachable!("the profile reads {} with other fields", task.kind()),
        }
    }

    fn texts<'p>(
        &self,
        path: &'p Path,
        fields: &Fields,
        judged: bool,
    ) -> Result<(Collected<'p>, String, Gold), PipelineError> {
        let labels = match self.task {
            Task::TextClassification { labels } => Some(labels.as_slice()),
            _ => None,
        };
        let require_labels = judged && labels.is_some();
        let data = Dataset::load(path, fields, labels, require_labels)?;
        let mut rows = Collected::new(path, &data.notes);
        let apart = matches!(self.task, Task::SentenceSimilarity(TextEncoders::Bi(_)));
        let pair = |row: &'_ usize| data.rows[*row].text_pair.as_deref();
        let mut texts: Vec<(&str, Option<&str>)> = Vec::with_capacity(data.rows.len());
        let mut counts = Vec::with_capacity(data.rows.len());
        for (index, row) in data.rows.iter().enumerate() {
            match pair(&index) {
                Some(other) if apart => texts.extend([(row.text.as_str(), None), (other, None)]),
                other => texts.push((row.text.as_str(), other)),
            }
            counts.push(texts.len());
        }
        let mut encoded = self.encoder.encode_all(&texts)?.into_iter();
        let mut before = 0;
        for (row, end) in data.rows.iter().zip(counts) {
            rows.add(row.line, encoded.by_ref().take(end - before));
            before = end;
        }
        let gold = match self.task {
            Task::TextClassification { .. } => {
                Gold::Classes(data.rows.iter().map(|row| row.label.unwrap_or_default()).collect())
            }
            Task::SentenceSimilarity(_) => {
                Gold::Scores(data.rows.iter().map(|row| row.score.unwrap_or_default()).collect())
            }
            _ => Gold::Vectors,
        };
        let fingerprint =
            if apart { derived(&data.fingerprint, "apart") } else { data.fingerprint };
        Ok((rows, fingerprint, gold))
    }

    fn words<'p>(
        &self,
        path: &'p Path,
        data: &WordRows,
    ) -> Result<(Collected<'p>, Gold), PipelineError> {
        let words: Vec<&[String]> = data.rows.iter().map(|row| row.words.as_slice()).collect();
        let encoded = self.encoder.encode_words(&words)?;
        let mut rows = Collected::new(path, &data.notes);
        rows.notes.extend(lost_words(&encoded));
        let mut gold = Vec::with_capacity(data.rows.len());
        for (row, encoded) in data.rows.iter().zip(encoded) {
            let judged = encoded.first.iter().zip(&row.tags);
            gold.push(judged.filter_map(|(&first, &tag)| Some((first?, tag?))).collect());
            rows.add(row.line, [encoded.encoded]);
        }
        Ok((rows, Gold::Tags(gold)))
    }

    fn questions<'p>(
        &self,
        path: &'p Path,
        data: QuestionRows,
        stride: usize,
        judged: bool,
    ) -> Result<(Collected<'p>, Gold), PipelineError> {
        let mut rows = Collected::new(path, &data.notes);
        let mut gold = Vec::new();
        let texts: Vec<(&str, &str)> =
            data.rows.iter().map(|row| (row.question.as_str(), row.context.as_str())).collect();
        let longest = self.encoder.max_length();
        let windows = self.encoder.encode_windows(&texts, stride)?;
        let windows =
            windows.map_err(|u| unfit(path, data.rows[u.row].line, &u, longest, stride))?;
        let split = windows.iter().filter(|windows| windows.len() > 1).count();
        if split > 0 {
            let count: usize = windows.iter().map(Vec::len).sum();
            rows.notes.push(format!(
                "{split} of {} contexts are longer than a window; there are {count} windows",
                windows.len()
            ));
        }
        for (row, windows) in data.rows.into_iter().zip(windows) {
            let (runs, tokens): (Vec<_>, Vec<_>) = windows.into_iter().map(split_window).unzip();
            rows.add(row.line, runs);
            if judged {
                let (context, answers) = (row.context, row.answers);
                gold.push(Question { context, answers, windows: tokens });
            }
        }
        Ok((rows, Gold::Answers(gold)))
    }
}

/// The fingerprint of rows that run in another way than they are written.
pub fn derived(fingerprint: &str, how: &str) -> String {
    blake3::hash(format!("{fingerprint} {how}").as_bytes()).to_hex().to_string()
}

/// A question that leaves no room for its context.
pub fn unfit(
    path: &Path,
    line: usize,
    unfit: &Unfit,
    max_length: usize,
    stride: usize,
) -> DataError {
    let place = Place { path: PathBuf::from(path), line };
    let Unfit { question, window, .. } = *unfit;
    RowError::Window { place, question, max_length, window, stride }.into()
}

fn split_window(window: Window) -> (Encoded, WindowTokens) {
    let Window { encoded, context_start, offsets } = window;
    let length = encoded.ids.len();
    (encoded, WindowTokens { length, context_start, offsets })
}

/// Words that no token stands for, which therefore cannot be judged.
fn lost_words(rows: &[EncodedWords]) -> Vec<String> {
    let all: usize = rows.iter().map(|row| row.first.len()).sum();
    let beyond: usize = rows.iter().map(|row| row.beyond).sum();
    let none = rows.iter().flat_map(|row| &row.first).filter(|first| first.is_none()).count();
    let mut notes = Vec::new();
    if beyond > 0 {
        notes.push(format!("{beyond} of {all} words lie beyond `max_length`; they are not judged"));
    }
    if none > beyond {
        notes.push(format!(
            "{} of {all} words give no token (nothing visible in them); they are not judged",
            none - beyond
        ));
    }
    notes
}
