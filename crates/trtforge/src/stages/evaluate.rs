//! `evaluate`: the logits of every evaluation row, batched by length and put back in the order of the file.

use std::fs;
use std::path::Path;

use trtforge_data::Encoded;
use trtforge_diagnose::overlap::{
    BatchOptions, Control, HostClock, HostWork, OverlapOptions, PadTo, run_overlapped,
};
use trtforge_evaluate::{EvaluateError, Prediction, Scored, outcomes};
use trtforge_exec::{Executor, NamedValue};

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
        Padding::Longest => PadTo::Longest,
        Padding::MaxLength => PadTo::Fixed(max_length),
    };
    let stage = progress.stage(&format!("Evaluating {name}"), rows.rows.len() as u64, "rows");
    // All rows are sorted together. They are tokenized already, so one worker keeps ahead of any device.
    let batches = BatchOptions { rows: section.batch_size, window: usize::MAX, padding };
    let options = OverlapOptions { batches, workers: 1, record: false };
    let control = Control { advance: &|rows| stage.advance(rows as u64), ..Control::none() };
    let work = Evaluating { wiring, rows: &rows.rows };
    Ok(run_overlapped(&work, &HostClock(executor), &options, control)?.answers)
}

/// Rows that are tokenized, on their way through the model.
struct Evaluating<'e> {
    wiring: &'e Wiring,
    rows: &'e [Encoded],
}

impl<'e> HostWork for Evaluating<'e> {
    type Row = &'e Encoded;
    type Answer = Prediction;
    type Error = PipelineError;

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn tokenize(&self, row: usize) -> Result<&'e Encoded, PipelineError> {
        Ok(&self.rows[row])
    }

    fn length(&self, row: &&'e Encoded) -> usize {
        row.ids.len()
    }

    fn collate(
        &self,
        rows: &[&&'e Encoded],
        length: usize,
    ) -> Result<Vec<NamedValue>, PipelineError> {
        let rows: Vec<&Encoded> = rows.iter().map(|row| **row).collect();
        Ok(self.wiring.bind(&rows, length))
    }

    fn answer(
        &self,
        outputs: Vec<NamedValue>,
        rows: &[&&'e Encoded],
        _length: usize,
    ) -> Result<Vec<Prediction>, PipelineError> {
        let logits = self.wiring.logits(outputs, rows.len())?;
        Ok(logits.into_iter().map(|logits| Prediction { logits }).collect())
    }
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
