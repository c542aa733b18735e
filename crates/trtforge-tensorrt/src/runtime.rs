//! Bringing a plan to life, on a machine with a GPU.

use trtforge_onnx::ValueInfo;
use trtforge_tensorrt_sys::constants::rtx::nvinfer1_LayerInformationFormat as format;
use trtforge_tensorrt_sys::{self as sys, Exception, LogSink, UniquePtr};

use crate::driver::{DriverInfo, driver_for};
use crate::error::TensorRtError;
use crate::library::Library;
use crate::log::{LogLine, Severity, cause, lines_of};
use crate::plan::{PlanError, PlanHeader};
use crate::profile::{OptimizationProfile, ShapeRange};
use crate::sdk::Sdk;
use crate::tensor::value_info;

/// An engine that TensorRT accepted.
pub struct Engine {
    raw: UniquePtr<sys::Engine>,
    sdk: Sdk,
    sink: LogSink,
}

/// Brings `plan` to life with `library`, of which any part that runs plans will do.
///
/// Asks the driver first: without one the library would return an invalid pointer and not an error.
pub fn deserialize(library: &Library, plan: &[u8]) -> Result<Engine, TensorRtError> {
    check_plan(library, plan)?;
    deserialize_with(library, plan, &driver_for("reading a plan")?)
}

/// The same with the driver asked, on the GPU of the calling thread.
pub(crate) fn deserialize_with(
    library: &Library,
    plan: &[u8],
    driver: &DriverInfo,
) -> Result<Engine, TensorRtError> {
    let sdk = library.sdk();
    let sink = LogSink::new(Severity::Info.to_raw());
    let log = || lines_of(sink.lines(), "", "");
    let mut runtime = sys::new_runtime(&library.infer, &driver.driver, &sink)
        .map_err(|exception| shim_error(sdk, &exception, log()))?;
    let engine = runtime.pin_mut().deserialize(plan);
    let engine = engine.map_err(|exception| shim_error(sdk, &exception, log()))?;
    if engine.is_null() {
        let log = log();
        let reason = cause(&log).unwrap_or("it gave no reason").to_owned();
        return Err(TensorRtError::PlanRefused { sdk, version: library.version(), reason, log });
    }
    Ok(Engine { raw: engine, sdk, sink })
}

/// Proves, from what the plan says of itself, that it is one, whole, and this library's.
pub(crate) fn check_plan(library: &Library, plan: &[u8]) -> Result<(), PlanError> {
    let header = PlanHeader::read(plan)?;
    header.check_size(plan.len() as u64)?;
    header.check_library(library)
}

fn shim_error(sdk: Sdk, exception: &Exception, log: Vec<LogLine>) -> TensorRtError {
    TensorRtError::Library { sdk, reason: exception.what().to_owned(), log }
}

impl Engine {
    /// The engine's inputs.
    pub fn inputs(&self) -> Result<Vec<ValueInfo>, TensorRtError> {
        self.tensors(true)
    }

    /// The engine's outputs.
    pub fn outputs(&self) -> Result<Vec<ValueInfo>, TensorRtError> {
        self.tensors(false)
    }

    /// The optimization profiles that the plan was built for.
    pub fn profiles(&self) -> Result<Vec<OptimizationProfile>, TensorRtError> {
        let count = self.raw.profile_count().map_err(|e| self.error(&e))?;
        let profile = |index| {
            let ranges = self.raw.profile(index).map_err(|e| self.error(&e))?;
            let range = |raw: sys::ShapeRange| {
                (raw.input, ShapeRange { min: raw.min, opt: raw.opt, max: raw.max })
            };
            Ok(OptimizationProfile { inputs: ranges.into_iter().map(range).collect() })
        };
        (0..count).map(profile).collect()
    }

    /// What TensorRT's inspector says of every layer, as JSON text.
    pub fn inspect(&self) -> Result<String, TensorRtError> {
        self.raw.inspect(format::kJSON).map_err(|e| self.error(&e))
    }

    /// Which SDK made it.
    pub fn sdk(&self) -> Sdk {
        self.sdk
    }

    /// What the library said since it was given the plan.
    pub fn log(&self) -> Vec<LogLine> {
        lines_of(self.sink.lines(), "", "")
    }

    /// For a plan built to stream its weights: lets the library choose, by the memory that is free, how many of them the
    /// GPU holds. Does nothing for every other plan.
    pub(crate) fn stream_weights(&mut self) -> Result<(), TensorRtError> {
        let streamable = self.raw.streamable_weights_bytes().map_err(|e| self.error(&e))?;
        if streamable > 0 {
            let set = self.raw.pin_mut().stream_weights();
            set.map_err(|e| self.error(&e))?;
        }
        Ok(())
    }

    /// Inputs and outputs whose values, not just shapes, steer shapes.
    pub(crate) fn shape_tensors(&self) -> Result<Vec<String>, TensorRtError> {
        let tensors = self.raw.tensors().map_err(|e| self.error(&e))?;
        Ok(tensors.into_iter().filter(|t| t.is_shape_tensor).map(|t| t.name).collect())
    }

    pub(crate) fn raw(&self) -> &sys::Engine {
        &self.raw
    }

    fn tensors(&self, inputs: bool) -> Result<Vec<ValueInfo>, TensorRtError> {
        let tensors = self.raw.tensors().map_err(|e| self.error(&e))?;
        Ok(tensors.iter().filter(|tensor| tensor.is_input == inputs).map(value_info).collect())
    }

    fn error(&self, exception: &Exception) -> TensorRtError {
        shim_error(self.sdk, exception, lines_of(self.sink.lines(), "", ""))
    }
}
