// The builder's settings, one by one, each read back. Private to sdk.cpp.
//
// Which of them a version has is asked of its headers (TRTFORGE_HAS…), not of its number: no version is named here.
// Flags, tactic sources and preview features are numbered differently in TensorRT 10 and 11, and so go by name.
#pragma once

#include "common.h"

#include <type_traits>
#include <utility>
#include <vector>

namespace trtforge::TRTFORGE_SDK {
namespace {

using nvinfer1::IBuilder;
using nvinfer1::IBuilderConfig;
using nvinfer1::INetworkDefinition;

[[noreturn]] inline void not_here(char const* what) {
    throw std::invalid_argument(std::string("this version of the library has no ") + what);
}

// Whether a class has the function in `call`, which is written in terms of `object`.
#define TRTFORGE_HAS(Name, call)                                                                                       \
    template <class C, class = void> struct Name : std::false_type {};                                                 \
    template <class C> struct Name<C, std::void_t<decltype(std::declval<C&>().call)>> : std::true_type {};

TRTFORGE_HAS(HasMaxTactics, getMaxNbTactics())
TRTFORGE_HAS(HasTiling, getTilingOptimizationLevel())
TRTFORGE_HAS(HasPlatform, getRuntimePlatform())
TRTFORGE_HAS(HasComputeCapabilities, getNbComputeCapabilities())
TRTFORGE_HAS(HasBuildRoute, getBuildRoute())
TRTFORGE_HAS(HasMarkedWeights, markWeightsRefittable(""))

// The number of an enumerator, or -1 where the headers have none of that name. Some are deprecated: they still count.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define TRTFORGE_ENUMERATOR(name)                                                                                      \
    template <class E, class = void> struct Number_##name : std::integral_constant<std::int32_t, -1> {};               \
    template <class E>                                                                                                 \
    struct Number_##name<E, std::void_t<decltype(E::name)>>                                                            \
        : std::integral_constant<std::int32_t, static_cast<std::int32_t>(E::name)> {};

#define TRTFORGE_FLAGS(each)                                                                                           \
    each(VersionCompatible, kVERSION_COMPATIBLE)                                                                       \
    each(ExcludeLeanRuntime, kEXCLUDE_LEAN_RUNTIME)                                                                    \
    each(Refit, kREFIT)                                                                                                \
    each(RefitIdentical, kREFIT_IDENTICAL)                                                                             \
    each(RefitIndividual, kREFIT_INDIVIDUAL)                                                                           \
    each(StripPlan, kSTRIP_PLAN)                                                                                       \
    each(WeightStreaming, kWEIGHT_STREAMING)                                                                           \
    each(ErrorOnTimingCacheMiss, kERROR_ON_TIMING_CACHE_MISS)                                                          \
    each(DisableTimingCache, kDISABLE_TIMING_CACHE)                                                                    \
    each(EditableTimingCache, kEDITABLE_TIMING_CACHE)                                                                  \
    each(DisableCompilationCache, kDISABLE_COMPILATION_CACHE)                                                          \
    each(SparseWeights, kSPARSE_WEIGHTS)                                                                               \
    each(StrictNans, kSTRICT_NANS)                                                                                     \
    each(Tf32, kTF32)                                                                                                  \
    each(DirectIo, kDIRECT_IO)                                                                                         \
    each(DistributiveIndependence, kDISTRIBUTIVE_INDEPENDENCE)                                                         \
    each(RequireUserAllocation, kREQUIRE_USER_ALLOCATION)                                                              \
    each(MonitorMemory, kMONITOR_MEMORY)                                                                               \
    each(Debug, kDEBUG)

#define TRTFORGE_ONE(ours, theirs) TRTFORGE_ENUMERATOR(theirs)
TRTFORGE_FLAGS(TRTFORGE_ONE)
#undef TRTFORGE_ONE
TRTFORGE_ENUMERATOR(kEDGE_MASK_CONVOLUTIONS)
TRTFORGE_ENUMERATOR(kJIT_CONVOLUTIONS)
TRTFORGE_ENUMERATOR(kALIASED_PLUGIN_IO_10_03)
TRTFORGE_ENUMERATOR(kRUNTIME_ACTIVATION_RESIZE_10_10)

inline std::int32_t number_of(Flag flag) {
    switch (flag) {
#define TRTFORGE_ONE(ours, theirs)                                                                                     \
    case Flag::ours: return Number_##theirs<nvinfer1::BuilderFlag>::value;
        TRTFORGE_FLAGS(TRTFORGE_ONE)
#undef TRTFORGE_ONE
    }
    return -1;
}
#pragma GCC diagnostic pop

inline std::int32_t number_of(TacticSource source) {
    switch (source) {
    case TacticSource::EdgeMaskConvolutions: return Number_kEDGE_MASK_CONVOLUTIONS<nvinfer1::TacticSource>::value;
    case TacticSource::JitConvolutions: return Number_kJIT_CONVOLUTIONS<nvinfer1::TacticSource>::value;
    }
    return -1;
}

inline std::int32_t number_of(PreviewFeature feature) {
    switch (feature) {
    case PreviewFeature::AliasedPluginIo: return Number_kALIASED_PLUGIN_IO_10_03<nvinfer1::PreviewFeature>::value;
    case PreviewFeature::RuntimeActivationResize:
        return Number_kRUNTIME_ACTIVATION_RESIZE_10_10<nvinfer1::PreviewFeature>::value;
    }
    return -1;
}

// These numbers are the same in every version, and Rust passes them as they are.
static_assert(static_cast<int>(nvinfer1::MemoryPoolType::kWORKSPACE) == 0);
static_assert(static_cast<int>(nvinfer1::MemoryPoolType::kTACTIC_DRAM) == 4);
static_assert(static_cast<int>(nvinfer1::MemoryPoolType::kTACTIC_SHARED_MEMORY) == 5);
static_assert(static_cast<int>(nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY) == 0);
static_assert(static_cast<int>(nvinfer1::ProfilingVerbosity::kNONE) == 1);
static_assert(static_cast<int>(nvinfer1::ProfilingVerbosity::kDETAILED) == 2);
static_assert(static_cast<int>(nvinfer1::HardwareCompatibilityLevel::kNONE) == 0);
static_assert(static_cast<int>(nvinfer1::HardwareCompatibilityLevel::kAMPERE_PLUS) == 1);

// A number that is set and read back through functions of one type.
template <class C> void set_config_number(C& config, Setting setting, std::int64_t value) {
    auto const number = static_cast<std::int32_t>(value);
    switch (setting) {
    case Setting::OptimizationLevel:
        config.setBuilderOptimizationLevel(number);
        return taken(config.getBuilderOptimizationLevel() == number, "optimization level");
    case Setting::AverageTimingIterations:
        config.setAvgTimingIterations(number);
        return taken(config.getAvgTimingIterations() == number, "number of timing iterations");
    case Setting::MaxAuxStreams:
        return taken(config.setMaxAuxStreams(number) && config.getMaxAuxStreams() == number,
                     "number of auxiliary streams");
    case Setting::MaxTactics:
        if constexpr (HasMaxTactics<C>::value) {
            config.setMaxNbTactics(number);
            return taken(config.getMaxNbTactics() == number, "number of tactics");
        }
        not_here("largest number of tactics");
    case Setting::ProfilingVerbosity:
        config.setProfilingVerbosity(static_cast<nvinfer1::ProfilingVerbosity>(number));
        return taken(static_cast<std::int32_t>(config.getProfilingVerbosity()) == number, "profiling verbosity");
    case Setting::HardwareCompatibility:
        config.setHardwareCompatibilityLevel(static_cast<nvinfer1::HardwareCompatibilityLevel>(number));
        return taken(static_cast<std::int32_t>(config.getHardwareCompatibilityLevel()) == number,
                     "hardware compatibility level");
    case Setting::TilingOptimizationLevel:
        if constexpr (HasTiling<C>::value) {
            using Level = decltype(config.getTilingOptimizationLevel());
            auto const level = static_cast<Level>(number);
            return taken(config.setTilingOptimizationLevel(level) && config.getTilingOptimizationLevel() == level,
                         "tiling optimization level");
        }
        not_here("tiling optimization");
    case Setting::TilingL2Bytes:
        if constexpr (HasTiling<C>::value) {
            return taken(config.setL2LimitForTiling(value) && config.getL2LimitForTiling() == value,
                         "L2 limit for tiling");
        }
        not_here("tiling optimization");
    case Setting::RuntimePlatform:
        if constexpr (HasPlatform<C>::value) {
            using Platform = decltype(config.getRuntimePlatform());
            auto const platform = static_cast<Platform>(number);
            config.setRuntimePlatform(platform);
            return taken(config.getRuntimePlatform() == platform, "runtime platform");
        }
        not_here("runtime platform");
    case Setting::MaxThreads: break; // the builder's, not the configuration's
    }
    throw std::invalid_argument("no such setting");
}

template <class C> void set_config_capabilities(C& config, rust::Slice<std::int32_t const> capabilities) {
    if constexpr (HasComputeCapabilities<C>::value) {
        using Capability = decltype(config.getComputeCapability(0));
        auto const count = static_cast<std::int32_t>(capabilities.size());
        taken(config.setNbComputeCapabilities(count), "number of compute capabilities");
        for (std::int32_t i = 0; i < count; ++i) {
            auto const wanted = static_cast<Capability>(capabilities[static_cast<std::size_t>(i)]);
            taken(config.setComputeCapability(wanted, i) && config.getComputeCapability(i) == wanted,
                  "compute capability");
        }
    } else {
        (void)config;
        (void)capabilities;
        not_here("compute capabilities");
    }
}

template <class C> void set_config_route(C& config, std::string const& route) {
    if constexpr (HasBuildRoute<C>::value) {
        taken(config.setBuildRoute(route.c_str()) && route == config.getBuildRoute(), "build route");
    } else {
        (void)config;
        (void)route;
        not_here("build routes");
    }
}

template <class C> rust::String config_routes(C const& config) {
    if constexpr (HasBuildRoute<C const>::value) {
        return owned(config.getAllBuildRoutes());
    } else {
        (void)config;
        return rust::String();
    }
}

template <class N> bool mark_weights(N& network, std::string const& name) {
    if constexpr (HasMarkedWeights<N>::value) {
        return network.markWeightsRefittable(name.c_str());
    } else {
        (void)network;
        (void)name;
        not_here("weights marked one by one");
    }
}

inline void set_builder_threads(IBuilder& builder, std::int32_t threads) {
    taken(builder.setMaxThreads(threads) && builder.getMaxThreads() == threads, "number of threads");
}

inline void set_config_flag(IBuilderConfig& config, Flag which, bool on) {
    auto const number = number_of(which);
    if (number < 0) {
        not_here("such builder flag");
    }
    auto const flag = static_cast<nvinfer1::BuilderFlag>(number);
    if (on) {
        config.setFlag(flag);
    } else {
        config.clearFlag(flag);
    }
    taken(config.getFlag(flag) == on, "builder flag");
}

inline void set_config_sources(IBuilderConfig& config, rust::Slice<TacticSource const> sources) {
    nvinfer1::TacticSources bits = 0;
    for (auto const source : sources) {
        auto const number = number_of(source);
        if (number < 0) {
            not_here("such tactic source");
        }
        bits |= 1U << static_cast<std::uint32_t>(number);
    }
    taken(config.setTacticSources(bits) && config.getTacticSources() == bits, "tactic sources");
}

inline void set_config_memory(IBuilderConfig& config, std::int32_t number, std::uint64_t bytes) {
    auto const pool = static_cast<nvinfer1::MemoryPoolType>(number);
    config.setMemoryPoolLimit(pool, bytes);
    taken(config.getMemoryPoolLimit(pool) == bytes, "memory limit");
}

inline void set_config_preview(IBuilderConfig& config, PreviewFeature which) {
    auto const number = number_of(which);
    if (number < 0) {
        not_here("such preview feature");
    }
    auto const feature = static_cast<nvinfer1::PreviewFeature>(number);
    config.setPreviewFeature(feature, true);
    taken(config.getPreviewFeature(feature), "preview feature");
}

inline void load_plugin_library(IBuilder& builder, std::string const& path) {
    // Kept loaded: the plan's plugins are its code, and TensorRT unloads it with the registry.
    taken(builder.getPluginRegistry().loadLibrary(path.c_str()) != nullptr, "plugin library");
}

inline void serialize_plugins(IBuilderConfig& config, std::vector<std::string> const& paths) {
    std::vector<char const*> names;
    for (auto const& path : paths) {
        names.push_back(path.c_str());
    }
    auto const count = static_cast<std::int32_t>(names.size());
    config.setPluginsToSerialize(names.data(), count);
    taken(config.getNbPluginsToSerialize() == count, "plugin libraries to serialize");
}

} // namespace
} // namespace trtforge::TRTFORGE_SDK
