//! Everything that can be wrong with a model file, a graph, or a change to one.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::element::ElementType;

/// Why a model could not be read, understood, changed or written.
#[derive(Debug, Diagnostic, Error)]
#[expect(missing_docs, reason = "the message of each variant names its fields")]
pub enum OnnxError {
    #[error("cannot {action} `{}`: {source}", path.display())]
    #[diagnostic(code(onnx::io), help("check the path, its permissions and the free space"))]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },

    #[error("`{}` is {found}, not an ONNX model", path.display())]
    #[diagnostic(code(onnx::not_onnx), help("{advice}"))]
    NotOnnx { path: PathBuf, found: &'static str, advice: &'static str },

    #[error("`{}` ({bytes} bytes) cannot be decoded as ONNX: {reason}", path.display())]
    #[diagnostic(
        code(onnx::malformed),
        help(
            "the file is cut short, damaged or not ONNX at all: copy or export it again and compare its size"
        )
    )]
    Malformed { path: PathBuf, bytes: u64, reason: String },

    #[error("the model has no {what}")]
    #[diagnostic(
        code(onnx::incomplete),
        help("export the model again; `onnx.checker.check_model` shows the same fault")
    )]
    Incomplete { what: String },

    #[error("external data of tensor `{tensor}` lies in `{location}`, {fault}")]
    #[diagnostic(
        code(onnx::external_location),
        help(
            "external data must be a relative path to a file in the model's own folder or below it; move the file there and save the model again"
        )
    )]
    ExternalLocation { tensor: String, location: String, fault: &'static str },

    #[error("external data file `{}` of tensor `{tensor}` cannot be opened: {source}", path.display())]
    #[diagnostic(
        code(onnx::external_missing),
        help("copy the data file next to the model, under the name the model gives it")
    )]
    ExternalMissing { tensor: String, path: PathBuf, source: std::io::Error },

    #[error(
        "external data of tensor `{tensor}` is out of range: bytes {offset}..{offset}+{length} of `{}`, whose size is {size} bytes{note}",
        path.display()
    )]
    #[diagnostic(
        code(onnx::external_range),
        help(
            "the data file is truncated or belongs to another model: copy it again and compare its size"
        )
    )]
    ExternalRange {
        tensor: String,
        path: PathBuf,
        offset: u64,
        length: u64,
        size: u64,
        note: &'static str,
    },

    #[error("external data entry `{key}` of tensor `{tensor}` is `{value}`, expected {expected}")]
    #[diagnostic(code(onnx::external_entry), help("export the model again"))]
    ExternalEntry { tensor: String, key: String, value: String, expected: &'static str },

    #[error(
        "tensor `{tensor}` has {found} bytes of data where {expected} are needed for {element_type} {dims:?}"
    )]
    #[diagnostic(
        code(onnx::tensor_size),
        help("the file is damaged, or its shape or type was edited without its data")
    )]
    TensorSize {
        tensor: String,
        element_type: String,
        dims: Vec<i64>,
        found: u64,
        expected: String,
    },

    #[error("tensor `{tensor}` is {found}, expected {expected}")]
    #[diagnostic(
        code(onnx::tensor_type),
        help("this value cannot be read as the type the operation needs")
    )]
    TensorType { tensor: String, found: String, expected: &'static str },

    #[error("node `{node}` reads `{tensor}`, which nothing produces")]
    #[diagnostic(
        code(onnx::dangling),
        help(
            "the graph is incomplete: a node, an input or an initializer of that name is missing"
        )
    )]
    Dangling { node: String, tensor: String },

    #[error("graph output `{tensor}` is produced by nothing")]
    #[diagnostic(
        code(onnx::output_missing),
        help("an output must be a node output, a graph input or an initializer")
    )]
    OutputMissing { tensor: String },

    #[error("tensor `{tensor}` is defined twice: by {first} and by {second}")]
    #[diagnostic(
        code(onnx::duplicate),
        help("every tensor needs exactly one source; rename one of them")
    )]
    Duplicate { tensor: String, first: String, second: String },

    #[error("node `{node}` ({operator}) needs inputs of one type, but {first} and {second}")]
    #[diagnostic(code(onnx::mixed_types), help("a `Cast` is missing in front of one of them"))]
    MixedTypes { node: String, operator: String, first: String, second: String },

    #[error("graph output `{tensor}` is declared as {declared}, but is {found}")]
    #[diagnostic(
        code(onnx::output_type),
        help("a `Cast` is missing in front of it, or the declaration is wrong")
    )]
    OutputType { tensor: String, declared: ElementType, found: ElementType },

    #[error("nodes form a cycle: {}", nodes.join(" -> "))]
    #[diagnostic(
        code(onnx::cycle),
        help("a graph must be acyclic; cut the loop or use the `Loop` operator")
    )]
    Cycle { nodes: Vec<String> },

    #[error("node `{node}` reads `{tensor}` before `{producer}` produces it")]
    #[diagnostic(
        code(onnx::unsorted),
        help("nodes must be in topological order; `Patch::finish` sorts them")
    )]
    Unsorted { node: String, tensor: String, producer: String },

    #[error("node `{node}` is from operator domain `{domain}`, which `opset_import` does not list")]
    #[diagnostic(
        code(onnx::opset_missing),
        help("the model must state the operator-set version of every domain it uses")
    )]
    OpsetMissing { node: String, domain: String },

    #[error("the model has no operator-set version for the default domain")]
    #[diagnostic(
        code(onnx::no_opset),
        help("`opset_import` must list the default domain; export the model again")
    )]
    NoOpset,

    #[error("operator set {found} is outside of what can be converted, {from} to {to}")]
    #[diagnostic(
        code(onnx::opset_range),
        help("export the model with an operator set between {from} and {to}")
    )]
    OpsetRange { found: i64, from: i64, to: i64 },

    #[error(
        "node `{node}` ({operator}) cannot be converted from operator set {from} to {to}: {reason}"
    )]
    #[diagnostic(code(onnx::convert), help("export the model with operator set {to} or later"))]
    Convert { node: String, operator: String, from: i64, to: i64, reason: String },

    #[error(
        "the model would be {bytes} bytes without its external weights; a protobuf file holds at most {limit}"
    )]
    #[diagnostic(
        code(onnx::too_large),
        help("constants inside nodes stay in the file: turn the large ones into initializers")
    )]
    TooLarge { bytes: u64, limit: u64 },

    #[error("a change to the graph is wrong: {reason}")]
    #[diagnostic(
        code(onnx::patch),
        help("this is a fault of the rewriting step, not of the model: please report it")
    )]
    Patch { reason: String },
}

impl OnnxError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: std::io::Error,
    ) -> Self {
        Self::Io { action, path: path.into(), source }
    }
}
