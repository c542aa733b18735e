//! Runs that ask different questions.

use miette::Diagnostic;
use thiserror::Error;

/// Why runs cannot be compared.
#[derive(Debug, Diagnostic, Error, PartialEq, Eq)]
pub enum CompareError {
    /// One is no comparison.
    #[error("a comparison needs at least two runs, and {found} was given")]
    #[diagnostic(
        code(compare::too_few),
        help(
            "give two or more run folders, `run.json` files or plans: `trtforge compare out/a out/b`"
        )
    )]
    TooFew {
        /// How many.
        found: usize,
    },
    /// Other questions, other answers.
    #[error("`{baseline}` is {task}, and `{run}` is {other}")]
    #[diagnostic(
        code(compare::other_task),
        help("runs are compared within one `task.kind`; leave one of the two out")
    )]
    OtherTask {
        /// The run that the others are compared with.
        baseline: String,
        /// Its task.
        task: String,
        /// The run that does not fit.
        run: String,
        /// Its task.
        other: String,
    },
    /// Numbers of different kinds.
    #[error("`{baseline}` was measured by {metric}, and `{run}` by {}", others.join(", "))]
    #[diagnostic(
        code(compare::other_metric),
        help(
            "build one of them again with the `gate.metric` of the other; metrics that a gate does not judge may be listed under `gate.metrics`"
        )
    )]
    OtherMetric {
        /// The run that the others are compared with.
        baseline: String,
        /// Its headline metric.
        metric: String,
        /// The run that does not have it.
        run: String,
        /// What it has.
        others: Vec<String>,
    },
}
