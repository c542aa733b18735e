//! `diagnose`: a profile's service, measured on its evaluation rows.

use std::sync::atomic::{AtomicUsize, Ordering};

use trtforge_data::Encoded;
use trtforge_diagnose::Cost;
use trtforge_diagnose::overlap::{Control, HostClock, HostWork};
use trtforge_diagnose::service::{
    DeviceNote, NotMeasured, NotRun, ServiceDiagnosis, Setting, measure,
};
use trtforge_exec::{Executor, NamedValue};
use trtforge_report::{Precision, RunRecord};

use crate::error::PipelineError;
use crate::inputs::{ModelInputs, Wiring};
use crate::profile::{Profile, Shapes};
use crate::progress::Progress;
use crate::record::run_name;
use crate::requests::Request;
use crate::run_folder::RunFolder;
use crate::stages::shapes::flops;

/// What is asked beside the profile.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Requests.
    pub rows: usize,
    /// Rows of a batch.
    pub batch: Option<usize>,
}

/// Measures the service of a profile on the embedded executor.
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
    let executor = inputs.executor(profile, &[])?;
    let (not_run, not_measured) = beyond_this_machine(profile);
    let flops = flops(&inputs.survey);
    let setting = Setting {
        name: run_name(&profile.output),
        device: DeviceNote {
            name: "embedded CPU executor; its \"device\" is the executor's call, on the cores that the host uses too, and says nothing about a GPU".to_owned(),
            evaluated_on: executor.evaluated_on().to_string(),
            own_clock: false,
        },
        batch_rows: asked.batch.unwrap_or(profile.evaluate.batch_size),
        large_batch: largest_batch(profile),
        max_length: profile.max_length,
        worker_limit: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        flops: &flops,
        not_run,
        not_measured,
        say: &|step| progress.say(&format!("measuring  {step}")),
        control: Control::none(),
    };
    let mut found = measure(&requests, &HostClock(&executor), setting, &largest_difference)?;
    found.notes.extend(requests.broken());
    Ok(found)
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
fn beyond_this_machine(profile: &Profile) -> (Vec<NotRun>, Vec<NotMeasured>) {
    let found = trtforge_tensorrt::probe(None);
    let reason = match found.gpus.first() {
        Some(gpu) => format!("this version does not run engines on the {} yet", gpu.name),
        None => "there is no GPU here".to_owned(),
    };
    let rung = |name: &str, cost, reason: &str| NotRun {
        name: name.to_owned(),
        cost,
        reason: reason.to_owned(),
    };
    let int8 = int8_refused(profile).unwrap_or_else(|| reason.clone());
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

/// Why INT8 may not be on the ladder, whatever the machine: only an engine that its gate has let through belongs there.
fn int8_refused(profile: &Profile) -> Option<String> {
    let text = std::fs::read_to_string(profile.output.join("run.json")).ok();
    let run = text.and_then(|text| RunRecord::from_json(&text).ok());
    let verdict = run
        .as_ref()
        .and_then(|run| run.precisions.get(&Precision::Int8))
        .and_then(|int8| int8.verdict.as_ref());
    match verdict {
        None => Some("its gate has not judged it: `trtforge build` does".to_owned()),
        Some(verdict) if !verdict.lets_through() => {
            Some(format!("the gate refused it: {}", verdict.reason))
        }
        Some(_) => None,
    }
}
