//! `trtforge calibrate`.

mod chosen;
mod import;
mod merge;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use trtforge_calibrate::{Content, Shard};

use super::{not_an_input, print_for, read_profile, warn, writable};
use crate::cli::{CalibrateArgs, CalibrateCommand, CalibrateOptions, Observe, ProfileArgs};
use crate::error::PipelineError;
use crate::inputs::{EncodedRows, ModelInputs};
use crate::profile::Profile;
use crate::progress::Progress;
use crate::scheduler::resolve;
use crate::stages::passes::PassTimings;
use crate::stages::shard::{ShardRunError, Step};
use crate::stages::{auto, calibrate, recorded, sample_notes, shard};
use crate::store::refuse_overwriting;

/// Calibrates, or works on what calibrations left.
pub fn calibrate(args: &CalibrateArgs) -> Result<(), PipelineError> {
    if let Some(command) = &args.command {
        return match command {
            CalibrateCommand::Merge(args) => merge::merge(args),
            CalibrateCommand::Import(args) => import::import(args),
            CalibrateCommand::Export(args) => import::export(args),
        };
    }
    // Without a command the parser demands both; a parser that did not must not pass for success.
    let (Some(profile), Some(options)) = (&args.profile, &args.options) else {
        let why = "name a profile and `--output`, or one of the commands";
        return Err(ShardRunError::Flags { why }.into());
    };
    let run = Run { profile, options };
    let Some(choice) = options.shard else { return whole(run) };
    let variable = |name| Some(std::env::var_os(name)?.to_string_lossy().into_owned());
    part(run, resolve(choice, options.shards, variable)?)
}

/// What was asked of one calibration.
#[derive(Clone, Copy)]
struct Run<'a> {
    profile: &'a ProfileArgs,
    options: &'a CalibrateOptions,
}

/// Calibrates on all rows and writes a table.
fn whole(run: Run<'_>) -> Result<(), PipelineError> {
    if run.options.observe == Observe::Channels {
        let why = "`--observe channels` is a step of shards: it needs `--shard`";
        return Err(ShardRunError::Flags { why }.into());
    }
    if run.options.output.to_string_lossy().contains("{shard") {
        let why = "`{shard}` in the output stands for the number of a shard: it needs `--shard`";
        return Err(ShardRunError::Flags { why }.into());
    }
    let profile = profile_of(run)?;
    if run.options.observe == Observe::All {
        // The output is tried before the long work.
        not_an_input(run.profile, &profile, &run.options.output)?;
        writable(&run.options.output)?;
    }
    let start = Instant::now();
    let (inputs, rows) = open(run, &profile)?;
    let progress = Progress::new(run.profile.quiet);
    let (passes, threshold, sampled, tensors, chosen) = if run.options.observe == Observe::None {
        let (passes, sampled) = calibrate::plain_passes(&inputs, &profile, &rows, progress)?;
        (passes, Duration::ZERO, sampled, 0, None)
    } else {
        let made = calibrate::calibrate(&inputs, &profile, &rows, progress)?;
        made.table.save(&run.options.output)?;
        let chosen = chosen::chosen(&made.table);
        (made.passes, made.threshold, made.rows, made.table.tensors.len(), chosen)
    };
    let mut value = figures(sampled, tensors, passes, start);
    value["threshold_ms"] = json!(threshold.as_secs_f64() * 1e3);
    let mut text = format!(
        "{tensors} tensors calibrated on {sampled} rows in {:.1} s: {}\n",
        start.elapsed().as_secs_f64(),
        run.options.output.display()
    );
    if let Some((auto, line)) = chosen {
        value["auto"] = auto;
        text.push_str(&line);
    }
    Ok(print_for(run.profile, &value, &text)?)
}

/// Reads the profile that a table is made for. A recorded table that it names is not even looked at, which is said.
fn profile_of(run: Run<'_>) -> Result<Profile, PipelineError> {
    let mut profile = read_profile(run.profile, &[])?;
    warn(run.profile, recorded::unused(&mut profile).as_slice());
    Ok(profile)
}

/// Runs one shard's rows and writes a part.
fn part(run: Run<'_>, shard: Shard) -> Result<(), PipelineError> {
    let profile = profile_of(run)?;
    let step = match run.options.observe {
        Observe::None => {
            let why = "`--observe none` writes nothing: it does not go with `--shard`";
            return Err(ShardRunError::Flags { why }.into());
        }
        Observe::Channels if run.options.channels.is_some() => {
            let why = "`--observe channels` measures what `--channels` would give: use one of them";
            return Err(ShardRunError::Flags { why }.into());
        }
        Observe::Channels => Step::Channels,
        Observe::All => Step::Activations(run.options.channels.as_deref()),
    };
    shard::check(&profile, step)?;
    let output = named(&run.options.output, shard);
    not_an_input(run.profile, &profile, &output)?;
    refuse_overwriting(run.options.channels.iter().map(AsRef::as_ref), &output)?;
    writable(&output)?;
    let start = Instant::now();
    let (inputs, rows) = open(run, &profile)?;
    let progress = Progress::new(run.profile.quiet);
    let made = shard::run(&inputs, &profile, &rows, (shard, step), progress)?;
    made.part.save(&output)?;
    let (ran, holds) = (made.part.rows.len(), made.part.content.name());
    let tensors = match &made.part.content {
        Content::Channels(ranges) => ranges.absmax().len(),
        Content::Activations { observer, .. } => observer.histograms().len(),
    };
    let mut value = figures(ran as usize, tensors, made.passes, start);
    value["shard"] = json!(shard);
    value["samples"] = json!(made.part.recipe.options.samples);
    value["part"] = json!(output.display().to_string());
    let text = format!(
        "shard {shard}: {holds} of {ran} of {} rows in {:.1} s: {}\n",
        made.part.recipe.options.samples,
        start.elapsed().as_secs_f64(),
        output.display()
    );
    Ok(print_for(run.profile, &value, &text)?)
}

fn open(run: Run<'_>, profile: &Profile) -> Result<(ModelInputs, EncodedRows), PipelineError> {
    let inputs = ModelInputs::open(profile)?;
    warn(run.profile, &inputs.warnings);
    let rows = inputs.calibration_rows(&profile.calibration)?;
    warn(run.profile, &rows.notes);
    warn(run.profile, &sample_notes::notes(profile, &rows, None));
    warn(run.profile, auto::too_few(profile, rows.rows.len()).as_slice());
    Ok((inputs, rows))
}

fn figures(rows: usize, tensors: usize, passes: PassTimings, start: Instant) -> serde_json::Value {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    json!({
        "rows": rows,
        "tensors": tensors,
        "forward_ms": ms(passes.forward),
        "observe_ms": ms(passes.observe),
        "total_ms": ms(start.elapsed()),
        "peak_rss_mib": peak_rss_mib(),
    })
}

/// The output with the shard's numbers in it, for schedulers that start a program without a shell.
fn named(output: &Path, shard: Shard) -> PathBuf {
    let text = output.to_string_lossy();
    if !text.contains("{shard") {
        return output.to_owned();
    }
    let text = text.replace("{shard}", &shard.index().to_string());
    PathBuf::from(text.replace("{shards}", &shard.of().to_string()))
}

/// Peak resident memory of this process, where the system tells.
fn peak_rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
