//! The gate's answer with its evidence.

use serde::{Deserialize, Serialize};

use crate::gate::GateOutcome;
use crate::metric::Metric;
use crate::paired::{Flips, McNemar, Paired};

/// The gate's answer. The figures at the top are those of the first drop rule; every rule has its own in `rules`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The worst of all rules.
    pub outcome: GateOutcome,
    /// Whether the candidate may be published: every rule is accepted, or inconclusive where that is tolerated.
    pub publish: bool,
    /// What was compared.
    pub metric: Metric,
    /// The baseline's value.
    pub baseline: f64,
    /// The candidate's value.
    pub candidate: f64,
    /// Rows.
    pub count: usize,
    /// `baseline` − `candidate`; negative when the candidate is better.
    pub drop: f64,
    /// Confidence interval of the drop, each end one-sided at `confidence`; the upper end decides.
    pub interval: [f64; 2],
    /// The gate's limit, of a relative one in the metric's own units.
    pub max_drop: f64,
    /// The gate's confidence.
    pub confidence: f64,
    /// Why, in one sentence with its numbers.
    pub reason: String,
    /// For an inconclusive verdict: about how many rows in all would decide if the models kept differing as they do; absent when no number
    /// would.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows_needed: Option<u64>,
    /// Rows by who is right; absent where a row is not right or wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paired: Option<Paired>,
    /// McNemar's test on `paired`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mcnemar: Option<McNemar>,
    /// Rows whose answer changed; absent where answers are no discrete things.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flips: Option<Flips>,
    /// Rows without a finite prediction: baseline, candidate.
    pub not_finite: [usize; 2],
    /// Every rule with its outcome, in the order of the gate; those that hold for every gate first.
    pub rules: Vec<RuleVerdict>,
    /// Every class by itself.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub classes: Vec<PartFigures>,
    /// Every value of every sliced field by itself.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub slices: Vec<PartFigures>,
    /// What makes the comparison weaker than it looks, in words.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
}

/// One rule's outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleVerdict {
    /// Its name in a profile; `finite_logits` and `baseline_above_chance` hold for every gate.
    pub rule: String,
    /// What it measures.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub metric: Option<Metric>,
    /// The class or slice it is about, such as `class negative` or `source=web`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scope: Option<String>,
    /// What the rows say.
    pub outcome: GateOutcome,
    /// Whether the rule lets the candidate through: accepted, or inconclusive where that is tolerated.
    pub passes: bool,
    /// Why, in one sentence with its numbers.
    pub reason: String,
    /// The measured figure: a drop, a share, a value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<f64>,
    /// The limit in the same units.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<f64>,
    /// Interval of a drop, each end one-sided.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval: Option<[f64; 2]>,
    /// Rows it looks at.
    pub count: usize,
    /// About how many rows would decide.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows_needed: Option<u64>,
}

/// One class or slice in both models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartFigures {
    /// The sliced field; none for a class.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub field: Option<String>,
    /// The class or the field's value.
    pub name: String,
    /// What `baseline` and `candidate` are: `f1`, `exact-match`, …
    pub measure: String,
    /// Its rows (of an entity type, its entities).
    pub count: usize,
    /// The baseline's value.
    pub baseline: f64,
    /// The candidate's value.
    pub candidate: f64,
}
