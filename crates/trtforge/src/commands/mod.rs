//! The subcommands: read what was asked, run the stage, print the result.

mod build;
mod calibrate;
mod check;
mod diagnose;
mod evaluate;
mod inspect;
mod quantize;
mod shapes;

use std::io::Write;
use std::path::Path;

use serde_json::json;

use crate::cli::{Command, DoctorArgs, ProfileArgs};
use crate::doctor;
use crate::error::PipelineError;
use crate::profile::Profile;
use crate::store::StoreError;

/// Runs one subcommand; the exit code of a command that did its work.
pub fn run(command: Command) -> Result<u8, PipelineError> {
    match command {
        Command::Build(args) => return build::build(&args),
        Command::Check(args) => check::check(&args)?,
        Command::Calibrate(args) => calibrate::calibrate(&args)?,
        Command::Quantize(args) => quantize::quantize(&args)?,
        Command::Shapes(args) => shapes::plan_shapes(&args)?,
        Command::Evaluate(args) => evaluate::evaluate(&args)?,
        Command::Inspect(args) => inspect::inspect(&args)?,
        Command::Diagnose(args) => diagnose::diagnose(&args)?,
        Command::Report(args) => build::report(&args)?,
        Command::Doctor(args) => doctor(&args),
    }
    Ok(0)
}

/// Prints a result: JSON, or lines of text.
fn print(json: bool, value: &serde_json::Value, text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed pipe (`| head`) is the reader's choice, not a failure.
    let _ = if json { writeln!(out, "{value:#}") } else { write!(out, "{text}") };
}

fn read_profile(args: &ProfileArgs, more: &[String]) -> Result<Profile, PipelineError> {
    let assignments: Vec<String> = args.assignments.iter().chain(more).cloned().collect();
    Ok(Profile::read(&args.profile, &assignments)?)
}

/// Proves that a file can be made where `path` says.
fn writable(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    tempfile::tempfile_in(folder).map(drop).map_err(StoreError::io("write in", folder))
}

fn doctor(args: &DoctorArgs) {
    let found = trtforge_tensorrt::probe(None);
    print(args.json, &json!(found), &doctor::text(&found));
}
