//! Products and sums of activations that get Q/DQ pairs above level `gemm`: what is quantized together or not at all.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_onnx::is_op;

use crate::Level;
use crate::analysis::Analysis;
use crate::attention::attentions;
use crate::gemm::WeightedGemm;
use crate::residual::residuals;

/// The scale of every softmax output: its values lie between 0 and 1, whatever calibration saw.
pub const SOFTMAX_SCALE: f32 = 1.0 / 127.0;

/// One attention, or one residual Add.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Site {
    /// The level from which on it is quantized.
    pub level: Level,
    /// The tensor that a decision to leave it alone is about, and the node that makes it.
    pub tensor: String,
    pub node: usize,
    pub layer: Option<String>,
    /// The inputs that read through a pair.
    pub reads: Vec<SiteRead>,
    /// Nodes that belong to it: patterns that name one of them, or what it makes, or what `reads` read, name the site.
    pub nodes: Vec<usize>,
    /// The product without which pairs here have no use.
    pub serves: Option<usize>,
    /// Where 1/sqrt(d) is, as far as attention is concerned.
    pub scaling: Scaling,
    /// What the report should say besides.
    pub note: Option<String>,
    /// Why it is never quantized; `None` for a candidate.
    pub barred: Option<String>,
}

/// An input of a node that reads an activation through a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteRead {
    pub node: usize,
    pub input: usize,
    /// The tensor in the model as it was given.
    pub tensor: String,
    pub role: Role,
}

/// What a tensor is to the node that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Query,
    Key,
    Probabilities,
    Value,
    Projection,
    Identity,
}

impl Role {
    /// In words for the report.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Query => "Q",
            Self::Key => "Kᵀ",
            Self::Probabilities => "softmax output",
            Self::Value => "V",
            Self::Projection => "projection side",
            Self::Identity => "identity side",
        }
    }
}

/// Where the factor 1/sqrt(d) of an attention is applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scaling {
    /// Not on the scores: on Q, on both operands, in the weights, or nowhere.
    BeforeProduct,
    /// On the scores, by a constant that can as well be multiplied into Q.
    Movable {
        /// The Div or Mul right behind the product.
        node: usize,
        /// What Q is multiplied by.
        factor: f32,
        /// The operation in words.
        operation: String,
    },
    /// On the scores, and must stay there, for this reason.
    OnScores(String),
}

impl Site {
    /// Tensors that need a histogram for it; a softmax output has its scale already.
    pub fn observe(&self) -> impl Iterator<Item = &String> {
        let reads = self.reads.iter().filter(|_| self.barred.is_none());
        reads.filter(|read| read.role != Role::Probabilities).map(|read| &read.tensor)
    }
}

/// All sites of a level and those below it: attentions in graph order, then residual Adds in graph order.
pub(crate) fn sites(
    analysis: &Analysis,
    gemms: &[WeightedGemm],
    masked: &BTreeSet<String>,
    level: Level,
) -> Vec<Site> {
    let sources = Sources::new(analysis, gemms);
    let mut sites = vec![];
    if level >= Level::Attention {
        sites.extend(attentions(&sources, masked));
    }
    if level >= Level::Residual {
        sites.extend(residuals(&sources, masked));
    }
    sites
}

/// Finds which weighted product an activation comes from.
pub(crate) struct Sources<'a, 'm> {
    pub analysis: &'a Analysis<'m>,
    by_node: BTreeMap<usize, &'a WeightedGemm>,
}

impl<'a, 'm> Sources<'a, 'm> {
    pub fn new(analysis: &'a Analysis<'m>, gemms: &'a [WeightedGemm]) -> Self {
        Self { analysis, by_node: gemms.iter().map(|gemm| (gemm.node, gemm)).collect() }
    }

    /// The product that `tensor` is, apart from its bias, constant factors and how its values are laid out.
    pub fn product(&self, tensor: &str) -> Option<&'a WeightedGemm> {
        const PASSES: [&str; 13] = [
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Transpose",
            "Reshape",
            "Identity",
            "Dropout",
            "Squeeze",
            "Unsqueeze",
            "Flatten",
            "Slice",
            "Split",
        ];
        let mut node = self.analysis.producer(tensor)?;
        loop {
            if let Some(gemm) = self.by_node.get(&node) {
                return Some(gemm);
            }
            let passes = PASSES.iter().any(|op| is_op(&self.analysis.nodes()[node], op));
            let mut inputs = self.analysis.computed_inputs(node);
            let (Some(only), None, true) = (inputs.next(), inputs.next(), passes) else {
                return None;
            };
            node = self.analysis.producer(only)?;
        }
    }
}

/// The module around the one a layer name ends in: `….attention.self` of `….attention.self.query`.
pub(crate) fn enclosing(layer: Option<&String>) -> Option<String> {
    layer.map(|name| name.rsplit_once('.').map_or(name.as_str(), |(outer, _)| outer).to_owned())
}
