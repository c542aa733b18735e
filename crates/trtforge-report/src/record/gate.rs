//! What the gate looked at: its rules, classes, slices and the confusion of classes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;
use super::precision::Outcome;

/// One rule of the gate with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Its name in a profile, such as `max_drop`; `finite_logits` and `baseline_above_chance` hold for every gate.
    pub rule: String,
    /// What it measures, such as `macro-f1`.
    #[serde(default)]
    pub metric: Option<String>,
    /// The class or slice it is about, such as `class negative` or `source=web`.
    #[serde(default)]
    pub scope: Option<String>,
    /// The decision.
    pub outcome: Outcome,
    /// Whether it lets the engine through: accepted, or inconclusive where the profile tolerates that.
    pub passes: bool,
    /// The decision in words.
    pub reason: String,
    /// The measured figure: a drop, a share, a value.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<f64>")]
    pub value: Option<f64>,
    /// Its limit in the same units.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<f64>")]
    pub limit: Option<f64>,
    /// Confidence interval of a drop, each end one-sided.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<[f64; 2]>")]
    pub interval: Option<[f64; 2]>,
    /// Rows it looked at.
    #[serde(default)]
    pub count: u64,
    /// Evaluation rows that would decide.
    #[serde(default)]
    pub rows_needed: Option<u64>,
}

impl Rule {
    /// Name, metric and scope on one line.
    pub fn title(&self) -> String {
        let mut title = self.rule.clone();
        for part in [&self.metric, &self.scope].into_iter().flatten() {
            title.push_str(", ");
            title.push_str(part);
        }
        title
    }
}

/// One class or slice in both models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The sliced data field; none for a class.
    #[serde(default)]
    pub field: Option<String>,
    /// The class, or the field's value.
    pub name: String,
    /// What is measured, such as `f1`.
    pub measure: String,
    /// Its rows; of an entity type, its entities.
    pub count: u64,
    /// The baseline's value.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub baseline: f64,
    /// The candidate's value.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub candidate: f64,
}

/// McNemar's exact test of the rows that only one model gets right.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct McNemar {
    /// Probability of at least so uneven a split if neither model were better.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub p_two_sided: f64,
    /// Probability of at least so many rows lost.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub p_worse: f64,
}

/// Which class is taken for which.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confusion {
    /// Names by index.
    pub classes: Vec<String>,
    /// `counts[label][answer]`.
    pub counts: Vec<Vec<u64>>,
    /// Rows without an answer, by label.
    #[serde(default)]
    pub not_finite: Vec<u64>,
}
