//! Which ONNX operators have an FP16 form that computes the same, and which are better left in FP32.

use trtforge_onnx::attr_i;
use trtforge_onnx::proto::NodeProto;

/// How an operator takes to FP16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HalfForm {
    /// All its float inputs and outputs may be FP16.
    Yes,
    /// It takes any type and its result does not depend on it: no cast is ever needed.
    AnyInput,
    /// Better or only in FP32, for this reason.
    No(&'static str),
}

/// The FP16 form of a node of the default domain (other domains have none that we know of).
pub(crate) fn half_form(node: &NodeProto, opset: i64) -> HalfForm {
    if !matches!(node.domain(), "" | "ai.onnx") {
        return HalfForm::No("an operator of another domain: its FP16 form is unknown");
    }
    match node.op_type() {
        "Shape" | "Size" => HalfForm::AnyInput,
        "Cast" => cast_form(node),
        "LayerNormalization" | "RMSNormalization" => normalization_form(node),
        "ReduceMean" | "ReduceSum" | "ReduceL1" | "ReduceL2" | "ReduceSumSquare" | "ReduceProd"
        | "ReduceLogSum" | "ReduceLogSumExp" | "CumSum" | "GlobalAveragePool" => {
            HalfForm::No("a sum of many values: FP16 would overflow or lose the small ones")
        }
        "Sin" | "Cos" | "Tan" => {
            HalfForm::No("angles grow with the position: FP16 cannot hold them")
        }
        "Range" => HalfForm::No("FP16 cannot count past 2048"),
        "IsInf" if opset < 20 => HalfForm::No("IsInf takes FP16 from opset 20 on"),
        "If" | "Loop" | "Scan" => {
            HalfForm::No("control flow: the nodes in its branches stay as they are")
        }
        op if is_plain(op) => HalfForm::Yes,
        _ => HalfForm::No("no FP16 form of this operator is known to be safe"),
    }
}

/// Element-wise operators, products, and those that only move values.
fn is_plain(op: &str) -> bool {
    moves_values(op)
        || is_elementwise(op)
        || matches!(
            op,
            "MatMul"
                | "Gemm"
                | "Einsum"
                | "Conv"
                | "Softmax"
                | "LogSoftmax"
                | "ReduceMax"
                | "ReduceMin"
                | "TopK"
                | "ArgMax"
                | "ArgMin"
                | "ConstantOfShape"
                | "OneHot"
                | "NonZero"
        )
}

/// Operators whose float outputs hold only values of their float inputs.
pub(crate) fn moves_values(op: &str) -> bool {
    matches!(
        op,
        "Reshape"
            | "Transpose"
            | "Squeeze"
            | "Unsqueeze"
            | "Flatten"
            | "Concat"
            | "Split"
            | "Slice"
            | "Gather"
            | "GatherElements"
            | "GatherND"
            | "ScatterElements"
            | "ScatterND"
            | "Expand"
            | "Tile"
            | "Pad"
            | "Identity"
            | "Dropout"
            | "Trilu"
            | "Where"
            | "Compress"
            | "ReverseSequence"
    )
}

/// Operators that compute each output value from one value of each input.
pub(crate) fn is_elementwise(op: &str) -> bool {
    matches!(
        op,
        "Add"
            | "Sub"
            | "Mul"
            | "Div"
            | "Neg"
            | "Abs"
            | "Sqrt"
            | "Reciprocal"
            | "Pow"
            | "Exp"
            | "Log"
            | "Erf"
            | "Tanh"
            | "Sigmoid"
            | "Relu"
            | "LeakyRelu"
            | "PRelu"
            | "Elu"
            | "Selu"
            | "Celu"
            | "Gelu"
            | "Softplus"
            | "Softsign"
            | "HardSigmoid"
            | "HardSwish"
            | "Mish"
            | "ThresholdedRelu"
            | "Clip"
            | "Min"
            | "Max"
            | "Sum"
            | "Mean"
            | "Round"
            | "Floor"
            | "Ceil"
            | "Sign"
            | "Equal"
            | "Less"
            | "LessOrEqual"
            | "Greater"
            | "GreaterOrEqual"
            | "IsNaN"
            | "IsInf"
    )
}

fn cast_form(node: &NodeProto) -> HalfForm {
    const TO_HALF_TOO: [i64; 3] = [1, 9, 10]; // float32, bool, float16
    match attr_i(node, "to") {
        Some(to) if TO_HALF_TOO.contains(&to) => HalfForm::Yes,
        _ => HalfForm::No("a conversion to another type, exact only from FP32"),
    }
}

/// ONNX computes the statistics in `stash_type`, FP32 by default, whatever the type of the data.
fn normalization_form(node: &NodeProto) -> HalfForm {
    match attr_i(node, "stash_type") {
        None | Some(1) => HalfForm::Yes,
        Some(_) => HalfForm::No("its statistics are not declared FP32 (`stash_type`)"),
    }
}
