//! Which nodes compute in FP16 and which stay FP32, each with its reason.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_onnx::{ElementType, is_op};

use crate::analysis::Analysis;
use crate::bounds::Bounds;
use crate::half_values::{HALF_MAX, HALF_MIN_NORMAL};
use crate::operators::{HalfForm, half_form, is_elementwise, moves_values};

/// The precision a node computes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Compute {
    /// No float passes through it, or it does not care.
    Other,
    /// FP16.
    Half,
    /// FP32, for this reason.
    Single(String),
}

impl Compute {
    pub fn is_single(&self) -> bool {
        matches!(self, Self::Single(_))
    }
}

/// What decides on precision besides the graph itself.
pub(crate) struct Evidence<'a, 'm> {
    pub bounds: &'a Bounds<'m>,
    pub masked: &'a BTreeSet<String>,
    /// How much larger than during calibration an activation may get.
    pub headroom: f32,
    /// Nodes that must compute in FP32 whatever their operator, with the reason.
    pub forced: &'a BTreeMap<usize, String>,
    /// Inputs that will be INT8: `(node, input)`.
    pub int8_inputs: &'a BTreeSet<(usize, usize)>,
}

/// The precision of every node, in graph order.
pub(crate) fn assign(analysis: &Analysis, opset: i64, evidence: &Evidence) -> Vec<Compute> {
    let count = analysis.nodes().len();
    let from_shapes = shape_arithmetic(analysis);
    let mut compute: Vec<Compute> = (0..count)
        .map(|node| {
            if !has_floats(analysis, node) {
                return Compute::Other;
            }
            let form = half_form(&analysis.nodes()[node], opset);
            if form == HalfForm::AnyInput {
                return Compute::Other;
            }
            let reason = evidence.forced.get(&node).cloned();
            let reason = reason.or_else(|| by_pattern(analysis, node, &from_shapes));
            let reason = reason.or_else(|| by_operator(form)).or_else(|| by_type(analysis, node));
            let reason = reason.or_else(|| by_value(analysis, evidence, node));
            reason.map_or(Compute::Half, Compute::Single)
        })
        .collect();
    guard_divisors(analysis, &mut compute);
    absorb_islands(analysis, &mut compute);
    compute
}

/// The nodes that stay FP32 whatever calibration sees.
pub(crate) fn always_single(analysis: &Analysis, opset: i64) -> BTreeSet<usize> {
    let (none, nowhere) = (BTreeMap::new(), BTreeSet::new());
    let evidence = Evidence {
        bounds: &Bounds::new(analysis, &none, &nowhere),
        masked: &nowhere,
        headroom: 1.0,
        forced: &BTreeMap::new(),
        int8_inputs: &BTreeSet::new(),
    };
    let compute = assign(analysis, opset, &evidence);
    (0..compute.len()).filter(|&node| compute[node].is_single()).collect()
}

fn has_floats(analysis: &Analysis, node: usize) -> bool {
    let proto = &analysis.nodes()[node];
    if proto.output.first().is_some_and(|o| analysis.is_constant(o)) {
        return false;
    }
    let untyped = |name: &&String| !name.is_empty() && analysis.graph.element_type(name).is_none();
    let mut names = proto.input.iter().chain(&proto.output);
    names.any(|name| analysis.is_single(name) || untyped(&name))
}

fn by_operator(form: HalfForm) -> Option<String> {
    match form {
        HalfForm::No(reason) => Some(reason.to_owned()),
        HalfForm::Yes | HalfForm::AnyInput => None,
    }
}

/// A tensor of unknown or of another float type next to it forbids to change this one's.
fn by_type(analysis: &Analysis, node: usize) -> Option<String> {
    let proto = &analysis.nodes()[node];
    let other = |name: &&String| {
        let element_type = analysis.graph.element_type(name);
        let float = matches!(element_type, Some(ElementType::F64 | ElementType::Bf16));
        !name.is_empty() && (float || element_type.is_none())
    };
    let found = proto.input.iter().chain(&proto.output).find(other)?;
    Some(match analysis.graph.element_type(found) {
        Some(element_type) => format!("it also handles `{found}`, which is {element_type}"),
        None => format!("the element type of `{found}` is unknown"),
    })
}

fn by_pattern(analysis: &Analysis, node: usize, from_shapes: &BTreeSet<usize>) -> Option<String> {
    if analysis.norms.nodes.contains(&node) {
        let reason = "part of a normalization in small operators: its squares may pass 65504 and FP16 rounds its epsilon to 0";
        return Some(reason.to_owned());
    }
    from_shapes
        .contains(&node)
        .then(|| "arithmetic on shapes: FP16 cannot hold integers above 2048".to_owned())
}

fn by_value(analysis: &Analysis, evidence: &Evidence, node: usize) -> Option<String> {
    let proto = &analysis.nodes()[node];
    for (index, name) in proto.input.iter().enumerate() {
        let skip = evidence.masked.contains(name) || evidence.int8_inputs.contains(&(node, index));
        if let Some(constant) = analysis.constants.get(name.as_str()).filter(|_| !skip) {
            if constant.stats.absmax > HALF_MAX {
                let value = constant.stats.absmax;
                return Some(format!("constant `{name}` reaches {value}, beyond FP16's 65504"));
            }
            if let Some(value) = constant.scalar().filter(|v| is_tiny(*v)) {
                return Some(format!("constant `{name}` is {value:e}: FP16 would lose or zero it"));
            }
        }
    }
    if let Some(reason) = by_squares(analysis, evidence, node) {
        return Some(reason);
    }
    let computed = proto.input.iter().chain(&proto.output).filter(|n| analysis.is_computed(n));
    let mut large = computed.filter_map(|name| {
        let value = evidence.bounds.beyond_half(name, evidence.headroom)?;
        Some(format!("`{name}` reaches {value}; FP16 ends at 65504"))
    });
    large.next()
}

/// A normalization operator whose squares FP16 could not hold: ONNX has them computed in FP32, but not every runtime
/// obeys, and one whose data is FP32 has no choice.
fn by_squares(analysis: &Analysis, evidence: &Evidence, node: usize) -> Option<String> {
    let proto = &analysis.nodes()[node];
    if !is_op(proto, "LayerNormalization") && !is_op(proto, "RMSNormalization") {
        return None;
    }
    let data = proto.input.first()?;
    let value = evidence.bounds.beyond(data, HALF_MAX.sqrt(), evidence.headroom)?;
    Some(format!("`{data}` reaches {value}: its squares, for the variance, may pass FP16's 65504"))
}

fn is_tiny(value: f32) -> bool {
    value != 0.0 && value.abs() < HALF_MIN_NORMAL
}

/// Nodes that compute with floats made from shapes, such as the square root of the head size.
fn shape_arithmetic(analysis: &Analysis) -> BTreeSet<usize> {
    let mut tensors: BTreeSet<&str> = BTreeSet::new();
    let mut nodes = BTreeSet::new();
    for (index, node) in analysis.nodes().iter().enumerate() {
        let op = node.op_type();
        let inputs: Vec<&str> = node.input.iter().map(String::as_str).collect();
        let derived = if matches!(op, "Shape" | "Size") {
            true
        } else if is_elementwise(op) || matches!(op, "Cast" | "Concat") {
            let mut varying =
                inputs.iter().filter(|i| !i.is_empty() && analysis.graph.constant(i).is_none());
            varying.clone().next().is_some() && varying.all(|i| tensors.contains(i))
        } else {
            matches!(op, "Gather" | "Slice" | "Squeeze" | "Unsqueeze" | "Identity")
                && inputs.first().is_some_and(|i| tensors.contains(i))
        };
        if derived {
            tensors.extend(node.output.iter().map(String::as_str));
            nodes.insert(index);
        }
    }
    nodes
}

/// A divisor kept off zero by an epsilon too small for FP16 must stay FP32 up to the division, or it is 0 again.
fn guard_divisors(analysis: &Analysis, compute: &mut [Compute]) {
    const PASSES_ON: [&str; 10] = [
        "Sqrt",
        "Reciprocal",
        "Pow",
        "Expand",
        "Unsqueeze",
        "Squeeze",
        "Reshape",
        "Identity",
        "Cast",
        "Transpose",
    ];
    let mut guarded: BTreeSet<&str> = BTreeSet::new();
    for (index, node) in analysis.nodes().iter().enumerate() {
        let reads_guarded = node.input.iter().any(|i| guarded.contains(i.as_str()));
        let adds_guard = ["Add", "Max", "Clip", "Where"].iter().any(|op| is_op(node, op))
            && node.input.iter().any(|i| analysis.scalar(i).is_some_and(is_tiny));
        let passes_on = reads_guarded && PASSES_ON.iter().any(|op| is_op(node, op));
        if adds_guard || passes_on {
            guarded.extend(node.output.iter().map(String::as_str));
        }
        let divides =
            is_op(node, "Div") && node.input.get(1).is_some_and(|d| guarded.contains(d.as_str()));
        if (passes_on || divides) && compute[index] == Compute::Half {
            let reason = "a divisor kept off zero by an epsilon that FP16 would round to 0";
            compute[index] = Compute::Single(reason.to_owned());
        }
    }
}

/// A light node that only connects FP32 nodes joins them: two casts would cost more than FP16 saves, and precision too.
fn absorb_islands(analysis: &Analysis, compute: &mut [Compute]) {
    loop {
        let islands: Vec<usize> =
            (0..compute.len()).filter(|&node| is_island(analysis, compute, node)).collect();
        if islands.is_empty() {
            return;
        }
        for node in islands {
            let reason = "it only connects FP32 nodes; two casts would cost more than they save";
            compute[node] = Compute::Single(reason.to_owned());
        }
    }
}

fn is_island(analysis: &Analysis, compute: &[Compute], node: usize) -> bool {
    let proto = &analysis.nodes()[node];
    if compute[node] != Compute::Half
        || !(moves_values(proto.op_type()) || is_elementwise(proto.op_type()))
    {
        return false;
    }
    let mut sources = analysis.computed_inputs(node).map(|input| analysis.producer(input));
    let from_single = analysis.computed_inputs(node).next().is_some()
        && sources.all(|source| source.is_none_or(|p| compute[p].is_single()));
    let mut outputs = proto.output.iter().filter(|o| analysis.is_single(o));
    from_single
        && proto.output.iter().any(|o| analysis.is_single(o))
        && outputs.all(|output| {
            let readers = analysis.readers(output);
            let caring = readers.iter().filter(|&&r| compute[r] != Compute::Other);
            (analysis.name_is_fixed(output) || caring.clone().next().is_some())
                && caring.clone().all(|&r| compute[r].is_single())
        })
}
