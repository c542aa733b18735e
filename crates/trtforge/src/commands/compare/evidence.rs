//! What is known of the accuracy of two runs: their answers row by row where both kept them, else their own intervals.

use trtforge_evaluate::{Difference, Direction, Measured, Metric};
use trtforge_report::{
    AccuracyChange, Basis, Evaluation, Flips, Precision, Standing, other_place, pairs,
};

use super::sides::Opened;
use crate::error::PipelineError;
use crate::stages::predictions::{PredictionsError, PredictionsFile};

/// The change of each engine that both have evaluated.
pub fn accuracy(
    metric: &str,
    baseline: &Opened,
    run: &Opened,
) -> Result<Vec<AccuracyChange>, PipelineError> {
    let mut changes = Vec::new();
    for (against, precision) in pairs(&baseline.side, &run.side) {
        let before = baseline.side.evaluation(against, metric);
        let after = run.side.evaluation(precision, metric);
        if let (Some(before), Some(after)) = (before, after) {
            let pair = Pair { metric, against, precision, before, after };
            changes.push(pair.change(baseline, run)?);
        }
    }
    Ok(changes)
}

/// Two engines with what their records say.
struct Pair<'a> {
    metric: &'a str,
    against: Precision,
    precision: Precision,
    before: &'a Evaluation,
    after: &'a Evaluation,
}

impl Pair<'_> {
    fn change(&self, baseline: &Opened, run: &Opened) -> Result<AccuracyChange, PipelineError> {
        if let Some(why) = other_rows(baseline, run) {
            return Ok(self.incomparable(why));
        }
        let Ok(metric) = self.metric.parse::<Metric>() else {
            let why = format!("this version does not know the metric `{}`", self.metric);
            return Ok(self.incomparable(why));
        };
        let confidence = self.before.confidence;
        let found = match (answers(baseline, self.against)?, answers(run, self.precision)?) {
            (Some(before), Some(after)) if before.data == after.data => {
                match Difference::paired(metric, &before.scored, &after.scored, confidence) {
                    Ok(found) => found,
                    Err(error) => return Ok(self.incomparable(error.to_string())),
                }
            }
            _ => Difference::unpaired(metric, &measured(self.before), &measured(self.after)),
        };
        let mut notes: Vec<String> = other_place(self.before, self.after).into_iter().collect();
        let models =
            |one: &Opened| one.side.record.inputs.model.as_ref().map(|f| f.fingerprint.clone());
        if metric == Metric::Cosine && models(baseline) != models(run) {
            notes.push("each cosine is to its own model's FP32 vectors".to_owned());
        }
        Ok(self.told(&found, (!notes.is_empty()).then(|| notes.join("; "))))
    }

    fn told(&self, found: &Difference, note: Option<String>) -> AccuracyChange {
        let same = found.flips.is_some_and(|flips| flips.changed == 0);
        let finite = found.change.is_finite() && found.interval.iter().all(|end| end.is_finite());
        let standing = match found.direction() {
            _ if !finite => Standing::Unknown,
            _ if same => Standing::SameAnswers,
            Direction::Better => Standing::Better,
            Direction::Worse => Standing::Worse,
            Direction::WithinNoise => Standing::WithinNoise,
        };
        let flips = found.flips.zip(found.table).map(|(flips, table)| Flips {
            to_wrong: flips.right_to_wrong as u64,
            to_right: flips.wrong_to_right as u64,
            wrong_to_wrong: flips.wrong_to_wrong as u64,
            both_right: table.both_right as u64,
            both_wrong: table.both_wrong as u64,
        });
        AccuracyChange {
            before: found.before,
            after: found.after,
            change: finite.then_some(found.change),
            interval: finite.then_some(found.interval),
            confidence: found.confidence,
            rows: found.rows.map(|rows| rows as u64),
            basis: if found.paired { Basis::Paired } else { Basis::Unpaired },
            standing,
            flips,
            p_value: found.mcnemar.map(|test| test.p_two_sided),
            note: note.or_else(|| (!finite).then(|| "a value is no number".to_owned())),
            ..self.incomparable(String::new())
        }
    }

    fn incomparable(&self, why: String) -> AccuracyChange {
        AccuracyChange {
            precision: self.precision,
            against: self.against,
            before: self.before.value,
            after: self.after.value,
            change: None,
            interval: None,
            confidence: self.before.confidence,
            rows: [self.before.count, self.after.count],
            basis: Basis::NotComparable,
            standing: Standing::Unknown,
            flips: None,
            p_value: None,
            note: Some(why),
        }
    }
}

/// Why the rows of two runs are not the same, when they are not.
fn other_rows(baseline: &Opened, run: &Opened) -> Option<String> {
    let file = |one: &Opened| one.side.record.inputs.evaluation.clone();
    match (file(baseline), file(run)) {
        (Some(before), Some(after)) if before.fingerprint == after.fingerprint => None,
        (Some(before), Some(after)) => {
            let rows =
                |rows: Option<u64>| rows.map_or(String::new(), |rows| format!(", {rows} rows"));
            Some(format!(
                "it was evaluated on other rows (`{}`{}) than the baseline (`{}`{})",
                after.name,
                rows(after.rows),
                before.name,
                rows(before.rows)
            ))
        }
        _ => Some("the record does not say which rows it was evaluated on".to_owned()),
    }
}

fn measured(found: &Evaluation) -> Measured {
    Measured {
        value: found.value,
        interval: found.interval,
        confidence: found.confidence,
        count: found.count as usize,
    }
}

/// The recorded answers of one engine; none where the run did not keep them.
fn answers(run: &Opened, precision: Precision) -> Result<Option<PredictionsFile>, PipelineError> {
    let Some(folder) = &run.folder else { return Ok(None) };
    match PredictionsFile::load(folder, precision.key()) {
        Ok(found) => Ok(Some(found)),
        Err(PipelineError::Predictions(PredictionsError::Missing { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}
