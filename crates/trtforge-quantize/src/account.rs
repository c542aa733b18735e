//! The account of a rewrite: a decision for every float tensor, in graph order, and what is worth a warning.

use std::collections::BTreeSet;

use crate::analysis::{Analysis, Constant};
use crate::bounds::Bounds;
use crate::decision::{Action, Decision};
use crate::half_values::floats;
use crate::layer::guess_layer;
use crate::mask::MASK_IN_HALF;
use crate::precision::Compute;
use crate::rewrite::Rewriter;

/// From this share of nonzero values lost on, a weight is worth a warning.
const NOTEWORTHY_SHARE: f64 = 0.001;

/// Decisions and warnings about everything that is FP16 or FP32 in the end.
pub(crate) struct Account {
    pub decisions: Vec<Decision>,
    pub warnings: Vec<String>,
}

/// - `int8`: tensors that are accounted for elsewhere, as INT8.
pub(crate) fn account(rewriter: &Rewriter, bounds: &Bounds, int8: &BTreeSet<String>) -> Account {
    let analysis = rewriter.analysis;
    let mut this = Account { decisions: vec![], warnings: vec![] };
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for input in analysis.graph.inputs() {
        if input.element_type == trtforge_onnx::ElementType::F32 {
            let reason = "a graph input keeps its type";
            this.decisions.push(decision(analysis, &input.name, None, Action::KeptFloat32, reason));
        }
    }
    for (index, node) in analysis.nodes().iter().enumerate() {
        let compute = &rewriter.compute[index];
        for name in node.input.iter().filter(|n| !int8.contains(*n)) {
            if let Some((name, constant)) = analysis.constants.get_key_value(name.as_str())
                && *compute != Compute::Other
                && seen.insert(name)
            {
                this.constant(rewriter, index, name, constant);
            }
        }
        for name in node.output.iter().filter(|n| analysis.is_computed(n) && !int8.contains(*n)) {
            let (action, reason) = match compute {
                Compute::Half => (Action::Half, why_half(bounds, rewriter.masked, name)),
                Compute::Single(reason) => (Action::KeptFloat32, reason.clone()),
                Compute::Other => continue,
            };
            this.decisions.push(decision(analysis, name, Some(index), action, &reason));
        }
        this.filled_mask(rewriter, index);
    }
    this.unknown_ranges(rewriter, bounds);
    this
}

impl Account {
    fn constant(&mut self, rewriter: &Rewriter, reader: usize, name: &str, constant: &Constant) {
        let analysis = rewriter.analysis;
        let readers = analysis.readers(name);
        let single = readers.iter().find_map(|&r| match &rewriter.compute[r] {
            Compute::Single(reason) => Some(reason.clone()),
            _ => None,
        });
        let half = readers.iter().any(|&r| rewriter.compute[r] == Compute::Half);
        if rewriter.is_clamped(name, constant) {
            self.clamped(analysis, name, reader, extreme(constant));
        } else if half {
            let mut reason = "FP16 weight".to_owned();
            let lost = constant.stats.vanishing;
            if lost > 0 {
                reason = format!("{reason}; {lost} of {} values become 0", constant.stats.count);
            }
            if lost as f64 > constant.stats.count as f64 * NOTEWORTHY_SHARE {
                self.warnings.push(format!(
                    "`{name}`: {lost} of {} values are too small for FP16 and become 0",
                    constant.stats.count
                ));
            }
            if single.is_some() {
                reason += "; an FP32 copy stays for its FP32 readers";
            }
            self.decisions.push(decision(analysis, name, Some(reader), Action::Half, &reason));
        } else if let Some(reason) = single {
            let action = Action::KeptFloat32;
            self.decisions.push(decision(analysis, name, Some(reader), action, &reason));
        }
    }

    /// A `ConstantOfShape` that fills a mask.
    fn filled_mask(&mut self, rewriter: &Rewriter, index: usize) {
        let node = &rewriter.analysis.nodes()[index];
        if !trtforge_onnx::is_op(node, "ConstantOfShape") {
            return;
        }
        let fill = trtforge_onnx::attr_tensor(node, "value")
            .and_then(|tensor| tensor.to_f32().ok()?.first().copied());
        let masked = node.output.iter().find(|o| rewriter.masked.contains(*o));
        if let (Some(fill), Some(output)) = (fill, masked)
            && fill.abs() > MASK_IN_HALF
        {
            self.decisions.pop();
            self.clamped(rewriter.analysis, output, index, fill);
        }
    }

    fn clamped(&mut self, analysis: &Analysis, name: &str, node: usize, value: f32) {
        let to = MASK_IN_HALF.copysign(value);
        // Thirty-nine digits say less than an exponent.
        let from = if value.abs() < 1e9 { value.to_string() } else { format!("{value:e}") };
        let action = Action::ClampedConstant { from: from.clone(), to };
        let reason = "mask sentinel beyond FP16: e^-30000 is still 0, and two masks and scores added stay within 65504";
        self.decisions.push(decision(analysis, name, Some(node), action, reason));
        self.warnings.push(format!(
            "mask constant `{name}` was {from}, beyond the FP16 range of ±65504 once summed; it is {to} now"
        ));
    }

    fn unknown_ranges(&mut self, rewriter: &Rewriter, bounds: &Bounds) {
        let unknown = bounds.unknown.iter().filter(|name| {
            let producer = rewriter.analysis.producer(name);
            producer.is_some_and(|p| rewriter.compute[p] == Compute::Half)
        });
        let count = unknown.count();
        if count > 0 {
            self.warnings.push(format!(
                "the ranges of {count} activations are unknown: whether they pass FP16's 65504 was not checked"
            ));
        }
    }
}

fn why_half(bounds: &Bounds, masked: &BTreeSet<String>, name: &str) -> String {
    if masked.contains(name) {
        return "sees the mask sentinel, which FP16 holds".to_owned();
    }
    match bounds.of(name) {
        Some(bound) => format!("at most {bound}, within FP16's 65504"),
        None => "FP16; its range is unknown".to_owned(),
    }
}

/// The value of a mask constant that lies farthest out.
fn extreme(constant: &Constant) -> f32 {
    let numbers = floats(&constant.bytes).into_iter().filter(|value| !value.is_nan());
    numbers.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
}

pub(crate) fn decision(
    analysis: &Analysis,
    tensor: &str,
    node: Option<usize>,
    action: Action,
    reason: &str,
) -> Decision {
    let proto = node.map(|index| &analysis.nodes()[index]);
    let layer = guess_layer(
        &[tensor],
        proto.map_or("", |p| p.name()),
        proto.and_then(|p| p.output.first()).map_or("", String::as_str),
    );
    Decision {
        tensor: tensor.to_owned(),
        node: node.map(|index| analysis.label(index)),
        layer,
        action,
        reason: reason.to_owned(),
    }
}
