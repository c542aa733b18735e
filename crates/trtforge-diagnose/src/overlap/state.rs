//! What the threads of an overlapped loop share: who may do what next, and how far ahead.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use trtforge_exec::NamedValue;

use super::batches::BatchOptions;
use super::steps::{Batch, Prepared, cut};
use super::{HostWork, Measured, OverlapError};

/// How far ahead of the device the host may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows a worker tokenizes at once.
    pub piece: usize,
    /// Rows begun and not yet on the device.
    pub ahead: usize,
    /// Batches collated, or about to be, and not yet on the device.
    pub ready: usize,
    /// Batches off the device and without answers.
    pub outputs: usize,
}

impl Limits {
    /// One window fills while another is used up, every worker has a piece, and the device's next batch lies ready. More would only make
    /// rows wait longer.
    pub fn new(options: &BatchOptions, rows: usize, workers: usize) -> Self {
        let (batch, window) = (options.batch_rows(), options.window_rows(rows));
        Self {
            piece: batch.min(rows.max(1)),
            ahead: window.saturating_add(batch.saturating_mul(workers + 1)),
            ready: 2,
            outputs: workers + 1,
        }
    }
}

/// What a worker does next.
pub enum Job<R> {
    Tokenize(Range<usize>),
    Collate(usize, Batch<R>),
    Answer(Batch<R>, Vec<NamedValue>),
    /// Nothing now; something may come.
    Wait,
    /// Nothing any more.
    Leave,
}

/// What the device does next.
pub enum Turn<R> {
    Run(Batch<R>, Vec<NamedValue>),
    Wait,
    Leave,
}

/// Everything between the queues, under one lock that is never held while anything is worked on.
pub struct State<W: HostWork> {
    rows: usize,
    limits: Limits,
    /// Next row to tokenize.
    next_row: usize,
    /// Pieces by their first row, waiting for those before them.
    pieces: BTreeMap<usize, Vec<Prepared<W::Row>>>,
    /// Rows in order that are not planned yet.
    window: Vec<Prepared<W::Row>>,
    /// Rows that ever went into `window`.
    gathered: usize,
    planned: VecDeque<(usize, Batch<W::Row>)>,
    /// Batches ever planned.
    batches: usize,
    collating: usize,
    ready: BTreeMap<usize, (Batch<W::Row>, Vec<NamedValue>)>,
    /// Next batch of the device.
    next_batch: usize,
    /// Rows that went to the device.
    sent: usize,
    outputs: VecDeque<(Batch<W::Row>, Vec<NamedValue>)>,
    pub answered: usize,
    pub answers: Vec<Option<W::Answer>>,
    pub measured: Measured,
    pub failure: Option<OverlapError<W::Error>>,
    cancelled: bool,
}

impl<W: HostWork> State<W> {
    pub fn new(rows: usize, limits: Limits, record: bool) -> Self {
        let kept = if record { rows } else { 0 };
        let measured = Measured {
            lengths: vec![0; kept],
            latencies: vec![Duration::ZERO; kept],
            ..Measured::default()
        };
        Self {
            rows,
            limits,
            next_row: 0,
            pieces: BTreeMap::new(),
            window: Vec::new(),
            gathered: 0,
            planned: VecDeque::new(),
            batches: 0,
            collating: 0,
            ready: BTreeMap::new(),
            next_batch: 0,
            sent: 0,
            outputs: VecDeque::new(),
            answered: 0,
            answers: (0..rows).map(|_| None).collect(),
            measured,
            failure: None,
            cancelled: false,
        }
    }

    /// Later stages first, so that what is begun is finished before more is begun.
    pub fn next_job(&mut self, cancelled: bool) -> Job<W::Row> {
        self.cancelled |= cancelled;
        if self.is_over() {
            return Job::Leave;
        }
        if let Some((batch, outputs)) = self.outputs.pop_front() {
            return Job::Answer(batch, outputs);
        }
        if self.ready.len() + self.collating < self.limits.ready
            && let Some((index, batch)) = self.planned.pop_front()
        {
            self.collating += 1;
            return Job::Collate(index, batch);
        }
        if self.next_row < self.rows && self.next_row - self.sent < self.limits.ahead {
            let first = self.next_row;
            self.next_row = self.rows.min(first + self.limits.piece);
            return Job::Tokenize(first..self.next_row);
        }
        Job::Wait
    }

    /// The device takes batches in the order in which they were planned.
    pub fn next_turn(&mut self, cancelled: bool) -> Turn<W::Row> {
        self.cancelled |= cancelled;
        if self.is_over() || self.sent == self.rows {
            return Turn::Leave;
        }
        if self.outputs.len() >= self.limits.outputs {
            return Turn::Wait;
        }
        match self.ready.remove(&self.next_batch) {
            Some((batch, inputs)) => {
                self.next_batch += 1;
                self.sent += batch.rows.len();
                Turn::Run(batch, inputs)
            }
            None => Turn::Wait,
        }
    }

    /// Nothing new begins after this.
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    fn is_over(&self) -> bool {
        self.cancelled || self.failure.is_some() || self.answered == self.rows
    }

    /// Takes tokenized rows; full windows, and what is left at the end, become batches.
    pub fn tokenized(&mut self, piece: Vec<Prepared<W::Row>>, options: &BatchOptions) {
        let Some(first) = piece.first().map(|row| row.row) else { return };
        self.pieces.insert(first, piece);
        let full = options.window_rows(self.rows);
        while let Some(piece) = self.pieces.remove(&self.gathered) {
            self.gathered += piece.len();
            for row in piece {
                self.window.push(row);
                if self.window.len() == full {
                    self.plan(options);
                }
            }
        }
        if self.gathered == self.rows {
            self.plan(options);
        }
    }

    fn plan(&mut self, options: &BatchOptions) {
        for batch in cut(std::mem::take(&mut self.window), options) {
            self.planned.push_back((self.batches, batch));
            self.batches += 1;
        }
    }

    pub fn collated(&mut self, index: usize, batch: Batch<W::Row>, inputs: Vec<NamedValue>) {
        self.collating -= 1;
        self.ready.insert(index, (batch, inputs));
    }

    pub fn ran(&mut self, batch: Batch<W::Row>, outputs: Vec<NamedValue>) {
        self.measured.batches.push(batch.shape());
        self.outputs.push_back((batch, outputs));
    }

    pub fn answered(&mut self, batch: Batch<W::Row>, answers: Vec<W::Answer>) {
        self.answered += batch.rows.len();
        for (row, answer) in batch.rows.into_iter().zip(answers) {
            self.answers[row.row] = Some(answer);
            if let Some(latency) = self.measured.latencies.get_mut(row.row) {
                *latency = row.begun.elapsed();
                self.measured.lengths[row.row] = row.length;
            }
        }
    }

    /// Of several failures the one of the earliest row is kept: what the blocking loop would have met first.
    pub fn failed(&mut self, error: OverlapError<W::Error>) {
        if self.failure.as_ref().is_none_or(|known| error.row() < known.row()) {
            self.failure = Some(error);
        }
    }

    /// How a loop that has ended came out.
    pub fn outcome(&mut self) -> Result<Vec<W::Answer>, OverlapError<W::Error>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.answered < self.rows {
            return Err(OverlapError::Cancelled { done: self.answered, rows: self.rows });
        }
        Ok(std::mem::take(&mut self.answers).into_iter().flatten().collect())
    }
}
