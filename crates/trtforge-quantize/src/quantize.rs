//! Rewriting a model to INT8 Q/DQ, the rest to FP16.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use trtforge_calibrate::CalibrationTable;
use trtforge_onnx::{Model, convert_opset};

use crate::QuantizeError;
use crate::account::{account, decision};
use crate::analysis::Analysis;
use crate::bounds::Bounds;
use crate::decision::{Action, Decision, Rewritten, ScaleSlot};
use crate::existing::refuse_quantized;
use crate::gemm::{WeightedGemm, reshapes_between, weighted_gemms};
use crate::half_values::{HALF_MIN_NORMAL, floats, through_half};
use crate::mask::masked_tensors;
use crate::pairs::{Pair, agree, coarse_adds, dropped_sites, moved_tensors, pairs, place_pairs};
use crate::policy::{Policy, Selection, select};
use crate::precision::{Compute, Evidence, assign};
use crate::qdq::{PairScale, Placement};
use crate::rewrite::{Float, Rewriter};
use crate::site::sites;
use crate::survey::Scales;
use crate::to_half::HalfOptions;
use crate::weight::{Int8Weight, StoredWeight, half_holds_scale, quantize_weight};

/// The first operator set whose QuantizeLinear takes FP16 with an FP16 scale.
const OPSET_OF_HALF_SCALES: i64 = 19;

/// Rewrites a model to INT8 with the scales of a calibration table; see [`quantize_with`].
///
/// The table must be of this model: [`CalibrationTable::check_model`].
pub fn quantize(
    model: &Model,
    table: &CalibrationTable,
    policy: &Policy,
) -> Result<Rewritten, QuantizeError> {
    quantize_with(model, &Scales::from(table), policy)
}

/// Rewrites a model to INT8 Q/DQ where the policy says, and the rest to FP16 as [`crate::to_half`] does.
///
/// Weights become INT8 initializers with a DequantizeLinear per output channel; activations get one Q/DQ pair each,
/// shared by all readers; zero points are 0 and INT8; biases stay as they are. Scales are FP16 like the data around
/// them, so the operator set is raised to 19 at least. Where FP16 would lose bits of a scale, that MatMul and its Q/DQ
/// stay FP32.
///
/// From level `attention` on, a constant factor that an exporter put behind the product of Q and Kᵀ moves onto Q.
pub fn quantize_with(
    model: &Model,
    scales: &Scales,
    policy: &Policy,
) -> Result<Rewritten, QuantizeError> {
    refuse_quantized(model)?;
    let model = with_half_scales(model)?;
    let analysis = Analysis::new(&model);
    let masked = masked_tensors(&analysis);
    let gemms = weighted_gemms(&analysis, &masked);
    let sites = sites(&analysis, &gemms, &masked, policy.level);
    let selection = select(policy, &analysis, &gemms, &sites)?;
    let jobs = jobs(&analysis, &gemms, &selection.chosen, scales)?;
    let pairs = pairs(&analysis, &sites, &selection.chosen_sites, scales)?;
    let bounds = Bounds::new(&analysis, &scales.absmax, &masked);
    let inputs = jobs.iter().flat_map(|job| [job.reads, (job.gemm.node, 1)]);
    let inputs = inputs.chain(pairs.iter().map(|pair| (pair.read.node, pair.read.input)));
    let int8_inputs: BTreeSet<(usize, usize)> =
        inputs.chain(weight_chains(&analysis, &jobs)).collect();
    let forced = jobs.iter().filter_map(Job::forced).chain(pairs.iter().flat_map(Pair::forced));
    let evidence = Evidence {
        bounds: &bounds,
        masked: &masked,
        headroom: HalfOptions::default().headroom,
        forced: &forced.collect(),
        int8_inputs: &int8_inputs,
    };
    let mut compute = assign(&analysis, model.opset(), &evidence);
    agree(&pairs, &mut compute);
    let mut rewriter = Rewriter::new(&model, &analysis, &compute, &masked);
    rewriter.apply(&int8_inputs);
    let (mut decisions, stored) = place(&mut rewriter, &jobs, &pairs, &bounds);
    decisions.extend(dropped(&analysis, &gemms, &selection));
    decisions.extend(dropped_sites(&analysis, &sites, &selection.dropped_sites));
    let int8 = jobs.iter().flat_map(|j| [j.point.clone(), j.gemm.weight.clone()]);
    let int8 = int8.chain(pairs.iter().map(|pair| pair.read.tensor.clone()));
    let int8 = int8.chain(moved_tensors(&analysis, &pairs)).collect();
    let account = account(&rewriter, &bounds, &int8);
    let model = rewriter.finish()?;
    decisions.extend(account.decisions);
    let warnings = selection.warnings.into_iter().chain(coarse_adds(&pairs));
    let warnings = warnings.chain(account.warnings).collect();
    Ok(Rewritten { model, decisions, warnings, scales: stored })
}

fn with_half_scales(model: &Model) -> Result<Cow<'_, Model>, QuantizeError> {
    if model.opset() >= OPSET_OF_HALF_SCALES {
        return Ok(Cow::Borrowed(model));
    }
    Ok(Cow::Owned(convert_opset(model, OPSET_OF_HALF_SCALES)?))
}

/// One MatMul or Gemm to be quantized.
struct Job<'a> {
    gemm: &'a WeightedGemm,
    /// The tensor that gets the pair.
    point: String,
    /// The input that reads it through the pair: of the node, or of a Reshape before it.
    reads: (usize, usize),
    scale: f32,
    /// The tensor whose calibrated scale that is.
    calibrated: &'a str,
    weight: Int8Weight,
}

impl Job<'_> {
    /// Why the node must compute in FP32, if FP16 loses bits of one of its scales.
    fn forced(&self) -> Option<(usize, String)> {
        let smallest = self.weight.scales.iter().copied().fold(f32::INFINITY, f32::min);
        let (what, scale) = if half_holds_scale(self.scale) {
            (!self.weight.half_scales).then_some(("a weight scale", smallest))?
        } else {
            ("the activation scale", self.scale)
        };
        let reason = format!(
            "{what} is {scale:e}, outside of FP16's full precision ({HALF_MIN_NORMAL:e} to 65504): its Q/DQ and product stay FP32"
        );
        Some((self.gemm.node, reason))
    }
}

fn jobs<'a>(
    analysis: &Analysis,
    gemms: &'a [WeightedGemm],
    chosen: &[usize],
    scales: &Scales,
) -> Result<Vec<Job<'a>>, QuantizeError> {
    let nodes: BTreeSet<usize> = chosen.iter().map(|&position| gemms[position].node).collect();
    let job = |&position: &usize| {
        let gemm = &gemms[position];
        let (point, reads) = quantization_point(analysis, gemm, &nodes);
        let known = [&gemm.activation, &gemm.direct_input];
        let calibrated = known.into_iter().find(|name| scales.scale.contains_key(*name));
        let calibrated = calibrated.unwrap_or(&gemm.activation);
        let found = scales.scale.get(calibrated).copied();
        let scale = stored_scale(&gemm.activation, &gemm.label, found)?;
        Ok(Job { gemm, point, reads, scale, calibrated, weight: int8_weight(analysis, gemm) })
    };
    chosen.iter().map(job).collect()
}

/// Before the Reshapes if everything behind them is quantized too; otherwise at the node's own input.
fn quantization_point(
    analysis: &Analysis,
    gemm: &WeightedGemm,
    quantized: &BTreeSet<usize>,
) -> (String, (usize, usize)) {
    let chain = reshapes_between(analysis, gemm);
    let shared = chain.iter().all(|&reshape| {
        let output = &analysis.nodes()[reshape].output[0];
        let readers = analysis.readers(output);
        let known = |r: &usize| quantized.contains(r) || chain.contains(r);
        !analysis.name_is_fixed(output) && readers.iter().all(known)
    });
    match chain.first() {
        Some(&first) if shared => (gemm.activation.clone(), (first, 0)),
        _ => (gemm.direct_input.clone(), (gemm.node, 0)),
    }
}

/// The scale of a tensor as the graph will store it.
pub(crate) fn stored_scale(
    tensor: &str,
    reader: &str,
    found: Option<f32>,
) -> Result<f32, QuantizeError> {
    let tensor = || tensor.to_owned();
    let Some(scale) = found else {
        return Err(QuantizeError::NoScale { tensor: tensor(), node: reader.to_owned() });
    };
    if !scale.is_finite() || scale <= 0.0 {
        return Err(QuantizeError::BadScale { tensor: tensor(), scale });
    }
    Ok(if half_holds_scale(scale) { through_half(scale) } else { scale })
}

fn int8_weight(analysis: &Analysis, gemm: &WeightedGemm) -> Int8Weight {
    let constant = &analysis.constants[gemm.weight.as_str()];
    let values = floats(&constant.bytes);
    let (as_read_rows, as_read_columns) =
        if gemm.channel_axis == 1 { (gemm.k, gemm.n) } else { (gemm.n, gemm.k) };
    let (rows, columns, channel_axis) = if gemm.transposed {
        (as_read_columns, as_read_rows, 1 - gemm.channel_axis)
    } else {
        (as_read_rows, as_read_columns, gemm.channel_axis)
    };
    quantize_weight(&StoredWeight { values: &values, rows, columns, channel_axis }, gemm.transposed)
}

/// Inputs of the Transposes and Identities that only lead to INT8 weights: nothing must be stored for them any more.
fn weight_chains(analysis: &Analysis, jobs: &[Job]) -> BTreeSet<(usize, usize)> {
    let mut int8: BTreeSet<(usize, usize)> = jobs.iter().map(|job| (job.gemm.node, 1)).collect();
    let mut chains = BTreeSet::new();
    for index in (0..analysis.nodes().len()).rev() {
        let node = &analysis.nodes()[index];
        let Some(output) = node.output.first() else { continue };
        let uses = analysis.graph.consumers(output);
        let passes = matches!(node.op_type(), "Transpose" | "Identity");
        let only_int8 = uses.iter().all(|u| int8.contains(&(u.node, u.input)));
        if passes && !uses.is_empty() && only_int8 && !analysis.name_is_fixed(output) {
            int8.insert((index, 0));
            chains.insert((index, 0));
        }
    }
    chains
}

/// Connects every quantized node to its Q/DQ, in graph order.
fn place(
    rewriter: &mut Rewriter,
    jobs: &[Job],
    pairs: &[Pair],
    bounds: &Bounds,
) -> (Vec<Decision>, Vec<ScaleSlot>) {
    let headroom = HalfOptions::default().headroom;
    let mut placement = Placement::default();
    let mut decisions = vec![];
    let readers = readers(jobs, pairs);
    let mut accounted = BTreeSet::new();
    for job in jobs {
        let (node, input) = job.reads;
        let fits =
            half_holds_scale(job.scale) && bounds.beyond_half(&job.point, headroom).is_none();
        let quantize_in = if fits { Float::Half } else { Float::Single };
        let reader = float_of(&rewriter.compute[node]);
        let scale = PairScale { stored: job.scale, from: Some((job.calibrated, 1.0)) };
        let activation = placement.activation(rewriter, &job.point, scale, quantize_in, reader);
        rewriter.connect(node, input, &activation);
        let gemm = job.gemm;
        let key = format!("{}\n{}\n{}", gemm.weight, gemm.transposed, gemm.channel_axis);
        let float = float_of(&rewriter.compute[gemm.node]);
        let weight = placement.weight(rewriter, &gemm.weight, &key, &job.weight, float);
        rewriter.connect(gemm.node, 1, &weight);
        if accounted.insert(job.point.clone()) {
            decisions.push(activation_decision(rewriter, job, &readers[job.point.as_str()]));
        }
        if accounted.insert(key) {
            decisions.push(weight_decision(rewriter, job));
        }
    }
    let shared = (&readers, &mut accounted);
    decisions.extend(place_pairs(rewriter, &mut placement, pairs, bounds, shared));
    (decisions, placement.scales)
}

/// Who reads each quantized tensor through its pair.
fn readers<'j>(jobs: &'j [Job], pairs: &'j [Pair]) -> BTreeMap<&'j str, Vec<String>> {
    let mut readers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for job in jobs {
        readers.entry(&job.point).or_default().push(job.gemm.label.clone());
    }
    for pair in pairs.iter().filter(|pair| !pair.is_own()) {
        readers.entry(&pair.read.tensor).or_default().push(pair.reader.clone());
    }
    readers
}

pub(crate) fn float_of(compute: &Compute) -> Float {
    // A node that reads a quantized activation always computes with floats.
    Float::of(compute).unwrap_or(Float::Single)
}

fn activation_decision(rewriter: &Rewriter, job: &Job, readers: &[String]) -> Decision {
    let action = Action::Int8Activation { scale: job.scale };
    let reason = match readers {
        [one] => format!("input of `{one}`"),
        many => format!("one shared pair for {} readers: `{}`", many.len(), many.join("`, `")),
    };
    Decision {
        layer: job.gemm.layer.clone(),
        ..decision(rewriter.analysis, &job.point, Some(job.gemm.node), action, &reason)
    }
}

fn weight_decision(rewriter: &Rewriter, job: &Job) -> Decision {
    let gemm = job.gemm;
    let axis = job.weight.channel_axis;
    let action = Action::Int8Weight { axis, channels: job.weight.scales.len() };
    let mut reason = format!("weight of `{}`, one scale per output channel", gemm.label);
    if gemm.transposed {
        reason += "; its Transpose is folded in";
    }
    if let Compute::Single(why) = &rewriter.compute[gemm.node] {
        reason = format!("{reason}; {why}");
    }
    Decision {
        layer: gemm.layer.clone(),
        ..decision(rewriter.analysis, &gemm.weight, Some(gemm.node), action, &reason)
    }
}

fn dropped(analysis: &Analysis, gemms: &[WeightedGemm], selection: &Selection) -> Vec<Decision> {
    let skip = |(position, reason): &(usize, String)| {
        let gemm = &gemms[*position];
        Decision {
            layer: gemm.layer.clone(),
            ..decision(analysis, &gemm.weight, Some(gemm.node), Action::Skipped, reason)
        }
    };
    selection.dropped.iter().map(skip).collect()
}
