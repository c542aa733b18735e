//! Finding layer normalization written out, from its square root: `(x − mean) / √(variance + ε) · gain + shift`.

use std::collections::BTreeSet;

use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{ElementType, attr_i, attr_ints};

use super::NearMiss;
use super::fuse::{Fusion, Operator};
use super::view::View;

/// A reason against, in words.
type Finding<T> = Result<T, String>;

/// The layer normalization around a root; `None` when the root belongs to something else.
pub(super) fn find(view: &View, root: usize) -> Option<Result<Fusion, NearMiss>> {
    let power = power_of_root(view, root)?;
    let statistics = Statistics::before(view, root)?;
    let mut nodes = statistics.nodes.clone();
    let found = statistics.check(view).and_then(|epsilon| {
        let norm = Norm { view, statistics: &statistics, nodes: &mut nodes };
        norm.finish(root, power, epsilon)
    });
    Some(match found {
        Ok(fusion) => Ok(fusion),
        Err(reason) => Err(view.miss(statistics.nodes, reason)),
    })
}

/// ½ for `Sqrt` and `Pow` by it, −½ for its reciprocal.
fn power_of_root(view: &View, node: usize) -> Option<f64> {
    if view.is(node, "Sqrt") {
        return Some(0.5);
    }
    let power = view.scalar(view.input(node, 1)?)?;
    (view.is(node, "Pow") && power.abs() == 0.5).then_some(power)
}

/// The nodes up to the root, whether or not they are exactly those of a layer normalization.
struct Statistics<'m> {
    nodes: BTreeSet<usize>,
    epsilon: Option<f64>,
    /// The mean of squares, its node and that of the square.
    variance: usize,
    square: usize,
    deviation: &'m str,
}

impl<'m> Statistics<'m> {
    fn before(view: &View<'m>, root: usize) -> Option<Self> {
        let mut nodes = BTreeSet::from([root]);
        let mut tensor = view.input(root, 0)?;
        let mut epsilon = None;
        if let Some(add) = view.made_by(tensor, "Add") {
            let inputs = [view.input(add, 0)?, view.input(add, 1)?];
            let constant = inputs.iter().position(|name| view.is_constant(name))?;
            epsilon = Some(view.scalar(inputs[constant]).unwrap_or(f64::NAN));
            tensor = inputs[1 - constant];
            nodes.insert(add);
        }
        let variance = view.producer(tensor)?;
        if !view.is(variance, "ReduceMean") && !view.is(variance, "ReduceSum") {
            return None;
        }
        let square = view.producer(view.input(variance, 0)?)?;
        let (base, factor) = (view.input(square, 0)?, view.input(square, 1)?);
        let squares = view.is(square, "Pow") || (view.is(square, "Mul") && base == factor);
        nodes.extend([variance, square]);
        squares.then_some(Self { nodes, epsilon, variance, square, deviation: base })
    }

    /// The epsilon, if these are the statistics of a layer normalization.
    fn check(&self, view: &View<'m>) -> Finding<f64> {
        if view.is(self.variance, "ReduceSum") {
            return Err("squares are summed, and a layer normalization averages them".to_owned());
        }
        if view.is(self.square, "Pow") {
            let exponent = view.input(self.square, 1).and_then(|name| view.scalar(name));
            if exponent != Some(2.0) {
                let found = exponent.map_or_else(|| "not constant".to_owned(), |e| e.to_string());
                return Err(format!("the exponent of the deviation is {found}, expected 2"));
            }
        }
        let Some(epsilon) = self.epsilon else {
            return Err("no epsilon is added to the variance".to_owned());
        };
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(format!("its epsilon is {epsilon}, expected one number of 0 or more"));
        }
        Ok(epsilon)
    }
}

struct Norm<'v, 'm, 'n> {
    view: &'v View<'m>,
    statistics: &'v Statistics<'m>,
    nodes: &'n mut BTreeSet<usize>,
}

/// Where a matcher stands: the tensor that is the result so far, and what it was scaled and shifted by.
#[derive(Clone, Copy)]
struct Scaled<'m> {
    at: &'m str,
    scale: Option<&'m str>,
    shift: Option<&'m str>,
}

impl<'m> Norm<'_, 'm, '_> {
    fn finish(mut self, root: usize, power: f64, epsilon: f64) -> Finding<Fusion> {
        let (mut input, mean) = self.centered(self.statistics.deviation)?;
        let normalized = self.normalized(root, power, input, mean)?;
        let mut result = normalized;
        if normalized.scale.is_none() && normalized.shift.is_none() {
            if let Some((outer, at)) = self.cast_back(input, result.at) {
                (input, result.at) = (outer, at);
            }
            result = self.gain_and_shift(result)?;
        }
        self.check_types(input, result.at)?;
        if let Some(reason) = self.view.needed_outside(self.nodes, result.at) {
            return Err(reason);
        }
        let length = self.length(input, &result)?;
        Ok(Fusion {
            operator: Operator::LayerNormalization {
                epsilon: epsilon as f32,
                scale: result.scale.map(str::to_owned),
                shift: result.shift.map(str::to_owned),
                length,
            },
            nodes: self.nodes.clone(),
            input: input.to_owned(),
            output: result.at.to_owned(),
        })
    }

    /// `x` and its mean, of which `deviation` is the difference.
    fn centered(&mut self, deviation: &'m str) -> Finding<(&'m str, &'m str)> {
        let view = self.view;
        let sub = view.made_by(deviation, "Sub");
        let parts = sub.and_then(|sub| Some((sub, view.input(sub, 0)?, view.input(sub, 1)?)));
        let Some((sub, x, mean)) = parts else {
            return Err(format!(
                "`{deviation}`, which is squared, is no difference from a mean (as in an RMS normalization)"
            ));
        };
        let Some(reduce) =
            view.made_by(mean, "ReduceMean").filter(|&r| view.input(r, 0) == Some(x))
        else {
            return Err(format!("`{mean}`, which is subtracted from `{x}`, is not its mean"));
        };
        self.nodes.extend([sub, reduce]);
        for node in [reduce, self.statistics.variance] {
            over_last_axis(view, node, x)?;
        }
        Ok((x, mean))
    }

    /// From the root to the normalized tensor; TensorFlow's form comes out scaled and shifted.
    fn normalized(
        &mut self,
        root: usize,
        power: f64,
        x: &'m str,
        mean: &'m str,
    ) -> Finding<Scaled<'m>> {
        let view = self.view;
        let mut factor = view.output(root);
        if power > 0.0 {
            let next = self.only_reader(factor)?;
            let is_divisor = view.input(next, 1) == Some(factor);
            let one = view.input(next, 0).and_then(|name| view.scalar(name)) == Some(1.0);
            if view.is(next, "Div") && is_divisor && !one {
                self.same_deviation(view.input(next, 0).unwrap_or_default(), x, mean)?;
                self.nodes.insert(next);
                return Ok(Scaled { at: view.output(next), scale: None, shift: None });
            }
            let inverts = view.is(next, "Reciprocal") || (view.is(next, "Div") && is_divisor);
            if !inverts {
                let (label, op) = (view.label(next), view.node(next).op_type());
                return Err(format!("its root is read by `{label}`, a {op}, and divides nothing"));
            }
            self.nodes.insert(next);
            factor = view.output(next);
        }
        self.multiplied(factor, x, mean)
    }

    /// By the reciprocal of the root: the deviation, or `x` and its mean each, with the gain in the factor.
    fn multiplied(&mut self, factor: &'m str, x: &'m str, mean: &'m str) -> Finding<Scaled<'m>> {
        let view = self.view;
        let mut factor = factor;
        let mut scale = None;
        if let [next] = view.readers(factor)[..]
            && let Some((other, _)) = view.other(next, factor).filter(|_| view.is(next, "Mul"))
        {
            if view.vector(other).is_none() {
                self.same_deviation(other, x, mean)?;
                self.nodes.insert(next);
                return Ok(Scaled { at: view.output(next), scale: None, shift: None });
            }
            self.nodes.insert(next);
            (scale, factor) = (Some(other), view.output(next));
        }
        let product = |of: &str| {
            let found = view.readers(factor).into_iter().find(|&node| {
                view.is(node, "Mul") && view.other(node, factor).is_some_and(|(o, _)| o == of)
            });
            found.ok_or_else(|| format!("`{factor}` does not multiply `{of}`"))
        };
        let (of_x, of_mean) = (product(x)?, product(mean)?);
        self.nodes.extend([of_x, of_mean]);
        self.difference(view.output(of_x), view.output(of_mean), scale)
    }

    /// TensorFlow's `a + (shift − b)`, or `a − b`, or `a + (−b)`.
    fn difference(
        &mut self,
        a: &'m str,
        b: &'m str,
        scale: Option<&'m str>,
    ) -> Finding<Scaled<'m>> {
        let view = self.view;
        let next = self.only_reader(b)?;
        self.nodes.insert(next);
        if view.is(next, "Sub") && view.input(next, 0) == Some(a) {
            return Ok(Scaled { at: view.output(next), scale, shift: None });
        }
        let shift = view.input(next, 0).filter(|name| view.vector(name).is_some());
        let shifted = view.is(next, "Sub") && shift.is_some();
        let add = if shifted || view.is(next, "Neg") { Some(view.output(next)) } else { None };
        let add = add.map(|name| Ok::<_, String>((name, self.only_reader(name)?))).transpose()?;
        match add {
            Some((name, add))
                if view.is(add, "Add") && view.other(add, name).is_some_and(|(o, _)| o == a) =>
            {
                self.nodes.insert(add);
                Ok(Scaled { at: view.output(add), scale, shift: shift.filter(|_| shifted) })
            }
            _ => Err(format!("`{a}` and `{b}` are not combined as a normalization does")),
        }
    }

    /// Exporters may compute `x − mean` once for the square and once for the quotient.
    fn same_deviation(&mut self, tensor: &'m str, x: &'m str, mean: &'m str) -> Finding<()> {
        if tensor == self.statistics.deviation {
            return Ok(());
        }
        let view = self.view;
        let twin = view.made_by(tensor, "Sub");
        match twin.filter(|&n| view.input(n, 0) == Some(x) && view.input(n, 1) == Some(mean)) {
            Some(sub) => {
                self.nodes.insert(sub);
                Ok(())
            }
            None => {
                Err(format!("`{tensor}`, not the deviation from the mean, is divided by its root"))
            }
        }
    }

    fn only_reader(&self, tensor: &'m str) -> Finding<usize> {
        if let Some(reason) = self.view.shown(tensor) {
            return Err(format!("{reason}, and it is inside of the normalization"));
        }
        match self.view.readers(tensor)[..] {
            [reader] => Ok(reader),
            ref readers => {
                let count = readers.len();
                Err(format!("{count} nodes read `{tensor}`, which is inside of the normalization"))
            }
        }
    }

    /// FP16 models cast to FP32 for the statistics and back: the operator does that by itself.
    fn cast_back(&mut self, x: &'m str, normalized: &'m str) -> Option<(&'m str, &'m str)> {
        let view = self.view;
        let into = view.made_by(x, "Cast")?;
        let outer = view.input(into, 0)?;
        let half = |name: &str| view.graph.element_type(name) == Some(ElementType::F16);
        let [back] = view.readers(normalized)[..] else { return None };
        let fits = view.is(back, "Cast") && half(outer) && half(view.output(back));
        if !fits || view.shown(normalized).is_some() {
            return None;
        }
        self.nodes.insert(back);
        if view.needed_outside(&BTreeSet::from([into]), "").is_none()
            || view.readers(x).iter().all(|reader| self.nodes.contains(reader))
        {
            self.nodes.insert(into);
        }
        Some((outer, view.output(back)))
    }

    fn gain_and_shift(&mut self, normalized: Scaled<'m>) -> Finding<Scaled<'m>> {
        let mut result = normalized;
        if let Some((node, gain)) = self.constant_step("Mul", result.at)? {
            (result.scale, result.at) = (Some(gain), self.view.output(node));
        }
        if let Some((node, shift)) = self.constant_step("Add", result.at)? {
            (result.shift, result.at) = (Some(shift), self.view.output(node));
        }
        Ok(result)
    }

    /// The node that combines a tensor with a constant vector. One among other readers is a reason against.
    fn constant_step(&mut self, op: &str, tensor: &'m str) -> Finding<Option<(usize, &'m str)>> {
        let view = self.view;
        let step = view.readers(tensor).into_iter().find_map(|node| {
            let (other, _) = view.other(node, tensor).filter(|_| view.is(node, op))?;
            view.vector(other).map(|_| (node, other))
        });
        if step.is_some() {
            self.only_reader(tensor)?;
        }
        self.nodes.extend(step.map(|(node, _)| node));
        Ok(step)
    }

    fn check_types(&self, input: &str, output: &str) -> Finding<()> {
        let variance = self.view.output(self.statistics.variance);
        if !self.view.is_single(variance) {
            return Err(format!("`{variance}`, its variance, is not FP32"));
        }
        let types = [input, output].map(|name| self.view.graph.element_type(name));
        if types[0] == types[1] {
            Ok(())
        } else {
            Err("it casts to another type inside".to_owned())
        }
    }

    /// The length of the normalized axis, which a missing gain must be made for.
    fn length(&self, input: &str, result: &Scaled) -> Finding<i64> {
        let axis = self.view.last_axis(input);
        let mut known: Vec<i64> = [result.scale, result.shift]
            .into_iter()
            .flatten()
            .filter_map(|v| self.view.vector(v))
            .collect();
        known.extend(axis);
        known.dedup();
        match known[..] {
            [length] => Ok(length),
            [] => Err("it has no gain, and the length of the last axis is not known".to_owned()),
            _ => Err(format!("its gain, its shift and its last axis differ in length: {known:?}")),
        }
    }
}

fn over_last_axis(view: &View, reduce: usize, x: &str) -> Finding<()> {
    let node = view.node(reduce);
    let label = view.label(reduce);
    if attr_i(node, "keepdims").unwrap_or(1) == 0 {
        return Err(format!("`{label}` drops the axis it averages over"));
    }
    let axes = axes(view, node);
    let last = view.rank(x).map(|rank| rank as i64 - 1);
    match axes.as_deref() {
        Some([-1]) => Ok(()),
        Some([axis]) if Some(*axis) == last => Ok(()),
        Some(axes) => {
            Err(format!("`{label}` averages over the axes {axes:?}, expected the last one"))
        }
        None => Err(format!("`{label}` averages over axes that are not constant, or over all")),
    }
}

fn axes(view: &View, node: &NodeProto) -> Option<Vec<i64>> {
    if let Some(axes) = attr_ints(node, "axes") {
        return Some(axes.to_vec());
    }
    let input = node.input.get(1).filter(|name| !name.is_empty())?;
    Some(view.graph.constant(input)?.to_i64().ok()?.to_vec())
}
