//! `trtforge check`: what is wrong with a profile or a model.

use serde_json::json;
use trtforge_onnx::Model;

use super::print;
use crate::backend::choose;
use crate::canonical::{as_json, canonical_form, describe_form};
use crate::checked::{check_output, examine};
use crate::cli::CheckArgs;
use crate::error::PipelineError;
use crate::profile::Profile;

/// Checks a profile with all it names, or a model.
pub fn check(args: &CheckArgs) -> Result<(), PipelineError> {
    let extension = args.path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if extension == "onnx" {
        let model = Model::open(&args.path)?;
        model.check()?;
        trtforge_quantize::survey(&model)?;
        let (_, form) = canonical_form(&model)?;
        let value = json!({ "valid": true, "canonical": as_json(Some(&form)) });
        let text = format!("the model is valid\n{}", describe_form(&form));
        return Ok(print(args.json, &value, &text)?);
    }
    let profile = Profile::read(&args.path, &args.assignments)?;
    choose(&profile.engine, true)?;
    check_output(&profile)?;
    let (checked, _) = examine(&profile)?;
    let (inputs, warnings) = (&checked.model, &checked.warnings);
    let (calibration, evaluation) = (&checked.calibration, &checked.evaluation);
    let value = json!({
        "valid": true,
        "calibration_rows": calibration.rows.len(),
        "evaluation_rows": evaluation.len(),
        "weighted_matmuls": inputs.survey.gemms.len(),
        "canonical": as_json(inputs.canonical.as_ref()),
        "warnings": warnings,
    });
    let mut text = format!(
        "the profile is valid: {} calibration rows, {} evaluation rows, {} weighted matrix multiplications\n",
        calibration.rows.len(),
        evaluation.len(),
        inputs.survey.gemms.len()
    );
    text.extend(inputs.canonical.as_ref().map(describe_form));
    for warning in warnings {
        text.push_str(&format!("note: {warning}\n"));
    }
    Ok(print(args.json, &value, &text)?)
}
