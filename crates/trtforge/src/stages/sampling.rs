//! Which rows calibrate, and in what batches.

use trtforge_calibrate::RowSet;
use trtforge_data::{equal_length_batches, sample};

use crate::inputs::EncodedRows;
use crate::profile::Profile;

/// Tokens of one forward pass at most. Observed tensors are held until the pass ends, so this bounds memory: a
/// BERT-base holds a quarter of a MiB a token.
const TOKENS_PER_PASS: usize = 256;

/// Of the sampled rows, one in this many is watched for FP16 overflow. Watched tensors are many and large, holding them
/// costs an eighth of a pass, and what they decide has a factor of two to spare.
const WATCHED_ONE_IN: usize = 8;

/// Rows of a watched pass at most: with so much to hold, full batches would raise the peak of memory.
const WATCHED_ROWS: usize = 2;

/// Rows of one length that run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalibrationBatch {
    /// Rows of the data set.
    pub rows: Vec<usize>,
    /// Whether watched tensors are looked at.
    pub watched: bool,
}

/// A sampled row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledRow {
    /// Row of the data set.
    pub row: usize,
    /// Its position in the sample, from 0.
    pub position: usize,
}

/// The rows to calibrate on, sampled as the profile says, in the order of the file.
pub fn sampled(rows: &EncodedRows, profile: &Profile) -> Vec<SampledRow> {
    let data = &profile.calibration;
    let chosen = sample(&rows.lengths(), data.samples, data.seed, data.strategy);
    chosen.into_iter().enumerate().map(|(position, row)| SampledRow { row, position }).collect()
}

/// Lines of the data file whose rows were sampled.
pub fn lines(rows: &EncodedRows, sampled: &[SampledRow]) -> RowSet {
    sampled.iter().map(|sampled| rows.numbers[sampled.row]).collect()
}

/// Cuts sampled rows into batches of equal length, so that no padding and no masked position enters the statistics.
/// Which rows are watched depends on their place in the whole sample alone, not on the batches or on who runs them.
pub fn plan(
    rows: &EncodedRows,
    profile: &Profile,
    sampled: &[SampledRow],
) -> Vec<CalibrationBatch> {
    let part = |watched: bool| -> Vec<usize> {
        let wanted =
            |sampled: &&SampledRow| sampled.position.is_multiple_of(WATCHED_ONE_IN) == watched;
        sampled.iter().filter(wanted).map(|sampled| sampled.row).collect()
    };
    let cut = |watched: bool| -> Vec<CalibrationBatch> {
        let part = part(watched);
        let part_lengths: Vec<usize> = part.iter().map(|&row| rows.rows[row].ids.len()).collect();
        let most =
            profile.calibrate.batch_size.min(if watched { WATCHED_ROWS } else { usize::MAX });
        let batches = equal_length_batches(&part_lengths, TOKENS_PER_PASS, most);
        let rows = |batch: Vec<usize>| batch.into_iter().map(|index| part[index]).collect();
        batches.into_iter().map(|batch| CalibrationBatch { rows: rows(batch), watched }).collect()
    };
    [cut(true), cut(false)].concat()
}

/// Rows in all batches.
pub fn count(batches: &[CalibrationBatch]) -> usize {
    batches.iter().map(|batch| batch.rows.len()).sum()
}
