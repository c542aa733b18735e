//! `trtforge calibrate` and what belongs to it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::ProfileArgs;
use crate::scheduler::ShardChoice;

/// `trtforge calibrate`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    subcommand_help_heading = "Commands (instead of PROFILE)",
    after_help = "Examples:\n  trtforge calibrate profiles/demo.yaml -o calibration.json\n\n  On four machines, then once:\n  trtforge calibrate profile.yaml --shard 3/4 -o 'part-{shard}.part'\n  trtforge calibrate merge part-*.part -o calibration.json\n\n  From a TensorRT 10 cache:\n  trtforge calibrate import int8.cache --model model.onnx -o calibration.json"
)]
pub struct CalibrateArgs {
    /// Instead of calibrating.
    #[command(subcommand)]
    pub command: Option<CalibrateCommand>,
    /// The profile of a calibration. Required without a command, as are the options.
    #[command(flatten)]
    pub profile: Option<ProfileArgs>,
    /// A calibration's own options.
    #[command(flatten)]
    pub options: Option<CalibrateOptions>,
}

/// What to do with parts, tables and caches.
#[derive(Debug, Subcommand)]
pub enum CalibrateCommand {
    /// Put the parts of all shards together
    Merge(MergeArgs),
}

/// A calibration, of all rows or of one shard's.
#[derive(Debug, Args)]
pub struct CalibrateOptions {
    /// The table to write, or with --shard the part; `{shard}` and `{shards}` stand for the numbers
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// What to observe; `none` only runs the forward passes (to measure what observing costs) and writes no table
    #[arg(long, value_enum, default_value = "all")]
    pub observe: Observe,
    /// Run only the rows of shard I of N, counted from 1, and write a part; `auto` asks Slurm (job arrays) or Kubernetes
    /// (indexed jobs)
    #[arg(long, value_name = "I/N|auto")]
    pub shard: Option<ShardChoice>,
    /// How many shards there are, where the scheduler does not tell (Kubernetes) or to be sure; also `TRTFORGE_SHARDS`
    #[arg(long, value_name = "N", requires = "shard")]
    pub shards: Option<u32>,
    /// The merged channel ranges that the model is smoothed by: the second step of shards with `quantize.smooth`
    #[arg(long, value_name = "FILE", requires = "shard")]
    pub channels: Option<PathBuf>,
}

/// `--observe`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Observe {
    /// Every tensor that calibration needs
    All,
    /// Only the channel ranges that smoothing needs: the first step of shards with `quantize.smooth`
    Channels,
    /// Nothing
    None,
}

/// `trtforge calibrate merge`
#[derive(Debug, Args)]
#[command(
    after_help = "Gives byte for byte the table of one machine, in whatever order the parts are named.\n\nExample:\n  trtforge calibrate merge parts/*.part -o calibration.json"
)]
pub struct MergeArgs {
    /// The parts of all shards
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<PathBuf>,
    /// The table to write; of channel parts, the merged channel ranges
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// No summary; errors only
    #[arg(long, short)]
    pub quiet: bool,
}
