//! Why a loop ended early.

use thiserror::Error;
use trtforge_exec::ExecError;

use super::Stage;

/// What stopped a loop. `E` is the error of the host work.
#[derive(Debug, Error)]
pub enum OverlapError<E: std::error::Error + 'static> {
    /// The host work refused a row, or a batch that begins with it.
    #[error("{stage} failed on row {row}")]
    Host {
        /// From 0.
        row: usize,
        /// What was being done.
        stage: Stage,
        /// Why.
        #[source]
        source: E,
    },
    /// The device refused a batch.
    #[error("a batch of {rows} rows that begins with row {row} failed on the device")]
    Device {
        /// From 0.
        row: usize,
        /// Rows of the batch.
        rows: usize,
        /// Why.
        #[source]
        source: ExecError,
    },
    /// A fault of the program itself, caught so that all threads end.
    #[error("{stage} of row {row} panicked: {message}")]
    Panicked {
        /// From 0; the first of a batch.
        row: usize,
        /// What was being done.
        stage: Stage,
        /// What it said.
        message: String,
    },
    /// The host work gave more or fewer answers than rows.
    #[error("{answers} answers came back for a batch of {rows} rows that begins with row {row}")]
    Answers {
        /// From 0.
        row: usize,
        /// Rows of the batch.
        rows: usize,
        /// Answers.
        answers: usize,
    },
    /// The caller asked to stop.
    #[error("cancelled after {done} of {rows} rows")]
    Cancelled {
        /// Rows answered.
        done: usize,
        /// Rows in all.
        rows: usize,
    },
}

impl<E: std::error::Error + 'static> OverlapError<E> {
    /// The row at fault, or the first of the batch at fault.
    pub fn row(&self) -> Option<usize> {
        match self {
            Self::Host { row, .. }
            | Self::Device { row, .. }
            | Self::Panicked { row, .. }
            | Self::Answers { row, .. } => Some(*row),
            Self::Cancelled { .. } => None,
        }
    }
}

/// What a caught panic said.
pub(super) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
