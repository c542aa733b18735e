//! SmoothQuant: moving the spread of an activation's channels into the weights that read it, before calibration.
//!
//! ```text
//! X ─────────────► MatMul(X, W)        X ─► X/s ─► MatMul(X/s, s·W)
//! ```
//!
//! Source: Xiao et al. 2022, arXiv:2211.10438. One channel forty times the others leaves them three of seven bits when
//! the tensor has one scale; a weight has a scale per output channel and loses little. Every factor here is a power of
//! two, so that the FP32 model's outputs stay the same to the bit (below FP32's normal range aside).
//!
//! - `groups`: which readers share an activation, and so its factors.
//! - `factors`: the factors of one group.
//! - `fold`: producers that can divide by the factors themselves, so that no node is needed.
//! - `edits`: constants scaled along an axis, copied where someone else reads them too.

mod edits;
mod factors;
mod fold;
mod groups;

use std::collections::{BTreeMap, BTreeSet};

use trtforge_onnx::build::node;
use trtforge_onnx::{ElementType, Model, Patch};

use crate::QuantizeError;
use crate::account::decision;
use crate::analysis::Analysis;
use crate::decision::{Action, Decision};
use crate::existing::refuse_quantized;
use crate::gemm::{WeightedGemm, weighted_gemms};
use crate::mask::masked_tensors;
use crate::policy::{Policy, select};
use edits::{Edits, bytes_of};
use factors::{factors, row_maxima, spread};
use fold::{Fold, find_fold};
use groups::{Group, groups};

/// What ends the name of a smoothed tensor.
const SUFFIX: &str = "/smoothed";
/// What smoothing must leave of the largest channel's distance from the median one, or it is not done. Measured: at 0.9 a
/// model whose channels are even loses a little, at 0.5 an outlier model at strength 0.65 loses all it gains.
const LEAST_GAIN: f32 = 0.8;

/// A smoothed model, still FP32, with the account of how it came about.
#[derive(Debug, Clone)]
pub struct Smoothed {
    /// The new model; it passes `Model::check` and computes what the old one does.
    pub model: Model,
    /// One entry per [`smoothable`] activation, in graph order; one with all factors 1 was left as it is.
    pub decisions: Vec<Decision>,
    /// What a person should look at.
    pub warnings: Vec<String>,
}

/// An activation to be smoothed, and how many channels to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmoothTarget {
    /// The tensor's name in the model as it is.
    pub tensor: String,
    /// Length of its readers' dot products: the tensor's values, row-major, are rows of so many channels.
    pub channels: usize,
}

/// The activations whose channels must be measured before [`smooth`], in graph order.
///
/// Left out: attention contexts whose value projection cannot take the factors. They gain less than a node would cost.
pub fn smoothable(model: &Model, policy: &Policy) -> Result<Vec<SmoothTarget>, QuantizeError> {
    let analysis = Analysis::new(model);
    let targets = Plan::new(model, &analysis, policy)?.groups.into_iter();
    Ok(targets.map(|g| SmoothTarget { tensor: g.tensor, channels: g.channels }).collect())
}

/// Rewrites an FP32 model so that the activations of quantized MatMuls have channels of like magnitude.
///
/// - `channels`: the largest magnitude of each channel of every [`smoothable`] tensor.
/// - `strength`: 0 leaves the model as it is; 1 makes all channels alike; 0.8 is good for BERT.
/// - `policy`: what will be quantized. Readers it leaves out keep reading the original tensor, but count in the factors,
///   so that a smoothed tensor is the same, and a calibration of it valid, for every narrower policy. Only readers that
///   each reshape the same tensor move all together, since they share one division.
///
/// A smoothed tensor `X` is called `X/smoothed`; patterns of a [`Policy`] go on matching it as `X`.
pub fn smooth(
    model: &Model,
    channels: &BTreeMap<String, Vec<f32>>,
    strength: f64,
    policy: &Policy,
) -> Result<Smoothed, QuantizeError> {
    if !(0.0..=1.0).contains(&strength) {
        return Err(QuantizeError::BadStrength { strength });
    }
    let analysis = Analysis::new(model);
    let plan = Plan::new(model, &analysis, policy)?;
    if strength == 0.0 {
        return Ok(Smoothed { model: model.clone(), decisions: vec![], warnings: vec![] });
    }
    let mut rewrite = Rewrite {
        analysis: &analysis,
        gemms: &plan.gemms,
        patch: Patch::new(model),
        edits: Edits::new(&analysis),
        decisions: vec![],
    };
    for group in &plan.groups {
        let measured = measured(group, channels)?;
        let rows = row_maxima(&analysis, group, &plan.gemms);
        rewrite.group(group, measured, &factors(measured, &rows, strength));
    }
    let Rewrite { mut patch, edits, decisions, .. } = rewrite;
    edits.apply(&mut patch);
    patch.remove_inputs_that_are_initializers();
    Ok(Smoothed { model: patch.finish()?, decisions, warnings: vec![] })
}

/// The name a smoothed tensor had before.
pub(crate) fn original_name(name: &str) -> Option<&str> {
    let (original, count) = name.rsplit_once(SUFFIX)?;
    let numbered = count.strip_prefix('_').is_some_and(|c| c.bytes().all(|b| b.is_ascii_digit()));
    (count.is_empty() || numbered).then_some(original)
}

/// The groups a policy leaves, in graph order.
struct Plan {
    gemms: Vec<WeightedGemm>,
    groups: Vec<Group>,
}

impl Plan {
    fn new(model: &Model, analysis: &Analysis, policy: &Policy) -> Result<Self, QuantizeError> {
        refuse_quantized(model)?;
        let gemms = weighted_gemms(analysis, &masked_tensors(analysis));
        // Attention and residual Adds have no weights to smooth into.
        let chosen: BTreeSet<usize> =
            select(policy, analysis, &gemms, &[])?.chosen.into_iter().collect();
        let mut groups = groups(analysis, &gemms, &chosen);
        groups.retain_mut(|group| {
            group.fold = find_fold(analysis, &gemms, group);
            group.moved().next().is_some()
                && (group.fold.is_some() || !fold::is_context(analysis, &group.tensor))
        });
        Ok(Self { gemms, groups })
    }
}

fn measured<'c>(
    group: &Group,
    channels: &'c BTreeMap<String, Vec<f32>>,
) -> Result<&'c [f32], QuantizeError> {
    let tensor = || group.tensor.clone();
    let Some(measured) = channels.get(&group.tensor) else {
        return Err(QuantizeError::NoChannels { tensor: tensor() });
    };
    let possible = measured.iter().all(|max| max.is_finite() && *max >= 0.0);
    if measured.len() != group.channels || !possible {
        let (found, expected) = (measured.len(), group.channels);
        return Err(QuantizeError::BadChannels { tensor: tensor(), found, expected });
    }
    Ok(measured)
}

struct Rewrite<'a, 'm> {
    analysis: &'a Analysis<'m>,
    gemms: &'a [WeightedGemm],
    patch: Patch,
    edits: Edits<'a, 'm>,
    decisions: Vec<Decision>,
}

impl Rewrite<'_, '_> {
    fn group(&mut self, group: &Group, measured: &[f32], factors: &[f32]) {
        let after: Vec<f32> = measured.iter().zip(factors).map(|(x, s)| x / s).collect();
        let (before, after) = (spread(measured), spread(&after));
        if after > before * LEAST_GAIN {
            return self.leave(group, before, after);
        }
        let inverse: Vec<f32> = factors.iter().map(|factor| 1.0 / factor).collect();
        let smoothed = self.patch.unique_name(&format!("{}{SUFFIX}", group.tensor));
        let how = if let Some(fold) = &group.fold {
            self.fold(fold, &inverse);
            self.patch.replace_output(fold.producer, 0, &smoothed);
            for read in self.analysis.graph.consumers(&group.tensor) {
                self.patch.replace_input(read.node, read.input, &smoothed);
            }
            format!("folded into {}", fold.into)
        } else {
            self.multiply(group, &smoothed, &inverse);
            "divided by one Mul".to_owned()
        };
        for (node, input) in group.moved().map(|member| member.reads) {
            self.patch.replace_input(node, input, &smoothed);
        }
        let copied = self.edits.weights(&mut self.patch, group, self.gemms, factors);
        let readers: Vec<String> =
            group.moved().map(|m| format!("`{}`", self.gemms[m.position].label)).collect();
        let mut reason = format!(
            "{how}, multiplied into the weights of {}; its largest channel was {before:.1} times the median, now {after:.1}",
            readers.join(", "),
        );
        if copied > 0 {
            reason = format!("{reason}; {copied} shared weights copied");
        }
        self.account(group, factors, &reason);
    }

    fn multiply(&mut self, group: &Group, smoothed: &str, inverse: &[f32]) {
        let (name, factors) = (
            self.patch.unique_name(&format!("{smoothed}_Mul")),
            self.patch.unique_name(&format!("{smoothed}_factors")),
        );
        let dims = vec![inverse.len() as i64];
        self.patch.add_initializer(&factors, ElementType::F32, dims, bytes_of(inverse));
        self.patch.add_node(node("Mul", &name, &[&group.tensor, &factors], &[smoothed], vec![]));
    }

    fn fold(&mut self, fold: &Fold, inverse: &[f32]) {
        for operand in &fold.operands {
            self.edits.operand(&mut self.patch, operand, inverse);
        }
    }

    /// Where channels are even already, what the weights lose outweighs what the activation gains.
    fn leave(&mut self, group: &Group, before: f32, after: f32) {
        let reason = format!(
            "left as it is: its largest channel is {before:.1} times the median, and would be {after:.1}"
        );
        self.account(group, &vec![1.0; group.channels], &reason);
    }

    fn account(&mut self, group: &Group, factors: &[f32], reason: &str) {
        let action = Action::Smoothed {
            channels: factors.len(),
            largest: factors.iter().copied().fold(0.0, f32::max),
            smallest: factors.iter().copied().fold(f32::INFINITY, f32::min),
        };
        let layer = group.moved().find_map(|member| self.gemms[member.position].layer.clone());
        let producer = self.analysis.producer(&group.tensor);
        self.decisions.push(Decision {
            layer,
            ..decision(self.analysis, &group.tensor, producer, action, reason)
        });
    }
}
