//! What can go wrong in a search.

use miette::Diagnostic;
use thiserror::Error;
use trtforge_calibrate::CalibrateError;
use trtforge_evaluate::EvaluateError;
use trtforge_exec::ExecError;
use trtforge_onnx::OnnxError;
use trtforge_quantize::QuantizeError;

/// Why a search gave up.
#[derive(Debug, Diagnostic, Error)]
pub enum SearchError {
    /// A variant could not be run.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Exec(#[from] ExecError),
    /// A variant could not be made.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Quantize(#[from] QuantizeError),
    /// A graph could not be changed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Onnx(#[from] OnnxError),
    /// Logits of two models cannot be compared.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Evaluate(#[from] EvaluateError),
    /// A variant was to be run without a scale that it needs.
    #[error("no scale was chosen for tensor `{tensor}`")]
    #[diagnostic(
        code(search::no_scale),
        help(
            "the tensor is quantized but was not calibrated: calibrate again with this model and `quantize` section"
        )
    )]
    NoScale {
        /// Name of the tensor.
        tensor: String,
    },
    /// No threshold could be derived.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Calibrate(#[from] CalibrateError),
}
