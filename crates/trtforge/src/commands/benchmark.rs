//! `trtforge benchmark`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions};
use trtforge_report::{Benchmark, BenchmarkDevice, Precision, RunRecord, render_benchmark};
use trtforge_tensorrt::{Choice, DriverInfo, choose, driver};

use super::{print_for, read_profile, warn};
use crate::cli::BenchmarkArgs;
use crate::error::PipelineError;
use crate::inputs::{EvaluationRows, InputError, ModelInputs};
use crate::pipeline::{candidate, note};
use crate::profile::Profile;
use crate::progress::Progress;
use crate::record;
use crate::run_folder::RunFolder;
use crate::stages::benchmark::{Asked, Candidate, Model, benchmark as measure, usual_shapes};
use crate::stages::shapes;

/// Times the engines of a build, and puts the figures into its record.
pub fn benchmark(args: &BenchmarkArgs) -> Result<(), PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    // Without a GPU nothing else need be right: that is said first, with exit code 3.
    let driver = if args.reference { None } else { Some(driver()?) };
    let inputs = ModelInputs::open(&profile)?;
    let rows = inputs.evaluation_rows(&profile.evaluation)?;
    let run = if args.plan.is_empty() {
        let given = args.run.as_deref().unwrap_or(&profile.output);
        let run = RunFolder::open(given)?;
        let recorded = run.record.inputs.model.as_ref();
        run.check_input("model", recorded, &profile.model.onnx, &inputs.fingerprint)?;
        Some(run)
    } else {
        None
    };
    let (candidates, device) = match (&run, &driver) {
        (Some(run), None) => graphs(run, &profile, &inputs)?,
        (Some(run), Some(driver)) => engines(&plans_of(run)?, &profile, driver)?,
        (None, Some(driver)) => engines(&named(&args.plan)?, &profile, driver)?,
        (None, None) => unreachable!("clap refuses --reference with --plan"),
    };
    let found = measured(args, &profile, (&inputs, &rows), &candidates, device)?;
    warn(&args.profile, &found.notes);
    if let Some(run) = run.filter(|_| !args.reference) {
        let record = RunRecord { benchmark: Some(found.clone()), ..run.record };
        record::write(&record, &run.path)?;
    }
    Ok(print_for(&args.profile, &json!(found), &render_benchmark(&found))?)
}

fn measured(
    args: &BenchmarkArgs,
    profile: &Profile,
    (inputs, rows): (&ModelInputs, &EvaluationRows),
    candidates: &[Candidate],
    device: BenchmarkDevice,
) -> Result<Benchmark, PipelineError> {
    let section = &profile.benchmark;
    let mut limits = section.limits();
    if let Some(ms) = args.duration_ms {
        limits.duration = Duration::from_millis(ms as u64);
    }
    let planned = || {
        let planned =
            shapes::plan_lengths(profile, &shapes::flops(&inputs.survey), &rows.runs.lengths());
        usual_shapes(&planned.profiles)
    };
    let shapes = match (&args.shape[..], &section.shapes[..]) {
        ([], []) => planned(),
        ([], given) => given.to_vec(),
        (asked, _) => asked.to_vec(),
    };
    let asked = Asked {
        shapes,
        limits,
        cuda_graph: section.cuda_graph,
        confidence: profile.gate.confidence,
        rows: &rows.runs.rows,
        rows_from: data_name(profile),
        wiring: &inputs.wiring,
        device,
        progress: Progress::new(args.profile.quiet),
    };
    measure(candidates, &asked)
}

/// The evaluation file as an artifact may name it.
pub fn data_name(profile: &Profile) -> String {
    let name = profile.evaluation.path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The plans of a build, refused ones too: what is slow is worth knowing.
fn plans_of(run: &RunFolder) -> Result<Vec<(Precision, PathBuf)>, PipelineError> {
    let plan = |(precision, one): (&Precision, &trtforge_report::PrecisionRecord)| {
        Some((*precision, run.path.join(one.plan.as_ref()?)))
    };
    let plans: Vec<_> = run.record.precisions.iter().filter_map(plan).collect();
    if plans.is_empty() {
        return Err(InputError::NoPlans { run: run.path.display().to_string() }.into());
    }
    Ok(plans)
}

/// The precision of a plan that stands alone, by the word in its name that `trtforge build` puts there.
fn named(plans: &[PathBuf]) -> Result<Vec<(Precision, PathBuf)>, PipelineError> {
    let one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of = [Precision::Fp32, Precision::Fp16, Precision::Int8]
            .into_iter()
            .find(|precision| name.split('.').any(|part| part == precision.key()));
        let precision =
            of.ok_or_else(|| InputError::PlanName { path: path.display().to_string() })?;
        Ok((precision, path.clone()))
    };
    plans.iter().map(one).collect()
}

/// The engines on the GPU.
fn engines(
    plans: &[(Precision, PathBuf)],
    profile: &Profile,
    driver: &DriverInfo,
) -> Result<(Vec<Candidate>, BenchmarkDevice), PipelineError> {
    let choice = choose(profile.engine.backend, None)?;
    let Choice::Sdk { library, .. } = &choice else {
        return Err(InputError::NoBackend.into());
    };
    let one = |(precision, path): &(Precision, PathBuf)| candidate(library, *precision, path);
    let candidates = plans.iter().map(one).collect::<Result<_, _>>()?;
    Ok((candidates, note(library, driver)))
}

/// The graphs of a build on the embedded executor.
fn graphs(
    run: &RunFolder,
    profile: &Profile,
    inputs: &ModelInputs,
) -> Result<(Vec<Candidate>, BenchmarkDevice), PipelineError> {
    let mut candidates = vec![Candidate {
        precision: Precision::Fp32,
        artifact: inputs.fingerprint.clone(),
        model: Model::Graph(Box::new(inputs.executor(profile, &[])?)),
    }];
    for (precision, one) in &run.record.precisions {
        let Some(onnx) = one.onnx.as_ref().filter(|_| *precision != Precision::Fp32) else {
            continue;
        };
        candidates.push(graph(*precision, &run.path.join(onnx))?);
    }
    let name = "embedded CPU executor (reference)".to_owned();
    Ok((candidates, BenchmarkDevice { name, ..BenchmarkDevice::default() }))
}

fn graph(precision: Precision, path: &Path) -> Result<Candidate, PipelineError> {
    let model = trtforge_onnx::Model::open(path)?;
    let artifact = model.fingerprint().to_hex().to_string();
    drop(model);
    let executor = EmbeddedExecutor::load(path, EmbeddedOptions::default())?;
    Ok(Candidate { precision, artifact, model: Model::Graph(Box::new(executor)) })
}
