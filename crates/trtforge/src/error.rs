//! Every way a command can fail, and the exit code of each.

use miette::Diagnostic;
use thiserror::Error;
use trtforge_diagnose::overlap::OverlapError;
use trtforge_tensorrt::ErrorKind;

use crate::commands::CompareInputError;
use crate::init::InitError;
use crate::inputs::InputError;
use crate::profile::ProfileError;
use crate::readout::ReadoutError;
use crate::run_folder::RunFolderError;
use crate::scheduler::SchedulerError;
use crate::stages::exchange::ImportError;
use crate::stages::lengths::LengthsError;
use crate::stages::predictions::PredictionsError;
use crate::stages::shard::ShardRunError;
use crate::store::StoreError;

/// The gate refused an engine, or had too little evidence.
pub const REFUSED: u8 = 1;
/// Profile, model, data or output folder is at fault.
pub const BAD_INPUT: u8 = 2;
/// TensorRT or a GPU is missing.
pub const MISSING: u8 = 3;
/// A library failed on good input.
pub const LIBRARY: u8 = 4;

/// Someone asked to stop (128 and the number of SIGINT, as shells count).
pub const INTERRUPTED: u8 = 130;

/// What stopped a command.
#[derive(Debug, Diagnostic, Error)]
pub enum PipelineError {
    /// See [`ProfileError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Profile(#[from] ProfileError),
    /// See [`CompareInputError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    CompareInput(#[from] CompareInputError),
    /// See [`trtforge_report::CompareError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Compare(#[from] trtforge_report::CompareError),
    /// See [`InitError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Init(#[from] InitError),
    /// See [`InputError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Input(#[from] InputError),
    /// See [`PredictionsError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Predictions(#[from] PredictionsError),
    /// See [`RunFolderError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    RunFolder(#[from] RunFolderError),
    /// See [`ReadoutError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Readout(#[from] ReadoutError),
    /// See [`StoreError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Store(#[from] StoreError),
    /// See [`trtforge_onnx::OnnxError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Onnx(#[from] trtforge_onnx::OnnxError),
    /// See [`trtforge_data::DataError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Data(#[from] trtforge_data::DataError),
    /// See [`trtforge_data::FeedError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Feed(#[from] trtforge_data::FeedError),
    /// See [`trtforge_exec::ExecError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Exec(#[from] trtforge_exec::ExecError),
    /// See [`trtforge_calibrate::CalibrateError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Calibrate(#[from] trtforge_calibrate::CalibrateError),
    /// See [`trtforge_calibrate::TableError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Table(#[from] trtforge_calibrate::TableError),
    /// See [`trtforge_calibrate::PartError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Part(#[from] trtforge_calibrate::PartError),
    /// See [`trtforge_calibrate::CacheError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Cache(#[from] trtforge_calibrate::CacheError),
    /// See [`ImportError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Import(#[from] ImportError),
    /// See [`ShardRunError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Shard(#[from] ShardRunError),
    /// See [`SchedulerError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Scheduler(#[from] SchedulerError),
    /// See [`trtforge_quantize::QuantizeError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Quantize(#[from] trtforge_quantize::QuantizeError),
    /// See [`trtforge_tensorrt::TensorRtError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    TensorRt(#[from] trtforge_tensorrt::TensorRtError),
    /// See [`trtforge_tensorrt::PlanError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] trtforge_tensorrt::PlanError),
    /// See [`trtforge_evaluate::EvaluateError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Evaluate(#[from] trtforge_evaluate::EvaluateError),
    /// See [`trtforge_diagnose::DiagnoseError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Diagnose(#[from] trtforge_diagnose::DiagnoseError),
    /// See [`LengthsError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Lengths(#[from] LengthsError),
    /// A loop over rows ended early; `row` counts from 0.
    #[error("{what}")]
    #[diagnostic(
        code(run::internal),
        help("this is a fault of trtforge itself: please report it with this message")
    )]
    Loop {
        /// In words, with the row.
        what: String,
    },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted during {during}")]
    #[diagnostic(
        code(run::interrupted),
        help(
            "nothing half-written was left, and what was published is as before; run the same command again to go on from the last finished stage"
        )
    )]
    Interrupted {
        /// The stage.
        during: String,
    },
    /// See [`trtforge_search::SearchError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Search(#[from] trtforge_search::SearchError),
    /// See [`trtforge_report::RecordError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Record(#[from] trtforge_report::RecordError),
    /// A calibration row made a tensor NaN or infinite.
    #[error("tensor `{tensor}` is NaN or infinite for calibration row {line}")]
    #[diagnostic(
        code(calibrate::not_finite),
        help(
            "the FP32 model itself gives this value; look at that row and at the model's weights{weights}"
        )
    )]
    NotFinite {
        /// The tensor.
        tensor: String,
        /// Line in the calibration file.
        line: usize,
        /// Weights known to hold NaN, for the help.
        weights: String,
    },
}

impl PipelineError {
    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            PipelineError::TensorRt(error) => of_kind(error.kind()),
            PipelineError::Plan(error) => of_kind(error.kind()),
            PipelineError::Exec(trtforge_exec::ExecError::Device { .. })
            | PipelineError::Loop { .. } => LIBRARY,
            PipelineError::Interrupted { .. } => INTERRUPTED,
            _ => BAD_INPUT,
        }
    }
}

fn of_kind(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Missing => MISSING,
        ErrorKind::BadInput => BAD_INPUT,
        ErrorKind::Failed | ErrorKind::Cancelled => LIBRARY,
    }
}

impl From<OverlapError<PipelineError>> for PipelineError {
    /// Errors of rows and of the executor say themselves what is wrong; the rest is a fault of the program.
    fn from(error: OverlapError<PipelineError>) -> Self {
        match error {
            OverlapError::Host { source, .. } => source,
            OverlapError::Device { source, .. } => source.into(),
            OverlapError::Cancelled { .. } => {
                PipelineError::Interrupted { during: "a pass over the rows".to_owned() }
            }
            other => PipelineError::Loop { what: other.to_string() },
        }
    }
}
