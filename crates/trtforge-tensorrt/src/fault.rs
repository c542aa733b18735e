//! An error of TensorRT's ONNX parser, with what to do about it.

use std::path::Path;

use miette::Diagnostic;
use thiserror::Error;
use trtforge_onnx::{Model, node_label};
use trtforge_tensorrt_sys as sys;
use trtforge_tensorrt_sys::constants::rtx::nvonnxparser_ErrorCode as code;

use crate::log::is_noise;

/// One error of the ONNX parser.
#[derive(Debug, Clone, PartialEq, Eq, Diagnostic, Error)]
#[error("{}{description} [{code}]", place(node.as_deref(), operator))]
#[diagnostic(code(tensorrt::parser), help("{help}"))]
pub struct ParserFault {
    /// The node's name in the model, or its operator and output where it has none.
    pub node: Option<String>,
    /// The node's place in the graph.
    pub index: Option<usize>,
    /// The ONNX operator, empty when the fault is of no node.
    pub operator: String,
    /// TensorRT's name of the kind of error, such as `UNSUPPORTED_NODE`.
    pub code: &'static str,
    /// What TensorRT says.
    pub description: String,
    /// What to do about it.
    pub help: &'static str,
}

fn place(node: Option<&str>, operator: &str) -> String {
    match node {
        Some(node) if operator.is_empty() => format!("node `{node}`: "),
        Some(node) => format!("node `{node}` ({operator}): "),
        None => String::new(),
    }
}

impl ParserFault {
    /// The parser's faults in terms of the model at `path`.
    pub(crate) fn describe(
        raw: Vec<sys::ParserFault>,
        model: Option<&Model>,
        path: &Path,
    ) -> Vec<ParserFault> {
        let file = path.to_string_lossy();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let scrub = |text: &str| text.replace(&*file, &name);
        raw.into_iter().map(|fault| ParserFault::of(fault, model, &scrub)).collect()
    }

    fn of(raw: sys::ParserFault, model: Option<&Model>, scrub: &dyn Fn(&str) -> String) -> Self {
        // A fault of the whole model comes with index −1, or with index 0 and no operator.
        let index = usize::try_from(raw.node).ok().filter(|_| !raw.node_operator.is_empty());
        let description = scrub(&meaning(&raw.description));
        ParserFault {
            node: index.map(|index| label(&raw, index, model)),
            index,
            help: advice(raw.code, &description),
            operator: raw.node_operator,
            code: code_name(raw.code),
            description,
        }
    }
}

fn label(raw: &sys::ParserFault, index: usize, model: Option<&Model>) -> String {
    if !raw.node_name.is_empty() {
        return raw.node_name.clone();
    }
    // The parser may count differently in a graph that is not sorted: believe it only where the operator agrees.
    model
        .and_then(|model| model.graph_proto().node.get(index))
        .filter(|node| node.op_type() == raw.node_operator)
        .map_or_else(|| format!("{}#{index}", raw.node_operator), |node| node_label(node, index))
}

/// The lines of a description that say something: not its repeated heading, not the missing GPU.
fn meaning(description: &str) -> String {
    let lines: Vec<&str> = description.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let telling: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| !is_noise(line) && !line.starts_with("Invalid Node - "))
        .collect();
    if telling.is_empty() { lines.join("; ") } else { telling.join("; ") }
}

fn code_name(number: i32) -> &'static str {
    match number {
        code::kINTERNAL_ERROR => "INTERNAL_ERROR",
        code::kMEM_ALLOC_FAILED => "MEM_ALLOC_FAILED",
        code::kMODEL_DESERIALIZE_FAILED => "MODEL_DESERIALIZE_FAILED",
        code::kINVALID_VALUE => "INVALID_VALUE",
        code::kINVALID_GRAPH => "INVALID_GRAPH",
        code::kINVALID_NODE => "INVALID_NODE",
        code::kUNSUPPORTED_GRAPH => "UNSUPPORTED_GRAPH",
        code::kUNSUPPORTED_NODE => "UNSUPPORTED_NODE",
        code::kUNSUPPORTED_NODE_ATTR => "UNSUPPORTED_NODE_ATTR",
        code::kUNSUPPORTED_NODE_INPUT => "UNSUPPORTED_NODE_INPUT",
        code::kUNSUPPORTED_NODE_DATATYPE => "UNSUPPORTED_NODE_DATATYPE",
        code::kUNSUPPORTED_NODE_DYNAMIC => "UNSUPPORTED_NODE_DYNAMIC",
        code::kUNSUPPORTED_NODE_SHAPE => "UNSUPPORTED_NODE_SHAPE",
        code::kREFIT_FAILED => "REFIT_FAILED",
        _ => "UNKNOWN",
    }
}

/// What helps, first by what the message says, then by its kind.
fn advice(number: i32, description: &str) -> &'static str {
    const NO_OPERATOR: &str = "TensorRT has no such operator: export the model without it, or with operators of the default ONNX domain";
    const BY_WORDS: [(&str, &str); 6] = [
        ("Plugin not found", NO_OPERATOR),
        (
            "input has type Int32 but must have type",
            "biases must not be quantized: remove the QuantizeLinear/DequantizeLinear pair of this bias and keep it in floating point",
        ),
        (
            "Non-zero zero point",
            "TensorRT quantizes symmetrically: write INT8 with every zero point 0",
        ),
        (
            "Scale coefficients must all be positive",
            "calibrate again: a scale of zero or below means a tensor without signal",
        ),
        (
            "must have same input types",
            "the network is strongly typed: insert a Cast so that both inputs have one type",
        ),
        (
            "must have identical types",
            "the network is strongly typed: insert a Cast so that all inputs have one type",
        ),
    ];
    let by_words = BY_WORDS.iter().find(|(words, _)| description.contains(words));
    if let Some((_, help)) = by_words {
        return help;
    }
    match number {
        code::kMODEL_DESERIALIZE_FAILED => {
            "the file is no ONNX model, is cut short, or its external data is missing: `trtforge check` says which"
        }
        code::kUNSUPPORTED_NODE => NO_OPERATOR,
        code::kUNSUPPORTED_NODE_DATATYPE => "cast this node's inputs to a type that TensorRT has",
        code::kUNSUPPORTED_NODE_DYNAMIC => {
            "fix the dimension that this node needs to know when the plan is built"
        }
        code::kMEM_ALLOC_FAILED => "free memory, or build on a machine with more of it",
        _ => {
            "`trtforge check` says whether the model is valid; if it is, export it with a newer opset"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(
        code: i32,
        node: i32,
        name: &str,
        operator: &str,
        description: &str,
    ) -> sys::ParserFault {
        sys::ParserFault {
            code,
            node,
            node_name: name.to_owned(),
            node_operator: operator.to_owned(),
            description: description.to_owned(),
            functions: Vec::new(),
        }
    }

    fn described(raw: sys::ParserFault) -> ParserFault {
        ParserFault::of(raw, None, &str::to_owned)
    }

    #[test]
    fn a_quantized_bias_is_named_without_the_noise() {
        let text = "Invalid Node - DQb\nITensor::getDimensions: Error Code 4: API Usage Error (DQb: input has type \
                    Int32 but must have type FP8)\n[checkMacros.cpp::catchCudaError::250] (cudaError 35: driver)";
        let fault = described(raw(code::kINVALID_NODE, 3, "DQb", "DequantizeLinear", text));
        assert_eq!(
            fault.to_string(),
            "node `DQb` (DequantizeLinear): ITensor::getDimensions: Error Code 4: API Usage Error (DQb: input has \
             type Int32 but must have type FP8) [INVALID_NODE]"
        );
        assert!(fault.help.contains("biases"), "{}", fault.help);
    }

    #[test]
    fn a_nameless_node_has_its_operator_and_place() {
        let fault = described(raw(code::kUNSUPPORTED_NODE, 7, "", "Frobnicate", "no importer"));
        assert_eq!(
            fault.to_string(),
            "node `Frobnicate#7` (Frobnicate): no importer [UNSUPPORTED_NODE]"
        );
        assert_eq!(fault.index, Some(7));
    }

    #[test]
    fn a_fault_of_the_model_names_no_node() {
        let fault = described(raw(code::kMODEL_DESERIALIZE_FAILED, -1, "", "", "cannot be read"));
        assert_eq!(fault.to_string(), "cannot be read [MODEL_DESERIALIZE_FAILED]");
        assert_eq!((fault.node, fault.index), (None, None));
    }
}
