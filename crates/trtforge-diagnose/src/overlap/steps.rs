//! The steps of both loops, each timed, and guarded against panics.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use trtforge_exec::NamedValue;

use super::batches::{BatchOptions, plan};
use super::error::panic_message;
use super::measured::{BatchShape, Log};
use super::{Device, DeviceRun, HostWork, OverlapError, Stage};

/// A row that was tokenized.
pub struct Prepared<R> {
    pub row: usize,
    pub length: usize,
    pub tokens: R,
    /// When its tokenization was begun.
    pub begun: Instant,
}

/// Rows that run together.
pub struct Batch<R> {
    pub rows: Vec<Prepared<R>>,
    pub length: usize,
}

impl<R> Batch<R> {
    pub fn first(&self) -> usize {
        self.rows.first().map_or(0, |row| row.row)
    }

    fn tokens(&self) -> Vec<&R> {
        self.rows.iter().map(|row| &row.tokens).collect()
    }

    pub fn shape(&self) -> BatchShape {
        BatchShape {
            rows: self.rows.len(),
            length: self.length,
            real_tokens: self.rows.iter().map(|row| row.length).sum(),
        }
    }
}

/// Runs a step and turns a panic in it into an error, so that no thread waits for one that is gone.
fn guarded<T, E: std::error::Error + 'static>(
    stage: Stage,
    row: usize,
    step: impl FnOnce() -> Result<T, OverlapError<E>>,
) -> Result<T, OverlapError<E>> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|payload| {
        Err(OverlapError::Panicked { row, stage, message: panic_message(&*payload) })
    })
}

pub fn tokenize<W: HostWork>(
    work: &W,
    rows: Range<usize>,
    log: &mut Log,
) -> Result<Vec<Prepared<W::Row>>, OverlapError<W::Error>> {
    let begun = Instant::now();
    let one = |row| {
        guarded(Stage::Tokenize, row, || {
            let tokens = work.tokenize(row).map_err(|source| OverlapError::Host {
                row,
                stage: Stage::Tokenize,
                source,
            })?;
            Ok(Prepared { row, length: work.length(&tokens), tokens, begun })
        })
    };
    let prepared = rows.map(one).collect();
    log.note(Stage::Tokenize, begun);
    prepared
}

/// Cuts the rows of a window, in order, into batches.
pub fn cut<R>(window: Vec<Prepared<R>>, options: &BatchOptions) -> Vec<Batch<R>> {
    let lengths: Vec<usize> = window.iter().map(|row| row.length).collect();
    let mut rows: Vec<Option<Prepared<R>>> = window.into_iter().map(Some).collect();
    let batch = |planned: super::batches::Planned| Batch {
        rows: planned.members.into_iter().filter_map(|member| rows[member].take()).collect(),
        length: planned.length,
    };
    plan(&lengths, options).into_iter().map(batch).collect()
}

pub fn collate<W: HostWork>(
    work: &W,
    batch: &Batch<W::Row>,
    log: &mut Log,
) -> Result<Vec<NamedValue>, OverlapError<W::Error>> {
    let (start, row, stage) = (Instant::now(), batch.first(), Stage::Collate);
    let collated = guarded(stage, row, || {
        work.collate(&batch.tokens(), batch.length).map_err(|source| OverlapError::Host {
            row,
            stage,
            source,
        })
    });
    log.note(stage, start);
    collated
}

pub fn run_device<R, E: std::error::Error + 'static>(
    device: &dyn Device,
    batch: &Batch<R>,
    inputs: &[NamedValue],
    log: &mut Log,
) -> Result<DeviceRun, OverlapError<E>> {
    let (start, row) = (Instant::now(), batch.first());
    let run = guarded(Stage::Device, row, || {
        let rows = batch.rows.len();
        device.run(inputs).map_err(|source| OverlapError::Device { row, rows, source })
    });
    log.note(Stage::Device, start);
    run
}

pub fn answer<W: HostWork>(
    work: &W,
    batch: &Batch<W::Row>,
    outputs: Vec<NamedValue>,
    log: &mut Log,
) -> Result<Vec<W::Answer>, OverlapError<W::Error>> {
    let (start, row, stage) = (Instant::now(), batch.first(), Stage::PostProcess);
    let answers = guarded(stage, row, || {
        let answers = work
            .answer(outputs, &batch.tokens(), batch.length)
            .map_err(|source| OverlapError::Host { row, stage, source })?;
        let rows = batch.rows.len();
        if answers.len() != rows {
            return Err(OverlapError::Answers { row, rows, answers: answers.len() });
        }
        Ok(answers)
    });
    log.note(stage, start);
    answers
}
