//! Evaluation and judgement, as stages of a run: engines on the GPU where there is one, graphs on the reference executor where not.

use std::path::Path;

use trtforge_evaluate::{EvaluatedOn, Prediction};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions};
use trtforge_tensorrt::{Choice, Flag, TensorRtError};

use super::Run;
use crate::checked::Checked;
use crate::error::PipelineError;
use crate::profile::Precision;
use crate::record;
use crate::score;
use crate::stages::device::{self, OnDevice};
use crate::stages::evaluate::{self, Through};
use crate::stages::judge;
use crate::store::{Artifact, Fingerprint};

/// The logits of one model, and where they came from.
pub(super) struct Answered {
    pub(super) predictions: Vec<Prediction>,
    pub(super) artifact: Artifact,
    pub(super) evaluated_on: EvaluatedOn,
}

impl Run<'_> {
    /// FP32 stays on the reference executor: it is what the engines stand for, and needs no engine of its own. The engines run
    /// themselves where they can.
    pub(super) fn evaluate(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        let (path, hash) = (self.profile.model.onnx.clone(), inputs.model.fingerprint.clone());
        let fp32 = self.predict(inputs, &path, &hash, "fp32")?;
        let mut all_cached = fp32.artifact.cached;
        self.answered(None, fp32);
        for graph in self.graphs.clone() {
            let precision = graph.precision;
            let answered = if let Some(answered) = self.predict_on_device(inputs, precision)? {
                answered
            } else {
                let (path, hash) = (&graph.onnx.path, graph.onnx.hash());
                self.predict(inputs, path, hash, precision.name())?
            };
            all_cached &= answered.artifact.cached;
            self.answered(Some(precision), answered);
        }
        self.cached = all_cached;
        self.score_all(inputs)
    }

    fn answered(&mut self, precision: Option<Precision>, answered: Answered) {
        self.used.push(answered.artifact.path);
        self.predictions.insert(precision, answered.predictions);
        self.evaluated_on.insert(precision, answered.evaluated_on);
    }

    /// The logits of one engine on the evaluation rows; none where there is no GPU or no engine.
    ///
    /// An engine that does not load on this GPU is none, with a warning that says why, unless the gate wants it to run.
    pub(super) fn predict_on_device(
        &mut self,
        inputs: &Checked,
        precision: Precision,
    ) -> Result<Option<Answered>, PipelineError> {
        match self.try_on_device(inputs, precision) {
            // What fails after it was loaded is an `ExecError`.
            Err(PipelineError::TensorRt(error)) if !self.profile.gate.require_device => {
                let warning = not_loaded(precision, &error);
                self.progress.say(&warning);
                self.record.warnings.push(warning);
                Ok(None)
            }
            other => other,
        }
    }

    fn try_on_device(
        &self,
        inputs: &Checked,
        precision: Precision,
    ) -> Result<Option<Answered>, PipelineError> {
        let Choice::Sdk { library, driver: Some(driver), .. } = &self.backend else {
            return Ok(None);
        };
        let engine = self.engines.iter().find(|engine| engine.precision == precision);
        let Some(engine) = engine else { return Ok(None) };
        if self.profile.engine.options.flags.get(&Flag::StripPlan) == Some(&true) {
            // Without its weights it answers nothing.
            return Ok(None);
        }
        let fingerprint = self
            .predictions_key(inputs)
            .with("plan", engine.plan.hash())
            .with("device", device::words(driver))
            .with("library", format!("{:?} {}", library.sdk(), library.version()));
        let name = format!("{} on the GPU", precision.name());
        let (predictions, artifact) = evaluate::predictions(&self.store, &fingerprint, || {
            let device = OnDevice::open(library, &engine.plan.path)?;
            let length = |length| device.length(length);
            let wiring = &inputs.model.wiring;
            let through =
                Through { length: &length, ..Through::any(&device, wiring, self.profile) };
            through.predict_rows(&inputs.evaluation, &name, self.progress)
        })?;
        Ok(Some(Answered { predictions, artifact, evaluated_on: EvaluatedOn::Device }))
    }

    /// The logits of one graph on the evaluation rows, from the store when they are there.
    pub(super) fn predict(
        &self,
        inputs: &Checked,
        path: &Path,
        hash: &str,
        name: &str,
    ) -> Result<Answered, PipelineError> {
        let fingerprint = self.predictions_key(inputs).with("onnx", hash);
        let (predictions, artifact) = evaluate::predictions(&self.store, &fingerprint, || {
            let executor = EmbeddedExecutor::load(path, EmbeddedOptions::default())?;
            let through = Through::any(&executor, &inputs.model.wiring, self.profile);
            through.predict_rows(&inputs.evaluation, name, self.progress)
        })?;
        Ok(Answered { predictions, artifact, evaluated_on: EvaluatedOn::Reference })
    }

    fn predictions_key(&self, inputs: &Checked) -> Fingerprint {
        let profile = self.profile;
        Fingerprint::of("predictions")
            .with("tokenizer", inputs.model.encoder.fingerprint())
            .with("data", &inputs.evaluation.runs.fingerprint)
            .with("evaluate", format!("{:?} {}", profile.evaluate, profile.max_length))
            .with("output", format!("{:?}", inputs.model.wiring.readout))
    }

    /// Notes every metric, so that `--stop-after evaluate` has them.
    fn score_all(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        let (gate, rows) = (&self.profile.gate, &inputs.evaluation);
        let (classes, baseline) = (rows.task.labels(), &self.predictions[&None]);
        for (precision, predictions) in &self.predictions {
            let scored = score::score(rows, predictions, baseline)?;
            let evaluations = judge::score(&scored, gate, self.evaluated_on[precision])?;
            record::evaluations(&mut self.record, *precision, &evaluations, &scored, classes);
            // FP32 stands before the others.
            if let (Some(precision), Some(fp32)) = (*precision, self.scored.get(&None)) {
                let both = (fp32, &scored);
                record::flipped(&mut self.record, precision, &rows.lines, both, classes);
            }
            self.scored.insert(*precision, scored);
        }
        Ok(())
    }

    /// Puts the answers of an engine in the place of those of its graph.
    pub(super) fn judge_engine(
        &mut self,
        inputs: &Checked,
        precision: Precision,
        answered: Answered,
    ) -> Result<(), PipelineError> {
        self.answered(Some(precision), answered);
        self.score_all(inputs)?;
        self.judge_one(precision)
    }

    /// Judges one precision by what it answered.
    pub(super) fn judge_one(&mut self, precision: Precision) -> Result<(), PipelineError> {
        let key = Some(precision);
        let court = self.court.as_ref().expect("the check precedes every judgement");
        let court = court.on(self.evaluated_on[&key]);
        let baseline = (&self.scored[&None], self.predictions[&None].as_slice());
        let candidate = (&self.scored[&key], self.predictions[&key].as_slice());
        let judged = court.judge(precision.name(), baseline, candidate)?;
        record::verdict(&mut self.record, precision, &judged, court.baseline_name());
        self.judged.insert(precision, judged);
        Ok(())
    }
}

fn not_loaded(precision: Precision, error: &TensorRtError) -> String {
    format!(
        "{}: its engine does not load here, so its figures are those of its graph on the reference executor: {error}",
        precision.name()
    )
}
