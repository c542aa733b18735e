//! Which readers share an activation, and so its smoothing factors.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_onnx::{Dim, attr_i, is_op};

use super::fold::Fold;
use crate::analysis::Analysis;
use crate::gemm::{WeightedGemm, reshapes_between};

/// A quantizable MatMul or Gemm of a group.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// Its position among all weighted MatMuls.
    pub position: usize,
    /// The input that will read the smoothed tensor: its own, or that of a Reshape before it.
    pub reads: (usize, usize),
    /// Whether it reads the smoothed tensor in the end.
    pub moved: bool,
}

/// All quantizable readers of one activation.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub tensor: String,
    /// Length of the dot products, and of the tensor's last axis where it is what they read.
    pub channels: usize,
    pub members: Vec<Member>,
    /// How the producer can divide by the factors, if it can.
    pub fold: Option<Fold>,
}

impl Group {
    pub fn moved(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.moved)
    }
}

/// Groups of everything that could be quantized, in graph order, whatever the policy.
///
/// - `chosen`: what the policy keeps. Only these readers move, but readers behind shared Reshapes move together.
pub(super) fn groups(
    analysis: &Analysis,
    gemms: &[WeightedGemm],
    chosen: &BTreeSet<usize>,
) -> Vec<Group> {
    let mut by_activation: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (position, gemm) in gemms.iter().enumerate() {
        // A Gemm with transA has its dot products along the activation's first axis.
        let node = &analysis.nodes()[gemm.node];
        let along_last = is_op(node, "MatMul") || attr_i(node, "transA").unwrap_or(0) == 0;
        if gemm.barred.is_none() && along_last {
            by_activation.entry(&gemm.activation).or_default().push(position);
        }
    }
    let all = by_activation.into_values();
    let mut groups: Vec<Group> = all
        .flat_map(|members| match behind_reshapes(analysis, gemms, &members, chosen) {
            Some(group) => vec![group],
            None => direct(gemms, &members, chosen),
        })
        .collect();
    groups.sort_by_key(|group| group.members[0].position);
    groups
}

/// One group for each tensor that the members read themselves.
fn direct(gemms: &[WeightedGemm], members: &[usize], chosen: &BTreeSet<usize>) -> Vec<Group> {
    let mut by_input: BTreeMap<&str, Vec<Member>> = BTreeMap::new();
    for &position in members {
        let gemm = &gemms[position];
        let moved = chosen.contains(&position);
        let member = Member { position, reads: (gemm.node, 0), moved };
        by_input.entry(&gemm.direct_input).or_default().push(member);
    }
    let group = |(tensor, members): (&str, Vec<Member>)| Group {
        tensor: tensor.to_owned(),
        channels: gemms[members[0].position].k,
        members,
        fold: None,
    };
    by_input.into_iter().map(group).collect()
}

/// One group for members that each reshape the same tensor, if that tensor's last axis is what they all multiply along
/// and nobody else reads a reshaped form of it.
fn behind_reshapes(
    analysis: &Analysis,
    gemms: &[WeightedGemm],
    members: &[usize],
    chosen: &BTreeSet<usize>,
) -> Option<Group> {
    let first = &gemms[members[0]];
    let chains: Vec<Vec<usize>> =
        members.iter().map(|&member| reshapes_between(analysis, &gemms[member])).collect();
    let between: BTreeSet<usize> = chains.iter().flatten().copied().collect();
    let nodes: BTreeSet<usize> = members.iter().map(|&member| gemms[member].node).collect();
    let ours = |&reshape: &usize| {
        let output = &analysis.nodes()[reshape].output[0];
        let known = |reader: &usize| nodes.contains(reader) || between.contains(reader);
        !analysis.name_is_fixed(output) && analysis.readers(output).iter().all(known)
    };
    let together = !between.is_empty()
        && members.iter().all(|&member| gemms[member].k == first.k)
        && between.iter().all(ours)
        && last_axis(analysis, &first.activation) == Some(first.k);
    if !together {
        return None;
    }
    let moved = members.iter().any(|member| chosen.contains(member));
    let member = |(&position, chain): (&usize, &Vec<usize>)| {
        let reader = chain.first().copied().unwrap_or(gemms[position].node);
        Member { position, reads: (reader, 0), moved }
    };
    Some(Group {
        tensor: first.activation.clone(),
        channels: first.k,
        members: members.iter().zip(&chains).map(member).collect(),
        fold: None,
    })
}

/// The length of a tensor's last axis, stated or told by a constant that its producer broadcasts along it.
fn last_axis(analysis: &Analysis, tensor: &str) -> Option<usize> {
    if let Some(Dim::Fixed(length)) = analysis.graph.shape(tensor).and_then(|s| s.last().cloned()) {
        return usize::try_from(length).ok();
    }
    let node = &analysis.nodes()[analysis.producer(tensor)?];
    let broadcasts = ["Add", "Mul", "Sub", "Div", "LayerNormalization"];
    let constants = node.input.iter().filter_map(|name| analysis.constants.get(name.as_str()));
    let lengths = constants.filter_map(|constant| constant.dims.last().copied());
    let length = lengths.max().filter(|&length| length > 1)?;
    broadcasts.contains(&node.op_type()).then(|| usize::try_from(length).ok())?
}
