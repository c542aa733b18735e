//! `trtforge calibrate import` and `export`.

use std::path::{Path, PathBuf};

use serde_json::json;
use trtforge_calibrate::{
    Cache, CacheHeader, CacheKind, CacheUnits, CalibrationTable, Imported, cache_bytes,
    cache_version,
};
use trtforge_data::{Dataset, Fields};
use trtforge_onnx::Model;
use trtforge_quantize::{Level, survey};

use super::super::{print, writable};
use crate::canonical::canonical_form;
use crate::cli::{ExportArgs, ImportArgs, Missing};
use crate::error::PipelineError;
use crate::inputs::ModelInputs;
use crate::profile::Profile;
use crate::progress::Progress;
use crate::stages::exchange::{self, ImportAccount, ImportError, listed};
use crate::stages::{auto, calibrate, recorded};
use crate::store::{StoreError, hash_file, refuse_overwriting, write_atomic};

/// Makes a table of a cache.
pub fn import(args: &ImportArgs) -> Result<(), PipelineError> {
    let read: [Option<&PathBuf>; 4] =
        [Some(&args.cache), args.model.as_ref(), args.profile.as_ref(), args.data.as_ref()];
    refuse_overwriting(read.into_iter().flatten().map(AsRef::as_ref), &args.output)?;
    writable(&args.output)?;
    let units =
        if args.onnx_runtime_ranges { CacheUnits::OnnxRuntimeRanges } else { CacheUnits::Scales };
    let cache = Cache::load(&args.cache, units)?;
    let imported = Imported {
        header: cache.header.as_ref().map(ToString::to_string).unwrap_or_default(),
        file: hash_file(&args.cache).map_err(StoreError::io("read", &args.cache))?.0,
    };
    let progress = Progress::new(args.quiet);
    let (table, account) = match (&args.profile, &args.model) {
        (Some(profile), _) => from_profile(args, profile, (&cache, imported), progress)?,
        (None, Some(model)) => from_model(args, model, (&cache, imported))?,
        // The parser demands one of the two.
        (None, None) => {
            return Err(ImportError::Nothing { count: 0, examples: String::new() }.into());
        }
    };
    for note in cache.notes.iter().chain(&notes(&account)) {
        progress.say(&format!("warning: {note}"));
    }
    table.save(&args.output)?;
    let value = json!({
        "header": table.imported.as_ref().map(|imported| &imported.header),
        "tensors": table.tensors.len(),
        "notes": cache.notes,
        "account": account,
    });
    let text = format!(
        "{} scales imported, {} calibrated, {} missing: {}\n",
        account.taken.len(),
        account.calibrated.len(),
        account.missing.len() - account.calibrated.len(),
        args.output.display()
    );
    if args.json || !args.quiet {
        print(args.json, &value, &text)?;
    }
    Ok(())
}

fn from_model(
    args: &ImportArgs,
    path: &Path,
    (cache, imported): (&Cache, Imported),
) -> Result<(CalibrationTable, ImportAccount), PipelineError> {
    let level: Level = args.level.unwrap_or_default();
    let model = Model::open(path)?;
    model.check()?;
    // A build works on the canonical form: its tensors are the ones that need a scale.
    let (working, _) = canonical_form(&model)?;
    let account = exchange::account(cache, &working, &survey(&working)?, level)?;
    if args.missing == Missing::Refuse {
        exchange::complete(&account, level)?;
    }
    let data = match &args.data {
        Some(path) => Dataset::load(path, &Fields::text(&args.text), None, false)?.fingerprint,
        None => String::new(),
    };
    let fingerprints = (model.fingerprint().to_hex().to_string(), data);
    Ok((exchange::table(cache, &account, fingerprints, imported), account))
}

/// Runs the profile's rows for what the cache does not say: missing scales, and the largest magnitudes that FP16 needs.
fn from_profile(
    args: &ImportArgs,
    path: &Path,
    (cache, imported): (&Cache, Imported),
    progress: Progress,
) -> Result<(CalibrationTable, ImportAccount), PipelineError> {
    let mut profile = Profile::read(path, &args.assignments)?;
    if let Some(note) = recorded::unused(&mut profile) {
        progress.say(&format!("warning: {note}"));
    }
    let inputs_of_profile = profile.input_files();
    refuse_overwriting(inputs_of_profile.iter().map(AsRef::as_ref), &args.output)?;
    if auto::may_smooth(&profile) {
        return Err(ImportError::Smoothed.into());
    }
    let inputs = ModelInputs::open(&profile)?;
    let mut account =
        exchange::account(cache, &inputs.reopen()?, &inputs.survey, profile.quantize.level)?;
    let rows = inputs.calibration_rows(&profile.calibration)?;
    let mut table = calibrate::calibrate(&inputs, &profile, &rows, progress)?.table;
    exchange::take_over(&mut table, cache, &account, imported);
    account.calibrated.clone_from(&account.missing);
    Ok((table, account))
}

fn notes(account: &ImportAccount) -> Vec<String> {
    let missing: Vec<String> =
        account.missing.iter().filter(|name| !account.calibrated.contains(name)).cloned().collect();
    let mut notes = Vec::new();
    let mut note = |names: &[String], what: &str| {
        if !names.is_empty() {
            notes.push(format!("{} {what}: {}", names.len(), listed(names)));
        }
    };
    note(&account.unknown, "tensors of the cache are not in the model and were left out");
    note(
        &account.constants,
        "tensors of the cache are constants, whose scales come from their values",
    );
    note(&missing, "tensors have no scale: what reads them must stand in `quantize.skip`");
    note(&account.calibrated, "tensors were not in the cache and were calibrated on the rows");
    notes
}

/// Makes a cache of a table.
pub fn export(args: &ExportArgs) -> Result<(), PipelineError> {
    refuse_overwriting(std::iter::once(args.table.as_path()), &args.output)?;
    writable(&args.output)?;
    let table = CalibrationTable::load(&args.table)?;
    let origin: Option<CacheHeader> =
        table.imported.as_ref().and_then(|imported| imported.header.parse().ok());
    let version = match (&args.trt_version, &origin) {
        (Some(given), _) => {
            let bad = || ImportError::BadVersion { given: given.clone() };
            cache_version(given).ok_or_else(bad)?
        }
        (None, Some(origin)) => origin.version.clone(),
        (None, None) => return Err(ImportError::Version.into()),
    };
    let kind = args.kind.map(Into::into).or(origin.map(|origin| origin.kind));
    let kind = kind.unwrap_or_else(|| CacheKind::of(table.options.method));
    let header = CacheHeader { version, kind };
    write_atomic(&args.output, &cache_bytes(&table, &header)?)?;
    let value = json!({ "header": header.to_string(), "tensors": table.tensors.len() });
    let text = format!("{header}, {} scales: {}\n", table.tensors.len(), args.output.display());
    if args.json || !args.quiet {
        print(args.json, &value, &text)?;
    }
    Ok(())
}
