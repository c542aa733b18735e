//! The subcommands: read what was asked, run the stage, print the result.

mod benchmark;
mod build;
mod calibrate;
mod check;
mod ci;
mod compare;
mod diagnose;
mod evaluate;
mod gate;
mod init;
mod inspect;
mod plan;
mod quantize;
mod schema;
mod sensitivity;
mod shapes;
mod shell;

pub use benchmark::data_name;

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde_json::json;

pub use compare::CompareInputError;

use crate::cli::{Command, DoctorArgs, ProfileArgs};
use crate::doctor;
use crate::error::PipelineError;
use crate::gpu_check::gpu_check;
use crate::profile::Profile;
use crate::progress::Progress;
use crate::store::{StoreError, refuse_overwriting};

/// Runs one subcommand; the exit code of a command that did its work.
pub fn run(command: Command) -> Result<u8, PipelineError> {
    match command {
        Command::Build(args) => return build::build(&args),
        Command::Compare(args) => return compare::compare(&args),
        Command::Gate(args) => return gate::gate(&args),
        Command::GpuCheck(args) => return gpu_check(&args),
        Command::Init(args) => init::init(&args)?,
        Command::Check(args) => check::check(&args)?,
        Command::Calibrate(args) => calibrate::calibrate(&args)?,
        Command::Quantize(args) => quantize::quantize(&args)?,
        Command::Sensitivity(args) => sensitivity::sensitivity(&args)?,
        Command::Shapes(args) => shapes::plan_shapes(&args)?,
        Command::Evaluate(args) => evaluate::evaluate(&args)?,
        Command::Inspect(args) => inspect::inspect(&args)?,
        Command::Benchmark(args) => benchmark::benchmark(&args)?,
        Command::Diagnose(args) => diagnose::diagnose(&args)?,
        Command::Report(args) => build::report(&args)?,
        Command::Doctor(args) => doctor(&args)?,
        Command::Schema(args) => schema::schema(&args)?,
        Command::Completions(args) => shell::completions(&args)?,
        Command::Man => shell::man()?,
    }
    Ok(0)
}

/// Prints a result: JSON, or lines of text.
pub fn print(json: bool, value: &serde_json::Value, text: &str) -> Result<(), StoreError> {
    let mut out = std::io::stdout().lock();
    let written = if json { writeln!(out, "{value:#}") } else { write!(out, "{text}") };
    match written.and_then(|()| out.flush()) {
        // A closed pipe (`| head`) is the reader's choice; a full disk behind `>` is a lost result.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(StoreError::io("write to", Path::new("standard output"))(error))
        }
        _ => Ok(()),
    }
}

/// Prints a result unless it is text and nobody wants to read.
fn print_for(args: &ProfileArgs, value: &serde_json::Value, text: &str) -> Result<(), StoreError> {
    if args.json || !args.quiet { print(args.json, value, text) } else { Ok(()) }
}

/// Says on standard error what a person should know about the inputs.
fn warn(args: &ProfileArgs, warnings: &[String]) {
    let progress = Progress::new(args.quiet);
    for warning in warnings {
        progress.say(&format!("warning: {warning}"));
    }
}

/// Refuses to write over a file that is being read.
fn not_an_input(args: &ProfileArgs, profile: &Profile, output: &Path) -> Result<(), PipelineError> {
    let inputs = profile.input_files();
    refuse_overwriting(inputs.iter().map(AsRef::as_ref).chain([args.profile.as_path()]), output)?;
    Ok(())
}

fn read_profile(args: &ProfileArgs, more: &[String]) -> Result<Profile, PipelineError> {
    let assignments: Vec<String> = args.assignments.iter().chain(more).cloned().collect();
    Ok(Profile::read(&args.profile, &assignments)?)
}

/// Proves that a file can be made where `path` says.
fn writable(path: &Path) -> Result<(), StoreError> {
    let folder = trtforge_files::folder_of(path);
    std::fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    trtforge_files::writable(path).map_err(StoreError::io("write", path))
}

fn doctor(args: &DoctorArgs) -> Result<(), PipelineError> {
    let found = trtforge_tensorrt::probe(None);
    Ok(print(args.json, &json!(found), &doctor::text(&found))?)
}
