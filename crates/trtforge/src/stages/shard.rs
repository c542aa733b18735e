//! One machine's part of a calibration: the rows of one shard through the model, nothing merged and no threshold chosen.
//!
//! Smoothing needs the channel ranges of all rows before any row may run through the smoothed model. So with
//! `quantize.smooth` the machines work twice: first each measures the channels of its rows, then, with the merged
//! ranges, each observes its rows in the smoothed model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;
use trtforge_calibrate::{Content, Part, Recipe, RowSet, Shard};

use crate::error::PipelineError;
use crate::inputs::{EncodedRows, ModelInputs};
use crate::profile::Profile;
use crate::progress::Progress;
use crate::stages::auto;
use crate::stages::calibrate::{Observed, Settings, measure_channels, observe_with, recipe};
use crate::stages::passes::{PassTimings, Passes};
use crate::stages::runner::Runner;
use crate::stages::sampling::{SampledRow, plan, sampled};

/// What the machines do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'p> {
    /// Measure channels, the first of two steps.
    Channels,
    /// Observe activations; with the merged channel ranges where the profile smooths.
    Activations(Option<&'p Path>),
}

/// Why a shard cannot run.
#[derive(Debug, Diagnostic, Error)]
pub enum ShardRunError {
    /// Flags that do not go together.
    #[error("{why}")]
    #[diagnostic(
        code(calibrate::flags),
        help("see `trtforge calibrate --help` for the steps of shards")
    )]
    Flags {
        /// In words.
        why: &'static str,
    },
    /// Smoothing needs another step before.
    #[error("`quantize.smooth` is {strength}: shards first need the channel ranges of all rows")]
    #[diagnostic(
        code(calibrate::two_steps),
        help(
            "1. on every machine: trtforge calibrate PROFILE --shard I/N --observe channels -o channels-{{shard}}.part\n2. once: trtforge calibrate merge channels-*.part -o channels.part\n3. on every machine: trtforge calibrate PROFILE --shard I/N --channels channels.part -o part-{{shard}}.part\n4. once: trtforge calibrate merge part-*.part -o calibration.json"
        )
    )]
    TwoSteps {
        /// Of the profile.
        strength: f64,
    },
    /// A search needs all rows in one place.
    #[error("`auto` compares variants on rows kept aside, which no shard has")]
    #[diagnostic(
        code(calibrate::auto_in_shards),
        help(
            "let `trtforge calibrate` find method and smoothing once on a smaller sample (`--set data.calibration.samples=512`), then give the shards what its table says under `options` and `search`"
        )
    )]
    Searched,
    /// Channel ranges for nothing.
    #[error("the profile does not smooth: {what} has no use")]
    #[diagnostic(
        code(calibrate::no_smoothing),
        help("leave it out, or set `quantize.smooth` (it serves int8 alone)")
    )]
    NoSmoothing {
        /// The flag.
        what: &'static str,
    },
    /// Not the ranges of all rows.
    #[error("{} holds the {found} of shard {shard}, not the channel ranges of all rows", path.display())]
    #[diagnostic(
        code(calibrate::not_the_channels),
        help(
            "merge the channel parts of all shards: `trtforge calibrate merge channels-*.part -o channels.part`"
        )
    )]
    NotTheChannels {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: &'static str,
        /// Whose.
        shard: Shard,
    },
    /// Ranges of another calibration.
    #[error("{} was measured for another calibration: {}", path.display(), differences.join("; "))]
    #[diagnostic(
        code(calibrate::other_channels),
        help("measure the channels again with this profile, model and data")
    )]
    OtherChannels {
        /// The file.
        path: PathBuf,
        /// Each thing that differs: "there" is the file, "here" the profile.
        differences: Vec<String>,
    },
}

/// A part and where the time went.
pub struct Made {
    /// The part.
    pub part: Part,
    /// Where the time went.
    pub passes: PassTimings,
}

/// Runs one shard's rows.
pub fn run(
    inputs: &ModelInputs,
    profile: &Profile,
    rows: &EncodedRows,
    (shard, step): (Shard, Step<'_>),
    progress: Progress,
) -> Result<Made, PipelineError> {
    let sample = sampled(rows, profile);
    let settings = Settings::fixed(profile);
    let runner = Runner::for_shard(profile)?;
    let recipe = recipe(inputs, profile, rows, &sample, settings).ran_on(runner.words());
    let channels = match step {
        Step::Activations(Some(path)) => merged_channels(path, &recipe)?,
        _ => BTreeMap::new(),
    };
    let own = own_rows(rows, &sample, shard);
    let batches = plan(rows, profile, &own);
    let passes = Passes { inputs, rows, runner: &runner, progress };
    let mut timings = PassTimings::default();
    let content = match step {
        Step::Channels => {
            Content::Channels(measure_channels(&passes, profile, &batches, &mut timings)?)
        }
        Step::Activations(_) => {
            let Observed { observer, channels, passes: spent } =
                observe_with(&passes, profile, settings.strength, &batches, channels)?;
            timings.add(spent);
            Content::Activations { observer, channels }
        }
    };
    let places: RowSet = own.iter().map(|own| own.position as u64 + 1).collect();
    Ok(Made { part: Part::new(shard, processor(), recipe, places, content), passes: timings })
}

/// Refuses steps that do not belong to the profile, before any long work.
pub fn check(profile: &Profile, step: Step<'_>) -> Result<(), ShardRunError> {
    if auto::is_asked(profile) {
        return Err(ShardRunError::Searched);
    }
    let strength = auto::fixed_strength(profile);
    match step {
        Step::Activations(None) if strength > 0.0 => Err(ShardRunError::TwoSteps { strength }),
        Step::Channels if strength == 0.0 => {
            Err(ShardRunError::NoSmoothing { what: "`--observe channels`" })
        }
        Step::Activations(Some(_)) if strength == 0.0 => {
            Err(ShardRunError::NoSmoothing { what: "`--channels`" })
        }
        _ => Ok(()),
    }
}

fn own_rows(rows: &EncodedRows, sample: &[SampledRow], shard: Shard) -> Vec<SampledRow> {
    let lengths: Vec<usize> =
        sample.iter().map(|sampled| rows.rows[sampled.row].ids.len()).collect();
    shard.pick(&lengths).into_iter().map(|place| sample[place]).collect()
}

fn merged_channels(
    path: &Path,
    recipe: &Recipe,
) -> Result<BTreeMap<String, Vec<f32>>, PipelineError> {
    let part = Part::load(path)?;
    let differences = recipe.differences(&part.recipe);
    if !differences.is_empty() {
        return Err(ShardRunError::OtherChannels { path: path.to_owned(), differences }.into());
    }
    match &part.content {
        Content::Channels(ranges) if part.is_whole() => Ok(ranges.absmax()),
        other => {
            let (found, shard) = (other.name(), part.shard);
            Err(ShardRunError::NotTheChannels { path: path.to_owned(), found, shard }.into())
        }
    }
}

/// The instruction sets that decide in what order the executor's kernels add.
fn processor() -> String {
    let mut processor = std::env::consts::ARCH.to_owned();
    #[cfg(target_arch = "x86_64")]
    for (name, there) in [
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("fma", std::arch::is_x86_feature_detected!("fma")),
    ] {
        if there {
            processor.push('+');
            processor.push_str(name);
        }
    }
    processor
}
