//! Why something cannot be evaluated or judged.

use miette::Diagnostic;
use thiserror::Error;

use crate::metric::Metric;

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
        baseline: String,
        /// Its label on the candidate's side.
        candidate: String,
    },
    /// Rows of two different tasks.
    #[error("the baseline was scored on {baseline}, the candidate on {candidate}")]
    #[diagnostic(
        code(evaluate::other_kind),
        help("evaluate both models with the same `task.kind`")
    )]
    OtherKind {
        /// Kind of the baseline's rows.
        baseline: &'static str,
        /// Kind of the candidate's.
        candidate: &'static str,
    },
    /// A metric of another task.
    #[error("`{metric}` cannot be measured on {rows}; {} can", quoted(fitting))]
    #[diagnostic(
        code(evaluate::unfit_metric),
        help("set `gate.metric` to one that fits `task.kind`")
    )]
    UnfitMetric {
        /// The metric.
        metric: Metric,
        /// What the rows are.
        rows: &'static str,
        /// The metrics that fit.
        fitting: Vec<&'static str>,
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
    /// A gate without a metric that may not drop.
    #[error("the gate has no rule about the drop of a metric")]
    #[diagnostic(
        code(evaluate::no_drop_rule),
        help("set `gate.max_drop` or `gate.max_relative_drop`")
    )]
    NoDropRule,
    /// A rule about a field that the rows do not carry.
    #[error("the rows have no field `{0}` to slice by")]
    #[diagnostic(
        code(evaluate::unknown_slice),
        help("`gate.per_slice` names a field of the evaluation data that every row has")
    )]
    UnknownSlice(String),
    /// A field that is no category.
    #[error(
        "the field `{field}` has {values} different values; a slice is a category with at most {most}"
    )]
    #[diagnostic(
        code(evaluate::many_slices),
        help("slice by a field with few values, such as the source or the language of a row")
    )]
    ManySlices {
        /// The field.
        field: String,
        /// Its values.
        values: usize,
        /// The most that are allowed.
        most: usize,
    },
    /// Flips of numbers.
    #[error(
        "`gate.max_flip_rate` counts changed answers, and {rows} are numbers, which always change"
    )]
    #[diagnostic(code(evaluate::no_flips), help("use `gate.max_logit_divergence` instead"))]
    NoFlips {
        /// What the rows are.
        rows: &'static str,
    },
    /// Classes of numbers.
    #[error("`gate.per_class` needs classes, and {rows} have none")]
    #[diagnostic(code(evaluate::no_classes), help("use `gate.per_slice` with a field of the data"))]
    NoClasses {
        /// What the rows are.
        rows: &'static str,
    },
    /// A metric name that does not exist.
    #[error("unknown metric `{0}`")]
    #[diagnostic(code(evaluate::metric), help("known: {}", quoted(&Metric::ALL.map(Metric::name))))]
    UnknownMetric(String),
}

/// "`a`, `b`".
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
