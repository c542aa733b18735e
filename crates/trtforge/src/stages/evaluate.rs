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
use crate::profile::{EvaluateSection, Padding, Profile};
use crate::progress::Progress;
use crate::store::{Artifact, Fingerprint, Store, StoreError, write_atomic};

/// What rows run through.
#[derive(Clone, Copy)]
pub struct Through<'e> {
    /// The model.
    pub executor: &'e dyn Executor,
    /// Its inputs and outputs.
    pub wiring: &'e Wiring,
    /// Batches and padding.
    pub section: EvaluateSection,
    /// Tokens of a row at most.
    pub max_length: usize,
    /// The length that the model takes for one that a batch asks for; an engine has its ranges.
    pub length: &'e (dyn Fn(usize) -> usize + Sync),
}

impl<'e> Through<'e> {
    /// A model that takes every length.
    pub fn any(executor: &'e dyn Executor, wiring: &'e Wiring, profile: &Profile) -> Self {
        let (section, max_length) = (profile.evaluate, profile.max_length);
        Through { executor, wiring, section, max_length, length: &|length| length }
    }

    /// Runs all rows; the prediction of a row is what its runs gave, one after the other.
    pub fn predict_rows(
        &self,
        rows: &EvaluationRows,
        name: &str,
        progress: Progress,
    ) -> Result<Vec<Prediction>, PipelineError> {
        Ok(joined(&self.predict(&rows.runs, name, progress)?, &rows.spans))
    }

    /// Runs everything that goes through the model, one prediction for each run.
    ///
    /// The result does not depend on the batching: rows are independent of each other and of padding in an encoder.
    fn predict(
        &self,
        rows: &EncodedRows,
        name: &str,
        progress: Progress,
    ) -> Result<Vec<Prediction>, PipelineError> {
        let padding = match self.section.padding {
            Padding::Longest => PadTo::Longest,
            Padding::MaxLength => PadTo::Fixed(self.max_length),
        };
        let stage = progress.stage(&format!("Evaluating {name}"), rows.rows.len() as u64, "rows");
        // All rows are sorted together. They are tokenized already, so one worker keeps ahead of any device.
        let batches = BatchOptions { rows: self.section.batch_size, window: usize::MAX, padding };
        let options = OverlapOptions { batches, workers: 1, record: false };
        let control =
            Control { advance: &|rows| stage.advance(rows as u64), cancelled: interrupt::asked() };
        let work = Evaluating { through: self, rows: &rows.rows };
        Ok(run_overlapped(&work, &HostClock(self.executor), &options, control)?.answers)
    }
}

fn joined(runs: &[Prediction], spans: &[Range<usize>]) -> Vec<Prediction> {
    let logits = |span: &Range<usize>| {
        runs[span.clone()].iter().flat_map(|run| &run.logits).copied().collect()
    };
    spans.iter().map(|span| Prediction { logits: logits(span) }).collect()
}

/// Rows that are tokenized, on their way through the model.
struct Evaluating<'e> {
    through: &'e Through<'e>,
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
        Ok(self.through.wiring.bind(&rows, (self.through.length)(length)))
    }

    fn answer(
        &self,
        outputs: Vec<NamedValue>,
        rows: &[&&'e Encoded],
        length: usize,
    ) -> Result<Vec<Prediction>, PipelineError> {
        let rows: Vec<&Encoded> = rows.iter().map(|row| **row).collect();
        let length = (self.through.length)(length);
        let logits = self.through.wiring.readout.read(&outputs, &rows, length)?;
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
