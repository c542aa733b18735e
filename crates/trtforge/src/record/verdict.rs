//! Accuracy and verdicts in the record.

use trtforge_evaluate::{
    Confusion, EvaluatedOn, Evaluation, GateOutcome, PartFigures, RuleVerdict, Scored, Verdict,
};
use trtforge_report::{self as report, Outcome, Place, RunRecord};

use super::{entry, of};
use crate::profile::Precision;
use crate::stages::judge::Judged;

/// A confusion matrix of more classes than this is not worth its size.
const MOST_CLASSES: usize = 100;

/// Notes every metric of one model, the headline first, and the confusion of its classes.
pub fn evaluations(
    record: &mut RunRecord,
    precision: Option<Precision>,
    evaluations: &[Evaluation],
    scored: &Scored,
    classes: &[String],
) {
    let slot = entry(record, precision);
    slot.metrics = evaluations.iter().map(evaluation).collect();
    slot.evaluation = slot.metrics.first().cloned();
    if let Scored::Classes(rows) = scored
        && classes.len() <= MOST_CLASSES
    {
        let found = Confusion::of(rows, classes.len());
        let wide = |counts: Vec<usize>| counts.into_iter().map(|count| count as u64).collect();
        slot.confusion = Some(report::Confusion {
            classes: classes.to_vec(),
            counts: found.counts.into_iter().map(wide).collect(),
            not_finite: wide(found.not_finite),
        });
    }
}

/// One metric as the record holds it.
pub fn evaluation(evaluation: &Evaluation) -> report::Evaluation {
    report::Evaluation {
        metric: evaluation.metric.to_string(),
        value: evaluation.value,
        interval: evaluation.interval,
        confidence: evaluation.confidence,
        count: evaluation.count as u64,
        not_finite: evaluation.not_finite as u64,
        evaluated_on: match evaluation.evaluated_on {
            EvaluatedOn::Device => Place::Device,
            EvaluatedOn::Reference => Place::Reference,
        },
    }
}

/// Notes one verdict.
pub fn verdict(
    record: &mut RunRecord,
    precision: Precision,
    judged: &Judged,
    baseline: Option<String>,
) {
    let slot = entry(record, Some(precision));
    slot.verdict = Some(report::Verdict { baseline, ..of_verdict(&judged.verdict) });
    slot.logit_shift =
        Some(report::LogitShift { mean: judged.shift.mean_abs, max: judged.shift.max_abs });
    let name = of(precision).name();
    let notes = &judged.verdict.notes;
    record.warnings.extend(notes.iter().map(|note| format!("{name}: {note}")));
}

/// A verdict as the record holds it.
pub fn of_verdict(verdict: &Verdict) -> report::Verdict {
    report::Verdict {
        outcome: outcome(verdict.outcome),
        drop: verdict.drop,
        interval: verdict.interval,
        max_drop: verdict.max_drop,
        confidence: verdict.confidence,
        reason: verdict.reason.clone(),
        passed: verdict.publish,
        rows_needed: verdict.rows_needed,
        flips: verdict.flips.zip(verdict.paired).map(|(flips, paired)| report::Flips {
            to_wrong: flips.right_to_wrong as u64,
            to_right: flips.wrong_to_right as u64,
            wrong_to_wrong: flips.wrong_to_wrong as u64,
            both_right: paired.both_right as u64,
            both_wrong: paired.both_wrong as u64,
        }),
        mcnemar: verdict
            .mcnemar
            .map(|test| report::McNemar { p_two_sided: test.p_two_sided, p_worse: test.p_worse }),
        baseline: None,
        rules: verdict.rules.iter().map(rule).collect(),
        classes: verdict.classes.iter().map(part).collect(),
        slices: verdict.slices.iter().map(part).collect(),
    }
}

/// The gate's word in the record.
pub fn outcome(outcome: GateOutcome) -> Outcome {
    match outcome {
        GateOutcome::Accepted => Outcome::Accepted,
        GateOutcome::Rejected => Outcome::Rejected,
        GateOutcome::Inconclusive => Outcome::Inconclusive,
    }
}

fn rule(rule: &RuleVerdict) -> report::Rule {
    report::Rule {
        rule: rule.rule.clone(),
        metric: rule.metric.map(|metric| metric.to_string()),
        scope: rule.scope.clone(),
        outcome: outcome(rule.outcome),
        passes: rule.passes,
        reason: rule.reason.clone(),
        value: rule.value,
        limit: rule.limit,
        interval: rule.interval,
        count: rule.count as u64,
        rows_needed: rule.rows_needed,
    }
}

fn part(part: &PartFigures) -> report::Part {
    report::Part {
        field: part.field.clone(),
        name: part.name.clone(),
        measure: part.measure.clone(),
        count: part.count as u64,
        baseline: part.baseline,
        candidate: part.candidate,
    }
}
