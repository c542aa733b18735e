//! `task:`: what the model does.

use trtforge_evaluate::{Metric, Scored, TagScheme, TaggedRows};

use super::GateSection;
use super::decode::{Mistakes, Section, scalar_text};
use super::read::optional;
use super::tree::{Node, Value};

/// `task:`
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// One class a row.
    TextClassification {
        /// Class names, by logit index.
        labels: Vec<String>,
    },
    /// One tag a word.
    TokenClassification {
        /// Tag names, by logit index.
        labels: Vec<String>,
        /// How tags become entities.
        scheme: TagScheme,
    },
    /// The part of a context that answers a question.
    QuestionAnswering(AnswerRules),
    /// How alike two texts are.
    SentenceSimilarity(TextEncoders),
    /// A vector a text.
    Embedding(Vectors),
}

/// How an answer is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnswerRules {
    /// Tokens of the context that consecutive windows share.
    pub stride: usize,
    /// Tokens of an answer at most.
    pub max_answer_tokens: usize,
    /// Of each window the positions with the largest logits that are tried as start, and as end.
    pub n_best: usize,
    /// Whether "no answer" is one.
    pub no_answer: bool,
    /// How far its score must be above that of the best answer.
    pub no_answer_threshold: f64,
}

/// How a model sees the two texts of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TextEncoders {
    /// Together; one logit is the score.
    Cross,
    /// Each by itself; the cosine of their vectors is the score.
    Bi(Vectors),
}

/// How a model's output becomes the vector of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vectors {
    /// Over the tokens.
    pub pooling: Pooling,
    /// Whether vectors are scaled to length 1.
    pub normalize: bool,
}

/// How the vectors of a text's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean, padding left out.
    Mean,
    /// The first token's.
    Cls,
    /// The output is one vector a text already: BERT's pooler.
    PoolerOutput,
    /// The output is one vector a text already.
    None,
}

impl Task {
    /// As in a profile.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::TextClassification { .. } => "text-classification",
            Self::TokenClassification { .. } => "token-classification",
            Self::QuestionAnswering(_) => "question-answering",
            Self::SentenceSimilarity(_) => "sentence-similarity",
            Self::Embedding(_) => "embedding",
        }
    }

    /// Whether two texts are one run.
    pub fn joins_texts(&self) -> bool {
        matches!(self, Self::QuestionAnswering(_) | Self::SentenceSimilarity(TextEncoders::Cross))
    }

    /// Names of classes or tags by logit index; none where the task has none.
    pub fn labels(&self) -> &[String] {
        match self {
            Self::TextClassification { labels } | Self::TokenClassification { labels, .. } => {
                labels
            }
            _ => &[],
        }
    }

    /// The metrics that fit, the default first.
    pub fn metrics(&self) -> &'static [Metric] {
        self.no_rows().metrics()
    }

    /// Scored rows of this kind: none.
    pub fn no_rows(&self) -> Scored {
        match self {
            Self::TextClassification { .. } => Scored::Classes(Vec::new()),
            Self::TokenClassification { labels, scheme } => {
                let (labels, scheme) = (labels.clone(), *scheme);
                Scored::Tags(TaggedRows { labels, scheme, rows: Vec::new() })
            }
            Self::QuestionAnswering(_) => Scored::Answers(Vec::new()),
            Self::SentenceSimilarity(_) => Scored::Similarities(Vec::new()),
            Self::Embedding(_) => Scored::Cosines(Vec::new()),
        }
    }
}

/// `task.kind`
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Classes,
    Tags,
    Answers,
    Similarity,
    Embedding,
}

/// As in a profile.
pub(super) const KINDS: [(&str, Kind); 5] = [
    ("text-classification", Kind::Classes),
    ("token-classification", Kind::Tags),
    ("question-answering", Kind::Answers),
    ("sentence-similarity", Kind::Similarity),
    ("embedding", Kind::Embedding),
];

impl Kind {
    /// The keys of `task:` beside `kind`.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Classes => &["kind", "labels"],
            Self::Tags => &["kind", "labels", "scheme"],
            Self::Answers => &[
                "kind",
                "stride",
                "max_answer_tokens",
                "n_best",
                "no_answer",
                "no_answer_threshold",
            ],
            Self::Similarity => &["kind", "encoder", "pooling", "normalize"],
            Self::Embedding => &["kind", "pooling", "normalize"],
        }
    }
}

/// Reads `task:`.
///
/// - `max_length`: of the profile, where it is right.
pub fn read_task(
    top: &Section<'_>,
    max_length: Option<usize>,
    mistakes: &Mistakes<'_>,
) -> Option<Task> {
    let node = top.require(
        "task",
        "write `task: { kind: text-classification, labels: [negative, positive] }`",
    )?;
    // The kind decides which other keys there are.
    let keys = written_kind(node).map_or_else(all_keys, |kind| kind.keys().to_vec());
    let task = Section::open(node, "task", &keys, mistakes)?;
    task.require("kind", "write `kind: text-classification`")?;
    match task.choice("kind", &KINDS)? {
        Kind::Classes => Some(Task::TextClassification { labels: read_labels(&task)? }),
        Kind::Tags => read_tags(&task),
        Kind::Answers => read_answers(&task, max_length).map(Task::QuestionAnswering),
        Kind::Similarity => read_similarity(&task).map(Task::SentenceSimilarity),
        Kind::Embedding => read_vectors(&task).map(Task::Embedding),
    }
}

fn written_kind(node: &Node) -> Option<Kind> {
    let Value::Map(entries) = &node.value else { return None };
    let (_, kind) = entries.iter().find(|(name, _)| name == "kind")?;
    let written = scalar_text(&kind.value)?;
    KINDS.iter().find(|(name, _)| *name == written).map(|(_, kind)| *kind)
}

fn all_keys() -> Vec<&'static str> {
    KINDS.iter().flat_map(|(_, kind)| kind.keys()).copied().collect()
}

fn read_labels(task: &Section<'_>) -> Option<Vec<String>> {
    task.require(
        "labels",
        "the class names in the order of the logits: `labels: [negative, positive]`",
    )?;
    let labels = task.texts("labels")?;
    let mut sorted = labels.clone();
    sorted.sort();
    sorted.dedup();
    let blank = labels.iter().any(|label| label.trim().is_empty());
    if labels.len() < 2 || sorted.len() != labels.len() || blank {
        task.refuse(
            "labels",
            "two or more different names, none of them blank",
            "one name per logit, in the order of the logits",
        );
        return None;
    }
    Some(labels)
}

fn read_tags(task: &Section<'_>) -> Option<Task> {
    let schemes = [("lenient", TagScheme::Lenient), ("strict-iob2", TagScheme::StrictIob2)];
    let scheme = optional(task, "scheme", |t| t.choice("scheme", &schemes), TagScheme::Lenient);
    Some(Task::TokenClassification { labels: read_labels(task)?, scheme: scheme? })
}

fn read_answers(task: &Section<'_>, max_length: Option<usize>) -> Option<AnswerRules> {
    let longest = max_length.unwrap_or(usize::MAX);
    // A third of a row is shared by default, as 128 of 384 tokens in the usual scripts.
    let usual = (longest / 3).min(128) as i64;
    let stride = optional(task, "stride", |t| t.integer("stride", 0..=65_536), usual);
    let most = |key: &str, usual| optional(task, key, |t| t.integer(key, 1..=65_536), usual);
    let (max_answer_tokens, n_best) = (most("max_answer_tokens", 30), most("n_best", 20));
    let no_answer = optional(task, "no_answer", |t| t.boolean("no_answer"), false)?;
    let threshold = "no_answer_threshold";
    let no_answer_threshold = optional(task, threshold, |t| t.number(threshold, -1e6..=1e6), 0.0)?;
    if task.get(threshold).is_some() && !no_answer {
        task.refuse(threshold, "no value without `no_answer: true`", "set it, or remove this line");
        return None;
    }
    let stride = stride? as usize;
    // A question with its special tokens takes three at least.
    if stride + 3 >= longest {
        let expected = format!("less than the window: `max_length` is {longest}");
        task.refuse(
            "stride",
            &expected,
            "consecutive windows share `stride` tokens of the context",
        );
        return None;
    }
    Some(AnswerRules {
        stride,
        max_answer_tokens: max_answer_tokens? as usize,
        n_best: n_best? as usize,
        no_answer,
        no_answer_threshold,
    })
}

fn read_similarity(task: &Section<'_>) -> Option<TextEncoders> {
    task.require(
        "encoder",
        "write `encoder: cross` for a model that reads both texts at once, `encoder: bi` for one that makes a vector of each",
    )?;
    let vectors = read_vectors(task);
    if task.choice("encoder", &[("cross", false), ("bi", true)])? {
        return vectors.map(TextEncoders::Bi);
    }
    for key in ["pooling", "normalize"] {
        if task.get(key).is_some() {
            task.refuse(key, "no value with `encoder: cross`", "remove the line");
            return None;
        }
    }
    Some(TextEncoders::Cross)
}

fn read_vectors(task: &Section<'_>) -> Option<Vectors> {
    let poolings = [
        ("mean", Pooling::Mean),
        ("cls", Pooling::Cls),
        ("pooler-output", Pooling::PoolerOutput),
        ("none", Pooling::None),
    ];
    let pooling = optional(task, "pooling", |t| t.choice("pooling", &poolings), Pooling::Mean);
    let normalize = optional(task, "normalize", |t| t.boolean("normalize"), false);
    Some(Vectors { pooling: pooling?, normalize: normalize? })
}

/// Reports metrics of the gate that do not fit the task.
pub fn check_metrics(top: &Section<'_>, gate: &GateSection, task: &Task, mistakes: &Mistakes<'_>) {
    let fits = task.metrics();
    let Some(Value::Map(entries)) = top.get("gate").map(|node| &node.value) else { return };
    let written = entries.iter().find(|(key, _)| key == "metric" || key == "metrics");
    let Some((key, node)) = written else { return };
    for limits in gate.metrics.iter().filter(|limits| !fits.contains(&limits.metric)) {
        let names: Vec<&str> = fits.iter().map(|metric| metric.name()).collect();
        let found = format!("`{}`", limits.metric);
        let expected = format!("a metric of {}: {}", task.kind(), names.join(", "));
        let help = "choose one of these, or remove the line for the first";
        mistakes.value(&node.place, &format!("gate.{key}"), &found, &expected, help);
    }
}
