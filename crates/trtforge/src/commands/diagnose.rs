//! `trtforge diagnose`.

use std::path::Path;

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
use crate::run_folder::RunFolder;
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
    let run = args.record.as_deref().map(RunFolder::open).transpose()?;
    let asked = Asked { rows: args.rows, batch: args.batch };
    let found = service::diagnose(&profile, asked, run.as_ref(), Progress::new(args.quiet))?;
    if let Some(run) = run {
        write(run, &found)?;
    }
    Ok(print_for(common, &json!(found), &render_service(&found))?)
}

fn write(run: RunFolder, found: &ServiceDiagnosis) -> Result<(), StoreError> {
    let record = RunRecord { diagnosis: Some(json!(found)), ..run.record };
    record::write(&record, &run.path)
}
