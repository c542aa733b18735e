//! The cxx bridge over `cpp/include/trtforge/bridge.h`. Everything that can fail is a `Result`: a throw through any
//! other function would end the process.

use crate::observe::{LogSink, Monitor};
use crate::output::OutputMemory;
use crate::sink::PlanSink;

#[cxx::bridge(namespace = "trtforge")]
mod ffi {
    /// Which SDK's headers to speak.
    #[derive(Debug, PartialOrd, Ord)]
    enum SdkId {
        /// TensorRT-RTX 1.
        Rtx,
        /// TensorRT 11.
        TensorRt11,
        /// TensorRT 10, where its headers were given to the build.
        TensorRt10,
    }

    /// `nvinfer1::BuilderFlag` by name: the numbers differ between TensorRT 10 and 11.
    #[derive(Debug, PartialOrd, Ord)]
    enum Flag {
        VersionCompatible,
        ExcludeLeanRuntime,
        Refit,
        RefitIdentical,
        RefitIndividual,
        StripPlan,
        WeightStreaming,
        ErrorOnTimingCacheMiss,
        DisableTimingCache,
        EditableTimingCache,
        DisableCompilationCache,
        SparseWeights,
        StrictNans,
        Tf32,
        DirectIo,
        DistributiveIndependence,
        RequireUserAllocation,
        MonitorMemory,
        Debug,
    }

    /// `nvinfer1::TacticSource` by name.
    #[derive(Debug, PartialOrd, Ord)]
    enum TacticSource {
        EdgeMaskConvolutions,
        JitConvolutions,
    }

    /// `nvinfer1::PreviewFeature` by name.
    #[derive(Debug, PartialOrd, Ord)]
    enum PreviewFeature {
        AliasedPluginIo,
        RuntimeActivationResize,
    }

    /// A setting of the builder that is a number.
    #[derive(Debug, PartialOrd, Ord)]
    enum Setting {
        /// 0 to 5.
        OptimizationLevel,
        /// Timings averaged per tactic.
        AverageTimingIterations,
        /// Streams beside the caller's.
        MaxAuxStreams,
        /// Tactics timed where there is a choice.
        MaxTactics,
        /// Threads of the builder.
        MaxThreads,
        /// `nvinfer1::ProfilingVerbosity`.
        ProfilingVerbosity,
        /// `nvinfer1::HardwareCompatibilityLevel`.
        HardwareCompatibility,
        /// `nvinfer1::TilingOptimizationLevel`.
        TilingOptimizationLevel,
        /// Bytes of the L2 cache that tiling may use.
        TilingL2Bytes,
        /// `nvinfer1::RuntimePlatform`.
        RuntimePlatform,
    }

    /// Whether a timing cache can serve.
    #[derive(Debug)]
    enum CacheFit {
        /// It was taken.
        Fits,
        /// It is of another version or GPU.
        Foreign,
        /// The bytes are no timing cache.
        NoCache,
    }

    /// Addresses of a library's `extern "C"` factories; 0 where the library has none.
    #[derive(Debug)]
    struct Factories {
        builder: usize,
        parser: usize,
        runtime: usize,
    }

    /// One error of the ONNX parser.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct ParserFault {
        /// `nvonnxparser::ErrorCode`.
        code: i32,
        /// Index of the node in the graph, negative when the fault is of no node.
        node: i32,
        node_name: String,
        node_operator: String,
        description: String,
        /// The ONNX functions around the node, outermost first.
        functions: Vec<String>,
    }

    /// One error given to the SDK's error recorder.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct RecordedError {
        /// `nvinfer1::ErrorCode`.
        code: i32,
        description: String,
    }

    /// The shapes one input may take in one optimization profile.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct ShapeRange {
        input: String,
        min: Vec<i64>,
        opt: Vec<i64>,
        max: Vec<i64>,
    }

    /// An input or output of a network or an engine.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct TensorInfo {
        name: String,
        /// `nvinfer1::DataType`.
        data_type: i32,
        /// −1 where dynamic.
        dims: Vec<i64>,
        /// The ONNX name of each dimension, empty where it has none; no entries for an engine's tensors.
        dim_names: Vec<String>,
        /// Its values, not just its shape, steer shapes.
        is_shape_tensor: bool,
        is_input: bool,
    }

    extern "Rust" {
        type LogSink;
        fn write(self: &LogSink, severity: i32, message: &[u8]);

        type OutputMemory;
        fn reserve(self: &OutputMemory, bytes: u64, alignment: u64) -> usize;
        fn shaped(self: &OutputMemory, dims: &[i64]);

        // Unsafe because C++ could keep the borrow: it holds the monitor only during `Builder::build`.
        type Monitor<'a>;
        unsafe fn phase_start<'a>(self: &Monitor<'a>, phase: &[u8], parent: &[u8], steps: i32);
        unsafe fn step_complete<'a>(self: &Monitor<'a>, phase: &[u8], step: i32) -> bool;
        unsafe fn phase_finish<'a>(self: &Monitor<'a>, phase: &[u8]);

        // Unsafe for the same reason.
        type PlanSink<'a>;
        unsafe fn write<'a>(self: &PlanSink<'a>, bytes: &[u8]) -> bool;
    }

    unsafe extern "C++" {
        include!("trtforge/bridge.h");

        type HostBytes;
        fn bytes(self: &HostBytes) -> &[u8];

        type Builder;
        fn parse_file(self: Pin<&mut Builder>, path: &[u8]) -> Result<Vec<ParserFault>>;
        fn inputs(self: &Builder) -> Result<Vec<TensorInfo>>;
        fn outputs(self: &Builder) -> Result<Vec<TensorInfo>>;
        fn layer_count(self: &Builder) -> Result<i32>;
        fn set(self: Pin<&mut Builder>, setting: Setting, value: i64) -> Result<()>;
        fn set_flag(self: Pin<&mut Builder>, flag: Flag, on: bool) -> Result<()>;
        fn set_tactic_sources(self: Pin<&mut Builder>, sources: &[TacticSource]) -> Result<()>;
        fn set_memory_limit(self: Pin<&mut Builder>, memory_pool: i32, bytes: u64) -> Result<()>;
        fn set_preview_feature(self: Pin<&mut Builder>, feature: PreviewFeature) -> Result<()>;
        fn set_compute_capabilities(self: Pin<&mut Builder>, capabilities: &[i32]) -> Result<()>;
        fn set_build_route(self: Pin<&mut Builder>, route: &str) -> Result<()>;
        fn build_routes(self: &Builder) -> Result<String>;
        fn load_plugins(self: Pin<&mut Builder>, paths: &[String], serialize: bool) -> Result<()>;
        fn mark_refittable(self: Pin<&mut Builder>, weights: &str) -> Result<bool>;
        fn add_profile(self: Pin<&mut Builder>, ranges: &[ShapeRange]) -> Result<()>;
        fn set_timing_cache(self: Pin<&mut Builder>, cache: &[u8]) -> Result<CacheFit>;
        fn timing_cache(self: &Builder) -> Result<UniquePtr<HostBytes>>;
        /// # Safety
        ///
        /// C++ must not keep the monitor or the sink after it returns; `Builder::build` takes them off again.
        unsafe fn build<'m, 's>(
            self: Pin<&mut Builder>,
            monitor: &Monitor<'m>,
            sink: &PlanSink<'s>,
        ) -> Result<bool>;
        fn errors(self: &Builder) -> Result<Vec<RecordedError>>;

        type Engine;
        fn tensors(self: &Engine) -> Result<Vec<TensorInfo>>;
        fn profile_count(self: &Engine) -> Result<i32>;
        fn profile(self: &Engine, index: i32) -> Result<Vec<ShapeRange>>;
        fn inspect(self: &Engine, format: i32) -> Result<String>;
        fn streamable_weights_bytes(self: &Engine) -> Result<i64>;
        fn stream_weights(self: Pin<&mut Engine>) -> Result<i64>;
        fn make_context(self: &Engine) -> Result<UniquePtr<Context>>;
        #[rust_name = "take_engine_errors"]
        fn take_errors(self: &Engine) -> Result<Vec<RecordedError>>;

        type Context;
        fn set_profile(self: Pin<&mut Context>, index: i32, stream: usize) -> Result<()>;
        fn set_input_shape(self: Pin<&mut Context>, input: &str, dims: &[i64]) -> Result<()>;
        fn shape(self: &Context, tensor: &str) -> Result<Vec<i64>>;
        fn unready(self: Pin<&mut Context>) -> Result<Vec<String>>;
        fn max_output_bytes(self: &Context, output: &str) -> Result<i64>;
        fn memory_bytes(self: Pin<&mut Context>) -> Result<usize>;
        /// # Safety
        ///
        /// `address` must be that of so many bytes of device memory, which live as long as the context or until other
        /// memory is set.
        unsafe fn set_memory(self: Pin<&mut Context>, address: usize, bytes: usize) -> Result<()>;
        /// # Safety
        ///
        /// `address` must be that of device memory large enough for the tensor at the shapes of the next run, which
        /// lives as long as the context or until another address is set.
        unsafe fn set_address(self: Pin<&mut Context>, tensor: &str, address: usize) -> Result<()>;
        fn set_output_memory(
            self: Pin<&mut Context>,
            output: &str,
            memory: Box<OutputMemory>,
        ) -> Result<()>;
        /// # Safety
        ///
        /// `stream` must be a live stream of the engine's GPU, and every address must be set.
        unsafe fn enqueue(self: Pin<&mut Context>, stream: usize) -> bool;
        #[rust_name = "take_context_errors"]
        fn take_errors(self: Pin<&mut Context>) -> Result<Vec<RecordedError>>;

        type Runtime;
        fn deserialize(self: Pin<&mut Runtime>, plan: &[u8]) -> Result<UniquePtr<Engine>>;
        fn errors(self: &Runtime) -> Result<Vec<RecordedError>>;

        fn header_version(sdk: SdkId) -> Result<i32>;
        fn make_builder(
            sdk: SdkId,
            factories: &Factories,
            sink: Box<LogSink>,
        ) -> Result<UniquePtr<Builder>>;
        fn make_runtime(
            sdk: SdkId,
            factories: &Factories,
            sink: Box<LogSink>,
        ) -> Result<UniquePtr<Runtime>>;
    }
}

pub(crate) use ffi::Context as RawContext;
pub use ffi::{
    Builder, CacheFit, Engine, Flag, HostBytes, ParserFault, PreviewFeature, RecordedError,
    Runtime, SdkId, Setting, ShapeRange, TacticSource, TensorInfo,
};
pub(crate) use ffi::{Factories, header_version, make_builder, make_runtime};

// SAFETY: a `HostBytes` is an immutable buffer on the heap of the library; it is tied to no thread, and reading it
// from several at once only reads.
unsafe impl Send for HostBytes {}
// SAFETY: as above.
unsafe impl Sync for HostBytes {}
// SAFETY: TensorRT's objects may be used from any thread, one at a time, which `&mut` ensures.
unsafe impl Send for Builder {}
// SAFETY: as above.
unsafe impl Send for Runtime {}
// SAFETY: as above; its callbacks are of this crate and locked.
unsafe impl Send for ffi::Context {}
// SAFETY: an engine is only read here, and TensorRT allows that from several threads.
unsafe impl Send for Engine {}
// SAFETY: as above.
unsafe impl Sync for Engine {}
