//! `trtforge shapes`.

use serde_json::{Value, json};
use trtforge_data::{BucketChoice, LengthStats, ShapeProfile, bucket_choices, encoder_flops};

use super::{print_for, read_profile};
use crate::checked::Checked;
use crate::cli::{ProfileArgs, ShapesArgs};
use crate::error::PipelineError;
use crate::inputs::ModelInputs;
use crate::stages::lengths;
use crate::stages::shapes::{self, ActivationSize, PlannedShapes};

/// Numbers of buckets that are compared.
const MOST_BUCKETS: usize = 8;

/// What was planned, and from what.
struct Found {
    planned: PlannedShapes,
    choices: Vec<BucketChoice>,
    batch_rows: usize,
    size: ActivationSize,
    warnings: Vec<String>,
}

/// Prints the optimization profiles that a build would use, and what other numbers of them would bring.
pub fn plan_shapes(args: &ShapesArgs) -> Result<(), PipelineError> {
    let found = match (&args.profile, &args.lengths) {
        (Some(_), None) => from_profile(args)?,
        (Some(_), Some(_)) => from_profile_and_lengths(args)?,
        _ => from_lengths(args)?,
    };
    Ok(print_for(&common(args), &value(&found), &text(&found))?)
}

fn common(args: &ShapesArgs) -> ProfileArgs {
    ProfileArgs {
        profile: args.profile.clone().unwrap_or_default(),
        assignments: args.assignments.clone(),
        json: args.json,
        quiet: args.quiet,
    }
}

fn from_profile(args: &ShapesArgs) -> Result<Found, PipelineError> {
    let profile = read_profile(&common(args), &[])?;
    let Checked { shapes: planned, warnings, model, .. } = Checked::open(&profile)?;
    let batch_rows = profile.evaluate.batch_size;
    let size = ActivationSize::of(&model.survey);
    let choices = choices(&planned.lengths, batch_rows, &shapes::flops(&model.survey));
    Ok(Found { planned, choices, batch_rows, size, warnings })
}

fn from_profile_and_lengths(args: &ShapesArgs) -> Result<Found, PipelineError> {
    let profile = read_profile(&common(args), &[])?;
    let model = ModelInputs::open(&profile)?;
    let given = given_lengths(args)?;
    let flops = shapes::flops(&model.survey);
    let planned = shapes::plan_lengths(&profile, &flops, &given);
    let batch_rows = profile.evaluate.batch_size;
    let size = ActivationSize::of(&model.survey);
    let choices = choices(&planned.lengths, batch_rows, &flops);
    Ok(Found { warnings: cut(&planned), planned, choices, batch_rows, size })
}

fn from_lengths(args: &ShapesArgs) -> Result<Found, PipelineError> {
    let given = given_lengths(args)?;
    let flops = |length| encoder_flops(length, args.hidden, args.layers, 4 * args.hidden);
    let options = trtforge_data::ShapeOptions {
        profiles: args.buckets,
        max_batch: args.max_batch,
        max_length: args.max_length,
    };
    let planned = shapes::plan_file(&given, &options, &flops);
    let size = ActivationSize { hidden: args.hidden, intermediate: 4 * args.hidden };
    let choices = choices(&planned.lengths, args.max_batch, &flops);
    let mut warnings = vec![format!(
        "without a profile: an encoder of {} layers and hidden size {} is assumed",
        args.layers, args.hidden
    )];
    warnings.extend(cut(&planned));
    Ok(Found { planned, choices, batch_rows: args.max_batch, size, warnings })
}

fn given_lengths(args: &ShapesArgs) -> Result<Vec<usize>, PipelineError> {
    match &args.lengths {
        Some(path) => Ok(lengths::read(path)?),
        None => Ok(Vec::new()),
    }
}

fn cut(planned: &PlannedShapes) -> Vec<String> {
    let note = format!(
        "{} of {} lengths are beyond the maximum and count as that",
        planned.truncated, planned.lengths.count
    );
    if planned.truncated > 0 { vec![note] } else { Vec::new() }
}

fn choices(
    lengths: &LengthStats,
    batch_rows: usize,
    flops: &dyn Fn(usize) -> f64,
) -> Vec<BucketChoice> {
    let all: Vec<usize> = lengths
        .histogram
        .iter()
        .flat_map(|(&length, &rows)| std::iter::repeat_n(length, rows))
        .collect();
    bucket_choices(&all, MOST_BUCKETS, batch_rows, flops)
}

fn value(found: &Found) -> Value {
    let planned = &found.planned;
    let profile = |s: &ShapeProfile| {
        json!({
            "min": s.min, "opt": s.opt, "max": s.max, "rows": s.rows, "padding_share": s.padding_share,
            "activation_bytes_estimate": bytes(found.size.bytes(s.max)),
        })
    };
    let profiles: Vec<Value> = planned.profiles.iter().map(profile).collect();
    let padding: Vec<Value> = planned
        .padding
        .iter()
        .map(|(mode, real, computed)| json!({ "mode": mode, "real_tokens": real, "padded_tokens": computed }))
        .collect();
    json!({
        "from": planned.from, "profiles": profiles, "padding": padding, "choices": found.choices,
        "batch_rows": found.batch_rows, "warnings": found.warnings,
    })
}

/// A whole number up to 2⁵³, where floats hold each; beyond, the float.
fn bytes(estimate: f64) -> Value {
    if estimate < (1_u64 << 53) as f64 { json!(estimate as u64) } else { json!(estimate) }
}

fn text(found: &Found) -> String {
    let planned = &found.planned;
    let mut text =
        String::from("min [batch, length]  opt              max              rows   memory*\n");
    for s in &planned.profiles {
        let cell = |pair: [usize; 2]| format!("[{}, {}]", pair[0], pair[1]);
        text.push_str(&format!(
            "{:<20} {:<16} {:<16} {:<6} {:.0} MiB\n",
            cell(s.min),
            cell(s.opt),
            cell(s.max),
            s.rows,
            found.size.bytes(s.max) / f64::from(1 << 20)
        ));
    }
    text.push_str("* activations of its largest batch in FP16, an estimate: what a context of that\n  profile takes on the GPU beside the weights, which all profiles share\n\n");
    for (mode, real, computed) in &planned.padding {
        let waste =
            if *computed == 0 { 0.0 } else { 100.0 * (computed - real) as f64 / *computed as f64 };
        text.push_str(&format!("{waste:5.1} % of the tokens are padding when {mode}\n"));
    }
    text.push_str(&format!(
        "\nBest lengths to pad to      padding: tokens  operations   batches of {:<5} full\n",
        found.batch_rows
    ));
    for choice in &found.choices {
        let lengths: Vec<String> = choice.lengths.iter().map(ToString::to_string).collect();
        text.push_str(&format!(
            "{:>2}  {:<32} {:>6.1} %    {:>6.1} %   {:>8} {:>11.1} %\n",
            choice.buckets,
            lengths.join(", "),
            100.0 * choice.padded_tokens,
            100.0 * choice.padded_flops,
            choice.batches,
            100.0 * choice.fill
        ));
    }
    for warning in &found.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}
