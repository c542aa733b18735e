//! `data:`: which fields of which files hold what; the fields depend on the task.

use std::path::{Path, PathBuf};

use trtforge_data::{Fields, QuestionFields, SampleStrategy, WordFields};

use super::decode::{Mistakes, Section};
use super::read::optional;
use super::task::{Task, TextEncoders};
use super::tree::Node;

/// Which fields of a data file are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowFields {
    /// A text or two.
    Texts(Fields),
    /// Words and their tags.
    Words(WordFields),
    /// Questions, contexts, answers.
    Questions(QuestionFields),
}

/// `data.calibration:`
#[derive(Debug, Clone)]
pub struct CalibrationData {
    /// The file.
    pub path: PathBuf,
    /// Its fields.
    pub fields: RowFields,
    /// Rows to sample.
    pub samples: usize,
    /// Of the sampler.
    pub seed: u64,
    /// How rows are chosen.
    pub strategy: SampleStrategy,
}

/// `data.evaluation:`
#[derive(Debug, Clone)]
pub struct EvaluationData {
    /// The file.
    pub path: PathBuf,
    /// Its fields, with what is right.
    pub fields: RowFields,
}

/// Reads `data:`; its fields depend on the task.
pub fn read_data(
    top: &Section<'_>,
    task: Option<&Task>,
    folder: &Path,
    mistakes: &Mistakes<'_>,
) -> Option<(CalibrationData, EvaluationData)> {
    let node = top.require("data", "write `data: { calibration: {…}, evaluation: {…} }`")?;
    let data = Section::open(node, "data", &["calibration", "evaluation"], mistakes)?;
    let calibration = data
        .require(
            "calibration",
            "write `calibration: { path: train.jsonl, text: text, samples: 512 }`",
        )
        .and_then(|node| read_calibration_data(node, task, folder, mistakes));
    let evaluation = data
        .require("evaluation", "write `evaluation: { path: test.jsonl, text: text, label: label }`")
        .and_then(|node| read_evaluation_data(node, task, folder, mistakes));
    Some((calibration?, evaluation?))
}

/// The keys that name fields: those to calibrate on, and the one with what is right.
fn field_keys(task: &Task) -> (&'static [&'static str], Option<&'static str>) {
    match task {
        Task::TextClassification { .. } => (&["text", "text_pair"], Some("label")),
        Task::TokenClassification { .. } => (&["tokens"], Some("tags")),
        Task::QuestionAnswering(_) => (&["question", "context"], Some("answers")),
        Task::SentenceSimilarity(_) => (&["text", "text_pair"], Some("score")),
        Task::Embedding(_) => (&["text"], None),
    }
}

/// All keys of a data section. Without a task every field's key is let through: the mistake is elsewhere.
fn data_keys(task: Option<&Task>, own: &[&'static str], with_gold: bool) -> Vec<&'static str> {
    let mut keys = own.to_vec();
    match task {
        Some(task) => {
            let (fields, gold) = field_keys(task);
            keys.extend(fields);
            keys.extend(gold.filter(|_| with_gold));
        }
        None => keys.extend([
            "text",
            "text_pair",
            "label",
            "tokens",
            "tags",
            "question",
            "context",
            "answers",
            "score",
        ]),
    }
    keys
}

/// Which fields are read: as named, or by their usual names.
fn read_fields(data: &Section<'_>, task: &Task, with_gold: bool) -> Option<RowFields> {
    let name = |key: &str, usual: &str| optional(data, key, |d| d.text(key), usual.to_owned());
    let gold = |key: &str, usual: &str| {
        if with_gold { name(key, usual).map(Some) } else { Some(None) }
    };
    Some(match task {
        Task::TextClassification { .. } => RowFields::Texts(Fields {
            text: name("text", "text")?,
            text_pair: data.text("text_pair"),
            label: gold("label", "label")?,
            score: None,
        }),
        Task::TokenClassification { .. } => RowFields::Words(WordFields {
            words: name("tokens", "tokens")?,
            tags: gold("tags", "ner_tags")?,
        }),
        Task::QuestionAnswering(_) => RowFields::Questions(QuestionFields {
            question: name("question", "question")?,
            context: name("context", "context")?,
            answers: gold("answers", "answers")?,
        }),
        Task::SentenceSimilarity(encoders) => {
            // A bi-encoder calibrates on single texts as well.
            let single = matches!(encoders, TextEncoders::Bi(_)) && !with_gold;
            let pair =
                if single { data.text("text_pair") } else { Some(name("text_pair", "text_pair")?) };
            let (text, score) = (name("text", "text")?, gold("score", "score")?);
            RowFields::Texts(Fields { text, text_pair: pair, label: None, score })
        }
        Task::Embedding(_) => RowFields::Texts(Fields::text(name("text", "text")?)),
    })
}

fn read_calibration_data(
    node: &Node,
    task: Option<&Task>,
    folder: &Path,
    mistakes: &Mistakes<'_>,
) -> Option<CalibrationData> {
    let known = data_keys(task, &["path", "samples", "seed", "strategy"], false);
    let data = Section::open(node, "data.calibration", &known, mistakes)?;
    let path = data.require_text("path", "a .jsonl, .csv, .tsv or .parquet file");
    let strategies = [
        ("length-stratified", SampleStrategy::LengthStratified),
        ("random", SampleStrategy::Random),
        ("first", SampleStrategy::First),
    ];
    let samples = optional(&data, "samples", |d| d.integer("samples", 1..=100_000_000), 512);
    let seed = optional(&data, "seed", |d| d.integer("seed", 0..=i64::MAX), 17);
    let strategy = optional(
        &data,
        "strategy",
        |d| d.choice("strategy", &strategies),
        SampleStrategy::LengthStratified,
    );
    Some(CalibrationData {
        path: folder.join(path?),
        fields: read_fields(&data, task?, false)?,
        samples: samples? as usize,
        seed: seed? as u64,
        strategy: strategy?,
    })
}

fn read_evaluation_data(
    node: &Node,
    task: Option<&Task>,
    folder: &Path,
    mistakes: &Mistakes<'_>,
) -> Option<EvaluationData> {
    let known = data_keys(task, &["path"], true);
    let data = Section::open(node, "data.evaluation", &known, mistakes)?;
    let path = data.require_text("path", "a .jsonl, .csv, .tsv or .parquet file with labels");
    Some(EvaluationData { path: folder.join(path?), fields: read_fields(&data, task?, true)? })
}
