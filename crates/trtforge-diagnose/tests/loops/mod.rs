//! Host work and devices made up for tests: they sleep instead of working, so that a busy machine changes little.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use ndarray::{ArrayD, IxDyn};
use thiserror::Error;
use trtforge_diagnose::overlap::{Device, DeviceRun, EventTimes, HostWork};
use trtforge_exec::{ExecError, NamedValue, Value};

#[derive(Debug, Error, PartialEq)]
#[error("row {0} is bad")]
pub struct BadRow(pub usize);

/// Rows of given lengths; row `r` holds the tokens `r + 1, r + 1, …`, so that its answer is `length · (r + 1)`.
#[derive(Default)]
pub struct Work {
    pub lengths: Vec<usize>,
    /// Slept for every row.
    pub tokenizer: Duration,
    /// Slept for every batch.
    pub post_process: Duration,
    pub bad: Vec<usize>,
    pub panics: Option<usize>,
    pub answers_short: bool,
    pub tokenized: AtomicUsize,
}

impl Work {
    pub fn of(lengths: Vec<usize>) -> Self {
        Self { lengths, ..Self::default() }
    }
}

pub struct Row {
    pub length: usize,
    pub token: i64,
}

impl HostWork for Work {
    type Row = Row;
    type Answer = f32;
    type Error = BadRow;

    fn rows(&self) -> usize {
        self.lengths.len()
    }

    fn tokenize(&self, row: usize) -> Result<Row, BadRow> {
        self.tokenized.fetch_add(1, Ordering::SeqCst);
        if !self.tokenizer.is_zero() {
            sleep(self.tokenizer);
        }
        if self.bad.contains(&row) {
            return Err(BadRow(row));
        }
        assert!(self.panics != Some(row), "a bug at row {row}");
        Ok(Row { length: self.lengths[row], token: row as i64 + 1 })
    }

    fn length(&self, row: &Row) -> usize {
        row.length
    }

    fn collate(&self, rows: &[&Row], length: usize) -> Result<Vec<NamedValue>, BadRow> {
        let mut ids = ArrayD::zeros(IxDyn(&[rows.len(), length]));
        for (index, row) in rows.iter().enumerate() {
            for at in 0..row.length {
                ids[[index, at]] = row.token;
            }
        }
        Ok(vec![("ids".to_owned(), Value::I64(ids))])
    }

    fn answer(
        &self,
        outputs: Vec<NamedValue>,
        rows: &[&Row],
        _length: usize,
    ) -> Result<Vec<f32>, BadRow> {
        if !self.post_process.is_zero() {
            sleep(self.post_process);
        }
        let sums = outputs[0].1.as_f32().expect("the mock gives floats");
        Ok(sums.iter().copied().take(rows.len() - usize::from(self.answers_short)).collect())
    }
}

/// Sums the tokens of each row.
#[derive(Default)]
pub struct Sums {
    /// Slept for every batch.
    pub batch: Duration,
    /// Slept for every token of a batch, padding included.
    pub token: Duration,
    /// Slept in the call besides, unseen by the device's clock.
    pub waits: Duration,
    /// Whether the device has a clock.
    pub clock: bool,
    pub fails_at: Option<usize>,
    pub panics_at: Option<usize>,
    pub batches: AtomicUsize,
    pub rows: AtomicUsize,
}

impl Device for Sums {
    fn run(&self, inputs: &[NamedValue]) -> Result<DeviceRun, ExecError> {
        let Value::I64(ids) = &inputs[0].1 else { panic!("ids are integers") };
        let batch = self.batches.fetch_add(1, Ordering::SeqCst);
        self.rows.fetch_add(ids.shape()[0], Ordering::SeqCst);
        if self.fails_at == Some(batch) {
            return Err(ExecError::Load { detail: "the device is gone".to_owned() });
        }
        assert!(self.panics_at != Some(batch), "a bug in batch {batch}");
        let compute = self.batch + self.token * ids.len() as u32;
        if !(compute + self.waits).is_zero() {
            sleep(compute + self.waits);
        }
        let sums: Vec<f32> = ids.outer_iter().map(|row| row.sum() as f32).collect();
        let sums = ArrayD::from_shape_vec(vec![sums.len(), 1], sums).expect("one sum a row");
        let events = self.clock.then(|| EventTimes { compute, ..EventTimes::default() });
        Ok(DeviceRun { outputs: vec![("sums".to_owned(), Value::F32(sums))], events })
    }
}
