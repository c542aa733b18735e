//! Rewriting a model to FP16 wherever that is safe.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_onnx::Model;

use crate::QuantizeError;
use crate::account::account;
use crate::analysis::Analysis;
use crate::bounds::Bounds;
use crate::decision::Rewritten;
use crate::existing::refuse_quantized;
use crate::mask::masked_tensors;
use crate::precision::{Evidence, assign};
use crate::rewrite::Rewriter;

/// How cautious the FP16 rewrite is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HalfOptions {
    /// An activation stays FP32 when the largest magnitude calibration saw, times this, passes 65504: rows that
    /// calibration did not see may reach further.
    pub headroom: f32,
}

impl Default for HalfOptions {
    fn default() -> Self {
        Self { headroom: 2.0 }
    }
}

/// Rewrites a model to FP16: weights, constants and activations, except where FP16 would change the answers.
///
/// Names and types of graph inputs and outputs stay. What stays FP32 inside, each with a decision: normalizations in
/// small operators, sums of many values, arithmetic on shapes, what exceeds FP16 in constants or in calibration, and
/// operators without a known FP16 form. A `LayerNormalization` operator becomes FP16, since ONNX computes its statistics
/// in FP32 (`stash_type`) whatever its type, unless its input is so large that a runtime which does not would overflow.
///
/// - `absmax`: largest magnitudes that calibration saw, at least of [`crate::Survey::watch`] and `observe`; what is
///   missing is taken to fit, with a warning.
pub fn to_half(
    model: &Model,
    absmax: &BTreeMap<String, f32>,
    options: &HalfOptions,
) -> Result<Rewritten, QuantizeError> {
    refuse_quantized(model)?;
    let analysis = Analysis::new(model);
    let masked = masked_tensors(&analysis);
    let bounds = Bounds::new(&analysis, absmax, &masked);
    let evidence = Evidence {
        bounds: &bounds,
        masked: &masked,
        headroom: options.headroom,
        forced: &BTreeMap::new(),
        int8_inputs: &BTreeSet::new(),
    };
    let compute = assign(&analysis, model.opset(), &evidence);
    let mut rewriter = Rewriter::new(model, &analysis, &compute, &masked);
    rewriter.apply(&BTreeSet::new());
    let account = account(&rewriter, &bounds, &BTreeSet::new());
    let model = rewriter.finish()?;
    let (decisions, warnings) = (account.decisions, account.warnings);
    Ok(Rewritten { model, decisions, warnings, scales: vec![] })
}
