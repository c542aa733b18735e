// The double of IBuilder.
#pragma once

#include "config.h"

#include <chrono>
#include <thread>

namespace trtdouble {

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
    nvinfer1::IPluginRegistry& getPluginRegistry() noexcept override { return registry_; }
    nvinfer1::IHostMemory* buildSerializedNetwork(nvinfer1::INetworkDefinition& network,
                                                  nvinfer1::IBuilderConfig& config) noexcept override {
        auto const plan = build(static_cast<Network const&>(network), static_cast<Config&>(config));
        return plan.empty() ? nullptr : new HostMemory(voice_, plan);
    }
    // In several pieces, as the real one writes.
    bool buildSerializedNetworkToStream(nvinfer1::INetworkDefinition& network, nvinfer1::IBuilderConfig& config,
                                        nvinfer1::IStreamWriter& writer) noexcept override {
        auto const plan = build(static_cast<Network const&>(network), static_cast<Config&>(config));
        constexpr std::size_t kPiece = 1000;
        for (std::size_t at = 0; at < plan.size(); at += kPiece) {
            auto const size = static_cast<std::int64_t>(std::min(kPiece, plan.size() - at));
            if (writer.write(plan.data() + at, size) != size) {
                voice_.error(ErrorCode::kFAILED_EXECUTION, "buildSerializedNetworkToStream: the writer took no more");
                return false;
            }
        }
        return !plan.empty();
    }

  private:
    // Empty where it failed.
    std::string build(Network const& network, Config& config) {
        if (network.recording().inputs.empty()) {
            voice_.error(ErrorCode::kINVALID_CONFIG, "buildSerializedNetwork: the network is empty");
            return {};
        }
        auto const layers = static_cast<std::int64_t>(network.recording().layers.size());
        bool const strict = config.getFlag(nvinfer1::BuilderFlag::kERROR_ON_TIMING_CACHE_MISS);
        if (strict && (config.cache() == nullptr || config.cache()->entries() < layers)) {
            voice_.error(ErrorCode::kINVALID_CONFIG, "buildSerializedNetwork: the timing cache lacks kernels");
            return {};
        }
        if (!progress(config.getProgressMonitor())) {
            voice_.info("the build was cancelled");
            return {};
        }
        if (refused(voice_, "buildSerializedNetwork")) {
            return {};
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
        return magic() + json.dump();
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
    PluginRegistry registry_{voice_};
    std::int32_t threads_ = 1;
    std::vector<std::unique_ptr<OptimizationProfile>> profiles_;
};

} // namespace trtdouble
