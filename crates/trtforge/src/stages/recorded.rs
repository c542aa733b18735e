//! A recorded calibration table: whether it is this model's, and what it decides otherwise than the profile.

use std::path::Path;

use trtforge_calibrate::{CalibrationTable, TableError};

use crate::error::PipelineError;
use crate::inputs::ModelInputs;
use crate::profile::{Profile, Smooth};
use crate::stages::exchange::listed;

/// Reads a table and accepts it for this model only.
pub fn open(path: &Path, inputs: &ModelInputs) -> Result<CalibrationTable, PipelineError> {
    let table = CalibrationTable::load(path)?;
    match table.check_model(&inputs.fingerprint) {
        Err(TableError::Stale { mut differences }) => {
            differences.push(names_that_differ(&table, inputs)?);
            Err(TableError::Stale { differences }.into())
        }
        other => other.map(|()| table).map_err(PipelineError::from),
    }
}

/// Takes the recorded table out of a profile that a new one is made for, whether it is there and fits or not; what to say then.
pub fn unused(profile: &mut Profile) -> Option<String> {
    let table = profile.calibrate.table.take()?;
    Some(format!(
        "`calibrate.table` (`{}`) is not used: `calibrate` makes a new table from the rows",
        table.display()
    ))
}

/// Two models with the same tensors are two trainings of one architecture; that is what a stale table usually is.
fn names_that_differ(
    table: &CalibrationTable,
    inputs: &ModelInputs,
) -> Result<String, PipelineError> {
    let model = inputs.reopen()?;
    let graph = model.graph();
    let names: Vec<String> = table.tensors.keys().chain(table.ranges.keys()).cloned().collect();
    let absent: Vec<String> = names
        .into_iter()
        .filter(|name| graph.producer(name).is_none() && !graph.is_input(name))
        .collect();
    Ok(if absent.is_empty() {
        "all of its tensors are in this model, so the weights are others".to_owned()
    } else {
        format!("this model has no tensor {}", listed(&absent))
    })
}

/// Where a recorded table decides something else than the profile says.
///
/// - `data`: fingerprint of the profile's calibration rows.
pub fn overruled(
    profile: &Profile,
    inputs: &ModelInputs,
    table: &CalibrationTable,
    data: Option<&str>,
) -> Vec<String> {
    let options = &table.options;
    let mut warnings = Vec::new();
    let mut compare = |what: &str, table: &str, profile: &str| {
        if table != profile {
            warnings.push(format!(
                "calibrate.table was made with {what} {table}; the profile's {profile} is not used"
            ));
        }
    };
    compare("method", &options.method.to_string(), &profile.calibrate.method.to_string());
    let searched = table.search.as_ref().is_some_and(|search| !search.strengths.is_empty());
    let smooth = if searched { Smooth::Auto } else { Smooth::Strength(options.smooth) };
    compare("smooth", &smooth.to_string(), &profile.quantize.smooth.to_string());
    // An imported table knows nothing of rows, unless they were run to fill it up.
    if let Some(tokenizer) = &table.tokenizer {
        compare("tokenizer", tokenizer, inputs.encoder.fingerprint());
    }
    if options.samples > 0 {
        let data_section = &profile.calibration;
        compare("max_length", &options.max_length.to_string(), &profile.max_length.to_string());
        compare("data", &table.data, data.unwrap_or(&table.data));
        compare("seed", &options.seed.to_string(), &data_section.seed.to_string());
        compare("strategy", &options.strategy, &data_section.strategy.to_string());
        // Fewer rows than asked for are all there were.
        if options.samples > data_section.samples {
            let asked = data_section.samples.to_string();
            compare("samples", &options.samples.to_string(), &asked);
        }
    }
    warnings.extend(uncovered(profile, inputs, table));
    warnings
}

/// Tensors that the profile's level quantizes and the table does not know; the smoothed model has names of its own.
fn uncovered(profile: &Profile, inputs: &ModelInputs, table: &CalibrationTable) -> Option<String> {
    if table.options.smooth > 0.0 {
        return None;
    }
    let level = profile.quantize.level;
    let other = |name: &String| {
        let gemm = inputs.survey.gemms.iter().find(|gemm| &gemm.activation == name)?;
        table.tensors.get(&gemm.direct_input)
    };
    let wanted = inputs.survey.observe_at(level).into_iter();
    let missing: Vec<String> =
        wanted.filter(|name| !table.tensors.contains_key(name) && other(name).is_none()).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "calibrate.table has no scale for {} of the tensors that level `{}` quantizes: {}; what reads them must stand in `quantize.skip`, or calibrate again at that level",
            missing.len(),
            level.name(),
            listed(&missing)
        )
    })
}
