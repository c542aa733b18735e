//! The canonical form of a model, which every other rewrite starts from, whatever the exporter wrote.
//!
//! ```text
//! Model ─► simplify   constants folded, pass-through and dead nodes dropped
//!       ─► fuse       written-out LayerNorm and GELU become the ONNX operators, the operator set raised for them
//!       ─► Canonical { model, rewrites, near_misses }
//! ```
//!
//! FP32 results stay the same up to rounding. Graph inputs and outputs keep names, types and shapes; weights and all
//! activations that remain keep their names. A model that is in canonical form comes back as it is.

mod arithmetic;
mod dead;
mod evaluate;
mod expression;
mod fold;
mod fuse;
mod gelu;
mod layer_norm;
mod literal;
mod origins;
mod passing;
mod simplify;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use trtforge_onnx::proto::TensorProto;
use trtforge_onnx::{Model, Patch};

use crate::QuantizeError;

pub(crate) use origins::{ORIGINS, Origins};

/// Names what the canonical form is, for fingerprints of artifacts made from it.
pub const CANONICAL_VERSION: u32 = 1;

/// How much folding constants may enlarge a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanonicalOptions {
    /// Most bytes of a folded constant, unless a constant at least as large goes for it.
    pub largest_constant: u64,
    /// Most bytes of all folded constants together that nothing goes for.
    pub growth: u64,
}

impl Default for CanonicalOptions {
    fn default() -> Self {
        Self { largest_constant: 64 << 10, growth: 4 << 20 }
    }
}

/// What kind of change a [`Rewrite`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewriteKind {
    /// Nodes on constants became one constant.
    ConstantFolded,
    /// The value of a `Constant` node became an initializer.
    ConstantStored,
    /// A node that passes its input on was taken out.
    PassThroughRemoved,
    /// A node or a weight that nothing needs was dropped.
    DeadRemoved,
    /// A written-out layer normalization became `LayerNormalization`.
    LayerNormalizationFused,
    /// A written-out GELU became `Gelu`.
    GeluFused,
    /// The operator set was raised, which the two fused operators need.
    OpsetRaised,
}

impl RewriteKind {
    /// As in the record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConstantFolded => "constant_folded",
            Self::ConstantStored => "constant_stored",
            Self::PassThroughRemoved => "pass_through_removed",
            Self::DeadRemoved => "dead_removed",
            Self::LayerNormalizationFused => "layer_normalization_fused",
            Self::GeluFused => "gelu_fused",
            Self::OpsetRaised => "opset_raised",
        }
    }
}

impl fmt::Display for RewriteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// What was done.
    pub kind: RewriteKind,
    /// The nodes it was done to, by name or by `OpType(output)`.
    pub nodes: Vec<String>,
    /// The tensor that carries the result; empty where there is none.
    pub tensor: String,
    /// Why that is the same thing.
    pub reason: String,
}

/// Something that looks like a pattern of the canonical form and was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NearMiss {
    /// The nodes it is about.
    pub nodes: Vec<String>,
    /// What is in the way.
    pub reason: String,
}

/// A model in canonical form, with the account of how it came about.
#[derive(Clone, Debug)]
pub struct Canonical {
    /// The model; it passes `Model::check`.
    pub model: Model,
    /// What was changed; empty when the model had this form already.
    pub rewrites: Vec<Rewrite>,
    /// What was not, though it nearly could.
    pub near_misses: Vec<NearMiss>,
}

impl Canonical {
    /// How many rewrites there are of each kind.
    pub fn counts(&self) -> BTreeMap<RewriteKind, usize> {
        let mut counts = BTreeMap::new();
        for rewrite in &self.rewrites {
            *counts.entry(rewrite.kind).or_default() += 1;
        }
        counts
    }
}

/// What the steps report.
#[derive(Debug, Default)]
struct Log {
    rewrites: Vec<Rewrite>,
    near_misses: Vec<NearMiss>,
    origins: Origins,
}

/// Brings a model to canonical form. The result is a function of the model and the options alone.
pub fn canonicalize(model: &Model, options: &CanonicalOptions) -> Result<Canonical, QuantizeError> {
    let mut log = Log { origins: Origins::of(model), ..Log::default() };
    let simple = simplify::simplify(model, options, &mut log)?;
    let fused = fuse::fuse(simple, options, &mut log)?;
    let Log { rewrites, mut near_misses, origins } = log;
    let model = if rewrites.is_empty() { model.clone() } else { with_origins(&fused, origins)? };
    near_misses.sort();
    near_misses.dedup();
    Ok(Canonical { model, rewrites, near_misses })
}

fn with_origins(model: &Model, mut origins: Origins) -> Result<Model, QuantizeError> {
    let nodes = model.graph_proto().node.iter();
    let names = nodes.flat_map(|node| {
        let tensors = node.input.iter().chain(&node.output).map(String::as_str);
        tensors.chain([node.name()])
    });
    let weights = model.graph_proto().initializer.iter().map(TensorProto::name);
    let present: BTreeSet<&str> = names.chain(weights).collect();
    origins.settle(&present);
    let mut patch = Patch::new(model);
    if !origins.is_empty() {
        origins.store(&mut patch);
    }
    Ok(patch.finish()?)
}
