//! Everything a profile names, opened and checked: what `trtforge check` proves and every build begins with.

use trtforge_calibrate::CalibrationTable;
use trtforge_evaluate::{EvaluatedOn, empty_proofs};
use trtforge_onnx::Model;
use trtforge_quantize::smoothable;
use trtforge_tensorrt::{OptimizationProfile, TensorRtError, validate};

use crate::error::PipelineError;
use crate::inputs::{EncodedRows, EvaluationRows, InputError, ModelInputs};
use crate::label_order;
use crate::profile::Profile;
use crate::stages::auto;
use crate::stages::judge::Court;
use crate::stages::rewrite::policy;
use crate::stages::shapes::{self, PlannedShapes};
use crate::stages::{judge, publish, recorded, sample_notes};
use crate::store::refuse_overwriting;
use crate::{record, score};

/// The model with its rows and shapes.
pub struct Checked {
    /// Model, tokenizer, wiring.
    pub model: ModelInputs,
    /// Rows that calibrate.
    pub calibration: EncodedRows,
    /// Rows that judge.
    pub evaluation: EvaluationRows,
    /// The recorded table that the profile names.
    pub table: Option<CalibrationTable>,
    /// Optimization profiles with their reasons.
    pub shapes: PlannedShapes,
    /// Optimization profiles for the library.
    pub profiles: Vec<OptimizationProfile>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

impl Checked {
    /// Opens and checks all of it, and tries the model on one row.
    pub fn open(profile: &Profile) -> Result<Checked, PipelineError> {
        let (model, opened) = ModelInputs::open_with_model(profile)?;
        try_model(&model, &opened, profile)?;
        // Its mapped pages would count beside everything that follows.
        drop(opened);
        let table = match &profile.calibrate.table {
            Some(path) => Some(recorded::open(path, &model)?),
            None => None,
        };
        let calibration = model.calibration_rows(&profile.calibration)?;
        let evaluation = model.evaluation_rows(&profile.evaluation)?;
        let planned = shapes::plan(profile, &model.survey, &calibration, &evaluation.runs);
        covered(&planned, &evaluation.runs)?;
        let profiles = shapes::optimization_profiles(&planned, &model.wiring);
        validate(&profiles, &model.graph_inputs, model.positions).map_err(TensorRtError::from)?;
        let mut warnings = model.warnings.clone();
        warnings.extend(calibration.notes.iter().chain(&evaluation.runs.notes).cloned());
        warnings.extend(same_rows(profile));
        warnings.extend(label_order::warning(&profile.model.onnx, profile.task.labels()));
        let data = Some(calibration.fingerprint.as_str());
        warnings.extend(
            table.iter().flat_map(|table| recorded::overruled(profile, &model, table, data)),
        );
        warnings.extend(auto::too_few(profile, calibration.rows.len()));
        if table.is_none() {
            warnings.extend(sample_notes::notes(profile, &calibration, Some(&evaluation.runs)));
        }
        if table.is_none() && calibration.rows.len() < profile.calibration.samples {
            warnings.push(format!(
                "the calibration file has {} rows and the profile asks for {}: all of them are used",
                calibration.rows.len(),
                profile.calibration.samples
            ));
        }
        Ok(Checked { model, calibration, evaluation, table, shapes: planned, profiles, warnings })
    }
}

/// How a warning begins that says why the gate can accept nothing.
pub const EMPTY_PROOF: &str = "the gate can accept nothing on these evaluation rows";

/// All that a build refuses before any work: what the profile names, and what its gate asks for.
pub fn examine(profile: &Profile) -> Result<(Checked, Court<'_>), PipelineError> {
    judge::check(&profile.gate, &profile.task.no_rows())?;
    let mut checked = Checked::open(profile)?;
    let rows = &checked.evaluation;
    let labels = profile.task.labels();
    let court = Court::open(
        &profile.gate,
        &profile.evaluation.path,
        &rows.runs.fingerprint,
        rows.len(),
        labels,
        EvaluatedOn::Reference,
    )?;
    court.check_recorded(&profile.precisions)?;
    if let Some(right) = score::right(rows) {
        let reasons = empty_proofs(&profile.gate.gate(&right), &right, labels);
        let say = |why| format!("{EMPTY_PROOF}: {why}");
        checked.warnings.extend(reasons.into_iter().map(say));
    }
    Ok((checked, court))
}

/// Refuses an output folder in which a build would write over what it reads.
pub fn check_output(profile: &Profile) -> Result<(), PipelineError> {
    let inputs = profile.input_files();
    for target in publish::targets(&record::run_name(&profile.output)) {
        refuse_overwriting(inputs.iter().map(AsRef::as_ref), &profile.output.join(target))?;
    }
    Ok(())
}

/// Finds patterns that match nothing, and runs one row.
fn try_model(inputs: &ModelInputs, opened: &Model, profile: &Profile) -> Result<(), PipelineError> {
    smoothable(opened, &policy(profile))?;
    inputs.executor_of(opened, profile, &[]).map(drop)
}

/// An engine must take every row that it is judged on.
fn covered(planned: &PlannedShapes, evaluation: &EncodedRows) -> Result<(), InputError> {
    let longest = planned.profiles.iter().map(|shape| shape.max[1]).max().unwrap_or(0);
    let lengths = evaluation.lengths();
    let rows = lengths.iter().filter(|&&length| length > longest).count();
    if rows == 0 {
        return Ok(());
    }
    let needed = lengths.iter().copied().max().unwrap_or(0);
    Err(InputError::Uncovered { rows, all: lengths.len(), longest, needed })
}

/// Calibrating on the rows that judge flatters the result.
fn same_rows(profile: &Profile) -> Option<String> {
    let same = profile.calibration.path.canonicalize().ok()?
        == profile.evaluation.path.canonicalize().ok()?;
    same.then(|| "calibration and evaluation read the same file: the accuracy of INT8 will look better than it is".into())
}
