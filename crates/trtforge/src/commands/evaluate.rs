//! `trtforge evaluate`.

use std::path::Path;

use serde_json::{Value, json};
use trtforge_evaluate::{EvaluatedOn, Evaluation, Prediction};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions};

use super::{not_an_input, print_for, read_profile, warn, writable};
use crate::cli::EvaluateArgs;
use crate::error::PipelineError;
use crate::inputs::{EvaluationRows, ModelInputs};
use crate::profile::Task;
use crate::progress::Progress;
use crate::score;
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
    let rows = inputs.evaluation_rows(&profile.evaluation)?;
    warn(&args.profile, &rows.runs.notes);
    let progress = Progress::new(args.profile.quiet);
    let predict = |onnx: &Path, name: &str| {
        let executor = EmbeddedExecutor::load(onnx, EmbeddedOptions::default())?;
        let (section, longest) = (profile.evaluate, profile.max_length);
        evaluate::predict_rows(&executor, &inputs.wiring, &rows, section, longest, name, progress)
    };
    let onnx = args.onnx.as_ref().unwrap_or(&profile.model.onnx);
    let predictions = predict(onnx, "model")?;
    // What an embedding is judged by is the FP32 model.
    let other = matches!(profile.task, Task::Embedding(_)) && *onnx != profile.model.onnx;
    let fp32 = if other { Some(predict(&profile.model.onnx, "fp32")?) } else { None };
    let baseline = fp32.as_ref().unwrap_or(&predictions);
    let scored = score::score(&rows, &predictions, baseline)?;
    let evaluations = judge::score(&scored, &profile.gate, EvaluatedOn::Reference)?;
    if let Some(path) = &args.predictions {
        write_atomic(path, lines(&rows, &predictions).as_bytes())?;
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

/// One JSON object a row: its line, what the model says, and its raw values.
fn lines(rows: &EvaluationRows, predictions: &[Prediction]) -> String {
    // JSON has no NaN: such a logit is a text, every other a number.
    let number = |logit: &f32| match serde_json::Number::from_f64(f64::from(*logit)) {
        Some(number) => json!(number),
        None => json!(logit.to_string()),
    };
    let mut text = String::new();
    for (row, (line, prediction)) in rows.lines.iter().zip(predictions).enumerate() {
        let mut object = json!({ "line": line });
        if let (Value::Object(object), Value::Object(told)) =
            (&mut object, score::told(rows, row, prediction))
        {
            object.extend(told);
            let logits = prediction.logits.iter().map(number).collect();
            object.insert("logits".to_owned(), Value::Array(logits));
        }
        text.push_str(&format!("{object}\n"));
    }
    text
}
