//! Bringing a plan to life, on a machine with a GPU.

use trtforge_onnx::ValueInfo;
use trtforge_tensorrt_sys::constants::rtx::nvinfer1_LayerInformationFormat as format;
use trtforge_tensorrt_sys::{self as sys, Exception, LogSink, UniquePtr};

use crate::driver::{DriverInfo, driver_for};
use crate::error::TensorRtError;
use crate::library::Library;
use crate::log::{LogLine, Severity, cause, lines_of};
use crate::profile::{OptimizationProfile, ShapeRange};
use crate::sdk::Sdk;
use crate::tensor::value_info;

/// Every plan, of either SDK, has these letters after its first byte (`ftrt`, `vtrt`, …).
const MAGIC: &[u8] = b"trt";

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
    looks_like_a_plan(plan)?;
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

/// Refuses what is certainly none, before anything is loaded.
pub(crate) fn looks_like_a_plan(plan: &[u8]) -> Result<(), TensorRtError> {
    let bad = |reason: &str| Err(TensorRtError::NotAPlan { reason: reason.to_owned() });
    match plan.get(1..4) {
        None if plan.is_empty() => bad("it is empty"),
        Some(MAGIC) => Ok(()),
        _ => bad("it does not begin as one"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plan_is_told_before_anything_is_loaded() {
        let cases: [(&[u8], &str); 4] = [
            (b"", "not a TensorRT plan: it is empty"),
            (b"ft", "not a TensorRT plan: it does not begin as one"),
            (b"\x08\x08\x12\x07", "not a TensorRT plan: it does not begin as one"),
            (b"trtf", "not a TensorRT plan: it does not begin as one"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(looks_like_a_plan(bytes).unwrap_err().to_string(), expected, "{bytes:?}");
        }
        assert!(looks_like_a_plan(b"vtrt").is_ok());
    }
}
