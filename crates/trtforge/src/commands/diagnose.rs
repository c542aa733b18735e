//! `trtforge diagnose`.

use serde_json::json;
use trtforge_diagnose::{
    DiagnoseOptions, ReadOptions, diagnose as diagnose_trace, read_trace, render_text,
};

use super::print;
use crate::cli::DiagnoseArgs;
use crate::error::PipelineError;

/// Says why the GPUs of a traced service were idle.
pub fn diagnose(args: &DiagnoseArgs) -> Result<(), PipelineError> {
    let trace = read_trace(&args.trace, ReadOptions { partial: args.partial })?;
    let found = diagnose_trace(trace, DiagnoseOptions { steps: args.steps })?;
    Ok(print(args.json, &json!(found), &render_text(&found))?)
}
