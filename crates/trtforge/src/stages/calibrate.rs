//! `calibrate`: one pass of the sampled rows through the FP32 model, activations straight into histograms.

use std::time::{Duration, Instant};

use trtforge_calibrate::{CalibrationTable, Guards, Observer, SCHEMA, TableOptions};
use trtforge_data::{equal_length_batches, sample};
use trtforge_exec::{EmbeddedExecutor, Executor};

use crate::error::PipelineError;
use crate::inputs::{EncodedRows, ModelInputs};
use crate::profile::Profile;
use crate::progress::{Progress, Stage};

/// Tokens of one forward pass at most. Observed tensors are held until the pass ends, so this bounds memory: for a
/// BERT-base about 0.7 MiB a token.
const TOKENS_PER_PASS: usize = 256;

/// Where the time of calibration went.
#[derive(Debug, Clone, Copy, Default)]
pub struct CalibrationTimings {
    /// Running the model, observing excluded.
    pub forward: Duration,
    /// Filling histograms.
    pub observe: Duration,
    /// Choosing thresholds.
    pub threshold: Duration,
}

/// The tensors a calibration looks at.
#[derive(Debug, Clone)]
pub struct Taps {
    /// With a histogram.
    pub histograms: Vec<String>,
    /// With their largest magnitude only.
    pub watched: Vec<String>,
}

/// Rows to calibrate on: sampled as the profile says, cut into batches of equal length, so that no padding and no
/// masked position enters the statistics.
pub fn plan(rows: &EncodedRows, profile: &Profile) -> Vec<Vec<usize>> {
    let lengths = rows.lengths();
    let data = &profile.calibration;
    let chosen = sample(&lengths, data.samples, data.seed, data.strategy);
    let chosen_lengths: Vec<usize> = chosen.iter().map(|&row| lengths[row]).collect();
    let batches = equal_length_batches(&chosen_lengths, TOKENS_PER_PASS, profile.calibrate.batch_size);
    batches.into_iter().map(|batch| batch.into_iter().map(|index| chosen[index]).collect()).collect()
}

/// The executor that calibration runs on, and what it can show.
pub fn prepare(
    inputs: &ModelInputs,
    profile: &Profile,
) -> Result<(EmbeddedExecutor, Taps), PipelineError> {
    let histograms = inputs.survey.observe.clone();
    let executor = inputs.executor(profile, &histograms)?;
    // A watched tensor that lives inside a fused operator is computed in FP32 there, and costs a fusion to look at.
    let watched =
        inputs.survey.watch.iter().filter(|name| executor.can_tap(name)).cloned().collect();
    Ok((executor, Taps { histograms, watched }))
}

/// Runs the rows and fills an observer.
pub fn observe(
    inputs: &ModelInputs,
    executor: &dyn Executor,
    taps: &Taps,
    rows: &EncodedRows,
    batches: &[Vec<usize>],
    progress: Progress,
) -> Result<(Observer, CalibrationTimings), PipelineError> {
    let mut observer = Observer::new(taps.histograms.iter().cloned(), taps.watched.iter().cloned());
    let names = observer.tensors();
    let mut timings = CalibrationTimings::default();
    let total = batches.iter().map(Vec::len).sum::<usize>() as u64;
    let stage: Stage = progress.stage("Calibrating", total, "rows");
    for batch in batches {
        let encoded: Vec<_> = batch.iter().map(|&row| &rows.rows[row]).collect();
        let bound = inputs.wiring.bind(&encoded, 0);
        let mut bad = None;
        let mut observing = Duration::ZERO;
        let start = Instant::now();
        executor.run_tapped(&bound, &names, &mut |tensor, values| {
            let start = Instant::now();
            if bad.is_none() && observe_one(&mut observer, tensor, values) {
                bad = Some((tensor.to_owned(), first_bad_row(values, batch.len())));
            }
            observing += start.elapsed();
        })?;
        timings.observe += observing;
        timings.forward += start.elapsed().saturating_sub(observing);
        if let Some((tensor, row)) = bad {
            let weights = inputs.warnings.iter().filter(|w| w.starts_with("weight `"));
            let weights = weights.map(|warning| format!("; {warning}")).collect();
            return Err(PipelineError::NotFinite { tensor, line: rows.lines[batch[row]], weights });
        }
        stage.advance(batch.len() as u64);
    }
    Ok((observer, timings))
}

/// Adds values and tells whether any of them was NaN or infinite.
fn observe_one(observer: &mut Observer, tensor: &str, values: &[f32]) -> bool {
    let nonfinite = |observer: &Observer| {
        observer.histogram(tensor).map_or(0, trtforge_calibrate::Histogram::nonfinite)
            + observer.ranges().get(tensor).map_or(0, |range| range.nonfinite)
    };
    let before = nonfinite(observer);
    observer.observe(tensor, values);
    nonfinite(observer) > before
}

/// The row of the batch that holds the first NaN or infinite value; batches lie along the first axis.
fn first_bad_row(values: &[f32], rows: usize) -> usize {
    let position = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
    (position / (values.len() / rows).max(1)).min(rows - 1)
}

/// Chooses the thresholds and makes the table.
pub fn tabulate(
    inputs: &ModelInputs,
    profile: &Profile,
    rows: &EncodedRows,
    observer: &Observer,
    sampled: usize,
) -> Result<CalibrationTable, PipelineError> {
    let tensors = observer.calibrate(profile.calibrate.method, &Guards::default())?;
    Ok(CalibrationTable {
        schema: SCHEMA,
        tool: concat!("trtforge ", env!("CARGO_PKG_VERSION")).to_owned(),
        model: inputs.fingerprint.clone(),
        data: rows.fingerprint.clone(),
        options: TableOptions {
            method: profile.calibrate.method,
            samples: sampled,
            seed: profile.calibration.seed,
            strategy: profile.calibration.strategy.to_string(),
            max_length: profile.max_length,
        },
        tensors,
        ranges: observer.absmax(),
    })
}
