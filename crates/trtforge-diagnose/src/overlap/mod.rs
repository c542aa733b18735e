//! A loop over a device whose host work runs ahead of it.
//!
//! What flows: rows are tokenized by workers, in order and in pieces; full windows of them are sorted by length and cut into batches;
//! workers collate these; the calling thread runs them one after another on the device, which thus always has its next batch at hand; and
//! workers turn outputs into answers, which come back in the order of the rows. Every queue is bounded.
//!
//! Batches depend on the rows and the options alone, never on timing, and [`run_blocking`] makes the same ones: answers are the same to
//! the bit for any number of workers.

mod batches;
mod blocking;
mod device;
mod error;
mod measured;
mod pool;
mod state;
mod steps;

pub use batches::{BatchOptions, PadTo};
pub use blocking::run_blocking;
pub use device::{Device, DeviceRun, EventTimes, HostClock, device_only};
pub use error::OverlapError;
pub use measured::{BatchShape, Finished, Measured, Stage, StageSpan, StageTimes};
pub use pool::run_overlapped;

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

use trtforge_exec::NamedValue;

/// What the host does with rows before and after the device.
///
/// Called from several threads at once, each row and batch once.
pub trait HostWork: Sync {
    /// A row that is ready to be collated.
    type Row: Send;
    /// What becomes of a row.
    type Answer: Send;
    /// Why a row is at fault.
    type Error: Error + Send + 'static;

    /// How many rows there are.
    fn rows(&self) -> usize;

    /// Prepares one row.
    fn tokenize(&self, row: usize) -> Result<Self::Row, Self::Error>;

    /// Tokens of a row, which decide about its batch.
    fn length(&self, row: &Self::Row) -> usize;

    /// The inputs of a batch, padded to `length` tokens.
    fn collate(&self, rows: &[&Self::Row], length: usize) -> Result<Vec<NamedValue>, Self::Error>;

    /// The answer of each row of a batch that was padded to `length`, in order.
    fn answer(
        &self,
        outputs: Vec<NamedValue>,
        rows: &[&Self::Row],
        length: usize,
    ) -> Result<Vec<Self::Answer>, Self::Error>;
}

/// How a loop runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlapOptions {
    /// What goes together.
    pub batches: BatchOptions,
    /// Threads for host work; at least one runs.
    pub workers: usize,
    /// Keep every span and latency, for drawings and percentiles; sums are always kept.
    pub record: bool,
}

/// How a caller follows and ends a loop.
#[derive(Clone, Copy)]
pub struct Control<'c> {
    /// Once true, nothing new begins, all threads are joined and the loop ends with [`OverlapError::Cancelled`].
    pub cancelled: &'c AtomicBool,
    /// Called on the calling thread with the rows of each batch that went through the device.
    pub advance: &'c dyn Fn(usize),
}

impl Control<'_> {
    /// Nobody watches, nobody cancels.
    pub fn none() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Control { cancelled: &NEVER, advance: &|_| {} }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
