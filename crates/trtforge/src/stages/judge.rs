//! `judge`: the gate over paired predictions on the same rows.

use std::path::Path;

use trtforge_data::{Dataset, Fields};
use trtforge_evaluate::{
    EvaluateError, EvaluatedOn, Evaluation, Evidence, LogitShift, MeasuredSpeedup, Prediction,
    Rule, Scored, Slice, Verdict, judge_with, logit_shift,
};

use crate::error::PipelineError;
use crate::profile::{GateSection, Precision};
use crate::stages::fallback::confidence_of_look;
use crate::stages::predictions::{Recorded, RowsFile};
use crate::stages::proof::Int8Found;

/// What a verdict of an engine compares.
const COMPARED: &str =
    "what was compared: the engine on the GPU with FP32 on the reference executor";

/// One model judged against the baseline.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// How far its logits moved from FP32's.
    pub shift: LogitShift,
    /// Whether its engine may be published.
    pub accepted: bool,
}

/// What every candidate of a run is judged by.
#[derive(Clone)]
pub struct Court<'a> {
    /// The rules.
    pub section: &'a GateSection,
    /// The rows, their slices and the names of their classes.
    pub rows: RowsFile,
    /// The recorded run that candidates are compared with, if not this run's FP32.
    pub recorded: Option<Recorded>,
    /// What ran the models.
    pub evaluated_on: EvaluatedOn,
    /// Whether INT8 is what an earlier search chose: then it is judged at the confidence of a look, whatever the rules say.
    pub searched: bool,
    /// Whether FP32 gives every row the same vector; a build sees that from its predictions.
    pub same_vectors: bool,
    /// What the INT8 engine says of itself.
    pub int8: Int8Found,
    /// Whether no engine was built of what is judged: then what only engines can say is not asked.
    pub without_engine: bool,
    /// What a device measured of INT8 over FP16; none where none did.
    pub speedup: Option<Vec<MeasuredSpeedup>>,
}

impl<'a> Court<'a> {
    /// Reads what the gate needs beside predictions: the sliced fields and the recorded baseline.
    ///
    /// - `data`: the evaluation file, `fingerprint` of its rows, and how many;
    /// - `classes`: names by logit index.
    pub fn open(
        section: &'a GateSection,
        data: &Path,
        fingerprint: &str,
        count: usize,
        classes: &[String],
        evaluated_on: EvaluatedOn,
    ) -> Result<Self, PipelineError> {
        let rows = RowsFile::new(fingerprint, count, classes, slices(section, data)?);
        let recorded = section.baseline.as_ref().map(Recorded::open).transpose()?;
        if let Some(recorded) = &recorded {
            recorded.check(&rows)?;
        }
        for slice in &rows.slices {
            slice.check(count)?;
        }
        Ok(Self {
            section,
            rows,
            recorded,
            evaluated_on,
            searched: false,
            same_vectors: false,
            int8: Int8Found::default(),
            without_engine: false,
            speedup: None,
        })
    }

    /// The same court for a candidate that ran there.
    pub fn on(&self, evaluated_on: EvaluatedOn) -> Court<'a> {
        Court { evaluated_on, ..self.clone() }
    }

    /// Proves that the recorded baseline answers for each of these precisions, before any work.
    pub fn check_recorded(&self, precisions: &[Precision]) -> Result<(), PipelineError> {
        for precision in precisions {
            if let Some(recorded) = &self.recorded {
                recorded.scored(precision.name(), &self.rows)?;
            }
        }
        Ok(())
    }

    /// The recorded baseline as an artifact may name it.
    pub fn baseline_name(&self) -> Option<String> {
        self.recorded.as_ref().map(Recorded::name)
    }

    /// Judges one candidate.
    ///
    /// - `baseline`: FP32 of this run; the logits always move from there, whatever the gate compares with;
    /// - `precision`: the candidate's, by which the recorded baseline is chosen.
    pub fn judge(
        &self,
        precision: &str,
        baseline: (&Scored, &[Prediction]),
        candidate: (&Scored, &[Prediction]),
    ) -> Result<Judged, PipelineError> {
        let shift = logit_shift(baseline.1, candidate.1)?;
        let court = Court { same_vectors: same_vectors(baseline.1), ..self.clone() };
        let mut verdict = court.verdict(precision, baseline.0, candidate.0, Some(shift))?;
        if self.evaluated_on == EvaluatedOn::Device && self.recorded.is_none() {
            verdict.notes.push(COMPARED.to_owned());
        }
        Ok(Judged { accepted: verdict.publish, verdict, shift })
    }

    /// The verdict alone, from scored rows.
    pub fn verdict(
        &self,
        precision: &str,
        baseline: &Scored,
        candidate: &Scored,
        shift: Option<LogitShift>,
    ) -> Result<Verdict, PipelineError> {
        let recorded = match &self.recorded {
            Some(recorded) => Some(recorded.scored(precision, &self.rows)?),
            None => None,
        };
        let evidence = Evidence {
            classes: &self.rows.classes,
            slices: &self.rows.slices,
            shift,
            evaluated_on: Some(self.evaluated_on),
            same_vectors: self.same_vectors,
            int8_share: self.int8.share,
            int8_missing: self.int8.missing.as_deref(),
            speedup: self.speedup.as_deref(),
        };
        let baseline = recorded.as_ref().unwrap_or(baseline);
        let mut gate = self.section.gate(candidate);
        // How much is INT8 is asked of INT8 engines alone.
        if self.without_engine || precision != Precision::Int8.name() {
            gate.rules.retain(|rule| !matches!(rule, Rule::RequireInt8Share(_)));
        }
        gate.confidence = confidence_of_look(self.section, precision, self.searched);
        if precision != Precision::Int8.name() {
            // The speed-up is INT8's over FP16.
            gate.rules.retain(|rule| !matches!(rule, Rule::MinSpeedup(_)));
        }
        Ok(judge_with(&gate, baseline, candidate, &evidence)?)
    }
}

/// Proves that the gate can be asked of rows of this kind, before any work.
///
/// - `kind`: scored rows of the task; none are needed.
pub fn check(section: &GateSection, kind: &Scored) -> Result<(), PipelineError> {
    let gate = section.gate(kind);
    gate.check()?;
    gate.check_kind(kind)?;
    Ok(())
}

/// Whether all rows have the same values.
pub fn same_vectors(predictions: &[Prediction]) -> bool {
    let Some(first) = predictions.first() else { return false };
    predictions.iter().all(|one| one.logits == first.logits)
}

/// Every metric of one model, the headline first. Metrics that the gate does not name stand behind those that it does.
pub fn score(
    scored: &Scored,
    section: &GateSection,
    evaluated_on: EvaluatedOn,
) -> Result<Vec<Evaluation>, EvaluateError> {
    let of = |metric| Evaluation::of(metric, scored, section.confidence, evaluated_on);
    section.measured(scored).into_iter().map(of).collect()
}

/// Reads the fields of the evaluation data that the gate slices by.
fn slices(section: &GateSection, data: &Path) -> Result<Vec<Slice>, PipelineError> {
    let read = |(field, _): &(String, _)| {
        let rows = Dataset::load(data, &Fields::text(field), None, false)?.rows;
        let values: Vec<String> = rows.into_iter().map(|row| row.text).collect();
        Ok(Slice::new(field, &values))
    };
    section.per_slice.iter().map(read).collect()
}
