//! `evaluate`: the logits of every evaluation row, batched by length and put back in the order of the file.

use std::fs;
use std::ops::Range;
use std::path::Path;

use trtforge_data::Encoded;
use trtforge_diagnose::overlap::{
    BatchOptions, Control, HostClock, HostWork, OverlapOptions, PadTo, run_overlapped,
};
use trtforge_evaluate::Prediction;
use trtforge_exec::{Executor, NamedValue};

use crate::error::PipelineError;
use crate::inputs::{EncodedRows, EvaluationRows, Wiring};
use crate::interrupt;
use crate::profile::{EvaluateSection, Padding};
use crate::progress::Progress;
use crate::store::{Artifact, Fingerprint, Store, StoreError, write_atomic};

/// Runs all rows; the prediction of a row is what its runs gave, one after the other.
pub fn predict_rows(
    executor: &dyn Executor,
    wiring: &Wiring,
    rows: &EvaluationRows,
    section: EvaluateSection,
    max_length: usize,
    name: &str,
    progress: Progress,
) -> Result<Vec<Prediction>, PipelineError> {
    let runs = predict(executor, wiring, &rows.runs, section, max_length, name, progress)?;
    Ok(joined(&runs, &rows.spans))
}

fn joined(runs: &[Prediction], spans: &[Range<usize>]) -> Vec<Prediction> {
    let logits = |span: &Range<usize>| {
        runs[span.clone()].iter().flat_map(|run| &run.logits).copied().collect()
    };
    spans.iter().map(|span| Prediction { logits: logits(span) }).collect()
}

/// Runs everything that goes through the model, one prediction for each run.
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
    let control =
        Control { advance: &|rows| stage.advance(rows as u64), cancelled: interrupt::asked() };
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
        length: usize,
    ) -> Result<Vec<Prediction>, PipelineError> {
        let rows: Vec<&Encoded> = rows.iter().map(|row| **row).collect();
        let logits = self.wiring.readout.read(&outputs, &rows, length)?;
        Ok(logits.into_iter().map(|logits| Prediction { logits }).collect())
    }
}

/// Finds or makes the predictions of one graph. Each row is its number of values and the values, little-endian `u32` and `f32`, so that
/// rows may differ in length and NaN survives.
pub fn predictions(
    store: &Store,
    fingerprint: &Fingerprint,
    run: impl FnOnce() -> Result<Vec<Prediction>, PipelineError>,
) -> Result<(Vec<Prediction>, Artifact), PipelineError> {
    let fingerprint = fingerprint.clone().with("rows", "of any length");
    let artifact = store.obtain(&fingerprint, "logits", |path| {
        write_atomic(path, &to_bytes(&run()?)).map_err(PipelineError::from)
    })?;
    Ok((read_predictions(&artifact.path)?, artifact))
}

fn to_bytes(predictions: &[Prediction]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Prediction { logits } in predictions {
        bytes.extend((logits.len() as u32).to_le_bytes());
        bytes.extend(logits.iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes
}

fn from_bytes(mut bytes: &[u8]) -> Option<Vec<Prediction>> {
    let mut predictions = Vec::new();
    while let Some((count, rest)) = bytes.split_first_chunk::<4>() {
        let count = u32::from_le_bytes(*count) as usize;
        let (row, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
        let value = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        predictions.push(Prediction { logits: row.chunks_exact(4).map(value).collect() });
        bytes = rest;
    }
    bytes.is_empty().then_some(predictions)
}

fn read_predictions(path: &Path) -> Result<Vec<Prediction>, StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io("read", path))?;
    from_bytes(&bytes).ok_or_else(|| {
        let damaged = std::io::Error::new(std::io::ErrorKind::InvalidData, "it is damaged");
        StoreError::io("read", path)(damaged)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[f32]]) -> Vec<Prediction> {
        rows.iter().map(|logits| Prediction { logits: logits.to_vec() }).collect()
    }

    #[test]
    fn rows_of_any_length_round_trip() {
        let all = rows(&[&[1.5, -0.0], &[], &[f32::NAN, f32::INFINITY, 3.0]]);
        let back = from_bytes(&to_bytes(&all)).unwrap();
        let bits = |rows: &[Prediction]| -> Vec<Vec<u32>> {
            rows.iter().map(|row| row.logits.iter().map(|v| v.to_bits()).collect()).collect()
        };
        assert_eq!(bits(&back), bits(&all));
        let bytes = to_bytes(&all);
        for end in 1..bytes.len() {
            let kept = from_bytes(&bytes[..end]);
            assert!(kept.is_none_or(|kept| kept.len() < 3), "cut at {end}");
        }
    }

    #[test]
    fn runs_are_joined_in_the_order_of_their_rows() {
        let joined = joined(&rows(&[&[1.0], &[2.0, 3.0], &[4.0]]), &[0..1, 1..3, 3..3]);
        assert_eq!(joined, rows(&[&[1.0], &[2.0, 3.0, 4.0], &[]]));
    }
}
