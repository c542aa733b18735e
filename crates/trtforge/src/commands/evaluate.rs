//! `trtforge evaluate`.

use std::path::Path;

use serde_json::{Value, json};
use trtforge_evaluate::{EvaluatedOn, Evaluation, Prediction};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions};
use trtforge_tensorrt::{Choice, TensorRtError, choose, driver};

use super::{not_an_input, print_for, read_profile, warn, writable};
use crate::cli::EvaluateArgs;
use crate::error::PipelineError;
use crate::inputs::{EvaluationRows, ModelInputs};
use crate::profile::{Profile, Task};
use crate::progress::Progress;
use crate::score;
use crate::stages::device::OnDevice;
use crate::stages::evaluate::Through;
use crate::stages::judge;
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
        Through::any(&executor, &inputs.wiring, &profile).predict_rows(&rows, name, progress)
    };
    let onnx = args.onnx.as_ref().unwrap_or(&profile.model.onnx);
    let device = args.plan.as_ref().map(|plan| open_plan(&profile, plan)).transpose()?;
    let predictions = match &device {
        Some(device) => {
            let length = |length| device.length(length);
            let through =
                Through { length: &length, ..Through::any(device, &inputs.wiring, &profile) };
            through.predict_rows(&rows, "the plan", progress)?
        }
        None => predict(onnx, "model")?,
    };
    // What an embedding is judged by is the FP32 model.
    let other = device.is_some() || *onnx != profile.model.onnx;
    let fp32 = if other && matches!(profile.task, Task::Embedding(_)) {
        Some(predict(&profile.model.onnx, "fp32")?)
    } else {
        None
    };
    let baseline = fp32.as_ref().unwrap_or(&predictions);
    let scored = score::score(&rows, &predictions, baseline)?;
    let (place, words) = match &device {
        Some(device) => (EvaluatedOn::Device, format!("on {}", device.gpu())),
        None => (EvaluatedOn::Reference, "on the reference executor".to_owned()),
    };
    let evaluations = judge::score(&scored, &profile.gate, place)?;
    if let Some(path) = &args.predictions {
        write_atomic(path, lines(&rows, &predictions).as_bytes())?;
    }
    let line = |one: &Evaluation| {
        format!(
            "{} {:.4} [{:.4}, {:.4}] on {} rows ({} not finite), {words}\n",
            one.metric, one.value, one.interval[0], one.interval[1], one.count, one.not_finite
        )
    };
    let text: String = evaluations.iter().map(line).collect();
    // The headline's fields stay where they always were; the rest is added beside them.
    let mut value = json!(evaluations[0]);
    value["metrics"] = json!(evaluations);
    Ok(print_for(&args.profile, &value, &text)?)
}

/// Brings a plan to life with the library that the profile's backend names.
fn open_plan(profile: &Profile, plan: &Path) -> Result<OnDevice, PipelineError> {
    // First, so that a machine without a GPU is told of that and not of a library it could not use.
    driver()?;
    match choose(profile.engine.backend, None)? {
        Choice::Sdk { library, .. } => OnDevice::open(&library, plan),
        Choice::None => Err(TensorRtError::BackendUnavailable {
            wanted: "none",
            missing: vec![
                "it runs no plans: set `engine.backend` to the one that built this one".to_owned(),
            ],
        }
        .into()),
    }
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
