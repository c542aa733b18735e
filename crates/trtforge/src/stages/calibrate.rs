//! `calibrate`: one pass of the sampled rows through the FP32 model, activations straight into histograms.
//!
//! With `quantize.smooth` the rows run once before, to measure activations by channel; the pass then runs
//! the smoothed model, which computes the same in FP32 (see [`trtforge_quantize::smooth`]).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use trtforge_calibrate::{
    CalibrationTable, ChannelRanges, Guards, Histogram, Method, Observer, Recipe, TableOptions,
};
use trtforge_exec::Executor;
use trtforge_onnx::Model;
use trtforge_quantize::{Level, SmoothTarget, smooth, smoothable, survey};

use crate::canonical;
use crate::error::PipelineError;
use crate::inputs::{EncodedRows, ModelInputs};
use crate::profile::Profile;
use crate::progress::Progress;
use crate::stages::auto;
use crate::stages::passes::{Look, PassTimings, Passes};
use crate::stages::rewrite::policy;
use crate::stages::runner::Runner;
use crate::stages::sampling::{CalibrationBatch, SampledRow, count, lines, plan, sampled};
use crate::store::Fingerprint;

/// What a calibration gave.
pub struct Calibration {
    /// The table.
    pub table: CalibrationTable,
    /// The histograms behind it.
    pub observer: Observer,
    /// Where the time went.
    pub passes: PassTimings,
    /// Choosing thresholds.
    pub threshold: Duration,
    /// Rows that ran.
    pub rows: usize,
}

/// What a look at some of the rows gave.
pub struct Observed {
    /// The histograms.
    pub observer: Observer,
    /// The channel ranges, of all rows, that the model was smoothed by; empty without smoothing.
    pub channels: BTreeMap<String, Vec<f32>>,
    /// Where the time went.
    pub passes: PassTimings,
}

/// What is found by trial where the profile leaves it open, and taken from the profile where not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Threshold method, as the table states it.
    pub method: Method,
    /// Strength of smoothing.
    pub strength: f64,
}

impl Settings {
    /// Those of the profile; where it leaves one open, what stands for it when nothing can be tried.
    pub fn fixed(profile: &Profile) -> Self {
        Self { method: auto::fixed_method(profile), strength: auto::fixed_strength(profile) }
    }
}

/// The tensors a calibration looks at.
#[derive(Debug, Clone, Default)]
struct Taps {
    /// With a histogram.
    histograms: Vec<String>,
    /// With their largest magnitude only.
    watched: Vec<String>,
}

/// Everything that a table is made from.
pub fn key(
    inputs: &ModelInputs,
    profile: &Profile,
    rows: &EncodedRows,
) -> Result<Fingerprint, PipelineError> {
    let key = Fingerprint::of("table")
        .with("model", &inputs.fingerprint)
        .with("canonical", canonical::version(inputs.canonical.is_some()))
        .with("tokenizer", inputs.encoder.fingerprint())
        .with("data", &rows.fingerprint)
        // The same texts in another file format stand on other lines, and the table names the lines.
        .with("lines", lines(rows, &sampled(rows, profile)).to_string())
        .with("options", format!("{:?}", (&profile.calibration.samples, profile.calibration.seed)))
        .with("strategy", profile.calibration.strategy.to_string())
        .with("method", profile.calibrate.method.to_string())
        .with("max_length", profile.max_length.to_string())
        .with(
            "smooth",
            format!("{} {:?} {:?}", profile.quantize.smooth, profile.quantize, profile.precisions),
        )
        // What `auto` compares the logits of.
        .with("output", format!("{:?}", inputs.wiring.readout));
    Ok(match Runner::choose(profile)?.words() {
        Some(device) => key.with("device", device),
        None => key,
    })
}

/// Calibrates a profile's model.
pub fn calibrate(
    inputs: &ModelInputs,
    profile: &Profile,
    rows: &EncodedRows,
    progress: Progress,
) -> Result<Calibration, PipelineError> {
    if let Some(found) = auto::calibrate(inputs, profile, rows, progress)? {
        return Ok(found);
    }
    let settings = Settings::fixed(profile);
    let sample = sampled(rows, profile);
    let batches = plan(rows, profile, &sample);
    let runner = Runner::choose(profile)?;
    let passes = Passes { inputs, rows, runner: &runner, progress };
    let mut timings = PassTimings::default();
    let channels = if settings.strength > 0.0 {
        measure_channels(&passes, profile, &batches, &mut timings)?.absmax()
    } else {
        BTreeMap::new()
    };
    let Observed { observer, channels, passes: spent } =
        observe_with(&passes, profile, settings.strength, &batches, channels)?;
    timings.add(spent);
    let start = Instant::now();
    let recipe = recipe(inputs, profile, rows, &sample, settings).ran_on(runner.words());
    let table = table_of(recipe, &observer, channels)?;
    let threshold = start.elapsed();
    Ok(Calibration { table, observer, passes: timings, threshold, rows: count(&batches) })
}

/// The table of everything that all rows gave: the thresholds are chosen here, whoever ran the rows.
pub fn table_of(
    recipe: Recipe,
    observer: &Observer,
    channels: BTreeMap<String, Vec<f32>>,
) -> Result<CalibrationTable, PipelineError> {
    let tensors = observer.calibrate(recipe.options.method, &Guards::default())?;
    Ok(recipe.table(tensors, observer.absmax(), channels))
}

/// Runs batches through the model, smoothed by these channel ranges unless the strength is 0.
pub fn observe_with(
    passes: &Passes<'_>,
    profile: &Profile,
    strength: f64,
    batches: &[CalibrationBatch],
    channels: BTreeMap<String, Vec<f32>>,
) -> Result<Observed, PipelineError> {
    let inputs = passes.inputs;
    let (taps, executor) = if strength > 0.0 {
        let smoothed = smooth(&inputs.reopen()?, &channels, strength, &policy(profile))?;
        let taps = Taps::of_smoothed(inputs, &smoothed.model, profile.quantize.level)?;
        let executor = passes.executor(&smoothed.model, profile, &taps.all(), batches)?;
        (taps, executor)
    } else {
        let taps = Taps::of(inputs, profile.quantize.level);
        let executor = passes.executor(&inputs.reopen()?, profile, &taps.all(), batches)?;
        (taps, executor)
    };
    let mut timings = PassTimings::default();
    let observer = observe(passes, &*executor, &taps, batches, &mut timings)?;
    Ok(Observed { observer, channels, passes: timings })
}

/// Everything that decides the table of this profile, whoever runs the rows.
pub fn recipe(
    inputs: &ModelInputs,
    profile: &Profile,
    rows: &EncodedRows,
    sample: &[SampledRow],
    settings: Settings,
) -> Recipe {
    let quantize = &profile.quantize;
    let roles: Vec<String> = inputs
        .wiring
        .feeds
        .inputs()
        .iter()
        .map(|input| format!("{}: {:?}", input.name, input.role))
        .collect();
    let keys = [
        ("model.canonical", canonical::version(inputs.canonical.is_some())),
        ("model.inputs", roles.join(", ")),
        ("quantize.level", quantize.level.name().to_owned()),
        ("quantize.only", format!("{:?}", quantize.only)),
        ("quantize.skip", format!("{:?}", quantize.skip)),
    ];
    Recipe {
        tool: concat!("trtforge ", env!("CARGO_PKG_VERSION")).to_owned(),
        model: inputs.fingerprint.clone(),
        data: rows.fingerprint.clone(),
        tokenizer: inputs.encoder.fingerprint().to_owned(),
        options: options(profile, sample.len(), settings),
        lines: lines(rows, sample),
        settings: keys.map(|(key, value)| (key.to_owned(), value)).into(),
    }
}

/// Runs the rows of a calibration and looks at nothing: what calibration is measured against.
pub fn plain_passes(
    inputs: &ModelInputs,
    profile: &Profile,
    rows: &EncodedRows,
    progress: Progress,
) -> Result<(PassTimings, usize), PipelineError> {
    let batches = plan(rows, profile, &sampled(rows, profile));
    let executor = inputs.executor(profile, &[])?;
    let passes = Passes { inputs, rows, runner: &Runner::Cpu, progress };
    let timings = passes.run("Running", &executor, &batches, |_| &[], |_, _| Ok(Look::Fine))?;
    Ok((timings, count(&batches)))
}

fn options(profile: &Profile, samples: usize, settings: Settings) -> TableOptions {
    TableOptions {
        method: settings.method,
        samples,
        seed: profile.calibration.seed,
        strategy: profile.calibration.strategy.to_string(),
        max_length: profile.max_length,
        smooth: settings.strength,
    }
}

impl Taps {
    fn of(inputs: &ModelInputs, level: Level) -> Self {
        let survey = &inputs.survey;
        Taps { histograms: survey.observe_at(level), watched: survey.watch_at(level) }
    }

    /// Those of the smoothed model, and the ranges of the original's tensors, which the FP16 engine asks for.
    fn of_smoothed(
        inputs: &ModelInputs,
        model: &Model,
        level: Level,
    ) -> Result<Self, PipelineError> {
        let found = survey(model)?;
        let graph = model.graph();
        let histograms = found.observe_at(level);
        let mut watched = found.watch_at(level);
        for name in inputs.survey.watch.iter().chain(&inputs.survey.observe) {
            let known = watched.contains(name) || histograms.contains(name);
            if !known && graph.producer(name).is_some() {
                watched.push(name.clone());
            }
        }
        Ok(Taps { histograms, watched })
    }

    fn all(&self) -> Vec<String> {
        self.histograms.iter().chain(&self.watched).cloned().collect()
    }
}

/// The largest magnitude of every channel that smoothing asks for, over all calibration rows.
pub fn measure_channels(
    passes: &Passes<'_>,
    profile: &Profile,
    batches: &[CalibrationBatch],
    timings: &mut PassTimings,
) -> Result<ChannelRanges, PipelineError> {
    let model = passes.inputs.reopen()?;
    let targets = smoothable(&model, &policy(profile))?;
    let widths: BTreeMap<&str, usize> = targets
        .iter()
        .map(|SmoothTarget { tensor, channels }| (tensor.as_str(), *channels))
        .collect();
    let names: Vec<String> = targets.iter().map(|target| target.tensor.clone()).collect();
    let executor = passes.executor(&model, profile, &names, batches)?;
    // Its mapped pages would count beside the executor's copy while the rows run.
    drop(model);
    let mut ranges = ChannelRanges::new(names.iter().cloned());
    let spent = passes.run(
        "Measuring channels",
        &*executor,
        batches,
        |_| &names,
        |tensor, values| {
            if let Some(position) = values.iter().position(|value| !value.is_finite()) {
                return Ok(Look::NotFinite(position));
            }
            ranges.observe(tensor, values, widths[tensor])?;
            Ok(Look::Fine)
        },
    )?;
    timings.add(spent);
    Ok(ranges)
}

/// Runs the rows and fills an observer.
fn observe(
    passes: &Passes<'_>,
    executor: &dyn Executor,
    taps: &Taps,
    batches: &[CalibrationBatch],
    timings: &mut PassTimings,
) -> Result<Observer, PipelineError> {
    let mut observer = Observer::new(taps.histograms.iter().cloned(), taps.watched.iter().cloned());
    let every_tensor = observer.tensors();
    let histograms: Vec<String> = observer.histograms().keys().cloned().collect();
    let taps = |batch: &CalibrationBatch| -> &[String] {
        if batch.watched { &every_tensor } else { &histograms }
    };
    let spent = passes.run("Calibrating", executor, batches, taps, |tensor, values| {
        let before = nonfinite(&observer, tensor);
        observer.observe(tensor, values);
        if nonfinite(&observer, tensor) == before {
            return Ok(Look::Fine);
        }
        Ok(Look::NotFinite(values.iter().position(|value| !value.is_finite()).unwrap_or(0)))
    })?;
    timings.add(spent);
    Ok(observer)
}

fn nonfinite(observer: &Observer, tensor: &str) -> u64 {
    observer.histogram(tensor).map_or(0, Histogram::nonfinite)
        + observer.ranges().get(tensor).map_or(0, |range| range.nonfinite)
}
