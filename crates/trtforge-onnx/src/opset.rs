//! Operator-set versions: which file-format version carries them, and which operators each of them changed.

/// The lowest `ir_version` that may carry a default operator set, as onnx's own version table has it.
pub fn minimum_ir_version(opset: i64) -> i64 {
    // (first operator set, ir_version), newest first.
    const TABLE: [(i64, i64); 11] = [
        (28, 14),
        (25, 13),
        (24, 12),
        (23, 11),
        (21, 10),
        (19, 9),
        (15, 8),
        (12, 7),
        (11, 6),
        (10, 5),
        (9, 4),
    ];
    TABLE.iter().find(|row| opset >= row.0).map_or(3, |row| row.1)
}

/// How a node of an older operator set is written in the version that changed its operator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// An attribute became an input.
    AxesInput,
    SplitInput,
    SliceInputs,
    TopKInput,
    PadInputs,
    ClipInputs,
    DftAxisInput,
    /// An attribute that must now be stated.
    SplitCount,
    RoiAlignMode,
    /// Something else.
    SoftmaxAxis,
    DropoutInference,
    NoSpatial,
    OneOutput,
    GridSampleModes,
    Renamed(&'static str),
    Refused(&'static str),
}

/// Operator, the version that changed it, how; from the change log of the ONNX operators, versions 8 to 21. Operators mostly only
/// gain types and optional attributes; such changes need nothing and are not here.
pub(crate) const RULES: [(&str, i64, Rule); 37] = [
    ("BatchNormalization", 9, Rule::NoSpatial),
    (
        "Upsample",
        9,
        Rule::Refused("its scales became an input, and the operator was replaced by Resize later"),
    ),
    ("Scan", 9, Rule::Refused("its batch dimension was removed")),
    ("Slice", 10, Rule::SliceInputs),
    ("TopK", 10, Rule::TopKInput),
    ("Upsample", 10, Rule::Refused("it was replaced by Resize")),
    ("Clip", 11, Rule::ClipInputs),
    ("Pad", 11, Rule::PadInputs),
    ("Scatter", 11, Rule::Renamed("ScatterElements")),
    ("Resize", 11, Rule::Refused("its coordinate arithmetic changed")),
    ("Dropout", 12, Rule::DropoutInference),
    ("ReduceSum", 13, Rule::AxesInput),
    ("Squeeze", 13, Rule::AxesInput),
    ("Unsqueeze", 13, Rule::AxesInput),
    ("Split", 13, Rule::SplitInput),
    ("Softmax", 13, Rule::SoftmaxAxis),
    ("LogSoftmax", 13, Rule::SoftmaxAxis),
    ("Hardmax", 13, Rule::SoftmaxAxis),
    ("Resize", 13, Rule::Refused("its inputs and one of its modes changed")),
    ("BatchNormalization", 14, Rule::OneOutput),
    ("RoiAlign", 16, Rule::RoiAlignMode),
    ("ReduceL1", 18, Rule::AxesInput),
    ("ReduceL2", 18, Rule::AxesInput),
    ("ReduceLogSum", 18, Rule::AxesInput),
    ("ReduceLogSumExp", 18, Rule::AxesInput),
    ("ReduceMax", 18, Rule::AxesInput),
    ("ReduceMean", 18, Rule::AxesInput),
    ("ReduceMin", 18, Rule::AxesInput),
    ("ReduceProd", 18, Rule::AxesInput),
    ("ReduceSumSquare", 18, Rule::AxesInput),
    ("Split", 18, Rule::SplitCount),
    ("DFT", 20, Rule::DftAxisInput),
    ("GridSample", 20, Rule::GridSampleModes),
    ("GroupNormalization", 21, Rule::Refused("its scale and bias became per channel")),
    // Experimental operators of old exporters that no operator set defines any more.
    ("ConstantFill", 8, Rule::Refused("it is experimental")),
    ("Affine", 8, Rule::Refused("it is experimental")),
    ("Crop", 8, Rule::Refused("it is experimental")),
];
