//! Building TensorRT engines, and finding what is installed.
//!
//! ```text
//! choose(backend) ─► Library ─► build(onnx, profiles, options, progress) ─► Plan
//!                       │                                                   │ on a machine with a GPU
//! probe() ─► DoctorReport                             deserialize(library, plan) ─► Engine ─► inspect
//!                                     DeviceExecutor::open(library, plan) ─► runs
//! ```
//!
//! The libraries are found and opened at run time; nothing of TensorRT or CUDA is needed to compile or to start.

mod backend;
mod builder;
mod device;
mod doctor;
mod driver;
mod error;
mod fault;
mod inspect;
mod library;
mod locate;
mod log;
mod options;
mod plan;
mod positions;
mod profile;
mod profile_error;
mod progress;
mod runtime;
mod sdk;
mod session;
mod settings;
mod tensor;
mod timing;

pub use backend::{Backend, Choice, choose};
pub use builder::{Built, Plan, Progress, build, build_to};
pub use device::{DeviceExecutor, DeviceOptions, RunHow, RunTimes, Staged, tapped};
pub use doctor::{BackendReport, DoctorReport, LibraryReport, LibraryState, OtherLibrary, probe};
pub use driver::{DriverInfo, Gpu, driver, driver_version};
pub use error::{ErrorKind, TensorRtError};
pub use fault::ParserFault;
pub use inspect::{
    Basis, Compute, Detail, EngineLayer, EngineLayers, InspectError, LayerRole, LayerTensor,
    NumberType, PrecisionProof, ProductProof, Quantizers, Seen,
};
pub use library::Library;
pub use locate::PATH_VARIABLE;
pub use log::{LogLine, Severity};
pub use options::{
    BuildOption, BuildOptions, ComputeCapability, Flag, HardwareCompatibility, Number, Pin,
    PreviewFeature, ProfilingVerbosity, Refit, Refusal, RuntimePlatform, Size, TacticSource,
    Tiling, TimingCache,
};
pub use plan::{
    AMPERE, BuiltOn, Capability, ExactVersion, FileHash, HEADER_BYTES, Host, IoTensor,
    MANIFEST_SCHEMA, MOST_MANIFEST_BYTES, PlanError, PlanFile, PlanHeader, PlanManifest, RunsOn,
    ShortVerdict, begins_as_plan,
};
pub use positions::position_count;
pub use profile::{
    Corner, OptimizationProfile, Place, ProfileError, ShapeRange, parse_shapes, validate,
};
pub use progress::BuildShare;
pub use runtime::{Engine, deserialize};
pub use sdk::{Part, Sdk, Version};
pub use timing::{CacheFound, TimingCacheUse};
