//! Task metrics, paired statistics, the accuracy gate and its verdict.
//!
//! What flows: what a model answers becomes its [`Scored`] rows, scored rows an [`Evaluation`] of one model, and the scored rows of two models
//! on the same data a [`Verdict`]. Everything here is a pure function of its arguments.

mod answer;
mod bootstrap;
mod chance;
mod confusion;
mod difference;
mod drop;
mod empty;
mod entity;
mod error;
mod evaluation;
mod gate;
mod interval;
mod judge;
mod metric;
mod normal;
mod number;
mod outcome;
mod paired;
mod parts;
mod random;
mod reason;
mod scored;
mod shift;
mod speedup;
mod statistic;
mod verdict;

pub use answer::score_answer;
pub use confusion::Confusion;
pub use difference::{Difference, Direction, Measured};
pub use empty::empty_proofs;
pub use entity::{Entity, EntityCounts, entities, malformed_transitions};
pub use error::EvaluateError;
pub use evaluation::{EvaluatedOn, Evaluation};
pub use gate::{Gate, GateOutcome, OnInconclusive, Rule, Scope, Tolerance};
pub use interval::wilson_interval;
pub use judge::{Evidence, Int8Share, judge, judge_with};
pub use metric::Metric;
pub use normal::normal_quantile;
pub use outcome::{Outcome, Prediction, outcomes};
pub use paired::{Flips, McNemar, Paired, drop_interval, tango_interval};
pub use parts::Slice;
pub use scored::{AnswerRow, Scored, SimilarityRow, TagRow, TagScheme, TaggedRows};
pub use shift::{LogitShift, logit_shift};
pub use speedup::MeasuredSpeedup;
pub use verdict::{PartFigures, RuleVerdict, Verdict};
