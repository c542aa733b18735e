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

/// Of the sampled rows, one in this many is watched for FP16 overflow. Watched tensors are many and large, holding them
/// costs an eighth of a pass, and what they decide has a factor of two to spare.
const WATCHED_ONE_IN: usize = 4;

/// Rows of one length that run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalibrationBatch {
    /// Rows of the data set.
    pub rows: Vec<usize>,
    /// Whether watched tensors are looked at.
    pub watched: bool,
}

/// Rows to calibrate on: sampled as the profile says, cut into batches of equal length, so that no padding and no
/// masked position enters the statistics. Which rows are watched depends on the sample alone, not on the batches.
pub fn plan(rows: &EncodedRows, profile: &Profile) -> Vec<CalibrationBatch> {
    let lengths = rows.lengths();
    let data = &profile.calibration;
    let chosen = sample(&lengths, data.samples, data.seed, data.strategy);
    let part = |watched: bool| -> Vec<usize> {
        let wanted = |&(position, _): &(usize, &usize)| (position % WATCHED_ONE_IN == 0) == watched;
        chosen.iter().enumerate().filter(wanted).map(|(_, &row)| row).collect()
    };
    let cut = |watched: bool| -> Vec<CalibrationBatch> {
        let part = part(watched);
        let part_lengths: Vec<usize> = part.iter().map(|&row| lengths[row]).collect();
        let batches = equal_length_batches(&part_lengths, TOKENS_PER_PASS, profile.calibrate.batch_size);
        let rows = |batch: Vec<usize>| batch.into_iter().map(|index| part[index]).collect();
        batches.into_iter().map(|batch| CalibrationBatch { rows: rows(batch), watched }).collect()
    };
    [cut(true), cut(false)].concat()
}

/// Rows in all batches.
pub fn count(batches: &[CalibrationBatch]) -> usize {
    batches.iter().map(|batch| batch.rows.len()).sum()
}

impl Taps {
    /// All that calibration needs.
    pub fn all(inputs: &ModelInputs) -> Self {
        Taps { histograms: inputs.survey.observe.clone(), watched: inputs.survey.watch.clone() }
    }

    /// Nothing: plain forward passes.
    pub const fn none() -> Self {
        Taps { histograms: Vec::new(), watched: Vec::new() }
    }
}

/// The executor that calibration runs on, able to show these tensors.
pub fn executor(
    inputs: &ModelInputs,
    profile: &Profile,
    taps: &Taps,
) -> Result<EmbeddedExecutor, PipelineError> {
    let keep: Vec<String> = taps.histograms.iter().chain(&taps.watched).cloned().collect();
    inputs.executor(profile, &keep)
}

/// Runs the rows and fills an observer.
pub fn observe(
    inputs: &ModelInputs,
    executor: &dyn Executor,
    taps: &Taps,
    rows: &EncodedRows,
    batches: &[CalibrationBatch],
    progress: Progress,
) -> Result<(Observer, CalibrationTimings), PipelineError> {
    let mut observer = Observer::new(taps.histograms.iter().cloned(), taps.watched.iter().cloned());
    let every_tensor = observer.tensors();
    // By name, as the others, and once: several products may read one tensor.
    let histograms: Vec<String> = observer.histograms().keys().cloned().collect();
    let mut timings = CalibrationTimings::default();
    let stage: Stage = progress.stage("Calibrating", count(batches) as u64, "rows");
    for CalibrationBatch { rows: batch, watched } in batches {
        let names = if *watched { &every_tensor } else { &histograms };
        let mut encoded: Vec<_> = batch.iter().map(|&row| &rows.rows[row]).collect();
        // Products of a single row take another path in the executor (matrix times vector) with other rounding. A lone
        // row runs twice and is observed once, so that the table does not depend on how rows fall into batches.
        let copies = if encoded.len() == 1 { 2 } else { 1 };
        encoded.extend_from_within(..encoded.len() * (copies - 1));
        let bound = inputs.wiring.bind(&encoded, 0);
        let mut bad = None;
        let mut observing = Duration::ZERO;
        let start = Instant::now();
        executor.run_tapped(&bound, names, &mut |tensor, values| {
            let start = Instant::now();
            let values = &values[..values.len() / copies];
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
            smooth: 0.0,
        },
        tensors,
        ranges: observer.absmax(),
        channels: std::collections::BTreeMap::new(),
    })
}
