// The doubles of INetworkDefinition, IOptimizationProfile, ITimingCache and IPluginRegistry.
#pragma once

#include "common.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

namespace trtdouble {

class NetworkTensor final : public nvinfer1::ITensor, public nvinfer1::StubTensor {
  public:
    NetworkTensor(Tensor tensor, bool is_input) : tensor_(std::move(tensor)), is_input_(is_input) { mImpl = this; }
    char const* getName() const noexcept override { return tensor_.name.c_str(); }
    Dims getDimensions() const noexcept override { return tensor_.dims; }
    DataType getType() const noexcept override { return tensor_.type; }
    bool isNetworkInput() const noexcept override { return is_input_; }
    bool isNetworkOutput() const noexcept override { return !is_input_; }
    bool isShapeTensor() const noexcept override { return false; }
    bool isExecutionTensor() const noexcept override { return true; }
    char const* getDimensionName(std::int32_t index) const noexcept override {
        auto const& names = tensor_.dim_names;
        auto const i = static_cast<std::size_t>(index);
        return index < 0 || i >= names.size() || names[i].empty() ? nullptr : names[i].c_str();
    }

  private:
    Tensor tensor_;
    bool is_input_;
};

class Network final : public nvinfer1::INetworkDefinition, public nvinfer1::StubNetworkDefinition {
  public:
    explicit Network(Voice const& voice, void const* builder)
        : voice_(voice), lived_("INetworkDefinition", voice, builder) {
        mImpl = this;
    }
    // What the parser's double read.
    void take(Json json) {
        recording_ = Recording::from(json);
        json_ = std::move(json);
        for (auto const& tensor : recording_.inputs) {
            inputs_.push_back(std::make_unique<NetworkTensor>(tensor, true));
        }
        for (auto const& tensor : recording_.outputs) {
            if (!tensor.is_debug) {
                outputs_.push_back(std::make_unique<NetworkTensor>(tensor, false));
            }
        }
    }
    Json const& json() const { return json_; }
    Recording const& recording() const { return recording_; }

    std::int32_t getNbInputs() const noexcept override { return static_cast<std::int32_t>(inputs_.size()); }
    nvinfer1::ITensor* getInput(std::int32_t index) const noexcept override {
        return inputs_.at(static_cast<std::size_t>(index)).get();
    }
    std::int32_t getNbOutputs() const noexcept override { return static_cast<std::int32_t>(outputs_.size()); }
    nvinfer1::ITensor* getOutput(std::int32_t index) const noexcept override {
        return outputs_.at(static_cast<std::size_t>(index)).get();
    }
    std::int32_t getNbLayers() const noexcept override {
        return static_cast<std::int32_t>(recording_.layers.size());
    }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept override { voice_.record_with(recorder); }
    IErrorRecorder* getErrorRecorder() const noexcept override { return voice_.recorder(); }
    bool markWeightsRefittable(char const* name) noexcept override {
        option(std::string("refittable.") + name, "true");
        return !refused(voice_, "markWeightsRefittable");
    }
    bool markUnfusedTensorsAsDebugTensors() noexcept override {
        option("unfused_debug_tensors", "true");
        return !refused(voice_, "markUnfusedTensorsAsDebugTensors");
    }

  private:
    Voice voice_;
    Lived lived_;
    Json json_;
    Recording recording_;
    std::vector<std::unique_ptr<NetworkTensor>> inputs_;
    std::vector<std::unique_ptr<NetworkTensor>> outputs_;
};

class OptimizationProfile final : public nvinfer1::IOptimizationProfile, public nvinfer1::StubOptimizationProfile {
  public:
    explicit OptimizationProfile(Voice const& voice) : voice_(voice) { mImpl = this; }
    Profile const& profile() const { return profile_; }

    bool setDimensions(char const* input, OptProfileSelector select, Dims const& dims) noexcept override {
        if (refused(voice_, "setDimensions")) {
            return false;
        }
        auto& range = profile_[input];
        switch (select) {
        case OptProfileSelector::kMIN: range.min = dims; break;
        case OptProfileSelector::kOPT: range.opt = dims; break;
        default: range.max = dims; break;
        }
        return true;
    }
    Dims getDimensions(char const* input, OptProfileSelector select) const noexcept override {
        auto const found = profile_.find(input);
        if (found == profile_.end()) {
            return no_dims();
        }
        return select == OptProfileSelector::kMIN   ? found->second.min
               : select == OptProfileSelector::kOPT ? found->second.opt
                                                    : found->second.max;
    }
    bool setExtraMemoryTarget(float target) noexcept override {
        option("extra_memory_target", std::to_string(target));
        return target >= 0 && target <= 1;
    }
    bool isValid() const noexcept override {
        if (refused(voice_, "isValid")) {
            return false;
        }
        for (auto const& [input, range] : profile_) {
            for (std::int32_t i = 0; i < range.min.nbDims; ++i) {
                if (range.min.d[i] > range.opt.d[i] || range.opt.d[i] > range.max.d[i]) {
                    return false;
                }
            }
        }
        return true;
    }

  private:
    Voice voice_;
    Profile profile_;
};

// Plugin libraries are opened as the real one does; what they register is not used.
class PluginRegistry final : public nvinfer1::IPluginRegistry {
  public:
    explicit PluginRegistry(Voice const& voice) : voice_(voice) {}
    PluginLibraryHandle loadLibrary(char const* path) noexcept override {
        if (refused(voice_, "loadLibrary")) {
            return nullptr;
        }
        if (std::string const problem = open_plugin(path); !problem.empty()) {
            voice_.error(ErrorCode::kINVALID_ARGUMENT, "loadLibrary: " + problem);
            return nullptr;
        }
        option(std::string("plugin_library.") + path, "loaded");
        return this;
    }
    void setErrorRecorder(IErrorRecorder* recorder) noexcept override { voice_.record_with(recorder); }
    IErrorRecorder* getErrorRecorder() const noexcept override { return voice_.recorder(); }
    bool isParentSearchEnabled() const override { not_there("IPluginRegistry::isParentSearchEnabled"); }
    void setParentSearchEnabled(bool) override { not_there("IPluginRegistry::setParentSearchEnabled"); }
    void deregisterLibrary(PluginLibraryHandle) noexcept override {}
    bool registerCreator(nvinfer1::IPluginCreatorInterface&, char const*) noexcept override {
        not_there("IPluginRegistry::registerCreator");
    }
    nvinfer1::IPluginCreatorInterface* const* getAllCreators(std::int32_t*) const noexcept override {
        not_there("IPluginRegistry::getAllCreators");
    }
    nvinfer1::IPluginCreatorInterface* getCreator(char const*, char const*, char const*) noexcept override {
        not_there("IPluginRegistry::getCreator");
    }
    bool deregisterCreator(nvinfer1::IPluginCreatorInterface const&) noexcept override {
        not_there("IPluginRegistry::deregisterCreator");
    }
    nvinfer1::IPluginResource* acquirePluginResource(char const*, nvinfer1::IPluginResource*) noexcept override {
        not_there("IPluginRegistry::acquirePluginResource");
    }
    std::int32_t releasePluginResource(char const*) noexcept override {
        not_there("IPluginRegistry::releasePluginResource");
    }
    nvinfer1::IPluginCreatorInterface* const* getAllCreatorsRecursive(std::int32_t*) noexcept override {
        not_there("IPluginRegistry::getAllCreatorsRecursive");
    }

  private:
    Voice voice_;
};

// "double timing cache", the SDK's version, and how many kernels it has timed.
class TimingCache final : public nvinfer1::ITimingCache, public nvinfer1::StubTimingCache {
  public:
    static constexpr char const* kTag = "double timing cache ";

    TimingCache(Voice const& voice, std::int64_t version, std::int64_t entries)
        : voice_(voice), lived_("ITimingCache", voice), version_(version), entries_(entries) {
        mImpl = this;
    }
    // Null for what is no timing cache.
    static TimingCache* from(Voice const& voice, void const* blob, std::size_t size) {
        if (size == 0) {
            return new TimingCache(voice, NV_TENSORRT_VERSION, 0);
        }
        std::string const text(static_cast<char const*>(blob), size);
        std::string const tag = kTag;
        std::size_t const slash = text.find('/');
        if (text.compare(0, tag.size(), tag) != 0 || slash == std::string::npos || text.back() != '\n') {
            voice.error(ErrorCode::kINVALID_ARGUMENT, "createTimingCache: the bytes are no timing cache");
            return nullptr;
        }
        return new TimingCache(voice, std::atoll(text.c_str() + tag.size()), std::atoll(text.c_str() + slash + 1));
    }
    std::int64_t version() const { return version_; }
    std::int64_t entries() const { return entries_; }
    void time_kernels(std::int64_t count) { entries_ = std::max(entries_, count); }

    nvinfer1::IHostMemory* serialize() const noexcept override {
        if (refused(voice_, "ITimingCache::serialize")) {
            return nullptr;
        }
        return new HostMemory(voice_, kTag + std::to_string(version_) + "/" + std::to_string(entries_) + "\n");
    }
    bool reset() noexcept override {
        entries_ = 0;
        return true;
    }

  private:
    Voice voice_;
    Lived lived_;
    std::int64_t version_;
    std::int64_t entries_;
};

} // namespace trtdouble
