// The double of IBuilderConfig: keeps what is set, tells it to the account, and builds with it.
#pragma once

#include "builder.h"

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
    std::map<std::int32_t, std::size_t> pools_;
    std::map<std::string, std::int64_t> options_;
    TimingCache* cache_ = nullptr;
    nvinfer1::IProgressMonitor* monitor_ = nullptr;
};

class Builder final : public nvinfer1::IBuilder, public nvinfer1::StubBuilder {
  public:
    explicit Builder(ILogger* logger) : voice_(logger, nullptr), lived_("IBuilder", voice_) { mImpl = this; }

    void setErrorRecorder(IErrorRecorder* recorder) noexcept override { voice_.record_with(recorder); }
    IErrorRecorder* getErrorRecorder() const noexcept override { return voice_.recorder(); }
    ILogger* getLogger() const noexcept override { return voice_.logger(); }
    bool setMaxThreads(std::int32_t threads) noexcept override {
        if (refused(voice_, "setMaxThreads")) {
            return false;
        }
        threads_ = threads;
        option("max_threads", std::to_string(threads));
        return threads > 0;
    }
    std::int32_t getMaxThreads() const noexcept override { return threads_; }
    nvinfer1::IBuilderConfig* createBuilderConfig() noexcept override {
        return refused(voice_, "createBuilderConfig") ? nullptr : new Config(voice_, &lived_);
    }
    nvinfer1::INetworkDefinition* createNetworkV2(nvinfer1::NetworkDefinitionCreationFlags) noexcept override {
        return refused(voice_, "createNetworkV2") ? nullptr : new Network(voice_, &lived_);
    }
    nvinfer1::IOptimizationProfile* createOptimizationProfile() noexcept override {
        if (refused(voice_, "createOptimizationProfile")) {
            return nullptr;
        }
        profiles_.push_back(std::make_unique<OptimizationProfile>(voice_));
        return profiles_.back().get();
    }
    nvinfer1::IHostMemory* buildSerializedNetwork(nvinfer1::INetworkDefinition& network,
                                                  nvinfer1::IBuilderConfig& config) noexcept override {
        return build(static_cast<Network const&>(network), static_cast<Config&>(config));
    }

  private:
    nvinfer1::IHostMemory* build(Network const& network, Config& config) {
        if (network.recording().inputs.empty()) {
            voice_.error(ErrorCode::kINVALID_CONFIG, "buildSerializedNetwork: the network is empty");
            return nullptr;
        }
        auto const layers = static_cast<std::int64_t>(network.recording().layers.size());
        bool const strict = config.getFlag(nvinfer1::BuilderFlag::kERROR_ON_TIMING_CACHE_MISS);
        if (strict && (config.cache() == nullptr || config.cache()->entries() < layers)) {
            voice_.error(ErrorCode::kINVALID_CONFIG, "buildSerializedNetwork: a timing cache miss");
            return nullptr;
        }
        if (!progress(config.getProgressMonitor())) {
            voice_.info("the build was cancelled");
            return nullptr;
        }
        if (refused(voice_, "buildSerializedNetwork")) {
            return nullptr;
        }
        if (config.cache() != nullptr) {
            config.cache()->time_kernels(layers);
        }
        Json json = network.json();
        Json profiles = Json::array();
        for (auto const& profile : config.profiles()) {
            profiles.push(to_json(profile));
        }
        json.set("profiles", profiles);
        json.set("sdk_version", Json(static_cast<std::int64_t>(NV_TENSORRT_VERSION)));
        return new HostMemory(voice_, magic() + json.dump());
    }

    // One phase inside another, as the real builder has; false: the monitor wants no more.
    static bool progress(nvinfer1::IProgressMonitor* monitor) {
        if (monitor == nullptr) {
            return true;
        }
        auto const steps = static_cast<std::int32_t>(number_from("TRTFORGE_DOUBLE_BUILD_STEPS", 3));
        std::chrono::milliseconds const pause(number_from("TRTFORGE_DOUBLE_STEP_MS", 0));
        monitor->phaseStart("Building (test double)", nullptr, 1);
        monitor->phaseStart("Timing (test double)", "Building (test double)", steps);
        bool go_on = true;
        for (std::int32_t step = 0; go_on && step < steps; ++step) {
            std::this_thread::sleep_for(pause);
            go_on = monitor->stepComplete("Timing (test double)", step);
        }
        monitor->phaseFinish("Timing (test double)");
        go_on = go_on && monitor->stepComplete("Building (test double)", 0);
        monitor->phaseFinish("Building (test double)");
        return go_on;
    }

    Voice voice_;
    Lived lived_;
    std::int32_t threads_ = 1;
    std::vector<std::unique_ptr<OptimizationProfile>> profiles_;
};

} // namespace trtdouble
