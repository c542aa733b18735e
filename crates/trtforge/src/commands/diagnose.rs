//! `trtforge diagnose`.

use std::path::{Path, PathBuf};

use serde_json::json;
use trtforge_diagnose::service::{ServiceDiagnosis, render_service};
use trtforge_diagnose::{
    DiagnoseOptions, ReadOptions, diagnose as diagnose_trace, read_trace, render_text,
};
use trtforge_report::RunRecord;

use super::{print_for, read_profile};
use crate::cli::{DiagnoseArgs, ProfileArgs};
use crate::error::PipelineError;
use crate::progress::Progress;
use crate::record;
use crate::stages::service::{self, Asked};
use crate::store::StoreError;

/// Says why the GPUs of a traced service were idle, or where the time of a profile's service goes.
pub fn diagnose(args: &DiagnoseArgs) -> Result<(), PipelineError> {
    let common = |profile: &Path| ProfileArgs {
        profile: profile.to_owned(),
        assignments: args.assignments.clone(),
        json: args.json,
        quiet: args.quiet,
    };
    if let Some(profile) = &args.profile {
        return measure(args, &common(profile));
    }
    let path = args.trace.clone().unwrap_or_default();
    let trace = read_trace(&path, ReadOptions { partial: args.partial })?;
    let found = diagnose_trace(trace, DiagnoseOptions { steps: args.steps })?;
    Ok(print_for(&common(&path), &json!(found), &render_text(&found))?)
}

fn measure(args: &DiagnoseArgs, common: &ProfileArgs) -> Result<(), PipelineError> {
    let profile = read_profile(common, &[])?;
    // The record is opened before the long work.
    let record = args.record.as_ref().map(|folder| opened(folder)).transpose()?;
    let asked = Asked { rows: args.rows, batch: args.batch };
    let found = service::diagnose(&profile, asked, Progress::new(args.quiet))?;
    if let Some((folder, run)) = record {
        write(&folder, run, &found)?;
    }
    Ok(print_for(common, &json!(found), &render_service(&found))?)
}

fn opened(folder: &Path) -> Result<(PathBuf, RunRecord), PipelineError> {
    let path = folder.join("run.json");
    let text = std::fs::read_to_string(&path).map_err(StoreError::io("read", &path))?;
    Ok((folder.to_owned(), RunRecord::from_json(&text)?))
}

fn write(folder: &Path, mut run: RunRecord, found: &ServiceDiagnosis) -> Result<(), StoreError> {
    run.diagnosis = Some(json!(found));
    record::write(&run, folder)
}
