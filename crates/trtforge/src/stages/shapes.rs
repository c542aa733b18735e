//! `plan_shapes`: optimization profiles from the lengths of the data, or as the profile gives them.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_data::{
    LengthStats, Padding, ShapeOptions, ShapeProfile, padded_batches, padding_count, plan_shapes,
};
use trtforge_quantize::Survey;
use trtforge_tensorrt::{OptimizationProfile, ShapeRange};

use crate::inputs::{EncodedRows, Wiring};
use crate::profile::{self, LengthSource, Profile};

/// What engines are built for.
#[derive(Debug, Clone)]
pub struct PlannedShapes {
    /// `evaluation`, `calibration`, `explicit`, or `lengths` for a file of them.
    pub from: &'static str,
    /// `[batch, length]` ranges, shortest rows first when planned.
    pub profiles: Vec<ShapeProfile>,
    /// Lengths they were planned from, or will meet.
    pub lengths: LengthStats,
    /// Of those rows, the ones cut at `max_length`.
    pub truncated: usize,
    /// Padding of the ways to batch these rows: name, real tokens, computed tokens.
    pub padding: Vec<(String, u64, u64)>,
}

/// Plans the shapes of a profile.
pub fn plan(
    profile: &Profile,
    survey: &Survey,
    calibration: &EncodedRows,
    evaluation: &EncodedRows,
) -> PlannedShapes {
    let (from, rows) = match &profile.shapes {
        profile::Shapes::FromLengths { from: LengthSource::Calibration, .. } => {
            ("calibration", calibration)
        }
        profile::Shapes::FromLengths { .. } => ("evaluation", evaluation),
        profile::Shapes::Explicit(_) => ("explicit", evaluation),
    };
    PlannedShapes {
        from,
        truncated: rows.truncated,
        ..plan_lengths(profile, &flops(survey), &rows.lengths())
    }
}

/// Plans the shapes of a profile from lengths that are not those of its data; longer ones than its maximum count as that.
pub fn plan_lengths(
    profile: &Profile,
    flops: &dyn Fn(usize) -> f64,
    lengths: &[usize],
) -> PlannedShapes {
    let (lengths, truncated) = clamped(lengths, profile.max_length);
    let profiles = match &profile.shapes {
        profile::Shapes::FromLengths { profiles, max_batch, .. } => {
            let options = ShapeOptions {
                profiles: *profiles,
                max_batch: *max_batch,
                max_length: profile.max_length,
            };
            plan_shapes(&lengths, &options, flops)
        }
        profile::Shapes::Explicit(shapes) => shapes.iter().map(|s| explicit(s, &lengths)).collect(),
    };
    PlannedShapes {
        from: "lengths",
        padding: padding(profile.evaluate.batch_size, profile.max_length, &lengths, &profiles),
        lengths: LengthStats::of(&lengths),
        truncated,
        profiles,
    }
}

/// The same without a profile.
pub fn plan_file(
    lengths: &[usize],
    options: &ShapeOptions,
    flops: &dyn Fn(usize) -> f64,
) -> PlannedShapes {
    let (lengths, truncated) = clamped(lengths, options.max_length);
    let profiles = plan_shapes(&lengths, options, flops);
    PlannedShapes {
        from: "lengths",
        padding: padding(options.max_batch, options.max_length, &lengths, &profiles),
        lengths: LengthStats::of(&lengths),
        truncated,
        profiles,
    }
}

fn clamped(lengths: &[usize], most: usize) -> (Vec<usize>, usize) {
    let cut = lengths.iter().filter(|&&length| length > most).count();
    (lengths.iter().map(|&length| length.min(most)).collect(), cut)
}

/// What decides how much memory activations take.
#[derive(Debug, Clone, Copy)]
pub struct ActivationSize {
    /// Width of the layers.
    pub hidden: usize,
    /// Width between the two multiplications of the feed-forward part.
    pub intermediate: usize,
}

impl ActivationSize {
    /// Of a model, by its weighted multiplications.
    pub fn of(survey: &Survey) -> Self {
        let of = |size: fn(usize, usize) -> usize| {
            survey.gemms.iter().map(|gemm| size(gemm.k, gemm.n)).max().unwrap_or(0)
        };
        Self { hidden: of(usize::min), intermediate: of(usize::max) }
    }

    /// Bytes of the activations that live at once for `[rows, tokens]` in FP16, an estimate.
    ///
    /// The layer's input and output live beside Q, K, V and the context, or beside the feed-forward part's inner activation, whichever is
    /// more; attention is taken to be fused, so that no table of tokens by tokens is kept. A builder may need more for scratch memory.
    pub fn bytes(&self, [rows, tokens]: [usize; 2]) -> f64 {
        let (hidden, intermediate) = (self.hidden as f64, self.intermediate as f64);
        2.0 * rows as f64 * tokens as f64 * (6.0 * hidden).max(2.0 * hidden + intermediate)
    }
}

/// Floating-point operations of one row by its length: projections grow with it, attention with its square.
pub fn flops(survey: &Survey) -> impl Fn(usize) -> f64 + use<> {
    let projections: f64 =
        survey.gemms.iter().map(|gemm| 2.0 * gemm.k as f64 * gemm.n as f64).sum();
    // Two products of length × length × hidden a layer; a layer has six weighted multiplications.
    let hidden = survey.gemms.iter().map(|gemm| gemm.k.min(gemm.n)).max().unwrap_or(0) as f64;
    let layers = (survey.gemms.len() / 6) as f64;
    move |length| {
        let length = length as f64;
        projections * length + layers * 4.0 * hidden * length * length
    }
}

fn explicit(shape: &profile::ExplicitShape, lengths: &[usize]) -> ShapeProfile {
    let fits = |length: &&usize| (shape.min[1]..=shape.max[1]).contains(*length);
    let rows = lengths.iter().filter(fits).count();
    let real: usize = lengths.iter().filter(fits).sum();
    let padded = rows * shape.opt[1];
    let padding_share = if padded > real { (padded - real) as f64 / padded as f64 } else { 0.0 };
    ShapeProfile { min: shape.min, opt: shape.opt, max: shape.max, rows, padding_share }
}

fn padding(
    rows: usize,
    max_length: usize,
    lengths: &[usize],
    profiles: &[ShapeProfile],
) -> Vec<(String, u64, u64)> {
    let count = |name: String, padding, sorted| {
        let count = padding_count(lengths, &padded_batches(lengths, rows, padding, sorted));
        (name, count.real_tokens as u64, count.padded_tokens as u64)
    };
    let mut figures = vec![
        count(format!("padded to {max_length}"), Padding::Fixed(max_length), false),
        count(format!("longest of {rows} rows, as they come"), Padding::LongestInBatch, false),
        count(format!("longest of {rows} rows, sorted by length"), Padding::LongestInBatch, true),
    ];
    let mut bounds: BTreeSet<usize> = profiles.iter().map(|p| p.max[1]).collect();
    bounds.extend(profiles.iter().map(|p| p.opt[1]));
    let bucket = |length: &usize| bounds.range(*length..).next().copied().unwrap_or(*length);
    let computed: usize = lengths.iter().map(bucket).sum();
    let real: usize = lengths.iter().sum();
    figures.push(("padded to the planned lengths".into(), real as u64, computed as u64));
    figures
}

/// The ranges of every dynamic input for the engine builder.
pub fn optimization_profiles(shapes: &PlannedShapes, wiring: &Wiring) -> Vec<OptimizationProfile> {
    let dims = |pair: [usize; 2]| pair.iter().map(|&size| size as i64).collect::<Vec<_>>();
    shapes
        .profiles
        .iter()
        .map(|shape| {
            let range =
                ShapeRange { min: dims(shape.min), opt: dims(shape.opt), max: dims(shape.max) };
            let inputs: BTreeMap<_, _> = wiring
                .feeds
                .inputs()
                .iter()
                .map(|input| (input.name.clone(), range.clone()))
                .collect();
            OptimizationProfile { inputs }
        })
        .collect()
}
