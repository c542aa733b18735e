//! Operator-set versions and the file-format versions that carry them.

use crate::error::OnnxError;
use crate::model::Model;
use crate::patch::Patch;

/// Converts a model to a newer default operator set, keeping what it computes.
pub fn convert_opset(model: &Model, target: i64) -> Result<Model, OnnxError> {
    let mut patch = Patch::new(model);
    patch.set_opset(target);
    patch.finish()
}

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
