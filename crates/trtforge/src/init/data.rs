//! Which file calibrates, which judges, and which fields hold what.

use std::path::{Path, PathBuf};

use trtforge_data::{FieldKind, FieldSummary, describe_fields};

use super::InitError;
use super::model::Kind;
use crate::error::PipelineError;

/// A data file with its fields.
#[derive(Debug, Clone)]
pub struct DataFile {
    /// Where it lies.
    pub path: PathBuf,
    /// In the order of the file.
    pub fields: Vec<FieldSummary>,
    /// How many.
    pub rows: usize,
}

impl DataFile {
    /// Reads it once.
    pub fn open(path: &Path) -> Result<DataFile, PipelineError> {
        let (fields, rows) = describe_fields(path)?;
        if rows == 0 || fields.is_empty() {
            return Err(InitError::NoRows { path: path.display().to_string() }.into());
        }
        Ok(DataFile { path: path.to_owned(), fields, rows })
    }

    /// Whether a field looks like what is right for each row, of whatever task.
    fn is_labelled(&self) -> bool {
        let fields = &self.fields;
        let filled = |field: &FieldSummary| field.kind != FieldKind::Empty;
        let listed = |field: &FieldSummary| field.kind == FieldKind::List;
        [&LABELS[..], &SCORES, &ANSWERS].iter().any(|names| named(fields, names, filled).is_some())
            || named(fields, &TAGS, listed).is_some()
    }

    fn is_called(&self, words: &[&str]) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        words.iter().any(|word| name.contains(word))
    }
}

/// The file that calibrates and the one that judges, of two at most: see [`judge`].
pub fn roles(
    mut files: Vec<DataFile>,
    todo: &mut Vec<String>,
) -> (Option<DataFile>, Option<DataFile>) {
    match files.len() {
        0 => {
            todo.push(
                "no data was given: name the files of data.calibration and data.evaluation"
                    .to_owned(),
            );
            (None, None)
        }
        1 => {
            todo.push(
                "one file calibrates and judges, which flatters INT8: give data.calibration rows of its own"
                    .to_owned(),
            );
            (files.first().cloned(), files.pop())
        }
        _ => {
            let judge = judge(&files, todo);
            let evaluation = files.remove(judge);
            (Some(files.remove(0)), Some(evaluation))
        }
    }
}

/// Which of two files judges: the only one with right answers, else the one whose name says so, else the second.
fn judge(files: &[DataFile], todo: &mut Vec<String>) -> usize {
    let only = |is: &dyn Fn(&DataFile) -> bool| match (is(&files[0]), is(&files[1])) {
        (true, false) => Some(0),
        (false, true) => Some(1),
        _ => None,
    };
    let judges = only(&|file| file.is_called(&["test", "eval", "dev", "valid"]));
    let calibrates =
        only(&|file| file.is_called(&["calib"])).or(only(&|file| file.is_called(&["train"])));
    let named = judges.or(calibrates.map(|file| 1 - file)).unwrap_or(1);
    let Some(labelled) = only(&DataFile::is_labelled) else { return named };
    if labelled != named {
        todo.push(format!(
            "`{}` judges, since `{}` has no right answers: check that they are not mixed up",
            files[labelled].path.display(),
            files[1 - labelled].path.display()
        ));
    }
    labelled
}

/// The fields of a task.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// `text`, or of question answering `question`.
    pub text: Option<String>,
    /// `text_pair`, or of question answering `context`.
    pub pair: Option<String>,
    /// `label`, `score`, `tags` or `answers`.
    pub gold: Option<String>,
    /// Those that are not used, with what they hold.
    pub others: Vec<String>,
}

const PAIRS: [(&str, &str); 8] = [
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text", "text_pair"),
    ("text_a", "text_b"),
    ("query", "passage"),
    ("question", "sentence"),
    ("text1", "text2"),
];
const TEXTS: [&str; 8] =
    ["text", "sentence", "content", "review", "query", "document", "question", "title"];
const LABELS: [&str; 9] =
    ["label", "labels", "class", "category", "target", "sentiment", "intent", "gold_label", "gold"];
const ANSWERS: [&str; 2] = ["answers", "answer"];
const TAGS: [&str; 4] = ["ner_tags", "tags", "labels", "pos_tags"];
const SCORES: [&str; 4] = ["score", "similarity", "similarity_score", "label"];

/// The first of these names that is a field of this kind.
fn named<'f>(
    fields: &'f [FieldSummary],
    names: &[&str],
    fits: impl Fn(&FieldSummary) -> bool,
) -> Option<&'f FieldSummary> {
    names.iter().find_map(|name| fields.iter().find(|field| field.name == *name && fits(field)))
}

fn is_text(field: &FieldSummary) -> bool {
    field.kind == FieldKind::Text
}

fn pair(fields: &[FieldSummary]) -> Option<(String, String)> {
    let text = |name: &str| named(fields, &[name], is_text).map(|field| field.name.clone());
    PAIRS.into_iter().find_map(|(one, other)| Some((text(one)?, text(other)?)))
}

/// Whether rows are two texts and how alike they are.
pub fn pair_and_score(fields: &[FieldSummary]) -> bool {
    pair(fields).is_some() && score(fields).is_some()
}

fn score(fields: &[FieldSummary]) -> Option<&FieldSummary> {
    named(fields, &SCORES, |field| {
        field.kind == FieldKind::Number
            || (field.kind == FieldKind::Integer && field.name != "label")
    })
}

impl Chosen {
    /// The fields that this task reads.
    pub fn of(fields: &[FieldSummary], kind: Kind, todo: &mut Vec<String>) -> Chosen {
        if fields.is_empty() {
            return Chosen::default();
        }
        let mut chosen = match kind {
            Kind::Classes(_) => classes(fields),
            Kind::Cross | Kind::Bi { .. } => {
                let (text, pair) = pair(fields).unzip();
                Chosen { text, pair, gold: score(fields).map(name), others: Vec::new() }
            }
            Kind::Embedding { .. } => {
                Chosen { text: text(fields, None).map(name), ..Chosen::default() }
            }
            Kind::Tags(_) => tags(fields),
            Kind::Answers => {
                let of = |names: &[&str]| named(fields, names, |_| true).map(name);
                Chosen {
                    text: of(&["question", "query"]),
                    pair: of(&["context", "passage"]),
                    gold: of(&ANSWERS),
                    others: Vec::new(),
                }
            }
        };
        let needs_gold = !matches!(kind, Kind::Embedding { .. });
        let needs_pair = matches!(kind, Kind::Answers | Kind::Cross | Kind::Bi { .. });
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        for (found, needed, what) in [
            (&chosen.text, true, "text"),
            (&chosen.pair, needs_pair, "second text"),
            (&chosen.gold, needs_gold, "right answer"),
        ] {
            if needed && found.is_none() {
                todo.push(format!(
                    "none of the fields {} looks like the {what} of a row: name it under `data`",
                    names.join(", ")
                ));
            }
        }
        let used = [&chosen.text, &chosen.pair, &chosen.gold];
        chosen.others = fields
            .iter()
            .filter(|field| used.iter().all(|used| used.as_ref() != Some(&field.name)))
            .map(|field| format!("{} ({})", field.name, words(field.kind)))
            .collect();
        chosen
    }

    /// The field with what is right.
    pub fn gold<'f>(&self, fields: &'f [FieldSummary]) -> Option<&'f FieldSummary> {
        let gold = self.gold.as_ref()?;
        fields.iter().find(|field| field.name == *gold)
    }
}

fn name(field: &FieldSummary) -> String {
    field.name.clone()
}

fn classes(fields: &[FieldSummary]) -> Chosen {
    let few = |field: &FieldSummary| !field.values.is_empty() && field.values.len() <= 128;
    let label = named(fields, &LABELS, few).or_else(|| {
        let mut few = fields
            .iter()
            .filter(|f| few(f) && f.kind != FieldKind::Number && f.count > f.values.len() * 2);
        let first = few.next();
        // Of several it cannot be told.
        first.filter(|_| few.next().is_none())
    });
    let two =
        pair(fields).filter(|(one, two)| label.is_none_or(|l| l.name != *one && l.name != *two));
    let (text, pair) = match two {
        Some((text, pair)) => (Some(text), Some(pair)),
        None => (self::text(fields, label).map(name), None),
    };
    Chosen { text, pair, gold: label.map(name), others: Vec::new() }
}

/// A field with a usual name, else the one with the longest texts.
fn text<'f>(fields: &'f [FieldSummary], not: Option<&FieldSummary>) -> Option<&'f FieldSummary> {
    named(fields, &TEXTS, is_text).or_else(|| {
        fields
            .iter()
            .filter(|field| is_text(field) && not.is_none_or(|not| not.name != field.name))
            .max_by(|a, b| a.mean_length.total_cmp(&b.mean_length))
    })
}

fn tags(fields: &[FieldSummary]) -> Chosen {
    let listed = |field: &FieldSummary| field.kind == FieldKind::List;
    let words = named(fields, &["tokens", "words"], listed);
    let tags = named(fields, &TAGS, listed);
    Chosen { text: words.map(name), pair: None, gold: tags.map(name), others: Vec::new() }
}

fn words(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Empty => "empty",
        FieldKind::Integer => "whole numbers",
        FieldKind::Number => "numbers",
        FieldKind::Text => "texts",
        FieldKind::List => "lists",
        FieldKind::Other => "other values",
    }
}
