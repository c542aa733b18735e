//! What there is to quantize in a model, and what calibration must look at for it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use trtforge_onnx::Model;

use crate::analysis::Analysis;
use crate::bounds::Bounds;
use crate::existing::refuse_quantized;
use crate::gemm::{WeightedGemm, weighted_gemms};
use crate::mask::masked_tensors;
use crate::precision::always_single;
use crate::site::{Site, sites};
use crate::{Level, QuantizeError};

/// The findings about one FP32 model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Survey {
    /// Every MatMul and Gemm with a constant weight, in graph order, those that are never quantized included.
    pub gemms: Vec<WeightedGemm>,
    /// Tensors that need a histogram at level `gemm`, in graph order.
    pub observe: Vec<String>,
    /// Further tensors that need one at level `attention`: Q, Kᵀ and V. Softmax outputs need none, see [`crate::SOFTMAX_SCALE`].
    pub attention: Vec<String>,
    /// Further tensors that need one at level `residual`, besides those of the levels below.
    pub residual: Vec<String>,
    /// Tensors whose largest magnitude FP16 needs to know, in graph order; the bounds of all others follow from these.
    pub watch: Vec<String>,
    /// Tensors that see the attention mask's sentinel: never observed, never quantized.
    pub masked: BTreeSet<String>,
}

impl Survey {
    /// Tensors that need a histogram at a level: those of the levels below first, each in graph order.
    pub fn observe_at(&self, level: Level) -> Vec<String> {
        let more: [&[String]; 2] = match level {
            Level::Gemm => [&[], &[]],
            Level::Attention => [&self.attention, &[]],
            Level::Residual => [&self.attention, &self.residual],
        };
        self.observe.iter().chain(more.into_iter().flatten()).cloned().collect()
    }

    /// Tensors of [`Survey::watch`] that are not observed at a level anyway.
    pub fn watch_at(&self, level: Level) -> Vec<String> {
        let observed: BTreeSet<String> = self.observe_at(level).into_iter().collect();
        self.watch.iter().filter(|name| !observed.contains(*name)).cloned().collect()
    }
}

/// Looks a model over; refuses one that is quantized already.
pub fn survey(model: &Model) -> Result<Survey, QuantizeError> {
    refuse_quantized(model)?;
    let analysis = Analysis::new(model);
    let masked = masked_tensors(&analysis);
    let gemms = weighted_gemms(&analysis, &masked);
    let observe = observed(&gemms);
    let single = always_single(&analysis, model.opset());
    let exempt = only_between(&analysis, &single);
    let watch = Bounds::to_watch(&analysis, &observe.iter().cloned().collect(), &masked, &exempt);
    let mut seen: BTreeSet<String> = observe.iter().cloned().collect();
    let sites = sites(&analysis, &gemms, &masked, Level::Residual);
    let mut further = |level: Level| -> Vec<String> {
        let tensors = sites.iter().filter(|site| site.level == level).flat_map(Site::observe);
        tensors.filter(|name| seen.insert((*name).clone())).cloned().collect()
    };
    let (attention, residual) = (further(Level::Attention), further(Level::Residual));
    Ok(Survey { gemms, observe, attention, residual, watch, masked })
}

fn observed(gemms: &[WeightedGemm]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let candidates = gemms.iter().filter(|gemm| gemm.barred.is_none());
    candidates.map(|gemm| &gemm.activation).filter(|name| seen.insert(*name)).cloned().collect()
}

/// Tensors that FP32 nodes make and only FP32 nodes read.
fn only_between(analysis: &Analysis, single: &BTreeSet<usize>) -> BTreeSet<String> {
    let mut between = BTreeSet::new();
    for &node in single {
        for output in &analysis.nodes()[node].output {
            if analysis.readers(output).iter().all(|reader| single.contains(reader)) {
                between.insert(output.clone());
            }
        }
    }
    between
}

/// Scales and magnitudes by tensor name, as a calibration found them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scales {
    /// Model units per INT8 level.
    pub scale: BTreeMap<String, f32>,
    /// Largest magnitude seen.
    pub absmax: BTreeMap<String, f32>,
}

impl Scales {
    /// Min-max scales: the largest magnitude becomes level 127.
    pub fn min_max(absmax: BTreeMap<String, f32>) -> Self {
        let scale = absmax.iter().map(|(name, max)| (name.clone(), max / 127.0)).collect();
        Self { scale, absmax }
    }
}

impl From<&trtforge_calibrate::CalibrationTable> for Scales {
    fn from(table: &trtforge_calibrate::CalibrationTable) -> Self {
        let seen = table.tensors.iter().map(|(name, tensor)| (name.clone(), tensor.absmax));
        let watched = table.ranges.iter().map(|(name, &absmax)| (name.clone(), absmax));
        Self {
            scale: table.tensors.iter().map(|(name, t)| (name.clone(), t.scale)).collect(),
            absmax: watched.chain(seen).collect(),
        }
    }
}
