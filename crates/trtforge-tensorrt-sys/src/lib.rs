//! The C++ shim over TensorRT and its cxx bridge: the only crate with `unsafe`.
//!
//! ```text
//! cpp/include/trtforge/sdk.h   one abstract interface, no TensorRT types
//! cpp/src/sdk.cpp              its implementation, compiled once per SDK against that SDK's headers
//! bridge.rs                    the cxx bridge: every fallible function is a Result
//! library.rs                   dlopen of the SDK's libraries and a check of their version
//! driver.rs                    the CUDA driver, dlopened: the proof that a runtime may be made
//! cuda/                        one GPU: memory, streams, events, graphs
//! lane.rs                      a context of an engine with the memory it runs with
//! slot.rs                      one tensor of a lane
//! constants                    the SDKs' enumerations and versions, from their headers
//! ```
//!
//! Nothing here decides anything: which library, which options and what an error means is `trtforge-tensorrt`'s.

#[expect(clippy::elidable_lifetime_names, reason = "cxx needs them named")]
#[expect(clippy::missing_safety_doc, reason = "cxx does not carry the documentation over")]
#[expect(missing_docs, reason = "documented where it is declared, in cpp/include/trtforge/sdk.h")]
mod bridge;
mod cuda;
mod driver;
mod lane;
mod library;
mod observe;
mod output;
mod sink;
mod slot;

pub use bridge::{
    Builder, CacheFit, Engine, Flag, HostBytes, ParserFault, PreviewFeature, RecordedError,
    Runtime, SdkId, Setting, ShapeRange, TacticSource, TensorInfo,
};
pub use cuda::{CUDA_FUNCTIONS, Cuda, CudaError};
pub use cxx::{Exception, UniquePtr};
pub use driver::{Device, Driver, DriverError};
pub use lane::{Lane, LaneError, LaneRun, LaneTensor, LaneTimes};
pub use library::{
    InferLibrary, LoadError, ParserLibrary, build, header_version, new_builder, new_runtime,
};
pub use observe::{LogSink, Monitor, RawLine, RawProgress};
pub use sink::{PlanSink, Written};

/// The enumerations of each SDK, read from its headers.
#[expect(
    missing_docs,
    non_upper_case_globals,
    non_snake_case,
    reason = "generated from TensorRT's headers"
)]
pub mod constants {
    /// TensorRT-RTX 1.7.
    pub mod rtx {
        /// What this module is made of, for tests that go through every constant.
        pub const SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/rtx.rs"));
        include!(concat!(env!("OUT_DIR"), "/rtx.rs"));
    }
    /// TensorRT 11.4.
    pub mod tensorrt11 {
        /// What this module is made of, for tests that go through every constant.
        pub const SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/tensorrt11.rs"));
        include!(concat!(env!("OUT_DIR"), "/tensorrt11.rs"));
    }
    /// TensorRT 10, where its headers were given to the build.
    #[cfg(with_tensorrt10)]
    pub mod tensorrt10 {
        include!(concat!(env!("OUT_DIR"), "/tensorrt10.rs"));
    }
}
