//! `judge`: the gate over paired predictions on the same rows.

use trtforge_evaluate::{
    EvaluatedOn, Evaluation, Gate, GateOutcome, LogitShift, Metric, OnInconclusive, Outcome,
    Prediction, Verdict, judge as judge_outcomes, logit_shift, outcomes,
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
) -> Result<(Vec<Outcome>, Evaluation), PipelineError> {
    let rows = outcomes(labels, predictions)?;
    let evaluation = Evaluation::of(Metric::Accuracy, &rows, section.confidence, evaluated_on)?;
    Ok((rows, evaluation))
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
    let gate = Gate {
        metric: Metric::Accuracy,
        max_drop: section.max_drop,
        confidence: section.confidence,
        on_inconclusive: if section.accept_inconclusive {
            OnInconclusive::Accept
        } else {
            OnInconclusive::Refuse
        },
    };
    let mut verdict = judge_outcomes(&gate, &before, &after)?;
    let needs_device = section.require_device && evaluated_on == EvaluatedOn::Reference;
    if needs_device && verdict.outcome == GateOutcome::Accepted {
        verdict.outcome = GateOutcome::Inconclusive;
        verdict.reason = format!(
            "`gate.require_device` is set, and this is a reference figure: no engine ran on a GPU. Otherwise: {}",
            verdict.reason
        );
    }
    let accepted = match verdict.outcome {
        GateOutcome::Accepted => true,
        GateOutcome::Inconclusive => section.accept_inconclusive && !needs_device,
        GateOutcome::Rejected => false,
    };
    let shift = logit_shift(baseline, candidate)?;
    Ok(Judged { verdict, shift, accepted })
}
