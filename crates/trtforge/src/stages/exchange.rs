//! A cache of another tool as a calibration table of one model.

use std::collections::{BTreeMap, BTreeSet};

use miette::Diagnostic;
use serde::Serialize;
use thiserror::Error;
use trtforge_calibrate::{
    Cache, CalibrationTable, Imported, LEVELS, Method, SCHEMA, TableOptions, TensorCalibration,
};
use trtforge_onnx::Model;
use trtforge_quantize::{Level, Survey};

/// Names a message lists.
const LISTED: usize = 10;

/// Why a cache does not become a table.
#[derive(Debug, Diagnostic, Error)]
pub enum ImportError {
    /// A cache of another model.
    #[error("the model has none of the {count} tensors of the cache, such as {examples}")]
    #[diagnostic(
        code(calibrate::import_nothing),
        help(
            "the cache belongs to another model, or to another export of it, whose tensors had other names"
        )
    )]
    Nothing {
        /// Tensors in the cache.
        count: usize,
        /// Some of them.
        examples: String,
    },
    /// Scales that the level needs.
    #[error(
        "the cache has no scale for {count} of the tensors that level `{level}` quantizes: {names}"
    )]
    #[diagnostic(
        code(calibrate::import_missing),
        help(
            "`--profile PROFILE` instead of `--model` calibrates them on the profile's rows; `--missing leave` leaves them out, and their readers must then stand in `quantize.skip`"
        )
    )]
    Missing {
        /// How many.
        count: usize,
        /// The level.
        level: &'static str,
        /// Which.
        names: String,
    },
    /// Scales of the original model do not fit the smoothed one.
    #[error(
        "`quantize.smooth` is set: a cache's scales are those of the model as it is, not of the smoothed one"
    )]
    #[diagnostic(code(calibrate::import_smooth), help("import with `--set quantize.smooth=0`"))]
    Smoothed,
    /// A cache needs a version, and an imported table alone knows one.
    #[error("the version of TensorRT that is to read the cache is not known")]
    #[diagnostic(
        code(calibrate::export_version),
        help("give it, as in `--trt-version 10.3.0`: TensorRT refuses a cache of another version")
    )]
    Version,
    /// No version at all.
    #[error("`{given}` is no version of TensorRT up to 10")]
    #[diagnostic(
        code(calibrate::export_bad_version),
        help("write it as 8.5.1, or with the digits of NV_TENSORRT_VERSION, as 8501")
    )]
    BadVersion {
        /// What was written.
        given: String,
    },
}

/// What became of each tensor, for the user.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportAccount {
    /// Tensors whose scale was taken over.
    pub taken: Vec<String>,
    /// Tensors of the cache that the model does not have.
    pub unknown: Vec<String>,
    /// Weights and other constants of the model: their scales come from their values, one per channel.
    pub constants: Vec<String>,
    /// Tensors that the level quantizes and the cache lacks.
    pub missing: Vec<String>,
    /// Those of `missing` that were calibrated on rows instead.
    pub calibrated: Vec<String>,
}

/// Sorts the tensors of a cache by what the model knows of them.
pub fn account(
    cache: &Cache,
    model: &Model,
    survey: &Survey,
    level: Level,
) -> Result<ImportAccount, ImportError> {
    let graph = model.graph();
    let mut found = ImportAccount::default();
    for tensor in cache.scales.keys() {
        let kind = if graph.constant(tensor).is_some() {
            &mut found.constants
        } else if graph.producer(tensor).is_some() || graph.is_input(tensor) {
            &mut found.taken
        } else {
            &mut found.unknown
        };
        kind.push(tensor.clone());
    }
    if found.taken.is_empty() {
        let names: Vec<String> = cache.scales.keys().cloned().collect();
        return Err(ImportError::Nothing { count: names.len(), examples: listed(&names) });
    }
    // A scale before a Reshape is one behind it: the rewriter takes either.
    let reshaped: BTreeMap<&String, &String> =
        survey.gemms.iter().map(|gemm| (&gemm.activation, &gemm.direct_input)).collect();
    let known: BTreeSet<&String> = found.taken.iter().collect();
    let there = |tensor: &String| {
        known.contains(tensor) || reshaped.get(tensor).is_some_and(|other| known.contains(other))
    };
    found.missing = survey.observe_at(level).into_iter().filter(|tensor| !there(tensor)).collect();
    Ok(found)
}

/// The table of what a cache says about a model, and nothing more.
///
/// - `data`: fingerprint of the data the scales were made from, as far as the user says; else empty.
pub fn table(
    cache: &Cache,
    account: &ImportAccount,
    (model, data): (String, String),
    imported: Imported,
) -> CalibrationTable {
    let options = TableOptions {
        method: Method::Imported,
        samples: 0,
        seed: 0,
        strategy: "unknown".into(),
        max_length: 0,
        smooth: 0.0,
    };
    let mut table = CalibrationTable {
        schema: SCHEMA,
        tool: concat!("trtforge ", env!("CARGO_PKG_VERSION")).to_owned(),
        model,
        data,
        tokenizer: None,
        options,
        lines: None,
        device: None,
        imported: None,
        search: None,
        tensors: BTreeMap::new(),
        ranges: BTreeMap::new(),
        channels: BTreeMap::new(),
    };
    take_over(&mut table, cache, account, imported);
    table
}

/// Puts the cache's scales into a table, over what was calibrated.
pub fn take_over(
    table: &mut CalibrationTable,
    cache: &Cache,
    account: &ImportAccount,
    imported: Imported,
) {
    for tensor in &account.taken {
        let seen = table.tensors.get(tensor);
        let range = table.ranges.get(tensor).copied();
        let entry = entry(cache.scales[tensor], seen, range);
        table.tensors.insert(tensor.clone(), entry);
    }
    table.options.method = Method::Imported;
    table.imported = Some(imported);
    // What was compared is not what the table holds now.
    table.search = None;
}

/// - `range`: the largest magnitude seen, where the tensor was watched.
fn entry(scale: f32, seen: Option<&TensorCalibration>, range: Option<f32>) -> TensorCalibration {
    let threshold = scale * LEVELS as f32;
    let absmax = seen.map(|seen| seen.absmax).or(range);
    let guard = match absmax {
        None => Some("imported: the largest magnitude is not known"),
        Some(absmax) if threshold > absmax => {
            Some("imported: the threshold lies above the largest magnitude seen")
        }
        Some(_) => None,
    };
    TensorCalibration {
        absmax: absmax.unwrap_or(threshold),
        threshold,
        scale,
        method: Method::Imported,
        values: seen.map_or(0, |seen| seen.values),
        guard: guard.map(str::to_owned),
    }
}

/// Refuses what the level needs and nobody gave.
pub fn complete(account: &ImportAccount, level: Level) -> Result<(), ImportError> {
    if account.missing.is_empty() {
        return Ok(());
    }
    let (count, names) = (account.missing.len(), listed(&account.missing));
    Err(ImportError::Missing { count, level: level.name(), names })
}

/// The first names of a list, quoted, and how many more there are.
pub fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}
