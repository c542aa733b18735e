//! Finding attention: a Softmax between two products of activations, whatever the exporter put between the three.

use std::collections::BTreeSet;

use trtforge_onnx::{Dim, is_op};

use crate::Level;
use crate::analysis::Analysis;
use crate::half_values::{HALF_MAX, HALF_MIN_NORMAL};
use crate::site::{Role, Scaling, Site, SiteRead, Sources, enclosing};

/// TensorRT's fused INT8 attention takes no longer sequences.
const MOST_POSITIONS: i64 = 512;
/// Below this many values per head, INT8 tensor cores have nothing to gain.
const LEAST_HEAD_SIZE: i64 = 16;

/// Operators between the first product and its Softmax: scaling, masking, and what only changes the layout.
const BEFORE_SOFTMAX: [&str; 12] = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Where",
    "Reshape",
    "Identity",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Max",
    "Clip",
];
/// Operators between the Softmax and the second product that leave values between 0 and 1.
const AFTER_SOFTMAX: [&str; 7] =
    ["Dropout", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Where"];

/// All attentions of the main graph, in graph order of their Softmax.
pub(crate) fn attentions(sources: &Sources, masked: &BTreeSet<String>) -> Vec<Site> {
    let nodes = sources.analysis.nodes().iter().enumerate();
    let softmaxes = nodes.filter(|(_, node)| is_op(node, "Softmax"));
    softmaxes.filter_map(|(index, _)| attention(sources, masked, index)).collect()
}

/// The attention around a Softmax; `None` when its output is multiplied by no activation, as a classifier's.
fn attention(sources: &Sources, masked: &BTreeSet<String>, softmax: usize) -> Option<Site> {
    let analysis = sources.analysis;
    let tensor = analysis.nodes()[softmax].output.first()?.clone();
    let contexts = context_products(analysis, &tensor);
    let (context, probabilities) = contexts.first()?.clone();
    let scores = score_products(analysis, softmax);
    let mut site = Site {
        level: Level::Attention,
        tensor,
        node: softmax,
        layer: None,
        reads: vec![],
        nodes: vec![softmax, context],
        serves: None,
        scaling: Scaling::BeforeProduct,
        note: None,
        barred: None,
    };
    let [Scores { product, path }] = &scores[..] else {
        let count = scores.len();
        site.barred =
            Some(format!("{count} products lead to its Softmax; TensorRT's fused attention has 1"));
        return Some(site);
    };
    site.nodes = vec![*product, softmax, context];
    site.nodes.extend(path);
    let read = |node: usize, input: usize, role: Role| SiteRead {
        node,
        input,
        tensor: analysis.nodes()[node].input[input].clone(),
        role,
    };
    site.reads = vec![
        read(*product, 0, Role::Query),
        read(*product, 1, Role::Key),
        SiteRead { tensor: probabilities, ..read(context, 0, Role::Probabilities) },
        read(context, 1, Role::Value),
    ];
    site.layer =
        site.reads.iter().find_map(|r| enclosing(sources.product(&r.tensor)?.layer.as_ref()));
    site.scaling = scaling(analysis, *product, path);
    let several = (contexts.len() > 1)
        .then(|| format!("{} products read its softmax output", contexts.len()));
    let (unfit, note) = fit(analysis, &site);
    site.barred = several.or_else(|| sees_mask(&site, masked)).or(unfit);
    site.note = note;
    Some(site)
}

/// Products of a softmax output with another activation, and under which name they read it.
fn context_products(analysis: &Analysis, softmax_output: &str) -> Vec<(usize, String)> {
    let (mut found, mut names) = (vec![], vec![softmax_output.to_owned()]);
    let mut seen = BTreeSet::new();
    while let Some(name) = names.pop() {
        for reader in analysis.readers(&name) {
            let node = &analysis.nodes()[reader];
            if is_op(node, "MatMul") {
                let computed = node.input.iter().all(|i| analysis.is_computed(i));
                if computed && node.input[0] == name {
                    found.push((reader, name.clone()));
                }
            } else if stays_a_share(analysis, reader) && seen.insert(reader) {
                names.extend(node.output.first().cloned());
            }
        }
    }
    found.sort();
    found
}

fn stays_a_share(analysis: &Analysis, node: usize) -> bool {
    let proto = &analysis.nodes()[node];
    let mut constants = proto.input.iter().filter_map(|i| analysis.constants.get(i.as_str()));
    AFTER_SOFTMAX.iter().any(|op| is_op(proto, op))
        && analysis.computed_inputs(node).count() == 1
        && (!is_op(proto, "Where") || constants.all(|c| c.stats.absmax <= 1.0))
}

/// A product of two activations, and the nodes from it to the Softmax, the one that reads it first.
struct Scores {
    product: usize,
    path: Vec<usize>,
}

fn score_products(analysis: &Analysis, softmax: usize) -> Vec<Scores> {
    let mut found: Vec<Scores> = vec![];
    let mut ahead = vec![(softmax, vec![])];
    let mut seen = BTreeSet::new();
    while let Some((node, path)) = ahead.pop() {
        for input in analysis.computed_inputs(node) {
            let Some(source) = analysis.producer(input).filter(|s| seen.insert(*s)) else {
                continue;
            };
            let proto = &analysis.nodes()[source];
            if is_op(proto, "MatMul") && analysis.computed_inputs(source).count() == 2 {
                found.push(Scores { product: source, path: path.clone() });
            } else if BEFORE_SOFTMAX.iter().any(|op| is_op(proto, op)) {
                let path = std::iter::once(source).chain(path.iter().copied()).collect();
                ahead.push((source, path));
            }
        }
    }
    found
}

/// Where the factor is, and whether the scores' own can be multiplied into Q without a change beyond rounding.
fn scaling(analysis: &Analysis, product: usize, path: &[usize]) -> Scaling {
    let scales = |node: &&usize| {
        let proto = &analysis.nodes()[**node];
        ["Mul", "Div"].iter().any(|op| is_op(proto, op))
    };
    let Some(&node) = path.iter().find(scales) else { return Scaling::BeforeProduct };
    let proto = &analysis.nodes()[node];
    let output = &analysis.nodes()[product].output[0];
    let (op, stay) = (proto.op_type(), |why: &str| Scaling::OnScores(why.to_owned()));
    if path.first() != Some(&node) {
        return stay("other operators lie between the product and its scale");
    }
    if analysis.readers(output).len() > 1 || analysis.name_is_fixed(output) {
        return stay("the unscaled scores are read elsewhere too");
    }
    let other = usize::from(proto.input[0] == *output);
    if is_op(proto, "Div") && other == 0 {
        return stay("the scores are the divisor");
    }
    let name = &proto.input[other];
    let rank = analysis.constants.get(name.as_str()).map_or(0, |c| c.dims.len());
    let Some(value) = analysis.scalar(name).filter(|_| rank <= 2) else {
        return stay("its scale is no constant number");
    };
    let factor = if op == "Div" { 1.0 / value } else { value };
    let held = |x: f32| (HALF_MIN_NORMAL..=HALF_MAX).contains(&x.abs());
    if !held(value) || !held(factor) {
        return stay("FP16 cannot hold the factor in full precision");
    }
    Scaling::Movable { node, factor, operation: format!("{op} by {value}") }
}

fn sees_mask(site: &Site, masked: &BTreeSet<String>) -> Option<String> {
    let read = site.reads.iter().find(|read| masked.contains(&read.tensor))?;
    Some(format!("`{}` sees the attention mask's sentinel", read.tensor))
}

/// Whether head size and length suit INT8: a reason against it, or what is not known.
fn fit(analysis: &Analysis, site: &Site) -> (Option<String>, Option<String>) {
    let axis = |role: Role, from_end: usize| {
        let read = site.reads.iter().find(|read| read.role == role)?;
        let shape = analysis.graph.shape(&read.tensor)?;
        match shape.len().checked_sub(from_end).and_then(|axis| shape.get(axis)) {
            Some(&Dim::Fixed(length)) => Some(length),
            _ => None,
        }
    };
    let heads = [axis(Role::Query, 1), axis(Role::Key, 2), axis(Role::Value, 1)];
    let lengths = [axis(Role::Probabilities, 1), axis(Role::Probabilities, 2), axis(Role::Key, 1)];
    let barred = if let Some(size) = heads.iter().flatten().find(|&&s| s < LEAST_HEAD_SIZE) {
        Some(format!(
            "heads of {size} values are too small for INT8 to pay ({LEAST_HEAD_SIZE} at least)"
        ))
    } else {
        let longest = lengths.iter().flatten().find(|&&length| length > MOST_POSITIONS);
        longest.map(|length| {
            format!("{length} positions; TensorRT's fused INT8 attention ends at {MOST_POSITIONS}")
        })
    };
    let mut notes = vec![];
    if heads.iter().all(Option::is_none) {
        notes.push("its head size is not known".to_owned());
    }
    if lengths.iter().all(Option::is_none) {
        notes.push(format!(
            "its length is not fixed, and TensorRT's fused INT8 attention ends at {MOST_POSITIONS}"
        ));
    }
    (barred, (!notes.is_empty()).then(|| notes.join("; ")))
}
