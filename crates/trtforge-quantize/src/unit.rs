//! What is INT8 or not as one: weighted products, attentions and residual Adds, each with its place in the network
//! and its share of the arithmetic.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Serialize};
use trtforge_onnx::{Model, attr_ints, is_op};

use crate::analysis::Analysis;
use crate::gemm::{WeightedGemm, weighted_gemms};
use crate::mask::masked_tensors;
use crate::policy::select;
use crate::site::{Role, SOFTMAX_SCALE, Site, Sources, sites};
use crate::survey::Scales;
use crate::{Level, Policy, QuantizeError};

/// What a unit is to its encoder layer, told by what flows, not by names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitKind {
    /// The product that makes Q.
    Query,
    /// The product that makes K.
    Key,
    /// The product that makes V.
    Value,
    /// One product that makes two of Q, K and V, or all.
    QueryKeyValue,
    /// The product that reads the context.
    AttentionOutput,
    /// The product that widens, before the activation function.
    Intermediate,
    /// The product that narrows again.
    Output,
    /// The two products of an attention.
    Attention,
    /// A residual Add.
    ResidualAdd,
    /// Anything else with a weight: pooler, classifier.
    Other,
}

impl UnitKind {
    /// Its name in artifacts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Key => "key",
            Self::Value => "value",
            Self::QueryKeyValue => "query-key-value",
            Self::AttentionOutput => "attention-output",
            Self::Intermediate => "intermediate",
            Self::Output => "output",
            Self::Attention => "attention",
            Self::ResidualAdd => "residual-add",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for UnitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Multiply-accumulates as a function of the sequence length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Macs {
    /// For each row.
    pub per_row: u64,
    /// For each token of a row.
    pub per_token: u64,
    /// For each pair of tokens of a row.
    pub per_pair: u64,
}

impl Macs {
    /// Those of one row of `length` tokens.
    pub fn at(self, length: usize) -> u64 {
        let length = length as u64;
        self.per_row + self.per_token * length + self.per_pair * length * length
    }
}

impl Sum for Macs {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            per_row: sum.per_row + one.per_row,
            per_token: sum.per_token + one.per_token,
            per_pair: sum.per_pair + one.per_pair,
        })
    }
}

/// A tensor that a unit reads through a Q/DQ pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnitRead {
    /// Its name in the model as it was given.
    pub tensor: String,
    /// Model units per INT8 level; none where the table has none.
    pub scale: Option<f32>,
}

/// A part of the model that is INT8 or not as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Its name for [`Policy::returned`]: the tensor that its node makes; an attention's is its softmax output.
    pub id: String,
    /// The node's name in the ONNX file, or `OpType(output)` where it has none; an attention's is its softmax.
    pub node: String,
    /// What it is to its layer.
    pub kind: UnitKind,
    /// The encoder layer, counted from 0 by attentions; none outside of the encoder.
    pub encoder_layer: Option<usize>,
    /// The module path, where names tell.
    pub layer: Option<String>,
    /// What it reads through Q/DQ pairs.
    pub reads: Vec<UnitRead>,
    /// The tensors to start from when it is run alone: those it reads that it does not make itself.
    pub starts: Vec<String>,
    /// The tensor it makes.
    pub output: String,
    /// Its arithmetic; a residual Add has none.
    pub macs: Macs,
    /// Why it is not INT8; `None` when it is.
    pub left: Option<String>,
}

/// How much arithmetic is INT8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arithmetic {
    /// Of INT8 products.
    pub int8: Macs,
    /// Of all products with weights and of all attentions.
    pub all: Macs,
}

impl Arithmetic {
    /// Counts the arithmetic of a model's units.
    pub fn of(units: &[Unit]) -> Self {
        let int8 = units.iter().filter(|unit| unit.left.is_none());
        Self {
            int8: int8.map(|unit| unit.macs).sum(),
            all: units.iter().map(|unit| unit.macs).sum(),
        }
    }

    /// The INT8 share of one row of `length` tokens, 0 to 1.
    pub fn share(&self, length: usize) -> f64 {
        let all = self.all.at(length);
        if all == 0 { 0.0 } else { self.int8.at(length) as f64 / all as f64 }
    }
}

/// Everything in a model that multiplies, and the residual Adds of level `residual`, with what a policy makes of each.
///
/// The model is the one that [`crate::quantize`] is given: the smoothed one, where there is smoothing. Weighted products
/// come first, then attentions, then Adds, each in graph order.
pub fn units(model: &Model, scales: &Scales, policy: &Policy) -> Result<Vec<Unit>, QuantizeError> {
    let analysis = Analysis::new(model);
    let masked = masked_tensors(&analysis);
    let gemms = weighted_gemms(&analysis, &masked);
    // Attentions tell the layers and count as arithmetic whatever the level.
    let sites = sites(&analysis, &gemms, &masked, policy.level.max(Level::Attention));
    let at_level: Vec<Site> =
        sites.iter().filter(|site| site.level <= policy.level).cloned().collect();
    let selection = select(policy, &analysis, &gemms, &at_level)?;
    let dropped: BTreeMap<usize, String> = selection.dropped.into_iter().collect();
    let left_sites: BTreeMap<&str, String> = selection
        .dropped_sites
        .into_iter()
        .map(|(position, reason)| (at_level[position].tensor.as_str(), reason))
        .collect();
    let places = Places::new(&analysis, &gemms, &sites);
    let of_gemms = gemms
        .iter()
        .enumerate()
        .map(|(position, gemm)| places.gemm_unit(gemm, scales, dropped.get(&position).cloned()));
    let of_sites = sites.iter().map(|site| {
        let above = (site.level > policy.level)
            .then(|| format!("level `{}` does not reach it", policy.level));
        let left = above.or_else(|| left_sites.get(site.tensor.as_str()).cloned());
        places.site_unit(site, scales, left)
    });
    Ok(of_gemms.chain(of_sites).collect())
}

/// Knows where in the network nodes are.
struct Places<'a, 'm> {
    analysis: &'a Analysis<'m>,
    gemms: &'a [WeightedGemm],
    attentions: Vec<&'a Site>,
    /// Kinds of products that are told by an attention.
    kinds: BTreeMap<usize, (UnitKind, usize)>,
    /// Whether each node's output has a token axis.
    tokens: Vec<bool>,
}

impl<'a, 'm> Places<'a, 'm> {
    fn new(analysis: &'a Analysis<'m>, gemms: &'a [WeightedGemm], sites: &'a [Site]) -> Self {
        let attentions: Vec<&Site> =
            sites.iter().filter(|site| site.level == Level::Attention).collect();
        let mut this = Self {
            analysis,
            gemms,
            attentions,
            kinds: BTreeMap::new(),
            tokens: token_axes(analysis),
        };
        this.kinds = this.projections();
        this
    }

    /// The products behind Q, K and V, and the first one behind each context.
    fn projections(&self) -> BTreeMap<usize, (UnitKind, usize)> {
        let sources = Sources::new(self.analysis, self.gemms);
        let mut kinds: BTreeMap<usize, (UnitKind, usize)> = BTreeMap::new();
        for (layer, site) in self.attentions.iter().enumerate() {
            for read in &site.reads {
                let kind = match read.role {
                    Role::Query => UnitKind::Query,
                    Role::Key => UnitKind::Key,
                    Role::Value => UnitKind::Value,
                    _ => continue,
                };
                if let Some(gemm) = sources.product(&read.tensor) {
                    kinds
                        .entry(gemm.node)
                        .and_modify(|known| known.0 = UnitKind::QueryKeyValue)
                        .or_insert((kind, layer));
                }
            }
            // Only the layout changes between a context and the product that reads it.
            let context = self.analysis.nodes()[context(site)].output.first();
            if let Some(gemm) = context.and_then(|context| self.reader_of(context)) {
                kinds.entry(gemm.node).or_insert((UnitKind::AttentionOutput, layer));
            }
        }
        kinds
    }

    /// The product that reads a tensor or another layout of it.
    fn reader_of(&self, tensor: &str) -> Option<&'a WeightedGemm> {
        const LAYOUT: [&str; 6] =
            ["Transpose", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten"];
        let mut ahead = vec![tensor.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(name) = ahead.pop() {
            for reader in self.analysis.readers(&name) {
                if let Some(gemm) = self.gemms.iter().find(|gemm| gemm.node == reader) {
                    return Some(gemm);
                }
                let node = &self.analysis.nodes()[reader];
                if LAYOUT.iter().any(|op| is_op(node, op)) && seen.insert(reader) {
                    ahead.extend(node.output.first().cloned());
                }
            }
        }
        None
    }

    fn gemm_unit(&self, gemm: &WeightedGemm, scales: &Scales, left: Option<String>) -> Unit {
        let (kind, encoder_layer) = self.kind(gemm);
        let known = [&gemm.activation, &gemm.direct_input];
        let scale = known.iter().find_map(|name| scales.scale.get(*name)).copied();
        let macs = (gemm.k * gemm.n) as u64;
        let has_tokens = self.tokens[gemm.node];
        Unit {
            id: gemm.output.clone(),
            node: gemm.label.clone(),
            kind,
            encoder_layer,
            layer: gemm.layer.clone(),
            reads: vec![UnitRead { tensor: gemm.activation.clone(), scale }],
            starts: vec![gemm.activation.clone()],
            output: gemm.output.clone(),
            macs: Macs {
                per_row: if has_tokens { 0 } else { macs },
                per_token: if has_tokens { macs } else { 0 },
                per_pair: 0,
            },
            left,
        }
    }

    fn kind(&self, gemm: &WeightedGemm) -> (UnitKind, Option<usize>) {
        if let Some((kind, layer)) = self.kinds.get(&gemm.node) {
            return (*kind, Some(*layer));
        }
        let before = self.attentions.iter().filter(|site| site.node < gemm.node).count();
        let kind = match (gemm.k, gemm.n) {
            (k, n) if n >= 2 * k => UnitKind::Intermediate,
            (k, n) if k >= 2 * n => UnitKind::Output,
            _ => UnitKind::Other,
        };
        match before.checked_sub(1) {
            Some(layer) if self.tokens[gemm.node] && kind != UnitKind::Other && gemm.n >= 16 => {
                (kind, Some(layer))
            }
            _ => (UnitKind::Other, None),
        }
    }

    fn site_unit(&self, site: &Site, scales: &Scales, left: Option<String>) -> Unit {
        let reads = site.reads.iter().map(|read| UnitRead {
            tensor: read.tensor.clone(),
            scale: match read.role {
                Role::Probabilities => Some(SOFTMAX_SCALE),
                _ => scales.scale.get(&read.tensor).copied(),
            },
        });
        let starts = site.reads.iter().filter(|read| read.role != Role::Probabilities);
        let is_attention = site.level == Level::Attention;
        let last = if is_attention { context(site) } else { site.node };
        let layer = self.attentions.iter().position(|other| other.node == site.node);
        let before = self.attentions.iter().filter(|other| other.node < site.node).count();
        Unit {
            id: site.tensor.clone(),
            node: self.analysis.label(site.node),
            kind: if is_attention { UnitKind::Attention } else { UnitKind::ResidualAdd },
            encoder_layer: layer.or_else(|| before.checked_sub(1)),
            layer: site.layer.clone(),
            reads: reads.collect(),
            starts: starts.map(|read| read.tensor.clone()).collect(),
            output: self.analysis.nodes()[last].output.first().cloned().unwrap_or_default(),
            macs: if is_attention { self.attention_macs(site) } else { Macs::default() },
            left,
        }
    }

    /// Scores take a multiplication per pair of tokens and value of Q, the context one per value of V.
    fn attention_macs(&self, site: &Site) -> Macs {
        let sources = Sources::new(self.analysis, self.gemms);
        let narrow = self.gemms.iter().map(|gemm| gemm.k.min(gemm.n)).max().unwrap_or(0);
        let width = |role: Role| {
            let read = site.reads.iter().find(|read| read.role == role);
            let gemm = read.and_then(|read| sources.product(&read.tensor));
            let apart = |gemm: &&WeightedGemm| {
                let known = self.kinds.get(&gemm.node);
                known.is_none_or(|(kind, _)| *kind != UnitKind::QueryKeyValue)
            };
            gemm.filter(apart).map_or(narrow, |gemm| gemm.n) as u64
        };
        Macs { per_pair: width(Role::Query) + width(Role::Value), ..Macs::default() }
    }
}

/// The product that makes an attention's context: where scores were not found, its only other node.
fn context(site: &Site) -> usize {
    let reader = site.reads.iter().find(|read| read.role == Role::Value);
    reader.map_or(site.nodes[1], |read| read.node)
}

/// Whether the output of each node has a value for every token, which poolers and classifiers of whole texts drop.
fn token_axes(analysis: &Analysis) -> Vec<bool> {
    let mut tokens: Vec<bool> = Vec::with_capacity(analysis.nodes().len());
    for (index, node) in analysis.nodes().iter().enumerate() {
        let mut computed = analysis.computed_inputs(index).peekable();
        let begins = computed.peek().is_none();
        let carried = computed.any(|input| {
            analysis.producer(input).is_none_or(|producer| tokens.get(producer) != Some(&false))
        });
        tokens.push((begins || carried) && !drops_tokens(analysis, node, begins));
    }
    tokens
}

/// Whether a node takes one token of each row, or one figure over all.
fn drops_tokens(analysis: &Analysis, node: &trtforge_onnx::proto::NodeProto, begins: bool) -> bool {
    let constant = |input: usize| {
        let tensor = analysis.graph.constant(node.input.get(input)?)?;
        Some(tensor.to_i64().ok()?.to_vec())
    };
    let axes =
        |input: usize| attr_ints(node, "axes").map(<[i64]>::to_vec).or_else(|| constant(input));
    if begins {
        return false;
    }
    match node.op_type() {
        // A table of embeddings is constant; what is gathered from here is an activation.
        "Gather" => constant(1).is_some_and(|indices| indices.len() == 1),
        "Slice" => axes(3).is_some_and(|axes| axes == [1]),
        "ReduceMean" | "ReduceSum" | "ReduceMax" => axes(1).is_some_and(|axes| axes == [1]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_grows_with_length_and_its_square() {
        let macs = Macs { per_row: 5, per_token: 3, per_pair: 2 };
        assert_eq!(macs.at(10), 5 + 30 + 200);
        let unit = |macs, left: Option<&str>| Unit {
            id: "y".into(),
            node: "n".into(),
            kind: UnitKind::Other,
            encoder_layer: None,
            layer: None,
            reads: vec![],
            starts: vec![],
            output: "y".into(),
            macs,
            left: left.map(str::to_owned),
        };
        let units = [
            unit(Macs { per_token: 6, ..Macs::default() }, None),
            unit(Macs { per_pair: 1, ..Macs::default() }, Some("level")),
        ];
        let counted = Arithmetic::of(&units);
        assert_eq!((counted.int8.at(4), counted.all.at(4)), (24, 40));
        assert_eq!(counted.share(4), 0.6);
        assert_eq!(Arithmetic::of(&[]).share(4), 0.0);
    }
}
