//! Options that are words, numbers or sizes: their names in a profile and what they are to the library.

use trtforge_tensorrt_sys as sys;
use trtforge_tensorrt_sys::constants::rtx::{
    nvinfer1_ComputeCapability as capability, nvinfer1_HardwareCompatibilityLevel as hardware,
    nvinfer1_MemoryPoolType as pool, nvinfer1_ProfilingVerbosity as verbosity,
    nvinfer1_RuntimePlatform as platform, nvinfer1_TilingOptimizationLevel as tiling,
};

/// Declares an enumeration whose values have names in a profile.
macro_rules! named {
    ($(#[$about:meta])* $name:ident: $raw:ty { $($(#[$doc:meta])* $value:ident = $text:literal, $number:expr;)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$doc])* $value,)* }

        impl $name {
            /// Each value under its name in a profile.
            pub const NAMES: &[(&str, $name)] = &[$(($text, $name::$value),)*];

            /// As in a profile.
            pub const fn name(self) -> &'static str {
                match self { $($name::$value => $text,)* }
            }

            pub(crate) const fn raw(self) -> $raw {
                match self { $($name::$value => $number,)* }
            }
        }
    };
}

named! {
    /// How much a plan says of its layers to the engine inspector and to profilers.
    ProfilingVerbosity: i32 {
        /// Everything: precisions, tactics, origins. What the proof of precision reads.
        Detailed = "detailed", verbosity::kDETAILED;
        /// Names alone.
        LayerNamesOnly = "layer_names_only", verbosity::kLAYER_NAMES_ONLY;
        /// Nothing.
        None = "none", verbosity::kNONE;
    }
}

named! {
    /// On which GPUs, beside the one it is built on, a plan runs.
    HardwareCompatibility: i32 {
        /// On none.
        None = "none", hardware::kNONE;
        /// On every one from Ampere on, at some cost in speed.
        AmperePlus = "ampere_plus", hardware::kAMPERE_PLUS;
        /// On those of the same compute capability.
        SameComputeCapability = "same_compute_capability", hardware::kSAME_COMPUTE_CAPABILITY;
    }
}

named! {
    /// A compute capability that a TensorRT-RTX plan is made for. The list is the SDK's: it ends at what its headers
    /// name, and Hopper (9.0) is not among them.
    ComputeCapability: i32 {
        /// That of the GPU in this machine.
        Current = "current", capability::kCURRENT;
        /// Turing.
        Sm75 = "7.5", capability::kSM75;
        /// Ampere, data centre.
        Sm80 = "8.0", capability::kSM80;
        /// Ampere.
        Sm86 = "8.6", capability::kSM86;
        /// Ada Lovelace.
        Sm89 = "8.9", capability::kSM89;
        /// Blackwell.
        Sm120 = "12.0", capability::kSM120;
        /// Blackwell, GB10.
        Sm121 = "12.1", capability::kSM121;
    }
}

named! {
    /// How hard the builder looks for ways to keep data on the chip between layers.
    Tiling: i32 {
        /// Not at all.
        None = "none", tiling::kNONE;
        /// By a quick heuristic.
        Fast = "fast", tiling::kFAST;
        /// By heuristics and some timing.
        Moderate = "moderate", tiling::kMODERATE;
        /// By much timing.
        Full = "full", tiling::kFULL;
    }
}

named! {
    /// What a plan runs on.
    RuntimePlatform: i32 {
        /// The platform it is built on.
        SameAsBuild = "same_as_build", platform::kSAME_AS_BUILD;
        /// Windows on AMD64.
        WindowsAmd64 = "windows_amd64", platform::kWINDOWS_AMD64;
    }
}

named! {
    /// Which weights of a plan can be replaced later.
    Refit: sys::Flag {
        /// Every one that the library can make so, by any values; the plan may be slower.
        Any = "any", sys::Flag::Refit;
        /// Every one, by the same values only: for plans without weights. No slower than a plan that cannot be refitted.
        Identical = "identical", sys::Flag::RefitIdentical;
        /// Those that `refit_weights` names.
        Individual = "individual", sys::Flag::RefitIndividual;
    }
}

named! {
    /// Where tactics may come from.
    TacticSource: sys::TacticSource {
        /// Convolutions with edge mask tables.
        EdgeMaskConvolutions = "edge_mask_convolutions", sys::TacticSource::EdgeMaskConvolutions;
        /// Convolutions compiled while building.
        JitConvolutions = "jit_convolutions", sys::TacticSource::JitConvolutions;
    }
}

named! {
    /// What the library can do and does not do unasked.
    PreviewFeature: sys::PreviewFeature {
        /// Plugins whose outputs share memory with inputs.
        AliasedPluginIo = "aliased_plugin_io", sys::PreviewFeature::AliasedPluginIo;
        /// Device memory of activations that follows the shapes at run time.
        RuntimeActivationResize = "runtime_activation_resize", sys::PreviewFeature::RuntimeActivationResize;
    }
}

named! {
    /// Options that are whole numbers.
    Number: sys::Setting {
        /// 0 (fast to build) to 5 (fast to run).
        OptimizationLevel = "optimization_level", sys::Setting::OptimizationLevel;
        /// Threads the builder may use.
        MaxThreads = "max_threads", sys::Setting::MaxThreads;
        /// Streams beside the caller's that an engine may use.
        MaxAuxStreams = "max_aux_streams", sys::Setting::MaxAuxStreams;
        /// Tactics timed where there is a choice.
        MaxTactics = "max_tactics", sys::Setting::MaxTactics;
        /// Timings averaged for each tactic.
        AverageTimingIterations = "average_timing_iterations", sys::Setting::AverageTimingIterations;
    }
}

impl Number {
    /// The values the library takes.
    pub const fn range(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Number::OptimizationLevel => 0..=5,
            Number::MaxThreads => 1..=4096,
            Number::MaxAuxStreams => 0..=1024,
            Number::MaxTactics => 1..=1_000_000,
            Number::AverageTimingIterations => 1..=1000,
        }
    }

    /// What it is for, as one sentence.
    pub const fn about(self) -> &'static str {
        match self {
            Number::OptimizationLevel => {
                "0 to 5; more builds longer. The library's own when absent."
            }
            Number::MaxThreads => "Threads the builder may use.",
            Number::MaxAuxStreams => {
                "Streams beside the caller's that an engine may use; 0 keeps to the caller's."
            }
            Number::MaxTactics => "Tactics that are timed where there is a choice.",
            Number::AverageTimingIterations => "Timings averaged for each tactic.",
        }
    }
}

named! {
    /// Options that are numbers of bytes.
    Size: SizeSetting {
        /// Device memory that layers may use as scratch space.
        Workspace = "workspace", SizeSetting::Pool(pool::kWORKSPACE);
        /// Device memory for running tactics while building.
        TacticDram = "tactic_dram", SizeSetting::Pool(pool::kTACTIC_DRAM);
        /// Shared memory that a kernel may use.
        TacticSharedMemory = "tactic_shared_memory", SizeSetting::Pool(pool::kTACTIC_SHARED_MEMORY);
        /// L2 cache that tiling may count on.
        L2LimitForTiling = "l2_limit_for_tiling", SizeSetting::TilingL2;
    }
}

/// What a size is to the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizeSetting {
    /// The limit of this `nvinfer1::MemoryPoolType`.
    Pool(i32),
    /// A setting of its own.
    TilingL2,
}

impl Size {
    /// What it is for, as one sentence.
    pub const fn about(self) -> &'static str {
        match self {
            Size::Workspace => "Device memory that layers may use as scratch space.",
            Size::TacticDram => "Device memory for running tactics while building.",
            Size::TacticSharedMemory => "Shared memory that a kernel may use; below 1GiB.",
            Size::L2LimitForTiling => "L2 cache that tiling may count on.",
        }
    }
}

named! {
    /// Options that are on or off.
    Flag: sys::Flag {
        /// The plan also runs on later versions, through the lean runtime.
        VersionCompatible = "version_compatible", sys::Flag::VersionCompatible;
        /// Such a plan without the lean runtime in it.
        ExcludeLeanRuntime = "exclude_lean_runtime", sys::Flag::ExcludeLeanRuntime;
        /// A plan without its weights.
        StripPlan = "strip_plan", sys::Flag::StripPlan;
        /// Weights may stay in host memory while an engine runs.
        WeightStreaming = "weight_streaming", sys::Flag::WeightStreaming;
        /// Fail rather than time a tactic that the cache lacks.
        ErrorOnTimingCacheMiss = "error_on_timing_cache_miss", sys::Flag::ErrorOnTimingCacheMiss;
        /// Time every layer, even one like another.
        DisableTimingCache = "disable_timing_cache", sys::Flag::DisableTimingCache;
        /// A timing cache whose entries can be edited.
        EditableTimingCache = "editable_timing_cache", sys::Flag::EditableTimingCache;
        /// Keep compiled code out of the timing cache.
        DisableCompilationCache = "disable_compilation_cache", sys::Flag::DisableCompilationCache;
        /// Use weights that are zero in the hardware's pattern.
        SparseWeights = "sparse_weights", sys::Flag::SparseWeights;
        /// Keep NaN and infinity where `0·x` and `x−x` would be simplified.
        StrictNans = "strict_nans", sys::Flag::StrictNans;
        /// Let FP32 products use TF32; the library does unless told not to.
        Tf32 = "tf32", sys::Flag::Tf32;
        /// No reformatting at inputs and outputs.
        DirectIo = "direct_io", sys::Flag::DirectIo;
        /// Compute every element of a batch by the same operations.
        DistributiveIndependence = "distributive_independence", sys::Flag::DistributiveIndependence;
        /// An engine that never allocates while it runs.
        RequireUserAllocation = "require_user_allocation", sys::Flag::RequireUserAllocation;
        /// Log memory use while building.
        MonitorMemory = "monitor_memory", sys::Flag::MonitorMemory;
        /// Synchronize after every layer, to find the one that fails.
        Debug = "debug", sys::Flag::Debug;
    }
}

impl Flag {
    /// What it is for, as one sentence.
    pub const fn about(self) -> &'static str {
        match self {
            Flag::VersionCompatible => "Plans that later versions of the library load.",
            Flag::ExcludeLeanRuntime => {
                "A version-compatible plan without the lean runtime in it: smaller, and the application brings the runtime."
            }
            Flag::StripPlan => {
                "A plan without its weights; they are given back from the ONNX file where it is loaded."
            }
            Flag::WeightStreaming => "Weights may stay in host memory while an engine runs.",
            Flag::ErrorOnTimingCacheMiss => "Fail rather than time a tactic that the cache lacks.",
            Flag::DisableTimingCache => "Time every layer, even one like another.",
            Flag::EditableTimingCache => "A timing cache whose entries can be edited.",
            Flag::DisableCompilationCache => "Keep compiled code out of the timing cache.",
            Flag::SparseWeights => "Use weights that are zero in the hardware's 2:4 pattern.",
            Flag::StrictNans => "Keep NaN and infinity where 0·x and x−x would be simplified.",
            Flag::Tf32 => "Let FP32 products use TF32; the library does unless this is false.",
            Flag::DirectIo => "No reformatting at inputs and outputs.",
            Flag::DistributiveIndependence => {
                "Compute every element of a batch by the same operations."
            }
            Flag::RequireUserAllocation => "An engine that never allocates while it runs.",
            Flag::MonitorMemory => "Log memory use while building.",
            Flag::Debug => "Synchronize after every layer, to find the one that fails.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_in_both_sdks() {
        // One set of numbers is passed to either SDK; this is where a new header would say otherwise.
        use trtforge_tensorrt_sys::constants::tensorrt11 as other;
        assert_eq!(
            hardware::kSAME_COMPUTE_CAPABILITY,
            other::nvinfer1_HardwareCompatibilityLevel::kSAME_COMPUTE_CAPABILITY
        );
        assert_eq!(
            pool::kTACTIC_SHARED_MEMORY,
            other::nvinfer1_MemoryPoolType::kTACTIC_SHARED_MEMORY
        );
        assert_eq!(verbosity::kDETAILED, other::nvinfer1_ProfilingVerbosity::kDETAILED);
        assert_eq!(platform::kWINDOWS_AMD64, other::nvinfer1_RuntimePlatform::kWINDOWS_AMD64);
        assert_eq!(tiling::kFULL, other::nvinfer1_TilingOptimizationLevel::kFULL);
    }
}
