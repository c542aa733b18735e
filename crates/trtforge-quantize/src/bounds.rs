//! How large each activation can get, from what calibration saw and from what operators can do.
//!
//! Most tensors need no observation: a Softmax ends at 1, a Reshape changes nothing, a sum is at most the sum of its
//! parts. Only the rest is watched during calibration, which keeps the watching cheap.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{ElementType, is_op};

use crate::analysis::Analysis;
use crate::half_values::HALF_MAX;
use crate::operators::moves_values;

/// A magnitude that no value of a tensor passes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bound {
    value: f32,
    /// Whether it follows from the graph alone, without any observation.
    intrinsic: bool,
}

impl Bound {
    fn intrinsic(value: f32) -> Self {
        Self { value, intrinsic: true }
    }

    fn scaled(self, factor: f32) -> Self {
        Self { value: self.value * factor, ..self }
    }
}

/// Bounds of the FP32 activations of a graph.
pub(crate) struct Bounds<'m> {
    bounds: BTreeMap<&'m str, Bound>,
    /// Tensors whose bound neither follows from others nor was given, in graph order.
    pub unknown: Vec<&'m str>,
}

impl<'m> Bounds<'m> {
    /// - `known`: magnitudes seen, by tensor name.
    /// - `masked`: tensors without a bound, since they see the mask sentinel and may be clamped freely.
    pub fn new(
        analysis: &Analysis<'m>,
        known: &BTreeMap<String, f32>,
        masked: &BTreeSet<String>,
    ) -> Self {
        let mut this = Self { bounds: BTreeMap::new(), unknown: vec![] };
        this.fill(analysis, masked, &mut |this, node, output| {
            let seen = known.get(output).map(|&value| Bound { value, intrinsic: false });
            seen.or_else(|| this.derive(analysis, node))
        });
        this
    }

    /// The tensors to watch during calibration so that every other bound follows; those in `observed` are seen anyway.
    pub fn to_watch(
        analysis: &Analysis<'m>,
        observed: &BTreeSet<String>,
        masked: &BTreeSet<String>,
        exempt: &BTreeSet<String>,
    ) -> Vec<String> {
        // Whatever will be observed gets a stand-in; only whether a bound exists matters here.
        let seen = Bound { value: 0.0, intrinsic: false };
        let mut watch = vec![];
        let mut this = Self { bounds: BTreeMap::new(), unknown: vec![] };
        this.fill(analysis, masked, &mut |this, node, output| {
            if observed.contains(output) {
                return Some(seen);
            }
            this.derive(analysis, node).or_else(|| {
                if exempt.contains(output) {
                    return None;
                }
                watch.push(output.to_owned());
                Some(seen)
            })
        });
        watch
    }

    fn fill(
        &mut self,
        analysis: &Analysis<'m>,
        masked: &BTreeSet<String>,
        bound: &mut dyn FnMut(&Self, usize, &'m str) -> Option<Bound>,
    ) {
        for (name, constant) in
            analysis.constants.iter().filter(|(name, _)| !masked.contains(**name))
        {
            self.bounds.insert(name, Bound::intrinsic(constant.stats.absmax));
        }
        for index in 0..analysis.nodes().len() {
            let outputs = analysis.nodes()[index].output.iter().map(String::as_str);
            for output in outputs.filter(|o| analysis.is_computed(o) && !masked.contains(*o)) {
                match bound(self, index, output) {
                    Some(found) => drop(self.bounds.insert(output, found)),
                    None => self.unknown.push(output),
                }
            }
        }
    }

    /// The bound of a tensor; `None` where nothing is known of it.
    pub fn of(&self, tensor: &str) -> Option<f32> {
        self.bounds.get(tensor).map(|bound| bound.value)
    }

    /// The bound of a tensor that may pass `limit`.
    ///
    /// - `headroom`: how much larger rows that calibration did not see may be; bounds the graph itself gives need none.
    pub fn beyond(&self, tensor: &str, limit: f32, headroom: f32) -> Option<f32> {
        let bound = self.bounds.get(tensor)?;
        let limit = if bound.intrinsic { limit } else { limit / headroom };
        (bound.value > limit).then_some(bound.value)
    }

    /// The bound of a tensor that FP16 may not hold.
    pub fn beyond_half(&self, tensor: &str, headroom: f32) -> Option<f32> {
        self.beyond(tensor, HALF_MAX, headroom)
    }

    fn derive(&self, analysis: &Analysis<'m>, index: usize) -> Option<Bound> {
        let node = &analysis.nodes()[index];
        let inputs: Vec<&str> = node.input.iter().map(String::as_str).collect();
        let input = |i: usize| self.bounds.get(*inputs.get(i)?).copied();
        match node.op_type() {
            "Softmax" | "Sigmoid" | "HardSigmoid" | "Tanh" | "Erf" | "Softsign" | "Sign" => {
                Some(Bound::intrinsic(1.0))
            }
            "Cast" if is_bool(analysis, inputs.first()?) => Some(Bound::intrinsic(1.0)),
            "Relu" | "Abs" | "Neg" | "Gelu" | "Mish" | "HardSwish" | "Cast" | "Clip"
            | "ReduceMax" | "ReduceMin" => input(0),
            "Add" | "Sub" | "Sum" => self.sum(&inputs),
            "Mul" => product(input(0)?, input(1)?),
            "Div" if analysis.norms.divisions.contains(&index) => divided(analysis, node),
            "Div" => {
                // A computed divisor has no lower bound.
                let divisor = analysis.constants.get(inputs.get(1)?)?.stats;
                Some(input(0)?.scaled(1.0 / divisor.smallest))
            }
            "LayerNormalization" => normalized(analysis, &inputs),
            "Where" => largest([input(1), input(2)]),
            "Min" | "Max" | "Concat" => largest((0..inputs.len()).map(input)),
            "Pad" if inputs.len() < 3 => input(0),
            "Pad" | "ScatterElements" | "ScatterND" => largest([input(0), input(2)]),
            op if moves_values(op) && !is_op(node, "Where") => input(0),
            _ => None,
        }
    }

    fn sum(&self, inputs: &[&str]) -> Option<Bound> {
        inputs.iter().try_fold(Bound::intrinsic(0.0), |total, name| {
            let part = self.bounds.get(name)?;
            let intrinsic = total.intrinsic && part.intrinsic;
            Some(Bound { value: total.value + part.value, intrinsic })
        })
    }
}

/// A product is only bounded by its factors when one of them says so by itself (1 + erf, a constant): two observed
/// maxima hardly ever meet, and their product would send good tensors to FP32.
fn product(a: Bound, b: Bound) -> Option<Bound> {
    (a.intrinsic || b.intrinsic)
        .then_some(Bound { value: a.value * b.value, intrinsic: a.intrinsic && b.intrinsic })
}

fn is_bool(analysis: &Analysis, tensor: &str) -> bool {
    analysis.graph.element_type(tensor) == Some(ElementType::Bool)
}

fn largest(parts: impl IntoIterator<Item = Option<Bound>>) -> Option<Bound> {
    parts.into_iter().try_fold(Bound::intrinsic(0.0), |max, part| {
        let part = part?;
        let intrinsic = max.intrinsic && part.intrinsic;
        Some(Bound { value: max.value.max(part.value), intrinsic })
    })
}

/// The quotient of a written-out normalization, whose length the scale that follows tells.
fn divided(analysis: &Analysis, node: &NodeProto) -> Option<Bound> {
    let readers = analysis.readers(node.output.first()?).into_iter();
    let mut factors = readers
        .map(|reader| &analysis.nodes()[reader])
        .filter(|reader| is_op(reader, "Mul"))
        .flat_map(|reader| &reader.input)
        .filter_map(|name| analysis.constants.get(name.as_str()))
        .filter(|constant| constant.stats.count > 1);
    factors.next().map(|scale| Bound::intrinsic((scale.stats.count as f32).sqrt()))
}

/// A normalized vector of `n` values has none above √n.
fn normalized(analysis: &Analysis, inputs: &[&str]) -> Option<Bound> {
    let scale = analysis.constants.get(inputs.get(1)?)?.stats;
    let shift = inputs.get(2).filter(|name| !name.is_empty());
    let shift = match shift {
        Some(name) => analysis.constants.get(name)?.stats.absmax,
        None => 0.0,
    };
    Some(Bound::intrinsic((scale.count as f32).sqrt() * scale.absmax + shift))
}

#[cfg(test)]
mod tests {
    use trtforge_onnx::build::{graph, model, node, tensor_f32, value};
    use trtforge_onnx::{Dim, Model};

    use super::*;

    /// `a = x·w`, and what follows from it.
    fn chain() -> Model {
        let op = |op: &str, inputs: &[&str], output: &str| node(op, "", inputs, &[output], vec![]);
        let nodes = vec![
            op("MatMul", &["x", "w"], "a"),
            op("Add", &["a", "bias"], "b"),
            op("Softmax", &["b"], "c"),
            op("Mul", &["b", "c"], "d"),
            op("Div", &["d", "four"], "e"),
            op("Where", &["cond", "e", "bias"], "f"),
            op("LayerNormalization", &["f", "gamma", "bias"], "g"),
            op("Mul", &["a", "e"], "h"),
            op("Exp", &["g"], "y"),
        ];
        let constants = vec![
            tensor_f32("w", &[4, 4], &[1.0; 16]),
            tensor_f32("bias", &[4], &[0.5, -2.0, 0.0, 1.0]),
            tensor_f32("gamma", &[4], &[3.0, -3.0, 1.0, 1.0]),
            tensor_f32("four", &[], &[4.0]),
        ];
        let shape = [Dim::Unknown, Dim::Fixed(4)];
        let cond = value("cond", ElementType::Bool, &shape);
        let inputs = vec![value("x", ElementType::F32, &shape), cond];
        let outputs =
            vec![value("y", ElementType::F32, &shape), value("h", ElementType::F32, &shape)];
        model(17, graph(inputs, outputs, nodes, constants)).unwrap()
    }

    #[test]
    fn bounds_follow_from_what_was_seen() {
        let model = chain();
        let analysis = Analysis::new(&model);
        let known = BTreeMap::from([("a".to_owned(), 10.0)]);
        let bounds = Bounds::new(&analysis, &known, &BTreeSet::new());
        // By hand: 10 + 2, at most 1, 12 · 1, 12 / 4, max(3, 2), √4 · 3 + 2.
        for (tensor, bound) in
            [("b", 12.0), ("c", 1.0), ("d", 12.0), ("e", 3.0), ("f", 3.0), ("g", 8.0)]
        {
            assert_eq!(bounds.of(tensor), Some(bound), "{tensor}");
        }
        // Two observed maxima hardly ever meet, and an exponential of a bound says nothing.
        assert_eq!(bounds.unknown, ["h", "y"]);
        // Headroom is for what was seen (12 · 2 > 20), not for what the graph itself gives (8).
        assert_eq!(bounds.beyond("b", 20.0, 2.0), Some(12.0));
        assert_eq!(bounds.beyond("b", 20.0, 1.0), None);
        assert_eq!(bounds.beyond("g", 9.0, 2.0), None);
    }

    #[test]
    fn only_what_nothing_implies_is_watched() {
        let model = chain();
        let analysis = Analysis::new(&model);
        let none = BTreeSet::new();
        let watch = |observed: &BTreeSet<String>, masked: &BTreeSet<String>| {
            Bounds::to_watch(&analysis, observed, masked, &none)
        };
        assert_eq!(watch(&none, &none), ["a", "h", "y"]);
        assert_eq!(watch(&BTreeSet::from(["a".to_owned()]), &none), ["h", "y"]);
        // A masked tensor has no bound and is not watched; what would follow from it must be watched itself.
        let masked = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(watch(&none, &masked), ["d", "h", "y"]);
    }
}
