//! `trtforge check` and `trtforge inspect`: what is wrong with a profile or model, and what is in one.

use std::collections::BTreeMap;

use serde_json::json;
use trtforge_onnx::Model;

use super::print;
use crate::cli::{CheckArgs, InspectArgs};
use crate::error::PipelineError;
use crate::inputs::ModelInputs;
use crate::profile::Profile;

/// Checks a profile with all it names, or a model.
pub fn check(args: &CheckArgs) -> Result<(), PipelineError> {
    let extension = args.path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if extension == "onnx" {
        let model = Model::open(&args.path)?;
        model.check()?;
        trtforge_quantize::survey(&model)?;
        print(args.json, &json!({ "valid": true }), "the model is valid\n");
        return Ok(());
    }
    let profile = Profile::read(&args.path, &args.assignments)?;
    let inputs = ModelInputs::open(&profile)?;
    inputs.executor(&profile, &[])?;
    let calibration = inputs.calibration_rows(&profile.calibration)?;
    let evaluation = inputs.evaluation_rows(&profile.evaluation, &profile.labels)?;
    let warnings: Vec<&String> =
        inputs.warnings.iter().chain(&calibration.notes).chain(&evaluation.notes).collect();
    let value = json!({
        "valid": true,
        "calibration_rows": calibration.rows.len(),
        "evaluation_rows": evaluation.rows.len(),
        "weighted_matmuls": inputs.survey.gemms.len(),
        "warnings": warnings,
    });
    let mut text = format!(
        "the profile is valid: {} calibration rows, {} evaluation rows, {} weighted matrix multiplications\n",
        calibration.rows.len(),
        evaluation.rows.len(),
        inputs.survey.gemms.len()
    );
    for warning in warnings {
        text.push_str(&format!("note: {warning}\n"));
    }
    print(args.json, &value, &text);
    Ok(())
}

/// Describes a model.
pub fn inspect(args: &InspectArgs) -> Result<(), PipelineError> {
    let model = Model::open(&args.path)?;
    model.check()?;
    let graph = model.graph();
    let mut operators = BTreeMap::<&str, usize>::new();
    for node in graph.nodes() {
        *operators.entry(node.op_type()).or_default() += 1;
    }
    let describe = |value: &trtforge_onnx::ValueInfo| json!({ "name": value.name, "type": format!("{:?}", value.element_type), "shape": format!("{:?}", value.shape) });
    let (inputs, outputs) = (graph.inputs(), graph.outputs());
    let weights: usize = graph.initializers().map(|tensor| tensor.len()).sum();
    let value = json!({
        "opset": model.opset(),
        "ir_version": model.proto().ir_version,
        "fingerprint": model.fingerprint().to_hex().to_string(),
        "inputs": inputs.iter().map(describe).collect::<Vec<_>>(),
        "outputs": outputs.iter().map(describe).collect::<Vec<_>>(),
        "nodes": graph.nodes().len(),
        "parameters": weights,
        "operators": operators,
    });
    let mut text =
        format!("opset {}, {} nodes, {weights} parameters\n", model.opset(), graph.nodes().len());
    for (what, values) in [("input", &inputs), ("output", &outputs)] {
        for info in values {
            text.push_str(&format!(
                "{what:<7} {} {:?} {:?}\n",
                info.name, info.element_type, info.shape
            ));
        }
    }
    for (operator, count) in &operators {
        text.push_str(&format!("{count:>6} {operator}\n"));
    }
    print(args.json, &value, &text);
    Ok(())
}
