//! `trtforge evaluate`.

use serde_json::json;
use trtforge_evaluate::{EvaluatedOn, Evaluation};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions};

use super::{not_an_input, print_for, read_profile, warn, writable};
use crate::cli::EvaluateArgs;
use crate::error::PipelineError;
use crate::inputs::ModelInputs;
use crate::progress::Progress;
use crate::stages::{evaluate, judge};
use crate::store::write_atomic;

/// Measures the accuracy of one model.
pub fn evaluate(args: &EvaluateArgs) -> Result<(), PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    if let Some(path) = &args.predictions {
        not_an_input(&args.profile, &profile, path)?;
        writable(path)?;
    }
    let inputs = ModelInputs::open(&profile)?;
    warn(&args.profile, &inputs.warnings);
    let rows = inputs.evaluation_rows(&profile.evaluation, &profile.labels)?;
    warn(&args.profile, &rows.notes);
    let onnx = args.onnx.as_ref().unwrap_or(&profile.model.onnx);
    let executor = EmbeddedExecutor::load(onnx, EmbeddedOptions::default())?;
    let progress = Progress::new(args.profile.quiet);
    let (wiring, section) = (&inputs.wiring, profile.evaluate);
    let predictions = evaluate::predict(
        &executor,
        wiring,
        &rows,
        section,
        profile.max_length,
        "model",
        progress,
    )?;
    let labels: Vec<usize> = rows.labels.iter().map(|label| label.unwrap_or_default()).collect();
    let scored = evaluate::scored(&labels, &predictions)?;
    let evaluations = judge::score(&scored, &profile.gate, EvaluatedOn::Reference)?;
    if let Some(path) = &args.predictions {
        let lines = rows.lines.iter().zip(&predictions).map(|(line, prediction)| {
            // JSON has no NaN: such a logit is a text, every other a number.
            let number = |logit: &f32| match serde_json::Number::from_f64(f64::from(*logit)) {
                Some(number) => json!(number),
                None => json!(logit.to_string()),
            };
            let logits: Vec<serde_json::Value> = prediction.logits.iter().map(number).collect();
            let class = prediction.class();
            format!("{}\n", json!({ "line": line, "class": class, "logits": logits }))
        });
        write_atomic(path, lines.collect::<String>().as_bytes())?;
    }
    let line = |one: &Evaluation| {
        format!(
            "{} {:.4} [{:.4}, {:.4}] on {} rows ({} not finite), on the reference executor\n",
            one.metric, one.value, one.interval[0], one.interval[1], one.count, one.not_finite
        )
    };
    let text: String = evaluations.iter().map(line).collect();
    // The headline's fields stay where they always were; the rest is added beside them.
    let mut value = json!(evaluations[0]);
    value["metrics"] = json!(evaluations);
    Ok(print_for(&args.profile, &value, &text)?)
}
