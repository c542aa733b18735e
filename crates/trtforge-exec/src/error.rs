//! What can go wrong when a model is loaded or run.

use miette::Diagnostic;
use thiserror::Error;
use trtforge_onnx::{ElementType, OnnxError};

/// Why a model was not loaded or not run.
#[derive(Debug, Diagnostic, Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The file is not a readable model.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Model(#[from] OnnxError),
    /// An operator, or the way it is used, is unknown to the embedded executor.
    #[error("node `{node}` ({operator}) cannot be run on the CPU: {detail}")]
    #[diagnostic(
        code(exec::unsupported),
        help(
            "replace the operator when exporting (a plain ONNX opset 13 to 21 without custom domains runs), or calibrate elsewhere and give the table as `calibrate.table`"
        )
    )]
    Unsupported {
        /// Name of the node, or its operator and output when it has none.
        node: String,
        /// Operator type.
        operator: String,
        /// What the executor said.
        detail: String,
    },
    /// The model as a whole was refused.
    #[error("the model cannot be loaded on the CPU: {detail}")]
    #[diagnostic(code(exec::load), help("check the model with `trtforge check`"))]
    Load {
        /// What the executor said.
        detail: String,
    },
    /// An input was not given.
    #[error("input `{input}` was not given")]
    #[diagnostic(code(exec::missing_input), help("the model needs: {}", wanted.join(", ")))]
    MissingInput {
        /// Name of the input.
        input: String,
        /// All inputs of the model.
        wanted: Vec<String>,
    },
    /// Something was given that is no input.
    #[error("the model has no input `{input}`")]
    #[diagnostic(code(exec::unknown_input), help("its inputs: {}", known.join(", ")))]
    UnknownInput {
        /// Name that was given.
        input: String,
        /// All inputs of the model.
        known: Vec<String>,
    },
    /// The same input was given twice.
    #[error("input `{input}` was given twice")]
    #[diagnostic(code(exec::duplicate_input), help("give each input once"))]
    DuplicateInput {
        /// Name of the input.
        input: String,
    },
    /// An input has elements that cannot become the declared type.
    #[error("input `{input}` is declared {declared:?} but {given:?} was given")]
    #[diagnostic(
        code(exec::wrong_type),
        help("give integers for ids and masks, FP32 for floating-point inputs")
    )]
    WrongType {
        /// Name of the input.
        input: String,
        /// Type in the model.
        declared: ElementType,
        /// Type of the value.
        given: ElementType,
    },
    /// An integer does not fit.
    #[error("input `{input}` holds {value}, which does not fit {declared:?}")]
    #[diagnostic(
        code(exec::out_of_range),
        help("ids must be valid row numbers of the model's tables")
    )]
    OutOfRange {
        /// Name of the input.
        input: String,
        /// The value.
        value: i64,
        /// Type it must fit, or 32 bits where the executor holds no more.
        declared: ElementType,
    },
    /// An input has the wrong number of dimensions or a wrong fixed size.
    #[error("input `{input}` has shape {given:?}, the model declares [{declared}]")]
    #[diagnostic(
        code(exec::shape_mismatch),
        help(
            "a model exported with fixed sizes runs at those only: export it with dynamic axes, or pad to them"
        )
    )]
    ShapeMismatch {
        /// Name of the input.
        input: String,
        /// Shape of the value.
        given: Vec<usize>,
        /// Shape in the model, symbols included.
        declared: String,
    },
    /// An operator failed on the values that reached it.
    #[error("node `{node}` ({operator}) failed: {detail}")]
    #[diagnostic(
        code(exec::operator),
        help(
            "check the shapes given against the model, and that ids lie inside its vocabulary and positions"
        )
    )]
    Operator {
        /// Name of the node, or its operator and output when it has none.
        node: String,
        /// Operator type.
        operator: String,
        /// What went wrong, with the shapes of the inputs.
        detail: String,
    },
    /// A tensor to be shown is not in the model.
    #[error("the model has no tensor `{tensor}`")]
    #[diagnostic(
        code(exec::unknown_tap),
        help("tap a float tensor that a node of the main graph produces")
    )]
    UnknownTap {
        /// Name that was given.
        tensor: String,
    },
    /// A tensor to be shown was optimized away.
    #[error("tensor `{tensor}` is computed inside a fused operator and cannot be shown")]
    #[diagnostic(code(exec::fused_tap), help("name it in `EmbeddedOptions::keep` when loading"))]
    FusedTap {
        /// Name of the tensor.
        tensor: String,
    },
    /// A tensor to be shown does not hold floats.
    #[error("tensor `{tensor}` does not hold floating-point values")]
    #[diagnostic(code(exec::not_float), help("only float tensors can be tapped"))]
    NotFloat {
        /// Name of the tensor.
        tensor: String,
    },
    /// A model output has a type that no [`Value`](crate::Value) holds.
    #[error("output `{output}` is not a tensor of a known type")]
    #[diagnostic(code(exec::output_type), help("models with sequence outputs are not supported"))]
    OutputType {
        /// Name of the output.
        output: String,
    },
    /// An engine takes no such shapes.
    #[error("{message}")]
    #[diagnostic(code(exec::no_profile), help("{help}"))]
    NoProfile {
        /// Which shapes, and what the engine takes.
        message: String,
        /// What to do.
        help: String,
    },
    /// The device or its library failed.
    #[error("{message}")]
    #[diagnostic(code(exec::device), help("{help}"))]
    Device {
        /// Which call, and why.
        message: String,
        /// What to do.
        help: String,
    },
}
