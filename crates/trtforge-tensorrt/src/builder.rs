//! From an ONNX file to a plan.

use std::fmt;
use std::io::Write;
use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::time::Instant;

use trtforge_onnx::{Model, ValueInfo};
use trtforge_tensorrt_sys::Builder;
pub use trtforge_tensorrt_sys::RawProgress as Progress;

use crate::driver::driver_for;
use crate::error::TensorRtError;
use crate::library::Library;
use crate::log::LogLine;
use crate::options::BuildOptions;
use crate::profile::OptimizationProfile;
use crate::sdk::{Sdk, Version};
use crate::session::Session;
use crate::timing::TimingCacheUse;

/// How a plan came about.
#[derive(Debug)]
pub struct Built {
    /// Size of the plan.
    pub size: u64,
    /// The SDK that built it.
    pub sdk: Sdk,
    /// The version of the library that built it.
    pub version: Version,
    /// The network's inputs, as TensorRT took them.
    pub inputs: Vec<ValueInfo>,
    /// The network's outputs.
    pub outputs: Vec<ValueInfo>,
    /// Layers of the network before fusion.
    pub layers: usize,
    /// How the timing cache served, where one was asked for.
    pub timing_cache: Option<TimingCacheUse>,
    /// Everything the library logged, as verbose as asked for.
    pub log: Vec<LogLine>,
    /// Time to read the model.
    pub parse_ms: f64,
    /// Time to build and serialize.
    pub build_ms: f64,
}

/// A serialized engine in memory, and how it came about.
pub struct Plan {
    bytes: Vec<u8>,
    built: Built,
}

impl Plan {
    /// The plan itself.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the plan; the file is there whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), TensorRtError> {
        trtforge_files::write(path, self.bytes()).map_err(|error| TensorRtError::Write {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }
}

impl Deref for Plan {
    type Target = Built;

    fn deref(&self) -> &Built {
        &self.built
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({} {}, {} bytes)", self.sdk, self.version, self.bytes.len())
    }
}

/// Builds the plan of the ONNX model at `onnx` (external data beside it) for `profiles`, in memory.
///
/// See [`build_to`], which needs less of it.
pub fn build(
    library: &Library,
    onnx: &Path,
    profiles: &[OptimizationProfile],
    options: &BuildOptions,
    progress: &(dyn Fn(Progress<'_>) -> ControlFlow<()> + Sync),
) -> Result<Plan, TensorRtError> {
    let mut bytes = Vec::new();
    let built = build_to(library, onnx, profiles, options, progress, &mut bytes)?;
    Ok(Plan { bytes, built })
}

/// Builds the plan of the ONNX model at `onnx` (external data beside it) for `profiles`, and writes it to `out` as the
/// library serializes it.
///
/// `progress` is called from the library's threads, may be called from several at once, and cancels with
/// [`ControlFlow::Break`]. Nothing else is written but the timing cache of a build that succeeded. After an error, what
/// `out` took is no plan.
pub fn build_to(
    library: &Library,
    onnx: &Path,
    profiles: &[OptimizationProfile],
    options: &BuildOptions,
    progress: &(dyn Fn(Progress<'_>) -> ControlFlow<()> + Sync),
    out: &mut (dyn Write + Send),
) -> Result<Built, TensorRtError> {
    options.check_here(library.sdk())?;
    // The parser takes some files that are no models for empty networks, and is vague about others.
    let model = Model::open(onnx)?;
    if library.sdk().build_needs_gpu() {
        driver_for("building a plan with TensorRT")?;
    }
    let mut session = Session::open(library, onnx, model, options)?;
    session.load_plugins(options)?;
    let parsing = Instant::now();
    session.parse()?;
    let parse_ms = milliseconds(parsing);
    session.add_profiles(profiles)?;
    session.apply(options)?;
    let cache = session.load_timing_cache(options)?;
    let building = Instant::now();
    let size = session.build(out, progress)?;
    let build_ms = milliseconds(building);
    let timing_cache = session.save_timing_cache(options, cache)?;
    Ok(Built {
        size,
        sdk: library.sdk(),
        version: library.version(),
        inputs: session.inputs()?,
        outputs: session.tensors(Builder::outputs)?,
        layers: session.try_shim(|builder| builder.layer_count())?.unsigned_abs() as usize,
        timing_cache,
        log: session.log(),
        parse_ms,
        build_ms,
    })
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
