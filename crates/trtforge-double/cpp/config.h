// The double of IBuilderConfig: keeps what is set, and tells it to the account.
#pragma once

#include "network.h"

namespace trtdouble {

class Config final : public nvinfer1::IBuilderConfig, public nvinfer1::StubBuilderConfig {
  public:
    Config(Voice const& voice, void const* builder) : voice_(voice), lived_("IBuilderConfig", voice, builder) {
        mImpl = this;
    }
    std::vector<Profile> const& profiles() const { return profiles_; }
    TimingCache* cache() const { return cache_; }

    void setFlags(nvinfer1::BuilderFlags flags) noexcept override {
        flags_ = flags;
        option("flags", std::to_string(flags));
    }
    nvinfer1::BuilderFlags getFlags() const noexcept override { return flags_; }
    void setFlag(nvinfer1::BuilderFlag flag) noexcept override {
        if (!refused(voice_, "setFlag")) {
            setFlags(flags_ | 1U << static_cast<std::uint32_t>(flag));
        }
    }
    void clearFlag(nvinfer1::BuilderFlag flag) noexcept override {
        setFlags(flags_ & ~(1U << static_cast<std::uint32_t>(flag)));
    }
    bool getFlag(nvinfer1::BuilderFlag flag) const noexcept override {
        return (flags_ >> static_cast<std::uint32_t>(flag) & 1U) != 0;
    }
    std::int32_t addOptimizationProfile(nvinfer1::IOptimizationProfile const* profile) noexcept override {
        if (refused(voice_, "addOptimizationProfile")) {
            return -1;
        }
        profiles_.push_back(static_cast<OptimizationProfile const*>(profile)->profile());
        return static_cast<std::int32_t>(profiles_.size()) - 1;
    }
    std::int32_t getNbOptimizationProfiles() const noexcept override {
        return static_cast<std::int32_t>(profiles_.size());
    }
#if !TRTFORGE_DOUBLE_IS_RTX // which has none
    nvinfer1::ITimingCache* createTimingCache(void const* blob, std::size_t size) const noexcept override {
        return refused(voice_, "createTimingCache") ? nullptr : TimingCache::from(voice_, blob, size);
    }
    bool setTimingCache(nvinfer1::ITimingCache const& cache, bool ignore_mismatch) noexcept override {
        auto* mine = const_cast<TimingCache*>(static_cast<TimingCache const*>(&cache));
        if (refused(voice_, "setTimingCache") || (mine->version() != NV_TENSORRT_VERSION && !ignore_mismatch)) {
            return false;
        }
        cache_ = mine;
        return true;
    }
    nvinfer1::ITimingCache const* getTimingCache() const noexcept override { return cache_; }
#endif
    void setProgressMonitor(nvinfer1::IProgressMonitor* monitor) noexcept override { monitor_ = monitor; }
    nvinfer1::IProgressMonitor* getProgressMonitor() const noexcept override { return monitor_; }
    void setPluginsToSerialize(char const* const* paths, std::int32_t count) noexcept override {
        plugins_.assign(paths, paths + count);
        option("plugins_to_serialize", std::to_string(count));
    }
    std::int32_t getNbPluginsToSerialize() const noexcept override {
        return static_cast<std::int32_t>(plugins_.size());
    }
    char const* getPluginToSerialize(std::int32_t index) const noexcept override {
        return plugins_.at(static_cast<std::size_t>(index)).c_str();
    }
    void setMemoryPoolLimit(nvinfer1::MemoryPoolType pool, std::size_t bytes) noexcept override {
        auto const number = static_cast<std::int32_t>(pool);
        if (!refused(voice_, "setMemoryPoolLimit")) {
            pools_[number] = bytes;
            option("memory_pool." + std::to_string(number), std::to_string(bytes));
        }
    }
    std::size_t getMemoryPoolLimit(nvinfer1::MemoryPoolType pool) const noexcept override {
        auto const found = pools_.find(static_cast<std::int32_t>(pool));
        return found == pools_.end() ? kTotalMemory : found->second;
    }
    void setPreviewFeature(nvinfer1::PreviewFeature feature, bool enable) noexcept override {
        keep("preview." + std::to_string(static_cast<std::int32_t>(feature)), enable ? 1 : 0);
    }
    bool getPreviewFeature(nvinfer1::PreviewFeature feature) const noexcept override {
        return kept("preview." + std::to_string(static_cast<std::int32_t>(feature)), 0) != 0;
    }

    bool setBuildRoute(char const* route) noexcept override {
        route_ = route;
        option("build_route", route_);
        return !refused(voice_, "setBuildRoute");
    }
    char const* getBuildRoute() const noexcept override { return route_.c_str(); }
    char const* getAllBuildRoutes() const noexcept override { return "double-route-a;double-route-b"; }

// An option that is one number: the setter tells the account, the getter gives it back.
#define TRTFORGE_DOUBLE_OPTION(Type, Name, key, otherwise)                                                             \
    void set##Name(Type value) noexcept override { keep(key, static_cast<std::int64_t>(value)); }                      \
    Type get##Name() const noexcept override { return static_cast<Type>(kept(key, otherwise)); }
#define TRTFORGE_DOUBLE_TAKEN_OPTION(Type, Name, key, otherwise)                                                       \
    bool set##Name(Type value) noexcept override { return keep(key, static_cast<std::int64_t>(value)); }               \
    Type get##Name() const noexcept override { return static_cast<Type>(kept(key, otherwise)); }

    TRTFORGE_DOUBLE_OPTION(std::int32_t, BuilderOptimizationLevel, "optimization_level", 3)
    TRTFORGE_DOUBLE_OPTION(nvinfer1::ProfilingVerbosity, ProfilingVerbosity, "profiling_verbosity", 0)
    TRTFORGE_DOUBLE_OPTION(nvinfer1::HardwareCompatibilityLevel, HardwareCompatibilityLevel, "hardware_compatibility", 0)
    TRTFORGE_DOUBLE_OPTION(nvinfer1::RuntimePlatform, RuntimePlatform, "runtime_platform", 0)
    TRTFORGE_DOUBLE_OPTION(nvinfer1::EngineCapability, EngineCapability, "engine_capability", 0)
    TRTFORGE_DOUBLE_OPTION(std::int32_t, AvgTimingIterations, "average_timing_iterations", 1)
    TRTFORGE_DOUBLE_OPTION(std::int32_t, MaxNbTactics, "max_tactics", -1)
    TRTFORGE_DOUBLE_TAKEN_OPTION(nvinfer1::TacticSources, TacticSources, "tactic_sources", 0)
    TRTFORGE_DOUBLE_TAKEN_OPTION(std::int32_t, MaxAuxStreams, "max_auxiliary_streams", -1)
    TRTFORGE_DOUBLE_TAKEN_OPTION(nvinfer1::TilingOptimizationLevel, TilingOptimizationLevel, "tiling_optimization_level", 0)
    TRTFORGE_DOUBLE_TAKEN_OPTION(std::int64_t, L2LimitForTiling, "tiling_l2_bytes", -1)
#if TRTFORGE_DOUBLE_IS_RTX
    TRTFORGE_DOUBLE_TAKEN_OPTION(std::int32_t, NbComputeCapabilities, "compute_capabilities", 0)
    bool setComputeCapability(nvinfer1::ComputeCapability capability, std::int32_t index) noexcept override {
        return keep("compute_capability." + std::to_string(index), static_cast<std::int64_t>(capability));
    }
    nvinfer1::ComputeCapability getComputeCapability(std::int32_t index) const noexcept override {
        return static_cast<nvinfer1::ComputeCapability>(kept("compute_capability." + std::to_string(index), 0));
    }
#endif
#undef TRTFORGE_DOUBLE_OPTION
#undef TRTFORGE_DOUBLE_TAKEN_OPTION

  private:
    bool keep(std::string const& key, std::int64_t value) {
        if (refused(voice_, ("option " + key).c_str())) {
            return false;
        }
        options_[key] = value;
        option(key, std::to_string(value));
        return true;
    }
    std::int64_t kept(std::string const& key, std::int64_t otherwise) const {
        auto const found = options_.find(key);
        return found == options_.end() ? otherwise : found->second;
    }

    Voice voice_;
    Lived lived_;
    nvinfer1::BuilderFlags flags_ = 0;
    std::vector<Profile> profiles_;
    std::vector<std::string> plugins_;
    std::string route_;
    std::map<std::int32_t, std::size_t> pools_;
    std::map<std::string, std::int64_t> options_;
    TimingCache* cache_ = nullptr;
    nvinfer1::IProgressMonitor* monitor_ = nullptr;
};

} // namespace trtdouble
