//! `evaluate`: the logits of every evaluation row, batched by length and put back in the order of the file.

use std::fs;
use std::path::Path;

use trtforge_data::padded_batches;
use trtforge_evaluate::{EvaluateError, Prediction, Scored, outcomes};
use trtforge_exec::Executor;

use crate::error::PipelineError;
use crate::inputs::{EncodedRows, Wiring};
use crate::profile::{EvaluateSection, Padding};
use crate::progress::Progress;
use crate::store::{Artifact, Fingerprint, Store, StoreError, write_atomic};

/// Runs all rows.
///
/// The result does not depend on the batching: rows are independent of each other and of padding in an encoder.
pub fn predict(
    executor: &dyn Executor,
    wiring: &Wiring,
    rows: &EncodedRows,
    section: EvaluateSection,
    max_length: usize,
    name: &str,
    progress: Progress,
) -> Result<Vec<Prediction>, PipelineError> {
    let padding = match section.padding {
        Padding::Longest => trtforge_data::Padding::LongestInBatch,
        Padding::MaxLength => trtforge_data::Padding::Fixed(max_length),
    };
    let stage = progress.stage(&format!("Evaluating {name}"), rows.rows.len() as u64, "rows");
    let mut predictions = vec![Prediction { logits: Vec::new() }; rows.rows.len()];
    for batch in padded_batches(&rows.lengths(), section.batch_size, padding, true) {
        let encoded: Vec<_> = batch.rows.iter().map(|&row| &rows.rows[row]).collect();
        let bound = wiring.bind(&encoded, batch.length);
        let logits = wiring.logits(executor.run(&bound)?, batch.rows.len())?;
        for (&row, logits) in batch.rows.iter().zip(logits) {
            predictions[row] = Prediction { logits };
        }
        stage.advance(batch.rows.len() as u64);
    }
    Ok(predictions)
}

/// Finds or makes the predictions of one graph. They are kept as little-endian `f32`, so that NaN survives.
pub fn predictions(
    store: &Store,
    fingerprint: &Fingerprint,
    labels: usize,
    run: impl FnOnce() -> Result<Vec<Prediction>, PipelineError>,
) -> Result<(Vec<Prediction>, Artifact), PipelineError> {
    let artifact = store.obtain(fingerprint, "logits", |path| {
        let predictions = run()?;
        let values = predictions.iter().flat_map(|prediction| &prediction.logits);
        let bytes: Vec<u8> = values.flat_map(|value| value.to_le_bytes()).collect();
        write_atomic(path, &bytes).map_err(PipelineError::from)
    })?;
    Ok((read_predictions(&artifact.path, labels)?, artifact))
}

fn read_predictions(path: &Path, labels: usize) -> Result<Vec<Prediction>, StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io("read", path))?;
    let values: Vec<f32> = bytes
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect();
    Ok(values.chunks(labels).map(|logits| Prediction { logits: logits.to_vec() }).collect())
}

/// Scores every row against what is right.
pub fn scored(labels: &[usize], predictions: &[Prediction]) -> Result<Scored, EvaluateError> {
    Ok(Scored::Classes(outcomes(labels, predictions)?))
}
