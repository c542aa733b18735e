//! Why something cannot be evaluated or judged.

use miette::Diagnostic;
use thiserror::Error;

/// Inputs that have no accuracy or no verdict.
#[derive(Debug, Clone, PartialEq, Diagnostic, Error)]
pub enum EvaluateError {
    /// There is nothing to count.
    #[error("there are no rows to evaluate")]
    #[diagnostic(code(evaluate::no_rows), help("an accuracy needs at least one labelled row"))]
    NoRows,
    /// Two lists that belong row to row have different lengths.
    #[error("{left} rows of {left_what} against {right} of {right_what}")]
    #[diagnostic(
        code(evaluate::row_count),
        help("both must come from the same rows in the same order")
    )]
    RowCount {
        /// What the first list holds.
        left_what: &'static str,
        /// Its rows.
        left: usize,
        /// What the second list holds.
        right_what: &'static str,
        /// Its rows.
        right: usize,
    },
    /// The two models were evaluated against different labels.
    #[error(
        "row {row} (counted from 0) has label {baseline} for the baseline and {candidate} for the candidate"
    )]
    #[diagnostic(
        code(evaluate::other_rows),
        help("evaluate both models on the same rows in the same order")
    )]
    OtherRows {
        /// The first row that differs.
        row: usize,
        /// Its label on the baseline's side.
        baseline: usize,
        /// Its label on the candidate's side.
        candidate: usize,
    },
    /// A label beyond the model's classes.
    #[error("row {row} (counted from 0) has label {label}, but the model gives {logits} logits")]
    #[diagnostic(
        code(evaluate::label_range),
        help("`task.labels` must list the model's classes in the order of its logits")
    )]
    LabelRange {
        /// The first such row.
        row: usize,
        /// Its label.
        label: usize,
        /// Logits of that row.
        logits: usize,
    },
    /// One logit cannot choose between classes.
    #[error(
        "the model gives {logits} logits for row {row} (counted from 0); a class needs at least 2 to be chosen from"
    )]
    #[diagnostic(
        code(evaluate::too_few_logits),
        help(
            "accuracy is for classifiers; a model with one output is a regression or a sigmoid head"
        )
    )]
    TooFewLogits {
        /// The first such row.
        row: usize,
        /// Its logits.
        logits: usize,
    },
    /// A gate's number outside its range.
    #[error("gate.{field} is {value}; it must be {range}")]
    #[diagnostic(
        code(evaluate::gate),
        help("for example `gate: {{ metric: accuracy, max_drop: 0.005, confidence: 0.95 }}`")
    )]
    Gate {
        /// The field of the profile's `gate`.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        range: &'static str,
    },
    /// A metric name that does not exist.
    #[error("unknown metric `{0}`")]
    #[diagnostic(code(evaluate::metric), help("known: accuracy"))]
    UnknownMetric(String),
}
