//! Q/DQ pairs of attentions and residual Adds, and the factor of attention that moves onto Q for them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use half::f16;

use crate::QuantizeError;
use crate::account::decision;
use crate::analysis::Analysis;
use crate::bounds::Bounds;
use crate::decision::{Action, Decision};
use crate::half_values::{HALF_MAX, HALF_MIN_NORMAL};
use crate::precision::Compute;
use crate::qdq::{PairScale, Placement};
use crate::quantize::{float_of, stored_scale};
use crate::rewrite::{Float, Rewriter};
use crate::site::{Role, SOFTMAX_SCALE, Scaling, Site, SiteRead};
use crate::survey::Scales;
use crate::to_half::HalfOptions;
use crate::weight::half_holds_scale;

/// From this ratio of steps on, an Add is worth a warning. Measured on a three-layer MiniLM: the one Add at 6.4 took the mean
/// logit shift of level `residual` from 0.044 to 0.159; leaving out any of the other five, at 1.4 and less, changed nothing.
const COARSE_STEP: f32 = 4.0;

/// One input of a site, and the scale of its pair.
pub(crate) struct Pair<'a> {
    pub site: &'a Site,
    pub read: &'a SiteRead,
    /// The reading node's label.
    pub reader: String,
    /// As the graph stores it; of Q times the factor where one is moved onto it.
    pub scale: f32,
    /// What Q is multiplied by before its pair, and the node that did so behind the product.
    moved: Option<(usize, f32)>,
}

impl Pair<'_> {
    fn pair_scale(&self) -> PairScale<'_> {
        let factor = self.moved.map_or(1.0, |(_, factor)| factor.abs());
        let calibrated = self.read.role != Role::Probabilities;
        let from = calibrated.then_some((self.read.tensor.as_str(), factor));
        PairScale { stored: self.scale, from }
    }

    /// Whether its decision is about a tensor that another pair cannot share.
    pub fn is_own(&self) -> bool {
        self.moved.is_some()
    }

    /// Why nodes must compute in FP32, if FP16 loses bits of the scale: the reader, and the one that scales its result.
    pub fn forced(&self) -> Vec<(usize, String)> {
        if half_holds_scale(self.scale) {
            return vec![];
        }
        let reason = format!(
            "the scale of `{}` is {:e}, outside of FP16's full precision ({HALF_MIN_NORMAL:e} to 65504): its Q/DQ and reader stay FP32",
            self.read.tensor, self.scale
        );
        let nodes = std::iter::once(self.read.node).chain(self.moved.map(|(node, _)| node));
        nodes.map(|node| (node, reason.clone())).collect()
    }
}

/// The pairs of the chosen sites, in order.
pub(crate) fn pairs<'a>(
    analysis: &Analysis,
    sites: &'a [Site],
    chosen: &[usize],
    scales: &Scales,
) -> Result<Vec<Pair<'a>>, QuantizeError> {
    let reads = chosen.iter().flat_map(|&position| {
        let site = &sites[position];
        site.reads.iter().map(move |read| (site, read))
    });
    let pair = |(site, read): (&'a Site, &'a SiteRead)| {
        let reader = analysis.label(read.node);
        let moved = match site.scaling {
            Scaling::Movable { node, factor, .. } if read.role == Role::Query => {
                Some((node, factor))
            }
            _ => None,
        };
        let scale = match (read.role, moved) {
            (Role::Probabilities, _) => Some(SOFTMAX_SCALE),
            (_, Some((_, factor))) => scales.scale.get(&read.tensor).map(|s| s * factor.abs()),
            _ => scales.scale.get(&read.tensor).copied(),
        };
        let scale = stored_scale(&read.tensor, &reader, scale)?;
        Ok(Pair { site, read, reader, scale, moved })
    };
    reads.map(pair).collect()
}

/// Adds whose projection side has outliers that cost the sum its resolution, each with the way out.
pub(crate) fn coarse_adds(pairs: &[Pair]) -> Vec<String> {
    let sides = pairs.windows(2).filter_map(|sides| {
        let [projection, identity] = sides else { return None };
        let roles = (projection.read.role, identity.read.role);
        (roles == (Role::Projection, Role::Identity)).then_some((projection, identity))
    });
    let coarse =
        sides.filter(|(projection, identity)| projection.scale >= identity.scale * COARSE_STEP);
    let warn = |(projection, identity): (&Pair, &Pair)| {
        format!(
            "`{}`: an INT8 step of its projection side is {:.1} times one of its identity side, so a few large values cost the sum its resolution; `quantize.skip: [\"{}\"]` keeps it FP16",
            projection.reader,
            projection.scale / identity.scale,
            projection.reader,
        )
    };
    coarse.map(warn).collect()
}

/// A product that takes over its scale's output computes in the precision of both: FP32 if either must.
pub(crate) fn agree(pairs: &[Pair], compute: &mut [Compute]) {
    for (product, scale) in pairs.iter().filter_map(|p| Some((p.read.node, p.moved?.0))) {
        let either = [product, scale].into_iter().find(|&node| compute[node].is_single());
        if let Some(single) = either.map(|node| compute[node].clone()) {
            compute[product] = single.clone();
            compute[scale] = single;
        }
    }
}

/// The tensors between a product and its scale, which the move replaces: they are accounted for here.
pub(crate) fn moved_tensors(analysis: &Analysis, pairs: &[Pair]) -> Vec<String> {
    let moved = pairs.iter().filter_map(|pair| Some((pair.read.node, pair.moved?.0)));
    let outputs = moved.flat_map(|(product, scale)| [product, scale]);
    outputs.filter_map(|node| analysis.nodes()[node].output.first().cloned()).collect()
}

/// Connects every input to its pair; tensors in `accounted` have a decision already.
///
/// - `readers`: who reads each tensor through its pair.
pub(crate) fn place_pairs(
    rewriter: &mut Rewriter,
    placement: &mut Placement,
    pairs: &[Pair],
    bounds: &Bounds,
    (readers, accounted): (&BTreeMap<&str, Vec<String>>, &mut BTreeSet<String>),
) -> Vec<Decision> {
    let headroom = HalfOptions::default().headroom;
    let mut decisions = vec![];
    for pair in pairs {
        let (tensor, factor) = (&pair.read.tensor, pair.moved.map_or(1.0, |(_, factor)| factor));
        let limit = HALF_MAX / factor.abs().max(1.0);
        let fits = half_holds_scale(pair.scale) && bounds.beyond(tensor, limit, headroom).is_none();
        let quantize_in = if fits { Float::Half } else { Float::Single };
        let floats = (quantize_in, float_of(&rewriter.compute[pair.read.node]));
        let placed = if pair.moved.is_some() {
            let scaled = rewriter.patch.unique_name(&format!("{tensor}_scaled"));
            let source = |rewriter: &mut Rewriter| {
                multiply(rewriter, tensor, &scaled, factor, quantize_in);
                scaled.clone()
            };
            placement.activation_from(rewriter, &scaled, pair.pair_scale(), floats, source)
        } else {
            placement.activation(rewriter, tensor, pair.pair_scale(), floats.0, floats.1)
        };
        rewriter.connect(pair.read.node, pair.read.input, &placed);
        if pair.is_own() || accounted.insert(tensor.clone()) {
            let readers = readers.get(tensor.as_str()).map_or(&[][..], Vec::as_slice);
            decisions.push(pair_decision(rewriter.analysis, pair, readers));
        }
        if let Some((node, _)) = pair.moved {
            decisions.extend(remove_scale(rewriter, pair, node));
        }
    }
    decisions
}

/// `scaled = tensor · factor`, in one precision.
fn multiply(rewriter: &mut Rewriter, tensor: &str, scaled: &str, factor: f32, float: Float) {
    let source = rewriter.value(tensor, float);
    let constant = rewriter.patch.unique_name(&format!("{scaled}_factor"));
    let bytes: Bytes = match float {
        Float::Half => f16::from_f32(factor).to_le_bytes().to_vec().into(),
        Float::Single => factor.to_le_bytes().to_vec().into(),
    };
    rewriter.patch.add_initializer(&constant, float.element_type(), vec![], bytes);
    rewriter.add_node("Mul", scaled, &[&source, &constant], scaled, vec![]);
}

/// Takes the Div or Mul behind a product away; the product's output gets its name.
fn remove_scale(rewriter: &mut Rewriter, pair: &Pair, node: usize) -> Vec<Decision> {
    let analysis = rewriter.analysis;
    let product = pair.read.node;
    let output = rewriter.patch.node(node).map(|proto| proto.output[0].clone());
    let output = output.expect("the scale of an attention is removed once");
    rewriter.patch.remove_node(node);
    rewriter.patch.replace_output(product, 0, &output);
    let Scaling::Movable { operation, factor, .. } = &pair.site.scaling else { return vec![] };
    let action = match float_of(&rewriter.compute[product]) {
        Float::Half => Action::Half,
        Float::Single => Action::KeptFloat32,
    };
    let exact = if is_power_of_two(*factor) { "exact" } else { "exact up to rounding" };
    let [before, after] = [product, node].map(|n| analysis.nodes()[n].output[0].as_str());
    let reasons = [
        (before, format!("it comes out scaled, as `{after}`")),
        (
            after,
            format!(
                "{operation} became Mul by {factor} on Q, {exact}: TensorRT fuses attention with its scale on Q"
            ),
        ),
    ];
    let decide = |(tensor, reason): (&str, String)| Decision {
        layer: pair.site.layer.clone(),
        ..decision(analysis, tensor, Some(product), action.clone(), &reason)
    };
    reasons.map(decide).into()
}

fn is_power_of_two(factor: f32) -> bool {
    const MANTISSA: u32 = (1 << 23) - 1;
    factor.to_bits() & MANTISSA == 0
}

fn pair_decision(analysis: &Analysis, pair: &Pair, readers: &[String]) -> Decision {
    let mut reason = format!("{} of `{}`", pair.read.role.describe(), pair.reader);
    if readers.len() > 1 {
        reason =
            format!("one shared pair for {} readers: `{}`", readers.len(), readers.join("`, `"));
    }
    match (pair.read.role, &pair.site.scaling) {
        (Role::Query, Scaling::Movable { factor, .. }) => {
            reason = format!("{reason}, multiplied by {factor} before");
        }
        (Role::Query, Scaling::OnScores(why)) => {
            reason = format!(
                "{reason}; the scores are scaled behind it, which TensorRT may not fuse: {why}"
            );
        }
        (Role::Probabilities, _) => {
            reason = format!(
                "{reason}; the scale is fixed at 1/127, since its values lie between 0 and 1"
            );
        }
        _ => {}
    }
    if let (Role::Probabilities, Some(note)) = (pair.read.role, &pair.site.note) {
        reason = format!("{reason}; {note}");
    }
    let action = Action::Int8Activation { scale: pair.scale };
    Decision {
        layer: pair.site.layer.clone(),
        ..decision(analysis, &pair.read.tensor, Some(pair.read.node), action, &reason)
    }
}

/// Decisions about sites that keep FP16.
pub(crate) fn dropped_sites(
    analysis: &Analysis,
    sites: &[Site],
    dropped: &[(usize, String)],
) -> Vec<Decision> {
    let skip = |(position, reason): &(usize, String)| {
        let site = &sites[*position];
        let what = if site.reads.iter().any(|r| r.role == Role::Identity) {
            "residual Add"
        } else {
            "attention"
        };
        let reason = format!("the {what} stays as it is: {reason}");
        let decision = decision(analysis, &site.tensor, Some(site.node), Action::Skipped, &reason);
        Decision { layer: site.layer.clone().or(decision.layer.clone()), ..decision }
    };
    dropped.iter().map(skip).collect()
}
