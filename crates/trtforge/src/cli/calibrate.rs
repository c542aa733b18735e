//! `trtforge calibrate` and what belongs to it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use trtforge_calibrate::CacheKind;
use trtforge_quantize::Level;

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
    /// Make a table of a calibration cache of TensorRT 10 or older
    Import(ImportArgs),
    /// Make such a cache of a table
    Export(ExportArgs),
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

/// `trtforge calibrate import`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge calibrate import int8.cache --model model.onnx -o calibration.json\n  trtforge calibrate import int8.cache --profile profile.yaml -o calibration.json\n\nThen name the table in the profile: `calibrate: { table: calibration.json }`."
)]
#[command(group = clap::ArgGroup::new("onto").required(true).args(["model", "profile"]))]
pub struct ImportArgs {
    /// The calibration cache of TensorRT 10 or older
    pub cache: PathBuf,
    /// The ONNX model that the cache was made for
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// A profile of that model: its rows are run for what the cache lacks, missing scales and the ranges FP16 needs
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Override one field of the profile
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "profile", conflicts_with = "model")]
    pub assignments: Vec<String>,
    /// How far INT8 is to reach: which scales must be there. With --profile, its `quantize.level`
    #[arg(long, value_name = "LEVEL", conflicts_with = "profile")]
    pub level: Option<Level>,
    /// What to do when scales are missing that the level needs
    #[arg(long, value_enum, default_value = "refuse", conflicts_with = "profile")]
    pub missing: Missing,
    /// The rows that the cache was made from: the table then carries their fingerprint
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub data: Option<PathBuf>,
    /// The text field of --data
    #[arg(long, value_name = "FIELD", default_value = "text")]
    pub text: String,
    /// The file is ONNX Runtime's `calibration.cache`, which holds ranges in decimal: divide them by 127
    #[arg(long)]
    pub onnx_runtime_ranges: bool,
    /// The table to write
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// No warnings, no summary; errors only
    #[arg(long, short)]
    pub quiet: bool,
}

/// `--missing`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Missing {
    /// Write no table, and list them
    Refuse,
    /// Leave them out; what reads them must stand in `quantize.skip`
    Leave,
}

/// `trtforge calibrate export`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  trtforge calibrate export calibration.json --trt-version 10.3.0 -o int8.cache"
)]
pub struct ExportArgs {
    /// The calibration table
    pub table: PathBuf,
    /// The version of TensorRT that is to read the cache (it refuses others'); an imported table knows its own
    #[arg(long, value_name = "VERSION")]
    pub trt_version: Option<String>,
    /// The calibrator that is to read the cache; by default the imported one, or that nearest to the method
    #[arg(long, value_enum)]
    pub kind: Option<KindName>,
    /// The cache to write
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// No summary; errors only
    #[arg(long, short)]
    pub quiet: bool,
}

/// `--kind`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KindName {
    /// IInt8EntropyCalibrator2
    #[value(name = "EntropyCalibration2")]
    Entropy2,
    /// IInt8EntropyCalibrator
    #[value(name = "EntropyCalibration")]
    Entropy,
    /// IInt8MinMaxCalibrator
    #[value(name = "MinMaxCalibration")]
    MinMax,
    /// IInt8LegacyCalibrator
    #[value(name = "LegacyCalibration")]
    Legacy,
}

impl From<KindName> for CacheKind {
    fn from(name: KindName) -> Self {
        match name {
            KindName::Entropy2 => Self::Entropy2,
            KindName::Entropy => Self::Entropy,
            KindName::MinMax => Self::MinMax,
            KindName::Legacy => Self::Legacy,
        }
    }
}
