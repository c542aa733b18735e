//! What runs the rows of a calibration: the embedded executor, or an FP32 engine on the GPU that shows the same tensors.

use std::cell::RefCell;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use tempfile::TempDir;
use trtforge_exec::Executor;
use trtforge_onnx::Model;
use trtforge_tensorrt::{
    BuildOptions, Choice, DeviceExecutor, DeviceOptions, DriverInfo, ErrorKind, Flag, Library,
    OptimizationProfile, TensorRtError, build, choose, driver, tapped,
};

use crate::error::PipelineError;
use crate::inputs::{EncodedRows, ModelInputs};
use crate::interrupt;
use crate::profile::{CalibrationDevice, Profile};
use crate::progress::Progress;
use crate::stages::sampling::CalibrationBatch;
use crate::store::StoreError;

/// What runs the rows of one calibration.
pub enum Runner {
    /// The embedded executor.
    Cpu,
    /// FP32 engines on the GPU.
    Gpu(Box<Gpu>),
}

/// A GPU with the library that builds and runs engines for it.
pub struct Gpu {
    library: Library,
    driver: DriverInfo,
    /// Whether the CPU may take over when an engine cannot be had: nobody asked for the GPU by name.
    may_fall_back: bool,
    /// Why it did.
    failure: RefCell<Option<String>>,
}

/// The tensors to show and the batches that will come.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    /// Tensors.
    pub taps: &'w [String],
    /// Batches.
    pub batches: &'w [CalibrationBatch],
}

impl Runner {
    /// As the profile says.
    pub fn choose(profile: &Profile) -> Result<Runner, PipelineError> {
        match profile.calibrate.device {
            CalibrationDevice::Cpu => Ok(Runner::Cpu),
            CalibrationDevice::Gpu => Ok(Gpu::find(profile, false)?.into()),
            CalibrationDevice::Auto => {
                Ok(Gpu::find(profile, true).map_or(Runner::Cpu, Runner::from))
            }
        }
    }

    /// For a shard: the parts of several machines must come from what the profile names, so `auto` is the CPU.
    pub fn for_shard(profile: &Profile) -> Result<Runner, PipelineError> {
        match profile.calibrate.device {
            CalibrationDevice::Auto => Ok(Runner::Cpu),
            CalibrationDevice::Cpu | CalibrationDevice::Gpu => Runner::choose(profile),
        }
    }

    /// What ran the rows, for the table; none is the CPU.
    pub fn words(&self) -> Option<String> {
        match self {
            Runner::Gpu(gpu) if gpu.failure.borrow().is_none() => Some(gpu.to_string()),
            _ => None,
        }
    }

    /// The model, ready to show the tensors wanted.
    pub fn executor(
        &self,
        (inputs, rows): (&ModelInputs, &EncodedRows),
        model: &Model,
        profile: &Profile,
        wanted: Wanted<'_>,
        progress: Progress,
    ) -> Result<Box<dyn Executor>, PipelineError> {
        if let Runner::Gpu(gpu) = self
            && gpu.failure.borrow().is_none()
        {
            match gpu.executor((inputs, rows), model, wanted, progress) {
                Ok(executor) => return Ok(Box::new(executor)),
                Err(PipelineError::TensorRt(error))
                    if gpu.may_fall_back && error.kind() != ErrorKind::Cancelled =>
                {
                    progress.say(&format!(
                        "calibration runs on the CPU: no FP32 engine runs on {}: {error}",
                        gpu.driver.gpus[0].name
                    ));
                    gpu.failure.replace(Some(error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Box::new(inputs.executor_of(model, profile, wanted.taps)?))
    }
}

impl From<Gpu> for Runner {
    fn from(gpu: Gpu) -> Runner {
        Runner::Gpu(Box::new(gpu))
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gpu = &self.driver.gpus[0];
        write!(f, "{} ({}), ", gpu.name, gpu.compute_capability)?;
        write!(f, "{} {}", self.library.sdk(), self.library.version())
    }
}

impl Gpu {
    fn find(profile: &Profile, may_fall_back: bool) -> Result<Gpu, TensorRtError> {
        let driver = driver()?;
        let Choice::Sdk { library, .. } = choose(profile.engine.backend, None)? else {
            return Err(TensorRtError::BackendUnavailable {
                wanted: "none",
                missing: vec!["`calibrate.device: gpu` needs one that runs engines".to_owned()],
            });
        };
        Ok(Gpu { library, driver, may_fall_back, failure: RefCell::default() })
    }

    /// Builds the FP32 engine of a model with further outputs, and brings it to life. The graph goes through a folder of its
    /// own, which is gone afterwards.
    fn executor(
        &self,
        (inputs, rows): (&ModelInputs, &EncodedRows),
        model: &Model,
        wanted: Wanted<'_>,
        progress: Progress,
    ) -> Result<DeviceExecutor, PipelineError> {
        let folder = TempDir::new()
            .map_err(|error| StoreError::io("write", &std::env::temp_dir())(error))?;
        let onnx = folder.path().join("calibration.onnx");
        tapped(model, wanted.taps)?.save(&onnx)?;
        let stage = progress.stage("Building FP32 engine", 1, "engines");
        let profiles = [shapes(inputs, rows, wanted.batches)];
        let go_on = |_: trtforge_tensorrt::Progress<'_>| {
            if interrupt::asked().load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let plan = build(&self.library, &onnx, &profiles, &exact(), &go_on)?;
        stage.advance(1);
        let hidden: Vec<String> = {
            let own = model.graph().outputs();
            let is_own = |tap: &&String| own.iter().any(|output| output.name == **tap);
            wanted.taps.iter().filter(|tap| !is_own(tap)).cloned().collect()
        };
        let options = DeviceOptions::default();
        Ok(DeviceExecutor::open_tapped(&self.library, plan.bytes(), &options, &hidden)?)
    }
}

/// FP32 as it is: the library multiplies in TF32, with ten bits of mantissa, unless told not to.
fn exact() -> BuildOptions {
    BuildOptions { flags: [(Flag::Tf32, false)].into(), ..BuildOptions::default() }
}

/// One profile that takes every batch: tuned for the largest, since that is most of the work.
fn shapes(
    inputs: &ModelInputs,
    rows: &EncodedRows,
    batches: &[CalibrationBatch],
) -> OptimizationProfile {
    // A lone row runs twice; see `Passes`.
    let shape = |batch: &CalibrationBatch| {
        let length = batch.rows.first().map_or(1, |&row| rows.rows[row].ids.len());
        [batch.rows.len().max(2) as i64, length as i64]
    };
    let shapes: Vec<[i64; 2]> = batches.iter().map(shape).collect();
    let most = |axis: usize| shapes.iter().map(|shape| shape[axis]).max().unwrap_or(2);
    let least = |axis: usize| shapes.iter().map(|shape| shape[axis]).min().unwrap_or(1);
    let largest = shapes.iter().copied().max_by_key(|[rows, length]| rows * length);
    let max = [most(0), most(1)];
    OptimizationProfile::uniform(
        &inputs.graph_inputs,
        [least(0), least(1)],
        largest.unwrap_or(max),
        max,
    )
}
