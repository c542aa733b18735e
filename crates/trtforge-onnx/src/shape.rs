//! Shapes, propagated as far as they follow from what is declared: ranks and fixed sizes through the operators of encoders,
//! and the contents of the small integer vectors that exporters compute shapes with.

use std::collections::HashMap;

use crate::attribute::{attr, attr_i, attr_ints, is_default_domain, subgraphs};
use crate::element::{Dim, dims_of, tensor_type};
use crate::proto::{GraphProto, NodeProto, ValueInfoProto};
use crate::sort::topological_order;
use crate::tensor::Tensor;

/// Longer constants are data, not shapes; and no tensor has more axes (a `Gather` nearly doubles them: a few dozen in a row would
/// exhaust the memory).
const SHAPE_VECTOR_MAX: usize = 64;

/// Operators whose first output has the shape of the first input.
#[rustfmt::skip]
const SAME_SHAPE: [&str; 39] = [
    "Cast", "Erf", "Sqrt", "Tanh", "Relu", "Gelu", "Softmax", "LogSoftmax",
    "LayerNormalization", "Identity", "Dropout", "Neg", "Exp", "Log", "Not", "Clip",
    "Sigmoid", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Abs", "Reciprocal", "IsNaN", "IsInf",
    "CumSum", "RMSNormalization", "Sin", "Cos", "Floor", "Ceil", "Round", "Sign",
    "Trilu", "Swish", "CastLike", "HardSigmoid", "LeakyRelu", "Elu", "Softplus",
];

/// Operators whose inputs are broadcast against each other.
#[rustfmt::skip]
const BROADCAST: [&str; 18] = [
    "Add", "Sub", "Mul", "Div", "Pow", "Equal", "Greater", "Less",
    "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor", "Where", "Min", "Max",
    "Mod", "PRelu",
];

/// What is known about the tensors of a graph and the graphs nested in it.
#[derive(Debug, Default)]
pub(crate) struct Shapes<'m> {
    shapes: HashMap<&'m str, Vec<Dim>>,
    /// Contents of integer scalars and vectors; [`Dim::Unknown`] where an element is not known.
    values: HashMap<&'m str, Vec<Dim>>,
}

impl<'m> Shapes<'m> {
    pub(crate) fn of(graph: &'m GraphProto) -> Self {
        let mut found = Self::default();
        found.add_graph(graph);
        found
    }

    pub(crate) fn get(&self, tensor: &str) -> Option<&[Dim]> {
        self.shapes.get(tensor).map(Vec::as_slice)
    }

    fn add_graph(&mut self, graph: &'m GraphProto) {
        for input in &graph.input {
            self.shapes.extend(declared(input));
        }
        for tensor in &graph.initializer {
            self.add_constant(tensor.name(), &Tensor::from_proto(tensor));
        }
        let stated: HashMap<_, _> =
            graph.value_info.iter().chain(&graph.output).filter_map(declared).collect();
        let order =
            topological_order(&graph.node).unwrap_or_else(|_| (0..graph.node.len()).collect());
        for node in order.into_iter().map(|index| &graph.node[index]) {
            subgraphs(node).for_each(|inner| self.add_graph(inner));
            self.add_node(node);
            for output in &node.output {
                // What the exporter states is at least as precise as what follows.
                if let Some(shape) = stated.get(output.as_str()) {
                    self.shapes.insert(output, shape.clone());
                }
            }
        }
    }

    fn add_constant(&mut self, name: &'m str, tensor: &Tensor) {
        self.shapes.insert(name, tensor.dims.iter().map(|&d| Dim::Fixed(d)).collect());
        if tensor.dims.len() <= 1
            && tensor.len() <= SHAPE_VECTOR_MAX
            && let Ok(numbers) = tensor.to_i64()
        {
            self.values.insert(name, numbers.iter().map(|&n| Dim::Fixed(n)).collect());
        }
    }

    fn add_node(&mut self, node: &'m NodeProto) {
        let Some(first) = node.output.first().map(String::as_str).filter(|o| !o.is_empty()) else {
            return;
        };
        if !is_default_domain(node.domain()) {
            return;
        }
        if let Some(constant) =
            (node.op_type() == "Constant").then(|| Tensor::of_constant(node)).flatten()
        {
            return self.add_constant(first, &constant);
        }
        match node.op_type() {
            "Split" => return self.add_split(node),
            "If" => return self.add_branches(node),
            _ => {}
        }
        if let Some(value) = self.value_of(node) {
            self.values.insert(first, value);
        }
        if let Some(shape) = self.shape_of(node).filter(|s| s.len() <= SHAPE_VECTOR_MAX) {
            self.shapes.insert(first, shape);
        }
    }

    fn shape(&self, node: &NodeProto, input: usize) -> Option<&[Dim]> {
        self.get(node.input.get(input)?)
    }

    fn value(&self, node: &NodeProto, input: usize) -> Option<&[Dim]> {
        self.values.get(node.input.get(input)?.as_str()).map(Vec::as_slice)
    }

    fn fixed_value(&self, node: &NodeProto, input: usize) -> Option<Vec<i64>> {
        self.value(node, input)?.iter().map(Dim::fixed).collect()
    }

    /// Axes, from the attribute (old operator sets) or the input (new ones).
    fn axes(&self, node: &NodeProto) -> Option<Vec<i64>> {
        attr_ints(node, "axes").map(<[i64]>::to_vec).or_else(|| self.fixed_value(node, 1))
    }

    /// The content of a node's output, where it is a small integer vector.
    fn value_of(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        match node.op_type() {
            "Shape" => {
                let shape = self.shape(node, 0)?;
                let end = attr_i(node, "end").unwrap_or(i64::MAX);
                Some(slice(shape, attr_i(node, "start").unwrap_or(0), end)?.to_vec())
            }
            "Cast" | "Identity" | "Unsqueeze" | "Squeeze" => Some(self.value(node, 0)?.to_vec()),
            "Gather" => {
                let data = self.value(node, 0)?;
                let at = |index| data.get(usize::try_from(wrap(index, data.len())?).ok()?).cloned();
                self.fixed_value(node, 1)?.into_iter().map(at).collect()
            }
            "Concat" => {
                let parts: Option<Vec<&[Dim]>> =
                    (0..node.input.len()).map(|i| self.value(node, i)).collect();
                Some(parts?.concat()).filter(|v| v.len() <= SHAPE_VECTOR_MAX)
            }
            "Slice" => {
                let [start] = self.fixed_value(node, 1)?[..] else { return None };
                let [end] = self.fixed_value(node, 2)?[..] else { return None };
                let step = self.fixed_value(node, 4);
                let plain = step.is_none_or(|s| s == [1])
                    && (node.input.len() < 5 || self.value(node, 4).is_some());
                plain
                    .then(|| slice(self.value(node, 0)?, start, end).map(<[Dim]>::to_vec))
                    .flatten()
            }
            _ => None,
        }
    }

    fn shape_of(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let operator = node.op_type();
        if SAME_SHAPE.contains(&operator) {
            return self.shape(node, 0).map(<[Dim]>::to_vec);
        }
        if BROADCAST.contains(&operator) {
            return self.broadcast_inputs(node);
        }
        if operator.starts_with("Reduce") {
            return self.reduce(node);
        }
        match operator {
            "MatMul" | "MatMulInteger" => matmul(self.shape(node, 0)?, self.shape(node, 1)?),
            "Gemm" => self.gemm(node),
            "Transpose" => self.transpose(node),
            "Reshape" => self.reshape(node),
            "Expand" => broadcast(self.shape(node, 0)?, self.value(node, 1)?),
            "ConstantOfShape" => Some(self.value(node, 0)?.to_vec()),
            "Shape" => {
                Some(vec![self.value_of(node).map_or(Dim::Unknown, |v| Dim::Fixed(v.len() as i64))])
            }
            "Size" => Some(vec![]),
            "Gather" => self.gather(node),
            "Unsqueeze" => unsqueeze(self.shape(node, 0)?, &self.axes(node)?),
            "Squeeze" => self.squeeze(node),
            "Concat" => self.concat(node),
            "Slice" => self.slice_shape(node),
            "Flatten" => Some(vec![Dim::Unknown, Dim::Unknown]),
            "ArgMax" | "ArgMin" => {
                let shape = self.shape(node, 0)?;
                let axis = axis_of(node, shape.len(), 0)?;
                Some(drop_axes(shape, &[axis], attr_i(node, "keepdims") != Some(0)))
            }
            _ => None,
        }
    }

    fn gather(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let (data, indices) = (self.shape(node, 0)?, self.shape(node, 1)?);
        let axis = axis_of(node, data.len(), 0)?;
        Some([&data[..axis], indices, &data[axis + 1..]].concat())
    }

    fn broadcast_inputs(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let first = self.shape(node, 0)?.to_vec();
        (1..node.input.len())
            .try_fold(first, |shape, input| broadcast(&shape, self.shape(node, input)?))
    }

    fn gemm(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let size = |input: usize, transposed: &str, axis: usize| {
            let flip = attr_i(node, transposed).unwrap_or(0) != 0;
            self.shape(node, input)?.get(if flip { 1 - axis } else { axis }).cloned()
        };
        Some(vec![size(0, "transA", 0)?, size(1, "transB", 1)?])
    }

    fn transpose(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let shape = self.shape(node, 0);
        let Some(permutation) = attr_ints(node, "perm") else {
            return Some(shape?.iter().rev().cloned().collect());
        };
        let at = |&axis: &i64| {
            let known = shape.and_then(|s| s.get(usize::try_from(axis).ok()?));
            known.cloned().unwrap_or(Dim::Unknown)
        };
        Some(permutation.iter().map(at).collect())
    }

    fn reshape(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let Some(target) = self.value(node, 1) else {
            // The rank may still be known, as the length of the shape vector.
            let length = self.shape(node, 1)?.first()?.fixed()?;
            return Some(vec![
                Dim::Unknown;
                usize::try_from(length).ok().filter(|&n| n <= SHAPE_VECTOR_MAX)?
            ]);
        };
        let input = self.shape(node, 0);
        let copy_zero = attr_i(node, "allowzero").unwrap_or(0) == 0;
        let size = |(axis, dim): (usize, &Dim)| match dim {
            Dim::Fixed(0) if copy_zero => {
                input.and_then(|s| s.get(axis)).cloned().unwrap_or(Dim::Unknown)
            }
            Dim::Fixed(size) if *size < 0 => Dim::Unknown,
            other => other.clone(),
        };
        let mut shape: Vec<Dim> = target.iter().enumerate().map(size).collect();
        if let Some(rest) = target.iter().position(|d| *d == Dim::Fixed(-1)) {
            shape[rest] = remainder(input?, &shape, rest);
        }
        Some(shape)
    }

    fn squeeze(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let shape = self.shape(node, 0)?;
        let axes = match self.axes(node) {
            Some(axes) => normalize(&axes, shape.len())?,
            None if node.input.len() > 1 => return None,
            // Without axes, every size of 1 goes, which needs every size to be known.
            None => {
                let sizes: Vec<i64> = shape.iter().map(Dim::fixed).collect::<Option<_>>()?;
                (0..sizes.len()).filter(|&axis| sizes[axis] == 1).collect()
            }
        };
        Some(drop_axes(shape, &axes, false))
    }

    fn concat(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let mut shape = self.shape(node, 0)?.to_vec();
        let axis = axis_of(node, shape.len(), 0)?;
        let length = |input| self.shape(node, input)?.get(axis)?.fixed();
        let total =
            (0..node.input.len()).try_fold(0_i64, |sum, input| sum.checked_add(length(input)?));
        shape[axis] = total.map_or(Dim::Unknown, Dim::Fixed);
        Some(shape)
    }

    fn slice_shape(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let mut shape = self.shape(node, 0)?.to_vec();
        let attribute = |name: &str| attr_ints(node, name).map(<[i64]>::to_vec);
        let starts = attribute("starts").or_else(|| self.fixed_value(node, 1));
        let ends = attribute("ends").or_else(|| self.fixed_value(node, 2));
        let axes = attribute("axes").or_else(|| self.fixed_value(node, 3));
        let has_axes =
            attr(node, "axes").is_some() || node.input.get(3).is_some_and(|n| !n.is_empty());
        let axes = match axes {
            Some(axes) => normalize(&axes, shape.len())?,
            None if has_axes => return Some(vec![Dim::Unknown; shape.len()]),
            None => (0..starts.as_ref().map_or(shape.len(), Vec::len).min(shape.len())).collect(),
        };
        let stepped = node.input.len() > 4
            && self.fixed_value(node, 4).is_none_or(|s| s.iter().any(|&s| s != 1));
        for (at, &axis) in axes.iter().enumerate() {
            let bounds = (|| Some((*starts.as_ref()?.get(at)?, *ends.as_ref()?.get(at)?)))();
            shape[axis] = match (shape[axis].fixed(), bounds) {
                (Some(size), Some((start, end))) if !stepped => Dim::Fixed(span(size, start, end)),
                _ => Dim::Unknown,
            };
        }
        Some(shape)
    }

    fn reduce(&self, node: &NodeProto) -> Option<Vec<Dim>> {
        let shape = self.shape(node, 0)?;
        let keep = attr_i(node, "keepdims") != Some(0);
        let given =
            attr(node, "axes").is_some() || node.input.get(1).is_some_and(|n| !n.is_empty());
        let axes = match self.axes(node) {
            Some(axes) if !axes.is_empty() => normalize(&axes, shape.len())?,
            None if given => return keep.then(|| vec![Dim::Unknown; shape.len()]),
            _ if attr_i(node, "noop_with_empty_axes").unwrap_or(0) != 0 => {
                return Some(shape.to_vec());
            }
            _ => (0..shape.len()).collect(),
        };
        Some(drop_axes(shape, &axes, keep))
    }

    /// What both branches agree on.
    fn add_branches(&mut self, node: &'m NodeProto) {
        let branches: Vec<&GraphProto> = subgraphs(node).collect();
        let [one, other] = branches[..] else { return };
        for (index, output) in node.output.iter().enumerate() {
            let shape = |branch: &GraphProto| self.get(branch.output.get(index)?.name());
            if let (Some(a), Some(b)) = (shape(one), shape(other))
                && a.len() == b.len()
            {
                let dim = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { Dim::Unknown };
                let agreed = a.iter().zip(b).map(dim).collect();
                self.shapes.insert(output, agreed);
            }
        }
    }

    fn add_split(&mut self, node: &'m NodeProto) {
        let Some(shape) = self.shape(node, 0).map(<[Dim]>::to_vec) else { return };
        let Some(axis) = axis_of(node, shape.len(), 0) else { return };
        let sizes =
            attr_ints(node, "split").map(<[i64]>::to_vec).or_else(|| self.fixed_value(node, 1));
        let parts = node.output.len() as i64;
        let even = shape[axis]
            .fixed()
            .filter(|size| node.input.len() < 2 && size % parts == 0)
            .map(|size| size / parts);
        for (index, output) in node.output.iter().enumerate() {
            let size = sizes.as_ref().and_then(|s| s.get(index).copied()).or(even);
            let mut part = shape.clone();
            part[axis] = size.map_or(Dim::Unknown, Dim::Fixed);
            self.shapes.insert(output, part);
        }
    }
}

fn declared(info: &ValueInfoProto) -> Option<(&str, Vec<Dim>)> {
    Some((info.name(), dims_of(tensor_type(info.r#type.as_ref())?.shape.as_ref()?)))
}

fn wrap(index: i64, length: usize) -> Option<i64> {
    let wrapped = if index < 0 { index.checked_add(length as i64)? } else { index };
    (wrapped >= 0).then_some(wrapped)
}

/// Axes as positions; `None` when one is out of range.
fn normalize(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    axes.iter().map(|&axis| wrap(axis, rank).map(|a| a as usize).filter(|&a| a < rank)).collect()
}

fn axis_of(node: &NodeProto, rank: usize, default: i64) -> Option<usize> {
    normalize(&[attr_i(node, "axis").unwrap_or(default)], rank)?.first().copied()
}

/// Length of `start..end` in a dimension of `size`, with ONNX's negative and overlong bounds.
fn span(size: i64, start: i64, end: i64) -> i64 {
    let bound = |at: i64| if at < 0 { at.saturating_add(size).max(0) } else { at.min(size) };
    (bound(end) - bound(start)).max(0)
}

fn slice(dims: &[Dim], start: i64, end: i64) -> Option<&[Dim]> {
    let size = dims.len() as i64;
    let from = if start < 0 { start.saturating_add(size).max(0) } else { start.min(size) };
    dims.get(from as usize..(from + span(size, start, end)) as usize)
}

fn broadcast(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[Dim], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own].clone(),
        None => Dim::Fixed(1),
    };
    let dim = |axis| match (at(a, axis), at(b, axis)) {
        (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Some(other),
        (Dim::Fixed(a), Dim::Fixed(b)) if a != b => None,
        // A size above 1 wins: the other one is it, or 1.
        (Dim::Fixed(size), _) | (_, Dim::Fixed(size)) => Some(Dim::Fixed(size)),
        (a, b) if a == b => Some(a),
        _ => Some(Dim::Unknown),
    };
    (0..rank).map(dim).collect()
}

fn matmul(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (a_batch, a_matrix) = a.split_at(a.len() - 2);
    let (b_batch, b_matrix) = b.split_at(b.len() - 2);
    let mut shape = broadcast(a_batch, b_batch)?;
    shape.extend([a_matrix[0].clone(), b_matrix[1].clone()]);
    Some(shape)
}

fn unsqueeze(shape: &[Dim], axes: &[i64]) -> Option<Vec<Dim>> {
    let rank = shape.len() + axes.len();
    let new = normalize(axes, rank)?;
    let mut rest = shape.iter();
    let dim = |axis| if new.contains(&axis) { Some(Dim::Fixed(1)) } else { rest.next().cloned() };
    (0..rank).map(dim).collect()
}

fn drop_axes(shape: &[Dim], axes: &[usize], keep: bool) -> Vec<Dim> {
    let dim = |(axis, dim): (usize, &Dim)| {
        if axes.contains(&axis) { keep.then_some(Dim::Fixed(1)) } else { Some(dim.clone()) }
    };
    shape.iter().enumerate().filter_map(dim).collect()
}

/// What a `-1` in a reshape stands for: the input's size over the product of the others. Sizes that appear on both sides by
/// name cancel out.
fn remainder(input: &[Dim], shape: &[Dim], rest: usize) -> Dim {
    let mut names: Vec<&Dim> = input.iter().filter(|d| d.fixed().is_none()).collect();
    let mut divisor = 1_i64;
    for dim in shape.iter().enumerate().filter(|(axis, _)| *axis != rest).map(|(_, dim)| dim) {
        match (dim, names.iter().position(|n| *n == dim && *dim != Dim::Unknown)) {
            (Dim::Fixed(size), _) => divisor = divisor.saturating_mul(*size),
            (_, Some(at)) => drop(names.remove(at)),
            _ => return Dim::Unknown,
        }
    }
    let product = input.iter().filter_map(Dim::fixed).try_fold(1_i64, i64::checked_mul);
    match (product, names.as_slice()) {
        (Some(product), []) if divisor > 0 && product % divisor == 0 => {
            Dim::Fixed(product / divisor)
        }
        (Some(product), [name]) if product == divisor => (*name).clone(),
        _ => Dim::Unknown,
    }
}
