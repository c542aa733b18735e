//! One build: the shim's builder, and all that its errors need to say.

use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use trtforge_onnx::{Model, ValueInfo};
use trtforge_tensorrt_sys::{
    self as sys, Builder, Exception, LogSink, Monitor, PlanSink, RawProgress as Progress, UniquePtr,
};

use crate::error::TensorRtError;
use crate::fault::ParserFault;
use crate::library::Library;
use crate::log::{LogLine, cause, is_noise, lines_of};
use crate::options::BuildOptions;
use crate::profile::{OptimizationProfile, ProfileError, ShapeRange, validate};
use crate::sdk::Sdk;
use crate::tensor::value_info;

/// One builder and all that its errors need to say.
pub(crate) struct Session {
    sdk: Sdk,
    path: PathBuf,
    name: String,
    /// To name nodes in errors; dropped once parsed, so that its pages are free for the build.
    model: Option<Model>,
    sink: LogSink,
    builder: UniquePtr<Builder>,
}

impl Session {
    pub(crate) fn open(
        library: &Library,
        onnx: &Path,
        model: Model,
        options: &BuildOptions,
    ) -> Result<Session, TensorRtError> {
        let sdk = library.sdk();
        let sink = LogSink::new(options.keep_log.to_raw());
        let parser = library.parser.as_ref().ok_or_else(|| TensorRtError::Library {
            sdk,
            reason: format!("the {} cannot build plans", library.part()),
            log: Vec::new(),
        })?;
        let name = onnx.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let builder = sys::new_builder(&library.infer, parser, &sink).map_err(|exception| {
            let log = lines_of(sink.lines(), "", "");
            TensorRtError::Library { sdk, reason: exception.what().to_owned(), log }
        })?;
        Ok(Session { sdk, path: onnx.to_owned(), name, model: Some(model), sink, builder })
    }

    pub(crate) fn sdk(&self) -> Sdk {
        self.sdk
    }

    pub(crate) fn log(&self) -> Vec<LogLine> {
        lines_of(self.sink.lines(), &self.path.to_string_lossy(), &self.name)
    }

    fn shim_error(&self, exception: &Exception) -> TensorRtError {
        let log = self.log();
        let reason = match cause(&log) {
            Some(cause) => format!("{}: {cause}", exception.what()),
            None => exception.what().to_owned(),
        };
        TensorRtError::Library { sdk: self.sdk, reason, log }
    }

    pub(crate) fn try_shim<T>(
        &mut self,
        call: impl FnOnce(Pin<&mut Builder>) -> Result<T, Exception>,
    ) -> Result<T, TensorRtError> {
        call(self.builder.pin_mut()).map_err(|exception| self.shim_error(&exception))
    }

    pub(crate) fn tensors(
        &mut self,
        list: impl FnOnce(&Builder) -> Result<Vec<sys::TensorInfo>, Exception>,
    ) -> Result<Vec<ValueInfo>, TensorRtError> {
        Ok(self.try_shim(|builder| list(&builder))?.iter().map(value_info).collect())
    }

    pub(crate) fn inputs(&mut self) -> Result<Vec<ValueInfo>, TensorRtError> {
        self.tensors(Builder::inputs)
    }

    pub(crate) fn parse(&mut self) -> Result<(), TensorRtError> {
        let path = self.path.clone();
        let faults = self.try_shim(|builder| builder.parse_file(path.as_os_str().as_bytes()))?;
        let model = self.model.take();
        if faults.is_empty() {
            return Ok(());
        }
        Err(TensorRtError::ParseFailed {
            sdk: self.sdk,
            model: self.name.clone(),
            faults: ParserFault::describe(faults, model.as_ref(), &path),
            log: self.log(),
        })
    }

    /// Checks the profiles against what TensorRT itself sees, and adds them.
    pub(crate) fn add_profiles(
        &mut self,
        profiles: &[OptimizationProfile],
    ) -> Result<(), TensorRtError> {
        let raw = self.try_shim(|builder| builder.inputs())?;
        if let Some(tensor) = raw.iter().find(|tensor| tensor.is_shape_tensor) {
            return Err(ProfileError::ShapeTensor { input: tensor.name.clone() }.into());
        }
        let inputs: Vec<ValueInfo> = raw.iter().map(value_info).collect();
        validate(profiles, &inputs, None)?;
        for profile in profiles {
            let range = |(name, range): (&String, &ShapeRange)| sys::ShapeRange {
                input: name.clone(),
                min: range.min.clone(),
                opt: range.opt.clone(),
                max: range.max.clone(),
            };
            let ranges: Vec<sys::ShapeRange> = profile.inputs.iter().map(range).collect();
            self.try_shim(|builder| builder.add_profile(&ranges))?;
        }
        Ok(())
    }

    /// Builds into `out`; returns the bytes that it took.
    pub(crate) fn build(
        &mut self,
        out: &mut (dyn Write + Send),
        progress: &(dyn Fn(Progress<'_>) -> ControlFlow<()> + Sync),
    ) -> Result<u64, TensorRtError> {
        let callback = |event: Progress<'_>| progress(event).is_continue();
        let monitor = Monitor::new(&callback);
        let sink = PlanSink::new(out);
        let built = sys::build(&mut self.builder, &monitor, &sink);
        let written = sink.finish();
        let cancelled = monitor.cancelled();
        if let Some(panic) = monitor.into_panic().or(written.panic) {
            resume_unwind(panic);
        }
        if cancelled {
            return Err(TensorRtError::Cancelled { model: self.name.clone(), log: self.log() });
        }
        if let Some(error) = written.error {
            return Err(TensorRtError::PlanNotWritten { reason: error.to_string() });
        }
        let built = built.map_err(|exception| self.shim_error(&exception))?;
        if built && written.bytes > 0 { Ok(written.bytes) } else { Err(self.failure()) }
    }

    /// Why the library built nothing: its log says it first, its error recorder where the log does not.
    fn failure(&mut self) -> TensorRtError {
        let log = self.log();
        let recorded = self.builder.errors().unwrap_or_default();
        let recorded = recorded.into_iter().map(|error| error.description);
        let reason = cause(&log)
            .map(str::to_owned)
            .or_else(|| recorded.into_iter().find(|text| !is_noise(text)))
            .unwrap_or_else(|| "it gave no reason".to_owned());
        let help = advice(&reason);
        TensorRtError::BuildFailed { sdk: self.sdk, model: self.name.clone(), reason, help, log }
    }
}

/// What helps against a failed build, by what the library says.
fn advice(reason: &str) -> &'static str {
    let reason = reason.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if says(&["workspace limit", "workspace size"]) {
        "raise `engine.workspace`, or leave it out"
    } else if says(&["out of memory", "outofmemory", "bad_alloc"]) {
        "free memory, or lower the largest shapes of the profiles"
    } else if says(&["timing cache"]) {
        "build once without `engine.error_on_timing_cache_miss` to fill the cache"
    } else if says(&["cuda_success", "cuda driver"]) {
        "this needs a GPU: leave out the option that does, or build on a machine with one"
    } else {
        "the log says more; `trtforge check` says whether the model is valid"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_the_reason() {
        let cases = [
            ("no tactics to implement the operation within workspace limit", "engine.workspace"),
            ("Error Code 2: OutOfMemory (no further information)", "largest shapes"),
            ("something new", "trtforge check"),
        ];
        for (reason, expected) in cases {
            assert!(advice(reason).contains(expected), "{reason}: {}", advice(reason));
        }
    }
}
