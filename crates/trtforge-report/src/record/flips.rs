//! Single rows whose answer is another one than FP32's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A row whose answer changed: where it lies and what was answered, never what it says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlippedRow {
    /// Its line in the evaluation file, from 1.
    pub line: u64,
    /// What is right: the name of a class, or how many tags there are.
    #[serde(default)]
    pub label: String,
    /// What FP32 answers.
    #[serde(default)]
    pub baseline: String,
    /// What this precision answers.
    #[serde(default)]
    pub candidate: String,
    /// What that means.
    #[serde(default)]
    pub change: Change,
    /// The row's text, where it was asked for. Never written: data may be private.
    #[serde(skip)]
    pub text: Option<String>,
}

/// What another answer means.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Right before, wrong now.
    Lost,
    /// Wrong before, right now.
    Won,
    /// Wrong both times, in two ways.
    #[default]
    Other,
}

impl Change {
    /// The words shown to a person.
    pub fn words(self) -> &'static str {
        match self {
            Self::Lost => "right to wrong",
            Self::Won => "wrong to right",
            Self::Other => "wrong in another way",
        }
    }
}
