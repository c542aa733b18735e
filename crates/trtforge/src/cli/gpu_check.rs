//! `trtforge gpu-check`

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `trtforge gpu-check`; `scripts/gpu-check` is what people run.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  scripts/gpu-check\n\nExit code 3 without a GPU, 4 when a step fails; the steps are in gpu-check.json."
)]
pub struct GpuCheckArgs {
    /// The profile to build, time and diagnose
    #[arg(long, value_name = "FILE", default_value = "profiles/demo.yaml")]
    pub profile: PathBuf,
    /// Override one field of the profile
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,
    /// Where gpu-check.json, its log and the run go
    #[arg(long, value_name = "DIR", default_value = "out/gpu-check")]
    pub output: PathBuf,
    /// Time the shapes that the profile's engines are tuned for, instead of 1 and 32 rows of 32 and 128 tokens
    #[arg(long)]
    pub usual_shapes: bool,
    /// Only this step, in this process
    #[arg(long, value_name = "STEP")]
    pub only: Option<GpuCheckStep>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// No progress; errors and the result only
    #[arg(long, short)]
    pub quiet: bool,
}

/// `--only`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GpuCheckStep {
    /// One small engine is built, loaded and run
    Runs,
    /// The suite that every executor passes
    Conformance,
}
