//! `judge`: the gate over paired predictions on the same rows.

use trtforge_evaluate::{
    EvaluatedOn, Evaluation, Evidence, Gate, LogitShift, Metric, OnInconclusive, Prediction, Rule,
    Scored, Tolerance, Verdict, judge_with, logit_shift, outcomes,
};

use crate::error::PipelineError;
use crate::profile::GateSection;

/// One model judged against the baseline.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// How far its logits moved.
    pub shift: LogitShift,
    /// Whether its engine may be published.
    pub accepted: bool,
}

/// The accuracy of one model.
pub fn score(
    labels: &[usize],
    predictions: &[Prediction],
    section: &GateSection,
    evaluated_on: EvaluatedOn,
) -> Result<(Scored, Evaluation), PipelineError> {
    let scored = Scored::Classes(outcomes(labels, predictions)?);
    let evaluation = Evaluation::of(Metric::Accuracy, &scored, section.confidence, evaluated_on)?;
    Ok((scored, evaluation))
}

/// Judges a candidate against the baseline.
pub fn judge(
    section: &GateSection,
    labels: &[usize],
    baseline: &[Prediction],
    candidate: &[Prediction],
    evaluated_on: EvaluatedOn,
) -> Result<Judged, PipelineError> {
    let (before, _) = score(labels, baseline, section, evaluated_on)?;
    let (after, _) = score(labels, candidate, section, evaluated_on)?;
    let mut gate = Gate::drop(Metric::Accuracy, Tolerance::Absolute(section.max_drop));
    gate.confidence = section.confidence;
    if section.accept_inconclusive {
        gate.on_inconclusive = OnInconclusive::Accept;
    }
    if section.require_device {
        gate.rules.push(Rule::RequireDevice);
    }
    let shift = logit_shift(baseline, candidate)?;
    let evidence =
        Evidence { shift: Some(shift), evaluated_on: Some(evaluated_on), ..Evidence::default() };
    let verdict = judge_with(&gate, &before, &after, &evidence)?;
    Ok(Judged { accepted: verdict.publish, verdict, shift })
}
