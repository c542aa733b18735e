//! `diagnose`: a profile's service, measured on its evaluation rows.

mod engines;

use std::ffi::OsStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use trtforge_data::Encoded;
use trtforge_diagnose::Cost;
use trtforge_diagnose::counters::{self, Counters, Wanted};
use trtforge_diagnose::overlap::{
    BatchOptions, Control, Device, HostClock, HostWork, OverlapOptions, PadTo,
};
use trtforge_diagnose::service::{
    DeviceNote, GpuFigures, NextRung, NotMeasured, ServiceDiagnosis, Setting, activity, measure,
};
use trtforge_exec::{Executor, NamedValue};

use crate::error::PipelineError;
use crate::inputs::{ModelInputs, Wiring};
use crate::profile::{Profile, Shapes};
use crate::progress::Progress;
use crate::record::run_name;
use crate::requests::Request;
use crate::run_folder::RunFolder;
use crate::stages::shapes::flops;
use engines::{EngineDevice, Engines, int8_refused, questions};

/// What is asked beside the profile.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Requests.
    pub rows: usize,
    /// Rows of a batch.
    pub batch: Option<usize>,
}

/// Measures the service of a profile: on its engines where there is a GPU, else on the embedded executor.
///
/// - `run`: where the result is to be recorded; refused when it is of another model or other data.
pub fn diagnose(
    profile: &Profile,
    asked: Asked,
    run: Option<&RunFolder>,
    progress: Progress,
) -> Result<ServiceDiagnosis, PipelineError> {
    let inputs = ModelInputs::open(profile)?;
    if let Some(run) = run {
        same_inputs(run, profile, &inputs)?;
    }
    let requests = Requests::open(&inputs, profile, asked.rows)?;
    match Engines::open(profile, &inputs)? {
        Some(engines) if engines.base().is_some() => {
            on_gpu(profile, asked, &requests, &engines, progress)
        }
        engines => on_cpu(profile, asked, &requests, engines.as_ref(), progress),
    }
}

/// What a loop needs to know whatever runs it.
fn setting<'s>(
    profile: &Profile,
    asked: Asked,
    device: DeviceNote,
    flops: &'s dyn Fn(usize) -> f64,
    say: &'s dyn Fn(&str),
) -> Setting<'s> {
    Setting {
        name: run_name(&profile.output),
        device,
        batch_rows: asked.batch.unwrap_or(profile.evaluate.batch_size),
        large_batch: largest_batch(profile),
        max_length: profile.max_length,
        worker_limit: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        flops,
        buckets: Vec::new(),
        rungs: Vec::new(),
        not_measured: Vec::new(),
        say,
        control: Control::none(),
    }
}

/// On the embedded executor.
///
/// - `engines`: of a GPU that runs none of them.
fn on_cpu(
    profile: &Profile,
    asked: Asked,
    requests: &Requests<'_>,
    engines: Option<&Engines>,
    progress: Progress,
) -> Result<ServiceDiagnosis, PipelineError> {
    let executor = requests.inputs.executor(profile, &[])?;
    let device = DeviceNote {
        name: "embedded CPU executor; its \"device\" is the executor's call, on the cores that the host uses too, and says nothing about a GPU".to_owned(),
        evaluated_on: executor.evaluated_on().to_string(),
        own_clock: false,
    };
    let flops = flops(&requests.inputs.survey);
    let say = |step: &str| progress.say(&format!("measuring  {step}"));
    let (rungs, not_measured) = beyond_this_machine(profile, engines);
    let setting = Setting { rungs, not_measured, ..setting(profile, asked, device, &flops, &say) };
    let mut found = measure(requests, &HostClock(&executor), setting, &largest_difference)?;
    found.notes.extend(requests.broken());
    Ok(found)
}

/// On engines, with what only a GPU can tell.
fn on_gpu(
    profile: &Profile,
    asked: Asked,
    requests: &Requests<'_>,
    engines: &Engines,
    progress: Progress,
) -> Result<ServiceDiagnosis, PipelineError> {
    let Some((engine, precision)) = engines.base() else { unreachable!("the caller has looked") };
    let gpu = engine.gpu();
    let device = DeviceNote {
        name: format!("{} ({}), {precision} engine", gpu.name, gpu.compute_capability),
        evaluated_on: engine.evaluated_on().to_string(),
        own_clock: true,
    };
    let flops = flops(&requests.inputs.survey);
    let say = |step: &str| progress.say(&format!("measuring  {step}"));
    let names = [
        ("+ FP16 engine", Cost::NearLossless),
        ("+ CUDA graph", Cost::FreeAndSafe),
        ("+ INT8 engine", Cost::NeedsAccuracyGate),
    ];
    let devices = engines.rungs();
    let rungs = names.into_iter().zip(&devices).map(|((name, cost), device)| NextRung {
        name: name.to_owned(),
        cost,
        device: match device {
            Ok(device) => Ok(device as &dyn Device),
            Err(reason) => Err(reason.clone()),
        },
    });
    let mut setting = setting(profile, asked, device, &flops, &say);
    setting.rungs = rungs.collect();
    setting.batch_rows = setting.batch_rows.min(engines.most_rows);
    setting.large_batch = setting.large_batch.min(engines.most_rows);
    setting.max_length = setting.max_length.min(*engines.lengths.last().unwrap_or(&usize::MAX));
    setting.buckets.clone_from(&engines.lengths);
    let (rows, length) = (setting.batch_rows, setting.max_length);
    let base = EngineDevice::plain(engine);
    let mut found = measure(requests, &base, setting, &largest_difference)?;
    found.notes.extend(requests.broken());
    say("what the GPU itself says");
    let figures = gpu_figures(requests, engines, (&base, rows, length), &found)?;
    Ok(found.with_gpu(figures))
}

fn gpu_figures(
    requests: &Requests<'_>,
    engines: &Engines,
    (base, rows, length): (&EngineDevice<'_>, usize, usize),
    found: &ServiceDiagnosis,
) -> Result<GpuFigures, PipelineError> {
    let mut figures = GpuFigures::default();
    let Some(best) = engines.best() else { return Ok(figures) };
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let wanted = Wanted { name: &best.gpu().name, ordinal: 0, visible: visible.as_deref() };
    let counters = Counters::open(OsStr::new(counters::LIBRARY), &wanted);
    figures.before = counters.as_ref().ok().map(Counters::state);
    let batches = [1, 32]
        .map(|rows: usize| rows.min(engines.most_rows).min(requests.rows()))
        .map(|rows| (rows, length, requests.cached(rows, length)));
    let mut asked = Vec::new();
    for (rows, length, inputs) in batches {
        asked.push((rows, length, inputs?));
    }
    asked.dedup_by_key(|(rows, ..)| *rows);
    (figures.launches, figures.copies) = questions(best, &asked)?;
    match &counters {
        Ok(counters) => {
            let plain = BatchOptions { rows, window: rows, padding: PadTo::Fixed(length) };
            let buckets = BatchOptions {
                rows,
                window: rows.saturating_mul(16),
                padding: PadTo::Buckets(engines.lengths.clone()),
            };
            let workers = found.model.workers_used;
            let options = |batches, workers| OverlapOptions { batches, workers, record: false };
            let one = |name: &str, options: &OverlapOptions| {
                activity(counters, name, requests, base, options).map_err(PipelineError::from)
            };
            figures.activity = vec![
                one("blocking, padded to max", &options(plain, 0))?,
                one("overlapped, in buckets", &options(buckets, workers))?,
            ];
        }
        Err(error) => figures.problem = Some(error.to_string()),
    }
    figures.after = counters.as_ref().ok().map(Counters::state);
    Ok(figures)
}

/// Proves that a run is of the profile's model and evaluation rows.
fn same_inputs(
    run: &RunFolder,
    profile: &Profile,
    inputs: &ModelInputs,
) -> Result<(), PipelineError> {
    let recorded = &run.record.inputs;
    run.check_input("model", recorded.model.as_ref(), &profile.model.onnx, &inputs.fingerprint)?;
    if recorded.evaluation.is_some() {
        let data = &profile.evaluation;
        let found = inputs.evaluation_rows(data)?.runs.fingerprint;
        run.check_input("evaluation data", recorded.evaluation.as_ref(), &data.path, &found)?;
    }
    Ok(())
}

/// The largest batch that engines are built for.
fn largest_batch(profile: &Profile) -> usize {
    match &profile.shapes {
        Shapes::FromLengths { max_batch, .. } => *max_batch,
        Shapes::Explicit(shapes) => shapes.iter().map(|shape| shape.max[0]).max().unwrap_or(1),
    }
}

/// What a profile's evaluation rows ask, through its tokenizer to its model and back.
struct Requests<'i> {
    inputs: &'i ModelInputs,
    rows: Vec<Request>,
    /// Answers with a value that is no number, over all loops.
    broken: AtomicUsize,
    answers: AtomicUsize,
}

impl<'i> Requests<'i> {
    fn open(
        inputs: &'i ModelInputs,
        profile: &Profile,
        rows: usize,
    ) -> Result<Self, PipelineError> {
        let (task, data) = (&profile.task, &profile.evaluation);
        let rows = Request::of_file(task, data, &inputs.encoder, rows)?;
        Ok(Self { inputs, rows, broken: AtomicUsize::new(0), answers: AtomicUsize::new(0) })
    }

    /// A note where the model answers with what is no number: its times are those of a model that nobody can use.
    fn broken(&self) -> Option<String> {
        let [broken, all] =
            [&self.broken, &self.answers].map(|count| count.load(Ordering::Relaxed));
        (broken > 0).then(|| {
            format!(
                "{broken} of {all} answers hold NaN or infinite values: the times are right, the model is not; `trtforge evaluate` counts its rows"
            )
        })
    }

    /// The first rows as one batch, padded.
    fn cached(&self, rows: usize, length: usize) -> Result<Vec<NamedValue>, PipelineError> {
        let encode = |row: &Request| row.encode(&self.inputs.encoder);
        let encoded = self.rows.iter().take(rows).map(encode).collect::<Result<Vec<_>, _>>()?;
        let rows: Vec<&Encoded> = encoded.iter().collect();
        Ok(self.wiring().bind(&rows, length))
    }

    fn wiring(&self) -> &Wiring {
        &self.inputs.wiring
    }
}

impl HostWork for Requests<'_> {
    type Row = Encoded;
    type Answer = Vec<f32>;
    type Error = PipelineError;

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn tokenize(&self, row: usize) -> Result<Encoded, PipelineError> {
        self.rows[row].encode(&self.inputs.encoder)
    }

    fn length(&self, row: &Encoded) -> usize {
        row.ids.len()
    }

    fn collate(&self, rows: &[&Encoded], length: usize) -> Result<Vec<NamedValue>, PipelineError> {
        Ok(self.wiring().bind(rows, length))
    }

    fn answer(
        &self,
        outputs: Vec<NamedValue>,
        rows: &[&Encoded],
        length: usize,
    ) -> Result<Vec<Vec<f32>>, PipelineError> {
        let answers = self.wiring().readout.read(&outputs, rows, length)?;
        let broken = answers.iter().filter(|values| values.iter().any(|value| !value.is_finite()));
        self.broken.fetch_add(broken.count(), Ordering::Relaxed);
        self.answers.fetch_add(answers.len(), Ordering::Relaxed);
        Ok(answers)
    }
}

/// Of all logits; NaN on one side only is infinite.
fn largest_difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> f64 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    let difference = |(a, b): (&f32, &f32)| match (a.is_nan(), b.is_nan()) {
        (true, true) => 0.0,
        (false, false) if a == b => 0.0,
        (false, false) => f64::from((a - b).abs()),
        _ => f64::INFINITY,
    };
    pairs.map(difference).fold(0.0, f64::max)
}

/// What needs a GPU, with the reason why it is not measured.
///
/// - `engines`: of a GPU that runs none of them.
fn beyond_this_machine(
    profile: &Profile,
    engines: Option<&Engines>,
) -> (Vec<NextRung<'static>>, Vec<NotMeasured>) {
    let reason = match engines.and_then(Engines::problem) {
        Some(problem) => format!("no engine runs on the GPU here: {problem}"),
        None => "there is no GPU here".to_owned(),
    };
    let rung = |name: &str, cost, reason: &str| NextRung {
        name: name.to_owned(),
        cost,
        device: Err(reason.to_owned()),
    };
    let int8 = int8_refused(profile).err().unwrap_or_else(|| reason.clone());
    let rungs = vec![
        rung("+ FP16 engine", Cost::NearLossless, &reason),
        rung("+ CUDA graph", Cost::FreeAndSafe, &reason),
        rung("+ INT8 engine", Cost::NeedsAccuracyGate, &int8),
    ];
    let figures = [
        "SM activity, occupancy, memory and copy engines",
        "launch-bound test (enqueueing against compute, with and without a CUDA graph)",
        "pageable against pinned copies",
    ];
    let figure = |what: &str| NotMeasured { what: what.to_owned(), reason: reason.clone() };
    (rungs, figures.into_iter().map(figure).collect())
}
