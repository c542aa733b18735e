//! What a model tells: roles of its inputs, the output to read, its positions, the names of its classes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use trtforge_data::{FieldKind, FieldSummary, InputRole};
use trtforge_onnx::{Dim, Model};
use trtforge_tensorrt::position_count;

use super::data::pair_and_score;
use crate::error::PipelineError;

/// What a model was trained to do, as far as its outputs and the data tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One class a row; of so many.
    Classes(Option<usize>),
    /// One tag a word; of so many.
    Tags(Option<usize>),
    /// Start and end of an answer.
    Answers,
    /// One score for two texts that are read together.
    Cross,
    /// A vector for each of two texts; made of token vectors or as it is.
    Bi {
        /// Whether the output has a vector a token.
        by_token: bool,
    },
    /// A vector a text.
    Embedding {
        /// Whether the output has a vector a token.
        by_token: bool,
    },
}

impl Kind {
    /// As in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classes(_) => "text-classification",
            Self::Tags(_) => "token-classification",
            Self::Answers => "question-answering",
            Self::Cross | Self::Bi { .. } => "sentence-similarity",
            Self::Embedding { .. } => "embedding",
        }
    }

    /// Whether rows are one text or two.
    pub const fn reads_texts(self) -> bool {
        !matches!(self, Self::Tags(_) | Self::Answers)
    }
}

/// What was read from the model.
#[derive(Debug)]
pub struct ModelFacts {
    /// Where it lies.
    pub path: PathBuf,
    /// Inputs with their roles, and whether the name told the role.
    pub inputs: Vec<(String, Option<InputRole>, bool)>,
    /// Outputs with their shapes.
    pub outputs: Vec<(String, Vec<Dim>)>,
    /// Those to read, where a profile has to say it.
    pub named_outputs: Vec<String>,
    /// Rows of the position embedding.
    pub positions: Option<usize>,
    /// Class names of `config.json` beside the model.
    stated_labels: Vec<String>,
}

/// What matters here of the `config.json` that exporters leave beside a model.
#[derive(Deserialize, Default)]
struct Config {
    #[serde(default)]
    id2label: BTreeMap<usize, String>,
}

impl ModelFacts {
    /// Reads the model at `path`.
    pub fn open(path: &Path, todo: &mut Vec<String>) -> Result<ModelFacts, PipelineError> {
        let model = Model::open(path)?;
        model.check()?;
        let graph = model.graph();
        let names: Vec<String> = graph.inputs().into_iter().map(|input| input.name).collect();
        let outputs: Vec<(String, Vec<Dim>)> = graph
            .outputs()
            .into_iter()
            .map(|output| (output.name, output.shape.unwrap_or_default()))
            .collect();
        let config = std::fs::read_to_string(path.with_file_name("config.json"))
            .ok()
            .and_then(|text| serde_json::from_str::<Config>(&text).ok())
            .unwrap_or_default();
        let mut stated: Vec<String> = config.id2label.into_values().collect();
        // `LABEL_0` is nobody's label.
        if stated.iter().all(|label| label.starts_with("LABEL_")) {
            stated.clear();
        }
        Ok(ModelFacts {
            path: path.to_owned(),
            inputs: roles(&names, todo),
            named_outputs: named_outputs(&outputs, todo),
            outputs,
            positions: position_count(&model).and_then(|count| usize::try_from(count).ok()),
            stated_labels: stated,
        })
    }

    /// A model of which only the outputs matter.
    #[cfg(test)]
    pub fn of_outputs(outputs: Vec<(String, Vec<Dim>)>) -> ModelFacts {
        ModelFacts {
            path: PathBuf::from("m.onnx"),
            inputs: Vec::new(),
            named_outputs: named_outputs(&outputs, &mut Vec::new()),
            outputs,
            positions: None,
            stated_labels: Vec::new(),
        }
    }

    /// The output that is read.
    fn read_output(&self) -> Option<(&str, &[Dim])> {
        let named = self.named_outputs.first();
        let usual = |name: &str| matches!(name, "logits" | "logits:0");
        self.outputs
            .iter()
            .find(|(name, _)| named.map_or_else(|| usual(name), |named| named == name))
            .or_else(|| self.outputs.first())
            .map(|(name, shape)| (name.as_str(), shape.as_slice()))
    }

    /// The task, from the output's shape and what the fields of the data look like.
    pub fn kind(&self, fields: &[FieldSummary], todo: &mut Vec<String>) -> Kind {
        let has = |names: &[&str]| fields.iter().any(|f| names.contains(&f.name.as_str()));
        let listed = fields.iter().any(|field| field.kind == FieldKind::List);
        let asks = has(&["question", "query"]) && has(&["context", "passage"]);
        let similar = pair_and_score(fields);
        let width = |dim: &Dim| match dim {
            Dim::Fixed(size) => usize::try_from(*size).ok(),
            _ => None,
        };
        if self.named_outputs.len() == 2 || self.outputs.iter().any(|(n, _)| n == "start_logits") {
            return Kind::Answers;
        }
        let (output, shape) = self.read_output().unwrap_or_default();
        // A word with its tag is in a list; the encoder's own output is no head's.
        let vectors = output.contains("hidden_state") || !(fields.is_empty() || listed);
        match shape {
            [_, _, last] if width(last) == Some(2) && asks => Kind::Answers,
            [_, _, last] if listed => Kind::Tags(width(last)),
            [_, _, _] if similar => Kind::Bi { by_token: true },
            [_, _, _] if vectors => Kind::Embedding { by_token: true },
            [_, _, last] => match width(last) {
                // No tag set is as large as the hidden size of an encoder.
                Some(tags) if tags < 128 => Kind::Tags(Some(tags)),
                _ => Kind::Embedding { by_token: true },
            },
            [_, last] if width(last) == Some(1) => Kind::Cross,
            [_, last] if similar && width(last).is_none_or(|w| w >= 32) => {
                Kind::Bi { by_token: false }
            }
            [_, last] => match width(last) {
                Some(size) if size >= 128 && !has(&["label", "labels"]) => {
                    Kind::Embedding { by_token: false }
                }
                classes => Kind::Classes(classes),
            },
            _ => {
                todo.push(
                    "the model does not state the shape of its output: check task.kind".to_owned(),
                );
                if listed { Kind::Tags(None) } else { Kind::Classes(None) }
            }
        }
    }

    /// Names of the classes by logit index, and where they come from.
    pub fn labels(
        &self,
        kind: Kind,
        gold: Option<&FieldSummary>,
        todo: &mut Vec<String>,
    ) -> (Vec<String>, &'static str) {
        let (Kind::Classes(width) | Kind::Tags(width)) = kind else { return (Vec::new(), "") };
        let fits = |count: usize| count >= 2 && width.is_none_or(|width| width == count);
        if fits(self.stated_labels.len()) {
            return (self.stated_labels.clone(), "id2label of config.json beside the model");
        }
        let numbers = |values: &[String]| values.iter().all(|value| value.parse::<f64>().is_ok());
        if let Some(field) = gold.filter(|f| fits(f.values.len()) && !numbers(&f.values)) {
            todo.push(format!(
                "task.labels are the values of `{}` in alphabetical order: bring them into the order of the logits",
                field.name
            ));
            return (field.values.clone(), "values of the data, in alphabetical order");
        }
        let largest = gold.and_then(|f| f.values.iter().filter_map(|v| v.parse().ok()).max());
        let count = width.or(largest.map(|largest: usize| largest + 1)).unwrap_or(2).max(2);
        todo.push(
            "nothing names the classes: give task.labels their names, in the order of the logits"
                .to_owned(),
        );
        ((0..count).map(|class| format!("class_{class}")).collect(), "made up")
    }
}

/// Roles by name, and for names that tell nothing the role that is left.
fn roles(names: &[String], todo: &mut Vec<String>) -> Vec<(String, Option<InputRole>, bool)> {
    let told: Vec<Option<InputRole>> = names.iter().map(|n| InputRole::of_input(n)).collect();
    let mut left = InputRole::ALL.into_iter().filter(|role| !told.contains(&Some(*role)));
    let mut found = Vec::with_capacity(names.len());
    for (name, told) in names.iter().zip(&told) {
        let role = told.or_else(|| left.next());
        if told.is_none() {
            todo.push(match role {
                Some(role) => format!("input `{name}` was taken for {role}: check model.inputs"),
                None => format!("input `{name}` has no role that trtforge knows"),
            });
        }
        found.push((name.clone(), role, told.is_some()));
    }
    found
}

/// Output names that a profile has to state: none for one output or one called `logits`.
fn named_outputs(outputs: &[(String, Vec<Dim>)], todo: &mut Vec<String>) -> Vec<String> {
    let named = |wanted: &str| outputs.iter().find(|(name, _)| name == wanted);
    if let (Some((start, _)), Some((end, _))) = (named("start_logits"), named("end_logits")) {
        return vec![start.clone(), end.clone()];
    }
    if outputs.len() == 1 || named("logits").or(named("logits:0")).is_some() {
        return Vec::new();
    }
    let guess = ["last_hidden_state", "sentence_embedding", "pooler_output"]
        .into_iter()
        .find_map(named)
        .or(outputs.first());
    let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    let Some((name, _)) = guess else { return Vec::new() };
    todo.push(format!(
        "of the outputs {} `{name}` was chosen: check model.output",
        names.join(", ")
    ));
    vec![name.clone()]
}
