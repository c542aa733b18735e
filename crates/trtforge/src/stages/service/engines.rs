//! The engines of a service's diagnosis: on a GPU the loops run through them.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trtforge_diagnose::benchmark::{CopyTest, LaunchTest, Limits, copy_test, launch_test};
use trtforge_diagnose::overlap::{Device, DeviceRun, EventTimes};
use trtforge_exec::{ExecError, NamedValue};
use trtforge_report::{Precision, RunRecord};
use trtforge_tensorrt::{
    BuildOptions, Choice, DeviceExecutor, DeviceOptions, Library, RunHow, build, choose,
};

use crate::error::PipelineError;
use crate::inputs::ModelInputs;
use crate::profile::Profile;
use crate::stages::benchmark::Runner;
use crate::stages::shapes;
use crate::store::StoreError;

/// For single questions: long enough for a median, short enough to be asked in passing.
const LIMITS: Limits = Limits {
    warmup: Duration::from_millis(100),
    duration: Duration::from_millis(400),
    max_iterations: 2000,
    rounds: 4,
};

/// An engine as the loops see it.
pub struct EngineDevice<'e> {
    engine: &'e DeviceExecutor,
    graph: bool,
}

impl Device for EngineDevice<'_> {
    fn run(&self, inputs: &[NamedValue]) -> Result<DeviceRun, ExecError> {
        let told = |error: trtforge_tensorrt::TensorRtError| ExecError::Device {
            message: error.to_string(),
            help: miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default(),
        };
        let mut staged = self.engine.stage(inputs).map_err(told)?;
        let how = RunHow { graph: self.graph, ..RunHow::default() };
        let times = staged.run(how).map_err(told)?;
        let us = |us: f64| Duration::from_secs_f64(us.max(0.0) / 1e6);
        let events = EventTimes {
            copy_in: us(times.copy_in_us),
            compute: us(times.compute_us),
            copy_out: us(times.copy_out_us),
        };
        Ok(DeviceRun { outputs: staged.outputs().map_err(told)?, events: Some(events) })
    }
}

/// An engine, or why there is none.
type Found = Result<DeviceExecutor, String>;

/// What this machine's GPU can run of a profile.
pub struct Engines {
    fp32: Found,
    fp16: Found,
    graph: Found,
    int8: Found,
    /// Lengths that their optimization profiles are for, ascending.
    pub lengths: Vec<usize>,
    /// Rows of the largest batch.
    pub most_rows: usize,
}

impl Engines {
    /// The engines of the build in the profile's output folder, and an FP32 engine built now; none without a GPU and a library.
    pub fn open(profile: &Profile, inputs: &ModelInputs) -> Result<Option<Self>, PipelineError> {
        if trtforge_tensorrt::driver().is_err() {
            return Ok(None);
        }
        let Choice::Sdk { library, .. } = choose(profile.engine.backend, None)? else {
            return Ok(None);
        };
        let lengths = inputs.evaluation_rows(&profile.evaluation)?.runs.lengths();
        let planned = shapes::plan_lengths(profile, &shapes::flops(&inputs.survey), &lengths);
        let profiles = shapes::optimization_profiles(&planned, &inputs.wiring);
        let fp32 =
            build(&library, &profile.model.onnx, &profiles, &BuildOptions::default(), &|_| {
                ControlFlow::Continue(())
            })
            .and_then(|plan| {
                DeviceExecutor::open(&library, plan.bytes(), &DeviceOptions::default())
            })
            .map_err(|error| error.to_string());
        let graphs = DeviceOptions { cuda_graphs: true, ..DeviceOptions::default() };
        let fp16 = plan_of(profile, Precision::Fp16);
        let mut bounds: Vec<usize> = planned.profiles.iter().map(|shape| shape.max[1]).collect();
        bounds.extend(planned.profiles.iter().map(|shape| shape.opt[1]));
        bounds.sort_unstable();
        bounds.dedup();
        Ok(Some(Self {
            fp32,
            graph: open(&library, &fp16, graphs),
            fp16: open(&library, &fp16, DeviceOptions::default()),
            int8: open(&library, &plan_of(profile, Precision::Int8), graphs),
            lengths: bounds,
            most_rows: planned.profiles.iter().map(|shape| shape.max[0]).min().unwrap_or(1),
        }))
    }

    /// What runs the loops themselves: FP32, so that what is cheaper than another precision is seen by itself; FP16 where that cannot be.
    pub fn base(&self) -> Option<(&DeviceExecutor, &'static str)> {
        let fp32 = self.fp32.as_ref().ok().map(|engine| (engine, "FP32"));
        fp32.or_else(|| self.fp16.as_ref().ok().map(|engine| (engine, "FP16")))
    }

    /// Why nothing runs the loops.
    pub fn problem(&self) -> Option<&str> {
        self.fp32.as_ref().err().map(String::as_str)
    }

    /// What answers questions about launches and copies: the engine that a service would run.
    pub fn best(&self) -> Option<&DeviceExecutor> {
        self.fp16.as_ref().ok().or_else(|| self.base().map(|(engine, _)| engine))
    }

    /// The engines of the rungs above the loop: FP16, FP16 from a CUDA graph, INT8 from one.
    pub fn rungs(&self) -> [Result<EngineDevice<'_>, String>; 3] {
        [rung(&self.fp16, false), rung(&self.graph, true), rung(&self.int8, true)]
    }
}

fn rung(found: &Found, graph: bool) -> Result<EngineDevice<'_>, String> {
    match found {
        Ok(engine) => Ok(EngineDevice { engine, graph }),
        Err(reason) => Err(reason.clone()),
    }
}

impl<'e> EngineDevice<'e> {
    /// Launched kernel by kernel.
    pub fn plain(engine: &'e DeviceExecutor) -> Self {
        Self { engine, graph: false }
    }
}

/// Launching against computing, and pageable against page-locked memory, at these inputs.
///
/// - `batches`: rows, tokens and the inputs of each.
pub fn questions(
    engine: &DeviceExecutor,
    batches: &[(usize, usize, Vec<NamedValue>)],
) -> Result<(Vec<LaunchTest>, Vec<CopyTest>), PipelineError> {
    let (mut launches, mut copies) = (Vec::new(), Vec::new());
    for (rows, length, inputs) in batches {
        let mut runner = Runner::of_engine(engine, inputs)?;
        launches.extend(launch_test(&mut runner, *rows, *length, &LIMITS)?);
        copies.extend(copy_test(&mut runner, *rows, *length, &LIMITS)?);
    }
    Ok((launches, copies))
}

/// The plan of the build in the profile's output folder; INT8's only if its gate has let it through.
fn plan_of(profile: &Profile, precision: Precision) -> Result<PathBuf, String> {
    if precision == Precision::Int8 {
        int8_refused(profile)?;
    }
    let run = run_of(profile).ok_or_else(|| "there is no build: `trtforge build`".to_owned())?;
    let plan = run.precisions.get(&precision).and_then(|one| one.plan.clone());
    let plan = plan.ok_or_else(|| format!("the build has no {} engine", precision.name()))?;
    Ok(profile.output.join(plan))
}

fn open(library: &Library, plan: &Result<PathBuf, String>, options: DeviceOptions) -> Found {
    let bytes = plan.clone().and_then(|path| read(&path))?;
    DeviceExecutor::open(library, &bytes, &options).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| StoreError::io("read", path)(error).to_string())
}

fn run_of(profile: &Profile) -> Option<RunRecord> {
    let text = fs::read_to_string(profile.output.join("run.json")).ok()?;
    RunRecord::from_json(&text).ok()
}

/// Why INT8 may not be on the ladder, whatever the machine: only an engine that its gate has let through belongs there.
pub fn int8_refused(profile: &Profile) -> Result<(), String> {
    let run = run_of(profile);
    let verdict = run
        .as_ref()
        .and_then(|run| run.precisions.get(&Precision::Int8))
        .and_then(|int8| int8.verdict.as_ref());
    match verdict {
        None => Err("its gate has not judged it: `trtforge build` does".to_owned()),
        Some(verdict) if !verdict.lets_through() => {
            Err(format!("the gate refused it: {}", verdict.reason))
        }
        Some(_) => Ok(()),
    }
}
