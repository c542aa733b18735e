//! Replacing what the matchers found by the ONNX operators, after raising the operator set that these need.

use std::borrow::Cow;
use std::collections::BTreeSet;

use trtforge_onnx::build::{attr_float, attr_int, attr_string, node};
use trtforge_onnx::{ElementType, Model, Patch, convert_opset};

use super::simplify::simplify;
use super::view::View;
use super::{CanonicalOptions, Log, NearMiss, RewriteKind, gelu, layer_norm};
use crate::QuantizeError;

/// The operator that nodes become.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operator {
    LayerNormalization { epsilon: f32, scale: Option<String>, shift: Option<String>, length: i64 },
    Gelu { tanh: bool },
}

impl Operator {
    /// The operator set that defines it.
    fn opset(&self) -> i64 {
        match self {
            Self::LayerNormalization { .. } => 17,
            Self::Gelu { .. } => 20,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::LayerNormalization { .. } => "LayerNormalization",
            Self::Gelu { .. } => "Gelu",
        }
    }

    fn kind(&self) -> RewriteKind {
        match self {
            Self::LayerNormalization { .. } => RewriteKind::LayerNormalizationFused,
            Self::Gelu { .. } => RewriteKind::GeluFused,
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::LayerNormalization { epsilon, scale, shift, .. } => {
                let part = |what: &str, name: &Option<String>| match name {
                    Some(name) => format!("{what} `{name}`"),
                    None => format!("no {what}"),
                };
                let (gain, shift) = (part("gain", scale), part("shift", shift));
                format!(
                    "a layer normalization over the last axis, epsilon {epsilon:e}, {gain}, {shift}"
                )
            }
            Self::Gelu { tanh: false } => "x/2 · (1 + erf(x/√2)) is GELU".to_owned(),
            Self::Gelu { tanh: true } => {
                "x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) is GELU's approximation".to_owned()
            }
        }
    }
}

/// Nodes that together are one operator.
#[derive(Clone, Debug)]
pub(super) struct Fusion {
    pub operator: Operator,
    pub nodes: BTreeSet<usize>,
    pub input: String,
    pub output: String,
}

/// The model with everything found replaced.
pub(super) fn fuse(
    model: Cow<Model>,
    options: &CanonicalOptions,
    log: &mut Log,
) -> Result<Model, QuantizeError> {
    let (fusions, near_misses) = find(&model);
    let Some(wanted) = fusions.iter().map(|fusion| fusion.operator.opset()).max() else {
        log.near_misses.extend(near_misses);
        return Ok(model.into_owned());
    };
    let (model, refused) = raised(model, wanted, &fusions, options, log)?;
    let (fusions, near_misses) = find(&model);
    log.near_misses.extend(near_misses);
    let (possible, impossible): (Vec<Fusion>, Vec<Fusion>) =
        fusions.into_iter().partition(|fusion| fusion.operator.opset() <= model.opset());
    let view = View::new(&model);
    log.near_misses.extend(impossible.iter().map(|fusion| {
        let (name, opset) = (fusion.operator.name(), fusion.operator.opset());
        let why = refused.as_deref().unwrap_or("the model cannot be raised to it");
        view.miss(fusion.nodes.iter().copied(), format!("{name} needs operator set {opset}: {why}"))
    }));
    if possible.is_empty() {
        return Ok(model.into_owned());
    }
    let fused = apply(&model, &view, &possible, log)?;
    // A Cast that only led into a pattern leads nowhere now.
    Ok(simplify(&fused, options, &mut Log::default())?.into_owned())
}

/// Everything that can be fused, in graph order and each node once, and what nearly can.
fn find(model: &Model) -> (Vec<Fusion>, Vec<NearMiss>) {
    let view = View::new(model);
    let (mut fusions, mut near_misses): (Vec<Fusion>, Vec<NearMiss>) = (vec![], vec![]);
    let mut taken = BTreeSet::new();
    for index in 0..view.graph.nodes().len() {
        let found = if view.is(index, "Erf") || view.is(index, "Tanh") {
            gelu::find(&view, index)
        } else if view.is(index, "Sqrt") || view.is(index, "Pow") {
            layer_norm::find(&view, index)
        } else {
            None
        };
        match found {
            Some(Ok(fusion)) if taken.is_disjoint(&fusion.nodes) => {
                taken.extend(&fusion.nodes);
                fusions.push(fusion);
            }
            Some(Err(miss)) => near_misses.push(miss),
            Some(Ok(_)) | None => {}
        }
    }
    (fusions, near_misses)
}

/// The model with an operator set for all fusions, or for some, and why not for all.
fn raised<'a>(
    model: Cow<'a, Model>,
    wanted: i64,
    fusions: &[Fusion],
    options: &CanonicalOptions,
    log: &mut Log,
) -> Result<(Cow<'a, Model>, Option<String>), QuantizeError> {
    let from = model.opset();
    let mut refused = None;
    let mut targets: Vec<i64> = fusions.iter().map(|fusion| fusion.operator.opset()).collect();
    targets.sort_unstable();
    targets.dedup();
    for target in targets.into_iter().rev().filter(|&target| target > from) {
        match convert_opset(&model, target) {
            Ok(converted) => {
                let users = fusions.iter().filter(|fusion| fusion.operator.opset() > from);
                let names: BTreeSet<&str> = users
                    .filter(|fusion| fusion.operator.opset() <= target)
                    .map(|fusion| fusion.operator.name())
                    .collect();
                let names = names.into_iter().collect::<Vec<_>>().join(" and ");
                let reason = format!("from operator set {from} to {target}, for {names}");
                log.add(RewriteKind::OpsetRaised, vec![], "", &reason);
                // What the conversion added is constant too, and no name that anyone has seen.
                let simple = simplify(&converted, options, &mut Log::default())?.into_owned();
                return Ok((Cow::Owned(simple), refused));
            }
            Err(error) if target == wanted => refused = Some(error.to_string()),
            Err(_) => {}
        }
    }
    Ok((model, refused))
}

fn apply(
    model: &Model,
    view: &View,
    fusions: &[Fusion],
    log: &mut Log,
) -> Result<Model, QuantizeError> {
    let mut patch = Patch::new(model);
    for fusion in fusions {
        let Fusion { operator, nodes, input, output } = fusion;
        let last = view.producer(output).map_or("", |index| view.node(index).name());
        let labels = nodes.iter().map(|&index| view.label(index)).collect();
        log.add(operator.kind(), labels, output, &operator.reason());
        let inner = nodes.iter().flat_map(|&index| {
            let outputs = view.node(index).output.iter().map(String::as_str);
            outputs.chain([view.node(index).name()])
        });
        let what = format!("is part of the {} that makes `{output}`", operator.name());
        log.origins.lose(inner, &what);
        for &index in nodes {
            patch.remove_node(index);
        }
        let (inputs, attributes) = match operator {
            Operator::Gelu { tanh } => {
                let form = tanh.then(|| attr_string("approximate", "tanh"));
                (vec![input.clone()], form.into_iter().collect())
            }
            Operator::LayerNormalization { epsilon, scale, shift, length } => {
                let scale =
                    scale.clone().unwrap_or_else(|| ones(&mut patch, view, fusion, *length));
                let inputs = [Some(input.clone()), Some(scale), shift.clone()];
                let attributes = vec![attr_int("axis", -1), attr_float("epsilon", *epsilon)];
                (inputs.into_iter().flatten().collect(), attributes)
            }
        };
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        patch.add_node(node(operator.name(), last, &inputs, &[output], attributes));
    }
    patch.remove_unused_initializers();
    Ok(patch.finish()?)
}

/// The gain of a normalization that has none.
fn ones(patch: &mut Patch, view: &View, fusion: &Fusion, length: i64) -> String {
    let name = patch.unique_name(&format!("{}_gain", fusion.output));
    let half = view.graph.element_type(&fusion.input) == Some(ElementType::F16);
    let (element_type, one) = if half {
        (ElementType::F16, half::f16::ONE.to_le_bytes().to_vec())
    } else {
        (ElementType::F32, 1_f32.to_le_bytes().to_vec())
    };
    let count = usize::try_from(length).unwrap_or_default();
    patch.add_initializer(&name, element_type, vec![length], one.repeat(count));
    name
}
