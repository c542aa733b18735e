//! Forward passes over calibration batches with a look at tensors on the way.

use std::time::{Duration, Instant};

use trtforge_exec::Executor;
use trtforge_onnx::Model;

use crate::error::PipelineError;
use crate::inputs::{EncodedRows, ModelInputs};
use crate::interrupt;
use crate::profile::Profile;
use crate::progress::{Progress, Stage};
use crate::stages::runner::{Runner, Wanted};
use crate::stages::sampling::{CalibrationBatch, count};

/// Where the time of passes went.
#[derive(Debug, Clone, Copy, Default)]
pub struct PassTimings {
    /// Running the model.
    pub forward: Duration,
    /// Looking at tensors.
    pub observe: Duration,
}

impl PassTimings {
    /// Adds the time of further passes.
    pub fn add(&mut self, other: Self) {
        self.forward += other.forward;
        self.observe += other.observe;
    }
}

/// What a look at a tensor found.
pub enum Look {
    /// Nothing wrong.
    Fine,
    /// NaN or infinity at this position of the values.
    NotFinite(usize),
}

/// What is shown the tensors: name and values.
type Watcher<'w> = dyn FnMut(&str, &[f32]) -> Result<Look, PipelineError> + 'w;

/// The rows of one calibration and the model's wiring to run them with.
pub struct Passes<'a> {
    /// The model side.
    pub inputs: &'a ModelInputs,
    /// All rows.
    pub rows: &'a EncodedRows,
    /// What runs them.
    pub runner: &'a Runner,
    /// Shown while running.
    pub progress: Progress,
}

impl Passes<'_> {
    /// A model, the profile's or one rewritten, ready to show `taps` for `batches`.
    pub fn executor(
        &self,
        model: &Model,
        profile: &Profile,
        taps: &[String],
        batches: &[CalibrationBatch],
    ) -> Result<Box<dyn Executor>, PipelineError> {
        let wanted = Wanted { taps, batches };
        self.runner.executor((self.inputs, self.rows), model, profile, wanted, self.progress)
    }

    /// Runs `batches` and shows `look` the tensors that `taps` names for each.
    ///
    /// The values of a look are those of the batch's rows, one after the other.
    pub fn run<'t>(
        &self,
        name: &str,
        executor: &dyn Executor,
        batches: &[CalibrationBatch],
        taps: impl Fn(&CalibrationBatch) -> &'t [String],
        mut look: impl FnMut(&str, &[f32]) -> Result<Look, PipelineError>,
    ) -> Result<PassTimings, PipelineError> {
        let mut timings = PassTimings::default();
        let stage: Stage = self.progress.stage(name, count(batches) as u64, "rows");
        for batch in batches {
            interrupt::check("a pass over the calibration rows")?;
            self.run_batch(executor, batch, taps(batch), &mut look, &mut timings)?;
            stage.advance(batch.rows.len() as u64);
        }
        Ok(timings)
    }

    fn run_batch(
        &self,
        executor: &dyn Executor,
        batch: &CalibrationBatch,
        taps: &[String],
        look: &mut Watcher<'_>,
        timings: &mut PassTimings,
    ) -> Result<(), PipelineError> {
        let mut encoded: Vec<_> = batch.rows.iter().map(|&row| &self.rows.rows[row]).collect();
        // Products of a single row take another path in the executor (matrix times vector) with other rounding. A lone
        // row runs twice and is looked at once, so that results do not depend on how rows fall into batches.
        let copies = if encoded.len() == 1 { 2 } else { 1 };
        encoded.extend_from_within(..encoded.len() * (copies - 1));
        let bound = self.inputs.wiring.bind(&encoded, 0);
        let mut found = Ok(());
        let mut observing = Duration::ZERO;
        let start = Instant::now();
        executor.run_tapped(&bound, taps, &mut |tensor, values| {
            let start = Instant::now();
            let values = &values[..values.len() / copies];
            if found.is_ok() {
                found = match look(tensor, values) {
                    Ok(Look::Fine) => Ok(()),
                    Ok(Look::NotFinite(position)) => Err(self.not_finite(
                        tensor,
                        batch,
                        position / (values.len() / batch.rows.len()).max(1),
                    )),
                    Err(error) => Err(error),
                };
            }
            observing += start.elapsed();
        })?;
        timings.observe += observing;
        timings.forward += start.elapsed().saturating_sub(observing);
        found
    }

    fn not_finite(&self, tensor: &str, batch: &CalibrationBatch, row: usize) -> PipelineError {
        let weights = self.inputs.warnings.iter().filter(|warning| warning.starts_with("weight `"));
        PipelineError::NotFinite {
            tensor: tensor.to_owned(),
            line: self.rows.lines[batch.rows[row.min(batch.rows.len() - 1)]],
            weights: weights.map(|warning| format!("; {warning}")).collect(),
        }
    }
}
