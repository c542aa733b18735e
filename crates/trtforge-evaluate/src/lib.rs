//! Task metrics, paired statistics, the accuracy gate and its verdict.
//!
//! What flows: logits become an [`Outcome`] a row, outcomes an [`Evaluation`] of one model, and the outcomes of two models on the same rows
//! a [`Verdict`]. Everything here is a pure function of its arguments.

mod confusion;
mod error;
mod gate;
mod interval;
mod metric;
mod normal;
mod outcome;
mod paired;
mod reason;
mod shift;

pub use confusion::Confusion;
pub use error::EvaluateError;
pub use gate::{Gate, GateOutcome, OnInconclusive, Verdict, judge};
pub use interval::wilson_interval;
pub use metric::{EvaluatedOn, Evaluation, Metric};
pub use normal::normal_quantile;
pub use outcome::{Outcome, Prediction, outcomes};
pub use paired::{Flips, Paired, drop_interval, tango_interval};
pub use shift::{LogitShift, logit_shift};
